//! Attacks on calls of phones with DTLS-SRTP and without ICE, on the ports of the relay.

use crate::browsers::{WebCall, hello, identity, waiting};
use crate::relay::{STRANGER, address, relay_with, socket};
use dtls::Identity;
use peers::test_server::TestServer;
use std::net::{Ipv4Addr, UdpSocket};

/// The rounds of a flood.
const FLOOD: usize = 300;

/// A relayed call of a phone with this certificate.
fn call(exchange: &TestServer, identity: &Identity) -> WebCall {
    let media = socket(Ipv4Addr::LOCALHOST);
    let (port, fingerprint) = (address(&media).port(), identity.fingerprint());
    let offer = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio {port} UDP/TLS/RTP/SAVP 0\r\na=rtcp-mux\r\n\
         a=fingerprint:{fingerprint}\r\na=setup:actpass\r\n"
    );
    WebCall::with(exchange, ["alice", "bob"], media, &offer)
}

/// Datagrams of DTLS: the first message of a handshake, its fragments, and random octets behind the
/// header of a record.
fn datagrams(identity: &Identity, random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let whole = hello(identity);
    // A fragment of the first octet of the message, with the length of the whole.
    let mut fragment = whole[..26].to_vec();
    fragment[11..13].copy_from_slice(&[0, 13]);
    fragment[19..25].copy_from_slice(&[0, 0, 0, 0, 0, 1]);
    let mut noise: Vec<u8> = (0..random.usize(14..400)).map(|_| random.u8(..)).collect();
    let length = (noise.len() - 13) as u16;
    noise[..5].copy_from_slice(&[22, 254, 253, 0, 0]);
    noise[11..13].copy_from_slice(&length.to_be_bytes());
    vec![whole, fragment, noise]
}

/// Sends datagrams of DTLS from `stranger` to all ports of the call.
fn flood(call: &WebCall, stranger: &UdpSocket, random: &mut fastrand::Rng) {
    let foreign = identity();
    for _ in 0..FLOOD {
        for datagram in datagrams(&foreign, random) {
            for target in call.relay {
                let other = (target.ip(), target.port() + 1);
                let _ = stranger.send_to(&datagram, target);
                let _ = stranger.send_to(&datagram, other);
            }
        }
    }
}

/// Other hosts get no answer, and the handshake of the phone does not notice them.
#[test]
fn handshakes_of_other_hosts_are_not_answered() {
    let exchange = relay_with("offered", 3);
    let own = identity();
    let mut call = call(&exchange, &own);
    let (stranger, mut random) = (socket(STRANGER), fastrand::Rng::with_seed(51));
    flood(&call, &stranger, &mut random);
    assert!(call.shake_hands(&exchange, &own));
    flood(&call, &stranger, &mut random);
    call.talk();
    assert!(waiting(&stranger).is_empty());
    call.hang_up(&exchange);
}

/// Another program on the host of the phone, or a source that forges its address, does not know the
/// port of the phone. That has precedence: once it has sent, other ports are not heard.
#[test]
fn other_ports_of_the_host_do_not_take_over_a_handshake() {
    let exchange = relay_with("offered", 3);
    let own = identity();
    let mut call = call(&exchange, &own);
    let (other, mut random) = (socket(Ipv4Addr::LOCALHOST), fastrand::Rng::with_seed(52));
    flood(&call, &other, &mut random);
    let answers = waiting(&other);
    assert!(!answers.is_empty(), "the test floods no handshake");
    assert!(call.shake_hands(&exchange, &own));
    waiting(&other);
    flood(&call, &other, &mut random);
    call.talk();
    let answers = waiting(&other);
    assert!(answers.is_empty(), "{} answers, the first {:?}", answers.len(), answers.first());
    call.hang_up(&exchange);
}
