//! Variables and their values.

/// The value of a variable.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Value {
    /// No value was assigned.
    #[default]
    Unset,
    /// The result of a test.
    Truth(bool),
    /// A number.
    Number(f64),
    /// A text.
    Text(Vec<u8>),
}

impl Value {
    /// Returns true if a branch on the variable is taken: it has a value, and is not the result of
    /// a failed test.
    pub(super) const fn is_set(&self) -> bool {
        !matches!(self, Self::Unset | Self::Truth(false))
    }

    /// Returns the number; of a text, the number at its start.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Unset => None,
            Self::Truth(truth) => Some(f64::from(u8::from(*truth))),
            Self::Number(number) => Some(*number),
            Self::Text(text) => leading_number(text),
        }
    }

    /// Appends the text of the value.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Unset => {}
            Self::Truth(truth) => out.extend_from_slice(truth.to_string().as_bytes()),
            Self::Number(number) => out.extend_from_slice(format!("{number:.6}").as_bytes()),
            Self::Text(text) => out.extend_from_slice(text),
        }
    }
}

/// Returns the number at the start of `text`, after white space.
fn leading_number(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii_start();
    let length = text.iter().take_while(|&&octet| b"+-.eE0123456789".contains(&octet)).count();
    (1..=length).rev().find_map(|length| std::str::from_utf8(&text[..length]).ok()?.parse().ok())
}

/// The place of the values of a variable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Scope {
    /// Each call has its own.
    #[default]
    Call,
    /// Each user has its own (`--users`).
    User,
    /// All calls share it.
    Global,
}

/// The number of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variable(pub(super) usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_begin_with_numbers() {
        for (text, number) in
            [("12", Some(12.0)), (" -1.5x", Some(-1.5)), ("1e", Some(1.0)), ("x", None), ("", None)]
        {
            assert_eq!(Value::Text(text.into()).number(), number, "{text}");
        }
    }

    #[test]
    fn a_failed_test_is_not_set() {
        assert!(!Value::Unset.is_set() && !Value::Truth(false).is_set());
        assert!(Value::Truth(true).is_set() && Value::Number(0.0).is_set());
        let mut out = Vec::new();
        Value::Number(2.0).write(&mut out);
        Value::Truth(true).write(&mut out);
        assert_eq!(out, b"2.000000true");
    }
}
