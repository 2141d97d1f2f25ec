//! The set-up of a call: the INVITE of the caller, the INVITE to the callee, and its responses up
//! to the answer.

use crate::b2bua::{B2bua, BridgeId, USER};
use crate::bridge::{Bridge, Invitation, Keys, Leg, OnTrunk, Side};
use crate::fields;
use crate::origin::{Origin, is_same};
use crate::report::CallReport;
use crate::trunk;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use sip::header::{NameAddr, number};
use sip::uri::escape_param;
use sip::{Encode, Flow, HeaderName, Instant, Message, Source, Status, Uri};
use sip_ua::{AccountId, CallId, Envelope, Placement, Replaces};

/// The Max-Forwards of an INVITE without one.
const MAX_FORWARDS: u32 = 70;

/// The parameter of the first Route with which the proxy asks for keys at the callee that differ
/// from those of the caller.
const OTHER_KEYS: &[u8] = b";keys=other";

/// The parameter of the first Route that tells the proxy that the callee has refused those keys.
const LAST_OFFER: &[u8] = b";offer=last";

/// The profiles of DTLS-SRTP in an offer begin with it (RFC 5764 section 8).
const HANDSHAKE: &[u8] = b" UDP/TLS/RTP/";

/// Request Entity Too Large.
pub(crate) const TOO_LARGE: u16 = 413;

/// Returns the lines of a response that pass, and its body around the session description, unless
/// that is longer than `limit`.
fn passed_response(response: &[u8], limit: usize) -> (Vec<u8>, Option<Envelope>) {
    let Ok(message) = Message::parse(response) else { return (Vec::new(), None) };
    (fields::passed(&message), fields::envelope(&message, limit).unwrap_or_default())
}

/// Returns the value of To for the callee. The caller may know the contact of this agent only, as
/// the place of the call that it replaces: the request URI names the callee. With the contact as
/// its From, the callee would claim the name of another user.
fn called(invite: &Message<'_>) -> Option<Vec<u8>> {
    let to = NameAddr::parse(HeaderName::To, invite.value(HeaderName::To)?).ok()?;
    let is_own = matches!(to.uri(), Ok(Uri::Sip(uri)) if uri.user == Some(USER.as_bytes()));
    match is_own && invite.has(HeaderName::Replaces) {
        true => Some([b"<", invite.request_uri()?, b">"].concat()),
        false => fields::address(invite, HeaderName::To),
    }
}

/// Returns the dialog that `invite` replaces, if any. `Err` is the status of the rejection (RFC
/// 3891 section 3).
fn replaced_by(invite: &Message<'_>) -> Result<Option<Replaces>, Status> {
    let mut values = invite.elements(HeaderName::Replaces);
    let Some(value) = values.next() else { return Ok(None) };
    let replaces = Replaces::parse(value).ok().filter(|_| values.next().is_none());
    replaces.map(Some).ok_or(Status::BAD_REQUEST)
}

/// The line of the response to a call over a limit.
const RETRY_AFTER: &[u8] = b"Retry-After: 5\r\n";

/// The parameter of the first Route that tells the proxy the Call-ID of the caller's leg.
const CALLER: &[u8] = b";caller=";

/// The parameters of the first Route that tell the proxy the trunk of the call and its caller, for
/// the record.
const TRUNK: &[u8] = b";trunk=";
const USER_OF_CALLER: &[u8] = b";user-of-caller=";

/// The maximum length of a Call-ID and of a caller that the proxy is told.
const LONGEST_CALL_ID: usize = 256;

impl Invitation {
    /// True if the proxy asks for other keys than those of the caller.
    fn has_other_keys(&self) -> bool {
        let mut first = self.routes.iter().take(1);
        first.any(|route| route.windows(OTHER_KEYS.len()).any(|part| part == OTHER_KEYS))
    }
}

impl B2bua {
    /// Calls the party that the INVITE of `call` is for.
    pub(crate) fn on_incoming(
        &mut self,
        call: CallId,
        flow: Flow,
        offer: Option<Vec<u8>>,
        now: Instant,
    ) {
        let invite = self.agent.invite(call).map(<[u8]>::to_vec).unwrap_or_default();
        let message = Message::parse(&invite).ok();
        let routes = message.as_ref().and_then(fields::routes).unwrap_or_default();
        let is_emergency = trunk::attempts(&routes).iter().any(|attempt| attempt.is_emergency);
        let from = Source::of(flow.remote.ip());
        let count = self.sources.get(&from).copied().unwrap_or_default();
        let refused = if is_emergency {
            None
        } else if self.bridges.len() >= self.config.calls {
            self.counters.over_limit += 1;
            Some(Status::SERVICE_UNAVAILABLE)
        } else if count >= self.config.calls_of_source {
            self.counters.over_share += 1;
            // A 503 would keep a proxy in front of the callers from all of this server (RFC 3261
            // section 21.5.4).
            Some(Status::TEMPORARILY_UNAVAILABLE)
        } else {
            None
        };
        if let Some(status) = refused {
            let _ = self.agent.decline_with(now, call, status.code(), RETRY_AFTER);
            return;
        }
        let limit = self.config.body;
        if message.as_ref().is_some_and(|message| fields::envelope(message, limit).is_err()) {
            let _ = self.agent.decline_with(now, call, TOO_LARGE, b"");
            return;
        }
        let replaces = message.as_ref().map_or(Ok(None), replaced_by);
        let refused = match replaces {
            Ok(Some(replaces)) if self.is_of_others(&replaces) => Some(Status::CALL_DOES_NOT_EXIST),
            Ok(_) => None,
            Err(status) => Some(status),
        };
        if let Some(status) = refused {
            let _ = self.agent.decline_with(now, call, status.code(), b"");
            return;
        }
        let invitation =
            message.as_ref().and_then(|message| self.invitation(message, offer.clone()));
        let refused = match &invitation {
            None => Some(Status::BAD_REQUEST),
            Some(invitation) => (invitation.max_forwards == 0).then_some(Status::TOO_MANY_HOPS),
        };
        if let Some(status) = refused {
            let _ = self.agent.decline_with(now, call, status.code(), b"");
        }
        let Some(invitation) = invitation.filter(|_| refused.is_none()) else { return };
        let from_trunk = trunk::from_trunk(&invitation.routes);
        if let Some(from_trunk) = from_trunk
            && let Some(full) = self.fullness(from_trunk)
        {
            self.counters.over_trunk += 1;
            self.tell_of_trunk(from_trunk, false, &format!("a call from it is refused: {full}"));
            let status = Status::TEMPORARILY_UNAVAILABLE.code();
            let _ = self.agent.decline_with(now, call, status, RETRY_AFTER);
            return;
        }
        let permit = match from_trunk.map(|trunk| self.permit_from(trunk, now)).transpose() {
            Ok(permit) => permit,
            Err(exceeded) => {
                self.counters.over_trunk += 1;
                let words = format!("a call from it is refused: {exceeded}");
                self.tell_of_trunk(from_trunk.unwrap_or_default(), false, &words);
                let status = Status::TEMPORARILY_UNAVAILABLE.code();
                let _ = self.agent.decline_with(now, call, status, RETRY_AFTER);
                return;
            }
        };
        let value = |name| message.as_ref().and_then(|message| message.value(name));
        let call_id = value(HeaderName::CallId).unwrap_or_default().to_vec();
        let parties = [HeaderName::From, HeaderName::To].map(|name| {
            let address = value(name).and_then(|value| NameAddr::parse(name, value).ok());
            address.map_or_else(Vec::new, |address| address.uri_bytes.to_vec())
        });
        let id = self.random_number();
        let mut caller = Leg::new(Some(call), Origin::new(id, flow.local.ip()));
        caller.received = offer.unwrap_or_default();
        let callee = Leg::new(None, Origin::new(self.random_number(), flow.local.ip()));
        self.numbers += 1;
        let id = self.numbers;
        let report = CallReport {
            call: id,
            call_ids: [call_id, Vec::new()],
            parties,
            trunk: None,
            created: now,
            answered: None,
        };
        let mut bridge = Bridge::new([caller, callee], flow, invitation, report);
        bridge.on_trunk = from_trunk.map(|trunk| OnTrunk { trunk, side: Side::Caller });
        bridge.permit = permit;
        if let Some(trunk) = from_trunk {
            // The trunk may challenge the later requests of its call.
            let _ = self.agent.set_account(now, call, AccountId(trunk));
        }
        // The proxy knows that the callee has refused the keys of the caller.
        if bridge.invitation.as_ref().is_some_and(Invitation::has_other_keys) {
            bridge.keys = Keys::Other;
        }
        self.bridges.insert(id, bridge);
        self.bridge_of.insert(call, (id, Side::Caller));
        self.sources.insert(from, count + 1);
        self.counters.calls += 1;
        // The callee may be silent, and a decision late: a CANCEL of the caller comes at once, and
        // the proxy does not give up at timer B.
        let _ = self.agent.trying(now, call);
        if !self.waits(id, now) {
            self.set_out(id, now);
        }
    }

    /// Calls the callee, or the first trunk that takes the call.
    pub(crate) fn set_out(&mut self, id: BridgeId, now: Instant) {
        let Some(bridge) = self.bridges.get(&id) else { return };
        if bridge.invitation.as_ref().is_some_and(|it| it.attempts.is_empty()) {
            self.call_callee(id, now);
        } else if !self.call_next_trunk(id, now) {
            let Some(bridge) = self.bridges.get(&id) else { return };
            let status = match bridge.is_over_limit {
                true => Status::FORBIDDEN,
                // All lines are busy.
                false => Status::TEMPORARILY_UNAVAILABLE,
            };
            if let Some(caller) = bridge.call(Side::Caller) {
                let _ = self.agent.decline_with(now, caller, status.code(), b"");
            }
        }
    }

    /// Reads the INVITE of the caller. `None` if a part of it is malformed.
    fn invitation(&self, invite: &Message<'_>, offer: Option<Vec<u8>>) -> Option<Invitation> {
        let hops = invite.value(HeaderName::MaxForwards);
        let hops = hops.map_or(Ok(MAX_FORWARDS), |hops| number(HeaderName::MaxForwards, hops, 255));
        let routes = fields::routes(invite)?;
        let attempts = trunk::attempts(&routes);
        let mut lines = match attempts.is_empty() {
            true => fields::passed(invite),
            false => fields::passed_to_trunk(invite),
        };
        if let Some(Ok(replaces)) = invite.value(HeaderName::Replaces).map(Replaces::parse) {
            let replaces = self.translated(replaces);
            let required = fields::has(invite, HeaderName::Require, "replaces");
            let required = required.then_some("Require: replaces\r\n");
            ("Replaces: ", &replaces, "\r\n", required).encode(&mut lines);
        }
        Some(Invitation {
            uri: invite.request_uri()?.to_vec(),
            from: fields::address(invite, HeaderName::From)?,
            to: called(invite)?,
            routes,
            attempts,
            is_private: trunk::is_private(invite),
            max_forwards: hops.ok()?,
            lines,
            envelope: fields::envelope(invite, self.config.body).ok()?,
            is_reliable: fields::supports(invite, "100rel"),
            offer,
        })
    }

    /// Sends the INVITE to the callee, through the trunk of the current attempt if there is one.
    pub(crate) fn call_callee(&mut self, id: BridgeId, now: Instant) {
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let attempt = bridge.attempt().cloned();
        let trunk = attempt.as_ref().and_then(|it| Some((it, self.config.trunks.get(it.trunk)?)));
        let on_trunk = bridge.on_trunk.and_then(|on| self.config.trunks.get(on.trunk));
        let Some(invitation) = bridge.invitation.take() else { return };
        let session = match &invitation.offer {
            Some(offer) => bridge.leg(Side::Callee).offer_of_other(offer),
            None => Vec::new(),
        };
        let mut routes = match &attempt {
            Some(attempt) => vec![attempt.route.clone()],
            None => invitation.routes.clone(),
        };
        if let Some(first) = routes.first_mut()
            && let Some(end) = first.iter().position(|byte| *byte == b'>')
        {
            let mut params = Vec::new();
            let [caller, _] = &bridge.report.call_ids;
            if caller.len() <= LONGEST_CALL_ID {
                (CALLER, &*escape_param(caller)).encode(&mut params);
            }
            match bridge.keys {
                Keys::Other if !invitation.has_other_keys() => params.extend_from_slice(OTHER_KEYS),
                Keys::Last => params.extend_from_slice(LAST_OFFER),
                Keys::OfCaller | Keys::Other => {}
            }
            if let Some(on_trunk) = on_trunk {
                (TRUNK, &*escape_param(on_trunk.name.as_bytes())).encode(&mut params);
                let [caller, _] = &bridge.report.parties;
                if caller.len() <= LONGEST_CALL_ID {
                    (USER_OF_CALLER, &*escape_param(caller)).encode(&mut params);
                }
            }
            first.splice(end..end, params);
        }
        let (mut uri, mut from, mut to) =
            (invitation.uri.clone(), invitation.from.clone(), invitation.to.clone());
        if on_trunk.is_some() {
            from = trunk::number_in_house(&from, &uri).unwrap_or(from);
        }
        let mut lines = invitation.lines.clone();
        if let Some((attempt, trunk)) = trunk {
            uri = trunk.uri(attempt);
            from = trunk.from(attempt, invitation.is_private);
            to = [b"<", &uri[..], b">"].concat();
            lines.extend(trunk.identity_lines(attempt, invitation.is_private));
        }
        let placement = Placement {
            uri: &uri,
            from: &from,
            to: &to,
            routes: &routes,
            flow: bridge.flow,
            max_forwards: invitation.max_forwards,
            lines,
            session,
            envelope: invitation.envelope.clone(),
            is_reliable: invitation.is_reliable,
            account: trunk.map(|(attempt, _)| AccountId(attempt.trunk)),
        };
        let (call, call_id) = self.agent.place_for(now, placement);
        bridge.report.call_ids[Side::Callee as usize] = call_id;
        bridge.leg(Side::Callee).call = Some(call);
        bridge.invitation = Some(invitation);
        self.bridge_of.insert(call, (id, Side::Callee));
    }

    /// Calls the callee again, which has refused the offer, with other keys. Returns false if all
    /// were tried already.
    pub(crate) fn call_with_other_keys(&mut self, id: BridgeId, status: u16, now: Instant) -> bool {
        let Some(bridge) = self.bridges.get_mut(&id) else { return false };
        let offer = bridge.invitation.as_ref().and_then(|it| it.offer.as_ref());
        let Some(offer) = offer else { return false };
        // Some phones answer 400 to a profile that they do not know.
        let has_handshake = || offer.windows(HANDSHAKE.len()).any(|part| part == HANDSHAKE);
        // Unsupported Media Type, Not Acceptable Here, Not Acceptable.
        let is_about_session =
            matches!(status, 415 | 488 | 606) || status == 400 && has_handshake();
        let next = match bridge.keys {
            Keys::OfCaller => Keys::Other,
            Keys::Other => Keys::Last,
            Keys::Last => return false,
        };
        if !is_about_session {
            return false;
        }
        bridge.keys = next;
        let [_, call_id] = &mut bridge.report.call_ids;
        let refused = core::mem::take(call_id);
        self.refused.insert(refused.clone());
        if let Some(earlier) = bridge.refused.replace(refused) {
            self.refused.remove(&earlier);
        }
        let number = self.random_number();
        let Some(bridge) = self.bridges.get_mut(&id) else { return false };
        let local = bridge.flow.local.ip();
        *bridge.leg(Side::Callee) = Leg::new(None, Origin::new(number, local));
        bridge.early = None;
        self.call_callee(id, now);
        true
    }

    /// Passes a provisional response to the caller. Early media of the first branch that sends some
    /// pass; those of other branches do not, since the caller has one dialog.
    pub(crate) fn on_ringing(
        &mut self,
        call: CallId,
        status: u16,
        branch: u32,
        session: Option<Vec<u8>>,
        now: Instant,
    ) {
        // RFC 6228: a branch has ended, while others may ring.
        const EARLY_DIALOG_TERMINATED: u16 = 199;
        let Some((id, Side::Callee)) = self.find(call) else { return };
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let Some(caller) = bridge.call(Side::Caller) else { return };
        if status == EARLY_DIALOG_TERMINATED {
            return;
        }
        let session = session.filter(|_| *bridge.early.get_or_insert(branch) == branch);
        let session = session.map(|session| {
            let written = bridge.leg(Side::Caller).answer_of_other(&session);
            bridge.leg(Side::Callee).on_answer(session);
            written
        });
        let (lines, envelope) = passed_response(&self.received, self.config.body);
        // A body around a description of another branch would be without it.
        let has_session = session.is_some();
        let envelope = envelope.filter(|it| has_session || !it.has_session());
        let session = session.unwrap_or_default();
        let _ = self.agent.progress(now, caller, status, &lines, &session, envelope);
    }

    /// Passes the answer of the callee to the caller. Without a description the offer of the callee
    /// follows.
    pub(crate) fn on_answered(&mut self, call: CallId, session: Option<Vec<u8>>, now: Instant) {
        let Some((id, Side::Callee)) = self.find(call) else { return };
        let Some(bridge) = self.bridges.get_mut(&id) else { return };
        let Some(caller) = bridge.call(Side::Caller) else { return };
        self.counters.answered += 1;
        bridge.report.answered = Some(now);
        if let Some(permit) = &bridge.permit {
            permit.answered(now.as_secs());
            // The minute that has begun is stored at once.
            self.watch_at = Some(now);
        }
        let (lines, envelope) = passed_response(&self.received, self.config.body);
        let invitation = bridge.invitation.take();
        let is_offered = invitation.is_some_and(|invitation| invitation.offer.is_some());
        let Some(session) = session else {
            // The caller may not have got the early answer reliably.
            let early = bridge.leg(Side::Caller).sent.clone();
            let envelope = envelope.filter(|it| !early.is_empty() || !it.has_session());
            if is_offered || !bridge.leg(Side::Callee).received.is_empty() {
                let _ = self.agent.answer_with(now, caller, &lines, &early, envelope);
            } else {
                bridge.answer = Some(lines);
            }
            return;
        };
        let has_early_media = bridge.early.is_some();
        // A trunk that has not taken the call has sent early media.
        let is_of_others = bridge.attempts_made > 0 && !bridge.leg(Side::Caller).sent.is_empty();
        let earlier = core::mem::take(&mut bridge.leg(Side::Callee).received);
        // A caller with a settled session does not look at the one in the answer.
        if is_of_others || (has_early_media && !is_same(&earlier, &session)) {
            bridge.due = Some(Side::Caller);
            self.due.insert(id);
        }
        let written = bridge.leg(Side::Caller).answer_of_other(&session);
        bridge.leg(Side::Callee).on_answer(session);
        let _ = self.agent.answer_with(now, caller, &lines, &written, envelope);
    }
}
