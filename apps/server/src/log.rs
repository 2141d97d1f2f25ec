//! The log of the server: one line for each event on standard error. Lines are limited in length,
//! and in number for each kind of event, so that strangers can neither fill a disk nor hide one
//! kind of event behind another.

use crate::output::printable;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io::Write;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, SystemTime};

/// The default limit for lines of one kind, per second. Strangers can cause some ten kinds, with
/// lines of some 200 bytes: that is at most 200 MB a day of uninterrupted load.
pub(crate) const DEFAULT_LINES_PER_SECOND: u32 = 1;
/// The capacity of the token bucket of a kind, in seconds.
const BURST: u32 = 10;
/// The maximum length of the text of a line, in bytes. The rest is cut off.
const MAX_TEXT: usize = 1024;

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

/// Sets the limit for lines of each kind per second, on average over [`BURST`] seconds; 0: no
/// limit.
pub(crate) fn set_limit(lines_per_second: u32) {
    LIMIT.store(lines_per_second, Ordering::Relaxed);
}

/// Logs an event that may interest the operator. `kind` names the kind of event, for the limit.
pub(crate) fn info(kind: &'static str, text: impl FnOnce() -> String) {
    write(Level::Info, kind, text);
}

/// Logs an irregularity that does not stop the server.
pub(crate) fn warn(kind: &'static str, text: impl FnOnce() -> String) {
    write(Level::Warning, kind, text);
}

/// Logs a failed operation.
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
    lines.push_str(&format!("{time} {level}: {}\n", cut(printable(&text()))));
    // An error means that standard error is closed, so it cannot be reported.
    let _ = std::io::stderr().write_all(lines.as_bytes());
}

/// Truncates `text` if it is too long, and marks the end.
fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rfind(|&at| text.is_char_boundary(at));
        text.truncate(end.unwrap_or(0));
        text.push_str("... (cut)");
    }
    text
}

/// A token bucket with a capacity of the lines of [`BURST`] seconds.
struct Bucket {
    tokens: f64,
    filled: Instant,
    suppressed: u64,
}

impl Bucket {
    fn full(limit: u32, now: Instant) -> Self {
        Self { tokens: capacity(limit), filled: now, suppressed: 0 }
    }

    /// Takes a token. Returns `None` if the line is to be suppressed, otherwise the number of lines
    /// suppressed since the last one.
    fn take(&mut self, limit: u32, now: Instant) -> Option<u64> {
        if limit > 0 {
            let earned = now.duration_since(self.filled).as_secs_f64() * f64::from(limit);
            self.filled = now;
            self.tokens = (self.tokens + earned).min(capacity(limit));
            if self.tokens < 1.0 {
                self.suppressed += 1;
                return None;
            }
            self.tokens -= 1.0;
        }
        Some(std::mem::take(&mut self.suppressed))
    }
}

fn capacity(limit: u32) -> f64 {
    f64::from(limit) * f64::from(BURST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_bucket_gives_its_limit_in_the_mean_and_counts_the_rest() {
        let start = Instant::now();
        let mut bucket = Bucket::full(3, start);
        let mut take = |seconds| bucket.take(3, start + Duration::from_secs(seconds));
        assert_eq!((0..32).filter_map(|_| take(0)).collect::<Vec<_>>(), [0; 30]);
        assert_eq!([(); 4].map(|()| take(1)), [Some(2), Some(0), Some(0), None]);
        assert_eq!((0..1000).filter_map(|_| take(3600)).collect::<Vec<_>>()[..2], [1, 0]);
        assert_eq!(take(3610), Some(970));
    }

    #[test]
    fn a_day_of_any_flood_is_some_megabytes() {
        let start = Instant::now();
        let mut bucket = Bucket::full(DEFAULT_LINES_PER_SECOND, start);
        let flood = (0..86_400_u64 * 20).map(|tick| start + Duration::from_millis(tick * 50));
        let lines = flood.filter_map(|now| bucket.take(DEFAULT_LINES_PER_SECOND, now)).count();
        assert!((80_000..90_000).contains(&lines), "{lines}");
    }

    #[test]
    fn a_long_line_is_cut_between_two_characters() {
        assert_eq!(cut("x".repeat(MAX_TEXT)), "x".repeat(MAX_TEXT));
        assert_eq!(cut(format!("x{}", "ü".repeat(MAX_TEXT))).len(), MAX_TEXT - 1 + 9);
    }

    #[test]
    fn kinds_are_limited_separately_and_suppressed_lines_are_not_formatted() {
        let mut formatted = 0;
        for _ in 0..1000 {
            info("test: many", || {
                formatted += 1;
                "one of many".to_owned()
            });
        }
        assert!(formatted < 1000, "{formatted}");
        let mut is_written = false;
        info("test: one", || {
            is_written = true;
            "one".to_owned()
        });
        assert!(is_written);
    }

    #[test]
    fn no_limit_means_every_line() {
        let now = Instant::now();
        let mut bucket = Bucket::full(0, now);
        assert!((0..100).all(|_| bucket.take(0, now) == Some(0)));
    }
}
