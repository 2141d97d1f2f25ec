//! Messages that end a failed call, and responses without a step of the scenario.

use super::message;

/// Returns the response to a request with its header fields.
pub(super) fn response(request: &[u8], status: &str) -> Vec<u8> {
    let mut out = format!("SIP/2.0 {status}\r\n").into_bytes();
    copy(request, &["Via", "From", "To", "Call-ID", "CSeq"], &mut out);
    out.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    out
}

/// Returns the request `method` in the dialog or the transaction of `invite`, which this side sent.
/// ACK of a 2xx and BYE go to the Contact of `response`, with a branch of their own.
pub(super) fn request(
    method: &str,
    invite: &[u8],
    response: &[u8],
    target: Option<&[u8]>,
    branch: &str,
) -> Vec<u8> {
    let uri = message::first_line(invite).split(|&octet| octet == b' ').nth(1).unwrap_or_default();
    let (number, _) = message::cseq(invite).unwrap_or((1, b""));
    let mut out = format!("{method} ").into_bytes();
    out.extend_from_slice(target.unwrap_or(uri));
    out.extend_from_slice(b" SIP/2.0\r\n");
    let via = message::value(invite, "Via").unwrap_or_default();
    out.extend_from_slice(b"Via: ");
    match message::branch(invite).filter(|_| target.is_some()) {
        Some(old) => {
            let start = via.windows(old.len()).position(|part| part == old).unwrap_or_default();
            out.extend_from_slice(&via[..start]);
            out.extend_from_slice(branch.as_bytes());
            out.extend_from_slice(&via[start + old.len()..]);
        }
        None => out.extend_from_slice(via),
    }
    out.extend_from_slice(b"\r\n");
    copy(invite, &["From", "Max-Forwards"], &mut out);
    // A CANCEL has the To of the INVITE, all others that of the response.
    copy(if method == "CANCEL" { invite } else { response }, &["To"], &mut out);
    copy(invite, &["Call-ID"], &mut out);
    let number = number + u32::from(method == "BYE");
    out.extend_from_slice(
        format!("CSeq: {number} {method}\r\nContent-Length: 0\r\n\r\n").as_bytes(),
    );
    out
}

fn copy(from: &[u8], names: &[&str], out: &mut Vec<u8>) {
    for name in names {
        for value in message::values(from, name) {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVITE: &[u8] =
        b"INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h:1;branch=z9hG4bK1;rport\r\n\
        From: <sip:f>;tag=1\r\nTo: <sip:t>\r\nCall-ID: i\r\nCSeq: 3 INVITE\r\n\r\n";
    const OK: &[u8] = b"SIP/2.0 200 OK\r\nTo: <sip:t>;tag=2\r\n\r\n";

    #[test]
    fn a_failed_call_is_ended() {
        let cancel = String::from_utf8(request("CANCEL", INVITE, OK, None, "new")).unwrap();
        assert!(
            cancel.starts_with("CANCEL sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h:1;branch=z9hG4bK1;")
        );
        assert!(cancel.contains("To: <sip:t>\r\n") && cancel.contains("CSeq: 3 CANCEL\r\n"));
        let bye = String::from_utf8(request("BYE", INVITE, OK, Some(b"sip:c"), "new")).unwrap();
        assert!(bye.starts_with("BYE sip:c SIP/2.0\r\nVia: SIP/2.0/UDP h:1;branch=new;rport\r\n"));
        assert!(bye.contains("To: <sip:t>;tag=2\r\n") && bye.contains("CSeq: 4 BYE\r\n"));
        let answer = String::from_utf8(response(INVITE, "200 OK")).unwrap();
        assert!(answer.starts_with("SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP h:1"));
        assert!(answer.contains("CSeq: 3 INVITE\r\n"));
    }
}
