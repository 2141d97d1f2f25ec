//! The client address in X-Forwarded-For.

use core::net::{IpAddr, SocketAddr};

/// Returns the client that `hops`, the values of X-Forwarded-For joined by commas, name: the last
/// hop that is not a proxy, or the first hop if all are proxies. The port is present if a proxy has
/// written it. `None` if the list is empty or an evaluated element is invalid.
#[must_use]
pub fn forwarded_client(
    hops: &str,
    is_proxy: impl Fn(IpAddr) -> bool,
) -> Option<(IpAddr, Option<u16>)> {
    let mut client = None;
    for hop in hops.rsplit(',').map(str::trim).filter(|hop| !hop.is_empty()) {
        let (address, port) = parse(hop)?;
        client = Some((address, port));
        if !is_proxy(address) {
            break;
        }
    }
    client
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
            assert_eq!(forwarded_client(hops, is_proxy), client, "{hops}");
        }
    }
}
