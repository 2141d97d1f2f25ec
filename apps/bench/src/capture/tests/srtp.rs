//! SRTP, with and without keys in the capture.

use super::build::{Capture, Fields, message};
use super::rtp::{FROM, TO, assert_ms, only_stream, rtp};
use crate::capture::srtp::Srtp;
use sdp::CryptoAttribute;
use srtp::{Policy, Sender, Suite};

fn crypto(tag: u32, policy: Policy, seed: u8) -> CryptoAttribute {
    let length = policy.suite.key_length() + policy.suite.salt_length();
    CryptoAttribute::new(tag, policy, &[seed; 64][..length]).unwrap()
}

fn sender(crypto: &CryptoAttribute) -> Sender {
    Sender::new(&crypto.policy, crypto.master_keys().unwrap()).unwrap()
}

/// Returns a description with these keys, with `address` and `port` as the receiver.
fn sdp(address: &str, port: u16, keys: &[&CryptoAttribute]) -> String {
    let keys: String = keys.iter().map(|key| format!("a=crypto:{key}\r\n")).collect();
    format!("v=0\r\nc=IN IP4 {address}\r\nm=audio {port} RTP/SAVP 0\r\n{keys}")
}

/// Adds the offer of [`FROM`] and the answer of [`TO`].
fn negotiate(
    capture: &mut Capture,
    number: u32,
    micros: u64,
    offer: &[&CryptoAttribute],
    answer: &CryptoAttribute,
) {
    let cseq = format!("{number} INVITE");
    let fields =
        Fields { call_id: "c", branches: &[&number.to_string()], cseq: &cseq, to_tag: "b" };
    let fields = if number == 1 { Fields { to_tag: "", ..fields } } else { fields };
    let (alice, bob) = ("10.0.0.1:5060", "10.0.0.2:5060");
    let invite = message("INVITE sip:b", fields, &sdp("10.0.0.1", 4000, offer));
    capture.udp(micros, alice, bob, &invite);
    let ok = message("200", Fields { to_tag: "b", ..fields }, &sdp("10.0.0.2", 6000, &[answer]));
    capture.udp(micros + 10, bob, alice, &ok);
}

/// Returns a packet; every third ends with padding of this length.
fn packet(number: u16, padding: u8) -> Vec<u8> {
    let mut packet = rtp(0, number, 160 * u32::from(number));
    if number.is_multiple_of(3) {
        packet[0] |= 0x20;
        packet.extend(vec![0; usize::from(padding) - 1]);
        packet.push(padding);
    }
    packet
}

fn protect(sender: &mut Sender, mut packet: Vec<u8>) -> Vec<u8> {
    let length = packet.len();
    packet.resize(length + 200, 0);
    let length = sender.protect(&mut packet, length).unwrap();
    packet.truncate(length);
    packet
}

#[test]
fn padding_that_is_encrypted_costs_no_packet() {
    let policy = Policy::new(Suite::AesCm128HmacSha1_80);
    let (ours, theirs) = (crypto(1, policy.clone(), 1), crypto(1, policy, 2));
    for is_described in [false, true] {
        let mut capture = Capture::default();
        if is_described {
            // The capture has no key, as with DTLS.
            let fields = Fields { call_id: "c", branches: &["1"], cseq: "1 INVITE", to_tag: "" };
            capture.udp(
                0,
                "10.0.0.2:5060",
                "10.0.0.1:5060",
                &message("INVITE sip:a", fields, &sdp("10.0.0.2", 6000, &[])),
            );
        }
        let mut sender = sender(if is_described { &ours } else { &theirs });
        for number in 0..300 {
            let packet = protect(&mut sender, packet(number, 4));
            capture.udp(20_000 * u64::from(number) + 1, FROM, TO, &packet);
        }
        let analysis = capture.analyse();
        assert_eq!(analysis.sip.other_datagrams + analysis.rtp.unrecognised, 0);
        let stream = only_stream(&capture);
        assert_eq!((stream.packets, stream.lost), (300, 0));
        assert_eq!((stream.padded, stream.padding_bytes), (100, None));
        assert!(stream.srtp.is_none());
        assert_ms(stream.max_jitter_ms, 0.0);
    }
}

#[test]
fn keys_of_the_description_authenticate_packets() {
    for suite in Suite::ALL {
        let policy = Policy::new(suite);
        let offer =
            [crypto(1, Policy::new(Suite::AesCm128HmacSha1_32), 1), crypto(2, policy.clone(), 2)];
        let answer = crypto(2, policy, 3);
        let mut capture = Capture::default();
        negotiate(&mut capture, 1, 0, &[&offer[0], &offer[1]], &answer);
        let (mut alice, mut bob) = (sender(&offer[1]), sender(&answer));
        for number in 0..300 {
            let micros = 20_000 * u64::from(number) + 100;
            let mut sent = protect(&mut alice, packet(number, 4));
            if number >= 150 && number.is_multiple_of(10) {
                // Damaged in transit.
                sent[20] ^= 1;
            }
            capture.udp(micros, FROM, TO, &sent);
            capture.udp(micros + 5_000, TO, FROM, &protect(&mut bob, packet(number, 7)));
        }
        let streams = capture.analyse().rtp.streams;
        let [to_bob, to_alice] = &streams[..] else { panic!("{streams:?}") };
        let figures = |srtp: &Option<Srtp>| {
            let srtp = srtp.clone().unwrap();
            assert_eq!(srtp.suite, suite.name());
            (srtp.authentic, srtp.not_authentic, srtp.unchecked)
        };
        assert_eq!(figures(&to_bob.srtp), (285, 15, 0), "{suite}");
        assert_eq!((to_bob.packets, to_bob.expected, to_bob.lost), (285, 300, 15));
        assert_eq!(figures(&to_alice.srtp), (300, 0, 0), "{suite}");
        assert_eq!((to_alice.packets, to_alice.lost), (300, 0));
        assert_eq!((to_alice.padded, to_alice.padding_bytes), (100, Some(700)));
    }
}

#[test]
fn new_keys_hold_from_their_answer_on() {
    let policy = || Policy::new(Suite::AesCm128HmacSha1_80);
    let keys: Vec<_> = (1..=4).map(|seed| crypto(1, policy(), seed)).collect();
    let mut capture = Capture::default();
    negotiate(&mut capture, 1, 0, &[&keys[0]], &keys[1]);
    let (mut before, mut after) = (sender(&keys[0]), sender(&keys[2]));
    for number in 0..300u16 {
        let micros = 20_000 * u64::from(number) + 100;
        match number {
            // The same keys again: the session continues.
            50 => negotiate(&mut capture, 2, micros - 50, &[&keys[0]], &keys[1]),
            100 => negotiate(&mut capture, 3, micros - 50, &[&keys[2]], &keys[3]),
            _ => {}
        }
        // The old keys are in use for a while.
        let sender = if number < 120 { &mut before } else { &mut after };
        let packet =
            protect(sender, rtp(0, 65_400u16.wrapping_add(number), 160 * u32::from(number)));
        capture.udp(micros, FROM, TO, &packet);
    }
    let stream = only_stream(&capture);
    let srtp = stream.srtp.unwrap();
    assert_eq!((srtp.authentic, srtp.not_authentic, srtp.unchecked), (300, 0, 0));
    assert_eq!((stream.packets, stream.lost, stream.restarts), (300, 0, 0));
}

#[test]
fn copies_and_packets_without_a_tag_are_not_checked() {
    let mut policy = Policy::new(Suite::AesCm128HmacSha1_80);
    policy.authenticate_rtp = false;
    for (policy, expected) in
        [(Policy::new(Suite::AesCm128HmacSha1_80), (100, 0, 100)), (policy, (0, 0, 200))]
    {
        let (ours, theirs) = (crypto(1, policy.clone(), 1), crypto(1, policy, 2));
        let mut capture = Capture::default();
        negotiate(&mut capture, 1, 0, &[&ours], &theirs);
        let mut sender = sender(&ours);
        for number in 0..100 {
            let packet = protect(&mut sender, packet(number, 4));
            for copy in 0..2 {
                capture.udp(20_000 * u64::from(number) + 100 + copy, FROM, TO, &packet);
            }
        }
        let stream = only_stream(&capture);
        let srtp = stream.srtp.unwrap();
        assert_eq!((srtp.authentic, srtp.not_authentic, srtp.unchecked), expected);
        assert_eq!((stream.packets, stream.lost, stream.duplicates), (200, 0, 100));
    }
}

#[test]
fn wrong_keys_lose_no_packet() {
    let policy = || Policy::new(Suite::AeadAes128Gcm);
    let mut capture = Capture::default();
    negotiate(&mut capture, 1, 0, &[&crypto(1, policy(), 1)], &crypto(1, policy(), 2));
    let mut sender = sender(&crypto(1, policy(), 9));
    for number in 0..100 {
        let packet = protect(&mut sender, packet(number, 4));
        capture.udp(20_000 * u64::from(number) + 100, FROM, TO, &packet);
    }
    let stream = only_stream(&capture);
    assert_eq!((stream.packets, stream.lost, stream.padding_bytes), (100, 0, None));
    assert_eq!(stream.srtp.unwrap().not_authentic, 100);
}
