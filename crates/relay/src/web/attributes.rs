//! The attributes of a browser's session description.

use alloc::string::String;
use alloc::vec::Vec;

/// The attributes of a medium for a browser, in place of those of the other end.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebAttributes {
    /// The transport protocol.
    pub(crate) protocol: &'static str,
    /// The attributes, each without `a=`.
    pub(crate) lines: Vec<String>,
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
