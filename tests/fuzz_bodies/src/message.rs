//! The message parser, the header field parsers, and the writing of responses.

use sip::digest::{Algorithm, Challenge, Credentials, DigestInput, Ha1Set};
use sip::header::{
    CSeq, NameAddr, RAck, Via, delta_seconds, elements, media_type, number, q_value, retry_after,
    session_expires, timestamp, tokens,
};
use sip::message::{Field, Response};
use sip::param::Params;
use sip::{HeaderName, Message, StartLine, Uri};
use std::net::SocketAddr;

/// Parses `bytes` as a message with all parsers.
///
/// # Panics
/// A parser panics, or two equivalent operations differ.
pub fn message(bytes: &[u8]) {
    every_parser(bytes);
    let Ok(message) = Message::parse(bytes) else { return };
    parses_again_to_the_same(&message);
    if let StartLine::Request { uri, .. } = message.start_line() {
        every_parser(uri);
    }
    for field in message.fields() {
        every_parser(field.value);
        elements(field.value).for_each(every_parser);
    }
    let sources = ["192.0.2.1:5060", "[2001:db8::1]:40000"];
    for source in sources.map(|source| source.parse().expect("a valid address")) {
        answers_parse(&message, source);
    }
}

fn parses_again_to_the_same(message: &Message<'_>) {
    let again = Message::parse(message.as_bytes()).expect("a message parses again");
    assert_eq!(again.as_bytes(), message.as_bytes());
    assert_eq!(again.start_line(), message.start_line());
    assert_eq!(again.body(), message.body());
    assert_eq!(again.framing_fault(), message.framing_fault());
    assert_eq!(again.fields_end(), message.fields_end());
    assert!(again.fields().eq(message.fields()));
    let lines: Vec<u8> =
        message.fields().flat_map(|field: Field<'_>| field.line).copied().collect();
    assert_eq!(lines, message.fields_bytes(), "the lines of the fields leave gaps");
    assert_eq!(message.validate_request().is_ok(), again.validate_request().is_ok());
}

/// All parsers of header field values and their parts.
fn every_parser(value: &[u8]) {
    let name = HeaderName::Contact;
    if let Ok(via) = Via::parse(value) {
        let _ = (via.received(), via.rport(), via.transaction_branch(), via.port_or_default());
        params(via.params);
    }
    if let Ok(address) = NameAddr::parse(name, value) {
        params(address.params);
        let _ = address.tag();
        if let Ok(found) = address.uri() {
            uri(&found);
        }
    }
    if let Ok(found) = Uri::parse(value) {
        uri(&found);
    }
    if let Ok(cseq) = CSeq::parse(value) {
        let text = format!("{} ", cseq.number).into_bytes();
        let text = [&text, cseq.method.as_bytes()].concat();
        assert_eq!(CSeq::parse(&text), Ok(cseq));
    }
    let _ = (RAck::parse(value), number(name, value, 255), q_value(name, value), timestamp(value));
    let _ = (delta_seconds(name, value), media_type(value), retry_after(value));
    let _ = (session_expires(value), tokens(value).count());
    params(Params::new(value));
    digest(value);
}

fn params(params: Params<'_>) {
    for (_, value) in params.iter() {
        sip::param::unquote(value.unwrap_or_default()).for_each(drop);
    }
    let _ = (params.is_valid(), params.has("lr"));
}

fn uri(uri: &Uri<'_>) {
    match uri {
        Uri::Sip(sip) => {
            assert!(sip.is_equivalent(sip), "a URI does not equal itself");
            assert!(sip.params.iter().count() <= sip::param::MAX_URI_PARAMS);
            assert!(sip.host.is_equivalent(&sip.host));
            let _: std::borrow::Cow<'_, [u8]> = sip::uri::unescape(sip.user.unwrap_or_default());
            let _ = (sip.transport(), sip.is_loose());
            params(sip.params);
        }
        Uri::Tel(tel) => tel.write_canonical_number(&mut Vec::new()),
        Uri::Other { .. } => {}
    }
}

fn digest(value: &[u8]) {
    if let Ok(Some(credentials)) = Credentials::parse(value) {
        let mut text = Vec::new();
        credentials.write(&mut text);
        // Control characters in a user name cannot be written.
        if !credentials.username.iter().any(u8::is_ascii_control) {
            assert_eq!(Credentials::parse(&text), Ok(Some(credentials.clone())));
        }
        let _ = credentials.verify(&Ha1Set::new(b"u", b"r", b"p"), b"REGISTER", b"");
    }
    if let Ok(Some(challenge)) = Challenge::parse(value) {
        let mut text = Vec::new();
        challenge.write(&mut text);
        assert_eq!(Challenge::parse(&text), Ok(Some(challenge)));
        let ha1 = Ha1Set::new(b"u", challenge.realm, b"p");
        let request = DigestInput { method: b"REGISTER", uri: b"sip:example.com", body: b"" };
        let answer =
            challenge.credentials_for(b"u", ha1.get(challenge.algorithm), &request, b"c", 1);
        assert!(answer.verify(&ha1, request.method, request.body));
        assert!(Algorithm::ALL.contains(&answer.algorithm));
    }
}

/// Asserts that a response to a valid request is valid.
fn answers_parse(message: &Message<'_>, source: SocketAddr) {
    let Ok(head) = message.validate_request() else { return };
    let response =
        Response { request: message, source, status: 486, reason: "Busy Here", to_tag: Some(b"t") };
    let mut bytes = Vec::new();
    response.write(&mut bytes, |_| {});
    let Ok(read) = Message::parse(&bytes) else {
        // Completing the Via of a request of maximum length may exceed the limit.
        assert!(bytes.len() > sip::message::MAX_MESSAGE, "a response does not parse");
        return;
    };
    assert_eq!((read.status(), read.framing_fault()), (Some(486), None));
    assert_eq!(read.as_bytes().len(), bytes.len());
    let value = |message: &Message<'_>, name| message.value(name).map(<[u8]>::to_vec);
    for name in [HeaderName::From, HeaderName::CallId, HeaderName::CSeq] {
        assert_eq!(value(&read, name), value(message, name));
    }
    let vias = |message: &Message<'_>| message.elements(HeaderName::Via).count();
    assert_eq!(vias(&read), vias(message));
    let via = read.top_via().expect("the topmost Via of a response is valid");
    assert_eq!(
        (via.branch(), via.host, via.port),
        (head.via.branch(), head.via.host, head.via.port)
    );
    if via.host.ip() != Some(source.ip()) {
        assert_eq!((via.received(), via.rport()), (Some(source.ip()), Some(Some(source.port()))));
    }
    let to =
        NameAddr::parse(HeaderName::To, read.value(HeaderName::To).expect("a response has To"))
            .expect("the To of a response is valid");
    assert!(to.params.has("tag"), "a response has no tag in To");
    assert_eq!(to.uri_bytes, head.to.uri_bytes);
}
