//! CSeq (RFC 3261 section 20.16) and RAck (RFC 3262 section 7.2).

use super::{HeaderError, HeaderName};
use crate::encode::Encode;
use crate::lex;
use crate::method::Method;
use alloc::vec::Vec;

/// The value of a CSeq header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CSeq<'a> {
    /// The sequence number.
    pub number: u32,
    /// The method.
    pub method: Method<'a>,
}

impl<'a> CSeq<'a> {
    /// Parses the value of a CSeq header field.
    ///
    /// # Errors
    /// [`HeaderError`] if it is not a number below 2^32 and a method.
    pub fn parse(value: &'a [u8]) -> Result<Self, HeaderError> {
        read_number_and_method(value).map(|(number, method)| Self { number, method }).ok_or(
            HeaderError {
                name: HeaderName::CSeq,
                expected: "a number below 2^32 and the method of the request",
            },
        )
    }
}

/// The value of a RAck header field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RAck<'a> {
    /// The RSeq of the acknowledged response.
    pub rseq: u32,
    /// The CSeq of the acknowledged response.
    pub cseq: CSeq<'a>,
}

impl<'a> RAck<'a> {
    /// Parses the value of a RAck header field.
    ///
    /// # Errors
    /// [`HeaderError`] if it is not two numbers below 2^32 and a method.
    pub fn parse(value: &'a [u8]) -> Result<Self, HeaderError> {
        let (digits, rest) = lex::split_while(value, |byte| byte.is_ascii_digit());
        let rseq = lex::decimal(digits).and_then(|number| u32::try_from(number).ok());
        match (rseq, CSeq::parse(lex::trim(rest))) {
            (Some(rseq), Ok(cseq)) => Ok(Self { rseq, cseq }),
            _ => Err(HeaderError {
                name: HeaderName::RAck,
                expected: "two numbers below 2^32 and a method",
            }),
        }
    }
}

fn read_number_and_method(value: &[u8]) -> Option<(u32, Method<'_>)> {
    let (digits, rest) = lex::split_while(value, |byte| byte.is_ascii_digit());
    let number = u32::try_from(lex::decimal(digits)?).ok()?;
    let method = lex::trim(rest);
    (method.len() < rest.len() && lex::all_token(method)).then(|| (number, Method::new(method)))
}

impl Encode for CSeq<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.number, " ", self.method).encode(out);
    }
}

impl Encode for RAck<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.rseq, " ", self.cseq).encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_methods_are_parsed() {
        let cseq = CSeq::parse(b"0009\r\n  INVITE").unwrap();
        assert_eq!(cseq, CSeq { number: 9, method: Method::Invite });
        assert_eq!(CSeq::parse(b"4294967295 x").unwrap().method, Method::Other(b"x"));
        let rack = RAck::parse(b"776656 1 INVITE").unwrap();
        assert_eq!(rack, RAck { rseq: 776_656, cseq: CSeq { number: 1, method: Method::Invite } });
    }

    #[test]
    fn values_are_written_as_parsed() {
        let mut out = Vec::new();
        RAck::parse(b"776656  1\tINVITE").unwrap().encode(&mut out);
        assert_eq!(out, b"776656 1 INVITE");
    }

    #[test]
    fn malformed_values_are_rejected() {
        for bad in [&b"4294967296 INVITE"[..], b"INVITE", b"1", b"1INVITE", b"1 IN VITE", b"-1 BYE"]
        {
            assert!(CSeq::parse(bad).is_err(), "{}", bad.escape_ascii());
            assert!(RAck::parse(bad).is_err(), "{}", bad.escape_ascii());
        }
    }
}
