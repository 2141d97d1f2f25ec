//! The RTP packets of a capture, to be sent again.

use super::CaptureError;
use super::file;
use super::packet::Decoder;
use super::source;
use std::fs::File;
use std::path::Path;

/// The limit of packets.
const MOST: usize = 500_000;

/// Returns the packets of the first RTP stream of a capture, each with its time in nanoseconds.
///
/// # Errors
/// [`CaptureError`] if the file cannot be read or is not a capture.
pub(crate) fn rtp_datagrams(path: &Path) -> Result<Vec<(u64, Vec<u8>)>, CaptureError> {
    let wrong = |error| CaptureError::Read(path.to_owned(), error);
    let source = source::open(File::open(path).map_err(wrong)?).map_err(wrong)?;
    let mut decoder = Decoder::default();
    let (mut found, mut stream) = (Vec::new(), None);
    file::read(source.reader, |frame| {
        let Some(packet) = decoder.decode(&frame) else { return };
        let is_rtp = packet.segment.is_none()
            && rtp::Packet::parse(&packet.payload).is_ok()
            && !rtp::is_rtcp(&packet.payload);
        let ends = (packet.source, packet.destination);
        if is_rtp && found.len() < MOST && *stream.get_or_insert(ends) == ends {
            found.push((packet.time, packet.payload.into_owned()));
        }
    })
    .map_err(|_| CaptureError::NoCapture(path.to_owned()))?;
    Ok(found)
}
