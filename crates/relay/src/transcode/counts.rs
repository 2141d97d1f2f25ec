//! The counters of a conversion.

/// Counters of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conversions {
    /// Packets that came after later ones were processed.
    pub late: u64,
    /// Packets that came twice.
    pub repeated: u64,
    /// Packets that did not come in time, by their sequence numbers.
    pub missing: u64,
    /// Packets over the limit of sound for each second of time.
    pub excess: u64,
    /// Packets that cannot be converted: too long, not of their codec, or of an event that the
    /// other end does not take.
    pub unusable: u64,
}
