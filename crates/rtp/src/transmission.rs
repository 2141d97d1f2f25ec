//! The sender statistics of a stream, for sender reports (RFC 3550 section 6.4.1).

use crate::ntp::NtpTime;
use crate::rtcp::SenderInfo;
use core::time::Duration;

/// The stream of one source.
#[derive(Clone, Debug)]
pub struct SenderStats {
    clock_rate: u32,
    packets: u32,
    bytes: u32,
    /// The timestamp of the newest packet, and the wall-clock time of its first sample.
    newest: Option<(u32, Duration)>,
}

impl SenderStats {
    /// Creates the statistics of a stream with the payload's clock rate in Hz.
    #[must_use]
    pub fn new(clock_rate: u32) -> Self {
        Self { clock_rate, packets: 0, bytes: 0, newest: None }
    }

    /// Counts a packet with `payload` bytes of payload, without padding. `sampled` is the time of
    /// its first sample, as a duration since the Unix epoch.
    pub fn sent(&mut self, timestamp: u32, payload: usize, sampled: Duration) {
        self.packets = self.packets.wrapping_add(1);
        // Both counters wrap at 2^32, as in reports.
        self.bytes = self.bytes.wrapping_add(payload as u32);
        self.newest = Some((timestamp, sampled));
    }

    /// Returns the sender information at `now`, a duration since the Unix epoch, or `None` if no
    /// packet was sent.
    #[must_use]
    pub fn report(&self, now: Duration) -> Option<SenderInfo> {
        let (timestamp, sampled) = self.newest?;
        let units =
            |span: Duration| (span.as_nanos() * u128::from(self.clock_rate) / 1_000_000_000) as u32;
        // The timestamp of a sample taken now. `now` may be earlier than the time of the newest
        // packet.
        let timestamp = match now.checked_sub(sampled) {
            Some(since) => timestamp.wrapping_add(units(since)),
            None => timestamp.wrapping_sub(units(sampled - now)),
        };
        let ntp_time = NtpTime::from_unix(now);
        Some(SenderInfo { ntp_time, timestamp, packets: self.packets, bytes: self.bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_contain_the_counters_and_the_current_timestamp() {
        let mut transmission = SenderStats::new(8000);
        let second = Duration::from_secs(1_700_000_000);
        assert_eq!(transmission.report(second), None);
        for number in 0..50 {
            let sampled = second + Duration::from_millis(20) * number;
            transmission.sent((u32::MAX - 100).wrapping_add(160 * number), 160, sampled);
        }
        let report = transmission.report(second + Duration::from_secs(1)).unwrap();
        assert_eq!((report.packets, report.bytes), (50, 8000));
        assert_eq!(report.timestamp, (u32::MAX - 100).wrapping_add(8000));
        assert_eq!(report.ntp_time, NtpTime::from_unix(second + Duration::from_secs(1)));
        let early = transmission.report(second + Duration::from_millis(970)).unwrap();
        assert_eq!(early.timestamp, (u32::MAX - 100).wrapping_add(8000 - 240));
    }
}
