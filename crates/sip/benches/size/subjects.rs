//! All functions that process the input of a peer.

use barebell_sip::digest::{self, Challenge, Credentials};
use barebell_sip::header::{self, CSeq, NameAddr, RAck, Via};
use barebell_sip::locate::{self, AddressFamilies, Answer, Destination, Locator, Naptr, Srv};
use barebell_sip::message::Response;
use barebell_sip::param::{self, Params};
use barebell_sip::stream::{Frame, Framer};
use barebell_sip::uri::{Host, unescape};
use barebell_sip::{HeaderName, Message, Method, Transport, Uri};
use std::hint::black_box;

/// A function to be measured.
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// The bytes before and after the text.
    pub(crate) before: &'static str,
    pub(crate) after: &'static str,
    pub(crate) work: fn(&[u8]),
}

const fn subject(
    name: &'static str,
    before: &'static str,
    after: &'static str,
    work: fn(&[u8]),
) -> Subject {
    Subject { name, before, after, work }
}

macro_rules! start {
    () => {
        "REGISTER sip:h SIP/2.0\r\n"
    };
}

macro_rules! via {
    () => {
        "Via: SIP/2.0/UDP h;branch=z9hG4bKb"
    };
}

macro_rules! others {
    () => {
        "\r\nFrom: <sip:0@h>;tag=1\r\nTo: <sip:0@h>\r\nCall-ID: c\r\nCSeq: 1 REGISTER"
    };
}

const END: &str = "\r\n\r\n";
const AFTER_VIA: &str = concat!(others!(), "\r\n\r\n");

const AFTER_URI: &str = concat!(" SIP/2.0\r\n", via!(), others!(), "\r\n\r\n");
const AFTER_FROM: &str = "\r\nTo: <sip:0@h>\r\nCall-ID: c\r\nCSeq: 1 REGISTER\r\n\r\n";

pub(crate) static ALL: &[Subject] = &[
    subject("message", "", "", message),
    subject("message, request URI", "REGISTER sip:h", AFTER_URI, message),
    subject("message, status line", "SIP/2.0 200 ", END, message),
    subject("message, Via", concat!(start!(), via!()), AFTER_VIA, message),
    subject("message, first Via", concat!(start!(), "Via: "), AFTER_VIA, message),
    subject("message, lines", concat!(start!(), via!(), others!()), END, message),
    subject("message, From", concat!(start!(), via!(), "\r\nf: <sip:0@h>"), AFTER_FROM, message),
    subject("message, Contact", concat!(start!(), via!(), others!(), "\r\nm: "), END, message),
    subject(
        "message, URI of Contact",
        concat!(start!(), via!(), others!(), "\r\nm: <sip:0@h"),
        ">\r\n\r\n",
        message,
    ),
    subject("stream", "", "", stream),
    subject("stream, lines", "OPTIONS sip:h SIP/2.0\r\nl: 0", END, stream),
    subject("stream, body", "OPTIONS sip:h SIP/2.0\r\nl: 60000\r\n\r\n", "", stream),
    subject("elements", "", "", elements),
    subject("address", "", "", address),
    subject("address, parameters", "<sip:0@h>", "", address),
    subject("Via", "SIP/2.0/UDP h", "", via),
    subject("Via, host", "SIP/2.0/UDP ", "", via),
    subject("other values", "", "", values),
    subject("other values, parameters", "1", "", values),
    subject("other values, after a type", "a/b", "", values),
    subject("parameters", "", "", params),
    subject("URI", "", "", uri),
    subject("URI, user", "sip:", "@h", uri),
    subject("URI, host", "sip:0@", "", uri),
    subject("URI, parameters", "sip:0@h", "", uri),
    subject("tel URI", "tel:+1", "", uri),
    subject("other URI", "urn:a", "", uri),
    subject("Digest", "Digest ", "", digest),
    subject(
        "Digest, more",
        "Digest username=\"a\",realm=\"b\",nonce=\"c\",uri=\"d\",response=\"e\"",
        "",
        digest,
    ),
    subject("names", "", "", names),
    subject("location", "", "", location),
];

fn message(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else { return };
    let _ = black_box(message.validate_request());
    black_box(message.fields().map(|field| field.raw_name().len()).sum::<usize>());
    message.elements(HeaderName::Via).for_each(via);
    message.elements(HeaderName::Contact).for_each(address);
    let source = ([192, 0, 2, 1], 5060).into();
    let response =
        Response { request: &message, source, status: 200, reason: "OK", to_tag: Some(b"ours") };
    let mut out = Vec::new();
    response.write(&mut out, |_| {});
    black_box(out);
}

/// Receives the text byte by byte.
fn stream(bytes: &[u8]) {
    let (mut framer, mut start) = (Framer::default(), 0);
    for end in 1..=bytes.len() {
        match framer.next(&bytes[start..end]) {
            Ok(Frame::Message(length) | Frame::LineEnds(length)) => start += length,
            Ok(Frame::Incomplete) => {}
            Err(_) => return,
        }
    }
}

fn elements(bytes: &[u8]) {
    black_box((header::elements(bytes).count(), header::tokens(bytes).count()));
}

fn address(bytes: &[u8]) {
    let Ok(address) = NameAddr::parse(HeaderName::Contact, bytes) else { return };
    params(address.params.as_bytes());
    uri(address.uri_bytes);
}

fn via(bytes: &[u8]) {
    let Ok(via) = Via::parse(bytes) else { return };
    black_box((via.received(), via.rport(), via.transaction_branch(), via.host.canonical()));
}

fn values(bytes: &[u8]) {
    let name = HeaderName::Expires;
    let _ = black_box((header::number(name, bytes, 9), header::delta_seconds(name, bytes)));
    let _ = black_box((
        CSeq::parse(bytes),
        RAck::parse(bytes),
        header::q_value(HeaderName::Contact, bytes),
    ));
    let _ = black_box((header::media_type(bytes), header::retry_after(bytes)));
    let _ = black_box((header::session_expires(bytes), header::timestamp(bytes)));
}

fn params(bytes: &[u8]) {
    let params = Params::new(bytes);
    black_box((params.is_valid(), params.get("expires"), params.has("q")));
    let values = params.iter().filter_map(|(_, value)| value);
    black_box(values.flat_map(param::unquote).fold(0, |sum, byte| sum ^ byte));
}

/// Parses a URI, and compares it with itself and with its upper-case form.
fn uri(bytes: &[u8]) {
    let capitals = bytes.to_ascii_uppercase();
    match Uri::parse(bytes) {
        Ok(Uri::Sip(uri)) => {
            black_box((
                uri.is_equivalent(&uri),
                uri.host.is_equivalent(&uri.host),
                uri.transport(),
            ));
            if let Ok(Uri::Sip(capitals)) = Uri::parse(&capitals) {
                black_box((uri.is_equivalent(&capitals), uri.host.is_equivalent(&capitals.host)));
            }
            black_box(unescape(uri.user.unwrap_or_default()));
        }
        Ok(Uri::Tel(tel)) => {
            let mut number = Vec::new();
            tel.write_canonical_number(&mut number);
            black_box(number);
        }
        Ok(Uri::Other { .. }) | Err(_) => {}
    }
}

fn digest(bytes: &[u8]) {
    let mut out = Vec::new();
    if let Ok(Some(credentials)) = Credentials::parse(bytes) {
        credentials.write(&mut out);
        black_box(credentials.expected_response(b"", b"REGISTER", b""));
    }
    if let Ok(Some(challenge)) = Challenge::parse(bytes) {
        challenge.write(&mut out);
    }
    let realms = digest::realms(bytes).count();
    black_box((realms, digest::unquote(bytes), digest::quote(bytes), out));
}

fn names(bytes: &[u8]) {
    black_box((HeaderName::new(bytes), Method::new(bytes), Transport::parse(bytes)));
    let _ = black_box((Host::parse(bytes), locate::Host::parse(bytes)));
}

/// As many DNS records as the text fills, with a part of the text in each.
fn location(bytes: &[u8]) {
    let host = locate::Host::Name("h".into());
    let destination = Destination { host, port: None, transport: None, sips: false };
    let mut locator = Locator::new(destination, &Transport::ALL, AddressFamilies::V4First);
    let parts = || bytes.chunks(64).map(|part| String::from_utf8_lossy(part).into_owned());
    let naptr = |replacement| Naptr {
        order: 1,
        preference: 1,
        flags: "s".into(),
        service: "SIP+D2U".into(),
        replacement,
    };
    let srv = |target| Srv { priority: 1, weight: 1, port: 5060, target };
    let addresses = bytes.chunks(16).map(|part| [192, 0, 2, part[0]].into()).collect();
    for answer in [
        Answer::Naptr(parts().map(naptr).collect()),
        Answer::Srv(parts().map(srv).collect()),
        Answer::Addresses(addresses),
    ] {
        locator.on_dns_answer(answer, &mut |below| below / 2);
        black_box(locator.step());
    }
}
