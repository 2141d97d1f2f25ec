//! Ports for programs that must be told theirs.

use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// The range ports are taken from: below those that the system gives to outgoing connections, so
/// that none of these takes a port between its choice and its use.
const RANGE: std::ops::Range<u16> = 12_000..32_000;

/// How far the next search starts after the last one, from a place of this process's own.
static TAKEN: AtomicU16 = AtomicU16::new(0);

/// Finds `count` consecutive loopback ports, the first of them even, that are free in UDP and TCP,
/// and gives the first. No two calls in a process give the same port.
///
/// # Panics
/// When there are none.
#[must_use]
pub fn free_ports(count: u16) -> u16 {
    let places = RANGE.len() as u32 / 2;
    // Test programs that run at once start their search far from one another.
    let home = std::process::id().wrapping_mul(7919) % places;
    for _ in 0..places {
        let step = TAKEN.fetch_add(count.div_ceil(2), Ordering::Relaxed);
        let place = (home + u32::from(step)) % places;
        let first = RANGE.start + 2 * u16::try_from(place).unwrap_or(0);
        if RANGE.contains(&(first + count)) && (first..first + count).all(is_free) {
            return first;
        }
    }
    panic!("no {count} consecutive free ports between {} and {}", RANGE.start, RANGE.end);
}

fn is_free(port: u16) -> bool {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}
