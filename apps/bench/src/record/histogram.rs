//! Delays as HDR histograms.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sip::Duration;

/// Three significant digits: a resolution of 0.1 %.
const DIGITS: u8 = 3;

/// Returns an empty histogram of microseconds with `digits` significant digits. It resizes itself,
/// so it takes any value.
pub(crate) fn growing(digits: u8) -> Hdr<u64> {
    // Most delays are below this bound, so resizing during a load is rare.
    let mut histogram =
        Hdr::new_with_bounds(1, 60_000_000, digits).expect("the bounds are in order");
    histogram.auto(true);
    histogram
}

/// The delays of many events in microseconds, with a resolution of 0.1 %. Minimum, maximum and mean
/// are exact.
///
/// The JSON form is an object with a summary for readers and, under `hdr`, the whole histogram in
/// the V2 compressed format of HdrHistogram in base64, which other tools read too. A percentile is
/// null if there are too few events for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    hdr: Hdr<u64>,
    min: u64,
    max: u64,
    /// The sum of all delays in microseconds.
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { hdr: growing(DIGITS), min: u64::MAX, max: 0, sum: 0 }
    }
}

/// Encodes a histogram in the V2 compressed format of HdrHistogram, in base64.
///
/// # Errors
/// A message if the histogram cannot be serialised.
pub(crate) fn encode(histogram: &Hdr<u64>) -> Result<String, String> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| format!("{error:?}"))?;
    Ok(STANDARD.encode(bytes))
}

/// Adds to `histogram` the output of [`encode`]; every value is kept exactly.
///
/// # Errors
/// A message if `text` is not a histogram, or has another number of digits.
pub(crate) fn decode_into(histogram: &mut Hdr<u64>, text: &str) -> Result<(), String> {
    let bytes = STANDARD.decode(text).map_err(|error| format!("hdr is no base64: {error}"))?;
    let read: Hdr<u64> = hdrhistogram::serialization::Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| format!("hdr is no histogram: {error:?}"))?;
    if read.sigfig() != histogram.sigfig() {
        return Err("hdr is a histogram with other digits".to_owned());
    }
    histogram.add(&read).map_err(|error| format!("hdr is a histogram that does not fit: {error:?}"))
}

/// Returns true if `count` events suffice to tell this percentile from the maximum.
pub(crate) fn tells(count: u64, percent: f64) -> bool {
    let beyond = count as f64 * (100.0 - percent) / 100.0;
    // One event is enough for the median; other percentiles need an event beyond them.
    count > 0 && (percent <= 50.0 || beyond >= 0.999)
}

/// The percentiles of all summaries, in percent.
pub(crate) const PERCENTILES: [f64; 6] = [50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

impl Histogram {
    /// Records one event with the given delay.
    pub(crate) fn record(&mut self, delay: Duration) {
        let micros = delay.as_micros();
        // The histogram resizes itself, so recording cannot fail.
        let _ = self.hdr.record(micros);
        self.min = self.min.min(micros);
        self.max = self.max.max(micros);
        self.sum = self.sum.saturating_add(micros);
    }

    /// Adds the events of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        // The histogram resizes itself, so adding cannot fail.
        let _ = self.hdr.add(&other.hdr);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// Returns the number of recorded events.
    pub(crate) fn count(&self) -> u64 {
        self.hdr.len()
    }

    /// Returns true if no event was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.hdr.is_empty()
    }

    /// Returns the delay in microseconds that `percent` of the events did not exceed, or 0 if there
    /// are no events.
    pub(crate) fn percentile(&self, percent: f64) -> u64 {
        if self.is_empty() {
            return 0;
        }
        self.hdr.value_at_percentile(percent).clamp(self.min, self.max)
    }

    /// Returns the percentile, or `None` if no event lies beyond it: it would only be the maximum.
    pub(crate) fn told(&self, percent: f64) -> Option<u64> {
        tells(self.count(), percent).then(|| self.percentile(percent))
    }

    /// Returns the shortest delay in microseconds, or 0 if there are no events.
    pub(crate) fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min }
    }

    /// Returns the longest delay in microseconds, or 0 if there are no events.
    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// Returns the mean delay in microseconds, or 0 if there are no events.
    pub(crate) fn mean(&self) -> f64 {
        if self.is_empty() { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// Returns the standard deviation in microseconds, or 0 if there are no events.
    pub(crate) fn deviation(&self) -> f64 {
        self.hdr.stdev()
    }

    /// Yields each delay that occurred, in microseconds, with its number of events.
    pub(crate) fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let steps = self.hdr.iter_recorded();
        steps
            .map(|step| (step.value_iterated_to().clamp(self.min, self.max), step.count_at_value()))
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    count: u64,
    min_us: u64,
    mean_us: f64,
    p50_us: Option<u64>,
    p90_us: Option<u64>,
    p95_us: Option<u64>,
    p99_us: Option<u64>,
    p99_9_us: Option<u64>,
    p99_99_us: Option<u64>,
    max_us: u64,
    /// The sum of all delays; absent in older records.
    #[serde(default)]
    sum_us: Option<u64>,
    hdr: String,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let hdr = encode(&self.hdr).map_err(serde::ser::Error::custom)?;
        let [p50_us, p90_us, p95_us, p99_us, p99_9_us, p99_99_us] =
            PERCENTILES.map(|percent| self.told(percent));
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
            sum_us: Some(self.sum),
            hdr,
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let mut histogram = Self::default();
        decode_into(&mut histogram.hdr, &written.hdr).map_err(D::Error::custom)?;
        if histogram.is_empty() {
            return Ok(histogram);
        }
        if written.min_us > written.max_us {
            return Err(D::Error::custom("the shortest delay is longer than the longest"));
        }
        (histogram.min, histogram.max) = (written.min_us, written.max_us);
        histogram.sum =
            written.sum_us.unwrap_or((written.mean_us * histogram.count() as f64) as u64);
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
        assert_eq!((read.min(), read.max()), (0, 600_000_000));
        // The form that earlier versions wrote.
        let mut older: serde_json::Value = serde_json::from_str(&text).unwrap();
        older.as_object_mut().unwrap().remove("sum_us");
        let older: Histogram = serde_json::from_value(older).unwrap();
        assert!((older.mean() - read.mean()).abs() < 1.0);
        let wrong = text.replace("\"min_us\":0", "\"min_us\":600000001");
        assert!(serde_json::from_str::<Histogram>(&wrong).is_err());
    }

    #[test]
    fn no_delay_is_too_long() {
        const HOUR: u64 = 3_600_000_000;
        let mut long = Histogram::default();
        for micros in [1, HOUR, 24 * HOUR, u64::MAX / 4] {
            long.record(Duration::from_micros(micros));
        }
        let mut all = Histogram::default();
        all.record(Duration::from_micros(5));
        all.merge(&long);
        assert_eq!((all.count(), all.min(), all.max()), (5, 1, u64::MAX / 4));
        let day = all.percentile(80.0);
        assert!(day.abs_diff(24 * HOUR) <= 24 * HOUR / 1000, "{day}");
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), all);
    }

    #[test]
    fn percentiles_are_told_of_events_that_there_are() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.told(50.0), None);
        for (count, told) in [(1, 1), (9, 1), (10, 2), (20, 3), (99, 3), (100, 4), (999, 4)] {
            while histogram.count() < count {
                histogram.record(Duration::from_micros(110_000));
            }
            let all = PERCENTILES.map(|percent| histogram.told(percent));
            assert_eq!(all.iter().flatten().count(), told, "of {count}: {all:?}");
            // All percentiles of a single delay are that delay.
            assert!(all.iter().flatten().all(|&micros| micros == 110_000), "{all:?}");
            assert_eq!(histogram.mean(), 110_000.0);
        }
    }

    #[test]
    fn json_has_null_for_percentiles_of_too_few_events_and_numbers_of_older_records_are_read() {
        let mut histogram = Histogram::default();
        for count in [0, 1, 10, 100, 1000] {
            while histogram.count() < count {
                histogram.record(Duration::from_micros(110_000));
            }
            let written = serde_json::to_value(&histogram).unwrap();
            let names = ["p50_us", "p90_us", "p95_us", "p99_us", "p99_9_us", "p99_99_us"];
            for (name, percent) in names.into_iter().zip(PERCENTILES) {
                assert_eq!(
                    written[name],
                    serde_json::json!(histogram.told(percent)),
                    "{name} of {count}"
                );
            }
            let mut older = written.clone();
            for name in names {
                older[name] = histogram.percentile(99.99).into();
            }
            for json in [written, older] {
                assert_eq!(serde_json::from_value::<Histogram>(json).unwrap(), histogram);
            }
        }
    }
}
