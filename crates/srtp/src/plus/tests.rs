//! Sender and receiver with SRTP+.

use super::{Allowance, Placement, Scheme, SrtpPlus};
use crate::tests::{key, rtp_packet};
use crate::{
    MasterKey, Policy, PolicyError, ProtectError, Receiver, Sender, Suite, UnprotectError,
};
use proptest::prelude::*;
use rtp::packet::HeaderFields;
use rtp::{Header, extension};
use std::string::ToString;
use std::vec;
use std::vec::Vec;
use test_support::Random;

const PLACEMENTS: [Placement; 2] = [Placement::Extension(3), Placement::Trailer];

fn schemes() -> Vec<Scheme> {
    let mut schemes = vec![Scheme::SEQUENCE, Scheme::Sequence { key_bits: 512 }, Scheme::Hash];
    schemes.extend(
        [(32, 4), (5, 4), (1, 8), (64, 16), (7, 32)]
            .map(|(numbers, bits)| Scheme::Chain { numbers, bits }),
    );
    schemes.push(Scheme::Header);
    schemes
}

fn policy(suite: Suite, scheme: Scheme, placement: Placement) -> Policy {
    Policy { plus: Some(SrtpPlus { scheme, placement }), ..Policy::new(suite) }
}

fn ends(policy: &Policy) -> (Sender, Receiver) {
    let keys = vec![key(policy.suite)];
    let sender = Sender::new(policy, keys.clone()).unwrap().with_seed(&[9; 32]);
    (sender, Receiver::new(policy, keys).unwrap())
}

/// Consecutive packets of one source from a sequence number on, unprotected and protected.
fn line(sender: &mut Sender, start: u16, count: u16) -> Vec<(Vec<u8>, Vec<u8>)> {
    let packet = |number: u16| {
        let (mut buffer, length) = rtp_packet(7, start.wrapping_add(number), b"payload");
        let plain = buffer[..length].to_vec();
        let length = sender.protect(&mut buffer, length).unwrap();
        buffer.truncate(length);
        (plain, buffer)
    };
    (0..count).map(packet).collect()
}

/// The offset of the last byte of a tag.
fn tag_end(packet: &[u8], placement: Placement) -> usize {
    let Placement::Extension(_) = placement else { return packet.len() - 1 };
    let header = Header::parse(packet).unwrap();
    let element = header.extension().unwrap().elements().next().unwrap();
    let extension = header.len() - header.extension().unwrap().data.len();
    extension + element.data.len()
}

#[test]
fn all_schemes_work_with_all_suites_and_placements() {
    for suite in Suite::ALL {
        for scheme in schemes() {
            for placement in PLACEMENTS {
                let about = std::format!("{suite} {scheme:?} {placement:?}");
                let (mut sender, mut receiver) = ends(&policy(suite, scheme, placement));
                // Across a rollover, with gaps, and partly out of order.
                let packets = line(&mut sender, 65_500, 300);
                let order = (0..300).filter(|place| place % 7 != 3).map(|place| place ^ 1);
                for place in order {
                    let (plain, packet) = &packets[place];
                    assert!(packet.len() <= plain.len() + sender.rtp_overhead(), "{about}");
                    let mut packet = packet.clone();
                    let mut forged = packet.clone();
                    let end = tag_end(&packet, placement);
                    forged[end] ^= 1;
                    // A number that was not announced can only be checked by SRTP, which ignores a
                    // tag behind its own.
                    let is_chain = matches!(scheme, Scheme::Chain { .. });
                    let Err(refused) = receiver.unprotect(&mut forged) else {
                        assert!(is_chain, "{about} {place}");
                        continue;
                    };
                    let is_expected = refused == UnprotectError::Plus
                        || is_chain && refused == UnprotectError::Authentication;
                    assert!(is_expected, "{about} {place} {refused}");
                    // A failed expensive check delays the next unknown packets.
                    let opened = (0..1000).find_map(|_| {
                        let mut packet = packet.clone();
                        receiver.unprotect(&mut packet).ok().map(|opened| opened.to_vec())
                    });
                    let opened = opened.unwrap_or_else(|| panic!("{about} {place}"));
                    assert!(opened.ends_with(b"payload"), "{about}");
                    assert_eq!(opened[1..12], plain[1..12], "{about}");
                    let replayed = receiver.unprotect(&mut packet);
                    assert_eq!(replayed, Err(UnprotectError::Replayed), "{about}");
                }
            }
        }
    }
}

#[test]
fn a_receiver_without_srtp_plus_ignores_tags_in_headers() {
    for scheme in [Scheme::SEQUENCE, Scheme::Hash, Scheme::Header] {
        let policy = policy(Suite::AesCm128HmacSha1_80, scheme, Placement::Extension(1));
        let (mut sender, _) = ends(&policy);
        let plain = Policy { plus: None, ..policy };
        let mut receiver = Receiver::new(&plain, vec![key(plain.suite)]).unwrap();
        for (plain, mut packet) in line(&mut sender, 1, 100) {
            let opened = receiver.unprotect(&mut packet).unwrap();
            let opened = rtp::Packet::parse(opened).unwrap();
            assert_eq!(opened.payload, &plain[12..]);
            assert_eq!(opened.header.extension().unwrap().elements().count(), 1);
        }
    }
}

#[test]
fn tags_coexist_with_other_elements() {
    let policy = policy(Suite::AeadAes128Gcm, Scheme::Header, Placement::Extension(3));
    let (mut sender, mut receiver) = ends(&policy);
    let fields =
        |sequence_number| HeaderFields { sequence_number, ssrc: 7, ..HeaderFields::default() };
    for (number, (profile, data)) in [
        (0xbede, &b"\x10a\0\0"[..]),
        (0xbede, &[]),
        (0x1000, b"\x01\x01a\0"),
        (0x1003, b"\x09\0\0\0"),
    ]
    .into_iter()
    .enumerate()
    {
        let mut buffer = [0; 200];
        let extension = Some(extension::Extension { profile, data });
        let length =
            fields(number as u16).write_with(&[5, 6], extension, b"payload", &mut buffer).unwrap();
        let length = sender.protect(&mut buffer, length).unwrap();
        let opened =
            rtp::Packet::parse(receiver.unprotect(&mut buffer[..length]).unwrap()).unwrap();
        assert_eq!(opened.payload, b"payload");
        assert_eq!(opened.header.csrcs().collect::<Vec<_>>(), [5, 6]);
        let ids: Vec<u8> =
            opened.header.extension().unwrap().elements().map(|element| element.id).collect();
        assert_eq!(ids.last(), Some(&3));
        assert_eq!(ids.len(), if data.is_empty() { 1 } else { 2 });
    }
    let mut buffer = [0; 200];
    let other = Some(extension::Extension { profile: 0x2000, data: &[0; 4] });
    let length = fields(9).write_with(&[], other, b"payload", &mut buffer).unwrap();
    let before = buffer;
    assert_eq!(sender.protect(&mut buffer, length), Err(ProtectError::Extension));
    assert_eq!(buffer, before);
}

#[test]
fn a_late_or_interrupted_receiver_resynchronizes() {
    for scheme in schemes() {
        let (mut sender, mut receiver) =
            ends(&policy(Suite::AesCm128HmacSha1_80, scheme, Placement::Trailer));
        let packets = line(&mut sender, 100, 5000);
        // Before an attack every packet is checked.
        for place in [50, 51, 1000, 1001, 4000] {
            assert!(
                receiver.unprotect(&mut packets[place].1.clone()).is_ok(),
                "{scheme:?} {place}"
            );
        }
        // During an attack one of sixteen packets with an unknown tag is checked.
        let mut random = Random::new(1);
        let mut accepted = 0;
        for (_, packet) in &packets[4300..] {
            for _ in 0..10 {
                let (mut forged, length) =
                    rtp_packet(random.number() as u32, random.number() as u16, b"forged payload");
                assert!(receiver.unprotect(&mut forged[..length]).is_err());
                let mut forged = packet.clone();
                forged[2..4].copy_from_slice(&(random.number() as u16).to_be_bytes());
                assert!(receiver.unprotect(&mut forged).is_err());
            }
            accepted += u32::from(receiver.unprotect(&mut packet.clone()).is_ok());
        }
        assert!(accepted > 600, "{scheme:?} {accepted}");
    }
}

#[test]
fn failed_checks_are_rationed() {
    let mut allowance = Allowance::new(1);
    assert!((0..100).all(|_| allowance.is_granted()));
    allowance.note(true);
    let granted = (0..16_000).filter(|_| allowance.is_granted()).count();
    assert!((800..1200).contains(&granted), "{granted}");
    allowance.note(false);
    assert!((0..100).all(|_| allowance.is_granted()));
}

#[test]
fn relayed_packets_get_the_tag_of_the_relay() {
    let policy = policy(Suite::AesCm128HmacSha1_80, Scheme::Header, Placement::Extension(5));
    let (mut sender, mut relay_in) = ends(&policy);
    let keys = vec![MasterKey::new(policy.suite, &[3; 30]).unwrap()];
    let mut relay_out = Sender::new(&policy, keys.clone()).unwrap();
    let mut receiver = Receiver::new(&policy, keys).unwrap();
    for (plain, mut packet) in line(&mut sender, 1, 20) {
        let mut relayed = relay_in.unprotect(&mut packet).unwrap().to_vec();
        let length = relayed.len();
        relayed.resize(length + 100, 0);
        let length = relay_out.protect(&mut relayed, length).unwrap();
        let opened = receiver.unprotect(&mut relayed[..length]).unwrap();
        let opened = rtp::Packet::parse(opened).unwrap();
        assert_eq!(opened.payload, &plain[12..]);
        assert_eq!(opened.header.extension().unwrap().elements().count(), 1);
    }
    // An element of another length, and an unreadable one, cannot hold a tag.
    for data in [b"\x50a\0\0", b"\xf0\0\0\0"] {
        let mut buffer = [0; 100];
        let extension = Some(extension::Extension { profile: 0xbede, data });
        let fields = HeaderFields { ssrc: 9, ..HeaderFields::default() };
        let length = fields.write_with(&[], extension, b"payload", &mut buffer).unwrap();
        assert_eq!(sender.protect(&mut buffer, length), Err(ProtectError::Extension));
    }
}

#[test]
fn a_restarted_sender_is_accepted() {
    for scheme in schemes() {
        let policy = policy(Suite::AesCm128HmacSha1_80, scheme, Placement::Trailer);
        let (mut sender, mut receiver) = ends(&policy);
        for (_, mut packet) in line(&mut sender, 0, 100) {
            assert!(receiver.unprotect(&mut packet).is_ok(), "{scheme:?}");
        }
        let (mut sender, _) = ends(&policy);
        let packets = line(&mut sender, 100, 100);
        // In a chain the announced numbers stay valid. Afterwards the chain is resumed.
        let announced = match scheme {
            Scheme::Chain { numbers, .. } => numbers,
            _ => 0,
        };
        for (_, packet) in &packets[announced..] {
            assert!(receiver.unprotect(&mut packet.clone()).is_ok(), "{scheme:?}");
        }
    }
}

#[test]
fn invalid_parameters_are_rejected() {
    let suite = Suite::AesCm128HmacSha1_80;
    let chain = |numbers, bits| Scheme::Chain { numbers, bits };
    for scheme in [
        Scheme::Sequence { key_bits: 128 },
        Scheme::Sequence { key_bits: 544 },
        Scheme::Sequence { key_bits: 176 },
        chain(0, 4),
        chain(65, 4),
        chain(8, 5),
    ] {
        let policy = policy(suite, scheme, Placement::Trailer);
        let error = Receiver::new(&policy, vec![key(suite)]).unwrap_err();
        assert_eq!(error, PolicyError::Plus(policy.plus.unwrap()));
        assert!(error.to_string().starts_with("SRTP+ with "), "{error}");
    }
    for id in [0, 15] {
        let policy = policy(suite, Scheme::Header, Placement::Extension(id));
        assert!(Sender::new(&policy, vec![key(suite)]).is_err());
    }
    let policy = policy(suite, Scheme::CHAIN, Placement::Trailer);
    let plain = Policy { encrypt_rtp: false, ..policy.clone() };
    assert!(Sender::new(&plain, vec![key(suite)]).is_err());
    let mut sender = Sender::new(&policy, vec![key(suite)]).unwrap();
    let (mut buffer, length) = rtp_packet(7, 1, b"payload");
    assert_eq!(sender.protect(&mut buffer, length), Err(ProtectError::NoSeed));
}

#[test]
fn keys_change_without_loss() {
    for scheme in schemes() {
        let policy = policy(Suite::AeadAes256Gcm, scheme, Placement::Trailer);
        let other = MasterKey::new(policy.suite, &[3; 44]).unwrap().with_mki(&[2]);
        let keys = vec![key(policy.suite).with_mki(&[1]), other];
        let mut sender = Sender::new(&policy, keys.clone()).unwrap().with_seed(&[9; 32]);
        let mut receiver = Receiver::new(&policy, keys).unwrap();
        for round in 0..10 {
            sender.use_key(&[1 + round % 2]).unwrap();
            for (_, mut packet) in line(&mut sender, u16::from(round) * 20, 20) {
                assert!(receiver.unprotect(&mut packet).is_ok(), "{scheme:?} {round}");
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(scheme in proptest::sample::select(schemes()), place: bool, packet: Vec<u8>) {
        let policy = policy(Suite::AesCm128HmacSha1_80, scheme, PLACEMENTS[usize::from(place)]);
        let (mut sender, mut receiver) = ends(&policy);
        let mut packet = packet;
        if packet.len() > 1 {
            packet[0] = 0x80 | packet[0] & 0x3f;
        }
        prop_assert!(receiver.unprotect(&mut packet.clone()).is_err());
        let length = packet.len();
        packet.resize(length + sender.rtp_overhead(), 0);
        if let Ok(length) = sender.protect(&mut packet, length) {
            let (_, mut receiver) = ends(&policy);
            prop_assert!(receiver.unprotect(&mut packet[..length]).is_ok());
        }
    }
}

/// The vectors of `docs/srtp-plus.md`: tags of packets with these indices, with the master key of
/// RFC 3711 appendix B.3.
#[test]
fn tags_match_the_specification() {
    const KEY: &str = "e1f97a0d3e018be0d64fa32c06de41390ec675ad498afeebb6960b3aabe6";
    let bytes = crate::vectors::hex(KEY);
    let suite = Suite::AesCm128HmacSha1_80;
    let vectors: [(Scheme, [&str; 3]); 4] = [
        (Scheme::SEQUENCE, ["4a8b0755", "3ea077fe", "1a97fe4b"]),
        (Scheme::Hash, ["b8271b7c", "e709407d", "e709407d"]),
        (Scheme::Chain { numbers: 32, bits: 8 }, ["d8", "63", "d3"]),
        (Scheme::Header, ["0b33a9d9", "091486bd", "316c16ac"]),
    ];
    for (scheme, expected) in vectors {
        for ((rollover, sequence_number), expected) in
            [(0, 0), (0, 0xbeef), (0x1234_5678, 0xbeef)].into_iter().zip(expected)
        {
            let policy = policy(suite, scheme, Placement::Trailer);
            let keys = vec![MasterKey::new(suite, &bytes).unwrap()];
            let mut sender = Sender::new(&policy, keys).unwrap().with_seed(&[9; 32]);
            sender.add_source(0xcafe_babe, rollover, 0).unwrap();
            let fields = HeaderFields {
                payload_type: 0,
                sequence_number,
                timestamp: 0xdeca_fbad,
                ssrc: 0xcafe_babe,
                marker: false,
            };
            let mut buffer = [0; 300];
            let length = fields.write(b"payload", &mut buffer).unwrap();
            let length = sender.protect(&mut buffer, length).unwrap();
            let tag = &buffer[length - scheme.tag_length()..length];
            assert_eq!(tag, crate::vectors::hex(expected), "{scheme:?}");
        }
    }
}
