//! All suites of libsrtp, in both directions: equal bytes for equal packets, and the same packets
//! accepted under loss, reordering, duplication, damage, rollover and changes of source.

use barebell_srtp::plus::{Placement, Scheme, SrtpPlus};
use barebell_srtp::{MasterKey, Policy, Receiver, Sender, Suite, UnprotectError};
use libsrtp::{Cipher, Direction, Key, Session, Status};
use rtp::packet::HeaderFields;
use std::collections::BTreeMap;
use test_support::Random;

/// The number of packets in each of the 35 runs.
const PACKETS: u64 = 100_000;

/// The equivalent policy of libsrtp.
fn theirs(policy: &Policy, keys: &[Key]) -> libsrtp::Policy {
    let key_length = policy.suite.key_length();
    libsrtp::Policy {
        cipher: match policy.suite.is_aead() {
            true => Cipher::AesGcm(key_length),
            false => Cipher::AesCm(key_length),
        },
        rtp_tag: policy.suite.rtp_tag_length(),
        encrypt_rtp: policy.encrypt_rtp,
        encrypt_rtcp: policy.encrypt_rtcp,
        authenticate_rtp: policy.authenticate_rtp,
        window: usize::try_from(policy.replay_window).unwrap(),
        keys: keys.to_vec(),
    }
}

/// All policies that both implementations support, with one key and with two keys with MKIs.
fn policies() -> Vec<(Policy, Vec<Key>)> {
    let mut policies = Vec::new();
    for suite in Suite::ALL {
        // libsrtp has no f8 mode, and before 2.8 no key derivation of AES-192.
        let is_known = suite != Suite::F8128HmacSha1_80
            && (suite.key_length() != 24 || libsrtp::derives_aes_192_keys());
        if !is_known {
            continue;
        }
        let length = suite.key_length() + suite.salt_length();
        let mut random = Random::new(length as u64);
        let mut key = |mki: &[u8]| Key {
            bytes: (0..length).map(|_| random.number() as u8).collect(),
            mki: mki.to_vec(),
        };
        let mut whole = Policy::new(suite);
        whole.max_sources = 1000;
        let but = |change: fn(&mut Policy)| {
            let mut policy = whole.clone();
            change(&mut policy);
            policy
        };
        policies.push((whole.clone(), vec![key(&[])]));
        let two = vec![key(&[0xe1, 0xf9]), key(&[0xe1, 0xfa])];
        policies.push((but(|policy| policy.replay_window = 1024), two));
        policies.push((but(|policy| policy.encrypt_rtcp = false), vec![key(&[])]));
        if !suite.is_aead() {
            policies.push((but(|policy| policy.encrypt_rtp = false), vec![key(&[])]));
        }
        if suite == Suite::AesCm128HmacSha1_80 {
            policies.push((but(|policy| policy.authenticate_rtp = false), vec![key(&[])]));
        }
    }
    policies
}

struct Ends {
    our_sender: Sender,
    our_receiver: Receiver,
    their_sender: Session,
    their_receiver: Session,
    mkis: Vec<Vec<u8>>,
}

fn ends(policy: &Policy, keys: &[Key]) -> Ends {
    let ours = || -> Vec<MasterKey> {
        let key = |key: &Key| MasterKey::new(policy.suite, &key.bytes).unwrap().with_mki(&key.mki);
        keys.iter().map(key).collect()
    };
    let theirs = theirs(policy, keys);
    Ends {
        our_sender: Sender::new(policy, ours()).unwrap(),
        our_receiver: Receiver::new(policy, ours()).unwrap(),
        their_sender: Session::new(&theirs, Direction::Send),
        their_receiver: Session::new(&theirs, Direction::Receive),
        mkis: keys.iter().map(|key| key.mki.clone()).collect(),
    }
}

/// A packet of random length, header and payload, in a buffer with room for both implementations.
fn random_packet(random: &mut Random, fields: &HeaderFields) -> (Vec<u8>, usize) {
    let mut buffer = vec![0; 2000];
    let payload: Vec<u8> = (0..random.below(400)).map(|_| random.number() as u8).collect();
    let csrcs: Vec<u32> = (0..random.below(4)).map(|_| random.number() as u32).collect();
    let data = [7; 16];
    let extension = random.chance(300).then(|| rtp::extension::Extension {
        profile: 0xbede,
        data: &data[..4 * random.below(4) as usize],
    });
    let length = fields.write_with(&csrcs, extension, &payload, &mut buffer).unwrap();
    (buffer, length)
}

/// Simulates a network for a stream of packets: loss, reordering, duplication and damage.
fn disturb(
    random: &mut Random,
    packet: Vec<u8>,
    held: &mut BTreeMap<u64, Vec<u8>>,
    now: u64,
) -> Vec<Vec<u8>> {
    let mut arrive = Vec::new();
    match random.below(100) {
        0..3 => {}
        3..10 => {
            held.insert((now + random.below(200)) << 8 | random.below(256), packet);
        }
        10..13 => {
            held.insert((now + random.below(200)) << 8 | random.below(256), packet.clone());
            arrive.push(packet);
        }
        13..16 => {
            let mut damaged = packet.clone();
            let bit = random.below(8 * damaged.len() as u64) as usize;
            damaged[bit / 8] ^= 1 << (bit % 8);
            arrive.extend([damaged, packet]);
        }
        _ => arrive.push(packet),
    }
    while let Some(first) = held.first_entry().filter(|first| *first.key() >> 8 <= now) {
        arrive.push(first.remove());
    }
    arrive
}

/// Asserts that both receivers return the same result for a packet.
fn compare(
    ours: Result<&mut [u8], UnprotectError>,
    theirs: Result<usize, Status>,
    packet: &[u8],
    about: &str,
) {
    match (ours, theirs) {
        (Ok(ours), Ok(length)) => assert_eq!(ours, &packet[..length], "{about}"),
        (
            Err(UnprotectError::Replayed | UnprotectError::TooOld),
            Err(Status::REPLAYED | Status::TOO_OLD),
        ) => {}
        // The two receivers may detect the errors of a damaged packet in different order.
        (Err(ours), Err(theirs)) => assert!(
            ours != UnprotectError::Replayed && theirs != Status::REPLAYED
                || matches!(theirs, Status::AUTHENTICATION | Status::TOO_OLD),
            "{about}: {ours:?}, {theirs:?}"
        ),
        (ours, theirs) => panic!("{about}: {ours:?}, theirs {theirs:?}"),
    }
}

#[test]
fn rtp_is_equal_in_both_directions() {
    for (policy, keys) in policies() {
        let about = format!("{policy:?}");
        let mut ends = ends(&policy, &keys);
        let mut random = Random::new(5);
        let mut held = BTreeMap::new();
        let mut ssrc = 1;
        let mut sequence_number = 65_000_u16;
        let mut accepted = 0;
        for now in 0..PACKETS {
            if random.below(20_000) == 0 {
                ssrc += 1;
                sequence_number = random.below(1 << 15) as u16;
            }
            sequence_number = sequence_number.wrapping_add(1);
            let timestamp = random.number() as u32;
            let fields = HeaderFields {
                marker: now % 7 == 0,
                payload_type: 96,
                sequence_number,
                timestamp,
                ssrc,
            };
            let (mut ours, length) = random_packet(&mut random, &fields);
            let mut theirs = ours.clone();
            let key = random.below(keys.len() as u64) as u32;
            ends.our_sender.use_key(&ends.mkis[key as usize]).unwrap();
            let our_length = ends.our_sender.protect(&mut ours, length).unwrap();
            let their_length = ends.their_sender.protect(&mut theirs, length, key).unwrap();
            assert_eq!(ours[..our_length], theirs[..their_length], "{about}");
            ours.truncate(our_length);

            for packet in disturb(&mut random, ours, &mut held, now) {
                let (mut for_us, mut for_them) = (packet.clone(), packet);
                let theirs = ends.their_receiver.unprotect(&mut for_them);
                let ours = ends.our_receiver.unprotect(&mut for_us);
                // Without tags damage is undetected and may move the windows differently.
                if policy.authenticate_rtp {
                    accepted += u64::from(ours.is_ok());
                    compare(ours, theirs, &for_them, &about);
                } else {
                    accepted += 1;
                }
            }
        }
        assert!(accepted > PACKETS * 9 / 10, "{about}: {accepted}");
    }
}

#[test]
fn rtcp_is_equal_in_both_directions() {
    for (policy, keys) in policies() {
        let about = format!("{policy:?}");
        let mut ends = ends(&policy, &keys);
        let mut random = Random::new(6);
        let mut held = BTreeMap::new();
        let mut accepted = 0;
        for now in 0..PACKETS / 10 {
            let ssrc = 1 + (now / 4000) as u32;
            if now % 4000 == 0 {
                // The first index of libsrtp is 1, that of RFC 3711 is 0.
                ends.our_sender.add_source(ssrc, 0, 1).unwrap();
            }
            let mut ours = vec![0x80, 201, 0, 1];
            ours.extend(ssrc.to_be_bytes());
            ours.extend((0..4 * random.below(40)).map(|_| random.number() as u8));
            let length = ours.len();
            ours.resize(2000, 0);
            let mut theirs = ours.clone();
            let key = random.below(keys.len() as u64) as u32;
            ends.our_sender.use_key(&ends.mkis[key as usize]).unwrap();
            let our_length = ends.our_sender.protect_rtcp(&mut ours, length).unwrap();
            let their_length = ends.their_sender.protect_rtcp(&mut theirs, length, key).unwrap();
            assert_eq!(ours[..our_length], theirs[..their_length], "{about}");
            ours.truncate(our_length);

            for packet in disturb(&mut random, ours, &mut held, now) {
                let (mut for_us, mut for_them) = (packet.clone(), packet);
                let theirs = ends.their_receiver.unprotect_rtcp(&mut for_them);
                let ours = ends.our_receiver.unprotect_rtcp(&mut for_us);
                accepted += u64::from(ours.is_ok());
                // The RTCP replay window of libsrtp always has 128 entries.
                if policy.replay_window == 128 {
                    compare(ours, theirs, &for_them, &about);
                }
            }
        }
        assert!(accepted > PACKETS / 10 * 9 / 10, "{about}: {accepted}");
    }
}

#[test]
fn libsrtp_accepts_packets_with_srtp_plus_tags_in_headers() {
    for (policy, keys) in policies() {
        let mut plain = ends(&policy, &keys);
        for scheme in [Scheme::SEQUENCE, Scheme::Hash, Scheme::Header] {
            let mut policy = policy.clone();
            policy.plus = Some(SrtpPlus { scheme, placement: Placement::Extension(4) });
            let mut ends = ends(&policy, &keys);
            for sequence_number in 0..200 {
                let fields = HeaderFields {
                    sequence_number,
                    ssrc: scheme.tag_length() as u32,
                    ..HeaderFields::default()
                };
                let mut buffer = vec![0; 600];
                let length = fields.write(b"a payload", &mut buffer).unwrap();
                let length = ends.our_sender.protect(&mut buffer, length).unwrap();
                let mut for_us = buffer[..length].to_vec();
                let opened = ends.their_receiver.unprotect(&mut buffer[..length]).unwrap();
                let theirs = rtp::Packet::parse(&buffer[..opened]).unwrap();
                assert_eq!(theirs.payload, b"a payload");
                let element = theirs.header.extension().unwrap().elements().next().unwrap();
                assert_eq!((element.id, element.data.len()), (4, 4));
                let ours = ends.our_receiver.unprotect(&mut for_us).unwrap();
                assert_eq!(ours, &buffer[..opened]);

                // Packets of libsrtp have no SRTP+ tag: a receiver with SRTP+ rejects them, one
                // without accepts them.
                let mut theirs = vec![0; 600];
                let length = fields.write(b"a payload", &mut theirs).unwrap();
                let length = ends.their_sender.protect(&mut theirs, length, 0).unwrap();
                let refused =
                    ends.our_receiver.unprotect(&mut theirs[..length].to_vec()).unwrap_err();
                assert_eq!(refused, UnprotectError::Plus);
                if scheme == Scheme::Header {
                    plain.our_receiver.unprotect(&mut theirs[..length]).unwrap();
                }
            }
        }
    }
}
