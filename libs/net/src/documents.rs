//! The documents of a web page that a WebSocket server also serves.

/// The header fields of each document: it uses nothing of another host, and no other page frames
/// it.
const FIELDS: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; \
    style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'\r\n\
    X-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\nReferrer-Policy: no-referrer\r\n\
    Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\
    Permissions-Policy: microphone=(self), camera=(), geolocation=()\r\nCache-Control: no-store\r\n";

/// A document of a web page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document {
    /// The path with the leading slash.
    pub path: &'static str,
    /// The media type.
    pub kind: &'static str,
    /// The content, in UTF-8.
    pub text: &'static str,
}

impl Document {
    /// The response with the document, or its head. The connection is closed after it.
    pub(crate) fn answer(&self, is_head: bool) -> Vec<u8> {
        let Self { kind, text, .. } = self;
        let body = if is_head { "" } else { text };
        let length = text.len();
        format!(
            "HTTP/1.1 200 OK\r\n{FIELDS}Connection: close\r\n\
             Content-Type: {kind}; charset=utf-8\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }
}
