// Two users of one page register over WebSocket. One sends the other a message, calls, and cancels.
// Events are reported to the page's server, one line each.
import JsSIP from 'jssip';
import { telephone } from './calls.js';
import { Inviter, Messager, Registerer, SessionState, UserAgent } from 'sip.js';

const settings = Object.fromEntries(new URLSearchParams(location.search));
const { url, domain, password } = settings;
const uriOf = (user) => `sip:${user}@${domain}`;

let last = Promise.resolve();
const say = (text) => {
    last = last.then(() => fetch('/said', { method: 'POST', body: text }));
};

const once = (register) => new Promise(register);

async function byJsSip() {
    const agent = (user) => new JsSIP.UA({
        sockets: [new JsSIP.WebSocketInterface(url)],
        uri: uriOf(user),
        password,
        session_timers: false,
    });
    const registered = (ua, user) => once((done) => {
        ua.on('registered', () => { say(`${user} is registered`); done(); });
        ua.on('registrationFailed', ({ cause }) => say(`${user} is not registered: ${cause}`));
        ua.start();
    });
    const [alice, bob] = [agent('alice'), agent('bob')];
    bob.on('newMessage', ({ originator, request }) => {
        if (originator === 'remote') say(`bob reads ${request.body}`);
    });
    bob.on('newRTCSession', ({ originator, session }) => {
        if (originator !== 'remote') return;
        say('bob hears it ring');
        session.on('failed', ({ cause }) => say(`for bob the call is over: ${cause}`));
    });
    await Promise.all([registered(alice, 'alice'), registered(bob, 'bob')]);
    await once((done) => alice.sendMessage(uriOf('bob'), 'hello', {
        eventHandlers: {
            succeeded: () => { say('the message has arrived'); done(); },
            failed: ({ cause }) => say(`the message has failed: ${cause}`),
        },
    }));
    await once((done) => {
        const session = alice.call(uriOf('bob'), {
            mediaConstraints: { audio: true, video: false },
            eventHandlers: {
                progress: () => { say('alice hears it ring'); session.terminate(); },
                failed: ({ cause }) => { say(`for alice the call is over: ${cause}`); done(); },
            },
        });
    });
    await once((done) => { alice.on('unregistered', done); alice.unregister(); });
    say('alice is not registered any more');
}

async function bySipJs() {
    const agent = (user, delegate) => new UserAgent({
        uri: UserAgent.makeURI(uriOf(user)),
        transportOptions: { server: url },
        authorizationUsername: user,
        authorizationPassword: password,
        delegate,
        logLevel: 'warn',
    });
    const alice = agent('alice', {});
    const bob = agent('bob', {
        onMessage: (message) => { say(`bob reads ${message.request.body}`); message.accept(); },
        onInvite: (invitation) => {
            say('bob hears it ring');
            invitation.stateChange.addListener((state) => {
                if (state === SessionState.Terminated) say('for bob the call is over: Canceled');
            });
            invitation.progress();
        },
    });
    const registered = async (ua, user) => {
        await ua.start();
        const registerer = new Registerer(ua);
        await once((done) => registerer.register({
            requestDelegate: {
                onAccept: () => { say(`${user} is registered`); done(); },
                onReject: ({ message }) => say(`${user} is not registered: ${message.statusCode}`),
            },
        }));
        return registerer;
    };
    const [registerer] = await Promise.all([registered(alice, 'alice'), registered(bob, 'bob')]);
    const target = UserAgent.makeURI(uriOf('bob'));
    await once((done) => new Messager(alice, target, 'hello').message({
        requestDelegate: {
            onAccept: () => { say('the message has arrived'); done(); },
            onReject: ({ message }) => say(`the message has failed: ${message.statusCode}`),
        },
    }));
    await once((done) => {
        const inviter = new Inviter(alice, target);
        inviter.stateChange.addListener((state) => {
            if (state !== SessionState.Terminated) return;
            say('for alice the call is over: Canceled');
            done();
        });
        inviter.invite({
            requestDelegate: {
                onProgress: ({ message }) => {
                    if (message.statusCode !== 180) return;
                    say('alice hears it ring');
                    inviter.cancel();
                },
            },
        });
    });
    await once((done) => registerer.unregister({ requestDelegate: { onAccept: done } }));
    say('alice is not registered any more');
}

window.addEventListener('error', ({ message }) => say(`error: ${message}`));
window.addEventListener('unhandledrejection', ({ reason }) => say(`error: ${reason}`));
const scenarios = { jssip: byJsSip, 'sip.js': bySipJs, calls: () => telephone(settings, say) };
scenarios[settings.scenario]().catch((error) => say(`error: ${error}`));
