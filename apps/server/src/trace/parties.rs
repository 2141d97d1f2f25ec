//! The call and the parties of a message.

use crate::call_lines::party;
use sip::header::NameAddr;
use sip::{HeaderName, Message};

/// The Call-ID of a message.
pub(super) fn call_id(bytes: &[u8]) -> Option<&[u8]> {
    Message::parse(bytes).ok()?.value(HeaderName::CallId)
}

/// The URIs in From and To.
pub(super) fn parties(message: &Message<'_>) -> [String; 2] {
    [HeaderName::From, HeaderName::To].map(|name| {
        let address = message.value(name).and_then(|value| NameAddr::parse(name, value).ok());
        address.map(|it| String::from_utf8_lossy(it.uri_bytes).into_owned()).unwrap_or_default()
    })
}

/// True if one of the URIs is that of `user`: `user@domain`, or `user` in any domain.
pub(crate) fn is_with(user: &str, uris: &[String; 2]) -> bool {
    uris.iter().map(|uri| party(uri)).any(|party| match user.contains('@') {
        true => party == user,
        false => party.split('@').next() == Some(user),
    })
}
