//! The page that telephones: a small SIP client for browsers, served beside SIP over WebSocket.

use net::Document;

/// The documents of the page. Its scripts are ES modules that import one another.
pub(crate) const DOCUMENTS: &[Document] = &[
    Document { path: "/", kind: "text/html", text: include_str!("index.html") },
    Document { path: "/page.css", kind: "text/css", text: include_str!("page.css") },
    script("/phone.js", include_str!("phone.js")),
    script("/agent.js", include_str!("agent.js")),
    script("/call.js", include_str!("call.js")),
    script("/sip.js", include_str!("sip.js")),
];

const fn script(path: &'static str, text: &'static str) -> Document {
    Document { path, kind: "text/javascript", text }
}
