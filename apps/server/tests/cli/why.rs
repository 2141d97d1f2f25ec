//! The reasons of refusals.

use crate::phone::{PATIENCE, receive, request, serve};
use crate::site::{Site, show};
use serde_json::Value;
use std::net::UdpSocket;

fn phone() -> UdpSocket {
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    phone
}

/// Sends a request with this number to a server. Returns the final response.
fn ask(phone: &UdpSocket, server: &str, method: &str, uri: &str, number: u32) -> String {
    let from = phone.local_addr().unwrap();
    let more = format!("Contact: <sip:bob@{from}>\r\nContent-Length: 0\r\n");
    let request = request(method, uri, "UDP", from, number, &more);
    phone.send_to(request.as_bytes(), server).unwrap();
    loop {
        let response = receive(phone);
        if !response.starts_with("SIP/2.0 1") {
            return response;
        }
    }
}

#[test]
fn refusals_name_their_rule_and_their_setting() {
    let site = Site::new();
    assert!(site.bad("why bob").contains("no server runs"));
    let (_server, [address, _]) = serve(&site, "");
    let none = site.good("why bob");
    assert!(none.starts_with("no request of bob is among the last refusals"), "{none}");
    let phone = phone();
    let response = ask(&phone, &address, "INVITE", "sip:bob@example.com", 3000);
    assert!(response.starts_with("SIP/2.0 404 "), "{response}");
    let from = phone.local_addr().unwrap();
    for target in ["bob", "bob@example.com", "3000", "127.0.0.1", &from.to_string()] {
        let why = site.good(&format!("why {target}"));
        for part in [
            format!(" INVITE of bob@example.com to bob@example.com from udp:{from}: 404 "),
            "there is no user, group or service with this name (counter not-found)".to_owned(),
            "see `barebell user list`".to_owned(),
        ] {
            assert!(why.contains(&part), "{target}: {part}: {why}");
        }
    }
    let list = site.good("why 3000 --json");
    let row: Value = serde_json::from_str(list.trim_end()).unwrap();
    assert_eq!((&row["status"], &row["count"]), (&404.into(), &1.into()));
    assert_eq!(row["reasons"][0]["counter"], "not-found");
    assert!(site.good("why carol").starts_with("no request of carol"));
}

#[test]
fn a_request_that_is_dropped_over_the_rate_has_a_reason_and_no_trace() {
    let site = Site::new();
    let text = "[limits]\nsource_rate = 1\nsource_burst = 3\ntrusted = []";
    let config = show(&site.file("c.toml", text));
    let (_server, [address, _]) = serve(&site, &format!("--config {config}"));
    let phone = phone();
    let from = phone.local_addr().unwrap();
    for number in 4000..4050 {
        let more = "Content-Length: 0\r\n";
        let request = request("OPTIONS", "sip:example.com", "UDP", from, number, more);
        phone.send_to(request.as_bytes(), &address).unwrap();
    }
    let why = loop {
        let why = site.good("why 127.0.0.1");
        if why.contains("times") {
            break why;
        }
    };
    for part in ["dropped without a response", "the source is over its rate", "limits.source_rate"]
    {
        assert!(why.contains(part), "{part}: {why}");
    }
    let list = site.good("trace 127.0.0.1 --json");
    let answered = list.lines().filter(|line| line.contains("SIP/2.0 200")).count();
    let received = list.lines().filter(|line| line.contains("\"OPTIONS ")).count();
    assert!(received > 0 && received < 50, "{received}");
    assert_eq!(answered, received, "{list}");
}
