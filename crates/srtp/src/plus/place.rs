//! The position of tags in a packet.

use crate::scheme::Placement;
use rtp::Header;
use rtp::extension::{ElementFormat, ONE_BYTE};
use rtp::packet::FIXED_HEADER;

/// The maximum number of bytes that an element with a tag adds: the extension header, and the
/// element with padding.
pub(crate) const ROOM: usize = 12;

/// Inserts a zeroed element into the header of the packet in the first `length` bytes. An existing
/// element of a relayed packet is reused. Returns the offset of the element's data and the packet's
/// new length. Returns `None` if the header extension cannot take another element, or has an
/// element of another length. The buffer has room for [`ROOM`] more bytes.
pub(crate) fn insert_element(
    buffer: &mut [u8],
    length: usize,
    id: u8,
    data_length: usize,
) -> Option<(usize, usize)> {
    let header = Header::parse(&buffer[..length]).ok()?;
    let payload = header.len();
    let head = FIXED_HEADER + 4 * header.csrcs().len();
    let extension = header.extension();
    let (form, at, is_new) = match extension {
        None => (ElementFormat::OneByte, head + 4, true),
        Some(extension) => {
            if let Some(found) = extension.position(id) {
                let at = payload - extension.data.len() + found.start;
                return (found.len() == data_length).then_some((at, length));
            }
            // An element behind other data would not be found.
            (
                ElementFormat::of(extension.profile).filter(|_| extension.holds_only_elements())?,
                payload,
                false,
            )
        }
    };
    let element = form.element_length(id, data_length).ok()?;
    let end = (at + element).next_multiple_of(4);
    let words = u16::try_from((end - head - 4) / 4).ok()?;
    buffer.copy_within(payload..length, end);
    buffer[at..end].fill(0);
    let data = [0; 4];
    form.write_element(id, &data[..data_length], &mut buffer[at..end]).ok()?;
    if is_new {
        buffer[0] |= 0x10;
        buffer[head..head + 2].copy_from_slice(&ONE_BYTE.to_be_bytes());
    }
    buffer[head + 2..head + 4].copy_from_slice(&words.to_be_bytes());
    Some((at + element - data_length, length + end - payload))
}

/// Finds the tag of a received packet, in its header or at its end. Returns the tag and the
/// packet's length without a trailing tag.
#[inline]
pub(crate) fn tag_of<'a>(
    packet: &'a [u8],
    header: &Header<'a>,
    placement: Placement,
    length: usize,
) -> Option<(&'a [u8], usize)> {
    match placement {
        Placement::Extension(id) => {
            let element = header.extension()?.elements().find(|element| element.id == id)?;
            (element.data.len() == length).then_some((element.data, packet.len()))
        }
        Placement::Trailer => {
            let end = packet.len().checked_sub(length).filter(|&end| end >= header.len())?;
            Some((&packet[end..], end))
        }
    }
}
