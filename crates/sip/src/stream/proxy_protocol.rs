//! The PROXY protocol, versions 1 and 2: a header with the address of the client, which a proxy
//! sends at the start of a relayed connection (haproxy.org, `proxy-protocol.txt`).
//!
//! It is accepted on connections of known proxies only: a header of another peer proves nothing.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The maximum length of a header in bytes. Version 1 has at most 107. Version 2 has 52 with IPv6
/// addresses, and the rest is for its further fields.
pub const MAX_LENGTH: usize = 536;

const MAX_V1: usize = 107;
const START_V1: &[u8] = b"PROXY ";
const START_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The length of a version 2 header up to its length field.
const HEAD_V2: usize = 16;

/// The start of a connection from a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// There is no header.
    Absent,
    /// The bytes may be the beginning of a header.
    Partial,
    /// A header.
    Header {
        /// Its length in bytes.
        length: usize,
        /// The address of the client. `None` if the proxy has opened the connection for itself or
        /// does not know the address.
        client: Option<SocketAddr>,
    },
}

/// A header that is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadHeader {
    /// It is longer than [`MAX_LENGTH`] bytes, or in version 1 longer than 107.
    TooLong,
    /// It has an unknown version, or another command than `LOCAL` and `PROXY`.
    Version,
    /// It is too short for its addresses, or an address cannot belong to a host.
    Address,
}

impl fmt::Display for BadHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "the header of PROXY protocol is too long",
            Self::Version => "the header of PROXY protocol has an unknown version or command",
            Self::Address => "the header of PROXY protocol has no address that can be read",
        })
    }
}

impl core::error::Error for BadHeader {}

impl Start {
    /// Parses the first `bytes` of a connection.
    ///
    /// # Errors
    /// [`BadHeader`] if the bytes are a header that is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadHeader> {
        if bytes.starts_with(START_V2) {
            return parse_v2(bytes);
        }
        if bytes.starts_with(START_V1) {
            return parse_v1(bytes);
        }
        let may_begin = |start: &[u8]| start.starts_with(bytes);
        Ok(if may_begin(START_V1) || may_begin(START_V2) { Self::Partial } else { Self::Absent })
    }
}

fn parse_v1(bytes: &[u8]) -> Result<Start, BadHeader> {
    let line = &bytes[..bytes.len().min(MAX_V1)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if line.len() < MAX_V1 { Ok(Start::Partial) } else { Err(BadHeader::TooLong) };
    };
    let length = end + 2;
    let line = core::str::from_utf8(&line[START_V1.len()..end]).map_err(|_| BadHeader::Address)?;
    let mut words = line.split(' ');
    let is_v4 = match words.next() {
        // The rest of the line has no meaning.
        Some("UNKNOWN") => return Ok(Start::Header { length, client: None }),
        Some("TCP4") => true,
        Some("TCP6") => false,
        _ => return Err(BadHeader::Address),
    };
    let mut word = || words.next().ok_or(BadHeader::Address);
    let (client, server, client_port, server_port) = (word()?, word()?, word()?, word()?);
    let address = |text: &str| {
        let address: Option<IpAddr> = match is_v4 {
            true => text.parse::<Ipv4Addr>().ok().map(IpAddr::from),
            false => text.parse::<Ipv6Addr>().ok().map(IpAddr::from),
        };
        address.ok_or(BadHeader::Address)
    };
    let port = |text: &str| {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number).ok_or(BadHeader::Address)
    };
    let client = SocketAddr::new(address(client)?, port(client_port)?);
    let _: (IpAddr, u16) = (address(server)?, port(server_port)?);
    if words.next().is_some() {
        return Err(BadHeader::Address);
    }
    Ok(Start::Header { length, client: Some(of_host(client)?) })
}

fn parse_v2(bytes: &[u8]) -> Result<Start, BadHeader> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEAD_V2>() else {
        return Ok(Start::Partial);
    };
    let &[.., command, family, high, low] = head;
    let length = HEAD_V2 + usize::from(u16::from_be_bytes([high, low]));
    if length > MAX_LENGTH {
        return Err(BadHeader::TooLong);
    }
    let is_local = match command {
        0x20 => true,
        0x21 => false,
        _ => return Err(BadHeader::Version),
    };
    let Some(block) = rest.get(..length - HEAD_V2) else { return Ok(Start::Partial) };
    let client = match family {
        _ if is_local => None,
        0x11 => Some(client_in::<4, 12>(block)?),
        0x21 => Some(client_in::<16, 36>(block)?),
        // An unspecified address, a datagram socket, or a Unix socket.
        _ => None,
    };
    Ok(Start::Header { length, client })
}

/// Returns the client in a block of `SIZE` bytes that begins with two addresses of `N` bytes and
/// two ports.
fn client_in<const N: usize, const SIZE: usize>(block: &[u8]) -> Result<SocketAddr, BadHeader>
where
    IpAddr: From<[u8; N]>,
{
    let block = block.first_chunk::<SIZE>().ok_or(BadHeader::Address)?;
    let address = block.first_chunk::<N>().ok_or(BadHeader::Address)?;
    let port = block[2 * N..].first_chunk().ok_or(BadHeader::Address)?;
    of_host(SocketAddr::new(IpAddr::from(*address), u16::from_be_bytes(*port)))
}

fn of_host(client: SocketAddr) -> Result<SocketAddr, BadHeader> {
    let ip = client.ip().to_canonical();
    match ip.is_unspecified() || ip.is_multicast() {
        true => Err(BadHeader::Address),
        false => Ok(SocketAddr::new(ip, client.port())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn header(bytes: &[u8], client: Option<&str>) {
        let client = client.map(|client| client.parse().unwrap());
        let wanted = Ok(Start::Header { length: bytes.len(), client });
        assert_eq!(Start::parse(bytes), wanted, "{}", bytes.escape_ascii());
        let longer = [bytes, b"OPTIONS "].concat();
        assert_eq!(Start::parse(&longer), wanted, "what follows is no part of it");
        for end in 0..bytes.len() {
            assert_eq!(Start::parse(&bytes[..end]), Ok(Start::Partial), "{end}");
        }
    }

    fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let length = (block.len() as u16).to_be_bytes();
        [START_V2, &[command, family], &length, block].concat()
    }

    /// The examples of section 2.1.
    #[test]
    fn lines_of_version_1_are_read() {
        header(
            b"PROXY TCP4 255.255.255.254 255.255.255.255 65535 65535\r\n",
            Some("255.255.255.254:65535"),
        );
        header(b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", Some("192.168.0.1:56324"));
        header(b"PROXY TCP6 2001:db8::1 2001:db8::2 65535 443\r\n", Some("[2001:db8::1]:65535"));
        header(b"PROXY UNKNOWN\r\n", None);
        let longest = "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff \
            ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
        assert_eq!(longest.len(), MAX_V1);
        header(longest.as_bytes(), None);
    }

    /// Section 2.2: the signature, both commands, the address families, and the fields after the
    /// addresses.
    #[test]
    fn headers_of_version_2_are_read() {
        let v4 = [192, 0, 2, 1, 203, 0, 113, 1, 0xdc, 0x04, 0x13, 0xc4];
        header(&v2(0x21, 0x11, &v4), Some("192.0.2.1:56324"));
        let v6: Vec<u8> = [
            "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets(),
            "2001:db8::2".parse::<Ipv6Addr>().unwrap().octets(),
        ]
        .concat()
        .into_iter()
        .chain([0xdc, 0x04, 0x13, 0xc4])
        .collect();
        header(&v2(0x21, 0x21, &v6), Some("[2001:db8::1]:56324"));
        // PP2_TYPE_AUTHORITY, and a field of unknown type.
        let more = [&v4[..], &[2, 0, 7], b"example", &[0xe0, 0, 0]].concat();
        header(&v2(0x21, 0x11, &more), Some("192.0.2.1:56324"));
        header(&v2(0x20, 0, &[]), None);
        header(&v2(0x20, 0x11, &v4), None);
        header(&v2(0x21, 0, &[]), None);
        header(&v2(0x21, 0x31, &[b'/'; 216]), None);
        header(&v2(0x21, 0x12, &v4), None);
        let longest = [&v4[..], &[0; MAX_LENGTH - HEAD_V2 - 12]].concat();
        header(&v2(0x21, 0x11, &longest), Some("192.0.2.1:56324"));
    }

    #[test]
    fn other_beginnings_are_none() {
        for bytes in [
            &b"OPTIONS sip:example.com SIP/2.0\r\n"[..],
            b"GET / HTTP/1.1\r\n",
            b"PUBLISH sip:a SIP/2.0\r\n",
            b"PROXYTCP4",
            b"\r\n\r\nOPTIONS sip:a SIP/2.0\r\n",
            b"\r\n\r\n\0\r\nQUIT\r",
            &[0x16, 3, 1],
        ] {
            assert_eq!(Start::parse(bytes), Ok(Start::Absent), "{}", bytes.escape_ascii());
        }
        assert_eq!(Start::parse(b""), Ok(Start::Partial));
        assert_eq!(Start::parse(b"\r\n\r\n"), Ok(Start::Partial));
    }

    #[test]
    fn what_is_wrong_is_refused() {
        use BadHeader::{Address, TooLong, Version};
        for (line, error) in [
            (&b"PROXY TCP5 192.0.2.1 192.0.2.2 1 2\r\n"[..], Address),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n", Address),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2 3\r\n", Address),
            (b"PROXY TCP4  192.0.2.1 192.0.2.2 1 2\r\n", Address),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 +1 2\r\n", Address),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 65536 2\r\n", Address),
            (b"PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n", Address),
            (b"PROXY TCP6 192.0.2.1 192.0.2.2 1 2\r\n", Address),
            (b"PROXY TCP4 0.0.0.0 192.0.2.2 1 2\r\n", Address),
            (b"PROXY \xff\r\n", Address),
            (&[&b"PROXY UNKNOWN "[..], &[b'x'; 100]].concat(), TooLong),
            (&v2(0x31, 0x11, &[1; 12]), Version),
            (&v2(0x22, 0x11, &[1; 12]), Version),
            (&v2(0x21, 0x11, &[1; 11]), Address),
            (&v2(0x21, 0x21, &[1; 35]), Address),
            (&v2(0x21, 0x11, &[0; 12]), Address),
            (&v2(0x21, 0x11, &[1; MAX_LENGTH]), TooLong),
        ] {
            assert_eq!(Start::parse(line), Err(error), "{}", line.escape_ascii());
        }
    }
}
