//! Connections of one source that request much and read nothing.

use crate::client::{Client, status};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use std::net::{IpAddr, Ipv4Addr};

const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
/// The connections. One may hold 1 MiB of output in the server, all of a source 4 MiB.
const CONNECTIONS: usize = 150;
/// The requests of a connection. The responses are longer than its share and the buffers of the
/// system.
const REQUESTS: usize = 40;
/// The length of a response.
const LENGTH: usize = 50_000;
/// A bound of the memory that the server needs, with the costs of connections and of the allocator.
/// It is much less than 1 MiB for each connection.
const MOST: u64 = 60 << 20;

#[test]
fn the_unread_output_of_a_source_is_bounded() {
    // The rate by number is off.
    let exchange = TestServer::with(&format!("{TRUSTS_NOBODY}source_rate = 0\n"), &[]);
    let server = &exchange.server;
    let mut honest = Client::udp((Ipv4Addr::LOCALHOST, 0).into(), server.address());
    let mut is_served = || {
        let options = honest.options();
        honest.ask(&options).ok().as_deref().and_then(status) == Some(200)
    };
    assert!(is_served());
    let before = server.process().memory();
    let padding = "p".repeat(LENGTH);
    let from = format!("sip:x@other.test;padding={padding}");
    let mut clients: Vec<Client> = (0..CONNECTIONS)
        .map(|_| Client::tcp(STRANGER, server.address()).expect("the connection is accepted"))
        .collect();
    for _ in 0..REQUESTS {
        for client in &mut clients {
            let request = client.request("OPTIONS", "sip:barebell.test", &from, "");
            // The server may have closed the connection.
            let _ = client.send(&request);
        }
        assert!(is_served());
    }
    server.wait_for_count("unread-output", 1);
    let grown = server.process().memory().saturating_sub(before);
    assert!(grown < MOST, "{grown} bytes for {CONNECTIONS} connections");
}
