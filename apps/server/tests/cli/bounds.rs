//! Limits on the resources that strangers can use.

use crate::phone::{PATIENCE, found, receive, request, status};
use crate::site::{Site, show, stderr};
use std::net::{TcpStream, UdpSocket};

#[test]
fn connections_leave_descriptors_for_everything_else() {
    let site = Site::new();
    let words = "serve --domain example.com --auth off --workers 1 --listen tcp:127.0.0.1:0";
    let _server = site.started(&mut site.command_after("ulimit -n 200", words));
    let log = site.log();
    let line = log.lines().find(|line| line.contains("TCP connections are accepted"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains(" info: at most ") && line.contains(" not the 100000 of "), "{line}");
    let listens = status(&site)["listens"].clone();
    let connections: Vec<_> =
        (0..200).map(|_| TcpStream::connect(&listens[0].as_str().unwrap()[4..]).unwrap()).collect();
    // The connections before the last one have been accepted or refused then.
    while status(&site)["counters"]["refused-connections"].as_u64() < Some(100) {}
    assert_eq!(
        site.good("user add alice@example.com --password x"),
        "added sip:alice@example.com\n"
    );
    assert!(!site.log().contains("Too many open files"), "{}", site.log());
    drop(connections);
    let output = site.command_after("ulimit -n 64", words).output().unwrap();
    assert!(stderr(&output).contains("a server runs already"), "{}", stderr(&output));
}

#[test]
fn a_configured_number_of_connections_that_is_not_possible_is_a_warning() {
    let site = Site::new();
    let config = show(&site.file("c.toml", "[limits]\nmax_connections = 5000\n"));
    let words = format!("serve --workers 1 --listen tcp:127.0.0.1:0 --config {config}");
    let _server = site.started(&mut site.command_after("ulimit -n 200", &words));
    let log = site.log();
    let line = log.lines().find(|line| line.contains(" not the 5000 of limits.max_connections"));
    assert!(line.is_some_and(|line| line.contains(" warning: at most ")), "{log}");
}

#[test]
fn too_few_descriptors_are_an_error_that_says_how_to_have_more() {
    let site = Site::new();
    let words = "serve --workers 1 --listen udp:127.0.0.1:0";
    let output = site.command_after("ulimit -n 64", words).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("raise the limit (LimitNOFILE="), "{}", stderr(&output));
}

#[test]
fn a_ban_is_logged_among_any_number_of_failed_logins() {
    let site = Site::new();
    let limits = "[limits]\ntrusted = []\nban_failures = 100\n";
    let config = show(&site.file("c.toml", &format!("domains = [\"example.com\"]\n{limits}")));
    let _server = site.serve(&format!("--config {config}"));
    let address = status(&site)["listens"][0].as_str().unwrap()[4..].to_owned();
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    let from = phone.local_addr().unwrap();
    let say = |number, more: &str| {
        let more = format!("{more}Content-Length: 0\r\n");
        let text = request("REGISTER", "sip:example.com", "UDP", from, number, &more);
        let text = text.replacen("sip:bob@", &format!("sip:{}@", "'".repeat(20_000)), 1);
        phone.send_to(text.as_bytes(), &address).unwrap();
    };
    say(0, "");
    let challenge = found(&receive(&phone), "WWW-Authenticate: Digest ").pop().unwrap();
    let nonce = challenge.split("nonce=\"").nth(1).unwrap().split('"').next().unwrap();
    let guess = format!(
        "Authorization: Digest username=\"bob\", realm=\"example.com\", nonce=\"{nonce}\", \
         uri=\"sip:example.com\", response=\"{}\", algorithm=MD5, cnonce=\"x\", nc=00000001, qop=auth\r\n",
        "0".repeat(32)
    );
    for number in 1..=100 {
        say(number, &guess);
        receive(&phone);
    }
    let log = site.log_with("warning: 127.0.0.1 is banned");
    let failures = log.matches("did not log in").count();
    assert!((1..100).contains(&failures), "{failures} of 100 are written");
    assert!(log.lines().all(|line| line.len() < 1100), "{log}");
}
