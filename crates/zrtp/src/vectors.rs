//! The exchange of bzrtp in the corpora, and vectors of primitives.

use crate::HelloHash;
use crate::agreement::{Element, Group15, KeyPair};
use crate::algorithm::{Hash, KeyAgreement, Preferences, SasType};
use crate::crypto::{Direction, Random, cfb, derive, digest};
use crate::keys::Side;
use crate::message::{self, Message, has_mac};
use crate::packet::{HEADER, frame, unframe};
use crypto_bigint::U3072;
use crypto_bigint::modular::ConstMontyParams;
use serde_json::Value;
use std::vec::Vec;
use zeroize::Zeroizing;

/// Decodes hexadecimal digits.
fn hex(digits: &str) -> Vec<u8> {
    let byte = |at: usize| {
        u8::from_str_radix(&digits[at..at + 2], 16).expect("the digits are hexadecimal")
    };
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The bytes of a text of hexadecimal digits.
fn bytes(value: &Value) -> Vec<u8> {
    hex(value.as_str().expect("the value is a text"))
}

/// The file of vectors. `None` if the corpora are not installed.
fn vectors() -> Option<Value> {
    let path = test_support::corpora()?.join("zrtp/vectors/bzrtp-exchange.json");
    let text = std::fs::read_to_string(path).expect("the vectors can be read");
    Some(serde_json::from_str(&text).expect("the vectors are JSON"))
}

/// The packets of the exchange: the responder's Hello, the initiator's, HelloACK, Commit, DHPart1,
/// DHPart2, Confirm1, Confirm2, Conf2ACK.
fn packets(vectors: &Value) -> Vec<Vec<u8>> {
    let packets = vectors["packets"].as_array().expect("there are packets");
    packets.iter().map(|packet| bytes(&packet["hex"])).collect()
}

#[test]
fn keys_are_derived_as_by_bzrtp() {
    let Some(vectors) = vectors() else { return };
    let cases = vectors["kdf"].as_array().expect("there are cases");
    assert_eq!(cases.len(), 9);
    for case in cases {
        let label = case["label"].as_str().expect("a case has a label");
        let length = case["length_bits"].as_u64().expect("a case has a length") as usize / 8;
        let (key, context) = (bytes(&case["ki"]), bytes(&case["context"]));
        let out = derive(Hash::S256, &key, label.as_bytes(), &context, length);
        assert_eq!(*out, bytes(&case["out"]), "{label}");
    }
}

#[test]
fn packets_of_bzrtp_are_framed_and_read() {
    let Some(vectors) = vectors() else { return };
    for packet in packets(&vectors) {
        let (ssrc, message) = unframe(&packet).expect("the packet is intact");
        assert!(Message::parse(message).is_some(), "{packet:02x?}");
        let sequence_number = u16::from_be_bytes([packet[2], packet[3]]);
        assert_eq!(frame(message, sequence_number, ssrc), packet);
        for place in 0..packet.len() {
            let mut damaged = packet.clone();
            damaged[place] ^= 0x40;
            assert!(unframe(&damaged).is_none());
            assert!(unframe(&packet[..place]).is_none());
        }
    }
}

#[test]
fn the_messages_of_bzrtp_are_authentic_and_written_again() {
    let Some(vectors) = vectors() else { return };
    let packets = packets(&vectors);
    let message = |number: usize| &packets[number][HEADER..packets[number].len() - 4];
    let chain = |ssrc: &str| -> [[u8; 32]; 4] {
        let list = vectors["hash_chain"][ssrc]["H"].as_array().expect("there is a chain");
        [0, 1, 2, 3].map(|place| bytes(&list[place]).try_into().expect("a hash has 32 bytes"))
    };
    let [responder, initiator] = ["H12345678", "H87654321"].map(chain);
    for chain in [responder, initiator] {
        assert_eq!(crate::crypto::HashChain::new(chain[0]).0, chain);
    }
    for (number, chain, revealed) in [
        (0, responder, 2),
        (1, initiator, 2),
        (3, initiator, 1),
        (4, responder, 0),
        (5, initiator, 0),
    ] {
        assert!(has_mac(message(number), &chain[revealed]), "{number}");
        assert!(!has_mac(message(number), &chain[revealed + 1]), "{number}");
    }

    let Some(Message::Hello(hello)) = Message::parse(message(0)) else { panic!("no Hello") };
    let suite = hello.choose(&Preferences::default());
    assert_eq!(suite.key_agreement, KeyAgreement::Dh3k);
    let Some(Message::Commit(commit)) = Message::parse(message(3)) else { panic!("no Commit") };
    let agreed = commit.suite(&Preferences::default()).expect("the algorithms are known");
    assert_eq!((agreed.hash, agreed.sas_type), (Hash::S256, SasType::B32));
    let hvi = digest(Hash::S256, &[message(5), message(0)]);
    assert_eq!(commit.hvi.expect("the mode is Diffie-Hellman")[..], hvi[..]);
    let written = message::commit(commit.zid, agreed, commit.hvi.unwrap(), &initiator);
    assert_eq!(written, message(3));
    for (number, kind, chain) in [(4, b"DHPart1 ", responder), (5, b"DHPart2 ", initiator)] {
        let Some(Message::DhPart1(part) | Message::DhPart2(part)) = Message::parse(message(number))
        else {
            panic!("no DHPart");
        };
        let written = message::dh_part(kind, &part.identifiers, part.public, &chain);
        assert_eq!(written, message(number));
    }

    let keys = &vectors["keys"];
    for (number, kind, mac, cipher, chain) in [
        (6, b"Confirm1", "mackeyr", "zrtpkeyr", responder),
        (7, b"Confirm2", "mackeyi", "zrtpkeyi", initiator),
    ] {
        let [mac, cipher] = [mac, cipher].map(|name| Zeroizing::new(bytes(&keys[name])));
        let side = Side { srtp: Zeroizing::default(), mac, cipher };
        let Some(Message::Confirm1(confirm) | Message::Confirm2(confirm)) =
            Message::parse(message(number))
        else {
            panic!("no Confirm");
        };
        let content = confirm.open(Hash::S256, &side).expect("the message is authentic");
        assert_eq!(*content.h0, chain[0]);
        assert_eq!((content.is_verified, content.lifetime), (false, u32::MAX));
        let iv = message(number)[20..36].try_into().expect("an IV has 16 bytes");
        let written = message::confirm(kind, Hash::S256, &side, iv, &content);
        assert_eq!(written, message(number));
    }
}

#[test]
fn the_hash_of_a_hello_is_that_of_bzrtp() {
    let Some(vectors) = vectors() else { return };
    let (packet, value) =
        (bytes(&vectors["zrtp_hash"]["packet"]), &vectors["zrtp_hash"]["zrtp_hash"]);
    let (_, message) = unframe(&packet).expect("the packet is intact");
    let hash = HelloHash::of(message);
    let value = value.as_str().expect("the value is a text");
    assert_eq!(std::format!("{hash}"), value);
    let read: HelloHash = value.to_ascii_uppercase().parse().expect("digits may be capitals");
    assert!(read == hash && read.is_of(message) && !read.is_of(&message[1..]));
    for wrong in [&value[1..], &value[..60], "", "1.10", &std::format!("{value}0"), "1.10 é"] {
        assert!(wrong.parse::<HelloHash>().is_err(), "{wrong}");
    }
}

/// NIST SP 800-38A, F.3.13 and F.3.17: CFB128-AES128 and CFB128-AES256.
#[test]
fn cipher_feedback_is_that_of_nist() {
    let iv = hex("000102030405060708090a0b0c0d0e0f").try_into().expect("an IV has 16 bytes");
    let plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
    for (key, encrypted) in [
        (
            "2b7e151628aed2a6abf7158809cf4f3c",
            "3b3fd92eb72dad20333449f8e83cfb4ac8a64537a0b3a93fcde3cdad9f1ce58b",
        ),
        (
            "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
            "dc7e84bfda79164b7ecd8486985d386039ffed143b28b1c832113c6331e5407b",
        ),
    ] {
        let mut bytes = plain[..30].to_vec();
        cfb(&hex(key), iv, &mut bytes, Direction::Encrypt);
        assert_eq!(bytes, hex(encrypted)[..30]);
        cfb(&hex(key), iv, &mut bytes, Direction::Decrypt);
        assert_eq!(bytes, plain[..30]);
    }
}

#[test]
fn both_ends_of_an_exchange_have_the_same_value() {
    for kind in [KeyAgreement::X255, KeyAgreement::Ec25, KeyAgreement::Dh3k] {
        let pairs = [1, 2].map(|seed| KeyPair::new(kind, &mut Random::new([seed; 32])));
        assert_ne!(pairs[0].public(), pairs[1].public());
        assert_eq!(pairs[0].public().len(), kind.public_length());
        let shared = [0, 1].map(|place: usize| pairs[place].agree(pairs[1 - place].public()));
        assert!(shared[0].is_some() && shared[0] == shared[1], "{kind:?}");
    }
}

#[test]
fn unsafe_public_values_are_refused() {
    let pair = |kind| KeyPair::new(kind, &mut Random::new([3; 32]));
    let dh3k = pair(KeyAgreement::Dh3k);
    let number = |last: u8| {
        let mut bytes = [0; 384];
        bytes[383] = last;
        bytes
    };
    let last = |below: u8| {
        let value = Group15::PARAMS.modulus().get().wrapping_sub(&U3072::from_u8(below));
        <[u8; 384]>::try_from(value.to_be_bytes().as_ref()).expect("a value has 384 bytes")
    };
    for (value, is_safe) in [
        (number(0), false),
        (number(1), false),
        (number(2), true),
        (last(2), true),
        (last(1), false),
        (last(0), false),
        ([0xff; 384], false),
    ] {
        assert_eq!(dh3k.agree(&value).is_some(), is_safe);
    }
    assert!(dh3k.agree(&[2; 383]).is_none());
    assert!(pair(KeyAgreement::X255).agree(&[0; 32]).is_none());
    assert!(pair(KeyAgreement::X255).agree(&[9; 33]).is_none());
    assert!(pair(KeyAgreement::Ec25).agree(&[1; 64]).is_none());
}

/// The group is of prime order, which a wrong digit of the modulus would change.
#[test]
fn two_generates_the_group_of_3072_bits() {
    let order = Group15::PARAMS.modulus().get().shr(1);
    let element = Element::new(&U3072::from_u8(2));
    assert_eq!(element.pow(&order).retrieve(), U3072::ONE);
    assert_ne!(element.pow(&order.wrapping_sub(&U3072::ONE)).retrieve(), U3072::ONE);
}
