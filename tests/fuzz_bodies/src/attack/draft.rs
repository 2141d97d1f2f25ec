//! Construction and inspection of messages.

use super::parties::{SERVER, address};
use sip::digest::{Challenge, DigestInput, Ha1Set};
use sip::header::{CSeq, NameAddr};
use sip::message::Response;
use sip::{Encode, HeaderName, Message, StartLine};
use sip_server::Flow;

/// A request under construction: header fields in order. Content-Length and the oracle's serial
/// number are added.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub(super) method: String,
    pub(super) uri: String,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) body: usize,
}

/// The header field that identifies a request after it was forwarded. Proxies keep unknown header
/// fields.
pub(super) const SERIAL: &str = "X-Serial";

impl Draft {
    pub(super) fn and(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        match self.fields.iter_mut().find(|(known, _)| *known == name) {
            Some(field) => field.1 = value.into(),
            None => self.fields.push((name, value.into())),
        }
        self
    }

    pub(super) fn value(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    }

    /// Adds the credentials of `user` for `challenge`, with the Request-URI or another `uri`.
    pub(super) fn proving(
        self,
        user: &str,
        name: &'static str,
        challenge: &str,
        count: u32,
        uri: Option<&str>,
    ) -> Self {
        let uri = uri.unwrap_or(&self.uri).to_owned();
        let method = self.method.clone();
        let value = answer(user, challenge, &method, &uri, self.body, count);
        match value {
            Some(value) => self.and(name, value),
            None => self,
        }
    }

    pub(super) fn bytes(&self, serial: usize) -> Vec<u8> {
        let Self { method, uri, fields, body } = self;
        let mut text = format!("{method} {uri} SIP/2.0\r\n");
        for (name, value) in fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("{SERIAL}: {serial}\r\nContent-Length: {body}\r\n\r\n");
        text += &"x".repeat(*body);
        text.into_bytes()
    }
}

/// The credentials of `user` for `challenge`.
pub(super) fn answer(
    user: &str,
    challenge: &str,
    method: &str,
    uri: &str,
    body: usize,
    count: u32,
) -> Option<String> {
    let challenge = Challenge::parse(challenge.as_bytes()).ok()??;
    let ha1 = Ha1Set::new(user.as_bytes(), challenge.realm, user.as_bytes());
    let body = "x".repeat(body);
    let request =
        DigestInput { method: method.as_bytes(), uri: uri.as_bytes(), body: body.as_bytes() };
    let secret = ha1.get(challenge.algorithm);
    let mut value = Vec::new();
    challenge.credentials_for(user.as_bytes(), secret, &request, b"0a4f", count).write(&mut value);
    Some(text(&value))
}

/// A response to `request` of the server, with additional lines.
pub(super) fn response(
    request: &Message<'_>,
    status: u16,
    tag: Option<&str>,
    lines: impl Encode,
) -> Vec<u8> {
    let mut out = Vec::new();
    let response = Response {
        request,
        source: address(SERVER),
        status,
        reason: "Reason",
        to_tag: tag.map(str::as_bytes),
    };
    response.write(&mut out, |out| lines.encode(out));
    out
}

/// The Record-Route values that a response copies.
pub(super) fn record_routes(message: &Message<'_>) -> Vec<String> {
    message.elements(HeaderName::RecordRoute).map(text).collect()
}

/// A Via for messages sent on `flow`.
pub(super) fn via(flow: &Flow, branch: &str) -> String {
    format!("SIP/2.0/{} {};branch={branch}", flow.transport.via_name(), flow.remote)
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn value(message: &Message<'_>, name: HeaderName) -> String {
    text(message.value(name).unwrap_or_default())
}

pub(super) fn tag_of(message: &Message<'_>, name: HeaderName) -> Option<String> {
    NameAddr::parse(name, message.value(name)?).ok()?.tag().map(text)
}

/// The URI of From, To, or the first Contact.
pub(super) fn uri_of(message: &Message<'_>, name: HeaderName) -> Option<String> {
    let element = message.elements(name).next()?;
    Some(text(NameAddr::parse(name, element).ok()?.uri_bytes))
}

pub(super) fn request_uri(message: &Message<'_>) -> String {
    match message.start_line() {
        StartLine::Request { uri, .. } => text(uri),
        StartLine::Response { .. } => String::new(),
    }
}

pub(super) fn method(message: &Message<'_>) -> String {
    message.method().map_or(String::new(), |method| text(method.as_bytes()))
}

/// The number and the method of CSeq.
pub(super) fn cseq(message: &Message<'_>) -> (u32, String) {
    let cseq = message.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
    cseq.map_or((0, String::new()), |cseq| (cseq.number, text(cseq.method.as_bytes())))
}

pub(super) fn branch(message: &Message<'_>) -> String {
    let via = message.top_via().ok();
    via.and_then(|via| via.branch().map(text)).unwrap_or_default()
}

/// The challenges of a response, each with the name of the header field for its credentials.
pub(super) fn challenges(message: &Message<'_>) -> Vec<(&'static str, String)> {
    [
        (HeaderName::WwwAuthenticate, "Authorization"),
        (HeaderName::ProxyAuthenticate, "Proxy-Authorization"),
    ]
    .into_iter()
    .flat_map(|(name, answers)| {
        message.values(name).map(|value| (answers, text(value))).collect::<Vec<_>>()
    })
    .collect()
}
