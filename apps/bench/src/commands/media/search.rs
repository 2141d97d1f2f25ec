//! The search for the highest number of simultaneous calls: whole numbers, and confirmations.

use crate::commands::limit::Search;

/// The precision of a search, and the highest number of calls.
const PRECISION: f64 = 0.05;
const MOST: f64 = 20_000.0;

/// The state of a search.
#[derive(Debug)]
pub(super) struct CallSearch {
    search: Search,
    /// The lowest number that failed.
    failed: f64,
    /// The repeats that the highest number has to pass, and those that it has passed.
    wanted: u32,
    pub(super) confirmed: u32,
}

impl CallSearch {
    pub(super) const fn new(wanted: u32) -> Self {
        Self { search: Search::new(PRECISION, 1.0), failed: f64::MAX, wanted, confirmed: 0 }
    }

    /// Returns the number to try after `calls`, with the result of that; `None` when the search has
    /// ended.
    pub(super) fn next(&mut self, calls: f64, has_passed: bool) -> Option<f64> {
        if !has_passed {
            self.failed = self.failed.min(calls);
            self.confirmed = 0;
        }
        let next = self.search.next(calls, has_passed).map(f64::round);
        // A rounded number may be one that has failed.
        if let Some(next) = next.filter(|next| *next <= MOST && *next != calls)
            && next < self.failed
        {
            self.confirmed = 0;
            return Some(next);
        }
        // The first run of the highest number that passed is no confirmation.
        let passed = self.search.passed()?;
        if self.confirmed == self.wanted {
            return None;
        }
        self.confirmed += 1;
        Some(passed)
    }

    /// Returns the highest number that has passed.
    pub(super) const fn passed(&self) -> Option<f64> {
        self.search.passed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers that are tried from `first`, if those below `limit` pass.
    fn tried(first: f64, limit: f64, wanted: u32) -> (Vec<f64>, Option<f64>, u32) {
        let mut search = CallSearch::new(wanted);
        let mut all = vec![first];
        while let Some(next) = search.next(all[all.len() - 1], all[all.len() - 1] < limit) {
            all.push(next);
            assert!(all.len() < 100, "{all:?}");
        }
        (all, search.passed(), search.confirmed)
    }

    #[test]
    fn a_search_ends_between_whole_numbers() {
        for limit in 1..60 {
            let (all, passed, confirmed) = tried(2.0, f64::from(limit), 2);
            let highest = f64::from(limit - 1);
            if limit == 1 {
                assert_eq!((all, passed), (vec![2.0, 1.0], None));
                continue;
            }
            let passed = passed.expect("a number");
            assert!(passed <= highest && passed >= highest * 0.9, "{passed} of {highest}");
            assert_eq!(all[all.len() - 2..], [passed; 2], "{all:?}");
            assert_eq!(confirmed, 2);
        }
    }

    #[test]
    fn a_number_that_fails_its_confirmation_is_not_the_limit() {
        let mut search = CallSearch::new(1);
        let results = [(8.0, true, 16.0), (16.0, false, 12.0), (12.0, false, 10.0)];
        for (calls, has_passed, next) in results {
            assert_eq!(search.next(calls, has_passed), Some(next));
        }
        assert_eq!(search.next(10.0, false), Some(9.0));
        // Nine fails, and then eight, which has passed before.
        assert_eq!(search.next(9.0, false), Some(8.0));
        assert_eq!(search.next(8.0, false), Some(4.0));
        assert_eq!(search.confirmed, 0);
    }

    #[test]
    fn a_search_ends_at_the_highest_number() {
        let (all, passed, confirmed) = tried(10_000.0, f64::MAX, 1);
        assert_eq!((all, passed), (vec![10_000.0, 20_000.0, 20_000.0], Some(20_000.0)));
        assert_eq!(confirmed, 1);
    }
}
