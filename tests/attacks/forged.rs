//! Floods of datagrams with the source address of another party.

use crate::client::{Client, status};
use net::tls::{self, Trust};
use peers::server::DOMAIN;
use peers::test_server::{PASSWORD, TestServer};
use peers::transport::Transport;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 8));

/// Runs `test` while datagrams with the source address of `socket` arrive at a multiple of the
/// permitted rate.
fn under_flood(exchange: &TestServer, socket: &UdpSocket, uri: &str, test: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    let forger = socket.try_clone().expect("the socket can be duplicated");
    thread::scope(|scope| {
        // Also after a panic.
        let _end = AtEnd(&is_over);
        scope.spawn(|| {
            let mut requests = Client::of_socket(forger);
            while !is_over.load(Ordering::Relaxed) {
                for _ in 0..50 {
                    let from = format!("sip:bob@{DOMAIN}");
                    let request = requests.request("OPTIONS", uri, &from, "");
                    // The branches are those of no other client.
                    let request = request.replace("z9hG4bK", "z9hG4bKforged");
                    let _ = requests.send(&request.replace("Call-ID: ", "Call-ID: forged"));
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        let limited = exchange.server.counter("rate-limited");
        exchange.server.wait_for_count("rate-limited", limited + 100);
        test();
    });
}

/// Sets a flag on drop.
struct AtEnd<'f>(&'f AtomicBool);

impl Drop for AtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn socket(exchange: &TestServer, from: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(from).expect("the address can be bound");
    socket.connect(exchange.server.address()).expect("the server is reachable");
    socket
}

/// Forged requests to a user use up the rate of strangers, and so do forged requests to the server.
#[test]
fn forged_datagrams_do_not_stop_the_connections_of_their_source() {
    let exchange = TestServer::without_trusted_sources();
    let mut bob = exchange.agent("bob");
    let secure = exchange.server.secure_address(Transport::Tls);
    let trust = tls::Client::new(&Trust::Any, None, false).expect("the client is created");
    let forged = socket(&exchange, (PEER, 0).into());
    let bob_uri = format!("sip:bob@{DOMAIN}");
    under_flood(&exchange, &forged, &format!("sip:{DOMAIN}"), || {
        let clients =
            [Client::tcp(PEER, exchange.server.address()), Client::tls(PEER, secure, &trust)];
        for client in clients {
            let mut client = client.expect("the connection is accepted");
            for _ in 0..4 {
                let invite = client.request("INVITE", &bob_uri, "sip:peer@peer.test", "");
                client.send(&invite).expect("the connection is open");
                let asked = bob.request("INVITE");
                let dialog = bob.dialog_with(&asked);
                bob.answer(&asked, &dialog, 486, "", "");
                let answer = client.response(&invite);
                assert_eq!(answer.ok().as_deref().and_then(status), Some(486));
            }
        }
        let mut phone = Client::tls(PEER, secure, &trust).expect("the connection is accepted");
        let answer = phone.register("alice", PASSWORD);
        assert_eq!(answer.ok().as_deref().and_then(status), Some(200));
    });
}

#[test]
fn a_phone_refreshes_its_registration_while_datagrams_are_forged_in_its_name() {
    let exchange = TestServer::without_trusted_sources();
    let phone = socket(&exchange, (PEER, 0).into());
    let mut client = Client::of_socket(phone.try_clone().expect("the socket can be duplicated"));
    let mut register = || {
        let answer = client.register("bob", PASSWORD).expect("a response");
        assert_eq!(status(&answer), Some(200), "{answer}");
    };
    register();
    under_flood(&exchange, &phone, &format!("sip:{DOMAIN}"), || (0..4).for_each(|_| register()));
}
