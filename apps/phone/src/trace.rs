//! The last SIP messages, without their secrets.

use sip::Flow;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::SystemTime;

/// Maximum number of messages, and of their octets.
const MAX_MESSAGES: usize = 500;
const MAX_OCTETS: usize = 1 << 20;
/// The replacement for a secret.
const HIDDEN: &[u8] = b"...";

/// A message that was sent or received.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    /// Counted from 1, and continued when old messages are dropped.
    pub(crate) number: u64,
    pub(crate) at: SystemTime,
    pub(crate) sent: bool,
    pub(crate) flow: Flow,
    /// The message with its secrets replaced by `...`. Content-Length is that of the original.
    pub(crate) bytes: Vec<u8>,
}

/// The last messages.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    messages: VecDeque<Traced>,
    octets: usize,
    count: u64,
}

impl Trace {
    /// Keeps a message. A keep-alive of line ends alone is skipped.
    pub(crate) fn note(&mut self, sent: bool, flow: Flow, message: &[u8]) {
        if message.trim_ascii().is_empty() {
            return;
        }
        let bytes = without_secrets(message);
        self.count += 1;
        self.octets += bytes.len();
        let at = SystemTime::now();
        self.messages.push_back(Traced { number: self.count, at, sent, flow, bytes });
        while self.messages.len() > MAX_MESSAGES || self.octets > MAX_OCTETS {
            let Some(dropped) = self.messages.pop_front() else { return };
            self.octets -= dropped.bytes.len();
        }
    }

    /// The messages, the oldest first.
    pub(crate) const fn messages(&self) -> &VecDeque<Traced> {
        &self.messages
    }
}

/// `message` without secrets: digest responses and other credentials, keys of SDES (RFC 4568),
/// MIKEY (RFC 4567) and `k=`. Malformed parts are hidden.
pub(crate) fn without_secrets(message: &[u8]) -> Vec<u8> {
    let (head, body) = message.split_at(end_of_head(message));
    let mut hidden = Vec::with_capacity(message.len());
    for field in fields(head) {
        let name = field.split(|byte| *byte == b':').next().unwrap_or_default().trim_ascii_end();
        let has_credentials = name.eq_ignore_ascii_case(b"authorization")
            || name.eq_ignore_ascii_case(b"proxy-authorization");
        match has_credentials {
            true => hide_credentials(field, &mut hidden),
            false => hidden.extend_from_slice(field),
        }
    }
    for line in body.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
        let key = [&b"k="[..], b"a=key-mgmt:"].into_iter().find(|start| {
            line.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
        });
        match key {
            Some(start) => {
                hidden.extend([start, HIDDEN].concat());
                hidden.extend(line.iter().filter(|byte| matches!(byte, b'\r' | b'\n')));
            }
            None => hidden.extend_from_slice(line),
        }
    }
    hide_after(&hidden, b"inline:", |rest| 0..end_of(rest, 0, b"|; \t\r\n"))
}

/// The offset of the body.
fn end_of_head(message: &[u8]) -> usize {
    let ends = [&b"\r\n\r\n"[..], b"\n\n", b"\r\r"].map(|end| {
        let at = message.windows(end.len()).position(|window| window == end);
        at.map(|at| at + end.len())
    });
    ends.into_iter().flatten().min().unwrap_or(message.len())
}

/// The header fields, each with its continuation lines and its line end.
fn fields(head: &[u8]) -> Vec<&[u8]> {
    let mut fields = Vec::new();
    let mut begin = 0;
    for at in 1..=head.len() {
        let is_line = matches!(head[at - 1], b'\r' | b'\n');
        let goes_on = head.get(at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n'));
        if at == head.len() || (is_line && !goes_on) {
            fields.push(&head[begin..at]);
            begin = at;
        }
    }
    fields
}

fn hide_credentials(field: &[u8], out: &mut Vec<u8>) {
    let (field, line_end) = field.split_at(field.trim_ascii_end().len());
    let value = field.iter().position(|byte| *byte == b':').map_or(field.len(), |colon| colon + 1);
    let blanks = field[value..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let scheme = value + blanks;
    let end = field[scheme..].iter().position(u8::is_ascii_whitespace);
    let end = end.map_or(field.len(), |end| scheme + end);
    if field[scheme..end].eq_ignore_ascii_case(b"digest") {
        out.extend(hide_after(field, b"response", |rest| {
            let begin = rest.iter().take_while(|byte| b" \t\r\n=".contains(byte)).count();
            if !rest[..begin].contains(&b'=') {
                return 0..0;
            }
            let (begin, ends) = match rest[begin..].starts_with(b"\"") {
                true => (begin + 1, &b"\""[..]),
                false => (begin, &b", \t\r\n"[..]),
            };
            begin..end_of(rest, begin, ends)
        }));
    } else {
        out.extend([&field[..end], b" ", HIDDEN].concat());
    }
    out.extend_from_slice(line_end);
}

/// The offset of the first of `ends` from `begin` on.
fn end_of(bytes: &[u8], begin: usize, ends: &[u8]) -> usize {
    let length = bytes[begin..].iter().position(|byte| ends.contains(byte));
    length.map_or(bytes.len(), |length| begin + length)
}

/// `bytes` with [`HIDDEN`] in place of the range that `secret` returns, after each `marker`.
fn hide_after(bytes: &[u8], marker: &[u8], secret: impl Fn(&[u8]) -> Range<usize>) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(&first) = rest.first() {
        let found = rest.split_at_checked(marker.len());
        let Some((found, after)) = found.filter(|(found, _)| found.eq_ignore_ascii_case(marker))
        else {
            out.push(first);
            rest = &rest[1..];
            continue;
        };
        let secret = secret(after);
        out.extend([found, &after[..secret.start]].concat());
        if !secret.is_empty() {
            out.extend_from_slice(HIDDEN);
        }
        rest = &after[secret.end..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Transport;

    fn hidden(message: &str) -> String {
        String::from_utf8(without_secrets(message.as_bytes())).unwrap()
    }

    #[test]
    fn credentials_are_hidden_however_they_are_written() {
        for (field, shown) in [
            (
                "Authorization: Digest username=\"a\", response=\"5ec2e7\", nc=00000001",
                "Authorization: Digest username=\"a\", response=\"...\", nc=00000001",
            ),
            (
                "proxy-authorization : DIGEST RESPONSE = 5ec2e7,nc=1",
                "proxy-authorization : DIGEST RESPONSE = ...,nc=1",
            ),
            (
                "Authorization:\r\n Digest a=b,\r\n\tresponse\r\n =\r\n \"5ec2e7\"",
                "Authorization:\r\n Digest a=b,\r\n\tresponse\r\n =\r\n \"...\"",
            ),
            ("Authorization: Digest response=\"5ec2e7", "Authorization: Digest response=\"..."),
            ("Authorization: Basic 5ec2e7", "Authorization: Basic ..."),
            ("Authorization: Bearer x,\r\n 5ec2e7", "Authorization: Bearer ..."),
            ("Authorization:", "Authorization: ..."),
        ] {
            let message =
                format!("REGISTER sip:a SIP/2.0\r\n{field}\r\nTo: response=\"1\"\r\n\r\n");
            let message = hidden(&message);
            assert_eq!(
                message,
                format!("REGISTER sip:a SIP/2.0\r\n{shown}\r\nTo: response=\"1\"\r\n\r\n"),
            );
        }
    }

    #[test]
    fn keys_are_hidden_and_the_rest_stays() {
        let shown = hidden(
            "INVITE sip:a SIP/2.0\r\n\r\nv=0\r\nk=base64:5ec2e7\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:5ec2e7|2^31|1:1;INLINE:5ec2e7 KDR=1\r\na=key-mgmt:mikey 5ec2e7\na=rtpmap:0 PCMU/8000\r\n",
        );
        assert_eq!(
            shown,
            "INVITE sip:a SIP/2.0\r\n\r\nv=0\r\nk=...\r\na=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:...|2^31|1:1;INLINE:... KDR=1\r\na=key-mgmt:...\na=rtpmap:0 PCMU/8000\r\n"
        );
        // The offset of the body is unknown.
        assert!(!hidden("INVITE\r\na=crypto:1 X inline:5ec2e7").contains("5ec2e7"));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        for text in ["response", "authorization: digest response=", "inline:", ":", "\r\n\r\n", ""]
        {
            for end in 0..=text.len() {
                without_secrets(&text.as_bytes()[..end]);
                without_secrets(format!("{text}\n\n{}", &text[end..]).as_bytes());
            }
        }
    }

    #[test]
    fn the_trace_has_bounds_and_its_numbers_go_on() {
        let address = "127.0.0.1:5060".parse().unwrap();
        let flow =
            Flow { transport: Transport::Udp, local: address, remote: address, connection: None };
        let mut trace = Trace::default();
        trace.note(true, flow, b"\r\n\r\n");
        for _ in 0..=MAX_MESSAGES {
            trace.note(true, flow, b"a");
        }
        assert_eq!(trace.messages().len(), MAX_MESSAGES);
        assert_eq!(trace.messages()[0].number, 2);
        for _ in 0..3 {
            trace.note(false, flow, &vec![b'a'; MAX_OCTETS / 2]);
        }
        let octets: usize = trace.messages().iter().map(|traced| traced.bytes.len()).sum();
        assert_eq!((octets, trace.messages().len()), (MAX_OCTETS, 2));
    }
}
