//! Sender and receiver together, and the packets of RFC 7714 and libsrtp.

use crate::crypto::{Gcm, HmacSha1};
use crate::transform::{INDEX, Transform};
use crate::vectors::{self, hex};
use crate::*;
use proptest::prelude::*;
use rtp::packet::HeaderFields;
use std::collections::BTreeSet;
use std::string::ToString;
use std::vec;
use std::vec::Vec;
use zeroize::Zeroizing;

pub(crate) fn key(suite: Suite) -> MasterKey {
    let bytes: Vec<u8> = (1..).take(suite.key_length() + suite.salt_length()).collect();
    MasterKey::new(suite, &bytes).unwrap()
}

fn ends(policy: &Policy) -> (Sender, Receiver) {
    let keys = vec![key(policy.suite)];
    (Sender::new(policy, keys.clone()).unwrap(), Receiver::new(policy, keys).unwrap())
}

/// A packet of a source, with spare room in the buffer.
pub(crate) fn rtp_packet(ssrc: u32, sequence_number: u16, payload: &[u8]) -> (Vec<u8>, usize) {
    let mut buffer = vec![0; 12 + payload.len() + 200];
    let timestamp = u32::from(sequence_number) * 160;
    let fields = HeaderFields { sequence_number, timestamp, ssrc, ..HeaderFields::default() };
    let length = fields.write(payload, &mut buffer).unwrap();
    (buffer, length)
}

/// A protected packet.
fn protected(sender: &mut Sender, ssrc: u32, sequence_number: u16, payload: &[u8]) -> Vec<u8> {
    let (mut buffer, length) = rtp_packet(ssrc, sequence_number, payload);
    let length = sender.protect(&mut buffer, length).unwrap();
    buffer.truncate(length);
    buffer
}

/// A receiver report without blocks, followed by arbitrary bytes.
fn rtcp_packet(ssrc: u32, more: &[u8]) -> (Vec<u8>, usize) {
    let mut packet = vec![0x80, 201, 0, 1];
    packet.extend(ssrc.to_be_bytes());
    packet.extend(more);
    let length = packet.len();
    packet.resize(length + 200, 0);
    (packet, length)
}

fn protected_rtcp(sender: &mut Sender, ssrc: u32, more: &[u8]) -> Vec<u8> {
    let (mut buffer, length) = rtcp_packet(ssrc, more);
    let length = sender.protect_rtcp(&mut buffer, length).unwrap();
    buffer.truncate(length);
    buffer
}

#[test]
fn packets_equal_those_of_libsrtp() {
    for (suite, key, plain, srtp) in vectors::PACKETS {
        let [key, plain, mut srtp] = [key, plain, srtp].map(hex);
        let policy = Policy::new(suite);
        let keys = || vec![MasterKey::new(suite, &key).unwrap()];
        let mut buffer = plain.clone();
        buffer.resize(srtp.len(), 0);
        let mut sender = Sender::new(&policy, keys()).unwrap();
        assert_eq!(sender.protect(&mut buffer, plain.len()), Ok(srtp.len()), "{suite}");
        assert_eq!(buffer, srtp, "{suite}");
        let mut receiver = Receiver::new(&policy, keys()).unwrap();
        assert_eq!(receiver.unprotect(&mut srtp).unwrap(), plain, "{suite}");
    }
}

#[test]
fn packets_equal_those_of_rfc_7714() {
    let salt = u128::from_str_radix(vectors::GCM_SALT, 16).unwrap();
    for vector in &vectors::GCM {
        let mut transform = Transform::Gcm(Zeroizing::new(salt), Gcm::new(&hex(vector.key)));
        let (plain, sealed) = (hex(vector.rtp), hex(vector.srtp));
        let index = u64::from(u16::from_be_bytes([plain[2], plain[3]]));
        let mut packet = plain.clone();
        let mut tag = [0; 16];
        assert!(transform.encrypt_rtp(&mut packet, 12, index, &mut tag).is_none());
        assert_eq!([&packet[..], &tag].concat(), sealed);
        let code = |_: &HmacSha1, _: &[u8], _| unreachable!("AES-GCM needs no HMAC");
        assert!(transform.unprotect_rtp(&mut packet, 12, index, &tag, &mut (), code));
        assert_eq!(packet, plain);

        let (plain, index) = (hex(vector.rtcp), vectors::GCM_RTCP_INDEX);
        for (sealed, word) in
            [(vector.encrypted_rtcp, index | 1 << 31), (vector.tagged_rtcp, index)]
        {
            let sealed = hex(sealed);
            let mut buffer = plain.clone();
            buffer.resize(sealed.len(), 0);
            transform.protect_rtcp(&mut buffer, plain.len(), word, 0);
            assert_eq!(buffer, sealed, "{word:x}");
            let tag = sealed[plain.len()..][..16].to_vec();
            assert!(transform.unprotect_rtcp(&mut buffer, plain.len(), word, &tag));
            assert_eq!(buffer[..plain.len()], plain, "{word:x}");
        }
    }
}

#[test]
fn indices_roll_over_and_are_exhausted() {
    for suite in Suite::ALL {
        let policy = Policy::new(suite);
        let (mut sender, mut receiver) = ends(&policy);
        for sequence_number in [0xfffe, 0xffff, 0, 1] {
            let mut packet = protected(&mut sender, 7, sequence_number, b"payload");
            assert!(receiver.unprotect(&mut packet).is_ok(), "{suite} {sequence_number}");
        }
        // A receiver that joins later needs the rollover counter.
        let packet = protected(&mut sender, 7, 2, b"payload");
        let (_, mut late) = ends(&policy);
        let refused = Err(UnprotectError::Authentication);
        assert_eq!(late.unprotect(&mut packet.clone()), refused, "{suite}");
        late.add_source(7, 1).unwrap();
        assert!(late.unprotect(&mut packet.clone()).is_ok(), "{suite}");

        sender.add_source(7, u32::MAX, 0).unwrap();
        receiver.add_source(7, u32::MAX).unwrap();
        let mut last = protected(&mut sender, 7, u16::MAX, b"payload");
        assert!(receiver.unprotect(&mut last).is_ok(), "{suite}");
        let (mut buffer, length) = rtp_packet(7, 0, b"payload");
        assert_eq!(sender.protect(&mut buffer, length), Err(ProtectError::KeyExhausted));
        assert_eq!(receiver.unprotect(&mut buffer), Err(UnprotectError::TooOld));

        sender.add_source(7, 0, (1 << 31) - 1).unwrap();
        let mut last = protected_rtcp(&mut sender, 7, b"");
        assert!(receiver.unprotect_rtcp(&mut last).is_ok(), "{suite}");
        let (mut buffer, length) = rtcp_packet(7, b"");
        assert_eq!(sender.protect_rtcp(&mut buffer, length), Err(ProtectError::KeyExhausted));
        assert_eq!(sender.add_source(7, 0, (1 << 31) + 1), Err(ProtectError::KeyExhausted));
    }
}

#[test]
fn no_index_is_used_twice() {
    let (mut sender, _) = ends(&Policy::new(Suite::AesCm128HmacSha1_80));
    protected(&mut sender, 7, 100, b"one");
    protected(&mut sender, 7, 102, b"three");
    protected(&mut sender, 7, 101, b"two");
    for sequence_number in [100, 101, 102] {
        let (mut buffer, length) = rtp_packet(7, sequence_number, b"other");
        let before = buffer.clone();
        assert_eq!(sender.protect(&mut buffer, length), Err(ProtectError::IndexReused));
        assert_eq!(buffer, before);
    }
    protected(&mut sender, 8, 100, b"of another source");
    protected(&mut sender, 7, 102 + 128, b"later");
    let (mut buffer, length) = rtp_packet(7, 99, b"too old to know");
    assert_eq!(sender.protect(&mut buffer, length), Err(ProtectError::IndexReused));
}

#[test]
fn keys_change_by_mki() {
    for suite in Suite::ALL {
        let policy = Policy::new(suite);
        let other = [9; 64];
        let other = &other[..suite.key_length() + suite.salt_length()];
        let keys = vec![
            key(suite).with_mki(&[0, 1]),
            MasterKey::new(suite, other).unwrap().with_mki(&[0, 2]).with_lifetime(1),
        ];
        let mut sender = Sender::new(&policy, keys.clone()).unwrap();
        let mut receiver = Receiver::new(&policy, keys).unwrap();
        let first = protected(&mut sender, 7, 1, b"payload");
        sender.use_key(&[0, 2]).unwrap();
        let second = protected(&mut sender, 7, 2, b"payload");
        let rtcp = protected_rtcp(&mut sender, 7, b"report");
        let (mut buffer, length) = rtp_packet(7, 3, b"payload");
        assert_eq!(sender.protect(&mut buffer, length), Err(ProtectError::KeyExhausted));
        assert_eq!(sender.use_key(&[0, 3]), Err(ProtectError::UnknownMki));
        sender.use_key(&[0, 1]).unwrap();
        let third = protected(&mut sender, 7, 3, b"payload");

        // The order of keys does not matter to a receiver.
        for packet in [&third, &first, &second] {
            assert!(receiver.unprotect(&mut packet.clone()).is_ok(), "{suite}");
        }
        assert!(receiver.unprotect_rtcp(&mut rtcp.clone()).is_ok(), "{suite}");
        let mut unknown = protected(&mut sender, 7, 4, b"payload");
        let end = unknown.len() - if suite.is_aead() { 0 } else { policy.rtp_tag_length() };
        assert_eq!(unknown[end - 2..end], [0, 1], "{suite}");
        unknown[end - 1] = 7;
        assert_eq!(receiver.unprotect(&mut unknown), Err(UnprotectError::UnknownMki), "{suite}");
    }
}

#[test]
fn sources_are_limited() {
    let policy = Policy { max_sources: 2, ..Policy::new(Suite::AeadAes128Gcm) };
    let (mut sender, mut receiver) = ends(&policy);
    let (mut others, _) = ends(&policy);
    for ssrc in [1, 2] {
        assert!(receiver.unprotect(&mut protected(&mut sender, ssrc, 1, b"payload")).is_ok());
    }
    let (mut buffer, length) = rtp_packet(3, 1, b"payload");
    assert_eq!(sender.protect(&mut buffer, length), Err(ProtectError::TooManySources));
    let third = protected(&mut others, 3, 1, b"payload");
    let report = protected_rtcp(&mut others, 3, b"");
    let refused = Err(UnprotectError::TooManySources);
    assert_eq!(receiver.unprotect(&mut third.clone()), refused);
    assert_eq!(receiver.unprotect_rtcp(&mut report.clone()), refused);
    assert_eq!(receiver.add_source(3, 0), Err(UnprotectError::TooManySources));
    assert!(receiver.remove_source(1) && !receiver.remove_source(1));
    assert!(receiver.unprotect(&mut third.clone()).is_ok());
}

#[test]
fn rtcp_state_survives_a_reset_of_the_rollover_counter() {
    let (mut sender, mut receiver) = ends(&Policy::new(Suite::AeadAes128Gcm));
    let report = protected_rtcp(&mut sender, 7, b"");
    assert!(receiver.unprotect_rtcp(&mut report.clone()).is_ok());
    receiver.add_source(7, 1).unwrap();
    assert_eq!(receiver.unprotect_rtcp(&mut report.clone()), Err(UnprotectError::Replayed));
    assert_eq!(receiver.sources().collect::<Vec<_>>(), [7]);
}

#[test]
fn forged_packets_create_no_sources() {
    let policy = Policy { max_sources: 2, ..Policy::new(Suite::AesCm128HmacSha1_32) };
    let (mut sender, mut receiver) = ends(&policy);
    for ssrc in 0..100 {
        let (mut forged, length) = rtp_packet(ssrc, 1, b"payload of a forged packet");
        let refused = receiver.unprotect(&mut forged[..length]);
        assert_eq!(refused, Err(UnprotectError::Authentication));
    }
    assert!(receiver.unprotect(&mut protected(&mut sender, 100, 1, b"payload")).is_ok());
}

#[test]
fn disabled_protection_is_omitted() {
    let suite = Suite::AesCm128HmacSha1_80;
    let plain = Policy { encrypt_rtp: false, encrypt_rtcp: false, ..Policy::new(suite) };
    let (mut sender, mut receiver) = ends(&plain);
    let packet = protected(&mut sender, 7, 1, b"payload");
    assert_eq!(packet[12..19], *b"payload");
    assert!(receiver.unprotect(&mut packet.clone()).is_ok());
    let report = protected_rtcp(&mut sender, 7, b"report!!");
    assert_eq!(report[8..16], *b"report!!");
    assert_eq!(receiver.unprotect_rtcp(&mut report.clone()).unwrap(), &report[..16]);

    let bare = Policy { authenticate_rtp: false, ..Policy::new(suite) };
    let (mut sender, mut receiver) = ends(&bare);
    let packet = protected(&mut sender, 7, 1, b"payload");
    assert_eq!(packet.len(), 19);
    assert_eq!(receiver.unprotect(&mut packet.clone()).unwrap()[12..], *b"payload");
    // Without authentication, forged packets do not block authentic ones.
    assert!(receiver.unprotect(&mut rtp_packet(7, 30_000, b"forged").0).is_ok());
    let packet = protected(&mut sender, 7, 2, b"payload");
    assert!(receiver.unprotect(&mut packet.clone()).is_ok());

    for policy in [plain, bare] {
        let policy = Policy { suite: Suite::AeadAes128Gcm, ..policy };
        let refused = Sender::new(&policy, vec![key(policy.suite)]).unwrap_err();
        assert_eq!(refused, PolicyError::Aead(policy.suite));
    }
    let unencrypted = Policy { encrypt_rtcp: false, ..Policy::new(Suite::AeadAes256Gcm) };
    let (mut sender, mut receiver) = ends(&unencrypted);
    let report = protected_rtcp(&mut sender, 7, b"report!!");
    assert_eq!(report[8..16], *b"report!!");
    assert_eq!(receiver.unprotect_rtcp(&mut report.clone()).unwrap(), &report[..16]);
}

#[test]
fn inconsistent_parameters_are_rejected() {
    let suite = Suite::AesCm128HmacSha1_80;
    let policy = Policy::new(suite);
    let refused = |policy: &Policy, keys: Vec<MasterKey>| Sender::new(policy, keys).unwrap_err();
    assert_eq!(refused(&policy, vec![]), PolicyError::NoKey);
    let other = Suite::AeadAes128Gcm;
    assert_eq!(refused(&policy, vec![key(other)]), PolicyError::SuiteMismatch(other));
    for keys in [
        vec![key(suite), key(suite)],
        vec![key(suite).with_mki(&[1]), key(suite).with_mki(&[1])],
        vec![key(suite).with_mki(&[1]), key(suite).with_mki(&[1, 2])],
        vec![key(suite).with_mki(&[0; 129])],
    ] {
        assert_eq!(refused(&policy, keys), PolicyError::Mki);
    }
    let rate = Policy { key_derivation_rate: Some(25), ..policy.clone() };
    assert_eq!(refused(&rate, vec![key(suite)]), PolicyError::KeyDerivationRate(25));
    let window = Policy { replay_window: 63, ..policy };
    let error = refused(&window, vec![key(suite)]);
    assert_eq!(error.to_string(), "replay window of 63 packets, expected 64 to 32768");
}

#[test]
fn short_buffers_are_rejected() {
    let (mut sender, _) = ends(&Policy::new(Suite::AesCm128HmacSha1_80));
    let (buffer, length) = rtp_packet(7, 1, b"payload");
    let mut buffer = buffer[..length + 9].to_vec();
    let before = buffer.clone();
    let error = ProtectError::BufferTooShort { needed: length + 10 };
    assert_eq!(sender.protect(&mut buffer, length), Err(error));
    assert_eq!(
        sender.protect_rtcp(&mut buffer[..20], 12),
        Err(ProtectError::BufferTooShort { needed: 26 })
    );
    assert_eq!(buffer, before);
    assert!(matches!(sender.protect(&mut [0x80; 100], 11), Err(ProtectError::Rtp(_))));
    assert_eq!(sender.protect(&mut [0x80; 100], usize::MAX), Err(ProtectError::TooLong));
    assert_eq!(sender.protect_rtcp(&mut [0x80; 100], usize::MAX), Err(ProtectError::TooLong));
    assert_eq!(sender.protect_rtcp(&mut [0x80; 100], 7), Err(ProtectError::Rtcp));
    assert_eq!(sender.protect_rtcp(&mut [0; 100], 12), Err(ProtectError::Rtcp));
}

pub(crate) fn policies() -> impl Strategy<Value = (Policy, Vec<u8>)> {
    let rate = prop_oneof![3 => Just(None), 1 => (0u32..6).prop_map(Some)];
    let mki = prop_oneof![3 => Just(vec![]), 1 => proptest::collection::vec(any::<u8>(), 1..=4)];
    let suite = proptest::sample::select(&Suite::ALL[..]);
    let choices = (suite, rate, mki, any::<[bool; 3]>(), 64u64..300);
    choices.prop_map(|(suite, key_derivation_rate, mki, encrypt, replay_window)| {
        let [rtp, rtcp, both] = encrypt;
        let policy = Policy {
            suite,
            encrypt_rtp: rtp || both || suite.is_aead(),
            encrypt_rtcp: rtcp || both,
            key_derivation_rate,
            replay_window,
            ..Policy::new(suite)
        };
        (policy, mki)
    })
}

fn ends_with_mki((policy, mki): &(Policy, Vec<u8>)) -> (Sender, Receiver) {
    let keys = vec![key(policy.suite).with_mki(mki)];
    (Sender::new(policy, keys.clone()).unwrap(), Receiver::new(policy, keys).unwrap())
}

proptest! {
    #[test]
    fn protected_packets_are_unprotected(
        policy in policies(),
        rollover: u32,
        packets in proptest::collection::vec((0u32..3, 0u16..200, any::<Vec<u8>>()), 1..50),
        start: u16,
    ) {
        let (mut sender, mut receiver) = ends_with_mki(&policy);
        let rollover = rollover.min(u32::MAX - 2);
        for ssrc in 0..3 {
            sender.add_source(ssrc, rollover, 0).unwrap();
            receiver.add_source(ssrc, rollover).unwrap();
        }
        let mut next = [start; 3];
        for (ssrc, step, payload) in packets {
            let sequence_number = &mut next[ssrc as usize];
            let (mut buffer, length) = rtp_packet(ssrc, *sequence_number, &payload);
            *sequence_number = sequence_number.wrapping_add(step + 1);
            let plain = buffer[..length].to_vec();
            let length = sender.protect(&mut buffer, length).unwrap();
            prop_assert_eq!(length, plain.len() + sender.rtp_overhead());
            prop_assert!(!policy.0.encrypt_rtp || payload.len() < 8 || buffer[12..].iter().ne(&payload));
            prop_assert_eq!(receiver.unprotect(&mut buffer[..length]).unwrap(), &plain);
            prop_assert!(receiver.unprotect(&mut buffer[..length]).is_err());

            let (mut buffer, length) = rtcp_packet(ssrc, &payload);
            let plain = buffer[..length].to_vec();
            let length = sender.protect_rtcp(&mut buffer, length).unwrap();
            prop_assert_eq!(length, plain.len() + sender.rtcp_overhead());
            prop_assert_eq!(receiver.unprotect_rtcp(&mut buffer[..length]).unwrap(), &plain);
            prop_assert!(receiver.unprotect_rtcp(&mut buffer[..length]).is_err());
        }
    }

    #[test]
    fn any_flipped_bit_is_rejected_and_leaves_the_packet_unchanged(policy in policies(), payload: Vec<u8>, bits: [u16; 8]) {
        let (mut sender, mut receiver) = ends_with_mki(&policy);
        let packet = protected(&mut sender, 7, 1, &payload);
        let report = protected_rtcp(&mut sender, 7, &payload);
        for bit in bits {
            let flip = |packet: &[u8]| {
                let bit = usize::from(bit) % (8 * packet.len());
                let mut flipped = packet.to_vec();
                flipped[bit / 8] ^= 1 << (bit % 8);
                flipped
            };
            let (mut flipped, mut flipped_report) = (flip(&packet), flip(&report));
            prop_assert!(receiver.unprotect(&mut flipped).is_err());
            prop_assert!(receiver.unprotect_rtcp(&mut flipped_report).is_err());
            prop_assert_eq!((flipped, flipped_report), (flip(&packet), flip(&report)));
        }
        prop_assert!(receiver.unprotect(&mut packet.clone()).is_ok());
        prop_assert!(receiver.unprotect_rtcp(&mut report.clone()).is_ok());
    }

    #[test]
    fn replays_are_rejected_and_packets_in_the_window_are_accepted(
        policy in policies(),
        start: u16,
        order in proptest::collection::vec(0usize..400, 1..600),
    ) {
        // Packets in any order, some repeatedly, some never. Forged packets in between change
        // nothing.
        let (mut sender, mut receiver) = ends_with_mki(&policy);
        sender.add_source(7, 5, 0).unwrap();
        receiver.add_source(7, 5).unwrap();
        let packets: Vec<_> =
            (0..400).map(|count| protected(&mut sender, 7, start.wrapping_add(count), b"payload")).collect();
        let mut taken = BTreeSet::new();
        // The first packet determines the rollover counter.
        receiver.unprotect(&mut packets[0].clone()).unwrap();
        taken.insert(0);
        for place in order {
            let mut forged = packets[place].clone();
            *forged.last_mut().unwrap() ^= 1;
            forged[12] ^= 1;
            prop_assert!(receiver.unprotect(&mut forged).is_err());
            let newest = *taken.last().unwrap();
            let expected = place + policy.0.replay_window as usize > newest && taken.insert(place);
            let result = receiver.unprotect(&mut packets[place].clone()).map(|_| ());
            prop_assert_eq!(result.is_ok(), expected, "{:?}", result);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(policy in policies(), packet: Vec<u8>, begin: bool) {
        let (mut sender, mut receiver) = ends_with_mki(&policy);
        let mut packet = packet;
        if begin && packet.len() > 1 {
            packet[0] = 0x80 | packet[0] & 0x3f;
        }
        prop_assert!(receiver.unprotect(&mut packet.clone()).is_err());
        prop_assert!(receiver.unprotect_rtcp(&mut packet.clone()).is_err());
        let length = packet.len();
        packet.resize(length + INDEX + 20, 0);
        let _ = sender.protect(&mut packet.clone(), length);
        let _ = sender.protect_rtcp(&mut packet, length);
    }
}
