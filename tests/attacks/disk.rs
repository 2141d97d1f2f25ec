//! A user that has the server write more than it sends.

use crate::client::{Client, Login, status};
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::{PASSWORD, TestServer};
use std::net::{IpAddr, Ipv4Addr};

const REQUESTS: usize = 400;
/// The contacts of the user, which have nearly the permitted length together.
const CONTACTS: usize = 9;
const LENGTH: usize = 1600;

#[test]
fn a_short_registration_writes_no_more_than_was_sent() {
    let exchange = TestServer::with(&format!("{TRUSTS_NOBODY}user_rate = 0\n"), &[]);
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
    let mut carol = Client::udp((from, 0).into(), exchange.server.address());
    let (name, uri) = (format!("sip:carol@{DOMAIN}"), format!("sip:{DOMAIN}"));
    let register = carol.request("REGISTER", &uri, &name, "");
    let challenged = carol.ask(&register).expect("a challenge");
    let mut login = Login::new(&challenged, "carol", PASSWORD);
    let mut register = |contact: &str| {
        let line = login.line("REGISTER", &uri);
        let request = carol.request("REGISTER", &uri, &name, &line);
        let at = request.find("Contact: ").expect("a contact");
        let request = format!("{}Contact: {contact}\r\nContent-Length: 0\r\n\r\n", &request[..at]);
        let answer = carol.ask(&request).expect("a response");
        assert_eq!(status(&answer), Some(200), "{answer}");
        request.len() as u64
    };
    for number in 0..CONTACTS {
        register(&format!("<sip:c{number}@127.0.0.9;x={}>", "x".repeat(LENGTH)));
    }
    let before = exchange.server.process().written();
    let sent: u64 = (0..REQUESTS).map(|_| register("<sip:carol@127.0.0.9>")).sum();
    let written = exchange.server.process().written() - before;
    // Without any record the contact would be lost at a crash.
    assert!(written > 0 && written < sent, "{written} bytes written for {sent} sent");
}
