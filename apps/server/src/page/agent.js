// The connection to the server, the registration, and the requests of both directions.
import { Call } from './call.js';
import { METHODS, Message, credentials, parameter, respond, token } from './sip.js';

// The longest wait for the response to a request, in milliseconds (timer F of RFC 3261).
const PATIENCE = 32_000;
// The longest wait for the answer to a call that rings.
const RINGS = 180_000;
const EXPIRES = 600;
const AGENT = ['User-Agent', 'Barebell page'];

export class Agent {
    #socket = null;
    #waiting = new Map();
    #timer = 0;
    #pause = 1;
    #sequence = 0;
    #isWanted = true;
    #isRegistered = false;
    #registration = token();

    // `onState` gets a text and true if calls are possible, `onCall` a call of the other direction.
    constructor({ user, domain, password, onState, onCall }) {
        const [name, given] = user.split('@');
        this.user = name;
        this.domain = given || domain;
        this.password = password;
        this.onState = onState;
        this.onCall = onCall;
        // The name that a page has for itself (RFC 7118 section 5).
        this.host = `${token()}.invalid`;
        this.address = `sip:${encodeURIComponent(name)}@${this.domain}`;
        this.contact = `<sip:${token()}@${this.host};transport=ws>`;
        this.call = null;
        this.#connect();
    }

    #connect() {
        this.onState('Connecting', false);
        const socket = new WebSocket(`wss://${location.host}/`, 'sip');
        this.#socket = socket;
        socket.onopen = () => this.#register();
        socket.onmessage = ({ data }) => this.#receive(data);
        socket.onclose = () => this.#lose();
    }

    // True if requests reach the server.
    get isReady() {
        return this.#isRegistered;
    }

    // Opens another connection: over the present one no request is answered.
    reconnect() {
        const socket = this.#socket;
        socket.onclose = socket.onmessage = null;
        socket.close();
        this.#lose();
    }

    #lose() {
        clearTimeout(this.#timer);
        this.#isRegistered = false;
        this.#waiting.forEach(({ finish }) => finish(new Message('SIP/2.0 503 No connection', [])));
        this.call?.lose();
        if (!this.#isWanted) return;
        this.onState(`No connection to the server; the next attempt is in ${this.#pause} s`, false);
        this.#timer = setTimeout(() => this.#connect(), this.#pause * 1000);
        this.#pause = Math.min(this.#pause * 2, 60);
    }

    async #register(expires = EXPIRES) {
        const uri = `sip:${this.domain}`;
        const fields = () => [
            ['From', `<${this.address}>;tag=${token()}`], ['To', `<${this.address}>`],
            ['Call-ID', this.#registration], ['Contact', this.contact], ['Expires', expires],
        ];
        const { response } = await this.ask('REGISTER', uri, () => ++this.#sequence, fields);
        if (!this.#isWanted || expires === 0) return;
        if (response.status === 423) {
            const least = Number(response.get('min-expires'));
            if (least > expires) return this.#register(least);
        }
        if (response.status >= 200 && response.status < 300) {
            this.#pause = 1;
            const isNew = !this.#isRegistered;
            this.#isRegistered = true;
            const own = response.list('contact').find((contact) => contact.includes(this.host)) ?? '';
            const granted = Number(parameter(own, 'expires') || response.get('expires')) || expires;
            this.#timer = setTimeout(() => this.#register(expires), granted * 800);
            this.onState(`Logged in as ${this.user}`, true);
            if (isNew) this.call?.resume();
        } else if ([401, 403, 404, 407].includes(response.status)) {
            this.#isRegistered = false;
            const offers = response.all('www-authenticate').some((value) => /SHA-256\b/i.test(value));
            this.close();
            this.onState(response.status === 401 && !offers
                ? 'The server does not offer the digest SHA-256, which this page needs' : 'Name or password is wrong', false);
        } else {
            // The server is busy, or it is gone: the connection is opened again after a pause.
            this.#socket.close();
        }
    }

    // Ends the registration and the connection.
    close() {
        this.call?.hangUp();
        this.#isWanted = false;
        clearTimeout(this.#timer);
        const socket = this.#socket;
        (this.#isRegistered ? this.#register(0) : Promise.resolve()).then(() => socket.close());
    }

    send(message) {
        if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(String(message));
    }

    // Sends a request, and once more with credentials if the server asks for them. `next` returns the number in CSeq. The result
    // has the last request and its final response. `onBegin` gets each request, `onProgress` each provisional response.
    async ask(method, uri, next, fields, { body = '', onBegin, onProgress } = {}) {
        let proof = [];
        for (;;) {
            const request = this.request(method, uri, next(), [...fields(), ...proof], body);
            onBegin?.(request);
            const response = await this.#transact(request, onProgress);
            if (![401, 407].includes(response.status) || proof.length) return { request, response };
            const found = await credentials(response, { method, uri, user: this.user, password: this.password });
            if (!found) return { request, response };
            proof = [found];
        }
    }

    // A request with a new branch.
    request(method, uri, sequence, fields, body = '') {
        const type = body ? [['Content-Type', 'application/sdp']] : [];
        return new Message(`${method} ${uri} SIP/2.0`, [
            ['Via', `SIP/2.0/WSS ${this.host};branch=z9hG4bK${token()}`], ['Max-Forwards', '70'], ...fields,
            ['CSeq', `${sequence} ${method}`], ['Allow', METHODS], AGENT, ...type,
        ], body);
    }

    // The ACK or CANCEL of an INVITE, with its branch.
    follow(invite, method, to) {
        const keep = ['via', 'max-forwards', 'route', 'from', 'call-id'];
        const fields = invite.fields.filter(([name]) => keep.includes(name.toLowerCase()));
        const uri = invite.first.split(' ')[1];
        return new Message(`${method} ${uri} SIP/2.0`, [...fields, ['To', to], ['CSeq', `${invite.sequence} ${method}`], AGENT]);
    }

    cancel(invite) {
        const cancel = this.follow(invite, 'CANCEL', invite.get('to'));
        return this.#transact(cancel);
    }

    #transact(request, onProgress) {
        const key = request.branch + request.method;
        return new Promise((resolve) => {
            const timeout = new Message('SIP/2.0 408 Request Timeout', []);
            const wait = (time) => setTimeout(() => transaction.finish(timeout), time);
            const transaction = {
                request,
                timer: wait(PATIENCE),
                finish: (response) => {
                    clearTimeout(transaction.timer);
                    this.#waiting.delete(key);
                    resolve(response);
                },
                progress: (response) => {
                    clearTimeout(transaction.timer);
                    transaction.timer = wait(request.method === 'INVITE' ? RINGS : PATIENCE);
                    onProgress?.(response);
                },
            };
            this.#waiting.set(key, transaction);
            this.send(request);
        });
    }

    async #receive(data) {
        const message = Message.parse(typeof data === 'string' ? data : await data.text());
        if (!message) return;
        if (!message.status) return this.#serve(message);
        const transaction = this.#waiting.get(message.branch + message.method);
        const { status } = message;
        if (message.method === 'INVITE' && status >= 300) {
            // The final response is acknowledged, also where it comes again.
            const invite = transaction?.request ?? this.call?.invite;
            if (invite?.branch === message.branch) this.send(this.follow(invite, 'ACK', message.get('to')));
        }
        if (transaction) return status < 200 ? transaction.progress(message) : transaction.finish(message);
        if (message.method === 'INVITE' && status >= 200 && status < 300) this.call?.repeated(message);
    }

    #serve(request) {
        const { method } = request;
        const isOurs = this.call?.has(request);
        const answer = (status, reason, options) => {
            if (method !== 'ACK') this.send(respond(request, status, reason, { tag: token(), ...options }));
        };
        if (!METHODS.split(', ').includes(method)) return answer(405, 'Method Not Allowed', { fields: [['Allow', METHODS]] });
        if (isOurs) return this.call.serve(request);
        if (method === 'OPTIONS') return answer(200, 'OK', { fields: [['Allow', METHODS]] });
        if (method !== 'INVITE' || parameter(request.get('to'), 'tag')) {
            return answer(481, 'Call/Transaction Does Not Exist');
        }
        const required = request.list('require');
        if (required.length) return answer(420, 'Bad Extension', { fields: [['Unsupported', required.join(', ')]] });
        if (this.call) return answer(486, 'Busy Here');
        this.call = Call.incoming(this, request);
        this.onCall(this.call);
    }

    // Calls `target`: a user or a number of the server, or an address.
    dial(target) {
        const address = target.trim().replace(/^sip:/i, '');
        const isNumber = /^\+?[\d\s()./-]+$/.test(address);
        const user = isNumber ? address.replace(/[^\d+]/g, '') : address;
        const uri = address.includes('@') ? encodeURI(`sip:${address}`) : `sip:${encodeURIComponent(user)}@${this.domain}`;
        this.call = Call.outgoing(this, uri.replace('%2B', '+'));
        return this.call;
    }
}
