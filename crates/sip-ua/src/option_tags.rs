//! Option tags: the extensions that we take, and those that others want (RFC 3261 section 19.2).

use crate::config::{Config, Reliable};
use alloc::vec::Vec;
use sip::header::tokens;
use sip::{Emit, HeaderName, Message};

/// Reliable provisional responses (RFC 3262).
pub(crate) const RELIABLE: &str = "100rel";

/// Session timers (RFC 4028).
pub(crate) const TIMER: &str = "timer";

/// All that we take, as `config` has it: for Supported, and what Require may name.
fn supported(config: &Config) -> impl Iterator<Item = &'static str> {
    let tags = [
        (RELIABLE, config.reliable != Reliable::Off),
        (TIMER, config.session_expires.is_some()),
        ("199", true),
        ("replaces", true),
    ];
    tags.into_iter().filter(|(_, is_taken)| *is_taken).map(|(tag, _)| tag)
}

/// The Supported header field line.
pub(crate) fn supported_line(config: &Config) -> Vec<u8> {
    let mut line = Vec::from(*b"Supported: ");
    for (place, tag) in supported(config).enumerate() {
        ((place > 0).then_some(", "), tag).emit(&mut line);
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// Whether the header field `name` of `message`, Supported or Require, has `tag`.
pub(crate) fn has(message: &Message<'_>, name: HeaderName, tag: &str) -> bool {
    message.values(name).flat_map(tokens).any(|token| token.eq_ignore_ascii_case(tag.as_bytes()))
}

/// Unsupported header field lines for what `request` requires and we do not take; empty if it may
/// go on.
pub(crate) fn unsupported_lines(config: &Config, request: &Message<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for option in request.elements(HeaderName::Require) {
        if !supported(config).any(|tag| option.eq_ignore_ascii_case(tag.as_bytes())) {
            ("Unsupported: ", option, "\r\n").emit(&mut lines);
        }
    }
    lines
}
