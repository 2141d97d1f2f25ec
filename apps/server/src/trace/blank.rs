//! The removal of secrets from messages. Lengths stay, so that Content-Length holds. A message is
//! read by lines, so that a malformed one, or the beginning of one, is blanked, too.

/// The character in place of each one of a secret.
const BLANK: u8 = b'x';

/// The header fields with credentials.
const CREDENTIALS: [&[u8]; 2] = [b"authorization", b"proxy-authorization"];

/// The header fields with proofs made of a password, without a scheme (RFC 7615).
const PROOFS: [&[u8]; 2] = [b"authentication-info", b"proxy-authentication-info"];

/// The parameters of credentials that are no secrets (RFC 7616). All others are blanked.
const OPEN: [&[u8]; 11] = [
    b"username",
    b"username*",
    b"realm",
    b"uri",
    b"nonce",
    b"algorithm",
    b"qop",
    b"nc",
    b"opaque",
    b"nextnonce",
    b"userhash",
];

/// The header field with a token about the caller, and its compact form (RFC 8224).
const IDENTITY: [&[u8]; 2] = [b"identity", b"y"];

/// The header field of the type of the body, and its compact form.
const CONTENT_TYPE: [&[u8]; 2] = [b"content-type", b"c"];

/// The beginnings of lines of session descriptions with keys (RFC 4568, RFC 4566 section 5.12, RFC
/// 4567) or with the password of ICE (RFC 8839).
const KEY_LINES: [&[u8]; 4] = [b"a=crypto:", b"k=", b"a=key-mgmt:", b"a=ice-pwd:"];

/// The beginning of the type of a body with digits, such as those of a PIN.
const DIGITS: &[u8] = b"application/dtmf";

/// `message` with blanks in place of secrets: credentials but for their open parameters, passwords
/// in SIP URIs, tokens about the caller, digits, keys of media and passwords of ICE.
pub(super) fn blanked(message: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    let mut rest = &mut bytes[..];
    let mut has_digits = false;
    // The first line has a URI.
    let (line, after) = split_line(rest);
    blank_uris(line);
    rest = after;
    while !rest.is_empty() {
        let length = field_length(rest);
        let (field, after) = rest.split_at_mut(length);
        rest = after;
        if matches!(*field, [b'\n'] | [b'\r', b'\n']) {
            break;
        }
        has_digits |= blank_field(field);
    }
    match has_digits {
        true => blank(rest),
        false => rest.split_mut(|byte| matches!(byte, b'\r' | b'\n')).for_each(blank_body_line),
    }
    bytes
}

/// The first line of `text` with its end, and the rest.
fn split_line(text: &mut [u8]) -> (&mut [u8], &mut [u8]) {
    let end = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1);
    text.split_at_mut(end)
}

/// The length of the first header field of `text`, with its continuation lines.
fn field_length(text: &[u8]) -> usize {
    let ends = text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let mut ends = ends.peekable();
    // An empty line ends the fields, whatever follows it.
    if matches!(text, [b'\n', ..] | [b'\r', b'\n', ..]) {
        return ends.next().unwrap_or(text.len());
    }
    ends.find(|end| !matches!(text.get(*end), Some(b' ' | b'\t'))).unwrap_or(text.len())
}

/// Blanks the secrets of a header field. Returns true if the body has digits.
fn blank_field(field: &mut [u8]) -> bool {
    blank_uris(field);
    let Some(colon) = field.iter().position(|byte| *byte == b':') else {
        // It may be anything.
        blank(field);
        return false;
    };
    let (name, value) = field.split_at_mut(colon);
    let (name, value) = (name.trim_ascii(), &mut value[1..]);
    let is_one_of = |names: &[&[u8]]| names.iter().any(|it| name.eq_ignore_ascii_case(it));
    if is_one_of(&CREDENTIALS) {
        blank_credentials(value);
    } else if is_one_of(&PROOFS) {
        blank_parameters(value);
    } else if is_one_of(&IDENTITY) {
        let token = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
        blank(&mut value[..token]);
    } else if is_one_of(&CONTENT_TYPE) {
        let kind = value.trim_ascii();
        return kind.get(..DIGITS.len()).is_some_and(|it| it.eq_ignore_ascii_case(DIGITS));
    }
    false
}

/// Blanks all but the scheme, or all but the scheme and the [open](OPEN) parameters of Digest.
fn blank_credentials(value: &mut [u8]) {
    let start = value.len() - value.trim_ascii_start().len();
    let value = &mut value[start..];
    let end = value.trim_ascii_end().iter().position(u8::is_ascii_whitespace);
    let (scheme, parameters) = value.split_at_mut(end.unwrap_or(0));
    match scheme.eq_ignore_ascii_case(b"digest") {
        true => blank_parameters(parameters),
        false => blank(parameters),
    }
}

/// Blanks all parameters but the [open](OPEN) ones.
fn blank_parameters(mut rest: &mut [u8]) {
    while !rest.is_empty() {
        let (comma, is_whole) = parameter_end(rest);
        let (parameter, after) = rest.split_at_mut(comma);
        let equals = parameter.iter().position(|byte| *byte == b'=');
        let name = parameter[..equals.unwrap_or(0)].trim_ascii();
        // Without a second quotation mark the end of the parameter is unknown.
        if !(is_whole && OPEN.iter().any(|open| name.eq_ignore_ascii_case(open))) {
            blank(&mut parameter[equals.map_or(0, |equals| equals + 1)..]);
        }
        rest = after.split_first_mut().map_or(&mut [], |(_, after)| after);
    }
}

/// The place of the comma after the first parameter of `text`, or its length; and true if each
/// quotation mark has a second one.
fn parameter_end(text: &[u8]) -> (usize, bool) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b',' if !is_quoted => return (at, true),
            _ => {}
        }
    }
    (text.len(), !is_quoted)
}

/// Blanks the passwords of SIP URIs.
fn blank_uris(text: &mut [u8]) {
    for scheme in [&b"sip:"[..], b"sips:"] {
        let mut from = 0;
        let is_scheme = |it: &[u8]| it.eq_ignore_ascii_case(scheme);
        while let Some(at) = text[from..].windows(scheme.len()).position(is_scheme) {
            from += at + scheme.len();
            blank_password(&mut text[from..]);
        }
    }
}

/// Blanks the password of a URI without its scheme: from the first colon before the first `@`.
fn blank_password(uri: &mut [u8]) {
    let is_end = |byte: &u8| matches!(byte, b'<' | b'>' | b'"') || byte.is_ascii_whitespace();
    let end = uri.iter().position(is_end).unwrap_or(uri.len());
    let at = uri[..end].iter().position(|byte| *byte == b'@');
    // A message that was cut may have the beginning of a password.
    let Some(at) = at.or((end == uri.len()).then_some(end)) else { return };
    if let Some(colon) = uri[..at].iter().position(|byte| *byte == b':') {
        blank(&mut uri[colon + 1..at]);
    }
}

fn blank_body_line(line: &mut [u8]) {
    let begins =
        |start: &&&[u8]| line.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start));
    if let Some(start) = KEY_LINES.iter().find(begins) {
        // The tag and the suite of a crypto attribute are no secret.
        let inline = line.windows(7).position(|part| part.eq_ignore_ascii_case(b"inline:"));
        let from = inline.map_or(start.len(), |at| at + 7);
        blank(&mut line[from..]);
    }
}

fn blank(text: &mut [u8]) {
    text.iter_mut().filter(|byte| !byte.is_ascii_whitespace()).for_each(|byte| *byte = BLANK);
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Message;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(blanked(bytes)).unwrap()
    }

    #[test]
    fn credentials_and_keys_are_blanked_and_lengths_stay() {
        let head = "INVITE sip:b:SECRET@h SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
                    From: <sip:a@h>;tag=1\r\nTo: <SIPS:b:SECRET@h:5061>\r\nCall-ID: x\r\n\
                    CSeq: 1 INVITE\r\nContact: sip:h:5060;x=1,<sip:a;y=1:SECRET@h:1>\r\n\
                    aUTHORIZATION : Digest username=\"a,b\", realm=\"r\",\r\n response=\"SECRET\",\
                    nonce=\"n\" , Response = \"SECRET\", uri=\"sip:h\", more=SECRET,SECRET,\
                    cnonce=\"SECRET\r\n\
                    Proxy-Authorization: Basic SECRET\r\nAuthorization: SECRET\r\n\
                    Authentication-Info: nextnonce=\"n\", rspauth=\"SECRET\"\r\n\
                    y: SECRET.SECRET.SECRET;info=<https://h/c.pem>;alg=ES256\r\n";
        let body = "v=0\r\nk=clear:SECRET\r\na=ice-ufrag:u\r\na=ice-pwd:SECRET\r\n\
                    a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:SECRET|2^20 SECRET\n\
                    A=CRYPTO:2 SECRET\r\na=rtpmap:0 PCMU/8000\r\na=key-mgmt:mikey SECRET";
        let message = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let blanked = text(message.as_bytes());
        assert_eq!(blanked.len(), message.len());
        assert!(!blanked.contains("SECRET"), "{blanked}");
        for kept in [
            "INVITE sip:b:xxxxxx@h SIP/2.0\r\n",
            "To: <SIPS:b:xxxxxx@h:5061>",
            "Contact: sip:h:5060;x=1,<sip:a;y=1:xxxxxx@h:1>",
            "aUTHORIZATION : Digest username=\"a,b\", realm=\"r\",\r\n response=xxxxxxxx,nonce=\"n\"",
            "uri=\"sip:h\", more=xxxxxx,xxxxxx,cnonce=xxxxxxx\r\n",
            "Proxy-Authorization: Basic xxxxxx\r\n",
            "nextnonce=\"n\", rspauth=xxxxxxxx\r\n",
            ";info=<https://h/c.pem>;alg=ES256\r\n",
            "a=ice-ufrag:u\r\na=ice-pwd:xxxxxx\r\n",
            "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:xxxx",
            "a=rtpmap:0 PCMU/8000\r\n",
        ] {
            assert!(blanked.contains(kept), "{kept}: {blanked}");
        }
        // The beginning of a message is blanked, too.
        for end in 0..message.len() {
            let beginning = text(&message.as_bytes()[..end]);
            assert!(beginning.len() == end && !beginning.contains("SECRET"), "{beginning}");
        }
    }

    #[test]
    fn digits_are_blanked() {
        let message = "INFO sip:b@h SIP/2.0\r\nc: Application/DTMF-Relay\r\n\r\nSignal=5\r\n";
        let blanked = text(message.as_bytes());
        assert!(blanked.ends_with("\r\n\r\nxxxxxxxx\r\n"), "{blanked}");
        let other = message.replace("Application/DTMF-Relay", "text/plain");
        assert_eq!(text(other.as_bytes()), other);
    }

    #[test]
    fn a_message_without_secrets_is_unchanged() {
        let message = "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
                       Contact: <sip:a@[2001:db8::1]:5060;transport=tcp>\r\n\r\nx: y\r\n";
        assert_eq!(text(message.as_bytes()), message);
        Message::parse(message.as_bytes()).unwrap();
    }

    #[test]
    fn any_bytes_are_accepted() {
        for bytes in [&b""[..], b"\r\n", b"\n\n", b"a\r\n :\r\nx", b"sip:", b"A\nAuthorization:"] {
            assert_eq!(blanked(bytes).len(), bytes.len());
        }
    }
}
