//! The format of capture agents: HEP version 3 (EEP), a datagram of chunks with addresses, time and
//! a message.

use std::net::{IpAddr, SocketAddr};

/// A message with the data of the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Forwarded<'a> {
    /// The time in nanoseconds since the Unix epoch, if present.
    pub(super) time: Option<u64>,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) payload: &'a [u8],
}

const MARK: &[u8] = b"HEP3";
/// The length of a chunk header: vendor, type and length.
const CHUNK: usize = 6;

/// Parses a HEP datagram. Returns `None` if it is not HEP, or lacks an address or the message.
/// Vendor chunks and unused ones are skipped; a compressed message is not read.
pub(super) fn read(datagram: &[u8]) -> Option<Forwarded<'_>> {
    let length = datagram.strip_prefix(MARK).and_then(|rest| rest.first_chunk())?;
    let mut rest = datagram.get(6..usize::from(u16::from_be_bytes(*length)))?;
    let (mut addresses, mut ports) = ([None; 2], [None; 2]);
    let (mut seconds, mut micros, mut payload) = (None, 0, None);
    while let Some((&[vendor, vendor_low, kind, kind_low, high, low], _)) = rest.split_first_chunk()
    {
        let length = usize::from(u16::from_be_bytes([high, low]));
        let value = rest.get(CHUNK..length)?;
        rest = &rest[length..];
        if [vendor, vendor_low] != [0, 0] {
            continue;
        }
        match u16::from_be_bytes([kind, kind_low]) {
            3 | 5 => addresses[0] = address(value),
            4 | 6 => addresses[1] = address(value),
            7 => ports[0] = Some(u16::from_be_bytes(value.try_into().ok()?)),
            8 => ports[1] = Some(u16::from_be_bytes(value.try_into().ok()?)),
            9 => seconds = Some(u32::from_be_bytes(value.try_into().ok()?)),
            10 => micros = u32::from_be_bytes(value.try_into().ok()?),
            15 => payload = Some(value),
            _ => {}
        }
    }
    let time =
        seconds.map(|seconds| u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1_000);
    Some(Forwarded {
        time,
        source: SocketAddr::new(addresses[0]?, ports[0]?),
        destination: SocketAddr::new(addresses[1]?, ports[1]?),
        payload: payload?,
    })
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(value).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(value).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a datagram of these chunks: vendor, type and value.
    pub(in super::super) fn datagram(chunks: &[(u16, u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (vendor, kind, value) in chunks {
            bytes.extend(vendor.to_be_bytes());
            bytes.extend(kind.to_be_bytes());
            bytes.extend((value.len() as u16 + 6).to_be_bytes());
            bytes.extend(*value);
        }
        let length = bytes.len() as u16 + 6;
        [MARK, &length.to_be_bytes(), &bytes].concat()
    }

    const CHUNKS: [(u16, u16, &[u8]); 10] = [
        (0, 1, &[2]),
        (0, 3, &[10, 0, 0, 1]),
        (0, 4, &[10, 0, 0, 2]),
        (0, 7, &[19, 196]),
        (0, 8, &[19, 197]),
        (0, 9, &[0, 0, 0, 7]),
        (0, 10, &[0, 0, 0, 9]),
        (9, 7, &[1, 2, 3]),
        (0, 99, &[]),
        (0, 15, b"hello"),
    ];

    #[test]
    fn a_message_is_taken_out() {
        let bytes = datagram(&CHUNKS);
        let read = read(&bytes).unwrap();
        assert_eq!(read.time, Some(7_000_009_000));
        assert_eq!(read.source, "10.0.0.1:5060".parse().unwrap());
        assert_eq!(read.destination, "10.0.0.2:5061".parse().unwrap());
        assert_eq!(read.payload, b"hello");
    }

    #[test]
    fn truncated_and_incomplete_packets_are_refused() {
        let whole = datagram(&CHUNKS);
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), None);
        }
        for lacking in [1, 2, 3, 4, 9] {
            let mut chunks = CHUNKS.to_vec();
            chunks.remove(lacking);
            assert_eq!(read(&datagram(&chunks)), None, "{lacking}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..9)) {
            let mut bytes = datagram(&CHUNKS);
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            read(&bytes);
        }
    }
}
