//! Incoming requests and their responses: those of the calls of this load, at both ends, those that
//! a server originates, and unrelated ones.

use super::key::Key;
use super::slot::{CalleeState, End, Request, Slot};
use super::{Engine, Entry, Mark, Stage, key_of_call, write};
use crate::load::tally::Outcome;
use sip::header::{CSeq, HeaderName, NameAddr};
use sip::message::{Response, reason_phrase};
use sip::{Encode, Instant, Message, Method};
use std::net::SocketAddr;

/// The supported methods, for a 405 and for OPTIONS (RFC 3261 sections 8.2.1 and 11.2).
const ALLOW: &[u8] = b"Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, UPDATE, INFO\r\n";

/// The To tag of responses outside of the calls of this load.
const NO_CALL: &[u8] = b"bench";

/// A received request.
#[derive(Clone, Copy)]
pub(super) struct Arrived<'a, 'm> {
    pub(super) message: &'a Message<'m>,
    pub(super) method: Method<'m>,
    pub(super) cseq: u32,
    /// The link and the source.
    pub(super) link: u32,
    pub(super) remote: SocketAddr,
    /// True if its operation is measured.
    pub(super) is_measured: bool,
}

impl Arrived<'_, '_> {
    /// Yields the option tags of Require. All of them are unsupported.
    fn required(&self) -> impl Iterator<Item = &[u8]> {
        self.message.elements(HeaderName::Require).filter(|option| !option.is_empty())
    }

    /// Returns true if the request requires an unsupported extension (RFC 3261 section 8.2.2.3).
    /// ACK and CANCEL ignore Require; the method is checked before.
    fn requires_unknown(&self) -> bool {
        let method = self.method;
        let is_taken = matches!(
            method,
            Method::Invite | Method::Bye | Method::Options | Method::Update | Method::Info
        );
        is_taken && self.required().next().is_some()
    }

    /// Returns true if a request outside of a dialog requires an unsupported extension. Within an
    /// unknown dialog, the 481 takes precedence.
    fn starts_with_unknown(&self) -> bool {
        to_tag(self.message).is_none() && self.requires_unknown()
    }
}

impl Engine {
    /// Handles a request.
    pub(super) fn on_request(
        &mut self,
        message: &Message<'_>,
        method: Method<'_>,
        received: Instant,
        now: Instant,
        link: u32,
        remote: SocketAddr,
    ) {
        let cseq = message.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
        let Some(cseq) = cseq else {
            self.stray(now);
            return;
        };
        let mut arrived =
            Arrived { message, method, cseq: cseq.number, link, remote, is_measured: false };
        let salt = self.sender.unwrap_or(self.settings.salt);
        let Some(key) = key_of_call(message, salt) else {
            self.on_foreign(&arrived, now);
            return;
        };
        let is_new = self.slots.find(key).is_none() && self.slots.past(key).is_none();
        if is_new
            && self.sender.is_some()
            && method == Method::Invite
            && to_tag(message).is_none()
            && !self.adopt(key, link)
        {
            self.on_foreign(&arrived, now);
            return;
        }
        let Some(slot) = self.slots.find(key) else {
            self.past(key, method == Method::Ack, now);
            match method {
                Method::Ack => {}
                _ if arrived.starts_with_unknown() => self.respond(&arrived, 420, NO_CALL, None),
                Method::Bye => self.respond(&arrived, 200, NO_CALL, None),
                _ => self.respond(&arrived, 481, NO_CALL, None),
            }
            return;
        };
        arrived.is_measured = slot.is_measured;
        self.tally.counts().received += u64::from(slot.is_measured);
        match (to_tag(message), method) {
            _ if arrived.starts_with_unknown() => self.refuse(&arrived, 420),
            (None, Method::Invite) => self.on_call(&arrived, key.slot, received, now),
            (None, Method::Cancel) => self.on_cancel(&arrived, key.slot, now),
            (None, Method::Options) => self.respond(&arrived, 200, NO_CALL, None),
            (None, _) => self.refuse(&arrived, 481),
            (Some(tag), _) => match end_of(slot, key.slot, tag) {
                Some(end) => self.on_request_in_dialog(&arrived, key.slot, end, received, now),
                None => self.refuse(&arrived, 481),
            },
        }
    }

    /// Handles a request that belongs to no call of this load, as a user agent without calls does.
    fn on_foreign(&mut self, arrived: &Arrived<'_, '_>, now: Instant) {
        if arrived.method == Method::Ack {
            return;
        }
        // An OPTIONS ping of the server is not an error.
        if arrived.method != Method::Options && self.tally.measures(now) {
            self.tally.counts().received += 1;
            self.tally.counts().unexpected += 1;
        }
        let status = match (arrived.method, to_tag(arrived.message)) {
            _ if arrived.starts_with_unknown() => 420,
            (Method::Options, _) => 200,
            // All users are busy with calls of this load.
            (Method::Invite, None) => 486,
            (Method::Invite | Method::Bye | Method::Cancel, _) => 481,
            (Method::Update | Method::Info | Method::Prack, _) => 481,
            (method, _) => status_of_other(method),
        };
        self.respond(arrived, status, NO_CALL, None);
    }

    /// Handles a request within the dialog of a call, for this end of it (RFC 3261 section 12.2.2).
    fn on_request_in_dialog(
        &mut self,
        arrived: &Arrived<'_, '_>,
        index: u32,
        end: End,
        received: Instant,
        now: Instant,
    ) {
        let slot = self.slots.get(index);
        if arrived.method == Method::Ack {
            self.on_ack(arrived, index, end);
            return;
        }
        let heard = slot.heard(end);
        let is_repeated = arrived.cseq == *heard;
        // A BYE ends the call whatever its CSeq: a server that originates requests may have used
        // higher numbers in between.
        let is_late = arrived.cseq < *heard && arrived.method != Method::Bye;
        *heard = arrived.cseq.max(*heard);
        if is_late {
            self.refuse(arrived, 500);
            return;
        }
        if is_repeated && arrived.method != Method::Bye {
            self.tally.counts().repeated += u64::from(arrived.is_measured);
        }
        let entry = Entry { slot: index, generation: self.slots.get(index).generation };
        let tag = tag_of_end(end, entry);
        match arrived.method {
            _ if arrived.requires_unknown() => self.refuse(arrived, 420),
            Method::Invite => self.on_reinvite(arrived, index, end, now),
            Method::Bye => self.on_bye(arrived, index, end, received, now),
            Method::Update => {
                self.refresh_target(arrived, index, end);
                self.respond(arrived, 200, &tag, None);
            }
            // No Info Package is supported (RFC 6086 section 4.2.2); an INFO without one is a
            // legacy INFO.
            Method::Info if has_info_package(arrived.message) => {
                self.respond(arrived, 469, &tag, None);
            }
            Method::Info | Method::Options => self.respond(arrived, 200, &tag, None),
            Method::Prack | Method::Cancel => self.refuse(arrived, 481),
            method => self.refuse(arrived, status_of_other(method)),
        }
    }

    /// Handles a re-INVITE of the other end, or of a server on its behalf: accepts its session
    /// description and answers with the unchanged local one (RFC 3261 section 14.2).
    fn on_reinvite(&mut self, arrived: &Arrived<'_, '_>, index: u32, end: End, now: Instant) {
        let slot = self.slots.get(index);
        let is_answered = match end {
            End::Caller => slot.request != Request::Invite,
            End::Callee => {
                matches!(slot.callee.state, CalleeState::Answered | CalleeState::Confirmed)
            }
        };
        let answer = slot.answer(end);
        if answer.cseq == Some(arrived.cseq) {
            self.push_answer(index, end, None);
        } else if !is_answered {
            self.refuse(arrived, 491);
        } else if answer.is_waiting() {
            // The previous 200 is not acknowledged yet.
            self.refuse(arrived, 500);
        } else {
            self.refresh_target(arrived, index, end);
            self.write_answer(arrived, index, end);
            self.begin_answer(index, end, now, None);
            self.schedule(index);
        }
    }

    fn on_bye(
        &mut self,
        arrived: &Arrived<'_, '_>,
        index: u32,
        end: End,
        received: Instant,
        now: Instant,
    ) {
        let slot = self.slots.get(index);
        let is_measured = slot.is_measured;
        let entry = Entry { slot: index, generation: slot.generation };
        let tag = tag_of_end(end, entry);
        slot.answer(end).stop();
        let counts = self.tally.counts();
        match end {
            End::Callee => {
                slot.callee.state = CalleeState::Confirmed;
                let is_first = slot.callee.bye == Instant::MAX;
                if is_first {
                    slot.callee.bye = received;
                } else {
                    counts.repeated += u64::from(is_measured);
                }
                let mark = is_first.then_some((entry, Mark::ByeAnswer));
                self.respond(arrived, 200, &tag, mark);
                if self.sender.is_some() {
                    // The operation is the sender's. Here it holds nothing but the callee's state.
                    self.end(index, Outcome::Succeeded, now);
                }
            }
            End::Caller => {
                // The callees of this load send no BYE, so a server originated it.
                counts.unexpected += u64::from(is_measured);
                let is_held = slot.request == Request::Hold;
                self.respond(arrived, 200, &tag, None);
                if is_held {
                    self.end(index, Outcome::Refused, now);
                }
            }
        }
    }

    fn on_ack(&mut self, arrived: &Arrived<'_, '_>, index: u32, end: End) {
        let slot = self.slots.get(index);
        let is_measured = u64::from(slot.is_measured);
        let answer = slot.answer(end);
        let counts = self.tally.counts();
        if answer.cseq == Some(arrived.cseq) && answer.is_sent() {
            counts.repeated += is_measured * u64::from(answer.is_acknowledged);
            answer.is_acknowledged = true;
            answer.stop();
            if end == End::Callee {
                slot.callee.state = CalleeState::Confirmed;
            }
        } else if answer.cseq > Some(arrived.cseq) {
            // An ACK of an earlier answer.
            counts.repeated += is_measured;
        } else {
            counts.unexpected += is_measured;
        }
    }

    /// Updates the remote target with the Contact of the request (RFC 3261 section 12.2.2).
    fn refresh_target(&mut self, arrived: &Arrived<'_, '_>, index: u32, end: End) {
        // Only callers send further requests.
        if end == End::Caller
            && let Some(dialog) = &mut self.slots.get(index).dialog
        {
            dialog.refresh_target(arrived.message);
        }
    }

    /// Writes the 200 to an INVITE. This end of the call sends it until the ACK comes.
    pub(super) fn write_answer(&mut self, arrived: &Arrived<'_, '_>, index: u32, end: End) {
        let slot = self.slots.get(index);
        let entry = Entry { slot: index, generation: slot.generation };
        let tag = tag_of_end(end, entry);
        let response = |status| Response {
            request: arrived.message,
            source: arrived.remote,
            status,
            reason: reason_phrase(status),
            to_tag: Some(&tag),
        };
        let place = write::place_of(&self.places, arrived.link);
        let party = if end == End::Caller { slot.user } else { slot.peer };
        let name = self.parties[party as usize].name.as_bytes();
        let answer = slot.answer(end);
        answer.bytes.clear();
        answer.cseq = Some(arrived.cseq);
        answer.is_acknowledged = false;
        answer.link = arrived.link;
        answer.remote = arrived.remote;
        let fields = |out: &mut Vec<u8>| {
            arrived.message.write_record_routes(out);
            ("Contact: ", write::contact(name, place), "\r\n").encode(out);
            out.extend_from_slice(b"Content-Type: application/sdp\r\n");
        };
        response(200).write_with_body(&mut answer.bytes, fields, &self.session);
        if slot.callee.state == CalleeState::Ringing && self.settings.ring > sip::Duration::ZERO {
            slot.callee.refusal.clear();
            response(487).write(&mut slot.callee.refusal, |_| ());
        }
    }

    /// Sends the final response to an INVITE for the first time.
    pub(super) fn begin_answer(
        &mut self,
        index: u32,
        end: End,
        now: Instant,
        mark: Option<(Entry, Mark)>,
    ) {
        let timers = self.settings.timers;
        let answer = self.slots.get(index).answer(end);
        answer.interval = timers.t1;
        answer.again = now + timers.t1;
        answer.end = now + timers.t1.times(64);
        self.push_answer(index, end, mark);
    }

    /// Retransmits the final response, because no ACK has come (RFC 3261 section 13.3.1.4).
    pub(super) fn send_answer_again(&mut self, index: u32, end: End, now: Instant) {
        let timers = self.settings.timers;
        let retransmits = self.settings.retransmits;
        let slot = self.slots.get(index);
        let is_measured = slot.is_measured;
        let answer = slot.answer(end);
        if !retransmits {
            answer.again = Instant::MAX;
            return;
        }
        answer.interval = answer.interval.times(2).min(timers.t2.max(timers.t1));
        answer.again = now + answer.interval;
        self.tally.retransmitted(is_measured, now);
        self.push_answer(index, end, None);
    }

    pub(super) fn push_answer(&mut self, index: u32, end: End, mark: Option<(Entry, Mark)>) {
        let start = self.out.bytes.len();
        let slot = self.slots.get(index);
        let is_measured = slot.is_measured;
        let answer = slot.answer(end);
        self.out.bytes.extend_from_slice(&answer.bytes);
        let way = (answer.link, Some(answer.remote));
        self.push(start, way, Stage::Answer, mark, is_measured);
    }

    /// Answers an unexpected request with `status`.
    fn refuse(&mut self, arrived: &Arrived<'_, '_>, status: u16) {
        self.tally.counts().unexpected += u64::from(arrived.is_measured);
        if arrived.method != Method::Ack {
            self.respond(arrived, status, NO_CALL, None);
        }
    }

    /// Sends a stateless response: a retransmitted request gets an equal response.
    pub(super) fn respond(
        &mut self,
        arrived: &Arrived<'_, '_>,
        status: u16,
        tag: &[u8],
        mark: Option<(Entry, Mark)>,
    ) {
        let start = self.out.bytes.len();
        let response = Response {
            request: arrived.message,
            source: arrived.remote,
            status,
            reason: reason_phrase(status),
            to_tag: Some(tag),
        };
        let place = write::place_of(&self.places, arrived.link);
        let out = &mut self.out.bytes;
        let contact = |out: &mut Vec<u8>| {
            ("Contact: <sip:", &place.contact, ">\r\n").encode(out);
        };
        match (status, arrived.method) {
            (180, _) => response.write(out, |out| {
                arrived.message.write_record_routes(out);
                contact(out);
            }),
            (200, Method::Update) if arrived.message.body().is_empty() => {
                response.write(out, contact);
            }
            (200, Method::Update) => {
                let fields = |out: &mut Vec<u8>| {
                    contact(out);
                    out.extend_from_slice(b"Content-Type: application/sdp\r\n");
                };
                response.write_with_body(out, fields, &self.session);
            }
            (200, Method::Options) => response.write(out, |out| {
                (ALLOW, "Accept: application/sdp\r\n").encode(out);
            }),
            (405, _) => response.write(out, |out| out.extend_from_slice(ALLOW)),
            (420, _) => response.write(out, |out| {
                for (index, option) in arrived.required().enumerate() {
                    let before: &[u8] = if index == 0 { b"Unsupported: " } else { b", " };
                    (before, option).encode(out);
                }
                out.extend_from_slice(b"\r\n");
            }),
            (469, _) => response.write(out, |out| out.extend_from_slice(b"Recv-Info:\r\n")),
            // Two requests of one dialog have crossed (RFC 3261 section 14.2).
            (500, Method::Invite) => {
                response.write(out, |out| out.extend_from_slice(b"Retry-After: 1\r\n"));
            }
            _ => response.write(out, |_| ()),
        }
        let stage = if status == 180 { Stage::Ringing } else { Stage::ByeAnswer };
        let way = (arrived.link, Some(arrived.remote));
        self.push(start, way, stage, mark, arrived.is_measured);
    }
}

/// Returns the status for an unsupported method: 405 if the method is known, else 501 (RFC 3261
/// sections 8.2.1 and 21.5.2).
const fn status_of_other(method: Method<'_>) -> u16 {
    if matches!(method, Method::Other(_)) { 501 } else { 405 }
}

fn has_info_package(message: &Message<'_>) -> bool {
    message.fields().any(|field| field.raw_name().eq_ignore_ascii_case(b"Info-Package"))
}

fn to_tag<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    NameAddr::parse(HeaderName::To, message.value(HeaderName::To)?).ok()?.tag()
}

/// Returns the end of the call in `slot` that has this tag.
fn end_of(slot: &Slot, index: u32, tag: &[u8]) -> Option<End> {
    let entry = Entry { slot: index, generation: slot.generation };
    if tag == tag_of(entry) {
        return Some(End::Callee);
    }
    (tag == tag_of_end(End::Caller, entry)).then_some(End::Caller)
}

fn tag_of_end(end: End, entry: Entry) -> Vec<u8> {
    match end {
        End::Callee => tag_of(entry).to_vec(),
        End::Caller => {
            let mut tag = Vec::with_capacity(14);
            let key = Key { slot: entry.slot, generation: entry.generation, attempt: 0 };
            write::Tag(key).encode(&mut tag);
            tag
        }
    }
}

/// Returns the callee's tag, the same in all its responses.
pub(super) fn tag_of(entry: Entry) -> [u8; 9] {
    let mut tag = *b"c00000000";
    for (place, digit) in tag[1..].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(entry.generation >> (28 - 4 * place) & 15) as usize];
    }
    tag
}
