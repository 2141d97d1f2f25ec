//! The documents of the states of a user's calls (RFC 4235).

use alloc::vec::Vec;
use sip::Encode;
use sip::uri::escape_user;

/// The media type of a document.
pub(crate) const TYPE: &str = "application/dialog-info+xml";

/// The phase of a call (RFC 4235 section 3.7.1). A call that is not listed is terminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The INVITE is on its way.
    Trying,
    /// The callee rings.
    Early,
    /// The call is answered.
    Confirmed,
}

impl Phase {
    const fn name(self) -> &'static str {
        match self {
            Self::Trying => "trying",
            Self::Early => "early",
            Self::Confirmed => "confirmed",
        }
    }
}

/// A call of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallState {
    /// The number of the call among those of the user.
    pub id: u64,
    /// Its phase.
    pub phase: Phase,
    /// True if the user has called.
    pub is_initiator: bool,
    /// The Call-ID.
    pub call_id: Vec<u8>,
    /// The tag of the user. Empty if it is not known.
    pub local_tag: Vec<u8>,
    /// The tag of the other party. Empty if it is not known.
    pub remote_tag: Vec<u8>,
    /// The URI of the other party.
    pub remote_identity: Vec<u8>,
    /// The URI that reaches the other party.
    pub remote_target: Vec<u8>,
}

/// A document to write.
pub(crate) struct Document<'a> {
    /// The user, `name@domain`.
    pub(crate) user: &'a str,
    pub(crate) version: u32,
    /// The calls that stand.
    pub(crate) calls: &'a [CallState],
    /// The numbers of the calls that have ended since the last document.
    pub(crate) ended: &'a [u64],
    /// True if the other parties and the dialogs are told.
    pub(crate) is_detailed: bool,
}

impl Document<'_> {
    /// Writes the document. It names all calls of the user (`state="full"`), so that a subscriber
    /// which has missed one is right again.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let entity = uri_of(self.user);
        out.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n");
        (
            "<dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" version=\"",
            self.version,
            "\" state=\"full\" entity=\"",
            Text(&entity),
            "\">\r\n",
        )
            .encode(&mut out);
        for call in self.calls {
            self.write_call(call, &entity, &mut out);
        }
        for id in self.ended {
            (Start(*id), ">\r\n<state>terminated</state>\r\n</dialog>\r\n").encode(&mut out);
        }
        out.extend_from_slice(b"</dialog-info>\r\n");
        out
    }

    fn write_call(&self, call: &CallState, entity: &[u8], out: &mut Vec<u8>) {
        Start(call.id).encode(out);
        if self.is_detailed {
            let names = [
                (" call-id=\"", &call.call_id),
                (" local-tag=\"", &call.local_tag),
                (" remote-tag=\"", &call.remote_tag),
            ];
            for (name, value) in names.into_iter().filter(|(_, value)| !value.is_empty()) {
                (name, Text(value), "\"").encode(out);
            }
        }
        let direction = if call.is_initiator { "initiator" } else { "recipient" };
        (" direction=\"", direction, "\">\r\n<state>", call.phase.name(), "</state>\r\n")
            .encode(out);
        if self.is_detailed {
            write_party("local", entity, entity, out);
            write_party("remote", &call.remote_identity, &call.remote_target, out);
        }
        out.extend_from_slice(b"</dialog>\r\n");
    }
}

/// Writes the SIP URI of `name@domain`.
pub(crate) fn uri_of(user: &str) -> Vec<u8> {
    let (name, domain) = user.rsplit_once('@').unwrap_or((user, ""));
    let mut out = Vec::new();
    ("sip:", &*escape_user(name.as_bytes()), "@", domain).encode(&mut out);
    out
}

fn write_party(element: &str, identity: &[u8], target: &[u8], out: &mut Vec<u8>) {
    ("<", element, "><identity>", Text(identity), "</identity>").encode(out);
    ("<target uri=\"", Text(target), "\"/></", element, ">\r\n").encode(out);
}

/// The start of an element `dialog`.
struct Start(u64);

impl Encode for Start {
    fn encode(&self, out: &mut Vec<u8>) {
        ("<dialog id=\"", self.0, "\"").encode(out);
    }
}

/// Received bytes as text of XML. Bytes that are no printable ASCII become question marks.
struct Text<'a>(&'a [u8]);

impl Encode for Text<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        for byte in self.0 {
            match byte {
                b'&' => out.extend_from_slice(b"&amp;"),
                b'<' => out.extend_from_slice(b"&lt;"),
                b'>' => out.extend_from_slice(b"&gt;"),
                b'"' => out.extend_from_slice(b"&quot;"),
                b' '..=b'~' => out.push(*byte),
                _ => out.push(b'?'),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn call() -> CallState {
        CallState {
            id: 7,
            phase: Phase::Early,
            is_initiator: false,
            call_id: b"x\"><state>".to_vec(),
            local_tag: b"1".to_vec(),
            remote_tag: Vec::new(),
            remote_identity: b"sip:a&b@example.com".to_vec(),
            remote_target: b"sip:a\xff\r\n@example.com".to_vec(),
        }
    }

    fn text(is_detailed: bool) -> String {
        let calls = [call()];
        let document = Document {
            user: "bob@example.com",
            version: 3,
            calls: &calls,
            ended: &[5],
            is_detailed,
        };
        String::from_utf8(document.write()).unwrap()
    }

    #[test]
    fn a_document_names_calls_and_ends_and_cannot_be_injected_into() {
        assert_eq!(
            text(true),
            "<?xml version=\"1.0\"?>\r\n\
             <dialog-info xmlns=\"urn:ietf:params:xml:ns:dialog-info\" version=\"3\" state=\"full\" \
             entity=\"sip:bob@example.com\">\r\n\
             <dialog id=\"7\" call-id=\"x&quot;&gt;&lt;state&gt;\" local-tag=\"1\" \
             direction=\"recipient\">\r\n<state>early</state>\r\n\
             <local><identity>sip:bob@example.com</identity>\
             <target uri=\"sip:bob@example.com\"/></local>\r\n\
             <remote><identity>sip:a&amp;b@example.com</identity>\
             <target uri=\"sip:a???@example.com\"/></remote>\r\n</dialog>\r\n\
             <dialog id=\"5\">\r\n<state>terminated</state>\r\n</dialog>\r\n</dialog-info>\r\n"
        );
    }

    #[test]
    fn parties_and_dialogs_are_told_only_with_the_right_to_them() {
        let text = text(false);
        assert!(text.contains("<dialog id=\"7\" direction=\"recipient\">"), "{text}");
        assert!(!text.contains("remote") && !text.contains("call-id"), "{text}");
    }
}
