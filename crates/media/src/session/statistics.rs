//! The statistics of a stream.

use core::time::Duration;

/// The statistics of a stream so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Packets sent.
    pub sent: u64,
    /// Packets and reports that could not be sent: see [`SendError`](crate::SendError).
    pub unsent: u64,
    /// Packets received, of the stream.
    pub received: u64,
    /// Packets expected.
    pub expected: u64,
    /// Packets that SRTP has rejected: forged, damaged or repeated.
    pub refused: u64,
    /// Packets of payload types that were not negotiated.
    pub unknown: u64,
    /// Packets from another source than the other end.
    pub strangers: u64,
    /// The current interarrival jitter (RFC 3550).
    pub jitter: Duration,
    /// The highest jitter.
    pub max_jitter: Duration,
    /// The mean time between packets.
    pub mean_delta: Duration,
    /// The longest time between two packets.
    pub max_delta: Duration,
    /// Frames without a packet to play.
    pub missing: u64,
    /// The mean opinion score, 1 to 4.5 (ITU-T G.107).
    pub mos: f64,
    /// RTCP reports sent.
    pub reports_sent: u64,
    /// RTCP reports received.
    pub reports_received: u64,
    /// The round-trip time by the last report.
    pub round_trip: Option<Duration>,
    /// The fraction of sent packets that the other end has lost between its last two reports, 0 to
    /// 1.
    pub far_loss: Option<f64>,
    /// The jitter of sent packets at the other end.
    pub far_jitter: Option<Duration>,
    /// The mean opinion score at the other end, from its extended reports.
    pub far_mos: Option<f64>,
    /// See [`Session::silence`](crate::Session::silence).
    pub silence: Option<Duration>,
    /// See [`Session::flow`](crate::Session::flow).
    pub flow: AudioFlow,
}

impl Statistics {
    /// Returns the number of packets that did not arrive.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// The state of the audio in both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AudioFlow {
    /// No failure is known.
    #[default]
    Flowing,
    /// No packet has arrived for five seconds, though the other end is to send.
    NothingArrives,
    /// The other end reports that no local packet arrives there.
    NothingGetsThrough,
    /// Both directions fail.
    Nothing,
}
