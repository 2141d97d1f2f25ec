//! The exchanges of keys on the path of media: DTLS (RFC 5764) and ZRTP (RFC 6189).

use super::packet::Transported;
use serde::Serialize;
use std::collections::HashMap;
use std::net::SocketAddr;

/// The limit of exchanges.
const EXCHANGES: usize = 50_000;
/// The magic cookie of ZRTP (RFC 6189 section 5), which takes the place of the RTP timestamp.
const ZRTP: &[u8] = b"ZRTP";
/// The first octet of a ZRTP packet.
const ZRTP_FIRST: u8 = 0x10;
/// The content types of DTLS records in clear (RFC 6347 section 4.1) but alerts, which also end a
/// connection, and the first octet of their version.
const CHANGE_CIPHER_SPEC: u8 = 20;
const HANDSHAKE: u8 = 22;
const DTLS_MAJOR: u8 = 0xfe;
/// The first octets of encrypted records of DTLS 1.3, which have no version (RFC 9147 section 4).
const ENCRYPTED: std::ops::RangeInclusive<u8> = 32..=63;
/// The length of the header of a DTLS record.
const DTLS_HEADER: usize = 13;

/// A protocol for keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum KeyProtocol {
    Dtls,
    Zrtp,
}

impl KeyProtocol {
    /// Returns the protocol of a datagram, if it is one of a key exchange.
    fn of(payload: &[u8]) -> Option<Self> {
        match payload {
            [first, ..] if *first == ZRTP_FIRST && payload.get(4..8) == Some(ZRTP) => {
                Some(Self::Zrtp)
            }
            [CHANGE_CIPHER_SPEC | HANDSHAKE, DTLS_MAJOR, ..] if payload.len() >= DTLS_HEADER => {
                Some(Self::Dtls)
            }
            _ => None,
        }
    }

    /// Returns the name in text.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dtls => "DTLS",
            Self::Zrtp => "ZRTP",
        }
    }
}

/// A key exchange between two ends; its packets in both directions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct KeyExchange {
    pub(crate) protocol: KeyProtocol,
    /// The ends of the first packet.
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) packets: u64,
    /// The octets of the packets with their IP headers.
    pub(crate) octets: u64,
    /// The first and the last packet, in microseconds since the Unix epoch.
    pub(crate) started_us: u64,
    pub(crate) ended_us: u64,
}

/// The key exchanges of a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct KeyExchanges {
    /// In chronological order.
    pub(crate) list: Vec<KeyExchange>,
    /// Packets of exchanges beyond the limit of [`EXCHANGES`].
    pub(crate) left_out: u64,
}

/// The key exchanges of a capture during reading.
#[derive(Default)]
pub(super) struct KeyBook {
    exchanges: HashMap<(SocketAddr, SocketAddr, KeyProtocol), KeyExchange>,
    left_out: u64,
}

impl KeyBook {
    /// Handles a datagram that is neither SIP nor RTP. Returns true if it is one of a key exchange.
    pub(super) fn take(&mut self, datagram: &Transported<'_>) -> bool {
        let (source, destination) = (datagram.source, datagram.destination);
        let key = |protocol| (source.min(destination), source.max(destination), protocol);
        let protocol = KeyProtocol::of(&datagram.payload).or_else(|| {
            // Only after a handshake message in clear: text has such octets, too.
            let is_encrypted =
                datagram.payload.first().is_some_and(|first| ENCRYPTED.contains(first));
            let is_known = || self.exchanges.contains_key(&key(KeyProtocol::Dtls));
            (is_encrypted && is_known()).then_some(KeyProtocol::Dtls)
        });
        let Some(protocol) = protocol else { return false };
        let key = key(protocol);
        if self.exchanges.len() >= EXCHANGES && !self.exchanges.contains_key(&key) {
            self.left_out += 1;
            return true;
        }
        let now = datagram.time / 1_000;
        let exchange = self.exchanges.entry(key).or_insert(KeyExchange {
            protocol,
            source,
            destination,
            packets: 0,
            octets: 0,
            started_us: now,
            ended_us: now,
        });
        exchange.packets += 1;
        exchange.octets += datagram.ip_length;
        exchange.started_us = exchange.started_us.min(now);
        exchange.ended_us = exchange.ended_us.max(now);
        true
    }

    pub(super) fn finish(self) -> KeyExchanges {
        let mut list: Vec<_> = self.exchanges.into_values().collect();
        list.sort_by_key(|one| (one.started_us, one.source, one.destination, one.protocol));
        KeyExchanges { list, left_out: self.left_out }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    fn datagram(time: u64, is_back: bool, payload: &[u8]) -> Transported<'static> {
        let (one, other) = ("10.0.0.1:4000".parse().unwrap(), "10.0.0.2:5000".parse().unwrap());
        let (source, destination) = if is_back { (other, one) } else { (one, other) };
        Transported {
            time,
            source,
            destination,
            ip_length: payload.len() as u64 + 28,
            payload: Cow::Owned(payload.to_vec()),
            segment: None,
        }
    }

    #[test]
    fn both_directions_are_one_exchange_and_protocols_are_apart() {
        let mut book = KeyBook::default();
        let hello = [b"\x10\0\0\x01ZRTP".as_slice(), &[0; 12]].concat();
        let record = [&[22, 0xfe, 0xfd][..], &[0; 20]].concat();
        assert!(book.take(&datagram(2_000_000, false, &hello)));
        assert!(book.take(&datagram(5_000_000, true, &hello)));
        // An encrypted record of DTLS 1.3 follows one in clear.
        assert!(!book.take(&datagram(2_500_000, true, &[46; 40])));
        assert!(book.take(&datagram(3_000_000, true, &record)));
        assert!(book.take(&datagram(4_000_000, false, &[46; 40])));
        let found = book.finish();
        assert_eq!((found.list.len(), found.left_out), (2, 0));
        let [zrtp, dtls] = [&found.list[0], &found.list[1]];
        assert_eq!((zrtp.protocol, zrtp.packets, zrtp.octets), (KeyProtocol::Zrtp, 2, 96));
        assert_eq!((zrtp.started_us, zrtp.ended_us), (2_000, 5_000));
        assert_eq!((dtls.protocol, dtls.packets, dtls.octets), (KeyProtocol::Dtls, 2, 51 + 68));
        assert_eq!(dtls.source, "10.0.0.2:5000".parse().unwrap());
    }

    #[test]
    fn other_datagrams_are_not_of_a_key_exchange() {
        let mut book = KeyBook::default();
        let rtp = [&[0x80, 0][..], &[0; 30]].concat();
        let stun = [b"\0\x01\0\0\x21\x12\xa4\x42".as_slice(), &[0; 12]].concat();
        // A TLS record, and records and packets that are too short.
        let tls = [&[22, 3, 3][..], &[0; 20]].concat();
        let alert = [&[21, 0xfe, 0xfd][..], &[0; 20]].concat();
        let short = [22, 0xfe, 0xfd];
        for other in [&rtp[..], &stun, &tls, &alert, &short, b"\x10\0\0\x01ZRT", b""] {
            assert!(!book.take(&datagram(0, false, other)), "{other:?}");
        }
        assert_eq!(book.finish(), KeyExchanges::default());
    }
}
