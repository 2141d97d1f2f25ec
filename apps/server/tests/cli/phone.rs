//! Requests of a phone to a server, and their responses.

use crate::site::{Server, Site};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

/// The maximum time for a response in a test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server of example.com without authentication, and its UDP and TCP addresses.
pub(crate) fn serve(site: &Site, words: &str) -> (Server, [String; 2]) {
    let server = site.serve(&format!(
        "--domain example.com --auth off --listen tcp:127.0.0.1:0 --workers 2 {words}"
    ));
    let listens = status(site)["listens"].clone();
    let address = |place: usize| listens[place].as_str().unwrap()[4..].to_owned();
    (server, [address(0), address(1)])
}

pub(crate) fn status(site: &Site) -> serde_json::Value {
    serde_json::from_str(&site.status()).unwrap()
}

/// A request from `from`, with `more` header fields and no body.
pub(crate) fn request(
    method: &str,
    uri: &str,
    via: &str,
    from: SocketAddr,
    number: u32,
    more: &str,
) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/{via} {from};branch=z9hG4bK{number}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:bob@example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\n\
         Call-ID: {number}\r\nCSeq: 1 {method}\r\n{more}\r\n"
    )
}

/// Registers sip:bob@example.com from `phone` with `contact`.
pub(crate) fn register(phone: &UdpSocket, server: &str, contact: &str) {
    let more = format!("Contact: <{contact}>\r\nContent-Length: 0\r\n");
    let from = phone.local_addr().unwrap();
    let register = request("REGISTER", "sip:example.com", "UDP", from, 1000, &more);
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    phone.send_to(register.as_bytes(), server).unwrap();
    let answer = receive(phone);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

pub(crate) fn receive(phone: &UdpSocket) -> String {
    let mut answer = [0; 65_536];
    let length = phone.recv(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[..length]).into_owned()
}

/// The rest of each line in `text` that begins with `what`.
pub(crate) fn found(text: &str, what: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with(what));
    lines.map(|line| line[what.len()..].to_owned()).collect()
}
