// A user of a page telephones with JsSIP. The page's server has the commands, one at a time: `call USER`, `answer`, `hang up`,
// `press KEYS`, `hold`, `resume`, `restart` (ICE). The microphone is a tone; the tone that is heard is reported.
import JsSIP from 'jssip';

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

export async function telephone({ url, domain, password, user, hertz }, say) {
    const context = new AudioContext();
    const mediaStream = tone(context, Number(hertz));
    const ua = new JsSIP.UA({
        sockets: [new JsSIP.WebSocketInterface(url)],
        uri: `sip:${user}@${domain}`,
        password,
        session_timers: false,
    });
    let session = null;
    ua.on('newRTCSession', ({ originator, session: begun }) => {
        session = begun;
        if (originator === 'remote') say('it rings');
        begun.on('progress', () => { if (originator === 'local') say('rings there'); });
        begun.on('confirmed', () => say('in a call'));
        begun.on('hold', ({ originator: by }) => say(`held by ${by}`));
        begun.on('unhold', ({ originator: by }) => say(`resumed by ${by}`));
        begun.on('ended', ({ originator: by, cause }) => say(`ended by ${by}: ${cause}`));
        begun.on('failed', ({ originator: by, cause }) => say(`failed by ${by}: ${cause}`));
        const follow = (connection) => {
            connection.addEventListener('track', ({ streams, track }) => {
                listen(context, streams[0] ?? new MediaStream([track]), say);
            });
            connection.addEventListener('connectionstatechange', () => {
                say(`media ${connection.connectionState}`);
            });
        };
        if (begun.connection) follow(begun.connection);
        else begun.on('peerconnection', ({ peerconnection }) => follow(peerconnection));
    });
    const commands = {
        call: (to) => ua.call(`sip:${to}@${domain}`, { mediaStream }),
        answer: () => session.answer({ mediaStream }),
        hang: () => session.terminate(),
        press: (keys) => session.sendDTMF(keys, { transportType: 'RFC2833', duration: 120 }),
        hold: () => session.hold(),
        resume: () => session.unhold(),
        restart: () => session.renegotiate({ rtcOfferConstraints: { iceRestart: true } }),
    };
    ua.on('registered', () => say('registered'));
    ua.on('registrationFailed', ({ cause }) => say(`error: not registered: ${cause}`));
    ua.start();
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
