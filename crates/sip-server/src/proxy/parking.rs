//! The party that parks a call by a transfer to a slot of the owner's media server. Many phones
//! follow a transfer without Referred-By (RFC 3892): the proxy writes the party into the target of
//! the REFER, and reads it from the request URI of the call that follows.

use super::sender::{Authorization, speaker};
use crate::core::address_of_record::AddressOfRecord;
use crate::core::event::Env;
use crate::core::incoming::Incoming;
use crate::core::media_services::MediaService;
use crate::core::shared::Shared;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::header::NameAddr;
use sip::uri::{escape_param, unescape};
use sip::{Encode, HeaderName, Method, Uri};

/// The URI parameter with the name of the party, a user of the domain of the slot. A domain in it
/// would need an escape, which baresip takes for a conversion in a format string.
const PARKED_BY: &str = "parked-by";

/// The value of Refer-To with the sender of the REFER `incoming`, if its target is a slot. `None`
/// leaves the received one unchanged.
pub(super) fn refer_to<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    authorization: &Authorization,
    env: &Env<'_>,
) -> Option<Box<[u8]>> {
    let Incoming { message, head, flow, .. } = incoming;
    // That of the B2BUA has the parameter already.
    if head.method != Method::Refer || flow.is_internal() {
        return None;
    }
    let refer_to = message.value(HeaderName::ReferTo)?;
    let target = NameAddr::parse(HeaderName::ReferTo, refer_to).ok()?;
    let Ok(Uri::Sip(uri)) = target.uri() else { return None };
    let domain = env.settings.domain_of(&uri.host)?;
    let (user, domain) = env.settings.user_of(&uri, domain)?;
    let (service, _) = env.settings.config.media_services.find(&user)?;
    // A target with Replaces takes the place of a call, and the party of that is known.
    if service != MediaService::Park || !uri.headers.is_empty() || uri.params.has(PARKED_BY) {
        return None;
    }
    let parker = speaker(shared, authorization, &head.from_uri, env)?;
    if *parker.as_bytes()
        != [parker.name(), b"@", env.settings.domain_name(domain).as_bytes()].concat()
    {
        return None;
    }
    let mut out = Vec::new();
    let parker = escape_param(parker.name());
    ("<", target.uri_bytes, ";", PARKED_BY, "=", &*parker, ">").encode(&mut out);
    Some(out.into())
}

/// The user of this server that has parked the call to `uri`, by its parameter. As Referred-By, it
/// proves nothing: the caller may have written it.
pub(super) fn parker<R: RawMutex>(
    shared: &Shared<R>,
    uri: &Uri<'_>,
    env: &Env<'_>,
) -> Option<AddressOfRecord> {
    let Uri::Sip(uri) = uri else { return None };
    let name = unescape(uri.params.value(PARKED_BY)?);
    let domain = env.settings.domain_name(env.settings.domain_of(&uri.host)?);
    let parker = shared.location.address_of_record(&name, domain);
    shared.location.look_up(&parker, |found| found.is_some()).then_some(parker)
}
