//! Feedback in RTCP (RFC 4585), for ends that do not understand it.

use rtp::rtcp::{Compound, packet_type};

/// Removes the feedback from the RTCP packets in the first `length` bytes of `buffer`, in place.
/// Returns the new length: zero if no other packet is left. Bytes that are not RTCP stay.
pub(crate) fn remove(buffer: &mut [u8], length: usize) -> usize {
    if Compound::parse(&buffer[..length]).is_err() {
        return length;
    }
    let (mut read, mut written) = (0, 0);
    while let Some(&[_, kind, high, low]) = buffer[read..length].first_chunk() {
        let end = read + 4 + 4 * usize::from(u16::from_be_bytes([high, low]));
        if !matches!(kind, packet_type::RTPFB | packet_type::PSFB) {
            buffer.copy_within(read..end, written);
            written += end - read;
        }
        read = end;
    }
    written
}
