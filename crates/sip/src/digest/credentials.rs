//! `Authorization` and `Proxy-Authorization`: the credentials of a client.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::hash::{Hex, hash_hex, response_matches};
use super::{Algorithm, Error, Ha1Set, NonceCount, Qop, params};
use crate::encode::Encode;

/// The parts of a request that the digest covers.
#[derive(Clone, Copy, Debug)]
pub struct DigestInput<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The Request-URI.
    pub uri: &'a [u8],
    /// The body, covered only with [`Qop::AuthInt`].
    pub body: &'a [u8],
}

/// The `response` parameter.
#[derive(Clone, Copy, Debug)]
pub enum DigestResponse<'a> {
    /// The unverified text of a received header field.
    Received(&'a [u8]),
    /// A computed response.
    Computed(Hex),
}

impl PartialEq for DigestResponse<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for DigestResponse<'_> {}

impl DigestResponse<'_> {
    /// The text between the quotes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Received(octets) => octets,
            Self::Computed(hex) => hex.as_bytes(),
        }
    }
}

/// The value of an `Authorization` or `Proxy-Authorization` header field with the Digest scheme.
///
/// `realm`, `nonce`, `uri`, `cnonce` and `opaque` contain the text between the quotes, which the
/// hash covers. [`super::unquote`] removes escapes, [`super::quote`] adds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The user's name, unquoted.
    pub username: Cow<'a, [u8]>,
    /// The realm.
    pub realm: &'a [u8],
    /// The server's nonce. Empty in the first request of phones that send credentials without one.
    pub nonce: &'a [u8],
    /// The Request-URI as the client sent it.
    pub uri: &'a [u8],
    /// The response. [`Credentials::verify`] checks a received one.
    pub response: DigestResponse<'a>,
    /// The algorithm; MD5 if the parameter is absent.
    pub algorithm: Algorithm,
    /// True if the algorithm is the `-sess` variant.
    pub session: bool,
    /// The client's nonce. Required with `qop`.
    pub cnonce: Option<&'a [u8]>,
    /// The `opaque` value of the challenge.
    pub opaque: Option<&'a [u8]>,
    /// The quality of protection. Without it, RFC 2069 applies.
    pub qop: Option<Qop>,
    /// The nonce count. Required with `qop`.
    pub nc: Option<NonceCount>,
}

impl<'a> Credentials<'a> {
    /// Parses a header field value; `Ok(None)` if its scheme is not Digest.
    ///
    /// # Errors
    /// [`Error`] if a parameter is missing, repeated or malformed. Unknown parameters are ignored.
    pub fn parse(value: &'a [u8]) -> Result<Option<Self>, Error> {
        let names = [
            "username",
            "realm",
            "nonce",
            "uri",
            "response",
            "algorithm",
            "cnonce",
            "opaque",
            "qop",
            "nc",
        ];
        let Some(values) = params::parse(value, names)? else { return Ok(None) };
        let [username, realm, nonce, uri, response, algorithm, cnonce, opaque, qop, nc] = values;
        let (algorithm, session) = params::algorithm(algorithm)?;
        let qop = qop.map(|q| Qop::parse(q).ok_or(Error::Invalid("qop"))).transpose()?;
        let nc = nc.map(NonceCount::parse).transpose()?;
        if (qop.is_some() || session) && cnonce.is_none() {
            return Err(Error::Missing("cnonce"));
        }
        if qop.is_some() && nc.is_none() {
            return Err(Error::Missing("nc"));
        }
        Ok(Some(Self {
            username: params::unquote(username.ok_or(Error::Missing("username"))?),
            realm: realm.ok_or(Error::Missing("realm"))?,
            nonce: nonce.ok_or(Error::Missing("nonce"))?,
            uri: uri.ok_or(Error::Missing("uri"))?,
            response: DigestResponse::Received(response.ok_or(Error::Missing("response"))?),
            algorithm,
            session,
            cnonce,
            opaque,
            qop,
            nc,
        }))
    }

    /// Appends the header field value.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Digest username=\"");
        out.extend_from_slice(&params::quote(&self.username));
        out.push(b'"');
        params::push_quoted(out, "realm", self.realm);
        params::push_quoted(out, "nonce", self.nonce);
        params::push_quoted(out, "uri", self.uri);
        params::push_quoted(out, "response", self.response.as_bytes());
        params::push_algorithm(out, self.algorithm, self.session);
        if let Some(cnonce) = self.cnonce {
            params::push_quoted(out, "cnonce", cnonce);
        }
        if let Some(opaque) = self.opaque {
            params::push_quoted(out, "opaque", opaque);
        }
        if let Some(qop) = self.qop {
            params::push_token(out, "qop", qop.name().as_bytes());
        }
        if let Some(nc) = self.nc {
            params::push_token(out, "nc", nc.as_bytes());
        }
    }

    /// Computes the response for `ha1` and the other parameters of these credentials.
    ///
    /// `ha1` is H(user ":" realm ":" password) in binary, with [`Credentials::algorithm`].
    #[must_use]
    pub fn expected_response(&self, ha1: &[u8], method: &[u8], body: &[u8]) -> Hex {
        let hash = |parts: &[&[u8]]| hash_hex(self.algorithm, parts);
        let cnonce = self.cnonce.unwrap_or_default();
        let mut ha1 = Hex::new(ha1);
        if self.session {
            ha1 = hash(&[ha1.as_bytes(), self.nonce, cnonce]);
        }
        let ha2 = match self.qop {
            Some(Qop::AuthInt) => hash(&[method, self.uri, hash(&[body]).as_bytes()]),
            _ => hash(&[method, self.uri]),
        };
        match self.qop {
            None => hash(&[ha1.as_bytes(), self.nonce, ha2.as_bytes()]),
            Some(qop) => hash(&[
                ha1.as_bytes(),
                self.nonce,
                self.nc.as_ref().map_or(b"", NonceCount::as_bytes),
                cnonce,
                qop.name().as_bytes(),
                ha2.as_bytes(),
            ]),
        }
    }

    /// Returns true if the response matches `ha1`. Takes constant time.
    ///
    /// For an unknown user, call it with arbitrary hashes, so that the response time does not
    /// reveal whether the user exists.
    #[must_use]
    pub fn verify(&self, ha1: &Ha1Set, method: &[u8], body: &[u8]) -> bool {
        let expected = self.expected_response(ha1.get(self.algorithm), method, body);
        response_matches(&expected, self.response.as_bytes())
    }
}

impl Encode for Credentials<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.write(out);
    }
}
