//! The settings of the NG protocol: other proxies use the media relay.

use sip_server::config::Network;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The listener of the NG protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NgSettings {
    /// The UDP address. `None`: the protocol is off.
    pub(crate) listen: Option<SocketAddr>,
    /// The addresses that may send requests.
    pub(crate) clients: Vec<Network>,
    /// The addresses of media. Without any, they follow from the routes to the ends.
    pub(crate) interfaces: Vec<Interface>,
}

/// An address for media, with a name for the flag `direction`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// The name. Several interfaces may have it, as for IPv4 and IPv6.
    pub(crate) name: String,
    /// The local address.
    pub(crate) local: IpAddr,
    /// The address in session descriptions.
    pub(crate) advertised: IpAddr,
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (name, addresses) = text.split_once(' ')?;
            let (local, advertised) =
                addresses.split_once(" as ").unwrap_or((addresses, addresses));
            let address = |text: &str| {
                let address = text.trim().parse::<IpAddr>().ok()?;
                let is_usable = !address.is_unspecified()
                    && !address.is_multicast()
                    && !matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local());
                is_usable.then_some(address)
            };
            let (local, advertised) = (address(local)?, address(advertised)?);
            let is_one_family = local.is_ipv4() == advertised.is_ipv4();
            (!name.is_empty() && is_one_family).then(|| Self {
                name: name.to_owned(),
                local,
                advertised,
            })
        };
        parse().ok_or_else(|| {
            format!(
                "`{text}` is no interface; expected one such as \"internal 10.0.0.5\" or \
                 \"external 10.0.1.5 as 203.0.113.5\""
            )
        })
    }
}

/// Parses the address of the listener.
///
/// # Errors
/// A message with an example.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    // With several addresses an answer could leave from another one than the request came to.
    let address = text.parse::<SocketAddr>().ok().filter(|address| !address.ip().is_unspecified());
    address.ok_or_else(|| {
        format!("`{text}` is no address with a port; expected one such as 127.0.0.1:2223")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_has_a_name_and_perhaps_a_translated_address() {
        let read = |text: &str| text.parse::<Interface>().ok();
        let expected = |name: &str, local: &str, advertised: &str| {
            let (local, advertised) = (local.parse().unwrap(), advertised.parse().unwrap());
            Some(Interface { name: name.to_owned(), local, advertised })
        };
        assert_eq!(read("internal 10.0.0.5"), expected("internal", "10.0.0.5", "10.0.0.5"));
        let translated = read("public 10.0.1.5 as 203.0.113.5");
        assert_eq!(translated, expected("public", "10.0.1.5", "203.0.113.5"));
        assert_eq!(read("six 2001:db8::1"), expected("six", "2001:db8::1", "2001:db8::1"));
        for text in [
            "",
            "internal",
            "10.0.0.5",
            "a 0.0.0.0",
            "a 10.0.0.5 as ::1",
            "a 224.0.0.1",
            " 10.0.0.5",
            "a fe80::1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn the_listener_has_one_address() {
        assert!(listen("127.0.0.1:2223").is_ok() && listen("[::1]:2223").is_ok());
        for text in ["", "2223", "127.0.0.1", "0.0.0.0:2223", "[::]:2223", "localhost:2223"] {
            assert!(listen(text).is_err(), "{text}");
        }
    }
}
