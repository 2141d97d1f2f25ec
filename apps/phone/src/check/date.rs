//! The Date header field (RFC 3261 section 20.17).

use std::time::{Duration, SystemTime};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses a SIP date such as `Sat, 13 Nov 2010 23:29:00 GMT`.
pub(super) fn parse(value: &[u8]) -> Option<SystemTime> {
    let text = std::str::from_utf8(value).ok()?;
    let (_, text) = text.split_once(',')?;
    let mut words = text.split_whitespace();
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| name.eq_ignore_ascii_case(month))? as u64;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut time = words.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let [hour, minute, second] = [time.next()??, time.next()??, time.next()??];
    if words.next()? != "GMT" || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Years are counted from March: the leap day is the last one.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let leap_days = year / 4 - year / 100 + year / 400;
    let days = year * 365 + leap_days + (month * 306 + 5) / 10 + day - 1;
    // Days from 1 March of the year 0 to 1 January 1970.
    let days = days.checked_sub(719_468)?;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read() {
        for (text, wanted) in [
            ("Sat, 13 Nov 2010 23:29:00 GMT", "2010-11-13T23:29:00Z"),
            ("Thu, 29 Feb 2024 00:00:01 GMT", "2024-02-29T00:00:01Z"),
            ("Thu, 01 Jan 1970 00:00:00 GMT", "1970-01-01T00:00:00Z"),
            ("Sun, 31 Dec 2000 12:00:00 GMT", "2000-12-31T12:00:00Z"),
        ] {
            let time = parse(text.as_bytes()).unwrap();
            assert_eq!(humantime::format_rfc3339_seconds(time).to_string(), wanted);
        }
        for wrong in [
            "",
            "now",
            "Sat, 13 Nov 2010 23:29:00 CET",
            "Sat, 0 Nov 2010 1:1:1 GMT",
            "a, 1 Jan 1 1:1 GMT",
        ] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
