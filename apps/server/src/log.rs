//! What the operator reads while the server runs: one line per event on standard error, bounded
//! per kind of event, so that strangers cannot fill a disk.

use crate::output::printable;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

/// Lines a second of one kind unless [`set_limit`] says otherwise.
pub(crate) const DEFAULT_LINES_PER_SECOND: u32 = 10;

static LIMIT: AtomicU32 = AtomicU32::new(DEFAULT_LINES_PER_SECOND);
static BUCKETS: LazyLock<Mutex<HashMap<&'static str, Bucket>>> = LazyLock::new(Mutex::default);

#[derive(Clone, Copy)]
enum Level {
    Info,
    Warning,
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Lines a second of each kind that are written from now on; 0: no limit.
pub(crate) fn set_limit(lines_per_second: u32) {
    LIMIT.store(lines_per_second, Ordering::Relaxed);
}

/// Something that the operator may want to know. `kind` names the kind of event, for the limit.
pub(crate) fn info(kind: &'static str, text: impl FnOnce() -> String) {
    write(Level::Info, kind, text);
}

/// Something that is not as it should be, while the server goes on.
pub(crate) fn warn(kind: &'static str, text: impl FnOnce() -> String) {
    write(Level::Warning, kind, text);
}

/// Something that the server was asked to do and could not.
pub(crate) fn error(kind: &'static str, text: impl FnOnce() -> String) {
    write(Level::Error, kind, text);
}

fn write(level: Level, kind: &'static str, text: impl FnOnce() -> String) {
    let limit = LIMIT.load(Ordering::Relaxed);
    let now = Instant::now();
    let Some(suppressed) =
        BUCKETS.lock().entry(kind).or_insert_with(|| Bucket::full(limit, now)).take(limit, now)
    else {
        return;
    };
    let time = humantime::format_rfc3339_seconds(SystemTime::now());
    let mut lines = String::new();
    if suppressed > 0 {
        lines = format!("{time} {level}: {suppressed} similar lines suppressed ({kind})\n");
    }
    lines.push_str(&format!("{time} {level}: {}\n", printable(&text())));
    // With standard error closed there is nobody left to tell.
    let _ = std::io::stderr().write_all(lines.as_bytes());
}

/// A token bucket that holds one second's worth of lines.
struct Bucket {
    tokens: f64,
    filled: Instant,
    suppressed: u64,
}

impl Bucket {
    fn full(limit: u32, now: Instant) -> Self {
        Self { tokens: f64::from(limit), filled: now, suppressed: 0 }
    }

    /// `None` when the line is not to be written; otherwise how many were not since the last one.
    fn take(&mut self, limit: u32, now: Instant) -> Option<u64> {
        if limit > 0 {
            let earned = now.duration_since(self.filled).as_secs_f64() * f64::from(limit);
            self.filled = now;
            self.tokens = (self.tokens + earned).min(f64::from(limit));
            if self.tokens < 1.0 {
                self.suppressed += 1;
                return None;
            }
            self.tokens -= 1.0;
        }
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_gives_its_limit_each_second_and_counts_the_rest() {
        let start = Instant::now();
        let mut bucket = Bucket::full(3, start);
        let taken: Vec<_> = (0..5).map(|_| bucket.take(3, start)).collect();
        assert_eq!(taken, [Some(0), Some(0), Some(0), None, None]);
        assert_eq!(bucket.take(3, start + Duration::from_secs(1)), Some(2));
        assert_eq!(bucket.take(3, start + Duration::from_secs(1)), Some(0));
    }

    #[test]
    fn no_limit_means_every_line() {
        let now = Instant::now();
        let mut bucket = Bucket::full(0, now);
        assert!((0..100).all(|_| bucket.take(0, now) == Some(0)));
    }
}
