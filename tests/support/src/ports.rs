//! Ports and addresses for programs that need them as arguments.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The range of ports: below the ephemeral ports, so that no outgoing connection takes a port
/// between its choice and its use.
const RANGE: Range<u16> = 12_000..32_000;
/// The number of ports that a test program reserves at a time.
const BLOCK: u16 = 500;
const BLOCKS: u16 = (RANGE.end - RANGE.start) / BLOCK;

/// The blocks reserved by this test program.
static BLOCKS_TAKEN: Mutex<Blocks> = Mutex::new(Blocks { held: Vec::new(), unused: 0..0 });

/// A block is reserved by binding its first port. No other test program, of any user, can reserve
/// it at the same time, and it is released however this program ends.
struct Blocks {
    held: Vec<UdpSocket>,
    unused: Range<u16>,
}

/// Finds `count` consecutive loopback ports that are free for UDP and TCP, and returns the first,
/// which is even. Every call returns different ports, also in other test programs that run at the
/// same time.
///
/// # Panics
/// No ports are free.
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

/// The local address from which `server` is reached.
///
/// # Panics
/// There is no IPv4 route.
#[must_use]
pub fn address_towards(server: SocketAddr) -> Ipv4Addr {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a UDP socket can be bound");
    // Connecting sends nothing; it looks up the route.
    socket.connect(server).unwrap_or_else(|error| panic!("no route to {server}: {error}"));
    match socket.local_addr() {
        Ok(SocketAddr::V4(ours)) => *ours.ip(),
        other => panic!("no IPv4 address towards {server}: {other:?}"),
    }
}

impl Blocks {
    fn take_another(&mut self) {
        // Consecutive programs start their search far apart, so that leftover packets of an earlier
        // one do not reach the ports of a later one.
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
    fn ports_are_unique() {
        let mut given = std::collections::BTreeSet::new();
        for count in (1..20).cycle().take(150) {
            let first = free_ports(count);
            assert_eq!(first % 2, 0);
            assert!((first..first + count).all(|port| RANGE.contains(&port) && given.insert(port)));
        }
        assert!(given.len() > usize::from(BLOCK));
    }

    #[test]
    fn ports_in_use_are_skipped() {
        let next = free_ports(1) + 2;
        let _other = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        assert!(!(free_ports(2)..).take(2).any(|port| port == next));
    }
}
