//! Times on the command line.

use std::time::SystemTime;

/// Parses a date, a date and time in UTC, or a duration before now.
///
/// # Errors
/// A message for the operator.
pub(crate) fn parse(text: &str) -> Result<SystemTime, String> {
    parse_at(text, SystemTime::now())
}

fn parse_at(text: &str, now: SystemTime) -> Result<SystemTime, String> {
    if let Ok(duration) = humantime::parse_duration(text) {
        return now.checked_sub(duration).ok_or_else(|| format!("{text} is too long ago"));
    }
    // A date, or a time without seconds, is completed.
    let completed = ["", ":00", "T00:00:00"].map(|rest| format!("{text}{rest}"));
    completed.iter().find_map(|text| humantime::parse_rfc3339_weak(text).ok()).ok_or_else(|| {
        "expected a date, a date and time in UTC or a duration before now, such as 2026-11-27, \
         \"2026-11-27 10:00\" or 2h"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn times_have_several_forms() {
        let day = 1_700_006_400;
        let now = UNIX_EPOCH + Duration::from_secs(day + 86_400);
        for (text, seconds) in [
            ("2023-11-15", day),
            ("2023-11-15 01:02", day + 3720),
            ("2023-11-15T01:02:03", day + 3723),
            ("2023-11-15T01:02:03Z", day + 3723),
            ("1day", day),
            ("90m", day + 86_400 - 5400),
        ] {
            let time = parse_at(text, now).unwrap();
            assert_eq!(time.duration_since(UNIX_EPOCH).unwrap().as_secs(), seconds, "{text}");
        }
        for text in ["", "yesterday", "2023-13-01"] {
            assert!(parse_at(text, now).is_err(), "{text}");
        }
    }
}
