//! Connections from many addresses of one source.

use crate::apart::{add_address, apart};
use crate::client::{Client, status};
use peers::process::wait_until;
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use std::net::{IpAddr, SocketAddr};
use test_support::ports::free_ports;

/// The permitted connections of a source.
const MOST: usize = 3;

#[test]
fn the_connections_of_a_source_are_bounded_and_an_ipv6_network_is_one_source() {
    apart(|| {
        let addresses = [
            ["127.0.0.9"; MOST + 2].map(str::to_owned),
            core::array::from_fn(|host| format!("2001:db8:1:1:{host}::1")),
        ];
        let ip = |text: &str| text.parse::<IpAddr>().expect("an IP address");
        let others = ["127.0.0.10", "2001:db8:1:2::1"].map(ip);
        let port = free_ports(1);
        let listens = ["--listen", &format!("tcp:127.0.0.1:{port}")[..], "--listen"];
        let there = format!("tcp:[::1]:{port}");
        let settings = format!("{TRUSTS_NOBODY}max_connections_per_source = {MOST}\n");
        let exchange = TestServer::with(&settings, &[&listens[..], &[&there[..]]].concat());
        let is_served = |from: IpAddr| {
            let server = if from.is_ipv4() { "127.0.0.1" } else { "::1" };
            let server = SocketAddr::new(ip(server), port);
            let mut client = Client::tcp(from, server)?;
            let options = client.options();
            let answer = client.ask(&options)?;
            assert_eq!(status(&answer), Some(200), "{answer}");
            std::io::Result::Ok(client)
        };
        for (addresses, other) in addresses.into_iter().zip(others) {
            let addresses = addresses.map(|address| ip(&address));
            if other.is_ipv6() {
                addresses.into_iter().chain([other]).for_each(add_address);
            }
            let refused = exchange.server.counter("refused-connections");
            let served: Vec<_> = addresses.into_iter().flat_map(is_served).collect();
            assert_eq!(served.len(), MOST, "of {addresses:?}");
            exchange.server.wait_for_count("refused-connections", refused + 2);
            assert!(is_served(other).is_ok(), "{other} is another source");
            drop(served);
            wait_until("room for another connection", || is_served(addresses[0]).ok());
        }
    });
}
