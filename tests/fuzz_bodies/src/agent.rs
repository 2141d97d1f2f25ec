//! The user agent with requests and responses of strangers, peers and a registrar in any state.

use crate::choices::{Choices, LINES, METHODS, STATUSES, keep};
use sip::message::{Response, reason_phrase};
use sip::{Flow, HeaderName, Instant, Message, Method, Transport};
use sip_ua::{Account, AccountId, Agent, CallId, Config, Event, Location, Password};
use std::net::SocketAddr;

/// The limits of incoming calls and transactions.
const CALLS: usize = 3;
const TRANSACTIONS: usize = 24;
/// The limits of the owner's calls and of the requests of each.
const OWN: usize = 4;

const HERE: ([u8; 4], u16) = ([192, 0, 2, 1], 5060);
const PEER: ([u8; 4], u16) = ([192, 0, 2, 2], 5060);
const STRANGER: ([u8; 4], u16) = ([203, 0, 113, 9], 4444);

const BODIES: [&str; 6] =
    ["", "v=0\r\n", "SIP/2.0 200 OK\r\n", "SIP/2.0 180 \r\n", "Signal=5\r\n", "\0"];

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
    let mut world = World {
        agent: Agent::new(config, &[7; 32]),
        now: Instant::from_micros(1_000_000_000),
        choices: Choices::new(bytes),
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
                        local: Some(HERE.into()),
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
        self.now = self.choices.later(self.now, self.agent.next_timer());
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
        self.choices.lines(LINES, &mut lines);
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
        self.choices.spoil(&mut out);
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
        self.choices.lines(LINES, &mut out);
        let body = *self.choices.pick(&BODIES);
        out.extend_from_slice(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
        self.choices.spoil(&mut out);
        let from = *self.choices.pick(&[PEER, STRANGER]);
        self.receive(&out, from);
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
