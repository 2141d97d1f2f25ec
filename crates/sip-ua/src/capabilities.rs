//! The supported methods (Allow) and extensions by their option tags, and the extensions that a
//! request requires (RFC 3261 sections 19.2 and 20.5).

use crate::config::{Config, Reliable};
use alloc::vec::Vec;
use sip::header::tokens;
use sip::{Encode, HeaderName, Message};

/// The supported methods, for Allow and for a 405.
pub(crate) const ALLOW: &[u8] =
    b"Allow: INVITE, ACK, CANCEL, BYE, OPTIONS, PRACK, UPDATE, INFO, MESSAGE, REFER, NOTIFY\r\n";

/// Reliable provisional responses (RFC 3262).
pub(crate) const RELIABLE: &str = "100rel";

/// Session timers (RFC 4028).
pub(crate) const TIMER: &str = "timer";

/// Returns the option tags that are supported under `config`, for Supported and for the check of
/// Require.
fn supported(config: &Config) -> impl Iterator<Item = &'static str> {
    let tags = [
        (RELIABLE, config.reliable != Reliable::Off),
        (TIMER, config.session_expires.is_some()),
        ("199", true),
        ("replaces", true),
    ];
    tags.into_iter().filter(|(_, is_taken)| *is_taken).map(|(tag, _)| tag)
}

/// Returns the header field lines Allow and Supported.
pub(crate) fn lines(config: &Config) -> Vec<u8> {
    lines_if(config, true)
}

/// Like [`lines`]. [`RELIABLE`] is left out unless `is_reliable`.
pub(crate) fn lines_if(config: &Config, is_reliable: bool) -> Vec<u8> {
    let mut lines = [ALLOW, b"Supported: "].concat();
    let tags = supported(config).filter(|tag| is_reliable || *tag != RELIABLE);
    for (place, tag) in tags.enumerate() {
        ((place > 0).then_some(", "), tag).encode(&mut lines);
    }
    lines.extend_from_slice(b"\r\n");
    lines
}

/// Returns true if the header field `name` of `message`, Supported or Require, contains `tag`.
pub(crate) fn has(message: &Message<'_>, name: HeaderName, tag: &str) -> bool {
    message.values(name).flat_map(tokens).any(|token| token.eq_ignore_ascii_case(tag.as_bytes()))
}

/// Returns Unsupported header field lines for the extensions that `request` requires and that are
/// not supported. Empty if all are supported.
pub(crate) fn unsupported_lines(config: &Config, request: &Message<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for option in request.elements(HeaderName::Require) {
        if !supported(config).any(|tag| option.eq_ignore_ascii_case(tag.as_bytes())) {
            ("Unsupported: ", option, "\r\n").encode(&mut lines);
        }
    }
    lines
}
