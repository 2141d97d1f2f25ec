//! Parts of received messages, as scenario files name them.

use std::net::{IpAddr, SocketAddr};

/// The compact forms of header field names (RFC 3261 section 7.3.3).
const COMPACT: [(&str, &str); 10] = [
    ("call-id", "i"),
    ("contact", "m"),
    ("content-encoding", "e"),
    ("content-length", "l"),
    ("content-type", "c"),
    ("from", "f"),
    ("subject", "s"),
    ("supported", "k"),
    ("to", "t"),
    ("via", "v"),
];

/// Returns the first line.
pub(super) fn first_line(message: &[u8]) -> &[u8] {
    lines(message).next().unwrap_or_default()
}

/// Yields the lines, each without its end.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest.take()?;
        let line = match memchr::memchr(b'\n', text) {
            Some(end) => {
                rest = Some(&text[end + 1..]);
                &text[..end]
            }
            None => text,
        };
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    })
}

/// Splits a message into its header, without the empty line, and its body.
pub(super) fn split(message: &[u8]) -> (&[u8], &[u8]) {
    let end = memchr::memmem::find(message, b"\r\n\r\n");
    end.map_or((message, &[]), |end| (&message[..end], &message[end + 4..]))
}

/// Yields the value of each header field of this name.
pub(super) fn values<'a>(message: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let short = COMPACT.iter().find(|(long, _)| name.eq_ignore_ascii_case(long));
    let short = short.map(|(_, short)| short.as_bytes());
    lines(split(message).0).skip(1).filter_map(move |line| {
        [Some(name.as_bytes()), short].into_iter().flatten().find_map(|name| {
            let (named, rest) = line.split_at_checked(name.len())?;
            let is_it = named.eq_ignore_ascii_case(name);
            let value = is_it.then(|| rest.trim_ascii_start().strip_prefix(b":"))?;
            value.map(<[u8]>::trim_ascii)
        })
    })
}

/// Returns the value of the first header field of this name.
pub(super) fn value<'a>(message: &'a [u8], name: &'a str) -> Option<&'a [u8]> {
    values(message, name).next()
}

/// Returns the status of a response, or `None` for a request.
pub(super) fn status(message: &[u8]) -> Option<u16> {
    let rest = message.strip_prefix(b"SIP/2.0 ")?;
    std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok()
}

/// Returns the method of a request.
pub(super) fn method(message: &[u8]) -> &[u8] {
    first_line(message).split(|&octet| octet == b' ').next().unwrap_or_default()
}

/// Returns number and method of the CSeq.
pub(super) fn cseq(message: &[u8]) -> Option<(u32, &[u8])> {
    let value = value(message, "CSeq")?;
    let mut words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let number = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    Some((number, words.next()?))
}

/// Returns the Call-ID without the text that ends with `///`.
pub(super) fn call_id(message: &[u8]) -> Option<&[u8]> {
    let value = value(message, "Call-ID")?;
    let prefix = value.windows(3).position(|octets| octets == b"///");
    Some(prefix.map_or(value, |at| &value[at + 3..]))
}

/// Returns the branch of the topmost Via.
pub(super) fn branch(message: &[u8]) -> Option<&[u8]> {
    let via = value(message, "Via")?.split(|&octet| octet == b',').next()?;
    parameter(via, b"branch")
}

/// Returns the value of the parameter `name` after the URI of a header field.
pub(super) fn parameter<'a>(value: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let after = value.iter().rposition(|&octet| octet == b'>').map_or(0, |end| end + 1);
    value[after..].split(|&octet| octet == b';').skip(1).find_map(|parameter| {
        let (known, value) = parameter.split_at_checked(name.len())?;
        let value = value.trim_ascii().strip_prefix(b"=")?;
        known.trim_ascii().eq_ignore_ascii_case(name).then(|| value.trim_ascii())
    })
}

/// Returns the URI of a header field with an address: inside of `<>`, or before the parameters.
pub(super) fn address(value: &[u8]) -> &[u8] {
    let open = value.iter().position(|&octet| octet == b'<');
    let close = value.iter().rposition(|&octet| octet == b'>');
    match (open, close) {
        (Some(open), Some(close)) if open < close => &value[open + 1..close],
        _ => value.split(|&octet| octet == b';').next().unwrap_or_default().trim_ascii(),
    }
}

/// Returns the address of the first stream of a session description with `media`, `audio` or
/// `video`.
pub(super) fn media(body: &[u8], media: &str) -> Option<SocketAddr> {
    let (mut address, mut port) = (None, None);
    for line in lines(body) {
        let line = std::str::from_utf8(line).ok()?;
        if let Some(rest) = line.strip_prefix("m=") {
            if port.is_some() {
                break;
            }
            let rest = rest.strip_prefix(media).and_then(|rest| rest.strip_prefix(' '));
            let number = rest.map(|rest| rest.split([' ', '/']).next().unwrap_or_default());
            port = number.and_then(|number| number.parse::<u16>().ok());
        } else if let Some(rest) = line.strip_prefix("c=") {
            let found = rest.split(' ').nth(2).and_then(|text| text.parse::<IpAddr>().ok());
            // That of the stream is preferred, that of another stream is not for this one.
            if port.is_some() || address.is_none() {
                address = found;
            }
        }
    }
    Some(SocketAddr::new(address?, port.filter(|&port| port > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVITE: &[u8] = b"INVITE sip:a@b SIP/2.0\r\nv: SIP/2.0/UDP h;branch=z9hG4bK1, x\r\n\
        To: <sip:a@b;tag=no>;tag=7\r\nCall-ID: pre///1-2@h\r\nCSeq: 4  INVITE\r\n\
        Record-Route: <sip:1>\r\nRecord-Route: <sip:2>\r\n\r\nbody";

    #[test]
    fn parts_of_messages_are_found() {
        assert_eq!((status(INVITE), method(INVITE)), (None, &b"INVITE"[..]));
        assert_eq!(status(b"SIP/2.0 180 Ringing\r\n"), Some(180));
        assert_eq!(branch(INVITE), Some(&b"z9hG4bK1"[..]));
        assert_eq!(call_id(INVITE), Some(&b"1-2@h"[..]));
        assert_eq!(cseq(INVITE), Some((4, &b"INVITE"[..])));
        assert_eq!(parameter(value(INVITE, "to").unwrap(), b"tag"), Some(&b"7"[..]));
        assert_eq!(values(INVITE, "Record-Route").count(), 2);
        assert_eq!(split(INVITE).1, b"body");
        assert_eq!(address(b"\"x\" <sip:a@b;lr>;q=1"), b"sip:a@b;lr");
        assert_eq!(address(b"sip:a@b;q=1"), b"sip:a@b");
    }

    #[test]
    fn streams_have_the_address_of_their_own_line() {
        let text = b"v=0\r\nc=IN IP4 1.1.1.1\r\nm=video 6 RTP/AVP 9\r\nc=IN IP4 3.3.3.3\r\n\
            m=audio 8 RTP/AVP 0\r\nc=IN IP4 2.2.2.2\r\n";
        assert_eq!(media(text, "audio"), "2.2.2.2:8".parse().ok());
        assert_eq!(media(text, "video"), "3.3.3.3:6".parse().ok());
        assert_eq!(media(b"c=IN IP4 1.1.1.1\r\nm=audio 0 RTP/AVP 0\r\n", "audio"), None);
        assert_eq!(media(b"", "audio"), None);
    }
}
