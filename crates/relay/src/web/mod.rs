//! The leg of a browser: ICE lite, and SRTP with the keys of a DTLS handshake (RFC 8827).
//!
//! The owner of the ports makes the handshake. Without the feature `web` there are no such legs.

use alloc::vec::Vec;
use sdp::SessionDescription;

#[cfg(feature = "web")]
mod keying;
#[cfg(feature = "web")]
mod leg;
#[cfg(not(feature = "web"))]
mod no_web;

#[cfg(feature = "web")]
pub(crate) use keying::{WebKeying, is_web};
#[cfg(feature = "web")]
pub(crate) use leg::WebLeg;
#[cfg(not(feature = "web"))]
pub(crate) use no_web::{WebKeying, WebLeg, is_web};

/// Returns true if the author of a session description is a browser: its first medium has ICE, and
/// keys by DTLS.
#[must_use]
pub fn is_from_browser(description: &[u8]) -> bool {
    SessionDescription::parse(description).is_ok_and(|session| {
        let mut media = session.media.iter().filter(|medium| medium.port != 0);
        media.next().is_some_and(|medium| is_web(&session, medium))
    })
}

/// The attributes of a medium for a browser, in place of those of the other end.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebAttributes {
    /// The transport protocol.
    pub(crate) protocol: &'static str,
    /// The attributes, each without `a=`.
    pub(crate) lines: Vec<alloc::string::String>,
}

/// The attributes of a browser that mean nothing to the other end: those of keys by DTLS, of the
/// header extensions, of identifiers of tracks, and of bundles.
const OF_BROWSER: [&str; 16] = [
    "fingerprint",
    "setup",
    "tls-id",
    "extmap",
    "extmap-allow-mixed",
    "ssrc",
    "ssrc-group",
    "msid",
    "msid-semantic",
    "mid",
    "rid",
    "simulcast",
    "bundle-only",
    "rtcp-rsize",
    "rtcp-mux-only",
    "identity",
];

/// Returns true if an attribute of this name is for a browser only.
pub(crate) fn is_of_browser(name: &str) -> bool {
    OF_BROWSER.iter().any(|it| name.eq_ignore_ascii_case(it))
}
