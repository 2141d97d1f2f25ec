//! The users and groups of this server as an itinerary asks for them, and the first stage of a
//! call.

use super::itinerary::{Directory, Found, Itinerary};
use super::party::Party;
use super::stages::{Stages, best_failure};
use crate::core::address_of_record::{AddressOfRecord, uri_of};
use crate::core::call_services::Group;
use crate::core::config::{Mode, State};
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::Incoming;
use crate::core::numbers::{Caller, Dialed};
use crate::core::output::{Event, Notice};
use crate::core::shared::Shared;
use crate::core::source::Source;
use crate::proxy::media_services::NewCall;
use crate::proxy::registered::targets_of;
use crate::proxy::route::Preprocessed;
use crate::proxy::target::{Targets, join_flows, keep_scheme};
use crate::proxy::{joining, media_target};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::uri::is_sips;
use sip::{HeaderName, Method, Status};
use smallvec::smallvec;

/// The users and groups of this server.
pub(crate) struct House<'h, R: RawMutex> {
    pub(crate) shared: &'h Shared<R>,
    pub(crate) env: &'h Env<'h>,
    /// True if the request URI is a SIPS URI.
    pub(crate) is_for_sips: bool,
    /// The flow of the caller.
    pub(crate) flow: Flow,
    /// The URI in From.
    pub(crate) from: &'h [u8],
    /// The party that calls.
    pub(crate) party: Party,
    /// The forwards that the numbers refuse, for the log.
    pub(crate) notices: Vec<Notice>,
}

impl<R: RawMutex> Directory for House<'_, R> {
    fn resolve(&mut self, name: &[u8], forwarder: Option<&[u8]>) -> Found {
        let Self { shared, env, is_for_sips, .. } = *self;
        if let Some(group) = group(name, env) {
            return Found::Group(group.clone(), shared.services.take_turn(group));
        }
        let mut targets = Targets::new();
        let user = shared.location.canonical(name);
        let found = targets_of(shared, &user, None, &mut targets, env);
        if found == Err(Status::NOT_FOUND) {
            return self.resolve_other(name, forwarder);
        }
        keep_scheme(&mut targets, is_for_sips);
        join_flows(&mut targets);
        Found::User(shared.services.of(name), targets)
    }
}

impl<R: RawMutex> House<'_, R> {
    /// Finds `name`, which is no user: a service for all callers, or a number that `forwarder` may
    /// call.
    fn resolve_other(&mut self, name: &[u8], forwarder: Option<&[u8]>) -> Found {
        let (env, flow) = (self.env, self.flow);
        let call = (self.party.user(), &flow);
        let service = media_target::forward_target(self.shared, name, forwarder, call, env);
        if let Some(target) = service {
            return Found::User(None, smallvec![target]);
        }
        let numbers = env.numbers().filter(|_| env.settings.reaches_b2bua());
        let (Some(numbers), Some(forwarder)) = (numbers, forwarder) else { return Found::Unknown };
        let at = name.iter().rposition(|byte| *byte == b'@').unwrap_or(name.len());
        match numbers.route(&name[..at], Caller::User(forwarder)) {
            // Without a forwarder the plan is not asked again.
            Dialed::User(user) if user != name => self.resolve(&user, None),
            Dialed::Trunks(mut attempts) => {
                if let Party::Stranger = self.party {
                    let source = Source::of(flow.remote.ip()).to_string();
                    attempts.iter_mut().for_each(|it| it.stranger = Some(source.clone()));
                }
                let target = joining::target_of_trunks(&uri_of(name), &flow, attempts, env);
                Found::User(None, smallvec![target])
            }
            Dialed::Refused(refusal) => {
                env.counters.numbers_refused.add();
                let forwarder = String::from_utf8_lossy(forwarder);
                let words = format!("{}, for {forwarder}, which forwards", refusal.words);
                let notice = Notice::number_refused(self.from, &name[..at], &words, flow);
                self.notices.push(notice);
                Found::Unknown
            }
            Dialed::Name | Dialed::User(_) => Found::Unknown,
        }
    }
}

/// The group `name`.
fn group<'e>(name: &[u8], env: &Env<'e>) -> Option<&'e Group> {
    env.settings.config.groups.iter().find(|group| group.name.as_bytes() == name)
}

/// Leads the call `call` to `user`, if it is a group or has call services: adds the phones of
/// the first stage to `targets`. With `is_joined` the call goes to the B2BUA, which calls again,
/// and has no stages here. `None` if the request has no call services.
///
/// # Errors
/// The status of the response, if no phone can be called.
pub(crate) fn begin<R: RawMutex>(
    call: &NewCall<'_, '_, R>,
    found: &Preprocessed<'_>,
    user: &AddressOfRecord,
    is_joined: bool,
    targets: &mut Targets,
    env: &mut Env<'_>,
) -> Option<Result<Option<Box<Stages>>, Status>> {
    let (shared, incoming) = (call.shared, call.incoming);
    let (name, config) = (user.as_bytes(), &env.settings.config);
    let is_group = group(name, env).is_some();
    if !is_group && shared.services.of(name).is_none() {
        return None;
    }
    let Incoming { message, head, flow, .. } = incoming;
    // The B2BUA names the phone that it calls. A Replaces names a dialog of it.
    let is_call = (config.mode, config.state) == (Mode::Proxy, State::Stateful)
        && head.method == Method::Invite
        && head.to.tag().is_none()
        && !message.has(HeaderName::Replaces)
        && found.pass.is_none_or(|pass| pass.only.is_none());
    if !is_call {
        return is_group.then_some(Err(Status::TEMPORARILY_UNAVAILABLE));
    }
    if is_joined {
        return Some(Ok(None));
    }
    let mut itinerary = Itinerary::new(name);
    let is_for_sips = is_sips(found.uri_bytes);
    let (from, party) = (head.from.uri_bytes, Party::of_call(call, env));
    let notices = Vec::new();
    let mut house = House { shared, env, is_for_sips, flow: *flow, from, party, notices };
    let mut stage = itinerary.lead(&mut house, env.counters);
    let notices = house.notices;
    env.out.events.extend(notices.into_iter().map(Event::Notice));
    if stage.targets.is_empty() {
        return Some(Err(best_failure(&stage.failures)));
    }
    let stages = Stages::new(itinerary, &stage, (is_for_sips, *flow), env.now);
    targets.append(&mut stage.targets);
    Some(Ok(Some(Box::new(stages))))
}
