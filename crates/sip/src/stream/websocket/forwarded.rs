//! The client address in X-Forwarded-For and in Forwarded (RFC 7239).

use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

/// The header field in which proxies name their client. A client can write the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientField {
    /// X-Forwarded-For.
    #[default]
    XForwardedFor,
    /// Forwarded, with its parameter `for`.
    Forwarded,
}

/// The error of a header field that does not name the client of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidHops;

impl fmt::Display for InvalidHops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected the address of the client, as the proxy has seen it")
    }
}

impl core::error::Error for InvalidHops {}

impl ClientField {
    /// The name of the header field.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "X-Forwarded-For",
            Self::Forwarded => "Forwarded",
        }
    }

    /// Returns the client that `hops`, the values of this header field joined by commas, name: the
    /// last hop that is not a proxy, or the first hop if all are proxies. The port is present if a
    /// proxy has written it.
    ///
    /// # Errors
    /// [`InvalidHops`]: the list is empty, or an evaluated element is not an address of a host.
    pub fn client(
        self,
        hops: &str,
        is_proxy: impl Fn(IpAddr) -> bool,
    ) -> Result<(IpAddr, Option<u16>), InvalidHops> {
        let hops: Vec<&str> = match self {
            Self::XForwardedFor => hops.split(',').map(str::trim).collect(),
            Self::Forwarded => elements(hops).ok_or(InvalidHops)?,
        };
        let mut client = Err(InvalidHops);
        for hop in hops.into_iter().rev().filter(|hop| !hop.is_empty()) {
            let (address, port) = parse(hop).ok_or(InvalidHops)?;
            client = Ok((address, port));
            if !is_proxy(address) {
                break;
            }
        }
        client
    }
}

/// The value of `for` in each element of Forwarded (RFC 7239 section 4), without quotes. `None` if
/// an element is malformed or has no `for`. A client may try to hide the element of the proxy in a
/// quoted string.
fn elements(mut text: &str) -> Option<Vec<&str>> {
    let mut hops = Vec::new();
    loop {
        let mut hop = None;
        loop {
            let (name, rest) = text.split_once('=')?;
            let (value, rest) = value(rest)?;
            let name = name.trim();
            let is_token = !name.is_empty() && !name.contains([' ', '\t', ',', ';', '"']);
            let is_second = hop.is_some() && name.eq_ignore_ascii_case("for");
            if !is_token || is_second {
                return None;
            }
            if name.eq_ignore_ascii_case("for") {
                hop = Some(value).filter(|value| !value.is_empty());
            }
            text = rest.trim_start();
            match text.strip_prefix(';') {
                Some(more) => text = more,
                None => break,
            }
        }
        hops.push(hop?);
        if text.is_empty() {
            return Some(hops);
        }
        text = text.strip_prefix(',')?;
    }
}

/// The value at the start of `text`, a token or the contents of a quoted string, and the rest.
fn value(text: &str) -> Option<(&str, &str)> {
    let Some(inner) = text.strip_prefix('"') else {
        let end = text.find([';', ',', ' ', '\t', '"']).unwrap_or(text.len());
        return Some(text.split_at(end));
    };
    let mut is_escaped = false;
    let end = inner.find(|character| {
        let is_end = character == '"' && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        is_end
    })?;
    Some((&inner[..end], &inner[end + 1..]))
}

/// Parses an address, with or without brackets, with or without a port.
fn parse(hop: &str) -> Option<(IpAddr, Option<u16>)> {
    let (address, port) = match hop.parse::<SocketAddr>() {
        Ok(both) => (both.ip(), Some(both.port())),
        Err(_) => {
            let inner = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']'));
            (inner.unwrap_or(hop).parse().ok()?, None)
        }
    };
    let address = address.to_canonical();
    let is_of_host = !address.is_unspecified() && !address.is_multicast();
    is_of_host.then_some((address, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_client_is_the_last_hop_that_is_no_proxy() {
        let is_proxy = |address: IpAddr| address.is_loopback() || address.to_string() == "10.0.0.1";
        for (hops, client) in [
            ("192.0.2.1", Some(("192.0.2.1", None))),
            ("6.6.6.6, 192.0.2.1", Some(("192.0.2.1", None))),
            ("6.6.6.6,192.0.2.1,  10.0.0.1 ,127.0.0.1", Some(("192.0.2.1", None))),
            ("nonsense, 192.0.2.1", Some(("192.0.2.1", None))),
            ("10.0.0.1, 127.0.0.1", Some(("10.0.0.1", None))),
            (",192.0.2.1,,", Some(("192.0.2.1", None))),
            ("192.0.2.1:40000", Some(("192.0.2.1", Some(40000)))),
            ("[2001:db8::1]:40000", Some(("2001:db8::1", Some(40000)))),
            ("[2001:db8::1]", Some(("2001:db8::1", None))),
            ("2001:db8::1", Some(("2001:db8::1", None))),
            ("::ffff:192.0.2.1", Some(("192.0.2.1", None))),
            ("", None),
            (" , ", None),
            ("192.0.2.1, unknown", None),
            ("192.0.2.1, unknown, 10.0.0.1", None),
            ("192.0.2.1:", None),
            ("0.0.0.0", None),
            ("224.0.0.1", None),
        ] {
            let client = client.map(|(address, port)| (address.parse().unwrap(), port));
            assert_eq!(ClientField::XForwardedFor.client(hops, is_proxy).ok(), client, "{hops}");
        }
    }

    #[test]
    fn forwarded_is_read_as_in_rfc_7239() {
        let is_proxy = |address: IpAddr| address.is_loopback();
        for (hops, client) in [
            ("for=192.0.2.60;proto=http;by=203.0.113.43", Some(("192.0.2.60", None))),
            ("For=\"[2001:db8:cafe::17]:4711\"", Some(("2001:db8:cafe::17", Some(4711)))),
            ("for=192.0.2.43, for=198.51.100.17", Some(("198.51.100.17", None))),
            ("for=6.6.6.6,for=192.0.2.43;proto=https , for=127.0.0.1", Some(("192.0.2.43", None))),
            ("for=127.0.0.1", Some(("127.0.0.1", None))),
            ("for=_hidden, for=192.0.2.43", Some(("192.0.2.43", None))),
            ("by=\"a,b;for=6.6.6.6\";for=192.0.2.43", Some(("192.0.2.43", None))),
            ("by=\"a\\\",for=6.6.6.6\";for=\"192.0.2.43:80\"", Some(("192.0.2.43", Some(80)))),
            ("", None),
            ("for=", None),
            ("for=unknown", None),
            ("for=_hidden", None),
            ("for=192.0.2.43, for=unknown", None),
            ("for=192.0.2.43, proto=https", None),
            ("for=192.0.2.43;for=6.6.6.6", None),
            ("192.0.2.43", None),
            ("for=192.0.2.43, ", None),
            // The client opens a quoted string.
            ("for=6.6.6.6;by=\", for=192.0.2.43", None),
            ("for=6.6.6.6;by=\", for=\"[2001:db8::1]:7\"", None),
            ("for=6.6.6.6;by=\", for=\"192.0.2.43\";by=\"203.0.113.1\"", None),
            ("x, for=192.0.2.43", None),
        ] {
            let client = client.map(|(address, port)| (address.parse().unwrap(), port));
            assert_eq!(ClientField::Forwarded.client(hops, is_proxy).ok(), client, "{hops}");
        }
    }
}
