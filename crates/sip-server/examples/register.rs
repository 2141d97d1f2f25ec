//! Passes a REGISTER to the engine without any I/O, and prints the output. The engine challenges it
//! first.
//!
//! ```sh
//! cargo run -p barebell-sip-server --example register
//! ```

use barebell_sip_server::config::{Domain, Listener};
use barebell_sip_server::{Config, Flow, Output, Server};
use parking_lot::RawMutex;
use sip::digest::{Challenge, DigestInput, Ha1Set};
use sip::{HeaderName, Instant, Message, Transport};
use std::sync::Arc;

fn register(number: u32, authorization: &str) -> String {
    format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK{number}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=a\r\nTo: <sip:alice@example.com>\r\n\
         Call-ID: 1\r\nCSeq: {number} REGISTER\r\nContact: <sip:alice@192.0.2.9>\r\n\
         {authorization}Content-Length: 0\r\n\r\n"
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = "192.0.2.1:5060".parse()?;
    let config = Config {
        domains: vec![Domain { name: "example.com".into(), aliases: Vec::new() }],
        listeners: vec![Listener { transport: Transport::Udp, address }],
        ..Config::default()
    };
    let server = Arc::new(Server::<RawMutex>::new(config, &[7; 32]));
    let ha1 = Ha1Set::new(b"alice", b"example.com", b"wonderland");
    server.add_user(b"alice@example.com", ha1.clone());

    let remote = "192.0.2.9:5060".parse()?;
    let flow = Flow { transport: Transport::Udp, local: address, remote, connection: None };
    let now = Instant::from_micros(1_700_000_000_000_000);
    let mut worker = server.worker();
    let mut answer = |request: String| {
        let mut out = Output::default();
        worker.receive(now, &flow, request.as_bytes(), &mut out);
        let answer = out.bytes[out.transmits[0].range.clone()].to_vec();
        println!("{}", String::from_utf8_lossy(&answer));
        answer
    };
    let refused = answer(register(1, ""));
    let refused = Message::parse(&refused)?;
    let challenge = refused.value(HeaderName::WwwAuthenticate).ok_or("no challenge")?;
    let challenge = Challenge::parse(challenge)?.ok_or("no Digest")?;
    let covered = DigestInput { method: b"REGISTER", uri: b"sip:example.com", body: b"" };
    let mut credentials = b"Authorization: ".to_vec();
    let ha1 = ha1.get(challenge.algorithm);
    challenge.credentials_for(b"alice", ha1, &covered, b"cnonce", 1).write(&mut credentials);
    answer(register(2, &format!("{}\r\n", String::from_utf8(credentials)?)));
    assert_eq!(server.registered(), 1);
    Ok(())
}
