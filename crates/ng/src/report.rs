//! The state and the counters of a call, as the response to `query` has them. An unknown value is
//! `None`, and its key is not written.

use core::net::SocketAddr;

/// A call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallReport<'r> {
    /// The time at which the call began, in seconds since 1970.
    pub created: u64,
    /// The time of the last offer or answer, in seconds since 1970.
    pub last_signal: u64,
    /// The parties.
    pub parties: &'r [Party<'r>],
    /// The sources of RTP packets.
    pub sources: &'r [Source],
}

/// A party of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Party<'r> {
    /// The tag; empty if it is not known yet.
    pub tag: &'r [u8],
    /// The name that the request gave.
    pub label: Option<&'r str>,
    /// The time of the party's first description, in seconds since 1970.
    pub created: u64,
    /// The tag of the other party.
    pub in_dialogue_with: Option<&'r [u8]>,
    /// The media in the order of the session description.
    pub media: &'r [Media<'r>],
}

/// A medium of a party.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Media<'r> {
    /// The type, such as `audio`.
    pub kind: &'r str,
    /// The transport protocol, such as `RTP/AVP`.
    pub protocol: &'r str,
    /// Flags, such as `SDES` and `rtcp-mux`.
    pub flags: &'r [&'r str],
    /// The ports: one for RTP, and perhaps one for RTCP.
    pub streams: &'r [Stream<'r>],
}

/// A local port.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stream<'r> {
    /// True for a port that receives RTCP only.
    pub is_rtcp: bool,
    /// The local port.
    pub local_port: Option<u16>,
    /// The address to which packets are sent.
    pub endpoint: Option<SocketAddr>,
    /// The address of the session description.
    pub advertised_endpoint: Option<SocketAddr>,
    /// The endpoint was learned of a received packet.
    pub is_confirmed: bool,
    /// The SRTP suite.
    pub crypto_suite: Option<&'r str>,
    /// The SSRC of the received packets.
    pub ssrc: Option<u32>,
    /// The time of the last received packet, in seconds since 1970.
    pub last_packet: Option<u64>,
    /// Counters of the received packets.
    pub counts: Counts,
}

/// Counters of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The packets that were not relayed.
    pub errors: u64,
}

/// A source of RTP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Source {
    /// The SSRC.
    pub ssrc: u32,
    /// The lost packets.
    pub cumulative_loss: Option<u64>,
    /// The quality, once it is measured.
    pub quality: Option<Quality>,
}

/// The average quality of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// The mean opinion score, 1 to 4.5.
    pub mos: f32,
    /// The jitter in milliseconds.
    pub jitter: u32,
    /// The share of lost packets in percent.
    pub packet_loss: u32,
    /// The round-trip time in microseconds.
    pub round_trip: Option<u32>,
    /// The number of measurements.
    pub samples: u32,
}

impl CallReport<'_> {
    /// The sums of the counters of all ports for RTP, and of all ports for RTCP.
    #[must_use]
    pub fn totals(&self) -> [Counts; 2] {
        let mut totals = [Counts::default(); 2];
        let media = self.parties.iter().flat_map(|party| party.media);
        for stream in media.flat_map(|media| media.streams) {
            let total = &mut totals[usize::from(stream.is_rtcp)];
            total.packets = total.packets.saturating_add(stream.counts.packets);
            total.bytes = total.bytes.saturating_add(stream.counts.bytes);
            total.errors = total.errors.saturating_add(stream.counts.errors);
        }
        totals
    }
}
