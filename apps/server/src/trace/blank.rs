//! The removal of secrets from messages. Lengths stay, so that Content-Length holds.

use sip::{HeaderName, Message};

/// The character in place of each one of a secret.
const BLANK: u8 = b'x';

/// The header fields with credentials.
const CREDENTIALS: [HeaderName; 2] = [HeaderName::Authorization, HeaderName::ProxyAuthorization];

/// The beginnings of lines of session descriptions with keys (RFC 4568, RFC 4566 section 5.12, RFC
/// 4567).
const KEY_LINES: [&[u8]; 3] = [b"a=crypto:", b"k=", b"a=key-mgmt:"];

/// `message` with blanks in place of credentials after their scheme, and in place of keys of media.
pub(super) fn blanked(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = message.as_bytes().to_vec();
    for field in message.fields_of(&CREDENTIALS) {
        let start = field.value.as_ptr() as usize - message.as_bytes().as_ptr() as usize;
        let value = &mut bytes[start..start + field.value.len()];
        // The scheme, such as Digest.
        let scheme = value.iter().position(u8::is_ascii_whitespace).unwrap_or(0);
        blank(&mut value[scheme..]);
    }
    let body = bytes.len() - message.body().len();
    for line in bytes[body..].split_mut(|byte| matches!(byte, b'\r' | b'\n')) {
        let begins = |start: &&&[u8]| {
            line.get(..start.len()).is_some_and(|it| it.eq_ignore_ascii_case(start))
        };
        if let Some(start) = KEY_LINES.iter().find(begins) {
            // The tag and the suite of a crypto attribute are no secret.
            let inline = line.windows(7).position(|part| part.eq_ignore_ascii_case(b"inline:"));
            let from = inline.map_or(start.len(), |at| at + 7);
            blank(&mut line[from..]);
        }
    }
    bytes
}

fn blank(text: &mut [u8]) {
    text.iter_mut().filter(|byte| !byte.is_ascii_whitespace()).for_each(|byte| *byte = BLANK);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_and_keys_are_blanked_and_lengths_stay() {
        let head = "INVITE sip:b@h SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
                    From: <sip:a@h>;tag=1\r\nTo: <sip:b@h>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\n\
                    aUTHORIZATION : Digest username=\"a\",\r\n response=\"SECRET\"\r\n\
                    Proxy-Authorization: Basic SECRET\r\nAuthorization: SECRET\r\n";
        let body = "v=0\r\nk=clear:SECRET\r\n\
                    a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:SECRET|2^20 SECRET\n\
                    A=CRYPTO:2 SECRET\r\na=rtpmap:0 PCMU/8000\r\na=key-mgmt:mikey SECRET";
        let text = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        let blanked = blanked(&Message::parse(text.as_bytes()).unwrap());
        let blanked = String::from_utf8(blanked).unwrap();
        assert_eq!(blanked.len(), text.len());
        assert!(!blanked.contains("SECRET"), "{blanked}");
        for kept in [
            "aUTHORIZATION : Digest xxxxxxxxxxxxx\r\n xxxx",
            "Proxy-Authorization: Basic xxxxxx\r\n",
            "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:xxxx",
            "a=rtpmap:0 PCMU/8000\r\n",
        ] {
            assert!(blanked.contains(kept), "{kept}: {blanked}");
        }
        Message::parse(blanked.as_bytes()).unwrap();
    }
}
