//! The form of a system under test on the command line.

use super::error::SutError;
use crate::watch::Subject;
use sip::Transport;
use std::net::{SocketAddr, ToSocketAddrs};

/// A system to start, or a running one.
#[derive(Debug, PartialEq)]
pub(super) enum Spec {
    Profile {
        /// The name, if it differs from that of the profile.
        name: Option<String>,
        /// A built-in profile, or a file.
        profile: String,
    },
    Elsewhere {
        name: String,
        transport: Transport,
        target: SocketAddr,
        domain: String,
        watch: Option<Subject>,
    },
}

impl Spec {
    pub(super) fn parse(text: &str) -> Result<Self, SutError> {
        let wrong = || SutError::Spec(text.to_owned());
        let (name, rest) = match text.split_once('@') {
            Some((name, rest)) if transport(rest).is_some() => (Some(name), rest),
            _ => (None, text),
        };
        if name.is_some_and(str::is_empty) {
            return Err(wrong());
        }
        if let Some((transport, rest)) = transport(rest) {
            let mut parts = rest.split(',');
            let (host, port) = parts.next().and_then(|s| s.rsplit_once(':')).ok_or_else(wrong)?;
            let port: u16 = port.parse().ok().filter(|&port| port > 0).ok_or_else(wrong)?;
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host_of_error = |error| SutError::Host(host.to_owned(), error);
            let mut found =
                (bare.unwrap_or(host), port).to_socket_addrs().map_err(host_of_error)?;
            let target = found.next().ok_or_else(wrong)?;
            let (mut domain, mut watch) = (host.to_owned(), None);
            for part in parts {
                let (key, value) = part.split_once('=').ok_or_else(wrong)?;
                let subject = |text: &str| text.parse().map(Some).map_err(SutError::Watch);
                match key {
                    "domain" if !value.is_empty() => value.clone_into(&mut domain),
                    "pid" => watch = subject(value)?,
                    "ssh" => watch = subject(&format!("ssh:{value}"))?,
                    _ => return Err(wrong()),
                }
            }
            let address = format!("{}:{host}:{port}", transport.uri_name());
            let name = name.map_or(address, str::to_owned);
            return Ok(Self::Elsewhere { name, transport, target, domain, watch });
        }
        let (name, profile) = match text.split_once('=') {
            Some((name, profile)) if !name.is_empty() => (Some(name.to_owned()), profile),
            Some(_) => return Err(wrong()),
            None => (None, text),
        };
        let is_known = super::profile::built_in(profile).is_some() || profile.ends_with(".toml");
        is_known.then(|| Self::Profile { name, profile: profile.to_owned() }).ok_or_else(wrong)
    }
}

fn transport(text: &str) -> Option<(Transport, &str)> {
    let (name, rest) = text.split_once(':')?;
    Some((Transport::parse(name.as_bytes())?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elsewhere(name: &str, target: &str, domain: &str, watch: Option<&str>) -> Spec {
        Spec::Elsewhere {
            name: name.to_owned(),
            transport: Transport::Udp,
            target: target.parse().expect("an address"),
            domain: domain.to_owned(),
            watch: watch.map(|text| text.parse().expect("a subject")),
        }
    }

    #[test]
    fn systems_that_run_elsewhere() {
        for (text, expected) in [
            (
                "udp:127.0.0.1:5070",
                elsewhere("udp:127.0.0.1:5070", "127.0.0.1:5070", "127.0.0.1", None),
            ),
            (
                "opensips@udp:127.0.0.2:5060,ssh=me@h:opensips,domain=a.example",
                elsewhere("opensips", "127.0.0.2:5060", "a.example", Some("ssh:me@h:opensips")),
            ),
            ("x@udp:[::1]:5060,pid=77", elsewhere("x", "[::1]:5060", "[::1]", Some("77"))),
        ] {
            assert_eq!(Spec::parse(text).expect("a system"), expected);
        }
    }

    #[test]
    fn systems_that_are_started() {
        for (text, name, profile) in [
            ("barebell", None, "barebell"),
            ("kamailio", None, "kamailio"),
            ("./my.toml", None, "./my.toml"),
            ("mine=my.toml", Some("mine"), "my.toml"),
            ("old=kamailio", Some("old"), "kamailio"),
        ] {
            let (name, profile) = (name.map(str::to_owned), profile.to_owned());
            assert_eq!(Spec::parse(text).expect("a system"), Spec::Profile { name, profile });
        }
    }

    #[test]
    fn invalid_systems_are_refused() {
        for text in [
            "",
            "asterisk",
            "=my.toml",
            "mine=",
            "udp:",
            "udp:127.0.0.1",
            "udp:127.0.0.1:0",
            "sctp:127.0.0.1:5061",
            "@udp:127.0.0.1:5060",
            "udp:127.0.0.1:5060,",
            "udp:127.0.0.1:5060,pid",
            "udp:127.0.0.1:5060,x=1",
        ] {
            assert!(matches!(Spec::parse(text), Err(SutError::Spec(_))), "{text}");
        }
        let wrong = Spec::parse("udp:127.0.0.1:5060,pid=x");
        assert!(matches!(wrong, Err(SutError::Watch(_))), "{wrong:?}");
    }
}
