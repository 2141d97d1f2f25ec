//! ICMP errors: those of closed ports, and forged ones.

use crate::forged::AtEnd;
use peers::test_server::TestServer;
use std::io;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use test_support::agent::{Agent, Received, SESSION};

/// Sends forged ICMP errors. Requires root.
struct Forger(UdpSocket);

impl Forger {
    fn new() -> Self {
        // SAFETY: socket accesses no memory.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP) };
        let error = io::Error::last_os_error();
        assert!(fd >= 0, "no raw socket, usually without root: {error}");
        // SAFETY: the descriptor is open, and nothing else owns it. Datagrams of a raw socket are
        // sent as those of a UDP socket are.
        Self(unsafe { OwnedFd::from_raw_fd(fd) }.into())
    }

    /// Tells `from` that the port of its datagram `payload` to `to` is closed.
    fn report(&self, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
        let (SocketAddr::V4(from), SocketAddr::V4(to)) = (from, to) else { panic!("IPv4") };
        let mut error = vec![3, 3, 0, 0, 0, 0, 0, 0];
        error.extend(quote(from, to, payload));
        let sum = checksum(&error);
        error[2..4].copy_from_slice(&sum.to_be_bytes());
        // The queue of the loopback interface may be full.
        let _ = self.0.send_to(&error, (*from.ip(), 0));
    }
}

/// The packet of a datagram.
fn quote(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let length = |header: usize| u16::try_from(header + payload.len()).expect("it is short");
    let mut ip = vec![0x45, 0];
    ip.extend(length(28).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend([*from.ip(), *to.ip()].map(|ip| ip.octets()).concat());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    for number in [from.port(), to.port(), length(8), 0] {
        ip.extend(number.to_be_bytes());
    }
    ip.extend(payload);
    ip
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Alice calls bob. Returns the INVITE that bob receives.
fn call(alice: &mut Agent, bob: &mut Agent) -> Received {
    let mut dialog = alice.dialog(&bob.address_of_record());
    alice.ask(&mut dialog, "INVITE", "", SESSION);
    bob.request("INVITE")
}

/// The callee is busy.
fn decline(alice: &mut Agent, bob: &mut Agent, invite: &Received) {
    let dialog = bob.dialog_with(invite);
    bob.answer(invite, &dialog, 486, "", "");
    alice.response("INVITE", 486);
}

#[test]
fn requests_to_a_closed_port_fail_at_once() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let uri = bob.address_of_record();
    drop(bob);
    for (number, method) in ["INVITE", "MESSAGE", "OPTIONS"].into_iter().enumerate() {
        let mut dialog = alice.dialog(&uri);
        alice.ask(&mut dialog, method, "", "");
        alice.response(method, 480);
        exchange.server.wait_for_count("undeliverable", number as u64 + 1);
    }
    assert_eq!(exchange.server.counter("timeouts"), 0);
    // His other phone rings.
    let mut bob = exchange.agent("bob");
    let invite = call(&mut alice, &mut bob);
    exchange.server.wait_for_count("undeliverable", 4);
    decline(&mut alice, &mut bob, &invite);
}

/// The agents send each request once. So a message that a pending error stops fails the test.
#[test]
fn forged_icmp_errors_stop_only_the_request_that_they_quote() {
    const CALLS: usize = 100;
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let forger = Forger::new();
    let first = call(&mut alice, &mut bob);
    decline(&mut alice, &mut bob, &first);
    let server = first.source;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (forger, is_over, at) = (&forger, &is_over, bob.address());
        // The call of this INVITE has ended.
        let (past, _end) = (first.message().as_bytes().to_vec(), AtEnd(is_over));
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                // The system chooses a socket of the server by the port.
                for port in 1..=100 {
                    forger.report(server, SocketAddr::new(at.ip(), port), &past);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..CALLS {
            let invite = call(&mut alice, &mut bob);
            decline(&mut alice, &mut bob, &invite);
        }
    });
    assert_eq!(exchange.server.counter("undeliverable"), 0);
    // The same error harms the request that it quotes.
    let invite = call(&mut alice, &mut bob);
    forger.report(server, bob.address(), invite.message().as_bytes());
    alice.response("INVITE", 480);
    assert_eq!(exchange.server.counter("undeliverable"), 1);
}
