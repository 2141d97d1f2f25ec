//! The side that is called.

use super::slot::CalleeState;
use super::write;
use super::{Engine, Entry, Mark, Stage, is_waiting, key_of_call};
use sip::header::HeaderName;
use sip::message::{Response, reason_phrase};
use sip::{Duration, Instant, Message, Method};
use std::net::SocketAddr;

impl Engine {
    /// A request has come, which one of our own calls should have led to.
    pub(super) fn on_request(
        &mut self,
        message: &Message<'_>,
        method: Method<'_>,
        received: Instant,
        now: Instant,
        link: u32,
        remote: SocketAddr,
    ) {
        let key = key_of_call(message, self.settings.salt);
        let Some(key) = key else {
            // A server that asks whether we are there is no fault.
            if method != Method::Ack {
                self.respond(message, link, remote, 200, b"bench", None, false);
            }
            if method != Method::Options {
                self.stray(now);
            }
            return;
        };
        let Some(slot) = self.slots.find(key) else {
            self.past(key, method == Method::Ack, now);
            match method {
                Method::Ack => {}
                Method::Bye => self.respond(message, link, remote, 200, b"bench", None, false),
                _ => self.respond(message, link, remote, 481, b"bench", None, false),
            }
            return;
        };
        let is_measured = slot.is_measured;
        let counts = self.tally.counts();
        counts.received += u64::from(is_measured);
        match (method, slot.callee.state) {
            (Method::Invite, CalleeState::Idle) => {
                slot.callee.state = CalleeState::Ringing;
                slot.callee.invited = received;
                slot.callee.link = link;
                slot.callee.remote = remote;
                self.ring(message, key.slot, now);
            }
            (Method::Invite, CalleeState::Ringing) => {
                counts.repeated += u64::from(is_measured);
                self.send_ringing(message, key.slot, None);
            }
            (Method::Invite, _) => {
                counts.repeated += u64::from(is_measured);
                self.repeat_answer(key.slot);
            }
            (Method::Ack, CalleeState::Answered | CalleeState::Confirmed) => {
                counts.repeated += u64::from(is_measured && slot.callee.is_acknowledged);
                slot.callee.is_acknowledged = true;
                slot.callee.state = CalleeState::Confirmed;
                slot.callee.again = Instant::MAX;
                slot.callee.end = Instant::MAX;
            }
            (Method::Bye, CalleeState::Answered | CalleeState::Confirmed) => {
                slot.callee.state = CalleeState::Confirmed;
                slot.callee.again = Instant::MAX;
                slot.callee.end = Instant::MAX;
                let entry = Entry { slot: key.slot, generation: slot.generation };
                let is_first = slot.callee.bye == Instant::MAX;
                if is_first {
                    slot.callee.bye = received;
                } else {
                    counts.repeated += u64::from(is_measured);
                }
                let mark = is_first.then_some((entry, Mark::ByeAnswer));
                self.respond(message, link, remote, 200, b"bench", mark, is_measured);
            }
            (Method::Options, _) => {
                self.respond(message, link, remote, 200, b"bench", None, is_measured);
            }
            (Method::Ack, _) => counts.unexpected += u64::from(is_measured),
            _ => {
                counts.unexpected += u64::from(is_measured);
                self.respond(message, link, remote, 481, b"bench", None, is_measured);
            }
        }
    }

    fn ring(&mut self, message: &Message<'_>, index: u32, now: Instant) {
        self.send_ringing(message, index, Some(Mark::Ringing));
        let answer = self.write_answer(message, index);
        let ring = self.settings.ring;
        let callee = &mut self.slots.get(index).callee;
        callee.answer = answer;
        callee.interval = Duration::ZERO;
        if ring == Duration::ZERO {
            self.send_answer(index, now);
        } else {
            callee.again = now + ring;
        }
        self.schedule(index);
    }

    fn send_ringing(&mut self, message: &Message<'_>, index: u32, mark: Option<Mark>) {
        let slot = self.slots.get(index);
        let entry = Entry { slot: index, generation: slot.generation };
        let (link, remote, is_measured) = (slot.callee.link, slot.callee.remote, slot.is_measured);
        let tag = tag_of(entry);
        let mark = mark.map(|mark| (entry, mark));
        self.respond(message, link, remote, 180, &tag, mark, is_measured);
    }

    /// The 200 with a session description, in the buffer that the slot keeps for it.
    fn write_answer(&mut self, message: &Message<'_>, index: u32) -> Vec<u8> {
        let slot = self.slots.get(index);
        let mut answer = std::mem::take(&mut slot.callee.answer);
        answer.clear();
        let entry = Entry { slot: index, generation: slot.generation };
        let tag = tag_of(entry);
        let response = Response {
            request: message,
            source: slot.callee.remote,
            status: 200,
            reason: reason_phrase(200),
            to_tag: Some(&tag),
        };
        let place = write::place_of(&self.places, slot.callee.link);
        let name = self.parties[slot.peer as usize].name.as_bytes();
        let fields = |out: &mut Vec<u8>| {
            copy_record_routes(message, out);
            write::put(out, &[b"Contact: <sip:", name, b"@", &place.contact, b">\r\n"]);
            out.extend_from_slice(b"Content-Type: application/sdp\r\n");
        };
        response.write_with_body(&mut answer, fields, &self.session);
        answer
    }

    /// Sends the 200 for the first time, or again because no ACK has come (RFC 3261 section
    /// 13.3.1.4).
    pub(super) fn send_answer(&mut self, index: u32, now: Instant) {
        let timers = self.settings.timers;
        let slot = self.slots.get(index);
        let is_measured = slot.is_measured;
        let is_first = slot.callee.state == CalleeState::Ringing;
        let callee = &mut slot.callee;
        if is_first {
            callee.state = CalleeState::Answered;
            callee.interval = timers.t1;
            callee.end = now + timers.t1.times(64);
        } else if is_waiting(callee.state) {
            callee.interval = callee.interval.times(2).min(timers.t2.max(timers.t1));
            self.tally.retransmitted(is_measured, now);
        } else {
            callee.again = Instant::MAX;
            return;
        }
        callee.again = now + callee.interval;
        let entry = Entry { slot: index, generation: slot.generation };
        self.push_answer(index, is_first.then_some((entry, Mark::Answer)));
    }

    /// Sends the 200 again because the INVITE has come again.
    fn repeat_answer(&mut self, index: u32) {
        self.push_answer(index, None);
    }

    fn push_answer(&mut self, index: u32, mark: Option<(Entry, Mark)>) {
        let start = self.out.bytes.len();
        let slot = self.slots.get(index);
        self.out.bytes.extend_from_slice(&slot.callee.answer);
        let (link, remote, is_measured) = (slot.callee.link, slot.callee.remote, slot.is_measured);
        self.push(start, (link, Some(remote)), Stage::Answer, mark, is_measured);
    }

    #[expect(clippy::too_many_arguments, reason = "a response has that many sides")]
    fn respond(
        &mut self,
        message: &Message<'_>,
        link: u32,
        remote: SocketAddr,
        status: u16,
        tag: &[u8],
        mark: Option<(Entry, Mark)>,
        is_measured: bool,
    ) {
        let start = self.out.bytes.len();
        let response = Response {
            request: message,
            source: remote,
            status,
            reason: reason_phrase(status),
            to_tag: Some(tag),
        };
        let place = write::place_of(&self.places, link);
        response.write(&mut self.out.bytes, |out| {
            if status == 180 {
                copy_record_routes(message, out);
                write::put(out, &[b"Contact: <sip:", &place.contact, b">\r\n"]);
            }
        });
        let stage = if status == 180 { Stage::Ringing } else { Stage::ByeAnswer };
        self.push(start, (link, Some(remote)), stage, mark, is_measured);
    }
}

fn copy_record_routes(message: &Message<'_>, out: &mut Vec<u8>) {
    for field in message.fields_of(&[HeaderName::RecordRoute]) {
        out.extend_from_slice(field.line);
    }
}

/// The callee's tag: the same in all its responses.
fn tag_of(entry: Entry) -> [u8; 9] {
    let mut tag = *b"c00000000";
    for (place, digit) in tag[1..].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(entry.generation >> (28 - 4 * place) & 15) as usize];
    }
    tag
}
