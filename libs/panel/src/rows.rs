//! Members of rows of JSON, as pages show them.

use serde_json::Value;

/// The text of the member `name`: of a number its digits, of a missing one an empty text.
pub(crate) fn text(row: &Value, name: &str) -> String {
    match &row[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The whole number in the member `name`.
pub(crate) fn number(row: &Value, name: &str) -> Option<u64> {
    row[name].as_u64()
}

/// A duration in seconds in words, such as `1 h 5 min`.
pub(crate) fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// The time of day of `seconds` since 1970 in UTC, such as `2026-11-28 15:04:05`.
pub(crate) fn time(seconds: u64) -> String {
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// The beginning of a day such as `2026-11-28` in UTC, in seconds since 1970.
pub(crate) fn day(text: &str) -> Option<u64> {
    let mut parts = text.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let is_date = (1970..=2999).contains(&year) && parts.next().is_none();
    // At most 366 days of each year before.
    let mut days = (year.saturating_sub(1970)) * 365 + (year.saturating_sub(1969)) / 4;
    days = days.saturating_sub(40);
    let found = (days..days + 420).find(|days| date(*days) == (year, month, day));
    found.filter(|_| is_date).map(|days| days * 86_400)
}

/// Year, month and day of the day `days` since 1970-01-01 in the Gregorian calendar.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March, so that the leap day is the last one: the algorithm of Howard Hinnant.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

/// A field of CSV (RFC 4180). A spreadsheet takes no text for a formula.
pub(crate) fn csv(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    match guard.is_empty() && !text.contains(['"', ',', '\n', '\r']) {
        true => text.to_owned(),
        false => format!("\"{guard}{}\"", text.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_are_shown() {
        let row = json!({ "a": "x", "b": 5, "c": null });
        assert_eq!([text(&row, "a"), text(&row, "b"), text(&row, "c")], ["x", "5", ""]);
        assert_eq!((number(&row, "b"), number(&row, "d")), (Some(5), None));
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(3_660), "1 h 1 min");
        assert_eq!(duration(90_000), "1 d 1 h");
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(time(0), "1970-01-01 00:00:00");
        assert_eq!(time(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(time(1_796_051_045), "2026-11-30 15:04:05");
        for days in (0..60_000).step_by(13) {
            let text = time(days * 86_400);
            assert_eq!(day(&text[..10]), Some(days * 86_400), "{text}");
        }
        for bad in ["", "2026-02-30", "2026-13-01", "3000-01-01", "1969-12-31", "2026-1-1-1", "x"] {
            assert_eq!(day(bad), None, "{bad}");
        }
    }

    #[test]
    fn fields_of_csv_are_quoted_and_no_formulas() {
        assert_eq!(csv("alice"), "alice");
        assert_eq!(csv("a\"b,c"), "\"a\"\"b,c\"");
        assert_eq!(csv("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
    }
}
