//! One end of a call.

use super::line::Line;
use super::web::{WebKeys, WebPath};
use crate::record::Observed;
use call::Call;
use net::Socket;
use sip::{Duration, Instant};
use std::rc::Rc;

/// The index of the callers among the sides.
pub(crate) const CALLER: usize = 0;
/// The index of the callees.
pub(crate) const CALLEE: usize = 1;

/// An end of a call.
pub(crate) struct End {
    /// The number of the end in this worker; it is never used again.
    pub(crate) serial: u64,
    pub(crate) side: usize,
    pub(crate) call: Call,
    pub(crate) socket: Rc<Socket>,
    /// The checks and the handshake of an end as in a browser.
    pub(crate) web: Option<Box<WebPath>>,
    /// The keys of that handshake, until the media begin.
    pub(crate) keys: Option<WebKeys>,
    /// The description of the other end, for such an end.
    pub(crate) description: Option<Vec<u8>>,
    /// The media, once negotiated.
    pub(crate) line: Option<Line>,
    /// The end of the caller of a callee, and its serial number.
    pub(crate) caller: Option<(usize, u64)>,
    /// The number of the call in the load, of a caller.
    pub(crate) number: u64,
    pub(crate) scheduled: Instant,
    pub(crate) placed: Instant,
    pub(crate) is_measured: bool,
    pub(crate) has_rung: bool,
    pub(crate) is_answered: bool,
    /// The end of the audio that a caller sends.
    pub(crate) audio_end: Instant,
    pub(crate) is_hung_up: bool,
    /// True if it was hung up because the load has ended.
    pub(crate) is_cut: bool,
    /// The packets in detail, if the call is observed.
    pub(crate) observed: Option<Observed>,
    pub(crate) faults: fastrand::Rng,
    pub(crate) window: Window,
    /// True if the audio came back at some time of the call.
    pub(crate) was_heard: bool,
}

/// The sums of an end since the beginning of the measured time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    pub(crate) delays: u64,
    pub(crate) delay_sum: Duration,
    /// The frames of a caller at its beginning.
    pub(crate) frames: u64,
}

impl Window {
    /// Returns the mean delay.
    pub(crate) fn mean_delay(&self) -> std::time::Duration {
        let micros = self.delay_sum.as_micros().checked_div(self.delays).unwrap_or(0);
        Duration::from_micros(micros).into()
    }
}
