//! Floods of datagrams with the source address of another party.

use crate::client::{Client, Login, status};
use net::tls::{self, Trust};
use peers::server::{DOMAIN, TRUSTS_NOBODY};
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
pub(crate) struct AtEnd<'f>(pub(crate) &'f AtomicBool);

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

/// A request that gets no answer is sent a few times only, since at random one of many datagrams is
/// admitted.
#[test]
fn a_phone_registers_and_writes_while_datagrams_are_forged_in_its_name() {
    const TIMES: usize = 3;
    let settings = format!("{TRUSTS_NOBODY}source_rate = 5\nsource_burst = 20\n");
    let exchange = TestServer::with(&settings, &[]);
    let phone = socket(&exchange, (PEER, 0).into());
    let mut client = Client::of_socket(phone.try_clone().expect("the socket can be duplicated"));
    let [registrar, bob, carol] = ["", "bob@", "carol@"].map(|user| format!("sip:{user}{DOMAIN}"));
    let mut ask = |method: &str, uri: &str, login: Option<&mut Login>| {
        let line = login.map(|login| login.line(method, uri));
        let request = client.request(method, uri, &bob, &line.unwrap_or_default());
        client.ask_at_most(TIMES, &request).expect("a response")
    };
    let mut login = Login::new(&ask("REGISTER", &registrar, None), "bob", PASSWORD);
    assert_eq!(status(&ask("REGISTER", &registrar, Some(&mut login))), Some(200));
    let mut writing = Login::new(&ask("MESSAGE", &carol, None), "bob", PASSWORD);
    under_flood(&exchange, &phone, &registrar, || {
        for _ in 0..4 {
            // It has logged in from this address before.
            let answer = ask("REGISTER", &registrar, None);
            assert_eq!(status(&answer), Some(401), "{answer}");
            // The nonce proves its address.
            login = Login::new(&answer, "bob", PASSWORD);
            let answer = ask("REGISTER", &registrar, Some(&mut login));
            assert_eq!(status(&answer), Some(200), "{answer}");
            let answer = ask("MESSAGE", &carol, Some(&mut writing));
            assert_eq!(status(&answer), Some(480), "{answer}");
        }
    });
}
