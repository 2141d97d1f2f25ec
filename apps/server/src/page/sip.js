// SIP messages (RFC 3261), and the credentials of a request (RFC 8760).

const COMPACT = { v: 'via', f: 'from', t: 'to', i: 'call-id', m: 'contact', c: 'content-type', l: 'content-length' };

// The methods that this phone knows, as in Allow.
export const METHODS = 'INVITE, ACK, CANCEL, BYE, UPDATE, OPTIONS';

// A random token of this many bytes.
export function token(bytes = 8) {
    const random = crypto.getRandomValues(new Uint8Array(bytes));
    return Array.from(random, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export class Message {
    // `fields` are pairs of a name and a value.
    constructor(first, fields, body = '') {
        Object.assign(this, { first, fields, body });
    }

    // The message in `text`, or null.
    static parse(text) {
        const end = text.indexOf('\r\n\r\n');
        if (end < 0) return null;
        const [first, ...lines] = text.slice(0, end).replace(/\r\n[ \t]+/g, ' ').split('\r\n');
        const fields = lines.map((line) => {
            const colon = line.indexOf(':');
            return [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
        });
        const message = new Message(first, fields, text.slice(end + 4));
        const needed = ['via', 'from', 'to', 'call-id', 'cseq'];
        return needed.every((name) => message.get(name)) ? message : null;
    }

    all(name) {
        return this.fields.filter(([found]) => {
            const lower = found.toLowerCase();
            return (COMPACT[lower] ?? lower) === name;
        }).map(([, value]) => value);
    }

    get(name) {
        return this.all(name)[0] ?? '';
    }

    // The values of a header field with lists.
    list(name) {
        return this.all(name).flatMap((value) => value.match(/(?:"(?:[^"\\]|\\.)*"|<[^>]*>|[^,<"])+/g) ?? [])
            .map((value) => value.trim());
    }

    // The status code, or 0 for a request.
    get status() {
        return this.first.startsWith('SIP/2.0 ') ? Number(this.first.slice(8, 11)) : 0;
    }

    get method() {
        return this.status ? this.get('cseq').split(/\s+/)[1] : this.first.split(' ')[0];
    }

    get sequence() {
        return Number.parseInt(this.get('cseq'), 10);
    }

    get branch() {
        return parameter(this.get('via'), 'branch');
    }

    // The session description, or an empty string.
    get description() {
        return /^application\/sdp\b/i.test(this.get('content-type')) ? this.body : '';
    }

    toString() {
        const lines = this.fields.map(([name, value]) => `${name}: ${value}`);
        const length = new TextEncoder().encode(this.body).length;
        return [this.first, ...lines, `Content-Length: ${length}`, '', this.body].join('\r\n');
    }
}

// The parameter `name` of a header field, or an empty string.
export function parameter(value, name) {
    const parameters = value.replace(/^.*>/, '');
    return new RegExp(`;\\s*${name}\\s*=\\s*([^;,\\s]+)`, 'i').exec(parameters)?.[1] ?? '';
}

const QUOTED = /^\s*"((?:[^"\\]|\\.)*)"/;

// The URI of a From, To, Contact or Route.
export function uriOf(value) {
    const rest = value.replace(QUOTED, '');
    return /<([^>]*)>/.exec(rest)?.[1] ?? rest.split(';')[0].trim();
}

// The text that shows the other end: its display name, or the user of its URI.
export function nameOf(value) {
    const name = QUOTED.exec(value)?.[1].replace(/\\(.)/g, '$1') ?? value.split('<')[0].trim();
    const user = uriOf(value).replace(/^sips?:/i, '').replace(/@.*$/, '');
    if (value.includes('<') && name) return name;
    try {
        return decodeURIComponent(user);
    } catch {
        return user;
    }
}

// The response to `request`. `tag` is that of this end, where To has none.
export function respond(request, status, reason, { tag, fields = [], body = '' } = {}) {
    const to = request.get('to');
    const whole = parameter(to, 'tag') || !tag ? to : `${to};tag=${tag}`;
    const copy = (name, label) => request.all(name).map((value) => [label, value]);
    return new Message(`SIP/2.0 ${status} ${reason}`, [
        ...copy('via', 'Via'), ...copy('record-route', 'Record-Route'), ...copy('from', 'From'), ['To', whole],
        ...copy('call-id', 'Call-ID'), ...copy('cseq', 'CSeq'), ...fields,
    ], body);
}

async function sha256(text) {
    const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
    return Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const quoted = (text) => `"${text.replace(/[\\"]/g, '\\$&')}"`;

// The header field with the credentials that the `response` 401 or 407 asks for, or null where it offers no SHA-256.
export async function credentials(response, { method, uri, user, password }) {
    const [asked, given] = response.status === 407
        ? ['proxy-authenticate', 'Proxy-Authorization'] : ['www-authenticate', 'Authorization'];
    const challenges = response.all(asked).map((value) => Object.fromEntries(
        Array.from(value.matchAll(/([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,]+))/g),
            ([, name, text, word]) => [name.toLowerCase(), text?.replace(/\\(.)/g, '$1') ?? word]),
    ));
    const challenge = challenges.find(({ algorithm }) => algorithm?.toUpperCase() === 'SHA-256');
    if (!challenge) return null;
    const { realm, nonce, opaque } = challenge;
    const [count, own] = ['00000001', token()];
    const [secret, target] = await Promise.all([sha256(`${user}:${realm}:${password}`), sha256(`${method}:${uri}`)]);
    const digest = await sha256(`${secret}:${nonce}:${count}:${own}:auth:${target}`);
    const rest = opaque === undefined ? '' : `, opaque=${quoted(opaque)}`;
    return [given, `Digest username=${quoted(user)}, realm=${quoted(realm)}, nonce=${quoted(nonce)}, uri=${quoted(uri)}, `
        + `response="${digest}", algorithm=SHA-256, cnonce="${own}", qop=auth, nc=${count}${rest}`];
}
