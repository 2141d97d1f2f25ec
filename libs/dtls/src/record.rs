//! A check of received records before the handshake sees them.

/// The length of the header of a record of DTLS 1.2, and of a handshake message in it.
const HEADER: usize = 13;
const HANDSHAKE: usize = 12;

/// Returns true if the first record of a datagram is well-formed: one in clear has a version of
/// DTLS, a length within the datagram, and a handshake message whose fragment is within both.
/// `dimpl` ends a handshake if such a record waits for one that never comes, so that a single
/// malformed datagram of a stranger would end it.
pub(crate) fn is_plausible(datagram: &[u8]) -> bool {
    match datagram.first() {
        // The unified header of encrypted records (RFC 9147 section 4).
        Some(0x20..=0x3f) => true,
        Some(20..=26) => {
            let Some((header, rest)) = datagram.split_at_checked(HEADER) else { return false };
            let is_dtls = header[1] == 0xfe;
            let length = usize::from(u16::from_be_bytes([header[11], header[12]]));
            let Some(body) = rest.get(..length) else { return false };
            // The handshake is in clear in the first epoch.
            let is_clear_handshake = header[0] == 22 && header[3..5] == [0, 0];
            is_dtls && (!is_clear_handshake || is_fragment(body))
        }
        _ => false,
    }
}

/// Returns true if `body` begins with a fragment of a handshake message.
fn is_fragment(body: &[u8]) -> bool {
    let Some((header, rest)) = body.split_at_checked(HANDSHAKE) else { return false };
    let number = |at: usize| {
        usize::from(header[at]) << 16
            | usize::from(header[at + 1]) << 8
            | usize::from(header[at + 2])
    };
    let (length, offset, fragment) = (number(1), number(6), number(9));
    offset + fragment <= length && fragment <= rest.len()
}
