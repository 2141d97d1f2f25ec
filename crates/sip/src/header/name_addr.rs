//! Addresses with parameters: From, To, Contact, Route, Record-Route, Path, Refer-To and others
//! (RFC 3261 section 20.10).

use super::{HeaderError, HeaderName};
use crate::encode::Encode;
use crate::lex::{self, Set};
use crate::param::Params;
use crate::uri::{Uri, UriError};
use alloc::vec::Vec;

/// A `name-addr` or `addr-spec` with header parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameAddr<'a> {
    /// The display name as received, including quotes; empty if absent.
    pub display_name: &'a [u8],
    /// The URI as received, without angle brackets.
    pub uri_bytes: &'a [u8],
    /// The header field parameters.
    pub params: Params<'a>,
    tag: Option<&'a [u8]>,
}

impl<'a> NameAddr<'a> {
    /// Parses one element of the header field `name`.
    ///
    /// # Errors
    /// [`HeaderError`] if it violates the grammar. The URI is not parsed, see [`NameAddr::uri`].
    pub fn parse(name: HeaderName, element: &'a [u8]) -> Result<Self, HeaderError> {
        Self::read(lex::trim(element))
            .ok_or(HeaderError { name, expected: "an address: [display name] <URI>[;parameters]" })
    }

    fn read(element: &'a [u8]) -> Option<Self> {
        let (display_name, rest) = match element.first()? {
            b'"' => {
                let (name, rest) = lex::split_quoted(element)?;
                (name, lex::trim_start(rest))
            }
            // Tokens with white space between them. The grammar allows an empty name and mistakenly
            // requires white space before the bracket (RFC 4475 section 3.1.1.6).
            _ => match lex::find(b'<', element) {
                Some(at) if Set::DISPLAY.has_all(&element[..at]) => {
                    (lex::trim_end(&element[..at]), &element[at..])
                }
                // The bare form cannot contain angle brackets.
                Some(_) => return None,
                None => return Self::read_bare(element),
            },
        };
        let rest = rest.strip_prefix(b"<")?;
        let end = lex::find(b'>', rest)?;
        let params = Params::new(lex::trim_start(&rest[end + 1..]));
        Self::with_params(display_name, &rest[..end], params)
    }

    /// Without angle brackets a semicolon starts the header field parameters, and the URI cannot
    /// contain a comma or a question mark (RFC 3261 section 20).
    fn read_bare(element: &'a [u8]) -> Option<Self> {
        let (uri, params) = lex::split_before(b';', element);
        let uri_bytes = lex::trim_end(uri);
        let params = Params::new(params);
        let fits = !uri_bytes.is_empty()
            && !uri_bytes.iter().any(|&byte| matches!(byte, b'?' | b',') || lex::is_space(byte));
        if fits { Self::with_params(&[], uri_bytes, params) } else { None }
    }

    /// Stores the tag while the parameters are validated, because it is read often.
    fn with_params(
        display_name: &'a [u8],
        uri_bytes: &'a [u8],
        params: Params<'a>,
    ) -> Option<Self> {
        let mut tag = None;
        // The first tag counts.
        let is_valid = params.all_valid(|(name, value), _| {
            if tag.is_none() && name.len() == 3 && name.eq_ignore_ascii_case(b"tag") {
                tag = Some(value);
            }
        });
        let tag = tag.flatten();
        is_valid.then_some(Self { display_name, uri_bytes, params, tag })
    }

    /// Parses the URI.
    ///
    /// # Errors
    /// [`UriError`] if the URI is malformed.
    pub fn uri(&self) -> Result<Uri<'a>, UriError> {
        Uri::parse(self.uri_bytes)
    }

    /// The `tag` parameter of From and To.
    #[must_use]
    pub const fn tag(&self) -> Option<&'a [u8]> {
        self.tag
    }
}

/// Always written with angle brackets.
impl Encode for NameAddr<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let space = (!self.display_name.is_empty()).then_some(" ");
        (self.display_name, space, "<", self.uri_bytes, ">", self.params).encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Option<(&str, &str, Option<&str>)> {
        let address = NameAddr::parse(HeaderName::From, text.as_bytes()).ok()?;
        let text = |bytes| core::str::from_utf8(bytes).unwrap();
        Some((text(address.display_name), text(address.uri_bytes), address.tag().map(text)))
    }

    #[test]
    fn all_forms_of_addresses_are_parsed() {
        for (address, expected) in [
            ("<sip:a@b>", ("", "sip:a@b", None)),
            ("sip:a@b;tag=1", ("", "sip:a@b", Some("1"))),
            ("sip:a@b ; tag=1", ("", "sip:a@b", Some("1"))),
            ("A. G. Bell <sip:a@b>;tag=a48s", ("A. G. Bell", "sip:a@b", Some("a48s"))),
            ("caller<sip:a@b>;tag=323", ("caller", "sip:a@b", Some("323"))),
            ("\"J \\\\\\\"<x>\" <sip:a@b;lr>", ("\"J \\\\\\\"<x>\"", "sip:a@b;lr", None)),
            ("\"Mr\"\r\n <sips:a@b?x=y>\r\n ;tag=9", ("\"Mr\"", "sips:a@b?x=y", Some("9"))),
        ] {
            assert_eq!(read(address), Some(expected), "{address}");
        }
    }

    #[test]
    fn malformed_addresses_are_rejected() {
        for bad in [
            "",
            "\"Mr. J. User <sip:a@b>",
            "Bell, Alexander <sip:a@b>",
            "<sip:a@b",
            "sip:a@b?Route=%3Csip:x%3E",
            "sip:a b@c",
            "<sip:a@b>;;",
            "<sip:a@b> x",
            "sip:a@b <sip:c@d>",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_uri_parser_rejects_white_space_in_brackets() {
        let address = NameAddr::parse(HeaderName::To, b"\"Watson\" < sip:t@example.org >").unwrap();
        assert_eq!(address.uri(), Err(UriError::Character(b' ')));
    }

    #[test]
    fn addresses_are_written_in_brackets() {
        for (address, expected) in [
            ("sip:a@b;tag=1", "<sip:a@b>;tag=1"),
            ("\"J \\\"<x>\"<sip:a@b;lr> ; x=y", "\"J \\\"<x>\" <sip:a@b;lr>; x=y"),
            ("A. Bell <sip:a@b>", "A. Bell <sip:a@b>"),
        ] {
            let mut out = Vec::new();
            NameAddr::parse(HeaderName::To, address.as_bytes()).unwrap().encode(&mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = NameAddr::parse(HeaderName::To, &bytes);
        }
    }
}
