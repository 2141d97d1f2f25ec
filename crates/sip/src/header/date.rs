//! The Date header field.

use crate::encode::write_decimal;
use crate::time::Instant;
use alloc::vec::Vec;

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Appends the value of a Date header field for `when`, such as `Sat, 13 Nov 2010 23:29:00 GMT`
/// (RFC 3261 section 20.17).
pub fn write_date(out: &mut Vec<u8>, when: Instant) {
    let seconds = when.as_secs();
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let two = |number: u64| [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8];
    out.extend_from_slice(WEEKDAYS[(days % 7) as usize].as_bytes());
    out.extend_from_slice(b", ");
    out.extend_from_slice(&two(day));
    out.push(b' ');
    out.extend_from_slice(MONTHS[month].as_bytes());
    out.push(b' ');
    write_decimal(out, year);
    for (before, number) in
        [(b' ', second_of_day / 3600), (b':', second_of_day / 60 % 60), (b':', second_of_day % 60)]
    {
        out.push(before);
        out.extend_from_slice(&two(number));
    }
    out.extend_from_slice(b" GMT");
}

/// The year, month (from 0) and day (from 1) of the day `days` after 1 January 1970.
fn civil(days: u64) -> (u64, usize, u64) {
    // Years start in March, so that a leap day is the last day. An era is 400
    // years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = ((month_from_march + 2) % 12) as usize;
    let year = era * 400 + year_of_era + u64::from(month < 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(seconds: u64) -> std::string::String {
        let mut out = Vec::new();
        write_date(&mut out, Instant::from_micros(seconds * 1_000_000 + 999_999));
        std::string::String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_match_the_calendar() {
        for (seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            // The example of RFC 3261.
            (1_289_690_940, "Sat, 13 Nov 2010 23:29:00 GMT"),
            (951_782_399, "Mon, 28 Feb 2000 23:59:59 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (1_709_251_199, "Thu, 29 Feb 2024 23:59:59 GMT"),
            (1_709_251_200, "Fri, 01 Mar 2024 00:00:00 GMT"),
            (1_767_225_599, "Wed, 31 Dec 2025 23:59:59 GMT"),
            (4_107_542_400, "Mon, 01 Mar 2100 00:00:00 GMT"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }

    #[test]
    fn consecutive_days_have_consecutive_dates() {
        let mut last = civil(0);
        for days in 1..200_000 {
            let next = civil(days);
            let (year, month, day) = last;
            let is_next = next == (year, month, day + 1)
                || (next == (year, month + 1, 1) && day >= 28)
                || (next == (year + 1, 0, 1) && (month, day) == (11, 31));
            assert!(is_next, "{last:?} {next:?}");
            last = next;
        }
    }

    #[test]
    fn the_latest_time_is_written() {
        let mut out = Vec::new();
        write_date(&mut out, Instant::MAX);
        assert!(out.ends_with(b"GMT"));
    }
}
