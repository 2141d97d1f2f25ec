//! `WWW-Authenticate` and `Proxy-Authenticate`: the challenge of a server.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::{Algorithm, Credentials, DigestInput, DigestResponse, Error, NonceCount, Qop, params};

/// The qualities of protection that a server offers. Without any, RFC 2069 applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QopOptions {
    /// [`Qop::Auth`] is offered.
    pub auth: bool,
    /// [`Qop::AuthInt`] is offered.
    pub auth_int: bool,
}

impl QopOptions {
    /// `auth` only, as SIP servers offer it.
    pub const AUTH: Self = Self { auth: true, auth_int: false };

    /// Unknown options are ignored (RFC 7616 section 3.3).
    fn parse(list: &[u8]) -> Self {
        let mut options = Self::default();
        for option in list.split(|&octet| octet == b',') {
            match Qop::parse(option.trim_ascii()) {
                Some(Qop::Auth) => options.auth = true,
                Some(Qop::AuthInt) => options.auth_int = true,
                None => {}
            }
        }
        options
    }
}

/// The value of a `WWW-Authenticate` or `Proxy-Authenticate` header field with the Digest scheme.
///
/// The slices contain the text between the quotes. [`super::unquote`] removes escapes,
/// [`super::quote`] adds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge<'a> {
    /// The realm in which user name and password are valid.
    pub realm: &'a [u8],
    /// The server's nonce.
    pub nonce: &'a [u8],
    /// The value that the client returns unchanged.
    pub opaque: Option<&'a [u8]>,
    /// True if the password was correct but the nonce expired. The client retries without asking
    /// the user.
    pub stale: bool,
    /// The algorithm; MD5 if the parameter is absent.
    pub algorithm: Algorithm,
    /// True if the algorithm is the `-sess` variant.
    pub session: bool,
    /// The offered qualities of protection.
    pub qop: QopOptions,
    /// The protection domain: URIs for which the credentials are valid. `None` for the whole
    /// server.
    pub domain: Option<&'a [u8]>,
}

impl<'a> Challenge<'a> {
    /// Parses a header field value; `Ok(None)` if its scheme is not Digest.
    ///
    /// # Errors
    /// [`Error`] if a parameter is missing, repeated or malformed. Unknown parameters are ignored.
    pub fn parse(value: &'a [u8]) -> Result<Option<Self>, Error> {
        let names = ["realm", "nonce", "opaque", "stale", "algorithm", "qop", "domain"];
        let Some(values) = params::parse(value, names)? else { return Ok(None) };
        let [realm, nonce, opaque, stale, algorithm, qop, domain] = values;
        let (algorithm, session) = params::algorithm(algorithm)?;
        Ok(Some(Self {
            realm: realm.ok_or(Error::Missing("realm"))?,
            nonce: nonce.ok_or(Error::Missing("nonce"))?,
            opaque,
            stale: stale.is_some_and(|stale| stale.eq_ignore_ascii_case(b"true")),
            algorithm,
            session,
            qop: qop.map(QopOptions::parse).unwrap_or_default(),
            domain,
        }))
    }

    /// Appends the header field value.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"Digest realm=\"");
        out.extend_from_slice(self.realm);
        out.push(b'"');
        params::push_quoted(out, "nonce", self.nonce);
        if let Some(domain) = self.domain {
            params::push_quoted(out, "domain", domain);
        }
        if let Some(opaque) = self.opaque {
            params::push_quoted(out, "opaque", opaque);
        }
        if self.stale {
            params::push_token(out, "stale", b"true");
        }
        params::push_algorithm(out, self.algorithm, self.session);
        match (self.qop.auth, self.qop.auth_int) {
            (true, true) => params::push_quoted(out, "qop", b"auth,auth-int"),
            (true, false) => params::push_quoted(out, "qop", b"auth"),
            (false, true) => params::push_quoted(out, "qop", b"auth-int"),
            (false, false) => {}
        }
    }

    /// Creates the credentials of `user` for `request`. `ha1` is the user's HA1 for the realm and
    /// algorithm of this challenge: `Ha1Set::new(user, challenge.realm,
    /// password).get(challenge.algorithm)`.
    ///
    /// `cnonce` is a fresh random text without quotes. `nc` is incremented at each use of the
    /// nonce. `auth` is preferred to `auth-int`, because some intermediaries modify bodies.
    #[must_use]
    pub fn credentials_for(
        &self,
        user: &'a [u8],
        ha1: &[u8],
        request: &DigestInput<'a>,
        cnonce: &'a [u8],
        nc: u32,
    ) -> Credentials<'a> {
        let qop = match self.qop {
            QopOptions { auth: true, .. } => Some(Qop::Auth),
            QopOptions { auth_int: true, .. } => Some(Qop::AuthInt),
            _ => None,
        };
        let mut credentials = Credentials {
            username: Cow::Borrowed(user),
            realm: self.realm,
            nonce: self.nonce,
            uri: request.uri,
            response: DigestResponse::Received(b""),
            algorithm: self.algorithm,
            session: self.session,
            cnonce: (qop.is_some() || self.session).then_some(cnonce),
            opaque: self.opaque,
            qop,
            nc: qop.map(|_| NonceCount::new(nc)),
        };
        let response = credentials.expected_response(ha1, request.method, request.body);
        credentials.response = DigestResponse::Computed(response);
        credentials
    }
}
