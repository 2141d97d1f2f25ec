// A user of a page telephones with JsSIP or SIP.js. The page's server has the commands, one at a time: `call USER`, `answer`, `hang up`,
// `press KEYS`, `hold`, `resume`, `restart` (ICE), and with JsSIP `trickle`: later descriptions are without candidates. The microphone is a tone; the tone that is heard is reported.
import JsSIP from 'jssip';
import { Inviter, Registerer, SessionState, UserAgent, Web } from 'sip.js';

const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// A stream with a tone of this frequency.
function tone(context, hertz) {
    const oscillator = new OscillatorNode(context, { frequency: hertz });
    const gain = new GainNode(context, { gain: 0.5 });
    const output = context.createMediaStreamDestination();
    oscillator.connect(gain).connect(output);
    oscillator.start();
    return output.stream;
}

// Reports the loudest frequency of a received stream whenever it changes.
async function listen(context, stream, say) {
    // Chromium decodes a stream only if an element plays it.
    const element = new Audio();
    Object.assign(element, { srcObject: stream, muted: true });
    await element.play();
    const analyser = new AnalyserNode(context, { fftSize: 8192, smoothingTimeConstant: 0 });
    context.createMediaStreamSource(stream).connect(analyser);
    const bins = new Float32Array(analyser.frequencyBinCount);
    let before = null;
    while (stream.active) {
        analyser.getFloatFrequencyData(bins);
        const place = bins.reduce((best, level, at) => (level > bins[best] ? at : best), 0);
        const width = context.sampleRate / analyser.fftSize;
        const heard = bins[place] > -60 ? Math.round(place * width) : 0;
        if (before === null || Math.abs(heard - before) > width) say(`hears ${heard}`);
        before = heard;
        await sleep(50);
    }
}

// Reports the state of a connection, and its received tone.
function follow(context, connection, say) {
    connection.addEventListener('track', ({ streams, track }) => {
        listen(context, streams[0] ?? new MediaStream([track]), say);
    });
    connection.addEventListener('connectionstatechange', () => {
        say(`media ${connection.connectionState}`);
    });
}

// Each library has the commands.
const libraries = { jssip: byJsSip, 'sip.js': bySipJs };

export async function telephone(settings, say) {
    const context = new AudioContext();
    const commands = libraries[settings.library](settings, context, say);
    for (;;) {
        const command = await (await fetch('/next', { method: 'POST' })).text();
        if (command === '') {
            await sleep(50);
            continue;
        }
        const [name, argument] = command.split(' ');
        commands[name](argument);
    }
}

function byJsSip({ url, domain, password, user, hertz }, context, say) {
    const mediaStream = tone(context, Number(hertz));
    const ua = new JsSIP.UA({
        sockets: [new JsSIP.WebSocketInterface(url)],
        uri: `sip:${user}@${domain}`,
        password,
        session_timers: false,
    });
    let session = null;
    let trickles = false;
    ua.on('newRTCSession', ({ originator, session: begun }) => {
        session = begun;
        begun.on('sdp', (event) => {
            if (!trickles || event.originator !== 'local') return;
            event.sdp = event.sdp.replace(/^a=(candidate:.*|end-of-candidates)\r\n/gm, '');
            say(`${event.type} without candidates`);
        });
        if (originator === 'remote') say('it rings');
        begun.on('progress', () => { if (originator === 'local') say('rings there'); });
        begun.on('confirmed', () => say('in a call'));
        begun.on('hold', ({ originator: by }) => say(`held by ${by}`));
        begun.on('unhold', ({ originator: by }) => say(`resumed by ${by}`));
        begun.on('ended', ({ originator: by, cause }) => say(`ended by ${by}: ${cause}`));
        begun.on('failed', ({ originator: by, cause }) => say(`failed by ${by}: ${cause}`));
        if (begun.connection) follow(context, begun.connection, say);
        else begun.on('peerconnection', (event) => follow(context, event.peerconnection, say));
    });
    ua.on('registered', () => say('registered'));
    ua.on('registrationFailed', ({ cause }) => say(`error: not registered: ${cause}`));
    ua.start();
    return {
        call: (to) => ua.call(`sip:${to}@${domain}`, { mediaStream }),
        answer: () => session.answer({ mediaStream }),
        hang: () => session.terminate(),
        press: (keys) => session.sendDTMF(keys, { transportType: 'RFC2833', duration: 120 }),
        hold: () => session.hold(),
        resume: () => session.unhold(),
        restart: () => session.renegotiate({ rtcOfferConstraints: { iceRestart: true } }),
        trickle: () => { trickles = true; },
    };
}

function bySipJs({ url, domain, password, user, hertz }, context, say) {
    const stream = tone(context, Number(hertz));
    let session = null;
    const begin = (begun) => {
        session = begun;
        let isTheirs = false;
        begun.delegate = {
            onSessionDescriptionHandler: ({ peerConnection }) => follow(context, peerConnection, say),
            onBye: (bye) => { isTheirs = true; say('ended by remote: Terminated'); bye.accept(); },
        };
        begun.stateChange.addListener((state) => {
            if (state === SessionState.Established) say('in a call');
            if (state === SessionState.Terminated && !isTheirs) say('ended by local: Terminated');
        });
    };
    const ua = new UserAgent({
        uri: UserAgent.makeURI(`sip:${user}@${domain}`),
        transportOptions: { server: url },
        authorizationUsername: user,
        authorizationPassword: password,
        sessionDescriptionHandlerFactory: Web.defaultSessionDescriptionHandlerFactory(async () => stream),
        logLevel: 'warn',
        delegate: { onInvite: (invitation) => { begin(invitation); say('it rings'); invitation.progress(); } },
    });
    ua.start().then(() => new Registerer(ua).register({
        requestDelegate: {
            onAccept: () => say('registered'),
            onReject: ({ message }) => say(`error: not registered: ${message.statusCode}`),
        },
    }));
    // Another offer; `done` is said when it is accepted.
    const renew = (hold, offerOptions, done) => {
        const options = { hold, offerOptions };
        session.sessionDescriptionHandlerOptionsReInvite = options;
        session.invite({
            sessionDescriptionHandlerOptions: options,
            requestDelegate: { onAccept: () => say(done) },
        });
    };
    return {
        call: (to) => {
            begin(new Inviter(ua, UserAgent.makeURI(`sip:${to}@${domain}`)));
            session.invite();
        },
        answer: () => session.accept(),
        hang: () => session.bye(),
        press: (keys) => session.sessionDescriptionHandler.sendDtmf(keys, { duration: 120 }),
        hold: () => renew(true, {}, 'held by local'),
        resume: () => renew(false, {}, 'resumed by local'),
        restart: () => renew(false, { iceRestart: true }, 'restarted'),
    };
}
