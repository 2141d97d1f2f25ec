//! The messages of RFC 5769, malformed messages and arbitrary bytes.

use super::*;
use crate::turn::Credentials;
use crate::{BINDING, Writer};
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

/// RFC 5769 section 2.1.
const REQUEST: &str = "00010058 2112a442 b7e7a701 bc34d686 fa87dfae
    80220010 5354554e 20746573 7420636c 69656e74
    00240004 6e0001ff
    80290008 932ff9b1 51263b36
    00060009 6576746a 3a683676 59202020
    00080014 9aeaa70c bfd8cb56 781ef2b5 b2d3f249 c1b571a2
    80280004 e57a3bcf";

/// RFC 5769 section 2.2.
const RESPONSE_4: &str = "0101003c 2112a442 b7e7a701 bc34d686 fa87dfae
    8022000b 74657374 20766563 746f7220
    00200008 0001a147 e112a643
    00080014 2b91f599 fd9e90c3 8c7489f9 2af9ba53 f06be7d7
    80280004 c07d4c96";

/// RFC 5769 section 2.3.
const RESPONSE_6: &str = "01010048 2112a442 b7e7a701 bc34d686 fa87dfae
    8022000b 74657374 20766563 746f7220
    00200014 0002a147 0113a9fa a5d3f179 bc25f4b5 bed2b9d9
    00080014 a382954e 4be67bf1 1784c97c 8292c275 bfe3ed41
    80280004 c8fb0b4c";

/// RFC 5769 section 2.4.
const LONG_TERM: &str = "00010060 2112a442 78ad3433 c6ad72c0 29da412e
    00060012 e3839ee3 8388e383 aae38383 e382afe3 82b90000
    0015001c 662f2f34 39396b39 35346436 4f4c3334 6f4c3946 53547679 36347341
    0014000b 6578616d 706c652e 6f726700
    00080014 f6702465 6dd64a3e 02b8e071 2e85c9a2 8ca89666";

#[test]
fn the_messages_of_rfc_5769_are_parsed() {
    let id = TransactionId([0xb7, 0xe7, 0xa7, 1, 0xbc, 0x34, 0xd6, 0x86, 0xfa, 0x87, 0xdf, 0xae]);
    let bytes = hex(REQUEST);
    let request = Message::parse(&bytes).unwrap();
    assert_eq!((request.class, request.method, request.id), (Class::Request, BINDING, id));
    assert!(request.has_fingerprint);
    assert_eq!(request.value(attribute_type::SOFTWARE), Some(&b"STUN test client"[..]));
    assert_eq!(request.value(attribute_type::USERNAME), Some(&b"evtj:h6vY"[..]));
    // PRIORITY of ICE is not a known attribute.
    assert!(request.unknown_attributes(&[6, 8]).eq([0x24]));

    for (text, address) in [
        (RESPONSE_4, "192.0.2.1:32853"),
        (RESPONSE_6, "[2001:db8:1234:5678:11:2233:4455:6677]:32853"),
    ] {
        let bytes = hex(text);
        let response = Message::parse(&bytes).unwrap();
        assert_eq!((response.class, response.id), (Class::Success, id));
        assert!(response.has_fingerprint);
        assert_eq!(response.mapped_address(), Some(address.parse().unwrap()));
        assert_eq!(response.value(attribute_type::SOFTWARE), Some(&b"test vector"[..]));
    }

    let bytes = hex(LONG_TERM);
    let request = Message::parse(&bytes).unwrap();
    assert!(!request.has_fingerprint);
    let name = "マトリックス".as_bytes();
    assert_eq!(request.value(attribute_type::USERNAME), Some(name));
    assert_eq!(request.value(attribute_type::REALM), Some(&b"example.org"[..]));
    let nonce = &b"f//499k954d6OL34oL9FSTvy64sA"[..];
    assert_eq!(request.value(attribute_type::NONCE), Some(nonce));
    // The password after its preparation.
    let (user, password) = ("マトリックス".into(), "TheMatrIX".into());
    let key = Credentials { user, password }.key(b"example.org");
    assert!(request.has_integrity(&key));
}

#[test]
fn addresses_are_written_as_in_rfc_5769() {
    for text in [RESPONSE_4, RESPONSE_6] {
        let bytes = hex(text);
        let response = Message::parse(&bytes).unwrap();
        let mut out = Vec::new();
        let mut writer = Writer::new(response.class, response.method, response.id, &mut out);
        writer.xor_mapped_address(response.mapped_address().unwrap()).unwrap();
        let written = Message::parse(&out).unwrap();
        let number = attribute_type::XOR_MAPPED_ADDRESS;
        assert_eq!(written.value(number), response.value(number));
    }
    // The fingerprint of the first message, from its own bytes.
    let bytes = hex(REQUEST);
    assert_eq!(fingerprint(&bytes[..bytes.len() - 8]), 0xe57a_3bcf);
}

#[test]
fn the_integrity_of_rfc_5769_is_verified_and_written() {
    let password = b"VOkJxbRl1RmTxUk/WvJxBt";
    for text in [REQUEST, RESPONSE_4, RESPONSE_6] {
        let bytes = hex(text);
        let message = Message::parse(&bytes).unwrap();
        assert!(message.has_integrity(password) && !message.has_integrity(b"another"));
        let mut out = Vec::new();
        let mut writer = Writer::new(message.class, message.method, message.id, &mut out);
        for attribute in message.attributes() {
            match attribute.number {
                attribute_type::MESSAGE_INTEGRITY => writer.integrity(password).unwrap(),
                attribute_type::FINGERPRINT => {}
                number => writer.attribute(number, attribute.value).unwrap(),
            }
        }
        writer.fingerprint().unwrap();
        let written = Message::parse(&out).unwrap();
        assert!(written.has_integrity(password) && written.has_fingerprint);
        // The padding of the RFC's messages is of spaces, so the bytes differ.
        let mut changed = out.clone();
        changed[25] ^= 1;
        let length = changed.len() - 8;
        let code = fingerprint(&changed[..length]).to_be_bytes();
        changed[length + 4..].copy_from_slice(&code);
        assert!(!Message::parse(&changed).unwrap().has_integrity(password));
    }
    let none = hex("00010000 2112a442 b7e7a701 bc34d686 fa87dfae");
    assert!(!Message::parse(&none).unwrap().has_integrity(password));
}

#[test]
fn malformed_messages_are_rejected() {
    let whole = hex(RESPONSE_4);
    assert_eq!(Message::parse(&whole[..19]), Err(MessageError::NotStun));
    assert_eq!(Message::parse(b"\r\n\r\n"), Err(MessageError::NotStun));
    let changed = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        Message::parse(&bytes).unwrap_err()
    };
    assert_eq!(changed(0, 0x80), MessageError::NotStun);
    assert_eq!(changed(4, 0x20), MessageError::NotStun);
    assert_eq!(changed(3, 0x38), MessageError::Length { announced: 76, length: 80 });
    assert_eq!(changed(3, 0x3d), MessageError::Length { announced: 81, length: 80 });
    assert_eq!(changed(23, 0xff), MessageError::Attribute(0x8022));
    assert_eq!(changed(30, 0), MessageError::Fingerprint);
    assert_eq!(changed(79, 0), MessageError::Fingerprint);
    // No attribute may follow the fingerprint.
    let mut longer = whole.clone();
    longer.extend_from_slice(&[0x80, 0x22, 0, 0]);
    longer[3] += 4;
    assert_eq!(Message::parse(&longer), Err(MessageError::Fingerprint));
    // RFC 8489 appendix B.1 announces 20 bytes more than it has.
    let b1 = hex("0001009c 2112a442 78ad3433 c6ad72c0 29da412e 001e0020 4a3cf38f ef6992bd
        a952c678 0417da0f 24819415 569e60b2 05c46e41 407f1704");
    assert!(matches!(Message::parse(&b1), Err(MessageError::Length { .. })));
}

#[test]
fn attributes_after_the_integrity_are_ignored() {
    let mut out = Vec::new();
    let mut writer = Writer::new(Class::Success, BINDING, TransactionId([1; 12]), &mut out);
    writer.attribute(attribute_type::MESSAGE_INTEGRITY, &[0; 20]).unwrap();
    writer.xor_mapped_address(([192, 0, 2, 66], 66).into()).unwrap();
    assert_eq!(Message::parse(&out).unwrap().mapped_address(), None);
}

#[test]
fn class_and_method_bits_are_interleaved() {
    for class in [Class::Request, Class::Indication, Class::Success, Class::Error] {
        for method in [1, 0x0f, 0x10, 0x7f, 0x80, 0xfff] {
            let mut out = Vec::new();
            Writer::new(class, method, TransactionId([1; 12]), &mut out);
            let message = Message::parse(&out).unwrap();
            assert_eq!((message.class, message.method), (class, method));
        }
    }
}

/// Calls all accessors of a message.
fn read_everything(bytes: &[u8]) {
    let Ok(message) = Message::parse(bytes) else { return };
    let total: usize = message.attributes().map(|attribute| attribute.value.len()).sum();
    assert!(total <= bytes.len());
    let _ = (message.mapped_address(), message.error(), message.unknown_attributes(&[]).count());
}

#[test]
fn the_corpora_do_not_panic() {
    let Some(root) = test_support::corpora() else { return };
    let (mut count, mut read) = (0, 0);
    for path in test_support::files(&root.join("stun")) {
        let bytes = std::fs::read(&path).unwrap();
        // Some messages follow bytes that select the fuzzer's action.
        for bytes in (0..3).filter_map(|skipped| bytes.get(skipped..)) {
            read_everything(bytes);
            read += usize::from(Message::parse(bytes).is_ok());
        }
        count += 1;
    }
    assert!(count > 30 && read > 5, "{count} files, {read} messages");
    for line in std::fs::read_to_string(root.join("stun/pion/frombrowsers.csv")).unwrap().lines() {
        line.split([',', ' ', '"']).for_each(|word| read_everything(word.as_bytes()));
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes: Vec<u8>, head in 0_u8..0x40, numbers: Vec<(u16, Vec<u8>)>) {
        read_everything(&bytes);
        let mut out = Vec::new();
        let mut writer =
            Writer::new(Class::Success, u16::from(head), TransactionId([5; 12]), &mut out);
        for (number, value) in &numbers {
            // An attribute of the fingerprint's type would be a wrong fingerprint.
            writer.attribute(number & 0x7fff, value).unwrap();
        }
        writer.fingerprint().unwrap();
        let message = Message::parse(&out).unwrap();
        prop_assert!(message.has_fingerprint);
        prop_assert_eq!(message.attributes().count(), numbers.len() + 1);
        read_everything(&out);
    }
}
