//! Phones that sleep until a push notification wakes them (RFC 8599). A phone names its push
//! notification service by parameters of its Contact URI, and the owner requests the notification.
//!
//! Without the feature `office` no phone sleeps.

use crate::core::config::{Config, State};
use crate::core::keys::Key;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sip::header::NameAddr;
use sip::{HeaderName, Instant, Message, SipUri, Uri};

/// The number of octets of a reference.
const REFERENCE_LENGTH: usize = 10;

/// The days for which a reference leads to its phone. In a longer dialog a phone that sleeps is not
/// found by it.
const MOST_DAYS: u16 = 30;

/// The parameters of a Contact URI for a push notification (RFC 8599 section 6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PushParams<'u> {
    /// `pn-provider`, the push notification service.
    pub(crate) provider: &'u [u8],
    /// `pn-prid`, the phone in that service.
    pub(crate) prid: &'u [u8],
    /// `pn-param`. Empty for none.
    pub(crate) param: &'u [u8],
}

impl<'u> PushParams<'u> {
    /// Returns the parameters of the Contact URI `uri`, if it names a service and a phone.
    pub(crate) fn of(uri: &SipUri<'u>) -> Option<Self> {
        if !cfg!(feature = "office") || uri.params.as_bytes().is_empty() {
            return None;
        }
        let [mut provider, mut prid, mut param] = [None; 3];
        // The first parameter of each name counts.
        for (name, value) in uri.params.iter() {
            match name.len() {
                11 if name.eq_ignore_ascii_case(b"pn-provider") => provider = provider.or(value),
                7 if name.eq_ignore_ascii_case(b"pn-prid") => prid = prid.or(value),
                8 if name.eq_ignore_ascii_case(b"pn-param") => param = param.or(value),
                _ => {}
            }
        }
        let [provider, prid, param] = [provider, prid, param].map(Option::unwrap_or_default);
        (!provider.is_empty() && !prid.is_empty()).then_some(Self { provider, prid, param })
    }

    /// Like [`PushParams::of`], for the URI `contact`.
    pub(crate) fn of_contact(contact: &'u [u8]) -> Option<Self> {
        // Few phones have a push notification service.
        let is_possible =
            cfg!(feature = "office") && memchr::memmem::find(contact, b"pn-").is_some();
        match Uri::parse(contact) {
            Ok(Uri::Sip(uri)) if is_possible => Self::of(&uri),
            _ => None,
        }
    }

    /// True if both name the same phone.
    pub(crate) fn is_same_phone(&self, other: &PushParams<'_>) -> bool {
        self.provider.eq_ignore_ascii_case(other.provider) && self.prid == other.prid
    }
}

/// True if the owner requests notifications.
pub(crate) fn is_used(config: &Config) -> bool {
    providers(config).next().is_some()
}

/// True if the owner requests notifications of the service `provider`.
#[cfg(feature = "office")]
pub(crate) fn is_provider(config: &Config, provider: &[u8]) -> bool {
    providers(config).any(|known| known.as_bytes().eq_ignore_ascii_case(provider))
}

/// The push notification services of the owner.
#[cfg(feature = "office")]
fn providers(config: &Config) -> impl Iterator<Item = &str> {
    config.push.iter().flat_map(|push| &push.providers).map(|provider| &**provider)
}

#[cfg(not(feature = "office"))]
fn providers(_: &Config) -> impl Iterator<Item = &str> {
    core::iter::empty()
}

/// The Proxy Unique Registration Reference of the phone `prid` at `now` (RFC 8599 section 6): the
/// phone names itself by it in the Contact of its dialogs, without telling `prid`. It is another
/// one each day, so that the other ends of its calls do not recognize the phone by it.
fn purr(prid: &[u8], key: &Key, now: Instant) -> String {
    URL_SAFE_NO_PAD.encode(reference(prid, key, day(now)))
}

/// True if `purr` is a reference of the phone `prid` that was given in the last [`MOST_DAYS`].
pub(crate) fn is_purr(purr: &[u8], prid: &[u8], key: &Key, now: Instant) -> bool {
    // The decoder asks for room in whole groups of three octets.
    let mut octets = [0; REFERENCE_LENGTH.next_multiple_of(3)];
    if URL_SAFE_NO_PAD.decode_slice(purr, &mut octets) != Ok(REFERENCE_LENGTH) {
        return false;
    }
    let of = u16::from_le_bytes([octets[0], octets[1]]);
    day(now).wrapping_sub(of) <= MOST_DAYS && octets[..REFERENCE_LENGTH] == reference(prid, key, of)
}

/// The octets of a reference: the day that it is of, and a proof of the phone on that day.
fn reference(prid: &[u8], key: &Key, day: u16) -> [u8; REFERENCE_LENGTH] {
    let [low, high] = day.to_le_bytes();
    let [a, b, c, d, e, f, g, h] = key.proof(&[b"purr", &[low, high], prid]).to_le_bytes();
    [low, high, a, b, c, d, e, f, g, h]
}

/// The number of the day, which is the same for all phones.
const fn day(now: Instant) -> u16 {
    (now.as_secs() / 86_400) as u16
}

/// Appends the Feature-Caps of a 200 for the REGISTER `request`: the services that its contacts
/// name, or all services if a contact asks for them (RFC 8599 sections 4.1 and 5.3), and the
/// [`purr`] of each phone at `now` if requests within dialogs pass this server.
pub(crate) fn write_feature_caps(
    request: &Message<'_>,
    config: &Config,
    key: &Key,
    now: Instant,
    out: &mut Vec<u8>,
) {
    if !is_used(config) {
        return;
    }
    let stays = config.record_route && config.state == State::Stateful;
    let mut named: Vec<(&str, Option<String>)> = Vec::new();
    for contact in request.elements(HeaderName::Contact) {
        let Ok(contact) = NameAddr::parse(HeaderName::Contact, contact) else { continue };
        let Ok(Uri::Sip(uri)) = contact.uri() else { continue };
        let is_asked = |provider: &str| match uri.params.get("pn-provider") {
            Some(None | Some(b"")) => true,
            Some(Some(value)) => {
                uri.params.has("pn-prid") && provider.as_bytes().eq_ignore_ascii_case(value)
            }
            None => false,
        };
        let prid = uri.params.value("pn-prid").filter(|_| stays);
        let purr = prid.map(|prid| purr(prid, key, now));
        let asked = providers(config).filter(|provider| is_asked(provider));
        named.extend(asked.map(|provider| (provider, purr.clone())));
    }
    named.sort_unstable();
    named.dedup();
    for (provider, purr) in named {
        out.extend_from_slice(b"Feature-Caps: *;+sip.pns=\"");
        out.extend_from_slice(provider.as_bytes());
        if let Some(purr) = purr {
            out.extend_from_slice(b"\";+sip.pnspurr=\"");
            out.extend_from_slice(purr.as_bytes());
        }
        out.extend_from_slice(b"\"\r\n");
    }
}

#[cfg(all(test, feature = "office"))]
mod tests {
    use super::*;
    use alloc::format;

    const MICROS_OF_DAY: u64 = 86_400_000_000;

    #[test]
    fn a_reference_changes_each_day_and_leads_to_its_phone_for_thirty() {
        let [key, other] = [[7; 32], [8; 32]].map(|secret| Key::derive(&secret, "purr"));
        let at = |day: u64| Instant::from_micros(20_000 * MICROS_OF_DAY + day * MICROS_OF_DAY);
        let first = purr(b"T1", &key, at(0));
        assert_eq!(first, purr(b"T1", &key, at(0)));
        for other in [purr(b"T1", &key, at(1)), purr(b"T2", &key, at(0))] {
            assert_ne!(first, other);
        }
        let is_it = |purr: &str, day| is_purr(purr.as_bytes(), b"T1", &key, at(day));
        assert!(is_it(&first, 0) && is_it(&first, 1) && is_it(&first, 30));
        assert!(!is_it(&first, 31), "it has ended");
        assert!(!is_it(&purr(b"T1", &key, at(1)), 0), "it is of the future");
        assert!(!is_it(&purr(b"T1", &other, at(0)), 0), "it is of another server");
        assert!(!is_purr(first.as_bytes(), b"T2", &key, at(0)), "it is of another phone");
        for malformed in ["", "AAAAAAAAAAAAAA", "T1", &first[1..], &format!("{first}A")] {
            assert!(!is_it(malformed, 0), "{malformed}");
        }
    }

    /// A reference has to be a token of an indicator (RFC 6809 section 6.3.2) and the value of a
    /// URI parameter.
    #[test]
    fn a_reference_needs_no_escapes() {
        let key = Key::derive(&[7; 32], "purr");
        for at in 0..1000 {
            let purr = purr(b"T1", &key, Instant::from_micros(at * MICROS_OF_DAY));
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            assert!(purr.len() == 14 && purr.bytes().all(is_plain), "{purr}");
        }
    }
}
