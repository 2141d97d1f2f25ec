//! Numbers as dialed, and their form by E.164.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The maximum number of digits of an E.164 number.
pub const MAX_DIGITS: usize = 15;

/// The maximum length of a dialed number, in bytes.
const MAX_DIALED: usize = 64;

/// The rules for dialing in a country and in an office.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialing {
    /// The country code, as `49`. Empty: numbers without `+` are not converted.
    pub country: String,
    /// The prefix of international numbers, as `00`.
    pub international: String,
    /// The prefix of national numbers, as `0`. Empty if the country has none.
    pub national: String,
    /// The digits for an outside line. If not empty, numbers without them are internal.
    pub outside: String,
    /// Numbers that are dialed without a prefix.
    pub local: Vec<LocalForm>,
}

/// Numbers that are dialed without a prefix, by their length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalForm {
    /// The minimum number of digits.
    pub min: usize,
    /// The maximum number of digits.
    pub max: usize,
    /// The beginning of the E.164 number that the digits complete, as `+4930`.
    pub add: String,
}

/// The form of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// An E.164 number, with `+`.
    Global(String),
    /// Digits, `*` and `#` without a meaning outside of the office.
    Bare(String),
    /// A number that begins as an E.164 number does, and is not one.
    Invalid(String),
}

/// The digits, `*`, `#` and the leading `+` of the user part of a URI, without visual separators
/// and parameters (RFC 3966 section 3). `None` if it is not a number.
#[must_use]
pub fn digits(dialed: &[u8]) -> Option<String> {
    let dialed = dialed.split(|&byte| byte == b';').next().unwrap_or_default();
    if dialed.len() > MAX_DIALED {
        return None;
    }
    let mut number = String::with_capacity(dialed.len());
    for &byte in dialed {
        match byte {
            b'0'..=b'9' | b'*' | b'#' => number.push(char::from(byte)),
            b'+' if number.is_empty() => number.push('+'),
            b'-' | b'.' | b'(' | b')' if !number.is_empty() || byte == b'(' => {}
            _ => return None,
        }
    }
    let is_number = number.bytes().any(|byte| byte != b'+');
    is_number.then_some(number)
}

impl Dialing {
    /// The form of a number of [`digits`].
    #[must_use]
    pub fn form(&self, number: &str) -> Form {
        if let Some(rest) = number.strip_prefix('+') {
            return self.global(rest);
        }
        let Some(outside) = number.strip_prefix(&*self.outside) else {
            return Form::Bare(number.to_owned());
        };
        let is_code = outside.is_empty() || outside == self.international;
        if is_code || !outside.bytes().all(|byte| byte.is_ascii_digit()) {
            return Form::Bare(number.to_owned());
        }
        let after = |prefix: &str| {
            let rest = outside.strip_prefix(prefix).filter(|rest| !rest.is_empty());
            rest.filter(|_| !prefix.is_empty() && !self.country.is_empty())
        };
        let (international, national) = (after(&self.international), after(&self.national));
        let is_longer = self.international.len() > self.national.len();
        match (international, national) {
            (Some(rest), None) => self.global(rest),
            (Some(rest), Some(_)) if is_longer => self.global(rest),
            (_, Some(rest)) => self.global(&format!("{}{rest}", self.country)),
            (None, None) => {
                let has_length = |form: &&LocalForm| (form.min..=form.max).contains(&outside.len());
                match self.local.iter().find(has_length) {
                    Some(form) => {
                        self.global(&format!("{}{outside}", form.add.trim_start_matches('+')))
                    }
                    None => Form::Bare(number.to_owned()),
                }
            }
        }
    }

    /// The E.164 number with `digits` after the `+`. A national prefix after the own country code,
    /// as in +49 (0) 30, is left out: providers accept it, and it must not change the class.
    fn global(&self, digits: &str) -> Form {
        let mut digits = digits.to_owned();
        while !self.country.is_empty()
            && !self.national.is_empty()
            && let Some(rest) = digits.strip_prefix(&*self.country)
            && let Some(rest) = rest.strip_prefix(&*self.national)
        {
            digits = format!("{}{rest}", self.country);
        }
        let is_valid = digits.len() <= MAX_DIGITS
            && matches!(digits.as_bytes().first(), Some(b'1'..=b'9'))
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = format!("+{digits}");
        if is_valid { Form::Global(number) } else { Form::Invalid(number) }
    }
}
