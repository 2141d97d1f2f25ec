//! How a stream has gone.

use core::time::Duration;

/// How the stream has gone so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Packets sent.
    pub sent: u64,
    /// Packets received, of the stream.
    pub received: u64,
    /// Packets that should have come.
    pub expected: u64,
    /// Packets that SRTP has refused: forged, damaged or repeated.
    pub refused: u64,
    /// Packets of payload types that were not agreed on.
    pub unknown: u64,
    /// Packets from elsewhere than the other end.
    pub strangers: u64,
    /// The interarrival jitter, now and at most (RFC 3550).
    pub jitter: Duration,
    /// The highest jitter.
    pub max_jitter: Duration,
    /// The mean and the longest time between packets.
    pub mean_delta: Duration,
    /// The longest time between two packets.
    pub max_delta: Duration,
    /// Frames for which there was nothing to play.
    pub missing: u64,
    /// The mean opinion score, 1 to 4.5 (ITU-T G.107).
    pub mos: f64,
    /// Reports of RTCP sent.
    pub reports_sent: u64,
    /// Reports received.
    pub reports_received: u64,
    /// The way there and back, as the last report has it.
    pub round_trip: Option<Duration>,
    /// The share of our packets that the other end has lost between its last two reports, 0 to 1.
    pub far_loss: Option<f64>,
    /// The jitter of our packets there.
    pub far_jitter: Option<Duration>,
    /// The mean opinion score there, where extended reports tell of it.
    pub far_mos: Option<f64>,
    /// See [`Session::silence`](crate::Session::silence).
    pub silence: Option<Duration>,
    /// See [`Session::flow`](crate::Session::flow).
    pub flow: Flow,
}

impl Statistics {
    /// Packets that did not come.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.received)
    }
}

/// Whether sound goes both ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// Nothing speaks against it.
    #[default]
    Flowing,
    /// Nothing has come for five seconds, though the other end is to send.
    NothingArrives,
    /// The other end reports that nothing of ours arrives there.
    NothingGetsThrough,
    /// Both.
    Nothing,
}
