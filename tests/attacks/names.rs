//! Requests of one user to names of a silent name server.

use crate::apart::{apart, replace};
use crate::client::{Client, Login, status};
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::{PASSWORD, TestServer};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::thread;
use test_support::dns;

/// The look-ups that the server makes at a time.
const AT_ONCE: u64 = 1024;
const REQUESTS: u64 = 6000;
const GATEWAY: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);

#[test]
fn look_ups_of_one_user_leave_room_for_others() {
    apart(|| {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let file = folder.path().join("resolv.conf");
        std::fs::write(&file, "nameserver 127.0.0.1\n").expect("the file can be written");
        replace("/etc/resolv.conf", &file);
        let names = ["h0.good.test", "h1.good.test", "h2.good.test", "h3.good.test"];
        let records = names.map(|name| (name, dns::A, GATEWAY.octets().to_vec())).to_vec();
        let server = (Ipv4Addr::LOCALHOST, 53).into();
        let _ = dns::serve_except(server, records, Some("slow.test")).expect("port 53 is free");
        let gateway = UdpSocket::bind((GATEWAY, 5060)).expect("port 5060 is free");
        thread::spawn(move || answer_all(&gateway));
        let settings = format!("{TRUSTS_NOBODY}user_rate = 0\n");
        let exchange = TestServer::with(&settings, &[]);
        let client = |host| {
            let from = IpAddr::from([127, 0, 0, host]);
            Client::udp((from, 0).into(), exchange.server.address())
        };
        let (mut carol, mut alice) = (client(9), client(7));
        let from = format!("sip:carol@{DOMAIN}");
        let first = carol.request("MESSAGE", "sip:x@y.slow.test", &from, "");
        let challenged = carol.ask(&first).expect("a challenge");
        let mut login = Login::new(&challenged, "carol", PASSWORD);
        for number in 0..REQUESTS {
            let uri = format!("sip:x@h.z{number}.slow.test");
            let line = login.line("MESSAGE", &uri);
            let request = carol.request("MESSAGE", &uri, &from, &line);
            carol.send(&request).expect("the server is reachable");
        }
        exchange.server.wait_for_count("authenticated", REQUESTS / 2);
        for name in names {
            let uri = format!("sip:x@{name}");
            let answer = alice.log_in("MESSAGE", &uri, "alice", PASSWORD, "");
            assert_eq!(answer.ok().as_deref().and_then(status), Some(200), "{name}");
        }
        // The look-ups of carol were not merely fast.
        let waiting = exchange.server.counter("transactions");
        assert!(waiting > AT_ONCE, "{waiting}");
    });
}

/// Answers all requests with 200.
fn answer_all(socket: &UdpSocket) {
    let mut bytes = [0; 65_536];
    while let Ok((length, from)) = socket.recv_from(&mut bytes) {
        let request = String::from_utf8_lossy(&bytes[..length]);
        let (_, fields) = request.split_once("\r\n").unwrap_or_default();
        let _ = socket.send_to(format!("SIP/2.0 200 OK\r\n{fields}").as_bytes(), from);
    }
}
