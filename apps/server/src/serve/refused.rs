//! The limit of records of calls that were refused before they reached a phone. A stranger can make
//! many of them.

use parking_lot::Mutex;
use sip::{Duration, Instant, Source};
use sip_server::CallRecord;
use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// The records of all callers without a proof: their number at once, and the time for each further
/// one. In 90 days they are half of the records that the database keeps by default.
const OF_ALL: Rate = Rate { burst: 100, each: Duration::from_secs(30) };

/// Those of one source.
const OF_SOURCE: Rate = Rate { burst: 10, each: Duration::from_secs(60) };

/// The number of buckets of sources. Sources with the same hash share a bucket.
const SOURCES: usize = 4096;

/// The calls that are compared: a retransmitted INVITE is no other call.
const MAX_RECENT: usize = 256;

/// The time during which a client retransmits an INVITE (RFC 3261 section 17.1.1.2, timer B).
const RECENT: Duration = Duration::from_secs(32);

struct Rate {
    burst: u64,
    each: Duration,
}

impl Rate {
    /// Returns the time at which a bucket is full again that is full at `full_at`, after one is
    /// taken at `now`. `None` if the bucket is empty.
    fn take(&self, full_at: Instant, now: Instant) -> Option<Instant> {
        let full_at = full_at.max(now) + self.each;
        (full_at.since(now) <= self.each.times(self.burst)).then_some(full_at)
    }
}

/// The state of the limit.
pub(super) struct RefusedCalls {
    state: Mutex<State>,
    hasher: RandomState,
    left_out: AtomicU64,
}

struct State {
    all: Instant,
    sources: Box<[Instant]>,
    /// Hashes of the calls of the last time, the latest last.
    recent: VecDeque<(u64, Instant)>,
}

impl RefusedCalls {
    pub(super) fn new() -> Self {
        let sources = vec![Instant::ZERO; SOURCES].into();
        let state = Mutex::new(State { all: Instant::ZERO, sources, recent: VecDeque::new() });
        Self { state, hasher: RandomState::new(), left_out: AtomicU64::new(0) }
    }

    /// Returns true if `record` is to be kept: its call has reached a phone, or is within the limit
    /// and not recorded yet.
    pub(super) fn admits(&self, record: &CallRecord, now: Instant) -> bool {
        let Some(unreached) = record.unreached else { return true };
        let report = &record.report;
        let caller = report.ends[0].signalling;
        let call = self.hasher.hash_one((&report.call_id, &report.caller_tag, caller));
        let source = self.hasher.hash_one(Source::of(caller.ip()).octets()) as usize % SOURCES;
        let mut state = self.state.lock();
        let State { all, sources, recent } = &mut *state;
        recent.retain(|(_, at)| now.since(*at) < RECENT);
        if recent.iter().any(|(known, _)| *known == call) {
            return false;
        }
        if !unreached.is_proven {
            let full_at = OF_SOURCE.take(sources[source], now).zip(OF_ALL.take(*all, now));
            let Some(full_at) = full_at else {
                self.left_out.fetch_add(1, Ordering::Relaxed);
                return false;
            };
            (sources[source], *all) = full_at;
        }
        if recent.len() == MAX_RECENT {
            recent.pop_front();
        }
        recent.push_back((call, now));
        true
    }

    /// The number of calls without a record because of the limit.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_server::relay::CallReport;
    use sip_server::{Party, Unreached};

    fn refused(call: u32, host: u8, is_proven: bool) -> CallRecord {
        let (call_id, caller) = (call.to_string(), ([192, 0, 2, host], 5060).into());
        let parties = [&b"sip:a@example.com"[..], b"sip:b@example.com"];
        let created = std::time::Duration::ZERO;
        let report = CallReport::of_unrelayed(call_id.as_bytes(), b"tag", parties, caller, created);
        let mut record = CallRecord::new(report, Party::Server, Instant::ZERO, 0);
        record.unreached = Some(Unreached::new(is_proven));
        record
    }

    #[test]
    fn calls_of_strangers_are_limited_for_each_source_and_together() {
        let limit = RefusedCalls::new();
        let start = Instant::from_micros(1_000_000_000);
        let count = |calls: std::ops::Range<u32>, host: u8, is_proven, at| {
            calls.filter(|call| limit.admits(&refused(*call, host, is_proven), at)).count()
        };
        assert_eq!(count(0..100, 1, false, start), 10);
        assert_eq!(count(100..200, 1, true, start), 100, "a user is not limited");
        let hosts = (2..100).map(|host| count(200..202, host, false, start)).sum::<usize>();
        assert_eq!(hosts, 90, "all strangers share one limit");
        assert_eq!(limit.left_out(), 90 + 2 * 98 - 90);
        let later = start + Duration::from_secs(120);
        assert_eq!(count(300..310, 1, false, later), 2);
        let much_later = start + Duration::from_secs(100_000);
        assert_eq!(count(400..410, 1, false, much_later), 10);
    }

    #[test]
    fn a_retransmission_is_no_other_call() {
        let limit = RefusedCalls::new();
        let start = Instant::from_micros(1_000_000_000);
        let admits = |call, seconds| {
            limit.admits(&refused(call, 1, true), start + Duration::from_secs(seconds))
        };
        assert!(admits(1, 0) && !admits(1, 1) && admits(2, 1) && !admits(1, 31));
        assert!(admits(1, 40));
        assert!((10..10_000).all(|call| admits(call, 41)));
        assert_eq!(limit.state.lock().recent.len(), MAX_RECENT);
    }
}
