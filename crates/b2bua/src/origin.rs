//! The origin (`o=`) of session descriptions: each leg of a call has its own (RFC 8866 section
//! 5.2).

use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

/// The session identifier and version in the descriptions that one leg gets.
#[derive(Debug)]
pub(crate) struct Origin {
    id: u64,
    version: u64,
    address: IpAddr,
    /// The last description without its origin.
    last: Vec<u8>,
}

impl Origin {
    /// Returns an origin at the local `address` with a random `number`.
    pub(crate) const fn new(number: u64, address: IpAddr) -> Self {
        // Some phones read signed numbers of 32 bits.
        let id = number >> 34;
        Self { id, version: id, address, last: Vec::new() }
    }

    /// Returns `description` with this origin in place of its own. The version increases by one if
    /// the description differs from the last one (RFC 3264 section 8). A text without an origin is
    /// no session description, and passes unchanged.
    pub(crate) fn write(&mut self, description: &[u8]) -> Vec<u8> {
        let Some((before, after)) = split(description) else { return description.to_vec() };
        let rest = [before, after].concat();
        if self.last != rest {
            self.version += u64::from(!self.last.is_empty());
            self.last = rest;
        }
        let Self { id, version, address, .. } = *self;
        let family = if address.is_ipv4() { "IP4" } else { "IP6" };
        let line = format!("o=- {id} {version} IN {family} {address}\r\n");
        [before, line.as_bytes(), after].concat()
    }
}

/// Returns true if both descriptions differ in their origin only.
pub(crate) fn is_same(one: &[u8], other: &[u8]) -> bool {
    one == other || split(one).is_some_and(|parts| split(other) == Some(parts))
}

/// Returns the parts of a description before and after the line of its origin.
fn split(description: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut start = 0;
    for line in description.split_inclusive(|byte| *byte == b'\n') {
        let end = start + line.len();
        if line.starts_with(b"o=") {
            return Some((&description[..start], &description[end..]));
        }
        start = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    const OFFER: &[u8] = b"v=0\r\no=bob 1 1 IN IP4 10.0.0.1\r\ns=-\r\nm=audio 9 RTP/AVP 0\r\n";

    fn write(origin: &mut Origin, description: &[u8]) -> String {
        String::from_utf8(origin.write(description)).expect("text")
    }

    #[test]
    fn the_version_increases_with_each_change_only() {
        let mut origin = Origin::new(7 << 34, [192, 0, 2, 1].into());
        let expected = |version, port| {
            alloc::format!(
                "v=0\r\no=- 7 {version} IN IP4 192.0.2.1\r\ns=-\r\nm=audio {port} RTP/AVP 0\r\n"
            )
        };
        assert_eq!(write(&mut origin, OFFER), expected(7, 9));
        let again = String::from_utf8_lossy(OFFER).replace("bob 1 1", "bob 1 2");
        assert_eq!(write(&mut origin, again.as_bytes()), expected(7, 9));
        let moved = again.replace("audio 9", "audio 10");
        assert_eq!(write(&mut origin, moved.as_bytes()), expected(8, 10));
        assert_eq!(write(&mut origin, OFFER), expected(9, 9));
    }

    #[test]
    fn a_text_without_an_origin_is_unchanged() {
        let mut origin = Origin::new(0, [192, 0, 2, 1].into());
        assert_eq!(write(&mut origin, b"v=0\r\n"), "v=0\r\n");
        assert!(is_same(OFFER, b"v=0\r\no=x\r\ns=-\r\nm=audio 9 RTP/AVP 0\r\n"));
        assert!(!is_same(OFFER, b"v=0\r\no=x\r\ns=-\r\nm=audio 8 RTP/AVP 0\r\n"));
        assert!(!is_same(b"v=0\r\n", b"v=1\r\n"));
    }
}
