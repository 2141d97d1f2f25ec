//! Via (RFC 3261 section 20.42, rport of RFC 3581).

use super::{HeaderError, HeaderName};
use crate::encode::Encode;
use crate::lex;
use crate::param::Params;
use crate::transport::Transport;
use crate::uri::{Host, host_port, ipv6};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;

/// A Via header field value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via<'a> {
    /// The transport as received, which may be any token.
    pub transport: &'a [u8],
    /// The host of `sent-by`.
    pub host: Host<'a>,
    /// The port of `sent-by`, if one is given.
    pub port: Option<u16>,
    /// The parameters.
    pub params: Params<'a>,
    branch: Option<&'a [u8]>,
    /// The values of `received` and `rport`. An `rport` may have no value.
    received: Option<&'a [u8]>,
    rport: Option<Option<&'a [u8]>>,
    /// The ranges of these two parameters in `params`, in order; empty ranges at the end if absent.
    source_params: [(u32, u32); 2],
}

/// The prefix of a branch as defined by RFC 3261 (section 8.1.1.7).
pub const MAGIC_COOKIE: &[u8] = b"z9hG4bK";

impl<'a> Via<'a> {
    /// Parses one element of a Via header field.
    ///
    /// # Errors
    /// [`HeaderError`] if it violates the grammar.
    pub fn parse(element: &'a [u8]) -> Result<Self, HeaderError> {
        Self::read(element).ok_or(HeaderError {
            name: HeaderName::Via,
            expected: "SIP/2.0/TRANSPORT host[:port][;parameters]",
        })
    }

    fn read(element: &'a [u8]) -> Option<Self> {
        let rest = match element.strip_prefix(b"SIP/2.0/") {
            Some(rest) => rest,
            None => {
                let rest = protocol_part(element, |name| name.eq_ignore_ascii_case(b"SIP"))?;
                protocol_part(rest, |version| version == b"2.0")?
            }
        };
        let (transport, rest) = lex::split_while(rest, lex::is_token);
        let after_transport = lex::trim_start(rest);
        if transport.is_empty() || after_transport.len() == rest.len() {
            return None;
        }
        let (sent_by, params) = lex::split_before(b';', after_transport);
        let (host, port) = host_port(lex::trim(sent_by)).ok()?;
        let params = Params::new(params);
        let (mut branch, mut received, mut rport) = (None, None, None);
        let end = params.as_bytes().len() as u32;
        let mut source_params = [(end, end); 2];
        let mut found = source_params.iter_mut();
        let mut note = |place: Range<usize>| {
            if let Some(found) = found.next() {
                *found = (place.start as u32, place.end as u32);
            }
        };
        // The first parameter of each name counts.
        let is_valid = params.all_valid(|(name, value), place| match name.len() {
            6 if branch.is_none() && name.eq_ignore_ascii_case(b"branch") => branch = value,
            8 if received.is_none() && name.eq_ignore_ascii_case(b"received") => {
                received = value;
                note(place);
            }
            5 if rport.is_none() && name.eq_ignore_ascii_case(b"rport") => {
                rport = Some(value);
                note(place);
            }
            _ => {}
        });
        let via = Self { transport, host, port, params, branch, received, rport, source_params };
        is_valid.then_some(via)
    }

    /// The parameters as received, without `received` and `rport`, in parts.
    pub(crate) fn params_without_source(&self) -> impl Iterator<Item = &'a [u8]> {
        let params = self.params.as_bytes();
        let [first, second] = self.source_params.map(|(start, end)| (start as usize, end as usize));
        [&params[..first.0], &params[first.1..second.0], &params[second.1..]].into_iter()
    }

    /// The transport, if it is a known one.
    #[must_use]
    pub fn known_transport(&self) -> Option<Transport> {
        Transport::parse(self.transport)
    }

    /// The `branch` parameter.
    #[must_use]
    pub const fn branch(&self) -> Option<&'a [u8]> {
        self.branch
    }

    /// The branch, if it identifies the transaction (RFC 3261 section 17.2.3): it starts with the
    /// magic cookie and is longer.
    #[must_use]
    pub fn transaction_branch(&self) -> Option<&'a [u8]> {
        let branch = self.branch?;
        let (cookie, rest) = branch.split_at_checked(MAGIC_COOKIE.len())?;
        (cookie.eq_ignore_ascii_case(MAGIC_COOKIE) && !rest.is_empty()).then_some(branch)
    }

    /// Returns true if there is a `received` parameter, with an address or not.
    pub(crate) const fn has_received(&self) -> bool {
        self.received.is_some()
    }

    /// The address in the `received` parameter.
    #[must_use]
    pub fn received(&self) -> Option<IpAddr> {
        let value = self.received?;
        // RFC 5118 section 4.5: with and without brackets.
        let host = Host::parse(value).ok();
        host.and_then(|host| host.ip()).or_else(|| ipv6(value).map(IpAddr::V6))
    }

    /// The `rport` parameter: `None` if absent, `Some(None)` without a value (RFC 3581).
    #[must_use]
    pub fn rport(&self) -> Option<Option<u16>> {
        self.rport
            .map(|value| value.and_then(lex::decimal).and_then(|port| u16::try_from(port).ok()))
    }

    /// Returns true if `rport` has to be added to a request that did not ask for it. Behind a NAT
    /// the port of `sent-by` is unreachable, and on a stream it usually differs from that of the
    /// connection.
    #[must_use]
    pub fn requires_rport(&self, source: SocketAddr) -> bool {
        let on_stream = self.known_transport().is_some_and(Transport::is_stream);
        self.host.ip() != Some(source.ip()) || on_stream && self.port_or_default() != source.port()
    }

    /// The port of `sent-by`, or the default port of the transport.
    #[must_use]
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or_else(|| {
            self.known_transport().map_or(Transport::Udp.default_port(), Transport::default_port)
        })
    }
}

fn protocol_part(bytes: &[u8], accept: impl Fn(&[u8]) -> bool) -> Option<&[u8]> {
    let (name, rest) = lex::split_while(bytes, lex::is_token);
    let rest = lex::trim_start(rest).strip_prefix(b"/")?;
    accept(name).then(|| lex::trim_start(rest))
}

impl Via<'_> {
    /// The destination of a response to a datagram from `source` with this topmost Via (RFC 3261
    /// section 18.2.2, RFC 3581 section 4). The port of `sent-by` is used only without `rport` and
    /// if the host of `sent-by` is the source address.
    #[must_use]
    pub fn response_address(&self, source: SocketAddr) -> SocketAddr {
        if self.rport().is_some() || self.host.ip() != Some(source.ip()) {
            return source;
        }
        SocketAddr::new(source.ip(), self.port_or_default())
    }
}

impl Encode for Via<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        let port = self.port.map(|port| (":", port));
        ("SIP/2.0/", self.transport, " ", self.host, port, self.params).encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_via_with_the_white_space_of_rfc_4475_is_parsed() {
        let via =
            Via::parse(b"SIP  / 2.0\r\n /UDP\r\n    192.0.2.2;branch=390skdjuw ; rport").unwrap();
        assert_eq!(via.known_transport(), Some(Transport::Udp));
        assert_eq!(via.host, Host::Ip("192.0.2.2".parse().unwrap()));
        assert_eq!(via.branch(), Some(&b"390skdjuw"[..]));
        assert_eq!(via.transaction_branch(), None);
        assert_eq!(via.rport(), Some(None));
        assert_eq!(via.port_or_default(), 5060);
    }

    #[test]
    fn received_is_parsed_with_and_without_brackets() {
        for value in ["2001:db8::9:255", "[2001:db8::9:255]"] {
            let text =
                std::format!("SIP/2.0/UDP [2001:db8::9:1]:7;received={value};branch=z9hG4bKas3");
            let via = Via::parse(text.as_bytes()).unwrap();
            assert_eq!(via.received(), Some("2001:db8::9:255".parse().unwrap()));
            assert_eq!(via.transaction_branch(), Some(&b"z9hG4bKas3"[..]));
            assert_eq!(via.port_or_default(), 7);
        }
    }

    #[test]
    fn extra_separators_and_other_protocols_are_rejected() {
        for bad in [
            &b"SIP/2.0/UDP 192.0.2.15;;,;,,"[..],
            b"SIP/2.0/UDP",
            b"SIP/3.0/UDP host",
            b"HTTP/2.0/UDP host",
            b"SIP/2.0/UDP host name",
            b"SIP/2.0/UDP 192.0.2.1:70000",
            b"",
        ] {
            assert!(Via::parse(bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn a_bare_magic_cookie_identifies_nothing() {
        let via = Via::parse(b"SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK").unwrap();
        assert_eq!(via.branch(), Some(MAGIC_COOKIE));
        assert_eq!(via.transaction_branch(), None);
    }

    #[test]
    fn responses_go_to_sent_by_only_if_it_is_the_source() {
        for (via, expected) in [
            (&b"SIP/2.0/UDP 192.0.2.1:5070"[..], "192.0.2.1:5070"),
            (b"SIP/2.0/UDP 192.0.2.1", "192.0.2.1:5060"),
            (b"SIP/2.0/UDP 192.0.2.1:5070;rport", "192.0.2.1:9"),
            (b"SIP/2.0/UDP 10.0.0.1:5070", "192.0.2.1:9"),
            (b"SIP/2.0/UDP host:5070", "192.0.2.1:9"),
        ] {
            let via = Via::parse(via).unwrap();
            let address = via.response_address("192.0.2.1:9".parse().unwrap());
            assert_eq!(address, expected.parse().unwrap());
        }
    }

    #[test]
    fn a_via_is_written_as_parsed() {
        for via in [
            "SIP/2.0/UDP host",
            "SIP/2.0/TCP [2001:db8::1]:5070;branch=z9hG4bK1;rport",
            "SIP/2.0/WSS 192.0.2.1;branch=x;received=192.0.2.2",
        ] {
            let mut out = Vec::new();
            Via::parse(via.as_bytes()).unwrap().encode(&mut out);
            assert_eq!(out, via.as_bytes());
        }
    }
}
