//! The users and groups of this server as an itinerary asks for them, and the first stage of a call.

use super::itinerary::{Directory, Found, Itinerary};
use super::stages::{Stages, best_failure};
use crate::core::address_of_record::AddressOfRecord;
use crate::core::call_services::Group;
use crate::core::config::{Mode, State};
use crate::core::event::Env;
use crate::core::incoming::Incoming;
use crate::core::shared::Shared;
use crate::proxy::registered::targets_of;
use crate::proxy::route::Preprocessed;
use crate::proxy::target::{Targets, join_flows, keep_scheme};
use alloc::boxed::Box;
use lock_api::RawMutex;
use sip::uri::is_sips;
use sip::{HeaderName, Method, Status};

/// The users and groups of this server.
pub(crate) struct House<'h, R: RawMutex> {
    pub(crate) shared: &'h Shared<R>,
    pub(crate) env: &'h Env<'h>,
    /// True if the request URI is a SIPS URI.
    pub(crate) is_for_sips: bool,
}

impl<R: RawMutex> Directory for House<'_, R> {
    // A call within the house needs no right of the forwarder.
    fn resolve(&mut self, name: &[u8], _forwarder: Option<&[u8]>) -> Found {
        let Self { shared, env, is_for_sips } = *self;
        if let Some(group) = group(name, env) {
            return Found::Group(group.clone(), shared.services.take_turn(group));
        }
        let mut targets = Targets::new();
        let user = shared.location.canonical(name);
        match targets_of(shared, &user, None, &mut targets, env) {
            Err(Status::NOT_FOUND) => return Found::Unknown,
            Ok(()) | Err(_) => {}
        }
        keep_scheme(&mut targets, is_for_sips);
        join_flows(&mut targets);
        Found::User(shared.services.of(name), targets)
    }
}

/// The group `name`.
fn group<'e>(name: &[u8], env: &Env<'e>) -> Option<&'e Group> {
    env.settings.config.groups.iter().find(|group| group.name.as_bytes() == name)
}

/// Leads the call `incoming` to `user`, if it is a group or has call services: adds the phones of
/// the first stage to `targets`. With `is_joined` the call goes to the B2BUA, which calls again, and
/// has no stages here. `None` if the request has no call services.
///
/// # Errors
/// The status of the response, if no phone can be called.
pub(crate) fn begin<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    user: &AddressOfRecord,
    is_joined: bool,
    targets: &mut Targets,
    env: &Env<'_>,
) -> Option<Result<Option<Box<Stages>>, Status>> {
    let (name, config) = (user.as_bytes(), &env.settings.config);
    let is_group = group(name, env).is_some();
    if !is_group && shared.services.of(name).is_none() {
        return None;
    }
    let Incoming { message, head, .. } = incoming;
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
    let mut house = House { shared, env, is_for_sips };
    let mut stage = itinerary.lead(&mut house, env.counters);
    if stage.targets.is_empty() {
        return Some(Err(best_failure(&stage.failures)));
    }
    let stages = Stages::new(itinerary, &stage, is_for_sips, env.now);
    targets.append(&mut stage.targets);
    Some(Ok(Some(Box::new(stages))))
}
