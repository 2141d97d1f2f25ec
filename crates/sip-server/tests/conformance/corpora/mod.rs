//! Messages from public collections: valid ones are accepted.

mod exceptions;

use crate::rig::text;
use sip::digest::{Challenge, Credentials};
use sip::header::{self, CSeq, NameAddr, RAck, Via};
use sip::message::Field;
use sip::{HeaderName, Message};
use std::path::Path;
use test_support::{corpora, files};

/// The class of a message: `sound`, `response`, a fault, a flaw, or `no message`. A message that is
/// stored with line feeds only is classified with the line ends of SIP.
fn class(bytes: &[u8]) -> String {
    if !bytes.windows(2).any(|pair| pair == b"\r\n") && bytes.contains(&b'\n') {
        return class(text(bytes).replace('\n', "\r\n").as_bytes());
    }
    match Message::parse(bytes) {
        Err(error) => format!("no message: {error}"),
        Ok(message) => match (message.status(), message.framing_fault()) {
            (Some(_), None) => "response".into(),
            (Some(_), Some(flaw)) => format!("response: {flaw:?}"),
            (None, _) => message
                .validate_request()
                .map_or_else(|fault| fault.to_string(), |_| "sound".into()),
        },
    }
}

/// The messages in `folder` that are neither valid requests nor responses, with their class.
fn unsound(folder: &Path) -> Vec<(String, String)> {
    let name = |path: &Path| path.strip_prefix(folder).unwrap().display().to_string();
    files(folder)
        .into_iter()
        .filter(|path| !path.ends_with("index.tsv"))
        .map(|path| (name(&path), class(&std::fs::read(&path).unwrap())))
        .filter(|(_, class)| class != "sound" && class != "response")
        .collect()
}

#[test]
fn what_is_collected_is_taken_as_what_it_is() {
    let Some(corpora) = corpora() else { return };
    let mut expected: Vec<_> = exceptions::GROUPS
        .iter()
        .inspect(|group| assert!(!group.reason.is_empty()))
        .flat_map(|group| group.files.iter().map(|file| (group.folder, *file, group.class)))
        .collect();
    for folder in ["extracted", "from-pcap", "jain-sip", "sofia-sip"] {
        let unsound = unsound(&corpora.join("sip-messages").join(folder));
        let is_here = |(other, ..): &(&str, &str, &str)| *other == folder;
        let mut here: Vec<_> = expected.extract_if(.., |exception| is_here(exception)).collect();
        here.sort_unstable();
        let found: Vec<_> =
            unsound.iter().map(|(file, class)| (folder, &file[..], &class[..])).collect();
        assert_eq!(found, here);
    }
    assert_eq!(expected, []);
}

/// `bytes` without surrounding text from the collection: the heading of the next message, and a
/// remark.
fn without_headings(bytes: &[u8]) -> String {
    let is_heading = |line: &&str| {
        let number = line.strip_prefix('F').unwrap_or_default();
        number.starts_with(|c: char| c.is_ascii_digit()) || line.starts_with("/*")
    };
    let kept: Vec<_> = text(bytes)
        .split_inclusive('\n')
        .filter(|line| !is_heading(line))
        .map(String::from)
        .collect();
    kept.concat()
}

/// The names of the header fields that their parser rejects.
fn unreadable_fields(bytes: &[u8]) -> Vec<String> {
    let message = Message::parse(bytes).unwrap();
    let is_read = |field: &Field<'_>| match field.name {
        HeaderName::From | HeaderName::To => {
            NameAddr::parse(field.name, field.value).is_ok_and(|address| address.uri().is_ok())
        }
        HeaderName::Contact | HeaderName::Route | HeaderName::RecordRoute | HeaderName::Path => {
            header::elements(field.value).all(|element| {
                element == b"*"
                    || NameAddr::parse(field.name, element).is_ok_and(|one| one.uri().is_ok())
            })
        }
        HeaderName::Via => header::elements(field.value).all(|via| Via::parse(via).is_ok()),
        HeaderName::CSeq => CSeq::parse(field.value).is_ok(),
        HeaderName::RAck => RAck::parse(field.value).is_ok(),
        HeaderName::MaxForwards | HeaderName::ContentLength | HeaderName::RSeq => {
            header::number(field.name, field.value, u32::MAX).is_ok()
        }
        HeaderName::Expires | HeaderName::MinExpires => {
            header::delta_seconds(field.name, field.value).is_ok()
        }
        HeaderName::ContentType => header::media_type(field.value).is_ok(),
        HeaderName::RetryAfter => header::retry_after(field.value).is_ok(),
        HeaderName::Timestamp => header::timestamp(field.value).is_ok(),
        HeaderName::WwwAuthenticate | HeaderName::ProxyAuthenticate => {
            Challenge::parse(field.value).is_ok_and(|challenge| challenge.is_some())
        }
        HeaderName::Authorization | HeaderName::ProxyAuthorization => {
            Credentials::parse(field.value).is_ok_and(|credentials| credentials.is_some())
        }
        _ => true,
    };
    message.fields().filter(|field| !is_read(field)).map(|field| field.name.to_string()).collect()
}

/// The misprints of RFC 3665: a missing comma, `qop` without `cnonce` and `nc`, and a continuation
/// line without the leading space.
const MISPRINTS: [&str; 3] = [
    "rfc3665/003.sip: Authorization",
    "rfc3665/005.sip: Authorization",
    "rfc3665/159.sip: Bad Header Field Line",
];

#[test]
fn the_examples_of_the_rfcs_are_sound() {
    let Some(corpora) = corpora() else { return };
    let mut unsound = Vec::new();
    for folder in ["rfc3261-examples", "rfc3665"] {
        for path in files(&corpora.join("sip-messages").join(folder)) {
            if path.ends_with("index.tsv") {
                continue;
            }
            let file = path.file_name().unwrap().to_string_lossy();
            let bytes = without_headings(&std::fs::read(&path).unwrap()).into_bytes();
            let class = class(&bytes);
            if class != "sound" && class != "response" {
                unsound.push(format!("{folder}/{file}: {class}"));
                continue;
            }
            for name in unreadable_fields(&bytes) {
                unsound.push(format!("{folder}/{file}: {name}"));
            }
        }
    }
    assert_eq!(unsound, MISPRINTS);
}
