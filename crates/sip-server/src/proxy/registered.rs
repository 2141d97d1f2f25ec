//! The lookup of registered phones for a request: by user, by contact, by GRUU, and by the flow of
//! a dialog.

use super::route::Preprocessed;
use super::target::{Leads, Target, Targets, sort};
use crate::core::address_of_record::AddressOfRecord;
#[cfg(feature = "office")]
use crate::core::asleep::Asleep;
use crate::core::binding::Binding;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::gruu::Gruu;
use crate::core::incoming::Incoming;
use crate::core::push::{self, PushParams};
use crate::core::shared::Shared;
#[cfg(feature = "office")]
use alloc::boxed::Box;
use core::net::SocketAddr;
use lock_api::RawMutex;
use sip::message::RequestHead;
use sip::{SipUri, Status, Transport, Uri};
use smallvec::SmallVec;

/// The current flow to the phone that the request URI names, of the user in To. Within a dialog the
/// phone may have lost the flow `known`, on which the dialog began, and registered again (RFC 5626
/// section 5.3.1). Another phone of the user may have the same private contact behind another NAT.
/// So the binding on the known flow is preferred, then that of the phone that was registered there,
/// then one with the same remote address, then the latest one.
pub(super) fn flow_now<R: RawMutex>(
    shared: &Shared<R>,
    head: &RequestHead<'_>,
    found: &Preprocessed<'_>,
    known: Flow,
    env: &Env<'_>,
) -> Option<Flow> {
    if known.is_internal() {
        return None;
    }
    let (Uri::Sip(to), Uri::Sip(wanted)) = (head.to_uri, found.uri) else { return None };
    let location = &shared.location;
    let user = shared.address_of(&to, env)?;
    let is_closed = known.connection.is_some() && !location.is_open(&known);
    // A phone that opens a connection only for a large request is not registered on it. A dialog
    // over TLS goes on in clear only if the phone has registered such a contact.
    let is_any_transport = is_closed && !known.transport.is_secure();
    let is_it = |uri: &SipUri<'_>| {
        uri.is_equivalent(&wanted) || (is_any_transport && is_same_but_for_params(uri, &wanted))
    };
    let is_wanted = |contact: &[u8]| {
        // Fast path: most phones write the URI identically each time.
        contact == found.uri_bytes
            || matches!(Uri::parse(contact), Ok(Uri::Sip(contact)) if is_it(&contact))
    };
    let phone = is_closed.then(|| location.phone_once_on(&user, &known, env.now)).flatten();
    location.look_up(&user, |subscriber| {
        let suits = |binding: &Binding| {
            let is_known = binding.flow == known;
            let is_phone = phone.and_then(|phone| phone.is(&location.phone_of(binding)));
            // Another instance is another phone, whatever its contact.
            let is_named = || is_wanted(&binding.contact) || has_purr(binding, &wanted, env);
            let is_there = || is_phone.unwrap_or_else(is_named);
            let rank = (is_known, is_phone, binding.flow.remote.ip() == known.remote.ip());
            (is_known || (binding.flow_bound && is_there())).then_some((rank, binding.flow))
        };
        // `max_by_key` returns the last of equal elements.
        let found = subscriber?.current(env.now).filter_map(suits);
        found.max_by_key(|(rank, _)| *rank).map(|(_, flow)| flow)
    })
}

/// True if `uri`, a contact in a dialog, has the `pn-purr` of the phone of `binding` (RFC 8599
/// section 6).
fn has_purr(binding: &Binding, uri: &SipUri<'_>, env: &Env<'_>) -> bool {
    if !push::is_used(&env.settings.config) {
        return false;
    }
    let Some(purr) = uri.params.value("pn-purr") else { return false };
    let params = PushParams::of_contact(&binding.contact);
    params.is_some_and(|params| push::is_purr(purr, params.prid, &env.keys.gruu, env.now))
}

/// The phone that a request within a dialog goes to on `flow`, if that has ended and the phone
/// sleeps. A phone on UDP may be awake as long as the dialog lasts.
#[cfg(feature = "office")]
pub(super) fn asleep_in_dialog<R: RawMutex>(
    shared: &Shared<R>,
    head: &RequestHead<'_>,
    found: &Preprocessed<'_>,
    flow: Flow,
    env: &Env<'_>,
) -> Option<Box<Asleep>> {
    let location = &shared.location;
    let may_sleep = flow.connection.is_some() && !flow.is_internal() && !location.is_open(&flow);
    if !may_sleep || !push::is_used(&env.settings.config) {
        return None;
    }
    let (Uri::Sip(to), Uri::Sip(wanted)) = (head.to_uri, found.uri) else { return None };
    let user = shared.address_of(&to, env)?;
    location.look_up(&user, |subscriber| {
        let is_it = |binding: &&Binding| {
            binding.flow.transport.is_stream()
                && location.is_asleep(binding, env.now)
                && (binding.flow == flow || has_purr(binding, &wanted, env))
        };
        let binding = subscriber?.current(env.now).rev().find(is_it)?;
        let (contact, instance) = (binding.contact[..].into(), binding.instance().into());
        Some(Box::new(Asleep { user: user.clone(), contact, instance, is_in_dialog: true }))
    })
}

/// True where both URIs have the same scheme, user, host and port.
fn is_same_but_for_params(one: &SipUri<'_>, other: &SipUri<'_>) -> bool {
    let user = |uri: &SipUri<'_>| sip::uri::unescape(uri.user.unwrap_or_default()).into_owned();
    let is_same_place = one.port == other.port && one.host.is_equivalent(&other.host);
    is_same_place && one.secure == other.secure && user(one) == user(other)
}

/// The phone that has the request URI as its contact, or the phones of one user that share it. A
/// private address may belong to another host in the network of the sender. A sender that can reach
/// the address itself means that host, unless the phone has been seen at the address.
pub(super) fn registered_targets<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &Env<'_>,
) -> Targets {
    let Uri::Sip(uri) = &found.uri else { return Targets::new() };
    let origin = env.settings.scope_of(&incoming.flow);
    let called = match incoming.head.to_uri {
        Uri::Sip(to) => shared.address_of(&to, env),
        _ => None,
    };
    shared.location.look_up_contact(uri, called.as_ref(), env.now, |binding| {
        let flow = binding.flow;
        let is_elsewhere = uri.host.ip().is_none_or(|ip| {
            let transport = uri.transport().flatten().unwrap_or(Transport::Udp);
            let there = SocketAddr::new(ip, uri.port.unwrap_or(5060));
            ip.to_canonical() == flow.remote.ip()
                || !env.settings.may_reach(origin, transport, there)
        });
        match Target::of_binding(binding, env.settings) {
            // The request URI keeps its parameters. All these targets have the same preference.
            Ok(Leads::Away(target)) if is_elsewhere => {
                Some(Target { uri: SmallVec::from_slice(found.uri_bytes), q: 1000, ..target })
            }
            _ => None,
        }
    })
}

/// The maximum number of users that a request is led to one after the other, by contacts that are
/// addresses-of-record of this server.
const MOST_USERS: usize = 10;

/// Adds the target of the GRUU in the request URI and returns its user. Returns `None` if the URI
/// is not a GRUU of this server.
pub(super) fn gruu_targets<R: RawMutex>(
    shared: &Shared<R>,
    found: &Preprocessed<'_>,
    targets: &mut Targets,
    env: &Env<'_>,
) -> Option<Result<AddressOfRecord, Status>> {
    let Uri::Sip(uri) = &found.uri else { return None };
    let gruu = Gruu::of(uri, &env.keys.gruu)?;
    let domain = env.settings.is_us(&uri.host, uri.port)?;
    let user = match gruu {
        Gruu::Public(_) => env.settings.user_of(uri, domain).map(|(user, domain)| {
            shared.location.address_of_record(&user, env.settings.domain_name(domain))
        }),
        Gruu::Temporary { address, .. } => shared.location.address_with_hash(address),
        Gruu::Unknown => None,
    };
    Some(match user {
        Some(user) => targets_of(shared, &user, Some(&gruu), targets, env).map(|()| user),
        None => Err(Status::NOT_FOUND),
    })
}

/// Adds the bindings of a user as targets (RFC 3261 section 16.5), the best first. With `gruu`,
/// only the phone that it names. A contact that names a user of this server stands for the bindings
/// of that user.
pub(super) fn targets_of<R: RawMutex>(
    shared: &Shared<R>,
    user: &AddressOfRecord,
    gruu: Option<&Gruu<'_>>,
    targets: &mut Targets,
    env: &Env<'_>,
) -> Result<(), Status> {
    let mut users: SmallVec<[AddressOfRecord; 1]> = SmallVec::from_iter([user.clone()]);
    let mut looked_at = 0;
    while let Some(user) = users.get(looked_at).cloned() {
        let found = shared.location.look_up(&user, |subscriber| {
            let subscriber = subscriber?;
            let meant = gruu.map(|gruu| gruu.instance(subscriber.current(env.now), &env.keys.gruu));
            let is_meant =
                |binding: &&Binding| meant.is_none_or(|meant| meant == Some(binding.instance()));
            for binding in subscriber.current(env.now).filter(is_meant) {
                match Target::of_binding(binding, env.settings) {
                    Ok(Leads::Away(mut target)) => {
                        target.flows.iter_mut().for_each(|flows| flows.user = user.hash());
                        #[cfg(feature = "office")]
                        if shared.location.is_asleep(binding, env.now) {
                            target.asleep = Some(Box::new(Asleep {
                                user: user.clone(),
                                contact: binding.contact[..].into(),
                                instance: binding.instance().into(),
                                is_in_dialog: false,
                            }));
                        }
                        targets.push(target);
                    }
                    Ok(Leads::Back(other, domain)) => {
                        let name = env.settings.domain_name(domain);
                        let other = shared.location.address_of_record(&other, name);
                        if users.len() < MOST_USERS && !users.contains(&other) {
                            users.push(other);
                        }
                    }
                    Err(_) => {}
                }
            }
            Some(())
        });
        if found.is_none() && looked_at == 0 {
            return Err(Status::NOT_FOUND);
        }
        looked_at += 1;
    }
    if targets.len() > 1 {
        // Among targets of the same preference the newest is most likely reachable.
        sort(targets);
        targets.reverse();
    }
    if targets.is_empty() { Err(Status::TEMPORARILY_UNAVAILABLE) } else { Ok(()) }
}

/// The target of the phone that was `asleep`, if it has registered since.
#[cfg(feature = "office")]
pub(super) fn woken<R: RawMutex>(
    shared: &Shared<R>,
    asleep: &Asleep,
    env: &Env<'_>,
) -> Option<Target> {
    shared.location.look_up(&asleep.user, |subscriber| {
        let mut bindings = subscriber?.current(env.now).rev();
        let is_it = |binding: &&Binding| {
            asleep.is_of(binding) && !shared.location.is_asleep(binding, env.now)
        };
        match Target::of_binding(bindings.find(is_it)?, env.settings) {
            Ok(Leads::Away(target)) => Some(target),
            _ => None,
        }
    })
}

/// Drops the last of `targets` beyond the configured maximum.
pub(super) fn keep_as_many_as_may_be(targets: &mut Targets, env: &Env<'_>) {
    let max = env.settings.config.limits.max_forks;
    for _ in max..targets.len() {
        env.counters.fork_limit.add();
    }
    targets.truncate(max);
}
