//! The limits of a relay, and the refusals because of them.

use crate::bandwidth::Bandwidth;
use core::time::Duration;

/// The limits of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of calls, counting each branch of a fork.
    pub calls: usize,
    /// The maximum number of calls of one owner. Each medium after the first counts as a call.
    pub calls_of_owner: usize,
    /// The maximum number of media whose audio may be converted. An offer beyond it gets no codecs.
    pub conversions: usize,
    /// The maximum number of such media of one owner.
    pub conversions_of_owner: usize,
    /// The bandwidth of media.
    pub bandwidth: Bandwidth,
    /// A call that is not answered ends this time after its last description or
    /// [progress](crate::Calls::progress).
    pub ringing: Duration,
    /// A call without a packet from an end that announces to send ends after this time.
    pub inactivity: Duration,
    /// The same after an end has [left](crate::CallReport::has_left) by an RTCP BYE.
    pub departure: Duration,
    /// A call without expected packets, as on hold, ends after this time without a sign of either
    /// end: a packet, RTCP included, a description, or an [answered
    /// request](crate::Calls::note_answer).
    pub hold: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            calls: 5_000,
            calls_of_owner: 500,
            conversions: 200,
            conversions_of_owner: 50,
            bandwidth: Bandwidth::default(),
            ringing: Duration::from_secs(300),
            inactivity: Duration::from_secs(60),
            departure: Duration::from_secs(10),
            hold: Duration::from_secs(4 * 3600),
        }
    }
}

/// The numbers of refusals because of limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusals {
    /// Calls over the limit of all calls.
    pub calls: u64,
    /// Calls and media over the limit of one owner.
    pub calls_of_owner: u64,
    /// Calls and media for which there was no port.
    pub ports: u64,
    /// Calls and media over a limit of bandwidth.
    pub bandwidth: u64,
    /// Packets over a limit of bandwidth, or over that of the codecs of their stream.
    pub packets: u64,
}
