//! Where tags stand in a packet (row B4 of docs/sources.md).

use super::scheme::Placement;
use rtp::Header;
use rtp::extension::{Form, ONE_BYTE};
use rtp::packet::FIXED_HEADER;

/// The most bytes that an element with a tag adds: the head of an extension, and the element with
/// padding.
pub(crate) const ROOM: usize = 12;

/// Makes room for an element in the header of the packet in the first `length` bytes, and writes it
/// with zeros for data; one that is there already, of a relayed packet, is used again. Gives where
/// the data stands and the packet's new length; `None` if the header has an extension that takes no
/// further element, or an element of another length. The buffer has room for [`ROOM`] more bytes.
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
        None => (Form::OneByte, head + 4, true),
        Some(extension) => {
            if let Some(found) = extension.position(id) {
                let at = payload - extension.data.len() + found.start;
                return (found.len() == data_length).then_some((at, length));
            }
            // Behind what is no element it would not be found.
            (Form::of(extension.profile).filter(|_| extension.is_whole())?, payload, false)
        }
    };
    let element = form.element_length(id, data_length)?;
    let end = (at + element).next_multiple_of(4);
    let words = u16::try_from((end - head - 4) / 4).ok()?;
    buffer.copy_within(payload..length, end);
    buffer[at..end].fill(0);
    let data = [0; 4];
    form.write_element(id, &data[..data_length], &mut buffer[at..end])?;
    if is_new {
        buffer[0] |= 0x10;
        buffer[head..head + 2].copy_from_slice(&ONE_BYTE.to_be_bytes());
    }
    buffer[head + 2..head + 4].copy_from_slice(&words.to_be_bytes());
    Some((at + element - data_length, length + end - payload))
}

/// Finds the tag of a packet that came: in its header, or at its end. Gives it, and the packet's
/// length without a tag at its end.
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
