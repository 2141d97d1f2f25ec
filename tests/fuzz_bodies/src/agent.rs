//! The user agent with requests and responses of strangers, peers and a registrar in any state.

use sip::message::{Response, reason_phrase};
use sip::{Flow, HeaderName, Instant, Message, Method, Transport};
use sip_ua::{Account, AccountId, Agent, CallId, Config, Event, Location, Password};
use std::net::SocketAddr;
use test_support::Random;

/// The limits of incoming calls and transactions.
const CALLS: usize = 3;
const TRANSACTIONS: usize = 24;
/// The limits of the owner's calls and of the requests of each.
const OWN: usize = 4;
/// The number of messages stored for answers, forgeries and retransmissions.
const KEPT: usize = 24;

const HERE: ([u8; 4], u16) = ([192, 0, 2, 1], 5060);
const PEER: ([u8; 4], u16) = ([192, 0, 2, 2], 5060);
const STRANGER: ([u8; 4], u16) = ([203, 0, 113, 9], 4444);

/// Header field lines with valid, unusual, huge and missing values.
const LINES: &[&str] = &[
    "Session-Expires: 0",
    "Session-Expires: 1;refresher=uac",
    "Session-Expires: 4294967295;refresher=uas",
    "Session-Expires: 99999999999",
    "Min-SE: 0",
    "Min-SE: 4294967295",
    "Supported: timer, 100rel, replaces, 199",
    "Require: 100rel",
    "Require: timer",
    "Require: unheard-of",
    "RSeq: 1",
    "RSeq: 2",
    "RSeq: 4294967295",
    "RAck: 1 1 INVITE",
    "RAck: 4294967295 0 INVITE",
    "Replaces: x;to-tag=1;from-tag=2",
    "Replaces: a@b;to-tag=1;from-tag=2;early-only",
    "Refer-To: <sip:carol@192.0.2.2>",
    "Refer-To: <sip:carol@192.0.2.2?Replaces=a%40b%3Bto-tag%3D1%3Bfrom-tag%3D2>",
    "Refer-To: <tel:+1>",
    "Refer-To: <sip:a@b;method=BYE>",
    "Event: refer",
    "Subscription-State: terminated;reason=noresource",
    "Retry-After: 0",
    "Retry-After: 4294967295",
    "Min-Expires: 4294967295",
    "Min-Expires: 700",
    "Expires: 0",
    "Expires: 1",
    "Expires: 4294967295",
    "Contact: <sip:x@192.0.2.2>, <sip:y@203.0.113.9>;q=0.5, <tel:+1>, *",
    "Contact: <sip:%00@192.0.2.2;lr;maddr=203.0.113.9?Subject=x>;expires=0",
    "Contact: <sip:alice@192.0.2.1:5060>;expires=1",
    "Contact: *",
    "Record-Route: <sip:192.0.2.2;lr>, <sip:203.0.113.9>",
    "Service-Route: <sip:192.0.2.2;lr>",
    "WWW-Authenticate: Digest realm=\"r\", nonce=\"n\"",
    "Proxy-Authenticate: Digest realm=\"r\", nonce=\"n\", algorithm=SHA-256, qop=\"auth\"",
    "Content-Type: application/sdp",
    "Content-Type: message/sipfrag",
    "Content-Type: application/dtmf-relay",
    "Content-Type: text/plain",
    "Allow: INVITE, ACK, BYE, UPDATE",
    "Reason: SIP;cause=200",
];

const METHODS: [&str; 12] = [
    "INVITE", "ACK", "BYE", "CANCEL", "UPDATE", "PRACK", "INFO", "NOTIFY", "REFER", "MESSAGE",
    "OPTIONS", "UNHEARD",
];

const STATUSES: [u16; 22] = [
    100, 180, 183, 199, 200, 202, 300, 302, 305, 380, 401, 404, 407, 408, 422, 423, 481, 488, 491,
    500, 503, 603,
];

const BODIES: [&str; 6] =
    ["", "v=0\r\n", "SIP/2.0 200 OK\r\n", "SIP/2.0 180 \r\n", "Signal=5\r\n", "\0"];

/// Decisions from the input bytes, then from a generator that they seed.
struct Choices<'a> {
    bytes: &'a [u8],
    random: Random,
}

impl Choices<'_> {
    fn below(&mut self, bound: usize) -> usize {
        match self.bytes.split_first() {
            Some((&first, rest)) => {
                self.bytes = rest;
                usize::from(first) % bound.max(1)
            }
            None => self.random.below(bound as u64) as usize,
        }
    }

    fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len())]
    }

    fn lines(&mut self, out: &mut Vec<u8>) {
        for _ in 0..self.below(4) {
            out.extend_from_slice(self.pick(LINES).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// A dialog known to a stranger: Call-ID, local tag, remote tag.
type Known = (Vec<u8>, Vec<u8>, Vec<u8>);

struct World<'a> {
    agent: Agent,
    now: Instant,
    choices: Choices<'a>,
    /// The messages sent last.
    sent: Vec<Vec<u8>>,
    known: Vec<Known>,
    calls: Vec<CallId>,
    count: u32,
}

fn flow(remote: ([u8; 4], u16)) -> Flow {
    Flow { transport: Transport::Udp, local: HERE.into(), remote: remote.into(), connection: None }
}

fn keep<T>(list: &mut Vec<T>, one: T) {
    if list.len() >= KEPT {
        list.remove(0);
    }
    list.push(one);
}

/// Runs an [`Agent`] with the events that `bytes` choose.
///
/// # Panics
/// The agent sends an invalid message, exceeds the limits of its configuration and its owner, or
/// keeps state at the end.
pub fn agent(bytes: &[u8]) {
    let account =
        Account { password: Some(Password::new("secret")), ..Account::new("sip:alice@192.0.2.2") };
    let config = Config {
        accounts: vec![account],
        direct_calls: true,
        incoming_calls: CALLS,
        server_transactions: TRANSACTIONS,
        ..Config::default()
    };
    let seed = bytes.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
    let mut world = World {
        agent: Agent::new(config, &[7; 32]),
        now: Instant::from_micros(1_000_000_000),
        choices: Choices { bytes, random: Random::new(seed) },
        sent: Vec::new(),
        known: Vec::new(),
        calls: Vec::new(),
        count: 0,
    };
    for _ in 0..bytes.len().clamp(1, 400) {
        world.step();
    }
    world.end();
}

impl World<'_> {
    fn step(&mut self) {
        match self.choices.below(16) {
            0 => self.command(),
            1 | 2 => self.owner(),
            3 | 4 => self.pass(),
            5..8 => self.answer(),
            8 => self.forge_from_known(),
            _ => self.request(),
        }
        self.look();
        // Sometimes the owner does not poll for a while.
        if self.choices.below(8) > 0 {
            self.drain();
        }
    }

    /// Asserts that the state of the agent is bounded.
    fn look(&self) {
        // Each replaced call may add one.
        let calls = self.agent.calls();
        assert!(calls <= 2 * (CALLS + OWN) + OWN, "{calls} calls");
        let transactions = self.agent.transactions();
        assert!(transactions <= 2 * TRANSACTIONS + 1024, "{transactions} transactions");
    }

    /// Takes all output and events.
    fn drain(&mut self) {
        let (mut transmits, mut events) = (0, 0);
        loop {
            while let Some(transmit) = self.agent.poll_transmit() {
                transmits += 1;
                if transmit.bytes == b"\r\n\r\n" {
                    continue;
                }
                let message =
                    Message::parse(&transmit.bytes).expect("the agent sends SIP messages");
                if message.method().is_some() {
                    let fault = message.validate_request().err();
                    assert_eq!(
                        fault,
                        None,
                        "the agent sends valid requests: {}",
                        transmit.bytes.escape_ascii()
                    );
                }
                assert_eq!(message.framing_fault(), None, "the agent sends well-formed messages");
                let value = |name| message.value(name).unwrap_or_default().to_vec();
                let tag = |name| {
                    let value = value(name);
                    let at = value.windows(5).rposition(|part| part == b";tag=");
                    at.map_or(Vec::new(), |at| value[at + 5..].to_vec())
                };
                let (from, to) = (tag(HeaderName::From), tag(HeaderName::To));
                let (ours, theirs) =
                    if message.method().is_some() { (from, to) } else { (to, from) };
                keep(&mut self.known, (value(HeaderName::CallId), ours, theirs));
                keep(&mut self.sent, transmit.bytes);
            }
            let Some(event) = self.agent.poll_event() else { break };
            events += 1;
            match event {
                Event::Locate { ticket, .. } => {
                    let place = |remote: ([u8; 4], u16)| Location {
                        transport: Transport::Udp,
                        remote: remote.into(),
                        local: HERE.into(),
                    };
                    let places = [place(PEER), place(STRANGER)];
                    let count = self.choices.below(3);
                    self.agent.located(self.now, ticket, &places[..count]);
                }
                Event::Incoming { call, .. } => keep(&mut self.calls, call),
                _ => {}
            }
        }
        // Beyond the pending output, each call and transaction may add some.
        assert!(transmits <= 4096 && events <= 4096, "{transmits} transmits, {events} events");
    }

    /// Starts an operation of the owner.
    fn command(&mut self) {
        let now = self.now;
        let session = self.choices.pick(&["", "v=0\r\n"]).as_bytes().to_vec();
        match self.choices.below(4) {
            0 => self.agent.register(now, AccountId(0)),
            1 if self.agent.calls() < OWN => {
                let account = self.choices.pick(&[None, Some(AccountId(0))]).to_owned();
                if let Ok(call) = self.agent.call(now, account, "sip:bob@192.0.2.2", session) {
                    keep(&mut self.calls, call);
                }
            }
            2 if self.agent.transactions() < TRANSACTIONS => {
                let _ = self.agent.message(now, Some(AccountId(0)), "sip:bob@192.0.2.2", "x");
            }
            _ => self.agent.network_changed(now),
        }
    }

    /// Performs an operation of the owner on a call.
    fn owner(&mut self) {
        let now = self.now;
        if self.calls.is_empty() {
            return;
        }
        let call = *self.choices.pick(&self.calls.clone());
        let other = *self.choices.pick(&self.calls.clone());
        let session = b"v=0 2\r\n";
        let agent = &mut self.agent;
        // Most operations are rejected in the current state of the call.
        let _ = match self.choices.below(14) {
            0 => agent.ring(now, call, b""),
            1 => agent.ring(now, call, session),
            2..5 => agent.answer(now, call, session),
            5 => agent.decline(now, call, 486),
            6 => agent.hang_up(now, call),
            7 => agent.offer(now, call, session.to_vec()),
            8 => agent.accept(now, call, session),
            9 => agent.refuse(now, call, 488),
            10 => agent.transfer(now, call, "sip:carol@192.0.2.2"),
            11 => agent.transfer_to(now, call, other),
            12 if agent.calls() < OWN => {
                agent.follow(now, call, session.to_vec()).map(|call| keep(&mut self.calls, call))
            }
            12 => agent.refuse_transfer(now, call, 603),
            _ => agent.press(now, call, '5'),
        };
    }

    /// Advances the time: to the next timer, beyond it, or for long.
    fn pass(&mut self) {
        let next = self.agent.next_timer().unwrap_or(self.now).max(self.now);
        self.now = match self.choices.below(4) {
            0 | 1 => next,
            2 => self.now + sip::Duration::from_millis(500),
            _ => self.now + sip::Duration::from_secs(60),
        };
        self.agent.on_timer(self.now);
    }

    /// Answers a sent request, with correct or wrong tag, CSeq or branch.
    fn answer(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let bytes = self.choices.pick(&self.sent.clone()).clone();
        let Ok(request) = Message::parse(&bytes) else { return };
        if request.method().is_none_or(|method| method == Method::Ack) {
            return self.receive(&bytes, PEER);
        }
        let status = *self.choices.pick(&STATUSES);
        let tag = *self.choices.pick(&["t", "t", "t", "u", "v", ""]);
        let mut lines = b"Contact: <sip:bob@192.0.2.2>\r\n".to_vec();
        if self.choices.below(3) == 0 {
            lines.clear();
        }
        self.choices.lines(&mut lines);
        let body = *self.choices.pick(&BODIES);
        if !body.is_empty() {
            lines.extend_from_slice(b"Content-Type: application/sdp\r\n");
        }
        let source: SocketAddr = HERE.into();
        let to_tag = (!tag.is_empty()).then_some(tag.as_bytes());
        let reason = reason_phrase(status);
        let response = Response { request: &request, source, status, reason, to_tag };
        let mut out = Vec::new();
        response.write_with_body(&mut out, |out: &mut Vec<u8>| out.extend(&lines), body.as_bytes());
        self.spoil(&mut out);
        self.receive(&out, PEER);
    }

    /// Sends a request within a dialog that the sender knows completely or partly.
    fn forge_from_known(&mut self) {
        if let Some(known) = self.known.last().cloned() {
            let known = match self.choices.below(3) {
                0 => known,
                _ => self.choices.pick(&self.known.clone()).clone(),
            };
            self.send_request(&known);
        }
    }

    /// Sends a request outside of dialogs, or within one.
    fn request(&mut self) {
        if self.choices.below(2) == 0 {
            return self.forge_from_known();
        }
        let call_id = format!("c{}", self.choices.below(200)).into_bytes();
        self.send_request(&(call_id, Vec::new(), b"s".to_vec()));
    }

    fn send_request(&mut self, (call_id, ours, theirs): &Known) {
        self.count += 1;
        let method = *self.choices.pick(&METHODS);
        let cseq = *self.choices.pick(&[self.count, self.count, 1, 0, u32::MAX >> 1]);
        let branch = *self.choices.pick(&[self.count, self.count, 1]);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let tag =
            |tag: &[u8]| if tag.is_empty() { String::new() } else { format!(";tag={}", text(tag)) };
        let mut out = format!(
            "{method} sip:alice@192.0.2.1 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.2;branch=z9hG4bK{branch}\r\n\
             From: <sip:bob@192.0.2.2>{}\r\nTo: <sip:alice@192.0.2.1>{}\r\nCall-ID: {}\r\n\
             CSeq: {cseq} {method}\r\nMax-Forwards: 70\r\n",
            tag(theirs),
            tag(ours),
            text(call_id)
        )
        .into_bytes();
        if self.choices.below(5) > 0 {
            out.extend_from_slice(b"Contact: <sip:bob@192.0.2.2>\r\n");
        }
        self.choices.lines(&mut out);
        let body = *self.choices.pick(&BODIES);
        out.extend_from_slice(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        self.spoil(&mut out);
        let from = *self.choices.pick(&[PEER, STRANGER]);
        self.receive(&out, from);
    }

    /// Damages some messages.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        match self.choices.below(12) {
            0 => {
                let at = self.choices.below(256) * bytes.len() / 256;
                bytes[at] ^= 1 << self.choices.below(8);
            }
            1 => bytes.truncate(self.choices.below(256) * bytes.len() / 256),
            _ => {}
        }
    }

    fn receive(&mut self, bytes: &[u8], from: ([u8; 4], u16)) {
        self.agent.receive(self.now, &flow(from), bytes);
    }

    /// Ends all calls and asserts that no state is left.
    fn end(&mut self) {
        self.agent.unregister(self.now, AccountId(0));
        for call in std::mem::take(&mut self.calls) {
            let _ = self.agent.hang_up(self.now, call);
        }
        for _ in 0..4000 {
            self.drain();
            for call in std::mem::take(&mut self.calls) {
                let _ = self.agent.hang_up(self.now, call);
            }
            let Some(next) = self.agent.next_timer() else { break };
            self.now = self.now.max(next);
            self.agent.on_timer(self.now);
            self.agent.forget_account(AccountId(0));
        }
        self.drain();
        assert_eq!(self.agent.next_timer(), None, "a timer is pending at the end");
        assert_eq!(self.agent.calls(), 0, "calls remain at the end");
        assert_eq!(self.agent.transactions(), 0, "transactions remain at the end");
    }
}
