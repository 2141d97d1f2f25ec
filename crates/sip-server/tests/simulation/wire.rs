//! Parsing and serialization of messages for the phones.

use sip::dialog::DialogId;
use sip::message::{Response, reason_phrase};
use sip::transaction::client_key;
use sip::{HeaderName, Message, Method};

/// `bytes` of a message as text. The phones use only ASCII.
pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the messages here are ASCII")
}

/// The value of a header field.
pub(crate) fn value<'m>(message: &Message<'m>, name: HeaderName) -> &'m str {
    text(message.value(name).unwrap_or_else(|| panic!("{name} is missing")))
}

/// The dialog that a message belongs to.
pub(crate) fn dialog_id<'m>(message: &Message<'m>) -> DialogId<'m> {
    DialogId::of(message).expect("a message with Call-ID, From and To")
}

/// The key of the transaction of a message: branch and method. For an ACK and a CANCEL with
/// `of_invite` it is the key of the INVITE.
pub(crate) fn key(message: &Message<'_>, of_invite: bool) -> String {
    let (branch, method) = client_key(message).expect("a branch and a CSeq");
    let method = if of_invite { Method::Invite } else { method };
    format!("{} {method}", text(branch))
}

/// A response to `request`, which came from the server, with the To tag `tag` and further `lines`.
pub(crate) fn response(request: &[u8], status: u16, tag: &str, lines: &str) -> Vec<u8> {
    let request = Message::parse(request).expect("a request that was read before");
    let mut out = Vec::new();
    let response = Response {
        request: &request,
        source: crate::world::SERVER.into(),
        status,
        reason: reason_phrase(status),
        to_tag: Some(tag.as_bytes()),
    };
    response.write(&mut out, |out| {
        if status < 300 {
            request.write_record_routes(out);
        }
        out.extend_from_slice(lines.as_bytes());
    });
    out
}
