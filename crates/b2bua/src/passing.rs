//! Requests that pass within a call: INFO, MESSAGE, REFER and NOTIFY. Names of dialogs in them are
//! translated, since each end knows the dialogs of its own legs only.

use crate::b2bua::{B2bua, BridgeId, USER};
use crate::bridge::Side;
use crate::fields;
use crate::setup::TOO_LARGE;
use alloc::vec::Vec;
use sip::dialog::DialogId;
use sip::header::NameAddr;
use sip::{Encode, HeaderName, Instant, Message, Method, Status, Uri};
use sip_ua::{CallId, Failure, PassedRequest, Replaces, RequestId};

impl B2bua {
    /// Passes `message` of `call` to the other leg.
    pub(crate) fn on_passed_request(
        &mut self,
        call: CallId,
        request: RequestId,
        message: &[u8],
        now: Instant,
    ) {
        match Message::parse(message) {
            Ok(message) if message.body().len() > self.config.body => {
                self.respond(now, request, TOO_LARGE);
            }
            // A phone would follow it with its own rights.
            Ok(message) if message.method() == Some(Method::Refer) && self.is_trunk(call) => {
                self.respond(now, request, Status::FORBIDDEN.code());
            }
            Ok(message) if self.asks_to_play(call, request, &message) => {}
            Ok(message) => self.pass_on(call, request, &message, now),
            Err(_) => self.refuse_request(request, now),
        }
    }

    /// Passes `message` of `call` to the other leg now.
    pub(crate) fn pass_on(
        &mut self,
        call: CallId,
        request: RequestId,
        message: &Message<'_>,
        now: Instant,
    ) {
        match self.pass(call, message, now) {
            Some(sent) => {
                self.passing.insert(sent, request);
            }
            None => self.refuse_request(request, now),
        }
    }

    /// Returns true if the leg `call` is that of a trunk.
    fn is_trunk(&self, call: CallId) -> bool {
        self.find(call).is_some_and(|(id, side)| self.is_on_trunk(id, side))
    }

    fn is_on_trunk(&self, id: BridgeId, side: Side) -> bool {
        let on_trunk = self.bridges.get(&id).and_then(|bridge| bridge.on_trunk);
        on_trunk.is_some_and(|on| on.side == side)
    }

    /// Returns the value of Refer-To that a trunk gets for `refer_to`, if a REFER with it came from
    /// the other leg, which has this Call-ID and the tag `to_tag` of this agent. `None` if that
    /// goes to no trunk. The provider calls the target at the cost of the trunk: the owner passes
    /// such a REFER here only if the target may be called.
    #[must_use]
    pub fn referral_of_trunk(
        &self,
        call_id: &[u8],
        to_tag: &[u8],
        refer_to: &[u8],
    ) -> Option<Vec<u8>> {
        let (id, side) = self.find(self.agent.call_of_tag(call_id, to_tag)?)?;
        self.is_on_trunk(id, side.other()).then(|| self.translated_target(refer_to))
    }

    fn refuse_request(&mut self, request: RequestId, now: Instant) {
        self.respond(now, request, Status::CALL_DOES_NOT_EXIST.code());
    }

    /// Responds to a request that came within a call, unless that has ended since.
    pub(crate) fn respond(&mut self, now: Instant, request: RequestId, status: u16) {
        let _ = self.agent.respond(now, request, status, b"");
    }

    fn pass(&mut self, call: CallId, message: &Message<'_>, now: Instant) -> Option<RequestId> {
        let (id, side) = self.find(call)?;
        let mut lines = [fields::passed(message), fields::of_body(message)].concat();
        let method = match message.method()? {
            Method::Info => Method::Info,
            Method::Message => Method::Message,
            Method::Refer => Method::Refer,
            Method::Notify => Method::Notify,
            _ => return None,
        };
        if let Some(refer_to) = message.value(HeaderName::ReferTo) {
            let refer_to = self.translated_target(refer_to);
            ("Refer-To: ", &refer_to, "\r\n").encode(&mut lines);
        }
        let bridge = self.bridges.get_mut(&id)?;
        if let Some(event) = message.value(HeaderName::Event) {
            // A number that identifies a REFER is that of the leg (RFC 3515 section 2.4.6).
            let refer = bridge.leg(side.other()).refer;
            let event = refer.map_or(event.to_vec(), |refer| translated_event(event, refer));
            ("Event: ", &event, "\r\n").encode(&mut lines);
        }
        let body_type = message.value(HeaderName::ContentType).unwrap_or_default();
        let passed = PassedRequest {
            method,
            lines: &lines,
            body_type: core::str::from_utf8(body_type).unwrap_or("application/octet-stream"),
            body: message.body(),
        };
        let other = bridge.call(side.other())?;
        let (sent, cseq) = self.agent.request(now, other, &passed).ok()?;
        if method == Method::Refer
            && let Some(bridge) = self.bridges.get_mut(&id)
        {
            bridge.leg(side).refer = Some((cseq_of(message), cseq));
        }
        Some(sent)
    }

    /// Passes the response to such a request back.
    pub(crate) fn on_passed_response(
        &mut self,
        sent: RequestId,
        response: Result<Vec<u8>, Failure>,
        now: Instant,
    ) {
        if self.on_digit_response(sent, &response, now) {
            return;
        }
        let Some(request) = self.passing.remove(&sent) else { return };
        let message = match &response {
            Ok(response) => Message::parse(response).ok(),
            Err(failure) => {
                self.respond(now, request, failure.status());
                return;
            }
        };
        let status = message.as_ref().and_then(Message::status);
        let status = status.unwrap_or(Status::SERVER_INTERNAL_ERROR.code());
        let Some(message) = message else {
            self.respond(now, request, status);
            return;
        };
        let mut lines = fields::passed(&message);
        let mut body = message.body();
        let body_type = message.value(HeaderName::ContentType);
        match body_type.filter(|_| !body.is_empty() && body.len() <= self.config.body) {
            Some(body_type) => {
                lines.extend(fields::of_body(&message));
                ("Content-Type: ", body_type, "\r\n").encode(&mut lines);
            }
            None => body = b"",
        }
        // The call may have ended since.
        let _ = self.agent.respond_with(now, request, status, &lines, body);
    }

    /// Returns true if `replaces` names a call of this agent with another tag of its party, or a
    /// call without another leg that could be replaced (RFC 3891 section 3).
    pub(crate) fn is_of_others(&self, replaces: &Replaces) -> bool {
        let is_known = self.agent.call_of_tag(&replaces.call_id, &replaces.to_tag).is_some();
        is_known && self.across(replaces).is_none()
    }

    /// Returns `replaces` as the end of the other leg knows the call. Another dialog stays.
    pub(crate) fn translated(&self, replaces: Replaces) -> Replaces {
        self.across(&replaces).map_or(replaces, |(there, _)| there)
    }

    /// Returns the dialog of the other leg of the call that `replaces` names, and its side. The
    /// name is that of the end of this agent, which the party at the end of the leg has sent.
    fn across(&self, replaces: &Replaces) -> Option<(Replaces, CallId)> {
        let Replaces { call_id, to_tag, from_tag, .. } = replaces;
        let call =
            self.agent.call_of(DialogId { call_id, local_tag: to_tag, remote_tag: from_tag })?;
        let (bridge, side) = self.find(call)?;
        let other = self.bridges.get(&bridge)?.call(side.other())?;
        let id = self.agent.dialog(other)?.id();
        let there = Replaces {
            call_id: id.call_id.to_vec(),
            to_tag: id.remote_tag.to_vec(),
            from_tag: id.local_tag.to_vec(),
            early_only: replaces.early_only,
        };
        Some((there, other))
    }

    /// Returns the value of Refer-To for the other leg. A target that replaces a call of this agent
    /// is the party at the other end of that call, by the address that it was called by or called
    /// from (RFC 5589 section 7.3).
    fn translated_target(&self, refer_to: &[u8]) -> Vec<u8> {
        self.target_across(refer_to).unwrap_or_else(|| refer_to.to_vec())
    }

    fn target_across(&self, refer_to: &[u8]) -> Option<Vec<u8>> {
        let target = NameAddr::parse(HeaderName::ReferTo, refer_to).ok()?;
        let Ok(Uri::Sip(uri)) = target.uri() else { return None };
        let (there, other) = self.across(&Replaces::of_headers(uri.headers)?)?;
        let (address, _) = self.address_of(other)?;
        let mut out = Vec::new();
        ("<", address, "?Replaces=", there.escaped(), ">").encode(&mut out);
        Some(out)
    }

    /// Returns the address of the party of `leg`, that it was called by or called from, and true if
    /// that is a SIPS URI.
    fn address_of(&self, leg: CallId) -> Option<(&[u8], bool)> {
        let party = NameAddr::parse(HeaderName::To, self.agent.dialog(leg)?.remote()).ok()?;
        let Ok(Uri::Sip(uri)) = party.uri() else { return None };
        // The URI in To has no header fields, unless the caller has made a mistake.
        uri.headers.is_empty().then_some((party.uri_bytes, uri.secure))
    }

    /// Returns the request URI of an INVITE to `uri` with the value `replaces` of Replaces (RFC
    /// 3891), if that names a leg by the tag of this agent, so that the INVITE has to come here.
    /// `None` if it does not. The contact of this agent stands for the party of the other leg.
    #[must_use]
    pub fn replacing(&self, uri: &[u8], replaces: &[u8]) -> Option<Vec<u8>> {
        let replaces = Replaces::parse(replaces).ok()?;
        self.agent.call_of_tag(&replaces.call_id, &replaces.to_tag)?;
        let party = match Uri::parse(uri) {
            Ok(Uri::Sip(own)) if own.user == Some(USER.as_bytes()) => {
                let address = self.across(&replaces).and_then(|(_, leg)| self.address_of(leg));
                address.filter(|(_, is_secure)| *is_secure || !own.secure)
            }
            _ => None,
        };
        Some(party.map_or(uri, |(address, _)| address).to_vec())
    }
}

/// Returns the value of Event with the number of the REFER `there` in place of `here`.
fn translated_event(event: &[u8], (there, here): (u32, u32)) -> Vec<u8> {
    let mut own = Vec::new();
    (";id=", here).encode(&mut own);
    match event.strip_suffix(&own[..]) {
        Some(package) => {
            let mut out = package.to_vec();
            (";id=", there).encode(&mut out);
            out
        }
        None => event.to_vec(),
    }
}

fn cseq_of(message: &Message<'_>) -> u32 {
    let cseq = message.value(HeaderName::CSeq).and_then(|it| sip::header::CSeq::parse(it).ok());
    cseq.map_or(0, |cseq| cseq.number)
}
