//! Ports and addresses for programs that must be told theirs.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The range ports are taken from: below those that the system gives to outgoing connections, so
/// that none of these takes a port between its choice and its use.
const RANGE: Range<u16> = 12_000..32_000;
/// Ports that a test program takes at a time.
const BLOCK: u16 = 500;
/// How many such blocks there are.
const BLOCKS: u16 = (RANGE.end - RANGE.start) / BLOCK;

/// The blocks of ports that this test program has.
static BLOCKS_TAKEN: Mutex<Blocks> = Mutex::new(Blocks { held: Vec::new(), unused: 0..0 });

/// A block is taken by holding its first port, so that no other test program that runs at the same
/// time, whoever runs it, takes it too, and so that it is free when this one has ended in any way.
struct Blocks {
    held: Vec<UdpSocket>,
    unused: Range<u16>,
}

/// Finds `count` consecutive loopback ports, the first of them even, that are free in UDP and TCP,
/// and gives the first. No two calls give the same port, in this test program or in another that
/// runs at the same time.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn free_ports(count: u16) -> u16 {
    assert!(count < BLOCK - 1, "{count} consecutive ports do not fit into a block of {BLOCK}");
    let mut blocks = BLOCKS_TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let first = blocks.unused.start.next_multiple_of(2);
        if first + count > blocks.unused.end {
            blocks.take_another();
        } else if (first..first + count).all(is_free) {
            blocks.unused.start = first + count;
            return first;
        } else {
            blocks.unused.start = first + 2;
        }
    }
}

/// The address of this machine from which `server` is reached.
///
/// # Panics
/// When there is no way there by IPv4.
#[must_use]
pub fn address_towards(server: SocketAddr) -> Ipv4Addr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a UDP socket");
    // This sends nothing: it asks the system for the way.
    socket.connect(server).unwrap_or_else(|error| panic!("no way to {server}: {error}"));
    match socket.local_addr() {
        Ok(SocketAddr::V4(ours)) => *ours.ip(),
        other => panic!("no address of IPv4 towards {server}: {other:?}"),
    }
}

impl Blocks {
    fn take_another(&mut self) {
        // Programs that follow one another start their search far apart: of what an earlier one
        // left behind, nothing comes to the ports of a later one.
        let home = std::process::id().wrapping_mul(7919);
        for step in 0..BLOCKS {
            let place = home.wrapping_add(u32::from(step)) % u32::from(BLOCKS);
            let first = RANGE.start + BLOCK * u16::try_from(place).unwrap_or(0);
            if let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, first)) {
                self.held.push(socket);
                self.unused = first + 1..first + BLOCK;
                return;
            }
        }
        panic!("no block of ports is free between {} and {}", RANGE.start, RANGE.end);
    }
}

fn is_free(port: u16) -> bool {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let mut given = std::collections::BTreeSet::new();
        for count in (1..20).cycle().take(150) {
            let first = free_ports(count);
            assert_eq!(first % 2, 0);
            assert!((first..first + count).all(|port| RANGE.contains(&port) && given.insert(port)));
        }
        assert!(given.len() > usize::from(BLOCK));
    }

    #[test]
    fn a_port_in_use_is_not_given() {
        let next = free_ports(1) + 2;
        let _other = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        assert!(!(free_ports(2)..).take(2).any(|port| port == next));
    }
}
