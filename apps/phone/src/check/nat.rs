//! Checks by STUN servers if media can come in from outside of a NAT.

use crate::ports::Ports;
use media::Mapping;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Time limit for the servers' answers.
const PATIENCE: Duration = Duration::from_secs(3);

/// True if it works, the finding, and advice.
pub(super) type Found = (bool, String, Option<&'static str>);

/// Asks `servers` for the public address of a media port. `None` if `servers` is empty.
pub(super) fn look(servers: &[SocketAddr]) -> Option<Found> {
    let &first = servers.first()?;
    let Some(local) = net::source_for(first) else {
        return Some((false, format!("there is no route to the STUN server {first}"), None));
    };
    let begun = Instant::now();
    let mut ports = match Ports::open(local, servers, Duration::ZERO) {
        Ok(ports) => ports,
        Err(error) => return Some((false, error.to_string(), None)),
    };
    while begun.elapsed() < PATIENCE && ports.mapping() == Mapping::Unknown {
        std::thread::sleep(Duration::from_millis(10));
        ports.read(begun.elapsed());
        ports.poll(begun.elapsed());
    }
    Some(judge(ports.mapped(), ports.mapping(), servers.len()))
}

/// Interprets the answers.
fn judge(mapped: Option<SocketAddr>, mapping: Mapping, servers: usize) -> Found {
    let Some(mapped) = mapped else {
        let found = "no STUN server answers".to_owned();
        return (
            false,
            found,
            Some("check that a firewall lets UDP out, and the name with --stun"),
        );
    };
    let seen = format!("a port of media is seen as {mapped}");
    match mapping {
        Mapping::Direct => {
            (true, format!("{seen}, which is its own address: there is no NAT"), None)
        }
        Mapping::EndpointIndependent => {
            (true, format!("{seen} by all servers: calls go both ways with --stun"), None)
        }
        Mapping::EndpointDependent => {
            let found = format!(
                "{seen} by one server and as another address by another: the NAT is symmetric, \
                 and the address by STUN is of no use to the other end of a call"
            );
            let advice = "calls go both ways only with a peer that sends to the source of \
                          received packets, such as a server that relays media; or forward ports \
                          in the router";
            (false, found, Some(advice))
        }
        Mapping::Unknown if servers > 1 => (true, format!("{seen}; only one server answers"), None),
        Mapping::Unknown => {
            (true, format!("{seen}; a second --stun would tell what kind of NAT there is"), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symmetric_nat_is_recognized() {
        let mapped = Some("198.51.100.1:4000".parse().unwrap());
        let (works, found, advice) = judge(mapped, Mapping::EndpointDependent, 2);
        assert!(!works && found.contains("symmetric") && advice.is_some());
        for mapping in [Mapping::Direct, Mapping::EndpointIndependent, Mapping::Unknown] {
            assert!(judge(mapped, mapping, 2).0);
        }
        assert!(!judge(None, Mapping::Unknown, 1).0);
    }
}
