//! Batch processing of the packets of many sessions, for relays and load generators.
//!
//! HMAC-SHA1 takes most of the time of SRTP. Its rounds depend on one another within a packet, but
//! packets are independent: with AVX-512, sixteen packets are hashed in the time of seven. A batch
//! saves no time without AVX-512, with AES-GCM, or if fewer than eight of sixteen packets need an
//! HMAC; nor in a receiver with SRTP+ or a key derivation rate, or for the first packet of a new
//! source. In these cases a receiver is slightly slower than without a batch.
//!
//! ```
//! use barebell_srtp::batch::{self, Packet};
//! use barebell_srtp::{MasterKey, Policy, Sender, Suite};
//!
//! let policy = Policy::new(Suite::AesCm128HmacSha1_80);
//! let sender = |number: u8| {
//!     let key = MasterKey::new(policy.suite, &[number; 30])?;
//!     Sender::new(&policy, vec![key])
//! };
//! let mut senders = [sender(0)?, sender(1)?];
//!
//! let mut buffers = [[0; 200]; 2];
//! let fields = barebell_srtp::rtp::packet::HeaderFields { ssrc: 1, ..Default::default() };
//! let mut packets: Vec<_> = buffers
//!     .iter_mut()
//!     .enumerate()
//!     .map(|(session, buffer)| {
//!         let length = fields.write(b"hello", buffer).unwrap();
//!         Packet { session, buffer, length: Ok(length) }
//!     })
//!     .collect();
//! batch::protect(&mut senders, |senders, session| &mut senders[session], &mut packets);
//! assert!(packets.iter().all(|packet| packet.length == Ok(12 + 5 + 10)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::crypto::{Code, HmacSha1, LANES, Message, Wanted, codes};
use crate::error::{ProtectError, UnprotectError};
use crate::receiver::Receiver;
use crate::sender::{Sender, Unsigned};
use core::array;

/// A packet of a batch.
#[derive(Debug)]
pub struct Packet<'p, E> {
    /// The index of the session, as the caller numbers them.
    pub session: usize,
    /// A buffer that starts with the packet.
    pub buffer: &'p mut [u8],
    /// The length of the packet: the input and the output. An error if the packet failed. A packet
    /// that has an error as input is skipped.
    pub length: Result<usize, E>,
}

/// Computes the requested HMACs of at most [`LANES`] packets.
fn codes_of<E>(packets: &[Packet<'_, E>], wanted: &[Option<Wanted>; LANES]) -> [Code; LANES] {
    codes(&array::from_fn(|place| {
        let Wanted { hmac, length, rollover } = wanted[place].as_ref()?;
        Some(Message { hmac, data: &packets[place].buffer[..*length], more: *rollover })
    }))
}

/// Protects RTP packets in order, as [`Sender::protect`] does. `sender` returns the sender of a
/// session in `sessions`.
pub fn protect<S: ?Sized>(
    sessions: &mut S,
    sender: impl Fn(&mut S, usize) -> &mut Sender,
    packets: &mut [Packet<'_, ProtectError>],
) {
    for packets in packets.chunks_mut(LANES) {
        let mut wanted = [const { None }; LANES];
        let mut tags = [const { 0..0 }; LANES];
        for (place, packet) in packets.iter_mut().enumerate() {
            let Ok(length) = packet.length else { continue };
            let sender = sender(sessions, packet.session);
            let sign = |hmac: &HmacSha1, _: &mut [u8], unsigned: Unsigned| {
                let Unsigned { length, rollover, tag } = unsigned;
                wanted[place] = Some(Wanted { hmac: hmac.clone(), length, rollover });
                tags[place] = tag;
            };
            packet.length = sender.protect_with(packet.buffer, length, &mut (), sign);
        }
        let codes = codes_of(packets, &wanted);
        for ((packet, tag), code) in packets.iter_mut().zip(tags).zip(codes) {
            let length = tag.len();
            packet.buffer[tag].copy_from_slice(&code[..length]);
        }
    }
}

/// Checks and decrypts RTP packets in order, as [`Receiver::unprotect`] does. The unprotected
/// packet starts at the beginning of its buffer. `receiver` returns the receiver of a session in
/// `sessions`.
///
/// # Panics
/// A packet is longer than its buffer.
pub fn unprotect<S: ?Sized>(
    sessions: &mut S,
    receiver: impl Fn(&mut S, usize) -> &mut Receiver,
    packets: &mut [Packet<'_, UnprotectError>],
) {
    for packets in packets.chunks_mut(LANES) {
        let mut foreseen = [const { None }; LANES];
        for (packet, foreseen) in packets.iter_mut().zip(&mut foreseen) {
            let Ok(length) = packet.length else { continue };
            *foreseen = receiver(sessions, packet.session).foresee(&packet.buffer[..length]);
        }
        let codes = codes_of(packets, &foreseen);
        for ((packet, foreseen), code) in packets.iter_mut().zip(&foreseen).zip(codes) {
            let Ok(length) = packet.length else { continue };
            let receiver = receiver(sessions, packet.session);
            let make_code = |hmac: &HmacSha1, data: &[u8], rollover: [u8; 4]| {
                // An earlier packet of the batch may have changed the required code.
                let is_right = |foreseen: &Wanted| {
                    let Wanted { hmac: key, length, rollover: counter } = foreseen;
                    key == hmac && *length == data.len() && *counter == rollover
                };
                if foreseen.as_ref().is_some_and(is_right) {
                    code
                } else {
                    hmac.code(data, &rollover)
                }
            };
            let result = receiver.unprotect_with(&mut packet.buffer[..length], &mut (), make_code);
            packet.length = result.map(|packet| packet.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plus::{Placement, Scheme, SrtpPlus};
    use crate::policy::Policy;
    use crate::suite::Suite;
    use crate::tests::{key, policies, rtp_packet};
    use proptest::prelude::*;
    use std::vec;
    use std::vec::Vec;

    const SESSIONS: usize = 3;

    /// Pairs of sender and receiver with the same policy.
    fn ends(policy: &Policy, mki: &[u8]) -> Vec<(Sender, Receiver)> {
        let keys = || vec![key(policy.suite).with_mki(mki)];
        let session =
            |_| (Sender::new(policy, keys()).unwrap(), Receiver::new(policy, keys()).unwrap());
        (0..SESSIONS).map(session).collect()
    }

    proptest! {
        #[test]
        fn a_batch_equals_single_packets(
            (policy, mki) in policies(),
            has_tags in proptest::bool::weighted(0.9),
            // Session, sequence number step, payload, damage: near the rollover and with
            // repetitions.
            steps in proptest::collection::vec(
                (0..SESSIONS, -1i16..3, 0..250usize, proptest::option::weighted(0.2, any::<u16>())),
                0..60,
            ),
        ) {
            let authenticate_rtp = has_tags || policy.suite.is_aead();
            let policy = Policy { authenticate_rtp, ..policy };
            let (mut single, mut many) = (ends(&policy, &mki), ends(&policy, &mki));
            let mut numbers = [65_520_u16; SESSIONS];
            let mut plain = Vec::new();
            for &(session, ahead, payload, _) in &steps {
                numbers[session] = numbers[session].wrapping_add_signed(ahead);
                plain.push(rtp_packet(7, numbers[session], &vec![0x33; payload]));
            }

            let mut expected: Vec<_> = plain.iter().map(|(buffer, _)| buffer.clone()).collect();
            let expected_lengths: Vec<_> = steps
                .iter()
                .zip(&mut expected)
                .zip(&plain)
                .map(|((step, buffer), &(_, length))| single[step.0].0.protect(buffer, length))
                .collect();
            let mut buffers: Vec<_> = plain.iter().map(|(buffer, _)| buffer.clone()).collect();
            let mut packets: Vec<_> = steps
                .iter()
                .zip(&mut buffers)
                .zip(&plain)
                .map(|((step, buffer), &(_, length))| {
                    Packet { session: step.0, buffer, length: Ok(length) }
                })
                .collect();
            protect(&mut many[..], |many, session| &mut many[session].0, &mut packets);
            let lengths: Vec<_> = packets.iter().map(|packet| packet.length).collect();
            prop_assert_eq!(&lengths, &expected_lengths);
            prop_assert_eq!(&buffers, &expected);

            for ((step, buffer), &length) in steps.iter().zip(&mut expected).zip(&lengths) {
                if let (Some(bit), Ok(length)) = (step.3, length) {
                    let bit = usize::from(bit) % (8 * length);
                    buffer[bit / 8] ^= 1 << (bit % 8);
                }
            }
            let mut buffers = expected.clone();
            let expected_lengths: Vec<_> = steps
                .iter()
                .zip(&mut expected)
                .zip(&lengths)
                .map(|((step, buffer), length)| {
                    let length = length.map_err(|_| UnprotectError::TooOld)?;
                    let opened = single[step.0].1.unprotect(&mut buffer[..length]);
                    opened.map(|packet| packet.len())
                })
                .collect();
            let mut packets: Vec<_> = steps
                .iter()
                .zip(&mut buffers)
                .zip(&lengths)
                .map(|((step, buffer), length)| {
                    let length = length.map_err(|_| UnprotectError::TooOld);
                    Packet { session: step.0, buffer, length }
                })
                .collect();
            unprotect(&mut many[..], |many, session| &mut many[session].1, &mut packets);
            let lengths: Vec<_> = packets.iter().map(|packet| packet.length).collect();
            prop_assert_eq!(&lengths, &expected_lengths);
            prop_assert_eq!(&buffers, &expected);
        }
    }

    #[test]
    fn a_replay_within_a_batch_is_rejected() {
        let policy = Policy::new(Suite::AesCm128HmacSha1_80);
        let mut ends = ends(&policy, &[]);
        let mut packet = |sequence_number| {
            let (mut buffer, length) = rtp_packet(7, sequence_number, b"a payload");
            let length = ends[0].0.protect(&mut buffer, length).unwrap();
            buffer.truncate(length);
            buffer
        };
        let first = packet(1);
        let mut copies = vec![packet(2); 20];
        ends[0].1.unprotect(&mut first.clone()).unwrap();
        let mut packets: Vec<_> = copies
            .iter_mut()
            .map(|buffer| Packet { session: 0, length: Ok(buffer.len()), buffer })
            .collect();
        unprotect(&mut ends[..], |ends, session| &mut ends[session].1, &mut packets);
        assert_eq!(packets[0].length, Ok(21));
        for packet in &packets[1..] {
            assert_eq!(packet.length, Err(UnprotectError::Replayed));
        }
    }

    #[test]
    fn a_code_is_recomputed_after_an_earlier_packet_moved_the_window() {
        let policy = Policy::new(Suite::AesCm128HmacSha1_80);
        for (old, expected) in [(None, Ok(12)), (Some(900), Err(UnprotectError::Authentication))] {
            let mut ends = ends(&policy, &[]);
            let (sender, receiver) = &mut ends[0];
            sender.add_source(7, 1, 0).unwrap();
            receiver.add_source(7, 1).unwrap();
            let mut protected = |sequence_number| {
                let (mut buffer, length) = rtp_packet(7, sequence_number, b"");
                let length = sender.protect(&mut buffer, length).unwrap();
                buffer.truncate(length);
                buffer
            };
            // A packet from before the rollover, received after a packet from behind it, looks like
            // a new one.
            let old = old.map(&mut protected);
            let mut first = protected(1000);
            let mut far = protected(33_700);
            let mut last = old.unwrap_or_else(|| protected(900));
            receiver.unprotect(&mut first).unwrap();
            let mut packets = [&mut far, &mut last].map(|buffer| Packet {
                session: 0,
                length: Ok(buffer.len()),
                buffer: &mut buffer[..],
            });
            unprotect(&mut ends[..], |ends, session| &mut ends[session].1, &mut packets);
            assert_eq!(packets.map(|packet| packet.length), [Ok(12), expected]);
        }
    }

    #[test]
    fn srtp_plus_tags_have_their_positions() {
        for placement in [Placement::Trailer, Placement::Extension(3)] {
            let plus = Some(SrtpPlus { scheme: Scheme::Header, placement });
            let policy = Policy { plus, ..Policy::new(Suite::AesCm128HmacSha1_80) };
            let mut ends = ends(&policy, &[]);
            let mut buffers: Vec<_> = (0..20).map(|number| rtp_packet(7, number, b"tag")).collect();
            let mut packets: Vec<_> = buffers
                .iter_mut()
                .map(|(buffer, length)| Packet { session: 1, buffer, length: Ok(*length) })
                .collect();
            protect(&mut ends[..], |ends, session| &mut ends[session].0, &mut packets);
            let mut packets: Vec<_> = packets
                .into_iter()
                .map(|Packet { session, buffer, length }| Packet {
                    session,
                    buffer,
                    length: Ok(length.unwrap()),
                })
                .collect();
            unprotect(&mut ends[..], |ends, session| &mut ends[session].1, &mut packets);
            for packet in packets {
                assert!(packet.buffer[..packet.length.unwrap()].ends_with(b"tag"));
            }
        }
    }
}
