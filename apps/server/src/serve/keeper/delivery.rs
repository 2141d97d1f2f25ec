//! The messages of the keeper: requests to be stored, their responses, and deliveries.

use sip::dialog::Dialog;
use sip::header::{NameAddr, write_date};
use sip::message::Response;
use sip::{Encode, Flow, HeaderName, Message, Method, Status, Uri};
use store::KeptMessage;

/// The maximum length in bytes of a stored body.
const MOST_BYTES: usize = 16 * 1024;
/// The maximum length in bytes of the stored From and Content-Type.
const MOST_OF_FIELD: usize = 1024;

/// A MESSAGE for a user.
pub(in crate::serve) struct Request {
    /// `name@domain`.
    pub(in crate::serve) user: String,
    pub(in crate::serve) message: KeptMessage,
}

impl Request {
    /// Reads the request `message` of the engine, which came at `received`.
    ///
    /// # Errors
    /// The status of the response.
    pub(in crate::serve) fn read(
        message: &Message<'_>,
        received: sip::Instant,
    ) -> Result<Self, Status> {
        if message.method() != Some(Method::Message) {
            return Err(Status::METHOD_NOT_ALLOWED);
        }
        let (user, is_proved) = user_of(message).ok_or(Status::NOT_FOUND)?;
        let from = message.value(HeaderName::From).unwrap_or_default();
        let from = NameAddr::parse(HeaderName::From, from).map_err(|_| Status::BAD_REQUEST)?;
        let content_type = message.value(HeaderName::ContentType).unwrap_or(b"text/plain");
        let body = message.body();
        let is_short = from.uri_bytes.len() + content_type.len() <= MOST_OF_FIELD;
        if body.len() > MOST_BYTES || !is_short {
            return Err(Status::MESSAGE_TOO_LARGE);
        }
        let mut sender = Vec::new();
        ("<", from.uri_bytes, ">").encode(&mut sender);
        let (content_type, body) = (content_type.to_vec(), body.to_vec());
        let message = KeptMessage { received, sender, content_type, body, is_proved };
        Ok(Self { user, message })
    }
}

/// The user of a request, as the engine names it in the first Route, and true if the engine knows
/// the sender.
fn user_of(message: &Message<'_>) -> Option<(String, bool)> {
    let route = message.elements(HeaderName::Route).next()?;
    let route = NameAddr::parse(HeaderName::Route, route).ok()?;
    let Ok(Uri::Sip(uri)) = route.uri() else { return None };
    let user = sip::uri::unescape(uri.params.value("of")?);
    Some((String::from_utf8(user.into_owned()).ok()?, uri.params.has("proved")))
}

/// The response to a message that was stored (RFC 3428 section 7).
pub(in crate::serve) const ACCEPTED: Status = Status(202);

/// The response with `status` to `request`, which came on `flow`.
pub(in crate::serve) fn respond(
    request: &Message<'_>,
    flow: &Flow,
    status: Status,
    tag: &str,
) -> Vec<u8> {
    let response = Response {
        request,
        source: flow.remote,
        status: status.code(),
        reason: if status == ACCEPTED { "Accepted" } else { status.reason_phrase() },
        to_tag: Some(tag.as_bytes()),
    };
    let mut bytes = Vec::new();
    response.write(&mut bytes, |_| {});
    bytes
}

/// The MESSAGE with `message` for `user` on `flow`. `id` is random and names it.
pub(in crate::serve) fn deliver(
    user: &str,
    message: &KeptMessage,
    flow: &Flow,
    id: &str,
) -> Vec<u8> {
    let (name, domain) = user.rsplit_once('@').unwrap_or((user, ""));
    let name = sip::uri::escape_user(name.as_bytes());
    let uri = crate::domains::sip_uri(&String::from_utf8_lossy(&name), domain);
    let mut dialog = Dialog::new(id, &message.sender, &id[..16], ("<", &uri, ">"), &uri);
    let cseq = dialog.next_cseq();
    let via =
        format!("SIP/2.0/{} {};rport;branch=z9hG4bK{id}", flow.transport.via_name(), flow.local);
    let (mut date, mut out) = (Vec::new(), Vec::new());
    write_date(&mut date, message.received);
    let content_type = String::from_utf8_lossy(&message.content_type);
    dialog
        .request(Method::Message, cseq, via.as_str(), &mut out)
        .field(HeaderName::Date, &date)
        .body(&content_type, &message.body);
    out
}

/// The outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::serve) enum Outcome {
    /// A phone has it.
    Delivered,
    /// No phone takes it, now or later.
    Rejected,
    /// No phone is reachable.
    Away,
}

impl Outcome {
    /// The outcome that the final response `status` means.
    pub(in crate::serve) const fn of(status: u16) -> Self {
        match status {
            200..=299 => Self::Delivered,
            408 | 430 | 480 | 486 | 500 | 503 | 504 | 600 => Self::Away,
            _ => Self::Rejected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::{Endpoint, Instant, Transport};

    fn flow() -> Flow {
        let local = "192.0.2.1:5060".parse().unwrap();
        let flow = Flow { transport: Transport::Udp, local, remote: local, connection: None };
        flow.internal_to(Endpoint::Keeper)
    }

    fn request(body: &str, from: &str) -> Vec<u8> {
        let length = body.len();
        format!(
            "MESSAGE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
             Route: <sip:keeper@keeper.invalid;lr;of=b%40b%40example.com>\r\nMax-Forwards: 70\r\n\
             From: {from};tag=1\r\nTo: <sip:bob@example.com>\r\nCall-ID: x\r\nCSeq: 1 MESSAGE\r\n\
             Content-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes()
    }

    #[test]
    fn a_message_is_read_and_delivered_as_it_was() {
        let received = Instant::from_micros(1_700_000_000_000_000);
        let bytes = request("<b>hello</b>", "\"Alice\" <sip:alice@example.com>");
        let message = Message::parse(&bytes).unwrap();
        let Request { user, message: kept } = Request::read(&message, received).unwrap();
        assert_eq!((&user[..], kept.is_proved), ("b@b@example.com", false));
        let proved = String::from_utf8(bytes.clone()).unwrap().replace(";lr;", ";lr;proved;");
        let proved = Request::read(&Message::parse(proved.as_bytes()).unwrap(), received);
        assert!(proved.unwrap().message.is_proved);
        let id = "0123456789abcdef0123456789abcdef";
        let sent = deliver(&user, &kept, &flow(), id);
        let sent = Message::parse(&sent).unwrap();
        let head = sent.validate_request().unwrap();
        assert_eq!(head.uri_bytes, b"sip:b%40b@example.com");
        let value = |name| String::from_utf8_lossy(sent.value(name).unwrap()).into_owned();
        assert_eq!(value(HeaderName::From), "<sip:alice@example.com>;tag=0123456789abcdef");
        assert_eq!(value(HeaderName::ContentType), "text/html");
        assert_eq!(value(HeaderName::Date), "Tue, 14 Nov 2023 22:13:20 GMT");
        assert_eq!(sent.body(), b"<b>hello</b>");
        let response = respond(&message, &flow(), ACCEPTED, "t");
        assert_eq!(Message::parse(&response).unwrap().status(), Some(202));
    }

    #[test]
    fn a_message_that_is_too_long_is_refused() {
        let read = |body: &str, from: &str| {
            let bytes = request(body, from);
            Request::read(&Message::parse(&bytes).unwrap(), Instant::ZERO).err()
        };
        let from = "<sip:alice@example.com>";
        assert_eq!(read(&"x".repeat(MOST_BYTES), from), None);
        assert_eq!(read(&"x".repeat(MOST_BYTES + 1), from), Some(Status::MESSAGE_TOO_LARGE));
        let long = format!("<sip:{}@example.com>", "a".repeat(MOST_OF_FIELD));
        assert_eq!(read("x", &long), Some(Status::MESSAGE_TOO_LARGE));
    }
}
