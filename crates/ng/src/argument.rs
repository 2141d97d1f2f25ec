//! The value of a key, from a dictionary or from a string of flags.

use crate::bencode::Value;
use core::str;

/// The maximum length of a name, a label or a number in bytes.
pub(crate) const MAX_TEXT: usize = 256;

/// The value of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument<'a> {
    /// A value of bencode.
    Value(Value<'a>),
    /// A part of a string of flags: a word, or a list such as `[PCMA opus]`.
    Raw(&'a [u8]),
}

impl<'a> Argument<'a> {
    /// The text, or `None` for a list, a dictionary or an integer.
    pub(crate) fn text(self) -> Option<&'a [u8]> {
        match self {
            Self::Value(value) => value.as_string(),
            Self::Raw(text) => (!text.starts_with(b"[")).then_some(text),
        }
    }

    /// The text, if it is UTF-8 of 1 to [`MAX_TEXT`] bytes.
    pub(crate) fn short_text(self) -> Option<&'a str> {
        short_text(self.text()?)
    }

    /// An integer, also as decimal text.
    pub(crate) fn integer(self) -> Option<i64> {
        match self {
            Self::Value(Value::Integer(integer)) => Some(integer),
            _ => self.short_text()?.parse().ok(),
        }
    }

    /// The elements of a list; a text is a list of one.
    pub(crate) fn elements(self) -> impl Iterator<Item = Self> + use<'a> {
        let (list, inside) = match self {
            Self::Value(value) => (value.as_list(), None),
            Self::Raw(text) => (None, inside(text)),
        };
        let single = (list.is_none() && inside.is_none()).then_some(self);
        let values = list.into_iter().flat_map(|list| list.values().map(Self::Value));
        let words = inside.into_iter().flat_map(|text| Words(text).map(Self::Raw));
        values.chain(words).chain(single)
    }

    /// The entries of a dictionary.
    pub(crate) fn entries(self) -> impl Iterator<Item = (&'a [u8], Self)> + use<'a> {
        let (dictionary, inside) = match self {
            Self::Value(value) => (value.as_dictionary(), None),
            Self::Raw(text) => (None, inside(text)),
        };
        let values = dictionary.into_iter().flat_map(|dictionary| dictionary.entries());
        let words = inside.into_iter().flat_map(|text| Words(text).filter_map(key_and_value));
        values
            .map(|(key, value)| (key, Self::Value(value)))
            .chain(words.map(|(key, value)| (key, Self::Raw(value))))
    }
}

/// The words of a string of flags. A list in brackets belongs to its word.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.0.trim_ascii_start();
        let mut open = 0_usize;
        let end = text.iter().position(|&byte| {
            match byte {
                b'[' => open += 1,
                b']' => open = open.saturating_sub(1),
                _ => return open == 0 && byte.is_ascii_whitespace(),
            }
            false
        });
        let (word, rest) = text.split_at(end.unwrap_or(text.len()));
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// The text, if it is UTF-8 of 1 to [`MAX_TEXT`] bytes.
pub(crate) fn short_text(text: &[u8]) -> Option<&str> {
    (1..=MAX_TEXT).contains(&text.len()).then(|| str::from_utf8(text).ok())?
}

/// Splits a word at its first equals sign.
pub(crate) fn key_and_value(word: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = word.iter().position(|&byte| byte == b'=')?;
    Some((&word[..equals], &word[equals + 1..]))
}

/// The text within the brackets of a list. The closing one may be missing.
fn inside(text: &[u8]) -> Option<&[u8]> {
    let text = text.strip_prefix(b"[")?;
    Some(text.strip_suffix(b"]").unwrap_or(text))
}
