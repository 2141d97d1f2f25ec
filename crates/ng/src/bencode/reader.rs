//! The reader, over borrowed bytes.

use super::error::{BencodeError, Fault, MAX_DEPTH, MAX_LENGTH};
use super::writer::{write_integer, write_string};
use alloc::vec::Vec;

/// A value. Lists and dictionaries are validated to their end, and are read on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// An integer.
    Integer(i64),
    /// A byte string.
    String(&'a [u8]),
    /// A list.
    List(List<'a>),
    /// A dictionary.
    Dictionary(Dictionary<'a>),
}

/// A list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List<'a>(&'a [u8]);

/// A dictionary. Its keys are in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dictionary<'a>(&'a [u8]);

/// A token: a value without elements, the begin of a container, or the end of one.
enum Token<'a> {
    Integer(i64),
    String(&'a [u8]),
    List,
    Dictionary,
    End,
}

/// The state of an open container.
#[derive(Clone, Copy)]
enum Open {
    List,
    /// A dictionary that expects a key.
    Key,
    /// A dictionary that expects the value of a key.
    Value,
}

impl<'a> Value<'a> {
    /// Parses a document that is one value.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BencodeError> {
        if bytes.len() > MAX_LENGTH {
            return Err(BencodeError { offset: bytes.len(), fault: Fault::TooLong });
        }
        let offset = end_of_value(bytes)?;
        match split(bytes) {
            Some((value, [])) => Ok(value),
            _ => Err(BencodeError { offset, fault: Fault::Trailing }),
        }
    }

    /// The string, or `None` if it is another value.
    #[must_use]
    pub const fn as_string(self) -> Option<&'a [u8]> {
        match self {
            Self::String(string) => Some(string),
            _ => None,
        }
    }

    /// The integer, or `None` if it is another value.
    #[must_use]
    pub const fn as_integer(self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(integer),
            _ => None,
        }
    }

    /// The list, or `None` if it is another value.
    #[must_use]
    pub const fn as_list(self) -> Option<List<'a>> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// The dictionary, or `None` if it is another value.
    #[must_use]
    pub const fn as_dictionary(self) -> Option<Dictionary<'a>> {
        match self {
            Self::Dictionary(dictionary) => Some(dictionary),
            _ => None,
        }
    }

    /// Appends the value to `out`. A parsed document is written with the same bytes.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(integer) => write_integer(out, integer),
            Self::String(string) => write_string(out, string),
            Self::List(list) => {
                out.push(b'l');
                list.values().for_each(|value| value.write(out));
                out.push(b'e');
            }
            Self::Dictionary(dictionary) => {
                out.push(b'd');
                for (key, value) in dictionary.entries() {
                    write_string(out, key);
                    value.write(out);
                }
                out.push(b'e');
            }
        }
    }
}

impl<'a> List<'a> {
    /// The elements.
    pub fn values(self) -> impl Iterator<Item = Value<'a>> + Clone + use<'a> {
        Values(self.0)
    }
}

impl<'a> Dictionary<'a> {
    /// The value of the last entry with this key.
    #[must_use]
    pub fn get(self, key: &[u8]) -> Option<Value<'a>> {
        self.entries().filter(|entry| entry.0 == key).last().map(|(_, value)| value)
    }

    /// The entries, in the order of the document. A key may occur more than once.
    pub fn entries(self) -> impl Iterator<Item = (&'a [u8], Value<'a>)> + Clone + use<'a> {
        Entries(self.0)
    }
}

#[derive(Clone)]
struct Values<'a>(&'a [u8]);

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let (value, rest) = split(self.0)?;
        self.0 = rest;
        Some(value)
    }
}

#[derive(Clone)]
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = (&'a [u8], Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let (key, rest) = split(self.0)?;
        let (value, rest) = split(rest)?;
        self.0 = rest;
        Some((key.as_string()?, value))
    }
}

/// Splits off the first value of validated bytes. `None` at the end.
fn split(bytes: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let end = end_of_value(bytes).ok()?;
    let (bytes, rest) = bytes.split_at_checked(end)?;
    let value = match token(bytes, 0).ok()? {
        (Token::Integer(integer), _) => Value::Integer(integer),
        (Token::String(string), _) => Value::String(string),
        (Token::List, _) => Value::List(List(bytes.get(1..end - 1)?)),
        (Token::Dictionary, _) => Value::Dictionary(Dictionary(bytes.get(1..end - 1)?)),
        (Token::End, _) => return None,
    };
    Some((value, rest))
}

/// The offset behind the first value. Validates the value and all within it.
fn end_of_value(bytes: &[u8]) -> Result<usize, BencodeError> {
    let mut containers = [Open::List; MAX_DEPTH];
    let (mut depth, mut offset) = (0, 0);
    loop {
        let error = |fault| Err(BencodeError { offset, fault });
        let (token, next) = token(bytes, offset)?;
        let container = containers[..depth].last_mut();
        let opened = match (token, container) {
            (Token::End, None) => return error(Fault::Byte(b'e')),
            (Token::End, Some(Open::Value)) => return error(Fault::NoValue),
            (Token::End, Some(_)) => {
                depth -= 1;
                None
            }
            (Token::String(_), Some(container @ Open::Key)) => {
                *container = Open::Value;
                offset = next;
                continue;
            }
            (_, Some(Open::Key)) => return error(Fault::Key),
            (Token::List, _) => Some(Open::List),
            (Token::Dictionary, _) => Some(Open::Key),
            (Token::Integer(_) | Token::String(_), _) => None,
        };
        if let Some(opened) = opened {
            let Some(place) = containers.get_mut(depth) else { return error(Fault::TooDeep) };
            *place = opened;
            depth += 1;
        } else {
            // A value is complete.
            match containers[..depth].last_mut() {
                None => return Ok(next),
                Some(container @ Open::Value) => *container = Open::Key,
                Some(_) => {}
            }
        }
        offset = next;
    }
}

/// The token at `offset`, and the offset behind it.
fn token(bytes: &[u8], offset: usize) -> Result<(Token<'_>, usize), BencodeError> {
    let error = |fault| Err(BencodeError { offset, fault });
    let Some(&[first, ref rest @ ..]) = bytes.get(offset..) else { return error(Fault::Truncated) };
    match first {
        b'l' => Ok((Token::List, offset + 1)),
        b'd' => Ok((Token::Dictionary, offset + 1)),
        b'e' => Ok((Token::End, offset + 1)),
        b'i' => {
            let Some(length) = rest.iter().take(21).position(|&byte| byte == b'e') else {
                return error(if rest.len() < 21 { Fault::Truncated } else { Fault::Integer });
            };
            match integer(&rest[..length]) {
                Some(integer) => Ok((Token::Integer(integer), offset + length + 2)),
                None => error(Fault::Integer),
            }
        }
        b'0'..=b'9' => {
            // MAX_LENGTH has five digits.
            let digits = rest.iter().take(6).position(|&byte| byte == b':');
            let Some(colon) = digits.map(|digits| offset + 1 + digits) else {
                return error(if rest.len() < 6 { Fault::Truncated } else { Fault::Length });
            };
            let length = integer(&bytes[offset..colon]).and_then(|n| usize::try_from(n).ok());
            let string = length
                .and_then(|length| bytes[colon + 1..].get(..length).map(|string| (string, length)));
            match string {
                Some((string, length)) => Ok((Token::String(string), colon + 1 + length)),
                None => error(Fault::Length),
            }
        }
        byte => error(Fault::Byte(byte)),
    }
}

/// A canonical decimal integer: no leading zeros, no minus before zero.
fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_canonical {
        return None;
    }
    core::str::from_utf8(text).ok()?.parse().ok()
}
