//! What a sender knows of its own stream, for its reports (RFC 3550 section 6.4.1).

use crate::ntp::NtpTime;
use crate::rtcp::SenderInfo;
use core::time::Duration;

/// The stream of one source.
#[derive(Clone, Debug)]
pub struct Transmission {
    clock_rate: u32,
    packets: u32,
    bytes: u32,
    /// The timestamp of the newest packet, and the time of day of its first sample.
    newest: Option<(u32, Duration)>,
}

impl Transmission {
    /// A stream whose payload has this clock, in Hz.
    #[must_use]
    pub fn new(clock_rate: u32) -> Self {
        Self { clock_rate, packets: 0, bytes: 0, newest: None }
    }

    /// Counts a packet with so many bytes of payload, padding not among them, whose first sample
    /// was taken at `sampled`, a span since the Unix epoch.
    pub fn sent(&mut self, timestamp: u32, payload: usize, sampled: Duration) {
        self.packets = self.packets.wrapping_add(1);
        // Both counts are modulo 2^32, as reports have them.
        self.bytes = self.bytes.wrapping_add(payload as u32);
        self.newest = Some((timestamp, sampled));
    }

    /// What to report at `now`, a span since the Unix epoch; `None` if nothing has been sent.
    #[must_use]
    pub fn report(&self, now: Duration) -> Option<SenderInfo> {
        let (timestamp, sampled) = self.newest?;
        let units =
            |span: Duration| (span.as_nanos() * u128::from(self.clock_rate) / 1_000_000_000) as u32;
        // The timestamp that a sample taken now would have; `now` may be read before a packet's
        // time.
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
    fn reports_tell_what_was_sent_and_the_timestamp_of_now() {
        let mut transmission = Transmission::new(8000);
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
