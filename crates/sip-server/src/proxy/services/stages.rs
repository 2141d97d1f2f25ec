//! The stages of a call, as its response context knows them.

use super::itinerary::{Itinerary, Outcome, Stage};
use crate::core::counters::Counters;
use crate::core::flow::Flow;
use crate::core::settings::Settings;
use crate::proxy::best_response::is_better;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;
use sip::header::{NameAddr, q_value};
use sip::uri::is_sips;
use sip::{HeaderName, Instant, Message, Status, Uri};
use smallvec::SmallVec;

/// A final response: its status, and the message if it came from a phone.
type Response = (u16, Vec<u8>);

/// The stages of a call with call services.
pub(crate) struct Stages {
    /// `None` while the users of the next stage are looked up.
    itinerary: Option<Box<Itinerary>>,
    /// True if the request URI is a SIPS URI.
    is_for_sips: bool,
    /// The flow of the caller.
    flow: Flow,
    /// The index of the first branch of the present stage.
    first_branch: usize,
    /// The end of the present stage, if it has one.
    until: Option<Instant>,
    /// The outcome of the present stage, if it does not follow from the responses.
    outcome: Option<Outcome>,
    /// The best response of earlier stages.
    earlier: Option<Response>,
    /// True if the caller is to be told that the call is forwarded.
    announces: bool,
    has_announced: bool,
    /// True from the end of a stage to the beginning of the next one.
    is_between: bool,
    /// The users with ringing phones since the present stage began, until the owner is told.
    ringing: Vec<Box<str>>,
}

impl Stages {
    /// The stages of a call that begins with `stage` at the time `now`. `call` is true for a SIPS
    /// URI, and has the flow of the caller.
    pub(super) fn new(
        itinerary: Itinerary,
        stage: &Stage,
        call: (bool, Flow),
        now: Instant,
    ) -> Self {
        Self {
            until: stage.timeout.map(|timeout| now + timeout),
            announces: stage.is_forwarded,
            ringing: stage.users.clone(),
            ..Self::of_ringing(itinerary, call)
        }
    }

    fn of_ringing(itinerary: Itinerary, (is_for_sips, flow): (bool, Flow)) -> Self {
        Self {
            itinerary: Some(Box::new(itinerary)),
            is_for_sips,
            flow,
            first_branch: 0,
            until: None,
            outcome: None,
            earlier: None,
            announces: false,
            has_announced: false,
            is_between: false,
            ringing: Vec::new(),
        }
    }

    /// The stages of a call on `flow` to the user that `request` names, which is within no dialog.
    /// The phones ring already. `None` if it names no user of this server, or a dialog of the user.
    pub(crate) fn of_request(
        request: &Message<'_>,
        flow: Flow,
        settings: &Settings,
    ) -> Option<Self> {
        if request.has(HeaderName::Replaces) {
            return None;
        }
        let uri = request.request_uri()?;
        let name = name_of(uri, settings)?;
        Some(Self::of_ringing(Itinerary::of_ringing(&name), (is_sips(uri), flow)))
    }

    /// The memory that the stages use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let earlier = self.earlier.as_ref().map_or(0, |(_, message)| message.capacity());
        let itinerary = self.itinerary.as_ref().map_or(0, |it| size_of::<Itinerary>() + it.bytes());
        size_of::<Self>() + earlier + itinerary
    }

    /// The index of the first branch of the present stage.
    pub(crate) const fn first_branch(&self) -> usize {
        self.first_branch
    }

    /// The time at which the present stage ends, if it has one.
    pub(crate) const fn until(&self) -> Option<Instant> {
        self.until
    }

    /// True while the users of the next stage are looked up.
    pub(crate) const fn is_looking_up(&self) -> bool {
        self.is_between
    }

    /// True, once for a call, if the caller is to be told that the call is forwarded.
    pub(crate) fn announces(&mut self) -> bool {
        let announces = core::mem::take(&mut self.announces) && !self.has_announced;
        self.has_announced |= announces;
        announces
    }

    /// Returns and clears the users whose phones have rung in the present stage.
    pub(crate) fn take_ringing(&mut self) -> Vec<Box<str>> {
        core::mem::take(&mut self.ringing)
    }

    /// The stages of a call on `flow` that leaves its phones: the context has had `branches` until
    /// now, and no forward follows.
    pub(crate) fn leave(former: Option<Box<Self>>, flow: Flow, branches: usize) -> Self {
        let earlier = former.and_then(|mut former| former.earlier.take());
        let stages = Self::of_ringing(Itinerary::of_ringing(b""), (false, flow));
        Self { itinerary: None, first_branch: branches, earlier, ..stages }
    }

    /// Ends the present stage because its time is over. The context has had `branches` until now.
    pub(crate) fn time_out(&mut self, branches: usize) {
        (self.until, self.first_branch) = (None, branches);
        self.outcome = Some(Outcome::NoAnswer);
    }

    /// Ends the present stage because a phone has redirected the call by `response`. Returns false
    /// if the redirection is not followed: it leads to no user or group of this server, or the user
    /// is called as the member of a group.
    pub(crate) fn deflect(
        &mut self,
        response: &Message<'_>,
        branches: usize,
        settings: &Settings,
    ) -> bool {
        let may = self.itinerary.as_ref().is_some_and(|it| it.may_deflect());
        if !may || self.outcome.is_some() || self.is_between {
            return false;
        }
        let contacts = response.elements(HeaderName::Contact).filter_map(|contact| {
            let contact = NameAddr::parse(HeaderName::Contact, contact).ok()?;
            let q = contact.params.value("q").map(|q| q_value(HeaderName::Contact, q));
            let q = q.and_then(Result::ok).unwrap_or(1000);
            Some((q, name_of(contact.uri_bytes, settings)?))
        });
        let Some((_, name)) = contacts.min_by_key(|(q, _)| Reverse(*q)) else { return false };
        (self.until, self.first_branch) = (None, branches);
        self.outcome = Some(Outcome::Deflected(name));
        true
    }

    /// Ends the present stage with its best response. Returns true if the call goes on once
    /// the next users have been looked up.
    pub(crate) fn end(&mut self, best: Option<Response>, counters: &Counters) -> bool {
        self.until = None;
        let of_best = best.as_ref().map_or(Outcome::Failed, |(status, _)| outcome_of(*status));
        let outcome = self.outcome.take().unwrap_or(of_best);
        if let Some((status, _)) = &best
            && self.earlier.as_ref().is_none_or(|(earlier, _)| is_better(*status, *earlier))
        {
            self.earlier = best;
        }
        let itinerary = self.itinerary.as_mut();
        self.is_between = itinerary.is_some_and(|it| it.decide(outcome, counters));
        self.is_between
    }

    /// Takes the best response of all stages.
    pub(crate) fn take_best(&mut self) -> Option<Response> {
        self.earlier.take()
    }

    /// Takes the itinerary, for a look-up of the next users. Returns also if they must have SIPS
    /// URIs, and the flow of the caller.
    pub(crate) fn take_itinerary(&mut self) -> Option<(Box<Itinerary>, bool, Flow)> {
        Some((self.itinerary.take()?, self.is_for_sips, self.flow))
    }

    /// Begins `stage`, to which `itinerary` has led at the time `now`. The context has had
    /// `branches` until now.
    pub(crate) fn begin(
        &mut self,
        itinerary: Box<Itinerary>,
        stage: &Stage,
        branches: usize,
        now: Instant,
    ) {
        self.itinerary = Some(itinerary);
        self.is_between = false;
        self.first_branch = branches;
        self.until = stage.timeout.map(|timeout| now + timeout);
        self.announces |= stage.is_forwarded;
        self.ringing.clone_from(&stage.users);
    }
}

/// The outcome of a stage with a best response of this status. A 6xx that is not 600 and the other
/// failures of a phone are the wish of its user, or a fault that another user does not mend.
const fn outcome_of(status: u16) -> Outcome {
    match status {
        486 | 600 => Outcome::Busy,
        480 => Outcome::NoAnswer,
        408 | 430 | 503 => Outcome::Unreachable,
        _ => Outcome::Failed,
    }
}

/// The `user@domain` that `uri` names, the user without escapes, if its domain is one of this
/// server.
fn name_of(uri: &[u8], settings: &Settings) -> Option<Box<[u8]>> {
    let Ok(Uri::Sip(uri)) = Uri::parse(uri) else { return None };
    let (user, domain) = settings.user_of(&uri, settings.is_us(&uri.host, uri.port)?)?;
    let name: SmallVec<[u8; 64]> =
        user.iter().chain(b"@").chain(settings.domain_name(domain).as_bytes()).copied().collect();
    Some(name.as_slice().into())
}

/// The failure of a call that was led to no phone: the best of `failures`.
pub(super) fn best_failure(failures: &[Status]) -> Status {
    let best = failures
        .iter()
        .copied()
        .reduce(|best, status| if is_better(status.code(), best.code()) { status } else { best });
    best.unwrap_or(Status::TEMPORARILY_UNAVAILABLE)
}
