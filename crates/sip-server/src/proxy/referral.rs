//! The targets that a trunk may be referred to (RFC 3515). The provider calls the target at the
//! cost of the trunk, and no rule, right or limit of the numbers sees that call, so only addresses
//! of the house are allowed.

use super::refusal::Refusal;
use super::sender::{Authorization, speaker};
use crate::core::event::Env;
use crate::core::incoming::Incoming;
use crate::core::numbers::{Caller, Dialed};
use crate::core::output::{Event, Notice};
use crate::core::shared::Shared;
use lock_api::RawMutex;
use sip::header::NameAddr;
use sip::{HeaderName, Method, Status, Uri};

/// The rule in the log.
const RULE: &str = "A Trunk Is Referred to Addresses of This Server Only";

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
    let Incoming { message, head, flow, .. } = incoming;
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
    env.counters.numbers_refused.add();
    let notice = Notice::number_refused(head.from.uri_bytes, &target, RULE, *flow);
    env.out.events.push(Event::Notice(notice));
    Err(Refusal::Status(Status::FORBIDDEN.into()))
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
