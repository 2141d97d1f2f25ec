//! A server that loses its lease and gets it again.

use super::accounts::Trouble;
use super::*;
use crate::nic::fake;
use alloc::vec;
use core::net::{Ipv4Addr, SocketAddrV4};

const NOW: Instant = Instant::from_micros(1_800_000_000_000_000);
const MEMORY: Heap = Heap { used: 0, claimed: 60 << 20, used_reserve: 0 };
const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);

fn server(options: &str) -> Server {
    let mut parsed = Options::default();
    parsed.read("address=192.0.2.1/24 auth=off tftp=192.0.2.9 file=users").expect("options");
    parsed.read(options).expect("options");
    let network = Network::new(fake::card(), 1, true, NOW);
    let mut server = Server::new(parsed, network, Random::new([1; 32]), || MEMORY, NOW);
    server.step(&mut || NOW);
    server
}

fn lease(ours: &str, dns: u8) -> Option<Address> {
    let ours = ours.parse().expect("an address");
    let dns = vec![Ipv4Addr::new(192, 0, 2, dns)];
    Some(Address { ours, gateway: None, dns, tftp: None, file: None, ntp: None })
}

/// Delivers the requested file.
fn bring_file(server: &mut Server, now: Instant) {
    server.step(&mut || now);
    let from = SocketAddrV4::new(HOST, 1069);
    let came = server.accounts.receive(now, from, b"\0\x03\0\x01alice:secret\n", MEMORY);
    server.on_fetch(came, now);
    server.step(&mut || now);
}

fn said(server: &Server, text: &str) -> bool {
    server.log.since(0).any(|line| line.contains(text))
}

#[test]
fn a_lease_that_comes_again_is_served_with_the_users_that_are_known() {
    let mut server = server("domain=t.test");
    server.on_address(lease("192.0.2.1/24", 1), NOW);
    assert_eq!(server.phase(), Phase::Users);
    bring_file(&mut server, NOW);
    assert_eq!((server.phase(), server.accounts.len()), (Phase::Ready, 1));
    server.on_address(None, NOW + Duration::from_secs(60));
    assert_eq!(server.phase(), Phase::Address);
    let later = NOW + Duration::from_secs(90);
    server.on_address(lease("192.0.2.2/24", 1), later);
    assert_eq!(server.phase(), Phase::Ready);
    assert!(said(&server, "serving 1 users as they were read 90 s ago"));
    // The file does not arrive, and the server goes on.
    let silent = later + Duration::from_secs(30);
    server.step(&mut || later);
    (0..8).for_each(|_| server.on_fetch(Err(Trouble::Empty), silent));
    assert_eq!(server.phase(), Phase::Ready);
    assert!(said(&server, "serving 1 users as they were read 120 s ago"));
    assert!(server.next_fetch.is_some_and(|time| time > silent), "it is asked for again");
}

#[test]
fn users_of_another_realm_are_not_served() {
    // Without a domain the realm is the address, which the hashes depend on.
    let mut server = server("");
    server.on_address(lease("192.0.2.1/24", 1), NOW);
    bring_file(&mut server, NOW);
    assert_eq!(server.phase(), Phase::Ready);
    server.on_address(lease("192.0.2.2/24", 1), NOW);
    assert_eq!(server.phase(), Phase::Users);
    server.on_address(lease("192.0.2.1/24", 1), NOW);
    assert_eq!(server.phase(), Phase::Ready);
}

#[test]
fn another_name_server_with_the_same_address_ends_no_call() {
    let mut server = server("domain=t.test");
    server.on_address(lease("192.0.2.1/24", 1), NOW);
    bring_file(&mut server, NOW);
    let lines = server.log.said();
    server.on_address(lease("192.0.2.1/24", 2), NOW);
    assert_eq!((server.phase(), server.log.said()), (Phase::Ready, lines));
    assert_eq!(server.network.address().map(|address| address.dns.len()), Some(1));
}
