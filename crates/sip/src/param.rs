//! Parameters of URIs and header fields: `;name` and `;name=value`.

use crate::encode::Encode;
use crate::lex::{self, Set};
use alloc::vec::Vec;
use core::ops::Range;

/// The maximum number of parameters of a URI, and of header fields after its `?`. Contacts of
/// phones, GRUUs (RFC 5627), session border controllers and the IP Multimedia Subsystem have about
/// a dozen.
///
/// These lists are compared with one another (RFC 3261 section 19.1.4), under a lock and possibly
/// several times. Header field parameters are only read sequentially, so the length of the message
/// limits them sufficiently.
pub const MAX_URI_PARAMS: usize = 32;

/// A list of parameters as received, from its first semicolon on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params<'a>(pub(crate) &'a [u8]);

/// A parameter. The value is `None` without `=`. Quoted strings include their quotes.
pub type Param<'a> = (&'a [u8], Option<&'a [u8]>);

impl<'a> Params<'a> {
    /// Wraps a list that starts with a semicolon or is empty. Not validated, see
    /// [`Params::is_valid`].
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The parameters as received, including the first semicolon.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// All parameters in order, with trimmed names and values.
    pub fn iter(self) -> impl Iterator<Item = Param<'a>> {
        let mut rest = lex::trim(self.0);
        core::iter::from_fn(move || {
            rest = rest.strip_prefix(b";").filter(|rest| !rest.is_empty())?;
            let (end, equals) = end_of_param(rest);
            let (param, after) = rest.split_at(end);
            rest = after;
            Some(match equals {
                Some(equals) => {
                    (lex::trim(&param[..equals]), Some(lex::trim(&param[equals + 1..])))
                }
                None => (lex::trim(param), None),
            })
        })
    }

    /// The parameter with this name (case-insensitive).
    #[must_use]
    pub fn get(self, name: &str) -> Option<Option<&'a [u8]>> {
        self.iter()
            .find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// The value of the parameter with this name, if it has one.
    #[must_use]
    pub fn value(self, name: &str) -> Option<&'a [u8]> {
        self.get(name).flatten()
    }

    /// Returns true if there is a parameter with this name.
    #[must_use]
    pub fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns true if all header field parameters match the grammar: a token, and a value that is
    /// a token, a host or a quoted string (RFC 3261 section 25.1, `generic-param`). A trailing
    /// semicolon and `rport=` without a value occur in practice and are accepted.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.all_valid(|_, _| ())
    }

    /// As `is_valid`. Calls `look` with each parameter and its range, from its semicolon to the
    /// next.
    pub(crate) fn all_valid(self, mut look: impl FnMut(Param<'a>, Range<usize>)) -> bool {
        let place = |rest: &[u8]| self.0.len() - rest.len();
        let mut rest = lex::trim_start(self.0);
        while let [b';', param @ ..] = rest {
            let (name, after) = lex::split_set(lex::trim_start(param), Set::TOKEN);
            let after = lex::trim_start(after);
            let (value, after) = match after {
                [b'=', value @ ..] => {
                    let value = lex::trim_start(value);
                    let (value, after) = match value {
                        [b'"', ..] => match lex::split_quoted(value) {
                            Some(split) => split,
                            None => return false,
                        },
                        _ => lex::split_set(value, Set::VALUE),
                    };
                    if value.is_empty() && !name.eq_ignore_ascii_case(b"rport") {
                        return false;
                    }
                    (Some(value), lex::trim_start(after))
                }
                _ => (None, after),
            };
            if name.is_empty() {
                return value.is_none() && after.is_empty();
            }
            look((name, value), place(rest)..place(after));
            rest = after;
        }
        rest.is_empty()
    }
}

impl Encode for Params<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

/// The end of the first parameter, and the position of its equals sign.
fn end_of_param(bytes: &[u8]) -> (usize, Option<usize>) {
    let mut at = 0;
    let mut equals = None;
    while let Some(&byte) = bytes.get(at) {
        if !Set::PARAM_STOP.has(byte) {
            at += 1;
            continue;
        }
        match byte {
            b';' => return (at, equals),
            b'"' => match lex::split_quoted(&bytes[at..]) {
                Some((quoted, _)) => at += quoted.len(),
                None => return (bytes.len(), equals),
            },
            _ => {
                equals = equals.or(Some(at));
                at += 1;
            }
        }
    }
    (bytes.len(), equals)
}

/// Removes the quotes and backslashes of a quoted string. Other values are unchanged.
pub fn unquote(value: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let inner = match value {
        [b'"', inner @ .., b'"'] => inner,
        _ => value,
    };
    let quoted = inner.len() != value.len();
    let mut bytes = inner.iter().copied();
    core::iter::from_fn(move || match bytes.next()? {
        b'\\' if quoted => bytes.next(),
        byte => Some(byte),
    })
}

/// Text to be written as a quoted string with escapes (RFC 3261 section 25.1), the inverse of
/// [`unquote`]. Control characters, which a quoted string cannot contain, become spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a>(pub &'a str);

impl Encode for Quoted<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        for byte in self.0.bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..0x20 | 0x7f => out.push(b' '),
                _ => out.push(byte),
            }
        }
        out.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_insensitive_and_may_have_white_space() {
        let params = Params::new(b" ;lr ; Tag = x;q=\"a;\\\"b\" ;last=");
        let all: Vec<_> = params.iter().collect();
        assert_eq!(Params::new(b";a;b ; ").iter().count(), 2);
        let expected: [Param<'_>; 4] = [
            (b"lr", None),
            (b"Tag", Some(b"x")),
            (b"q", Some(b"\"a;\\\"b\"")),
            (b"last", Some(b"")),
        ];
        assert_eq!(all, expected);
        assert_eq!(params.value("tag"), Some(&b"x"[..]));
        assert!(params.has("LR"));
        assert!(!params.is_valid(), "an empty value violates the grammar");
    }

    #[test]
    fn validity_follows_the_grammar() {
        let written = [&b";a=b;"[..], b";", b";a ; ", b";rport=", b";RPORT= ;a"];
        let good = [&b""[..], b";a", b";a=b", b" ; a = \"b;c\"", b";received=[2001:db8::1]"];
        for good in good.into_iter().chain(written) {
            assert!(Params::new(good).is_valid(), "{}", good.escape_ascii());
        }
        for bad in [
            &b";;"[..],
            b";a;;",
            b";=",
            b";=a",
            b";;a",
            b";a=",
            b";a=\"b",
            b";a b",
            b"a",
            b";a=b c",
        ] {
            assert!(!Params::new(bad).is_valid(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn quoted_strings_lose_quotes_and_backslashes() {
        let plain: Vec<u8> = unquote(b"\"a\\\"b\\\\\"").collect();
        assert_eq!(plain, b"a\"b\\");
        assert_eq!(unquote(b"plain").collect::<Vec<_>>(), b"plain");
    }

    #[test]
    fn quoted_text_is_unquoted() {
        for text in ["", "Bob", "a \"b\" \\ c", "Zoë"] {
            let mut out = Vec::new();
            Quoted(text).encode(&mut out);
            assert_eq!(unquote(&out).collect::<Vec<_>>(), text.as_bytes());
        }
        let mut out = Vec::new();
        Quoted("a\r\nb").encode(&mut out);
        assert_eq!(out, b"\"a  b\"");
    }
}
