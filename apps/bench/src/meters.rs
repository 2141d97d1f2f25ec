//! The measurement of the resources of the system under test during a load.

use sip::Duration;
use std::time::Instant;

/// A receiver of the limits of accounted periods, at which the resource use of the system under
/// test is read.
pub(crate) trait Meters {
    /// The load starts or continues.
    fn begin(&mut self);
    /// The measurement of `length` from `start` is at `at` in the series.
    fn measured(&mut self, at: Duration, start: Instant, length: Duration);
    /// The load ends or pauses.
    fn end(&mut self);
}

/// No resource measurement.
impl Meters for () {
    fn begin(&mut self) {}
    fn measured(&mut self, _: Duration, _: Instant, _: Duration) {}
    fn end(&mut self) {}
}
