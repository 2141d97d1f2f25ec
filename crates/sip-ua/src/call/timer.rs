//! Session timers: the agreement of both ends (RFC 4028).

use crate::capabilities::{self, TIMER};
use crate::client_transaction::ClientId;
use crate::config::Config;
use alloc::vec::Vec;
use sip::header::session_expires;
use sip::{Duration, Encode, HeaderName, Instant, Message};

/// The default of Min-SE (RFC 4028 section 5).
pub(super) const DEFAULT_MIN_SE: Duration = Duration::from_secs(90);

/// The minimum time between two refreshes, for any interval of the other end.
pub(super) const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The timer of an established call.
pub(super) struct SessionTimer {
    pub(super) agreed: Agreed,
    /// The time of the local refresh. [`Instant::MAX`] if the other end refreshes, or while the
    /// refresh is pending.
    pub(super) refresh: Instant,
    /// The time at which the call ends without a refresh.
    pub(super) end: Instant,
    /// The pending UPDATE of a local refresh.
    pub(super) request: Option<ClientId>,
}

/// The agreement of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) interval: Duration,
    /// True if the local end refreshes.
    pub(super) is_ours: bool,
}

impl SessionTimer {
    /// Returns the timer from a request or a 2xx on that was received or sent at `now`.
    pub(super) fn start(agreed: Agreed, now: Instant) -> Self {
        let interval = agreed.interval.as_micros();
        let before = Duration::from_secs(32).as_micros().min(interval / 3);
        let wait = Duration::from_micros(interval / 2).max(SHORTEST_WAIT);
        Self {
            agreed,
            refresh: if agreed.is_ours { now + wait } else { Instant::MAX },
            end: now + Duration::from_micros(interval - before),
            request: None,
        }
    }

    /// Restarts the local refresh: a pending one was sent from a previous local address.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        self.request = None;
        if self.agreed.is_ours && self.refresh == Instant::MAX {
            self.refresh = now + SHORTEST_WAIT;
        }
    }

    /// Returns the time at which the timer is due. `is_free` is true if a refresh may be made.
    pub(super) fn next(&self, is_free: bool) -> Instant {
        if is_free { self.refresh.min(self.end) } else { self.end }
    }
}

/// Returns the seconds of Session-Expires or Min-SE in `message`.
pub(super) fn seconds(message: &Message<'_>, name: HeaderName) -> Option<Duration> {
    session_expires(message.value(name)?).ok().map(|value| value.interval)
}

/// Returns true if Session-Expires in `message` names the sender of the request as the refresher.
pub(super) fn is_caller(message: &Message<'_>) -> Option<bool> {
    let value = session_expires(message.value(HeaderName::SessionExpires)?).ok()?;
    let refresher = value.params.value("refresher")?;
    Some(!refresher.eq_ignore_ascii_case(b"uas"))
}

/// Returns true if the sender of `request` supports session timers.
fn knows_timers(request: &Message<'_>) -> bool {
    [HeaderName::Supported, HeaderName::Require]
        .into_iter()
        .any(|name| capabilities::has(request, name, TIMER))
}

/// Returns the lines of the 422 to `request`, if it asks for a shorter interval than the local
/// minimum (RFC 4028 section 9). A sender without support for timers gets no 422, which it would
/// not understand.
pub(super) fn too_brief(config: &Config, request: &Message<'_>) -> Option<Vec<u8>> {
    config.session_expires?;
    let asked = seconds(request, HeaderName::SessionExpires)?;
    if asked >= config.min_se || !knows_timers(request) {
        return None;
    }
    let mut lines = Vec::new();
    ("Min-SE: ", config.min_se.as_secs(), "\r\n").encode(&mut lines);
    Some(lines)
}

/// Returns the agreement for the 2xx to `request`, and its header field lines (RFC 4028 section 9).
pub(super) fn agree(config: &Config, request: &Message<'_>) -> Option<(Agreed, Vec<u8>)> {
    let ours = config.session_expires?;
    let knows = knows_timers(request);
    let least = seconds(request, HeaderName::MinSe);
    let ours = ours.max(least.unwrap_or(DEFAULT_MIN_SE));
    let asked = seconds(request, HeaderName::SessionExpires);
    let interval = asked.map_or(ours, |asked| asked.min(ours));
    // If the request names no refresher, the local end chooses the sender of the request.
    let is_theirs = knows && is_caller(request).unwrap_or(true);
    let mut lines = Vec::new();
    let refresher = if is_theirs { "uac" } else { "uas" };
    ("Session-Expires: ", interval.as_secs(), ";refresher=", refresher, "\r\n").encode(&mut lines);
    is_theirs.then_some("Require: timer\r\n").encode(&mut lines);
    Some((Agreed { interval, is_ours: !is_theirs }, lines))
}
