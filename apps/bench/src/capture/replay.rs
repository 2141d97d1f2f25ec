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

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    /// Returns a capture of IP packets: the time in milliseconds, the port of the sender, and the
    /// payload of each.
    fn capture(packets: &[(u32, u16, &[u8])]) -> Vec<u8> {
        // Magic number, version, zone, accuracy, longest packet, link type.
        let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101_u32];
        let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
        for (millis, port, payload) in packets {
            let mut bytes = Vec::new();
            let builder = PacketBuilder::ipv4([127, 0, 0, 1], [127, 0, 0, 2], 64).udp(*port, 4002);
            builder.write(&mut bytes, payload).unwrap();
            let length = bytes.len() as u32;
            let record = [millis / 1000, millis % 1000 * 1000, length, length];
            file.extend(record.iter().flat_map(|word| word.to_le_bytes()));
            file.extend(bytes);
        }
        file
    }

    #[test]
    fn the_packets_of_the_first_stream_are_returned() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audio.pcap");
        let rtp = |number| [0x80, 0, 0, number, 0, 0, 0, 0, 1, 2, 3, 4, 0xd5];
        let (one, other, two) = (rtp(1), rtp(7), rtp(2));
        let packets: [(u32, u16, &[u8]); 4] = [
            (1000, 4000, b"OPTIONS"),
            (1010, 4000, &one),
            (1015, 5000, &other),
            (1030, 4000, &two),
        ];
        std::fs::write(&path, capture(&packets)).unwrap();
        let found = rtp_datagrams(&path).unwrap();
        assert_eq!(found, [(1_010_000_000, one.to_vec()), (1_030_000_000, two.to_vec())]);
        std::fs::write(&path, "no capture").unwrap();
        assert!(matches!(rtp_datagrams(&path), Err(CaptureError::NoCapture(_))));
    }
}
