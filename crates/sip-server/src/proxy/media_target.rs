//! The owner's media server as the target of a call.

use super::target::Target;
use crate::core::address_of_record::{AddressOfRecord, uri_of};
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::media_services::MediaService;
use crate::core::next_hop::NextHop;
use crate::core::shared::Shared;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::uri::{escape_param, escape_user};
use sip::{Encode, Endpoint};

/// True if the target is the media server.
pub(super) fn is_target(target: &Target) -> bool {
    matches!(
        &target.next_hop,
        NextHop::Flow(flow) if flow.endpoint() == Some(Endpoint::MediaServer)
    )
}

/// The media server as the target of a call of `caller`, if it has proved its name, on `flow` that
/// `forwarder` forwards to `name`, if that is the `user@domain` of a service for all callers. The
/// service with the messages of a user takes one for the forwarder.
pub(super) fn forward_target<R: RawMutex>(
    shared: &Shared<R>,
    name: &[u8],
    forwarder: Option<&[u8]>,
    (caller, flow): (Option<&AddressOfRecord>, &Flow),
    env: &Env<'_>,
) -> Option<Target> {
    let services = &env.settings.config.media_services;
    let at = name.iter().rposition(|byte| *byte == b'@')?;
    let (user, domain) = name.split_at(at);
    let (service, rest) = services.find(user)?;
    let (service, named) = match service {
        MediaService::Music => ("music", Vec::new()),
        MediaService::Announcement => ("announcement", rest.to_vec()),
        MediaService::Conference if services.open_conferences => {
            ("conference", [rest, domain].concat())
        }
        MediaService::Deposit => ("deposit", mailbox_of(shared, rest, domain, env)?),
        MediaService::Retrieval => {
            let forwarder = forwarder?;
            let at = forwarder.iter().rposition(|byte| *byte == b'@')?;
            let (user, domain) = forwarder.split_at(at);
            ("deposit", mailbox_of(shared, user, domain, env)?)
        }
        MediaService::Echo | MediaService::Conference | MediaService::Park => return None,
    };
    Some(target(service, &named, caller, (&uri_of(name), flow), env))
}

/// The mailbox of the user `name` at `domain`, which begins with `@`. `None` without such a
/// user, or for one that has no mailbox.
pub(super) fn mailbox_of<R: RawMutex>(
    shared: &Shared<R>,
    name: &[u8],
    domain: &[u8],
    env: &Env<'_>,
) -> Option<Vec<u8>> {
    let domain = core::str::from_utf8(domain.strip_prefix(b"@")?).ok()?;
    let user = shared.location.address_of_record(name, domain);
    let is_there = shared.location.look_up(&user, |found| found.is_some());
    let has_mailbox = env.settings.config.media_services.has_mailbox(user.name());
    (is_there && has_mailbox).then(|| user.as_bytes().to_vec())
}

/// The media server as the target of a call to `uri` that arrived on `flow`, for a message to
/// `mailbox`. `caller` is the address-of-record that the caller has proved.
pub(super) fn deposit_target(
    mailbox: &AddressOfRecord,
    caller: Option<&AddressOfRecord>,
    call: (&[u8], &Flow),
    env: &Env<'_>,
) -> Target {
    target("deposit", mailbox.as_bytes(), caller, call, env)
}

/// The media server as the target of a call to `uri` that arrived on `flow`, which meets another
/// one there: `name` is that of both.
pub(super) fn meeting(
    name: &str,
    caller: Option<&AddressOfRecord>,
    call: (&[u8], &Flow),
    env: &Env<'_>,
) -> Target {
    target("meet", name.as_bytes(), caller, call, env)
}

/// The media server as the target of a call to `uri` that arrived on `flow`, for `service` with
/// `name`.
pub(super) fn target(
    service: &str,
    name: &[u8],
    caller: Option<&AddressOfRecord>,
    (uri, flow): (&[u8], &Flow),
    env: &Env<'_>,
) -> Target {
    let mut path = Vec::new();
    ("<sip:", service, "@media-server.invalid;lr").encode(&mut path);
    if !name.is_empty() {
        (";name=", &*escape_param(name)).encode(&mut path);
    }
    if let Some(caller) = caller {
        (";caller=", &*escape_param(caller.as_bytes())).encode(&mut path);
    }
    path.push(b'>');
    let next_hop = NextHop::Flow(flow.internal_to(Endpoint::MediaServer));
    let origin = env.settings.scope_of(flow);
    Target { path, flow_bound: true, ..Target::new(uri, next_hop, origin) }
}

/// Adds the user that has transferred the caller to the media server, at the host of `uri`, which
/// the phone of the caller has reached.
pub(super) fn add_referrer(target: &mut Target, user: &AddressOfRecord, uri: &[u8]) {
    let host = uri.split(|byte| matches!(byte, b';' | b'?')).next().unwrap_or_default();
    let host = host.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
    let referrer = [b"sip:", &*escape_user(user.name()), b"@", host].concat();
    let end = target.path.len() - 1;
    let param = [b";referrer=", &*escape_param(&referrer)].concat();
    target.path.splice(end..end, param);
}
