//! The header fields that pass from one leg to the other (RFC 7092 section 3.1.3). Those of the
//! dialog, of the transaction and of the body are written anew, and those that show the topology
//! are left out. All others pass unchanged, as do unknown ones.

use alloc::vec::Vec;
use sip::header::{NameAddr, tokens};
use sip::message::Field;
use sip::{Encode, HeaderName, Message};
use sip_ua::{Envelope, LOST_REASON};

/// The header fields that belong to one leg.
const OF_LEG: [HeaderName; 29] = [
    HeaderName::Via,
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::CSeq,
    HeaderName::MaxForwards,
    HeaderName::Contact,
    HeaderName::ContentLength,
    HeaderName::ContentType,
    HeaderName::ContentEncoding,
    HeaderName::Route,
    HeaderName::RecordRoute,
    HeaderName::Path,
    HeaderName::ServiceRoute,
    HeaderName::Require,
    HeaderName::ProxyRequire,
    HeaderName::Supported,
    HeaderName::Unsupported,
    HeaderName::Allow,
    HeaderName::UserAgent,
    HeaderName::Server,
    HeaderName::Timestamp,
    HeaderName::RSeq,
    HeaderName::RAck,
    HeaderName::SessionExpires,
    HeaderName::MinSe,
    HeaderName::ReferTo,
    HeaderName::Event,
    HeaderName::Replaces,
];

/// Those without a [`HeaderName`], in lower case.
const OTHERS_OF_LEG: [&[u8]; 9] = [
    b"content-language",
    b"mime-version",
    b"content-disposition",
    b"content-id",
    b"allow-events",
    b"target-dialog",
    b"security-client",
    b"security-server",
    b"security-verify",
];

/// The header fields that describe a body, besides Content-Type and Content-Length, in lower case.
const OF_BODY: [&[u8]; 5] = [
    b"mime-version",
    b"content-disposition",
    b"content-id",
    b"content-encoding",
    b"content-language",
];

/// Returns the lines that describe the body of `message`, besides Content-Type and Content-Length.
pub(crate) fn of_body(message: &Message<'_>) -> Vec<u8> {
    let mut lines = Vec::new();
    for field in message.fields() {
        let name = match field.name {
            HeaderName::ContentEncoding => &b"content-encoding"[..],
            _ => field.raw_name(),
        };
        if OF_BODY.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            lines.extend_from_slice(field.line);
        }
    }
    lines
}

/// Returns the body of `message` around its session description, if it is not too long.
///
/// # Errors
/// It is longer than `limit`.
pub(crate) fn envelope(message: &Message<'_>, limit: usize) -> Result<Option<Envelope>, TooLong> {
    let envelope = Envelope::of(message);
    if envelope.as_ref().is_some_and(|envelope| envelope.length() > limit) {
        return Err(TooLong);
    }
    Ok(envelope.map(|envelope| Envelope { lines: of_body(message), ..envelope }))
}

/// A body that is longer than the limit.
#[derive(Debug)]
pub(crate) struct TooLong;

/// Returns the lines of `message` that pass to the other leg. A line with a malformed name does
/// not.
pub(crate) fn passed(message: &Message<'_>) -> Vec<u8> {
    passed_unless(message, |_| false)
}

/// Like [`passed`], without the lines that `stays` is true for.
fn passed_unless(message: &Message<'_>, stays: impl Fn(&Field<'_>) -> bool) -> Vec<u8> {
    let mut lines = Vec::new();
    for field in message.fields() {
        let is_of_leg = match field.name {
            HeaderName::Other => is_one_of(&field, &OTHERS_OF_LEG),
            name => OF_LEG.contains(&name),
        };
        if !is_of_leg && !stays(&field) && has_name(&field) {
            lines.extend_from_slice(field.line);
        }
    }
    lines
}

/// Returns the credentials of `message`, which answer a challenge of the other party.
pub(crate) fn credentials(message: &Message<'_>) -> Vec<u8> {
    let names = [HeaderName::Authorization, HeaderName::ProxyAuthorization];
    message.fields_of(&names).flat_map(|field| field.line).copied().collect()
}

/// The header fields of a caller that do not pass to a trunk: those that name the caller or other
/// parties, those that this server trusts its phones with, and credentials.
const NOT_FOR_TRUNKS: [HeaderName; 13] = [
    HeaderName::PAssertedIdentity,
    HeaderName::PPreferredIdentity,
    HeaderName::RemotePartyId,
    HeaderName::Privacy,
    HeaderName::Diversion,
    HeaderName::HistoryInfo,
    HeaderName::ReferredBy,
    HeaderName::AlertInfo,
    HeaderName::CallInfo,
    HeaderName::AnswerMode,
    HeaderName::PrivAnswerMode,
    HeaderName::Authorization,
    HeaderName::ProxyAuthorization,
];

/// Those without a [`HeaderName`], in lower case.
const OTHERS_NOT_FOR_TRUNKS: [&[u8]; 4] = [b"organization", b"reply-to", b"identity", b"y"];

/// Like [`passed`], for a call to a trunk.
pub(crate) fn passed_to_trunk(message: &Message<'_>) -> Vec<u8> {
    passed_unless(message, |field| match field.name {
        HeaderName::Other => is_one_of(field, &OTHERS_NOT_FOR_TRUNKS),
        name => NOT_FOR_TRUNKS.contains(&name),
    })
}

/// Returns true if the name of `field` is one of `names`, which are in lower case.
fn is_one_of(field: &Field<'_>, names: &[&[u8]]) -> bool {
    names.iter().any(|name| field.raw_name().eq_ignore_ascii_case(name))
}

/// Returns true if the name of `field` is a token up to the colon (RFC 3261 section 7.3.1).
fn has_name(field: &Field<'_>) -> bool {
    let rest = &field.line[field.raw_name().len()..];
    !field.raw_name().is_empty() && rest.trim_ascii_start().starts_with(b":")
}

/// Like [`passed`], for the rejection of a call: the targets of a redirection pass, too.
pub(crate) fn passed_in_refusal(response: &Message<'_>) -> Vec<u8> {
    let mut lines = passed(response);
    if response.status().is_some_and(|status| (300..400).contains(&status)) {
        for contact in response.fields_of(&[HeaderName::Contact]) {
            lines.extend_from_slice(contact.line);
        }
    }
    lines
}

/// Returns the line of a Reason.
pub(crate) fn reason_line(reason: &str) -> Vec<u8> {
    [b"Reason: ", reason.as_bytes(), b"\r\n"].concat()
}

/// The Reason of the end of a call that has used up the minutes of the day. The records of the
/// proxy know it and the next one.
pub const NO_MINUTES_REASON: &str = "SIP;cause=403;text=\"No Minutes Left Today\"";

/// The Reason of the end of a call that has lasted for as long as a limit allows.
pub const TOO_LONG_REASON: &str = "SIP;cause=403;text=\"Maximum Duration Reached\"";

/// The Reasons that only the B2BUA itself gives: the proxy knows by them the party that has ended a
/// call.
const OF_B2BUA: [&str; 3] = [LOST_REASON, NO_MINUTES_REASON, TOO_LONG_REASON];

/// Returns the Reason lines of `message`, or one with `status` as the cause (RFC 3326). Those of
/// the B2BUA are left out, such as that of the check of calls: it says that the receiver of the BYE
/// is gone.
pub(crate) fn reason(message: &Message<'_>, status: Option<u16>) -> Vec<u8> {
    let mut lines = Vec::new();
    for field in message.fields_of(&[HeaderName::Reason]) {
        if !OF_B2BUA.iter().any(|reason| field.value == reason.as_bytes()) {
            lines.extend_from_slice(field.line);
        }
    }
    if let Some(status) = status.filter(|_| lines.is_empty()) {
        ("Reason: SIP;cause=", status, "\r\n").encode(&mut lines);
    }
    lines
}

/// Returns the address in From or To without its parameters. `None` if it is malformed.
pub(crate) fn address(message: &Message<'_>, name: HeaderName) -> Option<Vec<u8>> {
    let address = NameAddr::parse(name, message.value(name)?).ok()?;
    let mut out = Vec::new();
    let display = address.display_name;
    ((!display.is_empty()).then_some((display, " ")), "<", address.uri_bytes, ">").encode(&mut out);
    Some(out)
}

/// Returns the values of Route. `None` if one is malformed: as the first one it may become the
/// request URI.
pub(crate) fn routes(message: &Message<'_>) -> Option<Vec<Vec<u8>>> {
    let routes = message.elements(HeaderName::Route);
    let routes = routes.map(|route| {
        let address = NameAddr::parse(HeaderName::Route, route).ok()?;
        address.uri().is_ok().then(|| route.to_vec())
    });
    routes.collect()
}

/// Returns true if Supported or Require of `message` contains `tag`.
pub(crate) fn supports(message: &Message<'_>, tag: &str) -> bool {
    [HeaderName::Supported, HeaderName::Require].into_iter().any(|name| has(message, name, tag))
}

/// Returns true if the header field `name` of `message` contains `tag`.
pub(crate) fn has(message: &Message<'_>, name: HeaderName, tag: &str) -> bool {
    message.values(name).flat_map(tokens).any(|token| token.eq_ignore_ascii_case(tag.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn fields_of_the_leg_stay_and_unknown_ones_pass() {
        let invite =
            b"INVITE sip:bob@example.com SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\n\
            f: \"A, B\" <sip:alice@example.com;a=b>;tag=1\r\nTo: sip:bob@example.com;x=y\r\n\
            i: 1\r\nCSeq: 1 INVITE\r\nm: <sip:alice@10.0.0.1>\r\nSubject: a\r\n b\r\n\
            X-Account: 7\r\nAllow-Events: refer\r\nRoute: <sip:pass@h;lr>\r\nSupported: 100REL\r\n\
            Alert-Info: <urn:x>\r\nk: timer\r\nX{y: 1\r\nRetry-After: 7\r\n\r\n";
        let message = Message::parse(invite).expect("a message");
        let lines = String::from_utf8(passed(&message)).expect("text");
        let expected =
            "Subject: a\r\n b\r\nX-Account: 7\r\nAlert-Info: <urn:x>\r\nRetry-After: 7\r\n";
        assert_eq!(lines, expected);
        let of = |name| String::from_utf8(address(&message, name).expect("it is there"));
        assert_eq!(of(HeaderName::From).as_deref(), Ok("\"A, B\" <sip:alice@example.com;a=b>"));
        assert_eq!(of(HeaderName::To).as_deref(), Ok("<sip:bob@example.com>"));
        assert!(supports(&message, "100rel") && supports(&message, "timer"));
        assert!(!supports(&message, "199"));
    }

    #[test]
    fn a_redirection_keeps_its_targets() {
        let response = b"SIP/2.0 302 Moved\r\nVia: SIP/2.0/TCP h;branch=z9hG4bK1\r\n\
            Contact: <sip:a@b>\r\nWarning: 399 h \"x\"\r\nReason: Q.850;cause=16\r\n\r\n";
        let message = Message::parse(response).expect("a message");
        let lines = String::from_utf8(passed_in_refusal(&message)).expect("text");
        assert_eq!(
            lines,
            "Warning: 399 h \"x\"\r\nReason: Q.850;cause=16\r\nContact: <sip:a@b>\r\n"
        );
        assert_eq!(reason(&message, Some(302)), b"Reason: Q.850;cause=16\r\n");
        let plain = Message::parse(b"BYE sip:a@b SIP/2.0\r\n\r\n").expect("a message");
        assert_eq!(reason(&plain, Some(486)), b"Reason: SIP;cause=486\r\n");
        assert_eq!(reason(&plain, None), b"");
        for own in OF_B2BUA {
            let bye = ["BYE sip:a@b SIP/2.0\r\nReason: ", own, "\r\n\r\n"].concat();
            let message = Message::parse(bye.as_bytes()).expect("a message");
            assert_eq!(reason(&message, None), b"", "{own}");
        }
        let lost = ["BYE sip:a@b SIP/2.0\r\nReason: ", LOST_REASON, "\r\n\r\n"].concat();
        assert_eq!(reason(&Message::parse(lost.as_bytes()).expect("a message"), None), b"");
    }
}
