//! Flows of messages that tests expect, lost messages, and phones that follow a script.

use super::{Rig, Wake, address, server};
use sip::{HeaderName, Method};
use sip_ua::{CallId, Event};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use test_support::flow::{assert_same, relayed, response, step, value};
use test_support::network::{Link, Network};

/// The transit time of each message in [`Rig::exact`].
pub(crate) const TRANSIT: Duration = Duration::from_millis(5);

/// Long enough for pending messages, and too short for a retransmission.
pub(crate) const SHORT: Duration = Duration::from_millis(100);

/// The messages of a test.
#[derive(Default)]
pub(super) struct Script {
    /// The phones without an agent.
    phones: Vec<usize>,
    /// The messages for these phones.
    mail: BTreeMap<usize, VecDeque<Vec<u8>>>,
    /// The sender and the beginning of messages that will be lost.
    lost: Vec<(SocketAddr, String)>,
    /// All sent messages, with their source and destination.
    sent: Vec<(SocketAddr, SocketAddr, Vec<u8>)>,
}

impl Script {
    /// Sends a message, unless it is to be lost.
    pub(super) fn transmit(
        &mut self,
        network: &mut Network<Wake>,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
    ) {
        self.sent.push((from, to, bytes.to_vec()));
        let is_meant = |(of, beginning): &(SocketAddr, String)| {
            *of == from && bytes.starts_with(beginning.as_bytes())
        };
        match self.lost.iter().position(is_meant) {
            Some(place) => drop(self.lost.remove(place)),
            None => network.send(from, to, bytes),
        }
    }

    /// Keeps a message for a phone without an agent. Returns false for another phone.
    pub(super) fn takes(&mut self, phone: usize, bytes: &[u8]) -> bool {
        let is_scripted = self.phones.contains(&phone);
        if is_scripted {
            self.mail.entry(phone).or_default().push_back(bytes.to_vec());
        }
        is_scripted
    }
}

/// Returns the name of an element in flows: phones are A, B, C and so on, and the B2BUA is S.
fn name(place: SocketAddr) -> char {
    let phone = ('A'..='Z').zip(0..).find(|(_, phone)| address(*phone) == place);
    phone.map_or('S', |(name, _)| name)
}

impl Rig {
    /// Returns `count` phones with default settings on a network without loss, where each message
    /// takes [`TRANSIT`].
    pub(crate) fn exact(count: usize) -> Self {
        Self::exact_with(&Self::phones(count))
    }

    pub(crate) fn exact_with(configs: &[sip_ua::Config]) -> Self {
        let mut rig = Self::new(1, configs);
        rig.network.link = Link { delay: TRANSIT, ..Link::default() };
        rig
    }

    pub(super) fn transmit(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.script.transmit(&mut self.network, from, to, bytes);
    }

    /// The next message of a phone with this beginning is lost.
    pub(crate) fn lose(&mut self, phone: usize, beginning: &str) {
        self.script.lost.push((address(phone), beginning.to_owned()));
    }

    /// The next message to any phone with this beginning is lost.
    pub(crate) fn lose_of_server(&mut self, beginning: &str) {
        self.script.lost.push((server(), beginning.to_owned()));
    }

    /// Asserts that `flow` was sent since the last call, as `A>S INVITE, S>B INVITE`: between each
    /// two ends the same messages in the same order.
    pub(crate) fn assert_flow(&mut self, flow: &str) {
        let sent = std::mem::take(&mut self.script.sent);
        let steps = sent.iter().map(|(from, to, bytes)| step(name(*from), name(*to), bytes));
        // A 100 is for one hop, and the B2BUA sends one to each INVITE that waits for the other
        // leg.
        assert_same(steps.filter(|step| !(step.starts_with('S') && step.ends_with(" 100"))), flow);
    }

    /// Like [`Rig::assert_flow`], for the messages between A and B, all of which pass the B2BUA.
    pub(crate) fn assert_relayed(&mut self, flow: &str) {
        self.assert_flow(&relayed("S", flow));
    }

    /// Removes the agent of a phone: the test sends its messages.
    pub(crate) fn script(&mut self, phone: usize) {
        self.script.phones.push(phone);
    }

    /// Returns the next message to a phone without an agent that has this beginning. Earlier
    /// messages are dropped.
    pub(crate) fn mail(&mut self, phone: usize, beginning: &str) -> Vec<u8> {
        loop {
            let mail = self.script.mail.entry(phone).or_default();
            while let Some(mail) = mail.pop_front() {
                if mail.starts_with(beginning.as_bytes()) {
                    return mail;
                }
            }
            assert!(self.step(), "no {beginning} comes to phone {phone}");
        }
    }

    /// A phone without an agent sends a message.
    pub(crate) fn send(&mut self, phone: usize, bytes: &[u8]) {
        self.transmit(address(phone), server(), bytes);
    }

    /// A phone without an agent responds to `request`, with its Contact.
    pub(crate) fn reply(
        &mut self,
        phone: usize,
        request: &[u8],
        (status, tag): (u16, &str),
        lines: &str,
        session: &[u8],
    ) {
        let lines = format!("Contact: <sip:p{phone}@{}>\r\n{lines}", address(phone));
        let session = std::str::from_utf8(session).expect("text");
        self.send(phone, &response(request, server(), status, tag, &lines, session));
    }

    /// Returns the last message of a phone with this beginning since the last check of a flow.
    pub(crate) fn sent(&self, phone: usize, beginning: &str) -> Vec<u8> {
        let is_meant = |(from, _, bytes): &&(SocketAddr, SocketAddr, Vec<u8>)| {
            *from == address(phone) && bytes.starts_with(beginning.as_bytes())
        };
        let found = self.script.sent.iter().rfind(is_meant);
        let (.., bytes) = found.unwrap_or_else(|| panic!("phone {phone} sent no {beginning}"));
        bytes.clone()
    }

    /// Returns the description in the last message to a phone with this beginning.
    pub(crate) fn described(&self, phone: usize, beginning: &str) -> String {
        let message = self.last(phone, beginning);
        message.split_once("\r\n\r\n").expect("a message").1.to_owned()
    }

    /// Phone `from` calls phone `to`, which rings and answers, and all messages arrive. Returns the
    /// identifiers of the call at both.
    pub(crate) fn talk(&mut self, from: usize, to: usize) -> (CallId, CallId) {
        let here = self.call(from, to, &super::session(from, 4000, "sendrecv"));
        let there = self.ringing(from, to);
        self.act(to, |phone, now| phone.answer(now, there, &super::session(to, 5000, "sendrecv")));
        self.expect_where(from, |event| matches!(event, Event::Answered { .. }));
        self.pass(SHORT);
        (here, there)
    }

    /// The call of phone `from` rings at phone `to`. Returns the identifier of the call there.
    pub(crate) fn ringing(&mut self, from: usize, to: usize) -> CallId {
        let there = self.expect_incoming(to);
        self.act(to, |phone, now| phone.ring(now, there, b""));
        self.expect_where(from, |event| matches!(event, Event::Ringing { status: 180, .. }));
        there
    }

    /// A phone hangs up, and all messages arrive.
    pub(crate) fn hang_up(&mut self, phone: usize, call: CallId) {
        self.act(phone, |phone, now| phone.hang_up(now, call));
        self.pass(SHORT);
    }
}

/// Returns a request within the dialog that the INVITE `invite` of a phone without an agent and its
/// answer `answer` have created.
pub(crate) fn of_caller(
    method: Method<'_>,
    answer: &[u8],
    phone: usize,
    cseq: u32,
    lines: &str,
    body: &str,
) -> Vec<u8> {
    within(method, answer, phone, cseq, [HeaderName::From, HeaderName::To], (lines, body))
}

/// Returns a request of the callee, a phone without an agent that has got `ack` or another request
/// of the dialog.
pub(crate) fn of_callee(
    method: Method<'_>,
    ack: &[u8],
    phone: usize,
    cseq: u32,
    lines: &str,
    body: &str,
) -> Vec<u8> {
    within(method, ack, phone, cseq, [HeaderName::To, HeaderName::From], (lines, body))
}

fn within(
    method: Method<'_>,
    message: &[u8],
    phone: usize,
    cseq: u32,
    [from, to]: [HeaderName; 2],
    (lines, body): (&str, &str),
) -> Vec<u8> {
    let name = String::from_utf8_lossy(method.as_bytes()).into_owned();
    let place = address(phone);
    let content = match body {
        "" => "",
        _ => "Content-Type: application/sdp\r\n",
    };
    format!(
        "{name} sip:call@{server} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {place};branch=z9hG4bK{name}{cseq}p{phone}\r\nMax-Forwards: 70\r\n\
         From: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: {cseq} {name}\r\n\
         Contact: <sip:p{phone}@{place}>\r\n{lines}{content}Content-Length: {}\r\n\r\n{body}",
        value(message, from),
        value(message, to),
        value(message, HeaderName::CallId),
        body.len(),
        server = server(),
    )
    .into_bytes()
}

/// Returns the INVITE of phone `from`, which has no agent, to phone `to`.
pub(crate) fn invite(from: usize, to: usize, lines: &str, body: &[u8]) -> Vec<u8> {
    let place = address(from);
    let content = if body.is_empty() { "" } else { "Content-Type: application/sdp\r\n" };
    let head = format!(
        "INVITE sip:p{to}@{server} SIP/2.0\r\n\
         Via: SIP/2.0/UDP {place};branch=z9hG4bKinvite{from}\r\nMax-Forwards: 70\r\n\
         From: <sip:p{from}@{server}>;tag=f{from}\r\nTo: <sip:p{to}@{server}>\r\n\
         Call-ID: c{from}\r\nCSeq: 1 INVITE\r\nContact: <sip:p{from}@{place}>\r\n\
         {lines}{content}Content-Length: {}\r\n\r\n",
        body.len(),
        server = server(),
    );
    [head.as_bytes(), body].concat()
}

/// Returns the URI header that replaces the dialog of `message` at the other end of the call. The
/// phone that writes it has its own tag in the header field `own`.
pub(crate) fn replaces(message: &[u8], own: HeaderName) -> String {
    let tag = |name| {
        let value = value(message, name);
        value.split_once(";tag=").expect("a tag").1.to_owned()
    };
    let other = if own == HeaderName::To { HeaderName::From } else { HeaderName::To };
    let id = value(message, HeaderName::CallId);
    format!("Replaces={id}%3Bto-tag%3D{}%3Bfrom-tag%3D{}", tag(other), tag(own))
}
