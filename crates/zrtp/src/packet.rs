//! Packets: the frame around a message (RFC 6189 section 5).

use alloc::vec::Vec;

/// The cookie of ZRTP, where RTP has a timestamp.
const COOKIE: [u8; 4] = *b"ZRTP";
/// The bytes before a message.
pub(crate) const HEADER: usize = 12;
/// The bytes of the checksum behind a message.
const CHECKSUM: usize = 4;

/// Returns true if a datagram is a ZRTP packet by its first byte (RFC 7983) and its cookie.
#[must_use]
pub fn is_zrtp(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(16..=19)) && datagram.get(4..8) == Some(&COOKIE[..])
}

/// A packet with a message.
pub(crate) fn frame(message: &[u8], sequence_number: u16, ssrc: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + message.len() + CHECKSUM);
    out.extend([0x10, 0]);
    out.extend(sequence_number.to_be_bytes());
    out.extend(COOKIE);
    out.extend(ssrc.to_be_bytes());
    out.extend(message);
    out.extend(crc32c(&out).to_le_bytes());
    out
}

/// The SSRC and the message of a packet. `None` if the datagram is no packet, or damaged.
pub(crate) fn unframe(datagram: &[u8]) -> Option<(u32, &[u8])> {
    if !is_zrtp(datagram) {
        return None;
    }
    let (packet, checksum) = datagram.split_last_chunk::<CHECKSUM>()?;
    let (header, message) = packet.split_first_chunk::<HEADER>()?;
    if crc32c(packet).to_le_bytes() != *checksum {
        return None;
    }
    Some((u32::from_be_bytes([header[8], header[9], header[10], header[11]]), message))
}

/// The checksum of SCTP (RFC 9260 appendix A), CRC-32C.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 }
        })
    })
}
