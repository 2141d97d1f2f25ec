//! The served domains: those configured, or the host name.

use sip_server::config::Domain;
use std::net::{IpAddr, Ipv6Addr};

/// The name and addresses of the machine.
pub(crate) struct Host {
    /// The host name in lower case, if it is valid.
    pub(crate) name: Option<String>,
    /// The addresses of its interfaces.
    pub(crate) addresses: Vec<IpAddr>,
}

impl Host {
    /// Queries the system.
    pub(crate) fn this() -> Self {
        let name = nix::unistd::gethostname()
            .ok()
            .and_then(|name| name.into_string().ok())
            .and_then(|name| canonical(&name).ok());
        let addresses = nix::ifaddrs::getifaddrs()
            .into_iter()
            .flatten()
            .filter_map(|interface| {
                let address = interface.address?;
                let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
                v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
            })
            .collect();
        Self { name, addresses }
    }
}

/// The served domains, the default one first. The host name, its addresses and `localhost` are
/// aliases of the default domain, unless they are configured as a domain or an alias.
pub(crate) fn served(configured: &[Domain], host: &Host) -> Vec<Domain> {
    let mut domains = configured.to_vec();
    let own_name = host.name.clone().unwrap_or_else(|| "localhost".to_owned());
    if domains.is_empty() {
        domains.push(Domain { name: own_name.clone(), aliases: Vec::new() });
    }
    let addresses = host.addresses.iter().filter(|address| !is_link_local(**address));
    let mut own: Vec<String> = vec![own_name, "localhost".to_owned()];
    own.extend(addresses.map(IpAddr::to_string));
    for name in own {
        if find(&domains, &name).is_none() {
            domains[0].aliases.push(name);
        }
    }
    domains
}

/// The domain with the name or alias `name`, in canonical form.
pub(crate) fn find<'a>(domains: &'a [Domain], name: &str) -> Option<&'a Domain> {
    let named = domains.iter().find(|domain| domain.name == name);
    named.or_else(|| domains.iter().find(|domain| domain.aliases.iter().any(|a| a == name)))
}

/// The canonical form of a domain name or IP address: lower case, without a final dot, IPv6 in its
/// shortest form without brackets.
///
/// # Errors
/// A message, if `name` is invalid.
pub(crate) fn canonical(name: &str) -> Result<String, String> {
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = bare.or(Some(name)).and_then(|text| text.parse::<Ipv6Addr>().ok()) {
        return Ok(address.to_string());
    }
    let lower = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    let label_is_good = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if lower.len() <= 253 && lower.split('.').all(label_is_good) {
        Ok(lower)
    } else {
        Err(format!(
            "`{name}` is no domain; expected a name such as example.com, made of letters, digits, \
             hyphens and dots, or an IP address"
        ))
    }
}

/// `user@domain` as a SIP URI, with brackets around an IPv6 address.
pub(crate) fn sip_uri(user: &str, domain: &str) -> String {
    if domain.contains(':') {
        format!("sip:{user}@[{domain}]")
    } else {
        format!("sip:{user}@{domain}")
    }
}

/// The message that `users` of `domain` cannot log in because it is not served, with the command
/// that moves them to the default domain `served`.
pub(crate) fn unserved_users(served: Option<&str>, domain: &str, users: u64) -> String {
    let default = served.unwrap_or("DOMAIN");
    let (are, them) = if users == 1 { ("user is", "that user") } else { ("users are", "them") };
    format!(
        "{users} {are} in the domain {domain}, which is not served, and cannot log in: \
         `barebell user move {domain} {default}` moves {them}; or name {domain} in domains, too"
    )
}

/// Returns true for a link-local IPv6 address. A phone that uses one adds a zone, if it can at all,
/// so such an address cannot be an alias.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        let addresses = ["127.0.0.1", "192.0.2.7", "fe80::1", "2001:db8::7"];
        Host {
            name: Some("pbx".to_owned()),
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        }
    }

    fn domain(name: &str, aliases: &[&str]) -> Domain {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        Domain { name: name.to_owned(), aliases }
    }

    #[test]
    fn without_configuration_the_host_name_is_the_domain() {
        let expected = domain("pbx", &["localhost", "127.0.0.1", "192.0.2.7", "2001:db8::7"]);
        assert_eq!(served(&[], &host()), [expected]);
        let nameless = Host { name: None, addresses: Vec::new() };
        assert_eq!(served(&[], &nameless), [domain("localhost", &[])]);
    }

    #[test]
    fn the_host_s_names_mean_the_first_configured_domain_unless_taken() {
        let configured = [domain("example.com", &[]), domain("192.0.2.7", &["pbx"])];
        let served = served(&configured, &host());
        assert_eq!(served[0], domain("example.com", &["localhost", "127.0.0.1", "2001:db8::7"]));
        assert_eq!(served[1], configured[1]);
        assert_eq!(find(&served, "pbx").unwrap().name, "192.0.2.7");
        assert_eq!(find(&served, "elsewhere.com"), None);
    }

    #[test]
    fn a_domain_has_one_form() {
        assert_eq!(canonical("Example.COM.").unwrap(), "example.com");
        assert_eq!(canonical("[2001:DB8:0::1]").unwrap(), "2001:db8::1");
        assert_eq!(canonical("192.0.2.1").unwrap(), "192.0.2.1");
        for bad in ["", ".", "a..b", "a b", "a@b", "sip:a", "example.com:5060", "müller.de"] {
            assert!(canonical(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_ipv6_domain_is_bracketed_in_a_uri() {
        assert_eq!(sip_uri("alice", "2001:db8::1"), "sip:alice@[2001:db8::1]");
        assert_eq!(sip_uri("alice", "example.com"), "sip:alice@example.com");
    }

    #[test]
    fn this_host_has_a_loopback_address() {
        assert!(Host::this().addresses.iter().any(IpAddr::is_loopback));
    }
}
