//! A server that is spoken with over TLS.

use crate::phone::{PATIENCE, request, status};
use crate::site::{Server, Site, show, stdout};
use net::tls::{Client, Fingerprint, Identity, ServerName, Trust, make_self_signed};
use sip::Transport;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

/// A server of example.com that listens for TLS, with this section of its configuration.
fn serve(site: &Site, section: &str) -> (Server, SocketAddr) {
    let config = site.file(
        "tls.toml",
        &format!("domains = [\"example.com\"]\nlisten = [\"tls:127.0.0.1:0\"]\n{section}"),
    );
    let words = format!("serve --auth off --config {}", show(&config));
    let server = site.started(&mut site.command(&words));
    let listens = status(site)["listens"].clone();
    let address = listens[0].as_str().unwrap().trim_start_matches("tls:").parse().unwrap();
    (server, address)
}

/// The status of the answer to OPTIONS, where who has the certificate with this fingerprint is
/// trusted; or why there is none.
fn ask(address: SocketAddr, trust: &Trust) -> Result<String, String> {
    let client = Client::new(trust, None, false).unwrap();
    let name = ServerName::try_from("example.com").unwrap();
    let options = |from| {
        let more = "Content-Length: 0\r\n";
        request("OPTIONS", "sip:example.com", "TLS", from, 1, more).into_bytes()
    };
    let answer = net::ask(Transport::Tls, address, Some((&client, name)), options, PATIENCE);
    let answer = answer.map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned())
}

/// The fingerprint that the server has said last.
fn said_last(log: &str) -> Fingerprint {
    log.rsplit("fingerprint is ")
        .next()
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn a_certificate_is_made_once_and_kept() {
    let site = Site::new();
    let (server, address) = serve(&site, "");
    let own = said_last(&site.log_with("fingerprint is "));
    assert_eq!(ask(address, &Trust::Pinned(own)).unwrap(), "SIP/2.0 200 OK");
    let issuers = Trust::Issuers(site.data().join("tls-chain.pem"));
    assert_eq!(ask(address, &issuers).unwrap(), "SIP/2.0 200 OK", "it is for the domain");
    server.terminate();
    let (_server, address) = serve(&site, "");
    assert_eq!(ask(address, &Trust::Pinned(own)).unwrap(), "SIP/2.0 200 OK");
}

#[test]
fn certificates_are_read_again_and_connections_go_on() {
    let site = Site::new();
    let files = ["chain.pem", "key.pem"].map(|name| site.file(name, ""));
    let make = |[chain, key]: &[PathBuf; 2]| {
        make_self_signed(&["example.com".to_owned()], chain, key).unwrap();
        Identity::read(chain, key).unwrap().fingerprint()
    };
    let first = make(&files);
    let [chain, key] = files.each_ref().map(|file| show(file));
    let section = format!("[tls]\ncertificates = [{{ chain = \"{chain}\", key = \"{key}\" }}]\n");
    let (server, address) = serve(&site, &section);
    assert_eq!(ask(address, &Trust::Pinned(first)).unwrap(), "SIP/2.0 200 OK");
    let second = make(&files);
    let hangup = || {
        let pid = server.0.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    };
    hangup();
    site.log_with(&second.to_string());
    assert_eq!(ask(address, &Trust::Pinned(second)).unwrap(), "SIP/2.0 200 OK");
    assert!(ask(address, &Trust::Pinned(first)).unwrap_err().contains("is pinned"));
    // What cannot be used changes nothing.
    std::fs::write(&files[0], "nonsense").unwrap();
    hangup();
    let log = site.log_with("the certificates are kept as they were");
    assert!(log.contains("expected certificates in PEM"), "{log}");
    assert_eq!(ask(address, &Trust::Pinned(second)).unwrap(), "SIP/2.0 200 OK");
    let config = show(&site.data().with_file_name("tls.toml"));
    let said = stdout(&site.command(&format!("check --config {config}")).output().unwrap());
    assert!(said.contains(&format!("tls: {chain}: expected certificates in PEM")), "{said}");
}

#[test]
fn who_does_not_speak_tls_is_told_and_counted() {
    let site = Site::new();
    let (_server, address) = serve(&site, "");
    let mut peer = TcpStream::connect(address).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.write_all(b"OPTIONS sip:example.com SIP/2.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = peer.read_to_end(&mut answer);
    // An alert (RFC 8446 section 5.1).
    assert_eq!(answer.first(), Some(&21));
    site.log_with("fails: the other end does not speak TLS");
    assert_eq!(status(&site)["counters"]["tls-failures"], 1);
}
