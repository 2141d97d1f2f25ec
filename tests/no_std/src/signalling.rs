//! SIP: a REGISTER answered by hand, and one that the engine challenges and accepts.

use crate::lock::Lock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sip::digest::{Challenge, DigestInput, Ha1Set};
use sip::message::Response;
use sip::{HeaderName, Instant, Message, Transport};
use sip_server::config::{Domain, Listener};
use sip_server::{Config, Flow, Output, Server};

const SERVER: ([u8; 4], u16) = ([192, 0, 2, 1], 5060);
const PHONE: ([u8; 4], u16) = ([192, 0, 2, 9], 5060);
const NOW: Instant = Instant::from_micros(1_700_000_000_000_000);

/// A REGISTER with this branch number and additional header field lines.
fn register(number: u8, fields: &[u8]) -> Vec<u8> {
    let mut request = b"REGISTER sip:example.com SIP/2.0\r\n\
        Via: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bK"
        .to_vec();
    request.push(b'0' + number);
    request.extend_from_slice(
        b"\r\nMax-Forwards: 70\r\nFrom: <sip:alice@example.com>;tag=a\r\n\
        To: <sip:alice@example.com>\r\nCall-ID: 1\r\nContact: <sip:alice@192.0.2.9>\r\nCSeq: ",
    );
    request.push(b'0' + number);
    request.extend_from_slice(b" REGISTER\r\n");
    request.extend_from_slice(fields);
    request.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    request
}

pub(crate) fn answer_by_hand() -> Option<()> {
    let request = register(1, b"");
    let message = Message::parse(&request).ok()?;
    message.validate_request().ok()?;
    let source = PHONE.into();
    let to_tag = Some(&b"b"[..]);
    let response = Response { request: &message, source, status: 200, reason: "OK", to_tag };
    let mut bytes = Vec::new();
    response.write(&mut bytes, |_| {});
    (Message::parse(&bytes).ok()?.status()? == 200).then_some(())
}

pub(crate) fn answer_by_engine() -> Option<()> {
    let config = Config {
        domains: [Domain { name: "example.com".into(), aliases: Vec::new() }].into(),
        listeners: [Listener { transport: Transport::Udp, address: SERVER.into() }].into(),
        ..Config::default()
    };
    let server = Arc::new(Server::<Lock>::new(config, &[7; 32]));
    let ha1 = Ha1Set::new(b"alice", b"example.com", b"secret");
    server.add_user(b"alice@example.com", ha1.clone());
    let flow = Flow {
        transport: Transport::Udp,
        local: SERVER.into(),
        remote: PHONE.into(),
        connection: None,
    };
    let mut worker = server.worker();
    let mut answer = |request: &[u8]| {
        let mut out = Output::default();
        worker.receive(NOW, &flow, request, &mut out);
        let range = out.transmits.first()?.range.clone();
        Some(out.bytes[range].to_vec())
    };
    let refused = answer(&register(1, b""))?;
    let refused = Message::parse(&refused).ok()?;
    let challenge = Challenge::parse(refused.value(HeaderName::WwwAuthenticate)?).ok()??;
    let covered = DigestInput { method: b"REGISTER", uri: b"sip:example.com", body: b"" };
    let ha1 = ha1.get(challenge.algorithm);
    let mut fields = b"Authorization: ".to_vec();
    challenge.credentials_for(b"alice", ha1, &covered, b"cnonce", 1).write(&mut fields);
    fields.extend_from_slice(b"\r\n");
    let accepted = answer(&register(2, &fields))?;
    let statuses = (refused.status()?, Message::parse(&accepted).ok()?.status()?);
    (statuses == (401, 200) && server.registered() == 1).then_some(())
}
