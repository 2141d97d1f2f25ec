//! URIs: SIP and SIPS (RFC 3261 section 19.1, IPv6 by RFC 5954), tel (RFC 3966), and opaque others.

mod escape;

use crate::encode::{Encode, write_ip};
use crate::lex::{self, Common, Marks, Set};
use crate::param::{MAX_URI_PARAMS, Params};
use crate::transport::Transport;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use smallvec::SmallVec;

pub use escape::{escape_param, escape_user, unescape};

/// The reason why bytes are not a URI that SIP can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UriError {
    /// There is no scheme.
    Scheme,
    /// A character that has to be escaped, or white space.
    Character(u8),
    /// The host is not a name, an IPv4 address or an IPv6 address in brackets.
    Host,
    /// The port is not a number from 0 to 65535.
    Port,
    /// A parameter or header has no name.
    Parameter,
    /// More than [`MAX_URI_PARAMS`] parameters or header fields.
    TooManyParameters,
    /// The number of a tel URI has no digits.
    Number,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => f.write_str("a URI begins with a scheme and a colon"),
            Self::Character(byte) => {
                write!(f, "'{}' is not allowed in a URI", byte.escape_ascii())
            }
            Self::Host => f.write_str(
                "the host of a SIP URI is a name, an IPv4 address or an IPv6 address in brackets",
            ),
            Self::Port => f.write_str("the port of a SIP URI is a number from 0 to 65535"),
            Self::Parameter => f.write_str("a URI parameter or header has no name"),
            Self::TooManyParameters => {
                write!(f, "a URI has at most {MAX_URI_PARAMS} parameters and as many header fields")
            }
            Self::Number => f.write_str("a tel URI holds a telephone number"),
        }
    }
}

impl core::error::Error for UriError {}

/// A URI of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uri<'a> {
    /// `sip:` or `sips:`.
    Sip(SipUri<'a>),
    /// `tel:`.
    Tel(TelUri<'a>),
    /// A URI with another scheme.
    Other {
        /// The scheme, without the colon.
        scheme: &'a [u8],
        /// The whole URI.
        uri: &'a [u8],
    },
}

impl<'a> Uri<'a> {
    /// Parses a URI.
    ///
    /// # Errors
    /// [`UriError`] if the bytes violate the syntax of the scheme.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, UriError> {
        if let [b's' | b'S', b'i' | b'I', b'p' | b'P', b':', rest @ ..] = bytes {
            return SipUri::parse_after_scheme(false, rest).map(Self::Sip);
        }
        let (scheme, rest) = lex::split_before(b':', bytes);
        let rest = rest.strip_prefix(b":").ok_or(UriError::Scheme)?;
        if scheme.eq_ignore_ascii_case(b"sips") {
            return SipUri::parse_after_scheme(true, rest).map(Self::Sip);
        }
        if !Set::URI.has_all(bytes) {
            return Err(invalid_character(bytes, Set::URI));
        }
        if scheme.eq_ignore_ascii_case(b"tel") {
            return TelUri::parse_subscriber(rest).map(Self::Tel);
        }
        let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
            && scheme
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
        if is_scheme { Ok(Self::Other { scheme, uri: bytes }) } else { Err(UriError::Scheme) }
    }

    /// The SIP or SIPS URI, if it is one.
    #[must_use]
    pub const fn as_sip(&self) -> Option<&SipUri<'a>> {
        match self {
            Self::Sip(uri) => Some(uri),
            _ => None,
        }
    }
}

/// A host of a URI or a Via.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host<'a> {
    /// A domain name, case-insensitive.
    Name(&'a [u8]),
    /// An IPv4 or IPv6 address.
    Ip(IpAddr),
}

impl<'a> Host<'a> {
    /// Parses a host. An IPv6 address has brackets.
    ///
    /// # Errors
    /// [`UriError::Host`]: the bytes are neither an address nor a name.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, UriError> {
        if let [b'[', inner @ .., b']'] = bytes {
            return ipv6(inner).map(|address| Self::Ip(address.into())).ok_or(UriError::Host);
        }
        if bytes.last().ok_or(UriError::Host)?.is_ascii_digit() {
            if let Some(address) = ipv4(bytes) {
                return Ok(Self::Ip(address.into()));
            }
            // A name of only digits and dots would be ambiguous with a mistyped address.
            if bytes.iter().all(|&byte| byte.is_ascii_digit() || byte == b'.') {
                return Err(UriError::Host);
            }
        }
        let mut labels = bytes;
        while let Some(dot) = lex::find(b'.', labels) {
            if dot == 0 {
                return Err(UriError::Host);
            }
            labels = &labels[dot + 1..];
        }
        Set::HOST_NAME.has_all(bytes).then_some(Self::Name(bytes)).ok_or(UriError::Host)
    }

    /// Returns true if both are the same host. Names are case-insensitive and may end with a dot.
    #[must_use]
    pub fn is_equivalent(&self, other: &Host<'_>) -> bool {
        match (self, other) {
            (Self::Ip(one), Host::Ip(other)) => one.to_canonical() == other.to_canonical(),
            (Self::Name(one), Host::Name(other)) => one
                .strip_suffix(b".")
                .unwrap_or(one)
                .eq_ignore_ascii_case(other.strip_suffix(b".").unwrap_or(other)),
            _ => false,
        }
    }

    /// A canonical form, which is equal only for names that differ in case.
    #[must_use]
    pub fn canonical(&self) -> SmallVec<[u8; 64]> {
        match self {
            Self::Name(name) => name.iter().map(u8::to_ascii_lowercase).collect(),
            // Names do not start with a colon.
            Self::Ip(ip) => {
                let mut bytes = SmallVec::from_slice(b":");
                match ip {
                    IpAddr::V4(ip) => bytes.extend_from_slice(&ip.octets()),
                    IpAddr::V6(ip) => bytes.extend_from_slice(&ip.octets()),
                }
                bytes
            }
        }
    }

    /// The address, if the host is one.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(*address),
            Self::Name(_) => None,
        }
    }
}

impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(f, "{}", name.escape_ascii()),
            Self::Ip(IpAddr::V4(address)) => write!(f, "{address}"),
            Self::Ip(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// Parses an IPv4 address: four decimal numbers without leading zeros, as [`Ipv4Addr`] does.
fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    let (first, rest) = octet(bytes)?;
    let (second, rest) = octet(rest.strip_prefix(b".")?)?;
    let (third, rest) = octet(rest.strip_prefix(b".")?)?;
    let (fourth, rest) = octet(rest.strip_prefix(b".")?)?;
    rest.is_empty().then(|| Ipv4Addr::new(first, second, third, fourth))
}

/// Parses a leading number from 0 to 255, and returns the bytes after it.
#[inline(always)]
fn octet(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let digit =
        |at: usize| bytes.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10);
    let first = digit(0)?;
    let Some(second) = digit(1).filter(|_| first > 0) else { return Some((first, &bytes[1..])) };
    let two = 10 * first + second;
    let Some(third) = digit(2) else { return Some((two, &bytes[2..])) };
    Some((two.checked_mul(10)?.checked_add(third)?, &bytes[3..]))
}

/// Parses an IPv6 address. Three colons before an embedded IPv4 address result from an error in the
/// grammar of RFC 3261 and mean two (RFC 5118 section 4.10).
pub(crate) fn ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    let text = core::str::from_utf8(bytes).ok()?;
    if let Some(at) = text.find(":::") {
        let mut fixed = [0u8; 48];
        let length = bytes.len() - 1;
        let fixed = fixed.get_mut(..length)?;
        fixed[..at].copy_from_slice(&bytes[..at]);
        fixed[at..].copy_from_slice(&bytes[at + 1..]);
        return core::str::from_utf8(fixed).ok()?.parse().ok();
    }
    text.parse().ok()
}

/// Returns true if `uri` has the scheme `sips`.
#[must_use]
pub fn is_sips(uri: &[u8]) -> bool {
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"sips:"))
}

/// Splits `host[:port]` and parses both parts.
pub(crate) fn host_port(bytes: &[u8]) -> Result<(Host<'_>, Option<u16>), UriError> {
    let host_end = match bytes.first() {
        Some(b'[') => {
            bytes.iter().position(|&byte| byte == b']').map(|at| at + 1).ok_or(UriError::Host)?
        }
        _ => lex::find(b':', bytes).unwrap_or(bytes.len()),
    };
    let (host, rest) = bytes.split_at(host_end);
    let host = Host::parse(lex::trim(host))?;
    let port = match lex::trim(rest) {
        [] => None,
        [b':', digits @ ..] => Some(port(lex::trim(digits))?),
        _ => return Err(UriError::Host),
    };
    Ok((host, port))
}

fn port(digits: &[u8]) -> Result<u16, UriError> {
    lex::decimal(digits).and_then(|number| u16::try_from(number).ok()).ok_or(UriError::Port)
}

/// A SIP or SIPS URI of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SipUri<'a> {
    /// True for `sips:`.
    pub secure: bool,
    /// The user part with its escapes, without the password. `None` without `@`.
    pub user: Option<&'a [u8]>,
    /// The password with its escapes.
    pub password: Option<&'a [u8]>,
    /// The host.
    pub host: Host<'a>,
    /// The port, if one is given.
    pub port: Option<u16>,
    /// The URI parameters, at most [`MAX_URI_PARAMS`].
    pub params: Params<'a>,
    /// The part after `?` as received; empty if absent. At most [`MAX_URI_PARAMS`] header fields,
    /// separated by `&`.
    pub headers: &'a [u8],
}

/// The delimiters between the parts of a SIP URI, as offsets after the scheme.
#[derive(Default)]
struct Parts {
    at: Option<usize>,
    /// The first colon of the user part, and the first one after it.
    password: Option<usize>,
    colon: Option<usize>,
    /// The first ones after the user part.
    semicolon: Option<usize>,
    question: Option<usize>,
}

impl Parts {
    /// Visits each mark once, finds the delimiters, and checks that it is allowed at its position.
    /// Other bytes are allowed everywhere.
    fn of(rest: &[u8]) -> Result<Self, UriError> {
        let mut parts = Self::default();
        let mut common = Common::ALL;
        for index in Marks::new(rest) {
            let byte = rest[index];
            let sets = Common::of(byte);
            if !sets.has(Set::URI_STOP) {
                common = common.and(sets);
                continue;
            }
            match byte {
                b'@' if parts.at.is_some() => return Err(UriError::Character(b'@')),
                // The user part may contain semicolons and question marks.
                b'@' => {
                    if !common.has(Set::USER) {
                        return Err(invalid_character(&rest[..index], Set::USER));
                    }
                    parts = Self { at: Some(index), password: parts.colon, ..Self::default() };
                }
                b':' => parts.colon = parts.colon.or(Some(index)),
                b';' if parts.question.is_none() => {
                    parts.semicolon = parts.semicolon.or(Some(index));
                }
                b'?' => parts.question = parts.question.or(Some(index)),
                _ => {}
            }
        }
        if common.has(Set::URI) { Ok(parts) } else { Err(invalid_character(rest, Set::URI)) }
    }
}

impl<'a> SipUri<'a> {
    /// Returns true if the user part is a telephone number (`user=phone`, RFC 3261 section 19.1.1).
    #[must_use]
    pub fn is_phone(&self) -> bool {
        self.params.value("user").is_some_and(|user| user.eq_ignore_ascii_case(b"phone"))
    }

    fn parse_after_scheme(secure: bool, rest: &'a [u8]) -> Result<Self, UriError> {
        let parts = Parts::of(rest)?;
        let (user, password) = match parts.at {
            None => (None, None),
            Some(at) => {
                let info = &rest[..at];
                match parts.password {
                    Some(colon) => (Some(&info[..colon]), Some(&info[colon + 1..])),
                    None => (Some(info), None),
                }
            }
        };
        if user.is_some_and(<[u8]>::is_empty) {
            return Err(UriError::Character(b'@'));
        }
        let host_start = parts.at.map_or(0, |at| at + 1);
        let headers = parts.question.map_or(&[][..], |at| &rest[at + 1..]);
        let rest = &rest[..parts.question.unwrap_or(rest.len())];
        let (host, params) = rest.split_at(parts.semicolon.unwrap_or(rest.len()));
        let (host, port) = match parts.colon.filter(|&colon| colon < host.len()) {
            _ if host.get(host_start) == Some(&b'[') => host_port(&host[host_start..])?,
            Some(colon) => {
                let name = Host::parse(&host[host_start..colon])?;
                (name, Some(port(&host[colon + 1..])?))
            }
            None => (Host::parse(&host[host_start..])?, None),
        };
        let params = named_params(params)?;
        if header_fields(headers).nth(MAX_URI_PARAMS).is_some() {
            return Err(UriError::TooManyParameters);
        }
        Ok(Self { secure, user, password, host, port, params, headers })
    }

    /// The `transport` parameter: `None` if absent, `Some(None)` for an unknown transport.
    #[must_use]
    pub fn transport(&self) -> Option<Option<Transport>> {
        self.params.value("transport").map(Transport::parse)
    }

    /// Returns true if the `lr` parameter marks a loose router (RFC 3261 section 19.1.1).
    #[must_use]
    pub fn is_loose(&self) -> bool {
        self.params.has("lr")
    }

    /// Returns true if the URIs are equal (RFC 3261 section 19.1.4). Of repeated parameters, which
    /// the RFC does not allow, the first counts.
    ///
    /// The cost grows with the sum of both lengths, not with their product.
    #[must_use]
    pub fn is_equivalent(&self, other: &SipUri<'_>) -> bool {
        let users = match (self.user, other.user) {
            (Some(one), Some(other)) => lex::unescape(one).eq(lex::unescape(other)),
            (None, None) => true,
            _ => false,
        };
        let passwords = match (self.password, other.password) {
            (Some(one), Some(other)) => lex::unescape(one).eq(lex::unescape(other)),
            (None, None) => true,
            _ => false,
        };
        users
            && passwords
            && self.secure == other.secure
            && self.host.is_equivalent(&other.host)
            && self.port == other.port
            && are_same_params(self.params, other.params)
            && are_same_headers(self.headers, other.headers)
    }
}

/// Parses URI parameters, checking their names and number.
fn named_params(bytes: &[u8]) -> Result<Params<'_>, UriError> {
    let params = Params::new(bytes);
    for (place, (name, _)) in params.iter().enumerate() {
        if name.is_empty() {
            return Err(UriError::Parameter);
        }
        if place == MAX_URI_PARAMS {
            return Err(UriError::TooManyParameters);
        }
    }
    Ok(params)
}

/// The header fields after `?`.
fn header_fields(headers: &[u8]) -> impl Iterator<Item = &[u8]> {
    headers.split(|&byte| byte == b'&')
}

/// A part of a URI in canonical form: unescaped and in lower case.
type Canonical = SmallVec<[u8; 24]>;

fn canonical(bytes: &[u8]) -> Canonical {
    let mut canonical = match unescape(bytes) {
        Cow::Borrowed(bytes) => Canonical::from_slice(bytes),
        Cow::Owned(bytes) => Canonical::from_vec(bytes),
    };
    canonical.make_ascii_lowercase();
    canonical
}

/// Common parameters must match. `user`, `ttl`, `method`, `maddr` and `transport` must be in both
/// or in neither.
fn are_same_params(one: Params<'_>, other: Params<'_>) -> bool {
    const IN_BOTH: [&[u8]; 5] = [b"user", b"ttl", b"method", b"maddr", b"transport"];
    let (one, other) = (by_name(one), by_name(other));
    one.iter().all(|(name, value)| other.get(name).is_none_or(|other| other == value))
        && IN_BOTH.iter().all(|&name| one.contains_key(name) == other.contains_key(name))
}

/// The parameters by name, for a fast lookup.
fn by_name(params: Params<'_>) -> BTreeMap<Canonical, Canonical> {
    let mut named = BTreeMap::new();
    for (name, value) in params.iter() {
        named.entry(canonical(name)).or_insert_with(|| canonical(value.unwrap_or_default()));
    }
    named
}

/// Each header field must be in both.
fn are_same_headers(one: &[u8], other: &[u8]) -> bool {
    let in_order = |headers| {
        let mut fields: Vec<_> = header_fields(headers).map(canonical).collect();
        fields.sort_unstable();
        fields.dedup();
        fields
    };
    one == other || in_order(one) == in_order(other)
}

/// The error for the first byte that is not in `set`.
fn invalid_character(bytes: &[u8], set: Set) -> UriError {
    let byte = bytes.iter().copied().find(|&byte| !set.has(byte));
    UriError::Character(byte.unwrap_or_default())
}

/// A tel URI of a message (RFC 3966).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelUri<'a> {
    /// The number, with `+` if it is global and with visual separators.
    pub number: &'a [u8],
    /// The parameters, at most [`MAX_URI_PARAMS`].
    pub params: Params<'a>,
}

impl<'a> TelUri<'a> {
    /// Parses a telephone-subscriber: the part after `tel:`, or the unescaped user part of a SIP
    /// URI with `user=phone` (RFC 3261 section 19.1.6).
    ///
    /// # Errors
    /// [`UriError`] if it is not a number, or has too many parameters.
    pub fn parse_subscriber(rest: &'a [u8]) -> Result<Self, UriError> {
        let end = rest.iter().position(|&byte| byte == b';').unwrap_or(rest.len());
        let (number, params) = rest.split_at(end);
        let digits = number.strip_prefix(b"+").unwrap_or(number);
        let is_digit = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'*' | b'#');
        let in_form =
            digits.iter().all(|&byte| is_digit(byte) || matches!(byte, b'-' | b'.' | b'(' | b')'));
        if !in_form || !digits.iter().any(|&byte| is_digit(byte)) {
            return Err(UriError::Number);
        }
        let params = Params::new(params);
        if params.iter().nth(MAX_URI_PARAMS).is_some() {
            return Err(UriError::TooManyParameters);
        }
        Ok(Self { number, params })
    }

    /// Appends the number without visual separators.
    pub fn write_canonical_number(&self, out: &mut Vec<u8>) {
        out.extend(self.number.iter().filter(|byte| !matches!(byte, b'-' | b'.' | b'(' | b')')));
    }
}

impl Encode for Host<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Name(name) => out.extend_from_slice(name),
            Self::Ip(address @ IpAddr::V4(_)) => write_ip(*address, out),
            Self::Ip(address @ IpAddr::V6(_)) => {
                out.push(b'[');
                write_ip(*address, out);
                out.push(b']');
            }
        }
    }
}

/// Writes `host:port`, as in Via and in URIs, with brackets around an IPv6 address.
impl Encode for SocketAddr {
    fn encode(&self, out: &mut Vec<u8>) {
        (Host::Ip(self.ip()), ":", self.port()).encode(out);
    }
}

impl Encode for SipUri<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let password = self.password.map(|password| (":", password));
        let user = self.user.map(|user| (user, password, "@"));
        let port = self.port.map(|port| (":", port));
        let headers = (!self.headers.is_empty()).then_some(("?", self.headers));
        let scheme = if self.secure { "sips:" } else { "sip:" };
        (scheme, user, self.host, port, self.params, headers).encode(out);
    }
}

impl Encode for TelUri<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        ("tel:", self.number, self.params).encode(out);
    }
}

impl Encode for Uri<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Sip(uri) => uri.encode(out),
            Self::Tel(uri) => uri.encode(out),
            Self::Other { uri, .. } => uri.encode(out),
        }
    }
}

#[cfg(test)]
#[path = "uri_tests.rs"]
mod tests;
