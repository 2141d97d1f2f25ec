//! The demultiplexing of datagrams on a media socket (RFC 7983, RFC 5761).

/// The protocol of a datagram, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// STUN.
    Stun,
    /// ZRTP.
    Zrtp,
    /// DTLS.
    Dtls,
    /// A TURN channel.
    TurnChannel,
    /// RTP or SRTP.
    Rtp,
    /// RTCP or SRTCP.
    Rtcp,
    /// An unknown protocol.
    Unknown,
}

impl Kind {
    /// Classifies a datagram by its first bytes. The parser of the protocol has to validate it.
    #[must_use]
    pub fn of(datagram: &[u8]) -> Self {
        match datagram.first() {
            Some(0..=3) => Self::Stun,
            Some(16..=19) => Self::Zrtp,
            Some(20..=63) => Self::Dtls,
            Some(64..=79) => Self::TurnChannel,
            Some(128..=191) if rtp::is_rtcp(datagram) => Self::Rtcp,
            Some(128..=191) => Self::Rtp,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_range_of_rfc_7983_has_its_kind() {
        let kinds = [
            (0..=3, Kind::Stun),
            (4..=15, Kind::Unknown),
            (16..=19, Kind::Zrtp),
            (20..=63, Kind::Dtls),
            (64..=79, Kind::TurnChannel),
            (80..=127, Kind::Unknown),
            (128..=191, Kind::Rtp),
            (192..=255, Kind::Unknown),
        ];
        for (range, kind) in kinds {
            range.for_each(|first| assert_eq!(Kind::of(&[first, 0]), kind, "{first}"));
        }
        assert_eq!(Kind::of(&[]), Kind::Unknown);
        for (second, kind) in [
            (191, Kind::Rtp),
            (192, Kind::Rtcp),
            (200, Kind::Rtcp),
            (223, Kind::Rtcp),
            (224, Kind::Rtp),
        ] {
            assert_eq!(Kind::of(&[0x80, second]), kind, "{second}");
        }
    }
}
