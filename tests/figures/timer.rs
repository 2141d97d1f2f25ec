//! The timer accuracy of the machine: a thread that wakes every 20 ms.

use crate::table::{figure, median};
use std::time::{Duration, Instant};

const FRAME: Duration = Duration::from_millis(20);

/// The sorted times between wake-ups in milliseconds.
pub(crate) struct Wakings(Vec<f64>);

/// Wakes every 20 ms for `span`.
pub(crate) fn wake(span: Duration) -> Wakings {
    let begun = Instant::now();
    let (mut due, mut last) = (begun, None);
    let mut deltas = Vec::new();
    while begun.elapsed() < span {
        due += FRAME;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        deltas.extend(last.replace(now).map(|last| (now - last).as_secs_f64() * 1e3));
    }
    deltas.sort_by(f64::total_cmp);
    Wakings(deltas)
}

/// A row of the table of medians.
pub(crate) fn row(rounds: &[Wakings]) -> Vec<String> {
    let of = |index: fn(usize) -> usize| {
        let each = rounds.iter().filter_map(|round| round.0.get(index(round.0.len()))).copied();
        figure(median(each.collect()), 2)
    };
    let none = || "-".to_owned();
    vec![
        "a bare timer".to_owned(),
        none(),
        rounds.len().to_string(),
        none(),
        of(|count| (count * 999).div_ceil(1000).saturating_sub(1)),
        of(|count| count.saturating_sub(1)),
        none(),
        none(),
    ]
}
