//! Session timers: what the two ends agree on (RFC 4028).

use crate::capabilities::{self, TIMER};
use crate::client_transaction::ClientId;
use crate::config::Config;
use alloc::vec::Vec;
use sip::header::session_expires;
use sip::{Duration, Emit, HeaderName, Instant, Message};

/// What Min-SE is where it is not said (RFC 4028 section 5).
pub(super) const DEFAULT_MIN_SE: Duration = Duration::from_secs(90);

/// The shortest wait between two refreshes, whatever the other end asks for.
pub(super) const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// The timer of a call that stands.
pub(super) struct SessionTimer {
    pub(super) agreed: Agreed,
    /// When we refresh; [`Instant::MAX`] where the other end does, or while we are at it.
    pub(super) refresh: Instant,
    /// When the call ends, unless it is refreshed.
    pub(super) end: Instant,
    /// Our UPDATE that refreshes.
    pub(super) request: Option<ClientId>,
}

/// What the two ends have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) interval: Duration,
    /// Whether we refresh.
    pub(super) is_ours: bool,
}

impl SessionTimer {
    /// From a request or a 2xx on that came or went at `now`.
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

    /// A refresh under way has gone from where we are not any more.
    pub(super) fn begin_anew(&mut self, now: Instant) {
        self.request = None;
        if self.agreed.is_ours && self.refresh == Instant::MAX {
            self.refresh = now + SHORTEST_WAIT;
        }
    }

    /// When it is due; `is_free`: a refresh may be made.
    pub(super) fn next(&self, is_free: bool) -> Instant {
        if is_free { self.refresh.min(self.end) } else { self.end }
    }
}

/// The seconds of Session-Expires or Min-SE in `message`.
pub(super) fn seconds(message: &Message<'_>, name: HeaderName) -> Option<Duration> {
    session_expires(message.value(name)?).ok().map(|value| value.interval)
}

/// Who refreshes, as Session-Expires in `message` has it: whether that is who sent the request.
pub(super) fn is_caller(message: &Message<'_>) -> Option<bool> {
    let value = session_expires(message.value(HeaderName::SessionExpires)?).ok()?;
    let refresher = value.params.value("refresher")?;
    Some(!refresher.eq_ignore_ascii_case(b"uas"))
}

/// Whether who sent `request` knows of timers.
fn knows_timers(request: &Message<'_>) -> bool {
    [HeaderName::Supported, HeaderName::Require]
        .into_iter()
        .any(|name| capabilities::has(request, name, TIMER))
}

/// The lines of the 422 that `request` gets where it asks for less time than we want (RFC 4028
/// section 9). Who knows nothing of timers would not know what to do with it.
pub(super) fn too_brief(config: &Config, request: &Message<'_>) -> Option<Vec<u8>> {
    config.session_expires?;
    let asked = seconds(request, HeaderName::SessionExpires)?;
    if asked >= config.min_se || !knows_timers(request) {
        return None;
    }
    let mut lines = Vec::new();
    ("Min-SE: ", config.min_se.as_secs(), "\r\n").emit(&mut lines);
    Some(lines)
}

/// What we agree to in the 2xx to `request`, and the lines that say so (RFC 4028 section 9).
pub(super) fn agree(config: &Config, request: &Message<'_>) -> Option<(Agreed, Vec<u8>)> {
    let ours = config.session_expires?;
    let knows = knows_timers(request);
    let least = seconds(request, HeaderName::MinSe);
    let ours = ours.max(least.unwrap_or(DEFAULT_MIN_SE));
    let asked = seconds(request, HeaderName::SessionExpires);
    let interval = asked.map_or(ours, |asked| asked.min(ours));
    // Who does not say who refreshes lets us choose: whoever has asked.
    let is_theirs = knows && is_caller(request).unwrap_or(true);
    let mut lines = Vec::new();
    let refresher = if is_theirs { "uac" } else { "uas" };
    ("Session-Expires: ", interval.as_secs(), ";refresher=", refresher, "\r\n").emit(&mut lines);
    is_theirs.then_some("Require: timer\r\n").emit(&mut lines);
    Some((Agreed { interval, is_ours: !is_theirs }, lines))
}
