//! Formatting of figures: thousands separators and significant digits.

use std::time::{Duration, UNIX_EPOCH};

/// The text for a missing figure.
pub(super) const NONE: &str = "–";

/// The last second of the year 9999: RFC 3339 has no later dates.
const LAST_SECOND: u64 = 253_402_300_799;

/// Formats a count, such as `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a measured value with three significant digits, or as an integer: `0.123`, `1.23`,
/// `12.3`, `1,235`.
pub(super) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let size = value.abs();
    let digits = match size {
        0.0 => 0,
        _ if size < 0.0095 => 4,
        _ if size < 0.995 => 3,
        _ if size < 9.995 => 2,
        _ if size < 99.95 => 1,
        _ => 0,
    };
    if digits == 0 && size < 9e15 {
        let sign = if value < 0.0 { "−" } else { "" };
        // Below 2^53, so the conversion is exact.
        return format!("{sign}{}", count(size.round() as u64));
    }
    format!("{value:.digits$}").replace('-', "−")
}

/// Formats a value of an axis as short as possible: `0.5`, `20`, `1,000`.
pub(super) fn tick(value: f64) -> String {
    if value.abs() >= 1000.0 {
        return figure(value);
    }
    // A logarithmic axis has small values, too.
    let first = -value.abs().log10().floor();
    let digits = if (5.0..=12.0).contains(&first) { first as usize } else { 4 };
    let text = format!("{value:.digits$}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.replace('-', "−") }
}

/// Formats as [`figure`], or a dash.
pub(super) fn maybe(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.to_owned(), figure)
}

/// Formats a share in percent. 100 and 0 stand only for exact values.
pub(super) fn percent(share: f64) -> String {
    let text = format!("{share:.2}");
    if !share.is_finite() {
        NONE.to_owned()
    } else if share < 100.0 && text == "100.00" {
        ">99.99 %".to_owned()
    } else if share > 0.0 && text == "0.00" {
        "<0.01 %".to_owned()
    } else {
        format!(
            "{} %",
            text.strip_suffix(".00").filter(|&text| text == "0" || text == "100").unwrap_or(&text)
        )
    }
}

/// Formats as [`percent`], or a dash.
pub(super) fn maybe_percent(share: Option<f64>) -> String {
    share.map_or_else(|| NONE.to_owned(), percent)
}

/// Formats bytes with a binary unit, such as `12.3 MiB`.
pub(super) fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{} {unit}", figure(value));
        }
        value /= 1024.0;
    }
    format!("{} TiB", figure(value))
}

/// Formats a time in seconds since the Unix epoch, such as `2024-05-01 12:00:00 UTC`.
pub(super) fn time(seconds: u64) -> String {
    if seconds > LAST_SECOND {
        return format!("{} s since 1970", count(seconds));
    }
    let text = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds));
    text.to_string().replace('T', " ").replace('Z', " UTC")
}

/// Formats a count with its noun: `1 run`, `3 runs`.
pub(super) fn counted(number: usize, name: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {name}{s}", count(number as u64))
}

/// Formats a list: `a`, `a and b`, `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// Quotes a command line for a shell.
pub(super) fn command(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_the_digits_that_are_worth_reading() {
        for (value, text) in [
            (0.0, "0"),
            (0.00123, "0.0012"),
            (0.1234, "0.123"),
            (0.999, "1.00"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (99.97, "100"),
            (1234.5, "1,235"),
            (-1234567.0, "−1,234,567"),
            (f64::NAN, NONE),
            (f64::INFINITY, NONE),
        ] {
            assert_eq!(figure(value), text, "{value}");
        }
        for (value, text) in [
            (0.5, "0.5"),
            (20.0, "20"),
            (-5.0, "−5"),
            (20_000.0, "20,000"),
            (0.0001, "0.0001"),
            (0.000_01, "0.00001"),
            (0.0, "0"),
        ] {
            assert_eq!(tick(value), text);
        }
    }

    #[test]
    fn a_share_is_whole_only_if_nothing_is_missing() {
        for (share, text) in [
            (100.0, "100 %"),
            (99.999, ">99.99 %"),
            (99.5, "99.50 %"),
            (0.001, "<0.01 %"),
            (0.0, "0 %"),
        ] {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn times_and_sizes_are_readable_whatever_they_are() {
        assert_eq!(time(1_714_564_800), "2024-05-01 12:00:00 UTC");
        assert_eq!(time(u64::MAX), "18,446,744,073,709,551,615 s since 1970");
        assert_eq!(bytes(12_900_000), "12.3 MiB");
        assert_eq!(bytes(u64::MAX), "16,777,216 TiB");
    }

    #[test]
    fn a_command_can_be_pasted() {
        let words = ["bench", "--require", "success>=100%", "it's", ""].map(str::to_owned);
        assert_eq!(command(&words), r"bench --require 'success>=100%' 'it'\''s' ''");
    }
}
