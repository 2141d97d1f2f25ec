//! The lines of a session or medium: type and value.

use core::fmt;

/// The replacement for a missing or undecodable value or word. It is also the name of a session
/// without a name (RFC 8866 section 5.3).
pub(crate) const NO_TEXT: &str = "-";

pub(crate) fn values<'a>(lines: &[(char, &'a str)], letter: char) -> impl Iterator<Item = &'a str> {
    lines.iter().filter(move |line| line.0 == letter).map(|line| line.1)
}

/// The values of the attributes with this name (case-insensitive), without surrounding spaces.
pub(crate) fn attributes<'a>(
    lines: &[(char, &'a str)],
    name: &str,
) -> impl Iterator<Item = &'a str> {
    values(lines, 'a').filter_map(move |line| {
        let (found, value) = line.split_once(':').unwrap_or((line, ""));
        found.trim().eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

pub(crate) fn write_lines(lines: &[(char, &str)], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    lines.iter().try_for_each(|(letter, value)| write!(f, "{letter}={value}\r\n"))
}
