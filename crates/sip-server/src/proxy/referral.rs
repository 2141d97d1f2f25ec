//! The targets that a trunk or a phone may be referred to (RFC 3515). The provider calls the target
//! at the cost of the trunk, and no rule, right or limit of the numbers sees that call, so only
//! addresses of the house are allowed. A phone calls the target with the rights of its user, so the
//! party that names the target needs them, too.

use super::refusal::Refusal;
use super::sender::{Authorization, speaker};
use crate::core::event::Env;
use crate::core::incoming::Incoming;
use crate::core::numbers::{Caller, Dialed};
use crate::core::output::{Event, Notice};
use crate::core::settings::Trust;
use crate::core::shared::Shared;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::header::NameAddr;
use sip::{HeaderName, Method, Status, Uri};

/// The rule for trunks in the log.
const RULE: &str = "A Trunk Is Referred to Addresses of This Server Only";

/// The rule for phones in the log.
const RULE_OF_PHONES: &str = "A Phone Is Referred to Numbers That Its Party May Call";

/// The event packages of remote control: a NOTIFY with one answers or holds the calls of a phone,
/// or starts the phone anew.
const REMOTE_CONTROL: [&[u8]; 5] = [b"talk", b"hold", b"check-sync", b"resync", b"service-control"];

/// Checks the target of the request `incoming`, if it is a REFER that the B2BUA of the owner passes
/// to a trunk.
///
/// # Errors
/// The target is outside of the house.
pub(super) fn check<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    authorization: &Authorization,
    env: &mut Env<'_>,
) -> Result<(), Refusal> {
    let Incoming { message, head, .. } = incoming;
    let (Method::Refer, Some(calls), Some(tag)) = (head.method, env.joined_calls, head.to.tag())
    else {
        return Ok(());
    };
    let mut targets = message.elements(HeaderName::ReferTo);
    let (target, is_one) = (targets.next().unwrap_or_default(), targets.next().is_none());
    let Some(target) = calls.referral_of_trunk(head.call_id, tag, target) else { return Ok(()) };
    if is_one && is_in_house(shared, &target, incoming, authorization, env) {
        return Ok(());
    }
    Err(refused(incoming, &target, RULE, env))
}

/// Checks a REFER and a NOTIFY of a party outside of the trusted networks within its dialog.
///
/// # Errors
/// The target of the REFER is a number that the party may not call, or the NOTIFY would control a
/// phone of the other end.
pub(super) fn check_party<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    authorization: &Authorization,
    env: &mut Env<'_>,
) -> Result<(), Refusal> {
    let Incoming { message, head, flow, trust, .. } = incoming;
    let is_outside = *trust == Trust::Stranger && !flow.is_internal();
    if !matches!(authorization, Authorization::Dialog(_))
        || !is_outside
        || !env.settings.config.authentication.required
    {
        return Ok(());
    }
    match head.method {
        Method::Refer => {
            let speaker = speaker(shared, authorization, &head.from_uri, env);
            let caller = match &speaker {
                Some(speaker) => Caller::User(speaker.as_bytes()),
                None => Caller::Stranger,
            };
            let is_denied = |target: &&[u8]| is_denied(target, caller, env);
            match message.elements(HeaderName::ReferTo).find(is_denied) {
                Some(target) => Err(refused(incoming, target, RULE_OF_PHONES, env)),
                None => Ok(()),
            }
        }
        Method::Notify => {
            let event = message.value(HeaderName::Event).unwrap_or_default();
            let package = event.split(|byte| *byte == b';').next().unwrap_or_default();
            let package = package.trim_ascii();
            if !REMOTE_CONTROL.iter().any(|it| package.eq_ignore_ascii_case(it)) {
                return Ok(());
            }
            env.counters.foreign_methods.add();
            Err(Refusal::Status(Status::BAD_EVENT.into()))
        }
        _ => Ok(()),
    }
}

/// True if `refer_to`, a value of Refer-To, names a number that the numbers do not let `caller`
/// call. A stranger may call no number outside.
fn is_denied(refer_to: &[u8], caller: Caller<'_>, env: &Env<'_>) -> bool {
    let Ok(target) = NameAddr::parse(HeaderName::ReferTo, refer_to) else { return false };
    let user = match target.uri() {
        Ok(Uri::Sip(uri)) => {
            let domain = env.settings.domain_of(&uri.host);
            domain.and_then(|domain| env.settings.user_of(&uri, domain)).map(|(user, _)| user)
        }
        Ok(Uri::Tel(tel)) => {
            let mut number = Vec::new();
            tel.write_canonical_number(&mut number);
            Some(number.into())
        }
        _ => None,
    };
    let (Some(user), Some(numbers)) = (user, env.numbers()) else { return false };
    match numbers.route(&user, caller) {
        Dialed::Refused(_) => true,
        Dialed::Trunks(_) => matches!(caller, Caller::Stranger),
        Dialed::User(_) | Dialed::Name => false,
    }
}

/// Counts and logs a refused `target` by its `rule`. Returns the response.
fn refused(
    incoming: &Incoming<'_, '_>,
    target: &[u8],
    rule: &'static str,
    env: &mut Env<'_>,
) -> Refusal {
    let Incoming { head, flow, .. } = incoming;
    env.counters.numbers_refused.add();
    let notice = Notice::number_refused(head.from.uri_bytes, target, rule, *flow);
    env.out.events.push(Event::Notice(notice));
    Refusal::Status(Status::FORBIDDEN.into())
}

/// True if `refer_to`, a value of Refer-To, names a user, a group or a service of this server, or a
/// number of one. Providers tend to read the user part only, so a number of the telephone network
/// at a domain of this server is outside.
fn is_in_house<R: RawMutex>(
    shared: &Shared<R>,
    refer_to: &[u8],
    incoming: &Incoming<'_, '_>,
    authorization: &Authorization,
    env: &Env<'_>,
) -> bool {
    let Ok(target) = NameAddr::parse(HeaderName::ReferTo, refer_to) else { return false };
    let Ok(Uri::Sip(uri)) = target.uri() else { return false };
    let Some(domain) = env.settings.domain_of(&uri.host) else { return false };
    let Some((user, domain)) = env.settings.user_of(&uri, domain) else { return false };
    // A provider may skip letters within a number.
    if user.first().is_some_and(u8::is_ascii_alphabetic) {
        return true;
    }
    let speaker = speaker(shared, authorization, &incoming.head.from_uri, env);
    let caller = match &speaker {
        Some(speaker) => Caller::User(speaker.as_bytes()),
        None => Caller::Stranger,
    };
    match env.numbers().map_or(Dialed::Name, |numbers| numbers.route(&user, caller)) {
        Dialed::User(_) => true,
        Dialed::Name => {
            let address =
                shared.location.address_of_record(&user, env.settings.domain_name(domain));
            let config = &env.settings.config;
            config.media_services.find(&user).is_some()
                || config.groups.iter().any(|group| group.name.as_bytes() == address.as_bytes())
                || shared.location.look_up(&address, |found| found.is_some())
        }
        Dialed::Trunks(_) | Dialed::Refused(_) => false,
    }
}
