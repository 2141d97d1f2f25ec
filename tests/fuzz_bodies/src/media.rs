//! RTP, RTCP, SRTP and session descriptions of strangers.

use rtp::packet::HeaderFields;
use rtp::rtcp::extended::Block;
use rtp::rtcp::{Compound, Packet as Rtcp};
use rtp::{Packet, is_rtcp};
use sdp::{CryptoAttribute, SessionDescription, negotiation};
use srtp::plus::{Placement, Scheme, SrtpPlus};
use srtp::{MasterKey, Policy, Receiver, Sender, Suite, batch};

/// Parses an RTP packet and writes it again.
///
/// # Panics
/// The bytes differ.
pub fn rtp(bytes: &[u8]) {
    let _ = is_rtcp(bytes);
    let Ok(Packet { header, payload }) = Packet::parse(bytes) else { return };
    let fields = HeaderFields {
        marker: header.marker(),
        payload_type: header.payload_type(),
        sequence_number: header.sequence_number(),
        timestamp: header.timestamp(),
        ssrc: header.ssrc(),
    };
    let csrcs: Vec<u32> = header.csrcs().collect();
    let extension = header.extension();
    if let Some(extension) = extension {
        let total: usize = extension.elements().map(|element| element.data.len()).sum();
        assert!(total <= extension.data.len());
    }
    let mut written = vec![0; bytes.len()];
    let length = fields
        .write_with(&csrcs, extension, payload, &mut written)
        .expect("the buffer has room for the packet");
    // Padding is not written.
    written[0] |= bytes[0] & 0x20;
    assert_eq!(written[..length], bytes[..length]);
    assert!(length == bytes.len() || header.has_padding());
}

/// Parses all fields of an RTCP datagram.
pub fn rtcp(bytes: &[u8]) {
    let Ok(compound) = Compound::parse(bytes) else { return };
    let _ = compound.begins_with_report();
    for packet in compound.packets() {
        match packet {
            Rtcp::SenderReport(report) => report.blocks().for_each(drop),
            Rtcp::ReceiverReport(report) => report.blocks().for_each(drop),
            Rtcp::Description(description) => {
                description.chunks().for_each(|chunk| chunk.items().for_each(drop));
            }
            Rtcp::Bye(bye) => bye.sources().for_each(drop),
            Rtcp::ExtendedReport(report) => {
                for block in report.blocks() {
                    if let Block::DelaySinceLastReceiverReport(receivers) = block {
                        receivers.iter().for_each(drop);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The policy selected by the first bytes.
fn policy(choice: u8, plus: u8) -> Policy {
    let schemes = [Scheme::SEQUENCE, Scheme::Hash, Scheme::CHAIN, Scheme::Header];
    let scheme = schemes[usize::from(plus & 3)];
    let placement =
        if plus & 4 == 0 { Placement::Trailer } else { Placement::Extension(plus >> 4 & 7 | 1) };
    let suite = Suite::ALL[usize::from(choice) % Suite::ALL.len()];
    let mut policy = Policy::new(suite);
    policy.plus = (plus & 8 == 0).then_some(SrtpPlus { scheme, placement });
    policy.key_derivation_rate = (choice & 0x80 != 0).then_some(2);
    policy.encrypt_rtcp = choice & 0x40 == 0;
    policy.max_sources = 4;
    policy
}

/// Passes packets, each preceded by its length, to a session: as forged ones, and protected.
///
/// # Panics
/// A forged packet is accepted, a protected one is rejected, or it is accepted twice.
pub fn srtp(bytes: &[u8]) {
    let &[choice, plus, ref rest @ ..] = bytes else { return };
    let policy = policy(choice, plus);
    let length = policy.suite.key_length() + policy.suite.salt_length();
    let key =
        MasterKey::new(policy.suite, &[7; 64][..length]).expect("the key length matches the suite");
    let keys = || vec![key.clone()];
    let mut sender = Sender::new(&policy, keys()).expect("the policy is valid").with_seed(&[1; 32]);
    let mut rest = rest;
    let mut seen = Vec::new();
    while let &[length, ref more @ ..] = rest {
        let (packet, more) = more.split_at(usize::from(length).min(more.len()));
        rest = more;
        seen.push(packet.to_vec());
        // A fresh receiver: after a forged packet SRTP+ may delay others.
        let mut receiver = Receiver::new(&policy, keys()).expect("the policy is valid");
        assert!(receiver.unprotect(&mut packet.to_vec()).is_err());
        assert!(receiver.unprotect_rtcp(&mut packet.to_vec()).is_err());
        let mut receiver = Receiver::new(&policy, keys()).expect("the policy is valid");
        let mut buffer = packet.to_vec();
        buffer.resize(packet.len() + 64, 0);
        let mut for_rtcp = buffer.clone();
        if let Ok(length) = sender.protect(&mut buffer, packet.len()) {
            let index = u16::from_be_bytes([packet[2], packet[3]]);
            let ssrc = u32::from_be_bytes([packet[8], packet[9], packet[10], packet[11]]);
            seen.push(buffer[..length].to_vec());
            // The packet does not contain the rollover counter, which is only known to be 0 for the
            // first.
            if receiver.unprotect(&mut buffer[..length].to_vec()).is_ok() {
                assert!(receiver.unprotect(&mut buffer[..length]).is_err(), "{ssrc} {index}");
            }
        }
        if let Ok(length) = sender.protect_rtcp(&mut for_rtcp, packet.len()) {
            assert!(receiver.unprotect_rtcp(&mut for_rtcp[..length].to_vec()).is_ok());
            assert!(receiver.unprotect_rtcp(&mut for_rtcp[..length]).is_err());
        }
    }
    batches(&policy, &key, &seen);
}

/// Passes packets to one session singly, and to another in batches.
///
/// # Panics
/// The results differ.
fn batches(policy: &Policy, key: &MasterKey, packets: &[Vec<u8>]) {
    let receiver = || Receiver::new(policy, vec![key.clone()]).expect("the policy is valid");
    let (mut one_by_one, mut in_batches) = (receiver(), receiver());
    let mut expected = packets.to_vec();
    let results: Vec<_> = expected
        .iter_mut()
        .map(|packet| one_by_one.unprotect(packet).map(|packet| packet.len()))
        .collect();
    let mut buffers = packets.to_vec();
    let mut batch: Vec<_> = buffers
        .iter_mut()
        .map(|buffer| batch::Packet { session: 0, length: Ok(buffer.len()), buffer })
        .collect();
    batch::unprotect(&mut in_batches, |receiver, _| receiver, &mut batch);
    assert!(batch.iter().map(|packet| packet.length).eq(results));
    assert_eq!(buffers, expected);
}

/// Parses a session description, writes it, and parses it again.
///
/// # Panics
/// The results differ.
pub fn sdp(bytes: &[u8]) {
    let Ok(session) = SessionDescription::parse(bytes) else { return };
    for media in &session.media {
        media.formats().for_each(drop);
        media.rtpmaps().for_each(drop);
        let _ = (media.format_parameters(96), media.packet_time(), media.direction(&session));
        let _ = (session.address(media), media.multiplexes_rtcp());
        for crypto in negotiation::usable_crypto_attributes(media) {
            sdes(crypto.to_string().as_bytes());
        }
    }
    let written = session.to_string();
    assert_eq!(SessionDescription::parse(written.as_bytes()).as_ref(), Ok(&session));
}

/// Parses a crypto attribute, writes it, and parses it again.
///
/// # Panics
/// The results differ.
pub fn sdes(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(crypto) = CryptoAttribute::parse(text) else { return };
    let again =
        CryptoAttribute::parse(&crypto.to_string()).expect("the written attribute is valid");
    assert_eq!((again.tag, &again.policy), (crypto.tag, &crypto.policy));
    assert_eq!(again.keys.len(), crypto.keys.len());
    for (again, key) in again.keys.iter().zip(&crypto.keys) {
        assert_eq!(
            (&again.bytes, &again.mki, again.lifetime),
            (&key.bytes, &key.mki, key.lifetime)
        );
    }
}
