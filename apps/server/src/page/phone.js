// The screen: forms, buttons and texts.
import { Agent } from './agent.js';

const KEYS = '123456789*0#';
// The place of the login, if the user wants it kept: it ends with the tab.
const KEPT = 'login';

const part = (id) => document.getElementById(id);
let agent = null;
let call = null;
let tone = null;

function show(text) {
    part('state').textContent = text;
}

function logIn(user, password) {
    agent?.close();
    agent = new Agent({
        user, password, domain: location.hostname,
        onState(text, isReady) {
            show(text);
            part('phone').hidden = !isReady && !call;
            part('login').hidden = isReady || Boolean(call) || text === 'Connecting';
            part('start').disabled = !isReady;
            if (isReady && !call) part('target').focus();
        },
        onCall: follow,
    });
}

// Shows `begun`, and what becomes of it.
function follow(begun) {
    call = begun;
    call.onChange = () => { if (call === begun) showCall(); };
    showCall();
    if (call.state === 'ringing') part('answer').focus();
}

function showCall() {
    const { state, name, text, isHeld, isMuted, sound } = call;
    const words = { ringing: `${name} calls`, answering: `${name} calls`, calling: name, talking: `In a call with ${name}`, ended: name };
    const rest = isHeld && state === 'talking' ? 'held by the other end' : text;
    part('talk').textContent = rest ? `${words[state]}: ${rest}` : words[state];
    const isOver = state === 'ended';
    part('call').hidden = false;
    part('dial').hidden = !isOver;
    part('answer').hidden = state !== 'ringing';
    part('hang').hidden = isOver;
    part('mute').hidden = part('keys').hidden = state !== 'talking';
    part('mute').setAttribute('aria-pressed', String(isMuted));
    if (part('sound').srcObject !== (sound ?? null)) part('sound').srcObject = sound ?? null;
    document.title = state === 'ringing' ? `${name} calls` : 'Telephone';
    ring(state === 'ringing');
    if (isOver) call = null;
}

// Begins or ends the tone of an incoming call.
function ring(isRinging) {
    if (isRinging === Boolean(tone)) return;
    if (!isRinging) {
        tone.close();
        tone = null;
        return;
    }
    tone = new AudioContext();
    const [bell, rhythm, gain] = [new OscillatorNode(tone, { frequency: 440 }),
        new OscillatorNode(tone, { type: 'square', frequency: 0.5 }), new GainNode(tone, { gain: 0.1 })];
    rhythm.connect(new GainNode(tone, { gain: 0.1 })).connect(gain.gain);
    bell.connect(gain).connect(tone.destination);
    bell.start();
    rhythm.start();
}

part('login').addEventListener('submit', (event) => {
    event.preventDefault();
    const [user, password] = [part('user').value.trim(), part('password').value];
    if (part('keep').checked) sessionStorage.setItem(KEPT, JSON.stringify([user, password]));
    else sessionStorage.removeItem(KEPT);
    part('password').value = '';
    logIn(user, password);
});

part('dial').addEventListener('submit', (event) => {
    event.preventDefault();
    if (!call) follow(agent.dial(part('target').value));
});

part('answer').addEventListener('click', () => call?.answer());
part('hang').addEventListener('click', () => call?.hangUp());
part('mute').addEventListener('click', () => call?.mute());

part('logout').addEventListener('click', () => {
    sessionStorage.removeItem(KEPT);
    agent.close();
    agent = null;
    part('phone').hidden = true;
    part('login').hidden = false;
    show('Not logged in');
});

for (const key of KEYS) {
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: key });
    button.addEventListener('click', () => call?.press(key));
    part('keys').append(button);
}

document.addEventListener('keydown', ({ key, target }) => {
    if (call?.state === 'talking' && target.tagName !== 'INPUT' && key.length === 1 && KEYS.includes(key)) call.press(key);
});

window.addEventListener('beforeunload', (event) => { if (call) event.preventDefault(); });
window.addEventListener('pagehide', () => agent?.close());

const kept = sessionStorage.getItem(KEPT);
if (kept) logIn(...JSON.parse(kept));
