//! Delays as HDR histograms.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sip::Duration;

/// Three significant digits: a delay is known to a part in a thousand.
const DIGITS: u8 = 3;

/// The delays of many events, in microseconds, each to a part in a thousand.
///
/// In JSON it is an object with a summary for people and, under `hdr`, the whole histogram in the V2
/// compressed format of HdrHistogram, in base64, which other tools read too.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram(Hdr<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(Hdr::new_with_bounds(1, 60_000_000, DIGITS).expect("the bounds are in order"))
    }
}

/// A histogram in the V2 compressed format of HdrHistogram, in base64.
///
/// # Errors
/// In words, where it has no such form.
pub(crate) fn encode(histogram: &Hdr<u64>) -> Result<String, String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| format!("{error:?}"))?;
    Ok(STANDARD.encode(bytes))
}

/// Adds to `histogram` what [`encode`] has written, with every value kept as it is.
///
/// # Errors
/// In words, where it is no histogram, or one with other bounds.
pub(crate) fn decode_into(histogram: &mut Hdr<u64>, text: &str) -> Result<(), String> {
    let bytes = STANDARD.decode(text).map_err(|error| format!("hdr is no base64: {error}"))?;
    let read: Hdr<u64> = hdrhistogram::serialization::Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| format!("hdr is no histogram: {error:?}"))?;
    let is_alike = read.sigfig() == histogram.sigfig() && read.high() <= histogram.high();
    if !is_alike {
        return Err("hdr is a histogram with other bounds".to_owned());
    }
    histogram.add(&read).map_err(|error| format!("hdr is a histogram that does not fit: {error:?}"))
}

/// The percentiles that are told everywhere, in percent.
pub(crate) const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

impl Histogram {
    /// Counts one event that took `delay`. What took longer than a minute counts as a minute.
    pub(crate) fn record(&mut self, delay: Duration) {
        self.0.saturating_record(delay.as_micros());
    }

    /// Adds what `other` has counted.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.0 += &other.0;
    }

    /// How many events were counted.
    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// Whether nothing was counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The delay, in microseconds, that `percent` of the events did not exceed; 0 if there are none.
    pub(crate) fn percentile(&self, percent: f64) -> u64 {
        self.0.value_at_percentile(percent)
    }

    /// The shortest delay in microseconds; 0 if there are none.
    pub(crate) fn min(&self) -> u64 {
        self.0.min()
    }

    /// The longest delay in microseconds; 0 if there are none.
    pub(crate) fn max(&self) -> u64 {
        self.0.max()
    }

    /// The mean delay in microseconds; 0 if there are none.
    pub(crate) fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// The standard deviation in microseconds; 0 if there are none.
    pub(crate) fn deviation(&self) -> f64 {
        self.0.stdev()
    }

    /// Each delay that occurred, in microseconds, and how many events had it.
    pub(crate) fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value()))
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    count: u64,
    min_us: u64,
    mean_us: f64,
    p50_us: u64,
    p90_us: u64,
    p95_us: u64,
    p99_us: u64,
    p99_9_us: u64,
    p99_99_us: u64,
    max_us: u64,
    hdr: String,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hdr = encode(&self.0).map_err(serde::ser::Error::custom)?;
        let [p50_us, p90_us, p95_us, p99_us, p99_9_us, p99_99_us] =
            PERCENTILES.map(|percent| self.percentile(percent));
        Written {
            count: self.count(),
            min_us: self.min(),
            mean_us: self.mean(),
            p50_us,
            p90_us,
            p95_us,
            p99_us,
            p99_9_us,
            p99_99_us,
            max_us: self.max(),
            hdr,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let mut histogram = Self::default();
        decode_into(&mut histogram.0, &written.hdr).map_err(D::Error::custom)?;
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_survives_being_written() {
        let mut histogram = Histogram::default();
        for micros in [0, 1, 57, 1_000, 999_999, 600_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let text = serde_json::to_string(&histogram).unwrap();
        let read: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!(read, histogram);
        assert_eq!(read.count(), 6);
    }
}
