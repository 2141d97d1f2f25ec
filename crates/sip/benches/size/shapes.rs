//! Texts of any length that may be expensive to parse.

use barebell_sip::param::MAX_URI_PARAMS;
use std::fmt;

/// A rule to extend a text to any length.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// The first part once, the second repeatedly.
    Repeated(&'static str, &'static str),
    /// As `Repeated`, with a number after each second part, so that no two are equal.
    Numbered(&'static str, &'static str),
    /// The second part as often as a URI allows, with equal contents except for a number at the
    /// end.
    Few(&'static str, &'static str),
}

/// Separators, paired characters, and openings without an end.
const REPEATED: &[(&str, &str)] = &[
    ("", "a"),
    ("", "0"),
    ("", " "),
    ("", ","),
    ("", ";"),
    ("", "="),
    ("", "\""),
    ("", "\\"),
    ("", "<"),
    ("", ">"),
    ("", "("),
    ("", "["),
    ("", ":"),
    ("", "."),
    ("", "@"),
    ("", "?"),
    ("", "%"),
    ("", "\r"),
    ("", "\n"),
    ("", "\r\n"),
    ("", "\r\n "),
    ("", "\r\n a"),
    ("", "a."),
    ("", "%61"),
    ("", "(a)"),
    ("", "\"a\""),
    ("", "\"a\","),
    ("", "<a>"),
    ("", "<,>,"),
    ("", "a,"),
    ("", "a, "),
    ("", ";a"),
    ("", ";a=b"),
    ("", " ; a = \"b\""),
    ("", ";a=\"\\\""),
    ("", ";tag=a"),
    ("", ";received=a;rport;branch=b"),
    ("", "a=b,"),
    ("", "a=\"b\","),
    ("", ", realm = \"\\\"\r\n \""),
    ("", "SIP/2.0/UDP h;branch=z9hG4bKb,"),
    ("", "\"a\" <sip:a@h;lr>;q=1,"),
    ("", "\r\nl: 1"),
    ("", "\r\nVia: SIP/2.0/UDP h"),
    ("\"", "a"),
    ("\"", "\\\\"),
    ("\"", ","),
    ("<", ","),
    ("<", "\""),
    ("?", "a=b&"),
    ("?", "&"),
    (";a=\"", "\\\""),
    (";a=", "a"),
    ("(", "(a)"),
    ("\r\nl:", "\r\n "),
];

const NUMBERED: &[(&str, &str)] =
    &[("", ";p"), ("?", "&p"), ("", ";p=\""), ("", ",p="), ("", "\r\np:")];

const FEW: &[(&str, &str)] = &[("", ";"), ("?", "&")];

impl Shape {
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let repeated = REPEATED.iter().map(|&(first, unit)| Self::Repeated(first, unit));
        let numbered = NUMBERED.iter().map(|&(first, unit)| Self::Numbered(first, unit));
        let few = FEW.iter().map(|&(first, unit)| Self::Few(first, unit));
        repeated.chain(numbered).chain(few)
    }

    /// A text of `size` bytes, or slightly fewer.
    pub(crate) fn text(self, size: usize) -> Vec<u8> {
        let text = match self {
            Self::Repeated(first, unit) => {
                [first, &unit.repeat((size - first.len()) / unit.len())].concat()
            }
            Self::Numbered(first, unit) => {
                // Closes an open quote.
                let end = if unit.ends_with('"') { "\"" } else { "" };
                let count = (size - first.len()) / (unit.len() + 5 + end.len());
                let parts = (0..count).map(|number| format!("{unit}{number:05}{end}"));
                [first, &parts.collect::<String>()].concat()
            }
            Self::Few(first, unit) => {
                let width = size / MAX_URI_PARAMS - unit.len();
                // The part before the first separator counts as one.
                let parts = (1..MAX_URI_PARAMS).map(|number| format!("{unit}{number:p>width$}"));
                [first, &parts.collect::<String>()].concat()
            }
        };
        text.into_bytes()
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated(first, unit) => {
                write!(f, "{}{} ...", first.escape_debug(), unit.escape_debug())
            }
            Self::Numbered(first, unit) => {
                let (first, unit) = (first.escape_debug(), unit.escape_debug());
                write!(f, "{first}{unit}00000{unit}00001 ...")
            }
            Self::Few(first, unit) => write!(f, "{first}{unit}pp ...1{unit}pp ...2 ..."),
        }
    }
}
