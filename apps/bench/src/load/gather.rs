//! The progress of a load, summed over its workers.

use super::worker::Shared;
use crate::record::Second;
use hdrhistogram::Histogram as Hdr;
use std::sync::PoisonError;

/// Returns the last second of all workers or agents with its number, once all `tellers` have
/// published it.
pub(crate) fn gather(shared: &Shared, tellers: usize) -> Option<(u64, Second, Hdr<u64>)> {
    let glances = shared.glances.lock().unwrap_or_else(PoisonError::into_inner);
    let mut told = glances.iter().flatten();
    let first = told.next()?;
    let (mut second, mut response) = (first.second.clone(), first.response.clone());
    let mut count = 1;
    for glance in told {
        count += 1;
        second.offered += glance.second.offered;
        second.succeeded += glance.second.succeeded;
        second.failed += glance.second.failed;
        second.retransmitted += glance.second.retransmitted;
        second.in_flight += glance.second.in_flight;
        // The histogram resizes itself, so adding cannot fail.
        let _ = response.add(&glance.response);
    }
    (count == tellers).then_some((first.number, second, response))
}
