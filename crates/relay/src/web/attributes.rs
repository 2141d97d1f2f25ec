//! The attributes of ICE and of a handshake in a session description.

use crate::profile::has_feedback;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use sdp::MediaDescription;

/// The attributes of a medium for an end with a handshake, in place of those of the other end.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebAttributes {
    /// The transport protocol.
    pub(crate) protocol: &'static str,
    /// True if the relay offers or answers ICE.
    pub(crate) has_ice: bool,
    /// The attributes, each without `a=`.
    pub(crate) lines: Vec<String>,
}

/// The longest identifier of a medium that is repeated (`a=mid`), in bytes.
const MAX_MID: usize = 64;

impl WebAttributes {
    /// The attributes of an answer that rejects `medium`, or `None` without the feature `web`. An
    /// answer repeats the protocol and the identifier of its offer.
    #[allow(clippy::unnecessary_wraps)]
    pub(crate) fn of_rejected(medium: &MediaDescription<'_>) -> Option<Self> {
        let protocol = match has_feedback(medium.protocol) {
            true => "UDP/TLS/RTP/SAVPF",
            false => "UDP/TLS/RTP/SAVP",
        };
        let mid = medium.attributes("mid").next().filter(|mid| mid.len() <= MAX_MID);
        let lines = mid.map(|mid| format!("mid:{mid}")).into_iter().collect();
        Some(Self { protocol, has_ice: false, lines })
    }

    /// The transport protocol.
    pub(crate) const fn protocol(&self) -> &'static str {
        self.protocol
    }

    /// True if the relay offers or answers ICE.
    pub(crate) const fn has_ice(&self) -> bool {
        self.has_ice
    }

    /// The attributes, each without `a=`.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }
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
