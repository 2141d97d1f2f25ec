//! The client side of the operations.

use super::bindings;
use super::credentials::{Asked, Keys};
use super::key::{self, Key};
use super::slot::{Request, Slot, Task};
use super::write::{self, Sender};
use super::{Engine, Mark, Party, Settings, Stage};
use crate::load::tally::Outcome;
use crate::record::Delay;
use sip::dialog::Dialog;
use sip::header::HeaderName;
use sip::transaction::{ClientTransaction, TransactionKind};
use sip::{Duration, Encode, Instant, Message, Method, digest};
use std::net::SocketAddr;

const SDP: &str = "application/sdp";

/// The most challenges that are answered for one request: the first, and one more for a stale
/// nonce.
const MAX_CHALLENGES: u8 = 2;

impl Engine {
    /// Sends the current request of the operation for the first time.
    pub(super) fn begin_request(&mut self, index: u32, now: Instant) {
        let is_reliable = self.settings.transport.is_stream();
        let slot = self.slots.get(index);
        let kind = match slot.request {
            Request::Invite => TransactionKind::Invite,
            _ => TransactionKind::NonInvite,
        };
        slot.transaction = ClientTransaction::new(kind, is_reliable, &self.settings.timers, now);
        slot.sent = Instant::MAX;
        slot.until = Instant::MAX;
        slot.expires = match slot.task {
            Task::Logout | Task::Clear => 0,
            _ => self.bindings.asked(slot.user),
        };
        if self.settings.reuse_nonces && slot.challenges == 0 {
            let is_measured = slot.is_measured;
            let is_known = self.with_credentials(index, Keys::repeat);
            self.tally.counts().reused += u64::from(is_known && is_measured);
        }
        self.write_request(index, Some(Mark::Request));
        self.schedule(index);
    }

    /// Writes the current request; a retransmission has the same bytes.
    pub(super) fn write_request(&mut self, index: u32, mark: Option<Mark>) {
        let start = self.out.bytes.len();
        let out = &mut self.out.bytes;
        let slot = self.slots.get(index);
        let key = Key { slot: index, generation: slot.generation, attempt: slot.attempt };
        let party = &self.parties[slot.user as usize];
        let name = party.name.as_str();
        let domain = self.settings.domain.as_str();
        let remote = match (slot.request, &slot.dialog) {
            (Request::Bye | Request::Hold, Some(dialog)) => write::address_of(dialog.next_hop()),
            _ => None,
        };
        let link = way_to(remote, slot.link, party, &self.settings);
        let sender =
            Sender { settings: &self.settings, place: write::place_of(&self.places, link), key };
        let (method, cseq) = (slot.request.method(), slot.cseq);
        let uri = request_uri(slot, &self.parties, &self.settings);
        match slot.request {
            Request::Register => {
                let to = ("<sip:", name, "@", domain, ">");
                // One Call-ID for all registrations of a user (RFC 3261 section 10.2.4).
                let call_id = Registration { user: slot.user, salt: self.settings.salt };
                let call_id = (call_id, "@", &sender.place.sent_by);
                let home = write::place_of(&self.places, party.link);
                let contact = match slot.task {
                    Task::Clear => (Some("*"), None),
                    _ => (None, Some(write::contact(name, home))),
                };
                sender
                    .outside(uri, name, to, call_id)
                    .request(method, cseq, sender.via(), out)
                    .field(HeaderName::Contact, contact)
                    .field(HeaderName::Expires, slot.expires)
                    .lines(&slot.authorization)
                    .field(HeaderName::UserAgent, write::USER_AGENT)
                    .end();
            }
            Request::Options => sender
                .outside(uri, name, ("<", uri, ">"), sender.call_id())
                .request(method, cseq, sender.via(), out)
                .field(HeaderName::Accept, SDP)
                .lines(&slot.authorization)
                .field(HeaderName::UserAgent, write::USER_AGENT)
                .end(),
            Request::Invite => sender
                .outside(uri, name, ("<", uri, ">"), sender.call_id())
                .request(method, cseq, sender.via(), out)
                .field(HeaderName::Contact, write::contact(name, sender.place))
                .lines(&slot.authorization)
                .field(HeaderName::UserAgent, write::USER_AGENT)
                .body(SDP, &self.session),
            Request::Bye | Request::Hold => {
                if let Some(dialog) = &slot.dialog {
                    dialog
                        .request(method, cseq, sender.via(), out)
                        .lines(&slot.authorization)
                        .field(HeaderName::UserAgent, write::USER_AGENT)
                        .end();
                }
            }
        }
        let entry = super::Entry { slot: index, generation: slot.generation };
        let is_measured = slot.is_measured;
        let stage = match slot.request {
            Request::Bye | Request::Hold => Stage::Bye,
            _ => Stage::Request,
        };
        self.push(start, (link, remote), stage, mark.map(|mark| (entry, mark)), is_measured);
    }

    /// Handles a response.
    pub(super) fn on_response(
        &mut self,
        message: &Message<'_>,
        status: u16,
        received: Instant,
        now: Instant,
        link: u32,
    ) {
        let salt = self.settings.salt;
        let branch = message.top_via().ok().and_then(|via| via.transaction_branch());
        let key =
            branch.and_then(|branch| Key::parse(&branch[sip::header::MAGIC_COOKIE.len()..], salt));
        let Some(key) = key else {
            self.stray(now);
            return;
        };
        let Some(slot) = self.slots.find(key) else {
            self.past(key, false, now);
            self.acknowledge(message, status, key, link, false);
            return;
        };
        let is_measured = slot.is_measured;
        self.tally.counts().received += u64::from(is_measured);
        if slot.attempt != key.attempt || slot.request == Request::Hold {
            // A response to a request that already had its final response.
            self.tally.counts().repeated += u64::from(is_measured);
            self.acknowledge(message, status, key, link, is_measured);
            return;
        }
        let action = slot.transaction.on_response(status, &self.settings.timers, now);
        if !action.pass_up {
            self.tally.counts().repeated += u64::from(is_measured);
            return;
        }
        if status < 200 {
            self.on_provisional(key.slot, status, received);
            return;
        }
        if slot.request == Request::Invite {
            self.acknowledge(message, status, key, link, is_measured);
        }
        self.on_final(message, status, key.slot, received, now);
    }

    /// Sends the ACK of a final response to an INVITE, for the first copy and for retransmissions.
    fn acknowledge(
        &mut self,
        message: &Message<'_>,
        status: u16,
        key: Key,
        link: u32,
        is_measured: bool,
    ) {
        let is_invite = message
            .value(HeaderName::CSeq)
            .and_then(|value| sip::header::CSeq::parse(value).ok())
            .is_some_and(|cseq| cseq.method == Method::Invite);
        if status < 200 || !is_invite {
            return;
        }
        let start = self.out.bytes.len();
        let out = &mut self.out.bytes;
        let (authorization, party) = match self.slots.find(key) {
            Some(slot) => {
                let party = self.parties.get(slot.user as usize);
                let is_new = slot.request == Request::Invite;
                (if is_new { &slot.authorization[..] } else { &slot.proof }, party)
            }
            None => (&[][..], None),
        };
        let dialog = if status < 300 { Dialog::from_response(message).ok() } else { None };
        let remote = dialog.as_ref().and_then(|dialog| write::address_of(dialog.next_hop()));
        let link = party.map_or(link, |party| way_to(remote, link, party, &self.settings));
        let place = write::place_of(&self.places, link);
        let sender = Sender { settings: &self.settings, place, key };
        let written = match (&dialog, status) {
            (Some(dialog), _) => {
                sender.write_ack(dialog, authorization, out);
                Some(())
            }
            (None, ..300) => None,
            (None, _) => sender.write_ack_of_refusal(message, out),
        };
        if written.is_none() {
            self.out.bytes.truncate(start);
            return;
        }
        self.push(start, (link, remote), Stage::Ack, None, is_measured);
    }

    fn on_provisional(&mut self, index: u32, status: u16, received: Instant) {
        let patience = self.settings.timers.t1.times(64) + self.settings.ring;
        let slot = self.slots.get(index);
        if slot.request != Request::Invite {
            return;
        }
        // The transaction has no timer any more (section 17.1.1.2). The user agent limits the
        // ringing time.
        slot.until = received + patience;
        if status != 100 && slot.rung.is_none() {
            let own = slot.callee.ringing_sent.since(slot.callee.invited);
            slot.rung = Some(net(slot.elapsed, received, slot.sent, own));
        }
        self.schedule(index);
    }

    fn on_final(
        &mut self,
        message: &Message<'_>,
        status: u16,
        index: u32,
        received: Instant,
        now: Instant,
    ) {
        if matches!(status, 401 | 407) && self.answer_challenge(message, index, received, now) {
            return;
        }
        let slot = self.slots.get(index);
        let request = slot.request;
        if status < 300 {
            self.keys.succeeded(slot.user as usize, message);
        }
        if slot.is_measured {
            self.tally.finished(request.method(), status);
        }
        if status == 423 && self.lengthen(message, index, received, now) {
            return;
        }
        let slot = self.slots.get(index);
        match request {
            Request::Register | Request::Options => {
                slot.took = net(slot.elapsed, received, slot.sent, Duration::ZERO);
                let outcome = match status {
                    200..300 => Outcome::Succeeded,
                    _ => Outcome::Refused,
                };
                if outcome == Outcome::Succeeded && request == Request::Register {
                    self.note_binding(message, index, now);
                }
                let slot = self.slots.get(index);
                if outcome == Outcome::Succeeded && request == Request::Register && slot.is_measured
                {
                    let delay = slot.took;
                    self.tally.delay(Delay::Rrd, delay);
                }
                if outcome == Outcome::Succeeded
                    && slot.task == Task::Invite
                    && request == Request::Register
                {
                    self.call_after_registering(index, now);
                    return;
                }
                self.conclude(index, outcome, now);
            }
            Request::Invite if status < 300 => self.on_answer(message, index, received, now),
            Request::Invite => {
                slot.took = net(slot.elapsed, received, slot.sent, Duration::ZERO);
                let is_expected = match slot.task {
                    Task::InviteNotFound => status == 404,
                    Task::InviteRedirect => (300..400).contains(&status),
                    _ => false,
                };
                if slot.is_measured {
                    let delay = slot.took;
                    self.tally.delay(Delay::SrdFailed, delay);
                }
                let outcome = if is_expected { Outcome::Succeeded } else { Outcome::Refused };
                self.conclude(index, outcome, now);
            }
            Request::Bye | Request::Hold => {
                let own = slot.callee.bye_answered.since(slot.callee.bye);
                if slot.is_measured && status < 300 {
                    let delay = net(slot.elapsed, received, slot.sent, own);
                    self.tally.delay(Delay::Sdd, delay);
                    if slot.task == Task::Invite {
                        self.tally.delay(Delay::Latency, slot.took + delay);
                    }
                    self.tally.counts().completed_calls += 1;
                }
                let is_call = slot.task == Task::Invite;
                let is_expected = is_call && status < 300;
                let outcome = if is_expected { Outcome::Succeeded } else { Outcome::Refused };
                self.conclude(index, outcome, now);
            }
        }
    }

    /// Updates the binding of the user after a successful REGISTER.
    fn note_binding(&mut self, message: &Message<'_>, index: u32, now: Instant) {
        let slot = self.slots.get(index);
        let (user, asked) = (slot.user, slot.expires);
        if matches!(slot.task, Task::Logout | Task::Clear) {
            self.bindings.removed(user);
            return;
        }
        let party = &self.parties[user as usize];
        let place = write::place_of(&self.places, party.link);
        self.scratch.clear();
        ("sip:", &party.name, "@", &place.contact).encode(&mut self.scratch);
        let granted = bindings::granted(message, &self.scratch, asked);
        self.bindings.granted(user, granted, now);
    }

    /// Handles the 2xx to the INVITE: stores the dialog until its BYE.
    fn on_answer(&mut self, message: &Message<'_>, index: u32, received: Instant, now: Instant) {
        let slot = self.slots.get(index);
        let own = slot.callee.answer_sent.since(slot.callee.invited);
        let delay = net(slot.elapsed, received, slot.sent, own);
        if slot.is_measured {
            // The session request delay counts only for successful calls, which are known now.
            self.tally.delay(Delay::Srd, slot.rung.unwrap_or(delay));
            self.tally.delay(Delay::Setup, delay);
            if slot.callee.invited != Instant::MAX && slot.callee.invited >= slot.sent {
                let delay = slot.callee.invited.since(slot.sent);
                self.tally.delay(Delay::Invite, delay);
            }
            if slot.task != Task::Invite {
                self.tally.counts().unexpected += 1;
            }
        }
        slot.took = delay;
        std::mem::swap(&mut slot.proof, &mut slot.authorization);
        slot.answered = received;
        let dialog = Dialog::from_response(message).ok();
        slot.dialog = dialog.filter(|_| message.has(HeaderName::Contact));
        if slot.dialog.is_none() {
            // Without a Contact in the response the call cannot be ended.
            self.conclude(index, Outcome::Refused, now);
            return;
        }
        if self.settings.hold == Duration::ZERO {
            self.hang_up(index, now);
            return;
        }
        slot.request = Request::Hold;
        slot.until = now + self.settings.hold;
        self.schedule(index);
    }

    fn call_after_registering(&mut self, index: u32, now: Instant) {
        let slot = self.slots.get(index);
        slot.request = Request::Invite;
        slot.attempt = slot.attempt.wrapping_add(1);
        slot.challenges = 0;
        slot.cseq = 1;
        slot.elapsed = Duration::ZERO;
        slot.ahead = slot.took;
        slot.authorization.clear();
        self.begin_request(index, now);
    }

    /// Ends the call after its holding time, or the operation alone if sessions stay.
    pub(super) fn hang_up(&mut self, index: u32, now: Instant) {
        match self.settings.hangs_up {
            true => self.send_bye(index, now),
            false => self.conclude(index, Outcome::Succeeded, now),
        }
    }

    /// Sends the BYE.
    fn send_bye(&mut self, index: u32, now: Instant) {
        let slot = self.slots.get(index);
        slot.request = Request::Bye;
        slot.attempt = slot.attempt.wrapping_add(1);
        slot.challenges = 0;
        slot.cseq += 1;
        slot.elapsed = Duration::ZERO;
        slot.authorization.clear();
        if slot.is_measured {
            let duration = now.since(slot.answered);
            self.tally.delay(Delay::Sdt, duration);
        }
        self.begin_request(index, now);
    }

    /// Sends the request again with credentials, if the challenge can be answered.
    fn answer_challenge(
        &mut self,
        message: &Message<'_>,
        index: u32,
        received: Instant,
        now: Instant,
    ) -> bool {
        let slot = self.slots.get(index);
        if slot.challenges == MAX_CHALLENGES {
            return false;
        }
        let is_answered = self.with_credentials(index, |keys, asked, line| {
            keys.answer(message, asked, line).is_some()
        });
        if !is_answered {
            return false;
        }
        let slot = self.slots.get(index);
        slot.challenges += 1;
        self.tally.counts().challenged += u64::from(slot.is_measured);
        self.send_anew(index, received, now);
        true
    }

    /// Registers again with the Min-Expires of the registrar (RFC 3261 section 10.2.8), if that is
    /// longer than the requested expiry.
    fn lengthen(
        &mut self,
        message: &Message<'_>,
        index: u32,
        received: Instant,
        now: Instant,
    ) -> bool {
        let slot = self.slots.get(index);
        let registers =
            slot.request == Request::Register && !matches!(slot.task, Task::Logout | Task::Clear);
        if !registers
            || slot.is_lengthened
            || !self.bindings.too_brief(slot.user, slot.expires, message)
        {
            return false;
        }
        slot.is_lengthened = true;
        // The credentials belong to the previous request.
        slot.challenges = 0;
        slot.authorization.clear();
        self.send_anew(index, received, now);
        true
    }

    /// Sends the current request again as a new transaction. Its final response came at `received`.
    fn send_anew(&mut self, index: u32, received: Instant, now: Instant) {
        let slot = self.slots.get(index);
        slot.elapsed = net(slot.elapsed, received, slot.sent, Duration::ZERO);
        slot.attempt = slot.attempt.wrapping_add(1);
        slot.cseq += 1;
        slot.rung = None;
        if slot.request == Request::Register {
            self.registrations += 1;
            slot.cseq = self.registrations;
        }
        self.begin_request(index, now);
    }

    /// Calls `write` to write the credentials of the current request.
    fn with_credentials(
        &mut self,
        index: u32,
        write: impl FnOnce(&mut Keys, &Asked<'_>, &mut Vec<u8>) -> bool,
    ) -> bool {
        let slot = self.slots.get(index);
        let mut authorization = std::mem::take(&mut slot.authorization);
        let party = &self.parties[slot.user as usize];
        self.scratch.clear();
        Key { slot: index, generation: slot.generation, attempt: slot.attempt }
            .write(self.settings.salt, &mut self.scratch);
        let cnonce_len = self.scratch.len();
        request_uri(slot, &self.parties, &self.settings).encode(&mut self.scratch);
        let (cnonce, uri) = self.scratch.split_at(cnonce_len);
        let method = slot.request.method();
        let asked = Asked {
            user: slot.user as usize,
            name: &party.name,
            password: &party.password,
            method,
            request: digest::DigestInput {
                method: method.as_bytes(),
                uri,
                body: if slot.request == Request::Invite { &self.session } else { b"" },
            },
            cnonce,
        };
        let is_written = write(&mut self.keys, &asked, &mut authorization);
        self.slots.get(index).authorization = authorization;
        is_written
    }

    /// Ends the operation.
    fn conclude(&mut self, index: u32, outcome: Outcome, now: Instant) {
        let slot = self.slots.get(index);
        if outcome == Outcome::Succeeded {
            let delay = slot.took;
            if slot.is_measured {
                let late = slot.started.since(slot.scheduled) + slot.ahead;
                self.tally.delay(Delay::Response, delay);
                self.tally.delay(Delay::FromSchedule, late + delay);
            }
            if slot.task != Task::Refresh {
                self.tally.response(now, delay);
            }
        }
        self.end(index, outcome, now);
    }
}

/// Returns the delay from `sent` to `received` plus `before`, without `own`, the delay that this
/// program caused.
fn net(before: Duration, received: Instant, sent: Instant, own: Duration) -> Duration {
    let span = received.since(sent).as_micros().saturating_sub(own.as_micros());
    before + Duration::from_micros(span)
}

/// The Request-URI of a request.
#[derive(Clone, Copy)]
enum RequestUri<'a> {
    Domain(&'a str),
    User { prefix: &'static str, name: &'a str, domain: &'a str },
    Target(&'a [u8]),
}

impl Encode for RequestUri<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Domain(domain) => ("sip:", domain).encode(out),
            Self::User { prefix, name, domain } => ("sip:", prefix, name, "@", domain).encode(out),
            Self::Target(uri) => uri.encode(out),
        }
    }
}

/// Returns the link for a request of `party` to `remote`. The link of its requests may be connected
/// to the target and cannot send elsewhere.
fn way_to(remote: Option<SocketAddr>, link: u32, party: &Party, settings: &Settings) -> u32 {
    match remote {
        Some(remote) if remote != settings.target && link == party.way => party.link,
        _ => link,
    }
}

/// Returns the Request-URI of the current request of `slot`.
fn request_uri<'a>(slot: &'a Slot, parties: &'a [Party], settings: &'a Settings) -> RequestUri<'a> {
    let domain = &settings.domain[..];
    let user = |prefix, party: u32| RequestUri::User {
        prefix,
        name: &parties[party as usize].name,
        domain,
    };
    if let Some(to) = &settings.to
        && matches!(slot.request, Request::Options | Request::Invite)
        && slot.task != Task::InviteNotFound
    {
        return RequestUri::Target(to.as_bytes());
    }
    match (slot.request, slot.task) {
        (Request::Register | Request::Options, _) => RequestUri::Domain(domain),
        // A user that does not exist: the tilde occurs in no pattern and in no phone's name.
        (Request::Invite, Task::InviteNotFound) => user("nobody~", slot.user),
        (Request::Invite, _) => user("", slot.peer),
        (Request::Bye | Request::Hold, _) => {
            RequestUri::Target(slot.dialog.as_ref().map_or(b"", |dialog| dialog.request_uri()))
        }
    }
}

/// The Call-ID of the registrations of a user.
struct Registration {
    user: u32,
    salt: u32,
}

impl Encode for Registration {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(b'r');
        key::hex(out, self.user, 8);
        key::hex(out, self.salt, 8);
    }
}
