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
use sip::{HeaderName, Message, SipUri, Uri};

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

/// The Proxy Unique Registration Reference of the phone `prid` (RFC 8599 section 6): the phone
/// names itself by it in the Contact of its dialogs, without telling `prid`.
pub(crate) fn purr(prid: &[u8], key: &Key) -> String {
    URL_SAFE_NO_PAD.encode(key.proof(&[b"purr", prid]).to_le_bytes())
}

/// Appends the Feature-Caps of a 200 for the REGISTER `request`: the services that its contacts
/// name, or all services if a contact asks for them (RFC 8599 sections 4.1 and 5.3), and the
/// [`purr`] of each phone if requests within dialogs pass this server.
pub(crate) fn write_feature_caps(
    request: &Message<'_>,
    config: &Config,
    key: &Key,
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
        let purr = prid.map(|prid| purr(prid, key));
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
