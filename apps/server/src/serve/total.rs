//! The total time of datagrams: from the arrival in the kernel until the answers have left.

use crate::admin::StepTiming;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The sum of all threads, of the datagrams at which a message was sent.
#[derive(Debug, Default)]
pub(crate) struct Total {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl Total {
    /// Adds the datagrams that arrived at the times `arrivals` since the Unix epoch and have been
    /// answered now, and removes them.
    pub(crate) fn add(&self, arrivals: &mut Vec<Duration>) {
        if arrivals.is_empty() {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.add_at(now, arrivals);
    }

    fn add_at(&self, now: Duration, arrivals: &mut Vec<Duration>) {
        self.count.fetch_add(arrivals.len() as u64, Ordering::Relaxed);
        let spent: Duration = arrivals.drain(..).map(|at| now.saturating_sub(at)).sum();
        self.nanoseconds.fetch_add(spent.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The step for operators, if there was a datagram.
    pub(crate) fn step(&self) -> Option<(String, StepTiming)> {
        let count = self.count.load(Ordering::Relaxed);
        let nanoseconds = self.nanoseconds.load(Ordering::Relaxed);
        (count > 0).then(|| ("total".to_owned(), StepTiming { count, nanoseconds }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_from_arrival_to_answer_are_added_up() {
        let total = Total::default();
        total.add(&mut Vec::new());
        assert_eq!(total.step(), None);
        let at = Duration::from_nanos;
        let mut arrivals = vec![at(1000), at(1200)];
        total.add_at(at(1500), &mut arrivals);
        assert!(arrivals.is_empty());
        // The wall clock has been set back in the meantime.
        total.add_at(at(100), &mut vec![at(200)]);
        let step = StepTiming { count: 3, nanoseconds: 800 };
        assert_eq!(total.step(), Some(("total".to_owned(), step)));
    }
}
