//! NTP timestamps of RTCP (RFC 3550 section 4).

use core::time::Duration;

/// Seconds between the beginning of 1900 and the beginning of 1970.
const UNIX_EPOCH: u64 = 2_208_988_800;

/// An NTP timestamp: seconds since the beginning of 1900, times 2^32, modulo 2^64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NtpTime(pub u64);

impl NtpTime {
    /// Converts a duration since the Unix epoch.
    #[must_use]
    pub fn from_unix(time: Duration) -> Self {
        let seconds = time.as_secs().wrapping_add(UNIX_EPOCH) << 32;
        Self(seconds | ((u64::from(time.subsec_nanos()) << 32) / 1_000_000_000))
    }

    /// The middle 32 bits, which identify a time in reports.
    #[must_use]
    pub fn compact(self) -> u32 {
        (self.0 >> 16) as u32
    }
}

/// Converts a duration to 65,536ths of a second, the unit of reports. Saturates.
#[must_use]
pub fn to_ntp_short(span: Duration) -> u32 {
    u32::try_from((span.as_nanos() << 16) / 1_000_000_000).unwrap_or(u32::MAX)
}

/// Converts 65,536ths of a second to a duration.
#[must_use]
pub fn from_ntp_short(span: u32) -> Duration {
    Duration::from_nanos((u64::from(span) * 1_000_000_000) >> 16)
}

/// The round-trip time (RFC 3550 section 6.4.1), from the time at which a report arrived and from
/// the report's middle bits of the last sender report and its delay since then. Returns `None` if
/// the report knows of no sender report or its values are impossible.
#[must_use]
pub fn round_trip(arrival: NtpTime, last_sender_report: u32, delay: u32) -> Option<Duration> {
    if last_sender_report == 0 {
        return None;
    }
    let span = arrival.compact().wrapping_sub(last_sender_report).wrapping_sub(delay);
    // A clock that was set in between makes the value negative.
    (span < 1 << 31).then(|| from_ntp_short(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_3550() {
        // Figure 2: last sender report 0xb705:2000, delay 5.250 s, arrival 0xb710:8000. The
        // round-trip time is 6.125 s.
        let arrival = NtpTime(0x0000_b710_8000_0000);
        assert_eq!(
            round_trip(arrival, 0xb705_2000, 0x0005_4000),
            Some(Duration::from_millis(6125))
        );
        assert_eq!(round_trip(arrival, 0, 0x0005_4000), None);
        assert_eq!(round_trip(arrival, 0xb710_8000, 1), None);
    }

    #[test]
    fn time_of_day() {
        assert_eq!(NtpTime::from_unix(Duration::ZERO).0, 2_208_988_800 << 32);
        let half = NtpTime::from_unix(Duration::from_millis(1_500));
        assert_eq!(half.0, (2_208_988_801 << 32) + (1 << 31));
        assert_eq!(half.compact(), (2_208_988_801_u64 << 16) as u32 + (1 << 15));
        assert_eq!(to_ntp_short(Duration::from_millis(5250)), 0x0005_4000);
        assert_eq!(to_ntp_short(Duration::from_secs(1 << 20)), u32::MAX);
    }
}
