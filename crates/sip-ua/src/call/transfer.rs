//! Transfer: REFER, its notifications, and calls that replace others (RFC 3515, RFC 3891, RFC
//! 5589).

use super::error::{CallError, CallState};
use super::exchange::{cseq_of, is_last};
use super::referral::TELLS;
use super::state::{Call, Cause, State};
use crate::client_transaction::{Owner, RequestResult};
use crate::core::{Core, contact};
use crate::draft::Draft;
use crate::event::{Event, Failure, Transfer};
use crate::replaces::Replaces;
use crate::server_transaction::{Answer, Asked, ServerKey};
use crate::uac::split_headers;
use crate::violation::Violation;
use alloc::string::String;
use alloc::vec::Vec;
use sip::header::{NameAddr, media_type};
use sip::message::reason_phrase;
use sip::{Encode, Flow, HeaderName, Instant, Message, Method};

/// The maximum length of Refer-To in bytes.
const MAX_REFER_TO: usize = 2048;

impl Call {
    /// Asks the other end to call `refer_to`.
    pub(crate) fn refer(
        &mut self,
        core: &mut Core,
        refer_to: &[u8],
        now: Instant,
    ) -> Result<(), CallError> {
        let referrer = referred_by(self.established()?.dialog.local());
        self.send_refer(core, refer_to, &referrer, now)
    }

    /// Returns an error if the other end cannot be asked to call another party now.
    pub(crate) fn check_refer(&self, now: Instant) -> Result<(), CallError> {
        let State::Established(established) = &self.state else {
            return Err(CallError::State(CallState::Established));
        };
        match established.referrals.asks_until.is_some_and(|until| until > now) {
            true => Err(CallError::TransferPending),
            false => Ok(()),
        }
    }

    /// Sends a REFER to `refer_to` with the header field lines `lines`.
    pub(crate) fn send_refer(
        &mut self,
        core: &mut Core,
        refer_to: &[u8],
        lines: &[u8],
        now: Instant,
    ) -> Result<(), CallError> {
        self.check_refer(now)?;
        let account = self.account;
        let established = self.established()?;
        established.referrals.asks_until = Some(now + TELLS);
        let mut draft = Draft::within(account, &mut established.dialog, Method::Refer, Vec::new());
        ("Refer-To: <", refer_to, ">\r\n", lines).encode(&mut draft.lines);
        let way = self.way_to(draft.dialog.next_hop());
        core.request(draft, Owner::Call(self.id), way, now);
        Ok(())
    }

    /// Returns the Refer-To value for the other end of this call, so that a call to it replaces
    /// this call. The address is the one that this end called or was called by.
    pub(crate) fn refer_to_here(&self) -> Result<Vec<u8>, CallError> {
        let State::Established(established) = &self.state else {
            return Err(CallError::State(CallState::Established));
        };
        let dialog = &established.dialog;
        let address = NameAddr::parse(HeaderName::To, dialog.remote()).ok();
        let target = match self.account {
            // The server knows the route. A contact may be valid only in the server's network.
            Some(_) => address.map_or(dialog.remote_target(), |address| address.uri_bytes),
            None => dialog.remote_target(),
        };
        let id = dialog.id();
        let replaces = Replaces {
            call_id: id.call_id.to_vec(),
            to_tag: id.remote_tag.to_vec(),
            from_tag: id.local_tag.to_vec(),
            early_only: false,
        };
        let mut refer_to = Vec::new();
        (target, "?Replaces=", replaces.escaped()).encode(&mut refer_to);
        Ok(refer_to)
    }

    /// Processes the result of the local REFER.
    pub(super) fn on_refer_result(&mut self, core: &mut Core, result: &RequestResult<'_>) {
        let call = self.id;
        let Ok(established) = self.established() else { return };
        let failure = match &result.outcome {
            Ok(response) => match response.status().unwrap_or_default() {
                ..200 => return,
                200..300 => {
                    let transfer = Transfer::Accepted;
                    return core.tell(Event::Transfer { call, transfer });
                }
                _ => Failure::refused_by(response),
            },
            Err(failure) => failure.clone(),
        };
        established.referrals.asks_until = None;
        core.tell(Event::Transfer { call, transfer: Transfer::Failed(failure) });
    }

    /// Processes a NOTIFY about the call of the other end (RFC 3515 section 2.4.5). Returns the
    /// status of the response.
    pub(super) fn on_notify(&mut self, core: &mut Core, notify: &Message<'_>) -> u16 {
        let call = self.id;
        let Ok(established) = self.established() else { return 481 };
        let event = notify.value(HeaderName::Event).unwrap_or_default();
        let package = event.split(|byte| *byte == b';').next().unwrap_or_default();
        if !package.trim_ascii().eq_ignore_ascii_case(b"refer") {
            return 489;
        }
        if established.referrals.asks_until.is_none() {
            // A late notification of a finished transfer.
            return 200;
        }
        let is_fragment = notify
            .value(HeaderName::ContentType)
            .and_then(|value| media_type(value).ok())
            .is_some_and(|kind| kind.is("message", "sipfrag"));
        let is_over = is_last(notify);
        let told = is_fragment.then(|| status_of(notify.body())).flatten();
        let transfer = match told {
            Some((status, reason)) if status >= 200 => {
                established.referrals.asks_until = None;
                match status {
                    200..300 => Transfer::Done,
                    _ => Transfer::Failed(Failure::Refused { status, reason }),
                }
            }
            Some((status, _)) if !is_over => Transfer::Progress { status },
            _ if is_over => {
                established.referrals.asks_until = None;
                Transfer::Failed(Failure::Protocol(Violation::NoTransferResult))
            }
            _ => return 200,
        };
        core.tell(Event::Transfer { call, transfer });
        200
    }

    /// Processes a REFER (RFC 3515 section 2.4.2). `Err` is the status of the rejection.
    pub(super) fn on_refer(
        &mut self,
        core: &mut Core,
        refer: &Message<'_>,
        flow: &Flow,
        key: ServerKey,
        now: Instant,
    ) -> Result<(), u16> {
        let call = self.id;
        let Ok(established) = self.established() else { return Err(481) };
        let referrals = &mut established.referrals;
        let is_busy = referrals.followed.is_some_and(|(_, until)| until > now);
        if referrals.asked.is_some() || is_busy {
            return Err(491);
        }
        let mut values = refer.elements(HeaderName::ReferTo);
        let (Some(value), None) = (values.next(), values.next()) else { return Err(400) };
        if value.len() > MAX_REFER_TO {
            return Err(413);
        }
        let target = NameAddr::parse(HeaderName::ReferTo, value).map_err(|_| 400_u16)?;
        let uri = target.uri().map_err(|_| 400_u16)?;
        let Some(uri) = uri.as_sip() else { return Err(416) };
        if uri.params.value("method").is_some_and(|method| !method.eq_ignore_ascii_case(b"INVITE"))
        {
            return Err(501);
        }
        let replaces = Replaces::of_headers(uri.headers).is_some();
        let (to, _) = split_headers(target.uri_bytes).ok_or(400_u16)?;
        let to = String::from_utf8_lossy(to).into_owned();
        referrals.asked = Some(Asked { request: refer.as_bytes().to_vec(), flow: *flow, key });
        core.tell(Event::TransferAsked { call, to, replaces });
        Ok(())
    }

    /// Follows the REFER. Returns the URI to call, and the origin of that call.
    pub(crate) fn follow(
        &mut self,
        core: &mut Core,
        now: Instant,
    ) -> Result<(String, Cause), CallError> {
        let (uri, lines) = self.asked_refer()?;
        self.accept_refer(core, now)?;
        Ok((uri, Cause { referrer: Some(self.id), lines, ..Cause::default() }))
    }

    /// Returns the URI of the REFER that has no response yet, and the line of Referred-By, which
    /// names the other end if the REFER names none.
    pub(crate) fn refer_to_pass(&mut self) -> Result<(String, Vec<u8>), CallError> {
        let (uri, mut lines) = self.asked_refer()?;
        if lines.is_empty() {
            lines = referred_by(self.established()?.dialog.remote());
        }
        Ok((uri, lines))
    }

    /// Reports the status of the call of another party for the REFER: in its response while it has
    /// none, otherwise by NOTIFY.
    pub(crate) fn report_refer(&mut self, core: &mut Core, status: u16, now: Instant) {
        let has_no_response = self.established().is_ok_and(|it| it.referrals.asked.is_some());
        // They fail only without such a request.
        if has_no_response && status >= 300 {
            let _ = self.refuse_transfer(core, status, now);
            return;
        }
        if has_no_response {
            let _ = self.accept_refer(core, now);
        }
        self.tell_referrer(core, status, now);
    }

    /// Returns the URI of the REFER that has no response yet, and the line of Referred-By, if any.
    fn asked_refer(&mut self) -> Result<(String, Vec<u8>), CallError> {
        let asked = self.established()?.referrals.asked.as_ref();
        let asked = asked.ok_or(CallError::State(CallState::TransferReceived))?;
        let refer = Message::parse(&asked.request).map_err(|_| CallError::Unknown)?;
        let value = refer.value(HeaderName::ReferTo).unwrap_or_default();
        let target = NameAddr::parse(HeaderName::ReferTo, value).map_err(|_| CallError::Uri)?;
        let mut lines = Vec::new();
        if let Some(referrer) = refer.value(HeaderName::ReferredBy) {
            ("Referred-By: ", referrer, "\r\n").encode(&mut lines);
        }
        Ok((String::from_utf8_lossy(target.uri_bytes).into_owned(), lines))
    }

    /// Accepts the REFER that has no response yet.
    fn accept_refer(&mut self, core: &mut Core, now: Instant) -> Result<(), CallError> {
        let tag = self.local_tag();
        let user = core.contact_user(self.account);
        let established = self.established()?;
        let asked = established.referrals.asked.take();
        let asked = asked.ok_or(CallError::State(CallState::TransferReceived))?;
        let refer = Message::parse(&asked.request).map_err(|_| CallError::Unknown)?;
        established.referrals.count += 1;
        established.referrals.followed = Some((cseq_of(&refer), now + TELLS));
        let mut accepted = Vec::new();
        ("Contact: ", contact(&user, &asked.flow, refer.request_uri().unwrap_or_default()), "\r\n")
            .encode(&mut accepted);
        let answer = Answer { status: 202, tag: &tag, lines: &accepted, body: b"" };
        core.respond(&refer, &asked.flow, asked.key, &answer, now);
        Ok(())
    }

    /// Rejects the REFER.
    pub(crate) fn refuse_transfer(
        &mut self,
        core: &mut Core,
        status: u16,
        now: Instant,
    ) -> Result<(), CallError> {
        let tag = self.local_tag();
        let established = self.established()?;
        let asked = established.referrals.asked.take();
        let asked = asked.ok_or(CallError::State(CallState::TransferReceived))?;
        core.respond_to(&asked, &Answer::status(status, &tag), now);
        Ok(())
    }

    /// Notifies the other end of the progress of the call that it has requested.
    pub(crate) fn tell_referrer(&mut self, core: &mut Core, status: u16, now: Instant) {
        let account = self.account;
        let (dialog, referrals) = match &mut self.state {
            State::Established(call) => (&mut call.dialog, &mut call.referrals),
            State::Referred(call) => (&mut call.dialog, &mut call.referrals),
            State::Calling(_)
            | State::Ringing(_)
            | State::Leaving(_)
            | State::Mortal(_)
            | State::Over => return,
        };
        let Some((cseq, until)) = referrals.followed else { return };
        let is_over = status >= 200;
        if is_over {
            referrals.followed = None;
        }
        let count = referrals.count;
        let mut notify = Draft::within(account, dialog, Method::Notify, Vec::new());
        // The identifier of one among several REFERs in the same dialog (RFC 3515 section 2.4.6).
        let id = (count > 1).then_some((";id=", cseq));
        let left = until.since(now).as_secs();
        let state = match is_over {
            true => ("terminated;reason=noresource", None),
            false => ("active;expires=", Some(left)),
        };
        let state = ("Subscription-State: ", state, "\r\n");
        (("Event: refer", id, "\r\n"), state).encode(&mut notify.lines);
        notify.contact = Some(Vec::new());
        notify.body_type = "message/sipfrag;version=2.0".into();
        ("SIP/2.0 ", status, " ", reason_phrase(status), "\r\n").encode(&mut notify.body);
        let way = self.way_to(notify.dialog.next_hop());
        core.request(notify, Owner::None, way, now);
        if is_over && matches!(self.state, State::Referred(_)) {
            self.state = State::Over;
        }
    }

    /// Returns true if `replaces` in an INVITE identifies this call.
    pub(crate) fn is_replaced_by(&self, replaces: &Replaces) -> bool {
        let is_meant = |id: sip::dialog::DialogId<'_>| {
            id.call_id == replaces.call_id
                && id.local_tag == replaces.to_tag
                && id.remote_tag == replaces.from_tag
        };
        match &self.state {
            // An unanswered call can be replaced only at the calling end.
            State::Calling(calling) => {
                calling.early.iter().any(|early| is_meant(early.dialog.id()))
            }
            State::Established(established) => is_meant(established.dialog.id()),
            State::Ringing(_)
            | State::Referred(_)
            | State::Leaving(_)
            | State::Mortal(_)
            | State::Over => false,
        }
    }
}

/// Returns the line of Referred-By for the party `address`, a value of From or To. Empty if that is
/// malformed.
fn referred_by(address: &[u8]) -> Vec<u8> {
    let mut line = Vec::new();
    if let Ok(address) = NameAddr::parse(HeaderName::From, address) {
        ("Referred-By: <", address.uri_bytes, ">\r\n").encode(&mut line);
    }
    line
}

/// Returns the status and the reason of the status line at the start of a response fragment (RFC
/// 3420).
fn status_of(fragment: &[u8]) -> Option<(u16, String)> {
    let line = fragment.trim_ascii_start().split(|byte| *byte == b'\n').next()?.trim_ascii();
    let text = core::str::from_utf8(line).ok()?;
    let mut words = text.splitn(3, ' ');
    let version = words.next()?;
    let status: u16 = words.next()?.parse().ok()?;
    let is_status = version.eq_ignore_ascii_case("SIP/2.0") && (100..700).contains(&status);
    is_status.then(|| (status, words.next().unwrap_or_default().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_tell_their_status() {
        let of = |text: &str| status_of(text.as_bytes());
        assert_eq!(of("SIP/2.0 180 Ringing\r\n"), Some((180, "Ringing".into())));
        assert_eq!(of("\r\nsip/2.0 200\n"), Some((200, String::new())));
        assert_eq!(of("SIP/2.0 999 No\r\n"), None);
        assert_eq!(of(""), None);
    }
}
