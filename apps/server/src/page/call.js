// A call: its dialog, and its audio by WebRTC.
import { METHODS, nameOf, parameter, respond, token, uriOf } from './sip.js';

// The pauses between repetitions of the 200 to an INVITE, in milliseconds (RFC 3261 section 13.3.1.4).
const T1 = 500;
const T2 = 4_000;
const LAST = 32_000;
// The longest time without a path of the audio, in milliseconds. The server ends such a call then, too (RFC 7675 section 5.1).
const CUT = 30_000;
// The longest wait for the first response to another offer, in milliseconds. After it another connection is opened.
const SILENCE = 5_000;

const WORDS = {
    400: 'The server rejects the call', 403: 'This call is not allowed', 404: 'There is no such user or number',
    408: 'No answer', 415: 'The other end has no common audio', 480: 'The other end is not available',
    484: 'The number is incomplete', 486: 'Busy', 487: 'The call is cancelled', 488: 'The other end has no common audio',
    503: 'The server is overloaded or not reachable', 600: 'Busy', 603: 'The call is declined', 604: 'There is no such user or number',
};

const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const NO_AUDIO = 'The audio does not arrive';
const isSuccess = ({ status }) => status >= 200 && status < 300;

export class Call {
    #agent;
    #peer = null;
    #stream = null;
    #sequence = 0;
    #remoteSequence = 0;
    #ack = null;
    #answer = null;
    #timer = 0;
    #isCancelled = false;
    #canCancel = false;
    #sound = null;
    #hadPath = false;
    #cut = 0;
    #isOffering = false;
    #isRestarting = false;

    // The `state` is ringing (incoming), calling, talking or ended. `onChange` is called after a change.
    constructor(agent, properties) {
        this.#agent = agent;
        Object.assign(this, { text: '', isHeld: false, isMuted: false, invite: null, onChange() {}, ...properties });
    }

    static incoming(agent, invite) {
        const call = new Call(agent, {
            state: 'ringing', name: nameOf(invite.get('from')), invite, isIncoming: true, id: invite.get('call-id'), tag: token(),
            remote: invite.get('from'), target: uriOf(invite.get('contact')), routes: invite.list('record-route'),
        });
        call.local = `${invite.get('to')};tag=${call.tag}`;
        call.#remoteSequence = invite.sequence;
        call.#respond(invite, 180, 'Ringing');
        return call;
    }

    static outgoing(agent, uri) {
        const tag = token();
        const call = new Call(agent, {
            state: 'calling', name: nameOf(uri), isIncoming: false, id: token(), tag, text: 'Calling',
            local: `<${agent.address}>;tag=${tag}`, remote: `<${uri}>`, target: uri, routes: [],
        });
        call.#begin();
        return call;
    }

    has(request) {
        const tag = parameter(request.get('to'), 'tag');
        const isSame = request.get('call-id') === this.id && this.state !== 'ended';
        const isCancel = request.method === 'CANCEL' && this.isIncoming && request.branch === this.invite.branch;
        return isSame && (tag === this.tag || isCancel);
    }

    #change(changes) {
        Object.assign(this, changes);
        this.onChange(this);
    }

    // Ends the call here, and shows `text`.
    end(text) {
        if (this.state === 'ended') return;
        clearTimeout(this.#timer);
        clearTimeout(this.#cut);
        this.#stream?.getTracks().forEach((track) => track.stop());
        this.#peer?.close();
        if (this.#agent.call === this) this.#agent.call = null;
        this.#change({ state: 'ended', text });
    }

    #respond(request, status, reason, body = '') {
        const fields = [['Contact', this.#agent.contact], ['Allow', METHODS]];
        if (body) fields.push(['Content-Type', 'application/sdp']);
        const response = respond(request, status, reason, { tag: this.tag, fields, body });
        this.#agent.send(response);
        return response;
    }

    // Fields of a request of this dialog, without CSeq.
    #fields() {
        return [
            ...this.routes.map((route) => ['Route', route]),
            ['From', this.local], ['To', this.remote], ['Call-ID', this.id], ['Contact', this.#agent.contact],
        ];
    }

    // Opens the microphone and the connection for audio.
    async #open() {
        const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
        this.#stream = stream;
        if (this.state === 'ended') return stream.getTracks().forEach((track) => track.stop());
        this.#peer = new RTCPeerConnection();
        stream.getTracks().forEach((track) => this.#peer.addTrack(track, stream));
        this.#peer.ontrack = ({ streams, track }) => {
            this.#sound = streams[0] ?? new MediaStream([track]);
            this.#change({ sound: this.#sound });
        };
        this.#peer.onconnectionstatechange = () => this.#follow(this.#peer.connectionState);
    }

    // Follows the path of the audio. If it is lost, as by a change of the network, another one is looked for.
    #follow(state) {
        if (state === 'connected') {
            this.#hadPath = true;
            clearTimeout(this.#cut);
            this.#cut = 0;
            if (this.state === 'talking') this.#change({ text: '' });
        } else if (state === 'failed' && !this.#hadPath) {
            this.#leave(NO_AUDIO);
        } else if (['disconnected', 'failed'].includes(state) && this.state === 'talking') {
            this.#cut ||= setTimeout(() => this.#leave(NO_AUDIO), CUT);
            this.#change({ text: 'The audio is interrupted' });
            this.#restart();
        }
    }

    // The connection to the server is lost. A call that is answered goes on over the next one.
    lose() {
        if (this.state !== 'talking') this.end('The connection to the server is lost');
    }

    // Another connection to the server is open. It may come from another network.
    resume() {
        this.#restart();
    }

    // Offers other candidates (RFC 8445 section 9), until the other end has responded.
    async #restart() {
        if (this.#isRestarting) return;
        this.#isRestarting = true;
        while (this.state === 'talking' && this.#agent.isReady && await this.#mustRepeat()) {
            // The pause of the end that has begun the call, and the shorter one of the other end (RFC 3261 section 14.1).
            await sleep(this.isIncoming ? Math.random() * 2_000 : Math.random() * 1_900 + 2_100);
        }
        this.#isRestarting = false;
    }

    // Makes such an offer. Returns true if it must be repeated: the other end offers at the same time, or the connection was lost.
    async #mustRepeat() {
        if (this.#answer || this.#peer.signalingState !== 'stable') return true;
        this.#isOffering = true;
        try {
            const body = await this.#describe(await this.#peer.createOffer({ iceRestart: true }));
            const silence = setTimeout(() => this.#agent.reconnect(), SILENCE);
            let invite;
            const { response } = await this.#agent.ask('INVITE', this.target, () => ++this.#sequence, () => this.#fields(), {
                body,
                onBegin: (request) => { invite = request; },
                onProgress: () => clearTimeout(silence),
            });
            clearTimeout(silence);
            if (isSuccess(response)) {
                if (response.get('contact')) this.target = uriOf(response.get('contact'));
                this.#acknowledge(invite);
                await this.#take('answer', response.description);
                return false;
            }
            if ([408, 481].includes(response.status)) this.#leave('The other end has left the call');
            await this.#rollBack();
            return [491, 503].includes(response.status);
        } catch {
            this.#leave(NO_AUDIO);
            return false;
        } finally {
            this.#isOffering = false;
        }
    }

    #acknowledge(invite) {
        this.#ack = this.#agent.request('ACK', this.target, invite.sequence, this.#fields());
        this.#agent.send(this.#ack);
    }

    #rollBack() {
        return this.#peer.setLocalDescription({ type: 'rollback' }).catch(() => {});
    }

    // Sets the local description, and returns it with all candidates.
    async #describe(description) {
        const peer = this.#peer;
        await peer.setLocalDescription(description);
        if (peer.iceGatheringState !== 'complete') {
            await new Promise((done) => {
                peer.onicegatheringstatechange = () => { if (peer.iceGatheringState === 'complete') done(); };
                setTimeout(done, 2000);
            });
        }
        return peer.localDescription.sdp;
    }

    async #take(type, sdp) {
        await this.#peer.setRemoteDescription({ type, sdp });
        const isHeld = /^a=(sendonly|inactive)\s*$/m.test(sdp);
        if (isHeld !== this.isHeld) this.#change({ isHeld });
    }

    // The answer to the offer of `request`, or an offer where it has none.
    async #describeFor(request) {
        if (!request.description) return this.#describe(await this.#peer.createOffer());
        await this.#take('offer', request.description);
        return this.#describe(await this.#peer.createAnswer());
    }

    async #begin() {
        let offer;
        try {
            await this.#open();
            if (this.state === 'ended') return;
            offer = await this.#describe(await this.#peer.createOffer());
        } catch (error) {
            return this.end(`The microphone cannot be used: ${error.message}`);
        }
        if (this.state === 'ended') return;
        const { response } = await this.#agent.ask('INVITE', this.target, () => ++this.#sequence, () => this.#fields(), {
            body: offer,
            onBegin: (invite) => { this.invite = invite; this.#canCancel = false; },
            onProgress: (progress) => {
                this.#canCancel = true;
                if (this.#isCancelled) return this.#cancel();
                if (progress.status > 100) this.#change({ text: 'It rings' });
            },
        });
        this.#canCancel = false;
        if (!isSuccess(response)) {
            const reason = response.first.slice('SIP/2.0 '.length);
            if (response.status === 408) this.#agent.cancel(this.invite);
            return this.end(WORDS[response.status] ?? `The call fails: ${reason}`);
        }
        this.remote = response.get('to');
        this.target = uriOf(response.get('contact'));
        this.routes = response.list('record-route').reverse();
        this.#acknowledge(this.invite);
        if (this.#isCancelled || this.state === 'ended') return this.#leave('The call is cancelled');
        try {
            await this.#take('answer', response.description);
            this.#change({ state: 'talking', text: '' });
        } catch {
            this.#leave('The other end has no common audio');
        }
    }

    // A 2xx to the INVITE that comes again, or that of another phone, whose call is ended.
    repeated(response) {
        if (response.get('call-id') !== this.id || !this.#ack) return;
        if (response.get('to') === this.remote) return this.#agent.send(this.#ack);
        if (this.isIncoming) return;
        const other = new Call(this.#agent, {
            ...this, state: 'talking', onChange() {}, remote: response.get('to'), target: uriOf(response.get('contact')),
            routes: response.list('record-route').reverse(),
        });
        other.#sequence = this.invite.sequence;
        this.#agent.send(this.#agent.request('ACK', other.target, other.#sequence, other.#fields()));
        other.#bye();
    }

    async answer() {
        if (this.state !== 'ringing') return;
        const { invite } = this;
        this.#change({ state: 'answering', text: 'Connecting' });
        let body;
        try {
            await this.#open();
            body = await this.#describeFor(invite);
        } catch (error) {
            if (this.state === 'ended') return;
            this.#respond(invite, 488, 'Not Acceptable Here');
            return this.end(`The call cannot be answered: ${error.message}`);
        }
        if (this.state === 'ended') return;
        this.#accept(invite, body);
        this.#change({ state: 'talking', text: '' });
    }

    // Sends the 200 until its ACK arrives.
    #accept(invite, body) {
        const response = this.#respond(invite, 200, 'OK', body);
        this.#answer = { sequence: invite.sequence, isOffer: !invite.description };
        const again = (pause, spent) => {
            this.#timer = setTimeout(() => {
                if (spent > LAST) return this.#leave('The other end does not confirm the call');
                this.#agent.send(response);
                again(Math.min(pause * 2, T2), spent + pause);
            }, pause);
        };
        clearTimeout(this.#timer);
        again(T1, 0);
    }

    // Handles a request of this call.
    async serve(request) {
        const { method } = request;
        if (method === 'CANCEL') {
            this.#respond(request, 200, 'OK');
            if (!['ringing', 'answering'].includes(this.state)) return;
            this.#respond(this.invite, 487, 'Request Terminated');
            return this.end('The caller has hung up');
        }
        if (method === 'ACK') return this.#confirm(request);
        if (request.sequence <= this.#remoteSequence) return this.#respond(request, 500, 'Server Internal Error');
        this.#remoteSequence = request.sequence;
        if (method === 'BYE') {
            this.#respond(request, 200, 'OK');
            if (['ringing', 'answering'].includes(this.state)) this.#respond(this.invite, 487, 'Request Terminated');
            return this.end('The other end has hung up');
        }
        if (method === 'OPTIONS' || (method === 'UPDATE' && !request.description)) return this.#respond(request, 200, 'OK');
        if (this.state !== 'talking' || this.#answer || this.#isOffering) return this.#respond(request, 491, 'Request Pending');
        if (request.get('contact')) this.target = uriOf(request.get('contact'));
        try {
            const body = await this.#describeFor(request);
            if (this.state === 'ended') return;
            if (method === 'INVITE') this.#accept(request, body);
            else this.#respond(request, 200, 'OK', body);
        } catch {
            if (this.state === 'ended') return;
            await this.#peer.setRemoteDescription({ type: 'rollback' }).catch(() => {});
            this.#respond(request, 488, 'Not Acceptable Here');
        }
    }

    async #confirm(ack) {
        if (ack.sequence !== this.#answer?.sequence) return;
        const { isOffer } = this.#answer;
        clearTimeout(this.#timer);
        this.#answer = null;
        if (!isOffer) return;
        await this.#take('answer', ack.description).catch(() => this.#leave('The other end has no common audio'));
    }

    mute() {
        this.isMuted = !this.isMuted;
        this.#stream?.getAudioTracks().forEach((track) => { track.enabled = !this.isMuted; });
        this.#change({});
    }

    press(key) {
        const sender = this.#peer?.getSenders().find(({ dtmf }) => dtmf?.canInsertDTMF);
        sender?.dtmf.insertDTMF(sender.dtmf.toneBuffer + key, 120);
    }

    hangUp() {
        if (this.state === 'talking') return this.#leave('The call is over');
        if (this.isIncoming) {
            if (this.state !== 'ended') this.#respond(this.invite, 603, 'Decline');
            return this.end('The call is declined');
        }
        this.#isCancelled = true;
        if (this.#canCancel) this.#cancel();
        else if (!this.invite) this.end('The call is cancelled');
        else this.#change({ text: 'The call is being cancelled' });
    }

    // The final response to the INVITE ends the call.
    #cancel() {
        this.#canCancel = false;
        this.#agent.cancel(this.invite);
    }

    #leave(text) {
        if (this.state === 'ended') return;
        this.#bye();
        this.end(text);
    }

    #bye() {
        this.#agent.ask('BYE', this.target, () => ++this.#sequence, () => this.#fields());
    }
}
