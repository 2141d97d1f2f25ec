//! The common grammar of challenges and credentials: a scheme and a list of parameters.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::{Algorithm, Error};
use crate::lex::{self, Marks, Set};

/// Parses a Digest header field. Returns the values of `names` in the order of `names`, or `None`
/// for another scheme. The value of a quoted string is the text between the quotes, with escapes.
///
/// Every value may be a token or a quoted string, because implementations differ. Unknown
/// parameters are ignored (RFC 7616 section 3.3).
pub(super) fn parse<'a, const N: usize>(
    value: &'a [u8],
    names: [&'static str; N],
) -> Result<Option<[Option<&'a [u8]>; N]>, Error> {
    let Some(mut reader) = Reader::of_digest(value)? else { return Ok(None) };
    reader.values(names).map(Some)
}

/// The `nextnonce` parameter of an `Authentication-Info` or `Proxy-Authentication-Info` header
/// field: the nonce for the next request (RFC 7616 section 3.5).
#[must_use]
pub fn next_nonce(value: &[u8]) -> Option<&[u8]> {
    let [nonce] = Reader { input: value, at: 0 }.values(["nextnonce"]).ok()?;
    nonce
}

impl<'a> Reader<'a> {
    fn values<const N: usize>(
        &mut self,
        names: [&'static str; N],
    ) -> Result<[Option<&'a [u8]>; N], Error> {
        let mut values = [None; N];
        while let Some((name, value)) = self.param()? {
            let known = names.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name));
            if let Some(at) = known
                && values[at].replace(value).is_some()
            {
                return Err(Error::Duplicate(names[at]));
            }
        }
        Ok(values)
    }
}

/// Returns every realm that any parser, strict or lenient, could find in the value of a challenge
/// or credentials, even if the value is malformed or holds several. Escapes are removed. Each item
/// costs at most a scan of a thousand bytes, so the caller takes a bounded number.
pub fn realms(value: &[u8]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    const NAME: &[u8] = b"realm";
    // Longer realms are ignored, because each item scans the text after it.
    const LONGEST: usize = 1024;
    memchr::memchr2_iter(b'r', b'R', value).filter_map(|at| {
        let rest = &value[at..];
        if !rest.get(..NAME.len())?.eq_ignore_ascii_case(NAME) {
            return None;
        }
        let rest = lex::trim_start(&rest[NAME.len()..]).strip_prefix(b"=")?;
        let rest = lex::trim_start(rest);
        let rest = &rest[..rest.len().min(LONGEST)];
        let text = match rest.strip_prefix(b"\"") {
            // Up to the first unescaped quote.
            Some(text) => {
                let mut is_escaped = false;
                let end = text.iter().position(|&byte| {
                    let is_end = byte == b'"' && !is_escaped;
                    is_escaped = byte == b'\\' && !is_escaped;
                    is_end
                });
                &text[..end.unwrap_or(text.len())]
            }
            None => {
                let is_end = |byte: &u8| *byte == b',' || lex::is_space(*byte);
                &rest[..rest.iter().position(is_end).unwrap_or(rest.len())]
            }
        };
        Some(unquote(text))
    })
}

/// Parses the algorithm, with true for the `-sess` variant. MD5 if the parameter is absent.
pub(super) fn algorithm(value: Option<&[u8]>) -> Result<(Algorithm, bool), Error> {
    value.map_or(Ok((Algorithm::Md5, false)), |name| {
        Algorithm::parse_session(name).ok_or(Error::UnknownAlgorithm)
    })
}

/// A parameter: name and value.
type Param<'a> = (&'a [u8], &'a [u8]);

struct Reader<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the first parameter of a Digest header field. `None` for another scheme.
    fn of_digest(value: &'a [u8]) -> Result<Option<Self>, Error> {
        let mut reader = Self { input: value, at: 0 };
        reader.skip_lws();
        if !reader.token().eq_ignore_ascii_case(b"Digest") {
            return Ok(None);
        }
        if reader.peek().is_some() && !reader.skip_lws() {
            return Err(reader.error());
        }
        Ok(Some(reader))
    }

    /// The next parameter. `None` at the end.
    fn param(&mut self) -> Result<Option<Param<'a>>, Error> {
        self.skip_lws();
        while self.peek() == Some(b',') {
            self.at += 1;
            self.skip_lws();
        }
        if self.peek().is_none() {
            return Ok(None);
        }
        let name = self.token();
        self.skip_lws();
        if name.is_empty() || self.peek() != Some(b'=') {
            return Err(self.error());
        }
        self.at += 1;
        self.skip_lws();
        let value = self.value()?;
        self.skip_lws();
        if !matches!(self.peek(), None | Some(b',')) {
            return Err(self.error());
        }
        Ok(Some((name, value)))
    }

    fn peek(&self) -> Option<u8> {
        self.input.get(self.at).copied()
    }

    fn error(&self) -> Error {
        Error::Syntax { at: self.at }
    }

    /// The length of a line fold at this position: the line end and the blank after it.
    fn fold_len(&self) -> usize {
        fold_len(&self.input[self.at..])
    }

    /// Skips linear white space. Returns true if there was any.
    #[inline]
    fn skip_lws(&mut self) -> bool {
        // White space is rare here.
        matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) && self.skip_some_lws()
    }

    fn skip_some_lws(&mut self) -> bool {
        let start = self.at;
        loop {
            match self.peek() {
                Some(b' ' | b'\t') => self.at += 1,
                Some(b'\r' | b'\n') if self.fold_len() > 0 => self.at += self.fold_len(),
                _ => return self.at > start,
            }
        }
    }

    fn token(&mut self) -> &'a [u8] {
        let (token, _) = lex::split_set(&self.input[self.at..], Set::TOKEN);
        self.at += token.len();
        token
    }

    fn value(&mut self) -> Result<&'a [u8], Error> {
        if self.peek() != Some(b'"') {
            // Wider than a token: unquoted base64 nonces and URIs occur in practice.
            let (value, _) = lex::split_set(&self.input[self.at..], Set::DIGEST_VALUE);
            self.at += value.len();
            return if value.is_empty() { Err(self.error()) } else { Ok(value) };
        }
        self.at += 1;
        let start = self.at;
        let rest = &self.input[start..];
        if let Some(end) = Marks::new(rest).find(|&at| !Set::PLAIN.has(rest[at]))
            && rest[end] == b'"'
        {
            self.at += end + 1;
            return Ok(&rest[..end]);
        }
        loop {
            self.at += match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(&self.input[start..self.at - 1]);
                }
                Some(b'\\') => match self.input.get(self.at + 1) {
                    None | Some(b'\r' | b'\n') => return Err(self.error()),
                    Some(_) => 2,
                },
                Some(b'\r' | b'\n') if self.fold_len() > 0 => self.fold_len(),
                None | Some(b'\r' | b'\n' | 0) => return Err(self.error()),
                Some(_) => 1,
            };
        }
    }
}

fn fold_len(input: &[u8]) -> usize {
    match input {
        [b'\r', b'\n', b' ' | b'\t', ..] => 3,
        // Some implementations end lines with LF only.
        [b'\n', b' ' | b'\t', ..] => 2,
        _ => 0,
    }
}

/// Removes the escapes of a quoted string's contents: `\x` becomes `x`, and a folded line one
/// space. Borrows if unchanged.
#[must_use]
pub fn unquote(inner: &[u8]) -> Cow<'_, [u8]> {
    if !inner.iter().any(|octet| matches!(octet, b'\\' | b'\r' | b'\n')) {
        return Cow::Borrowed(inner);
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while let Some(&octet) = inner.get(at) {
        let fold = fold_len(&inner[at..]);
        if fold > 0 {
            out.push(b' ');
            at += fold;
            at += inner[at..].iter().take_while(|o| matches!(o, b' ' | b'\t')).count();
            continue;
        }
        if octet == b'\\' {
            at += 1;
        }
        out.extend(inner.get(at));
        at += 1;
    }
    Cow::Owned(out)
}

/// Escapes `"` and `\` in `text` for use in a quoted string. Control characters are removed,
/// because no escape allows them.
#[must_use]
pub fn quote(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|octet| matches!(octet, b'"' | b'\\') || octet.is_ascii_control()) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len() + 2);
    for &octet in text.iter().filter(|octet| !octet.is_ascii_control()) {
        if matches!(octet, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(octet);
    }
    Cow::Owned(out)
}

/// Appends `, name="inner"`, without the comma directly after the scheme.
pub(super) fn push_quoted(out: &mut Vec<u8>, name: &str, inner: &[u8]) {
    push_name(out, name);
    out.push(b'"');
    out.extend_from_slice(inner);
    out.push(b'"');
}

/// Appends `, name=token`.
pub(super) fn push_token(out: &mut Vec<u8>, name: &str, token: &[u8]) {
    push_name(out, name);
    out.extend_from_slice(token);
}

/// Appends `, algorithm=NAME`, with `-sess` for the session variant.
pub(super) fn push_algorithm(out: &mut Vec<u8>, algorithm: Algorithm, session: bool) {
    push_token(out, "algorithm", algorithm.name().as_bytes());
    if session {
        out.extend_from_slice(b"-sess");
    }
}

fn push_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b", ");
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
}
