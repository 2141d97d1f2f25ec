//! The implementations to be measured.

use barebell_srtp::batch;
use barebell_srtp::{MasterKey, Policy, Receiver, Sender, Suite};
use libsrtp::{Cipher, Direction, Key, Session};

/// A packet with spare room in its buffer.
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) session: usize,
    pub(crate) buffer: [u8; BUFFER],
    pub(crate) length: usize,
}

/// A header, a payload and spare room.
const BUFFER: usize = 12 + 160 + 148;

impl Packet {
    /// Creates an empty packet of a session.
    pub(crate) fn new(session: usize) -> Self {
        Self { session, buffer: [0; BUFFER], length: 0 }
    }
}

/// An implementation of SRTP, with sessions that have different keys.
pub(crate) trait Peer {
    fn protect(&mut self, packets: &mut [Packet]);

    /// Checks and decrypts packets. Returns the number of valid ones.
    fn unprotect(&mut self, packets: &mut [Packet]) -> usize;

    /// Returns true if it detects forged packets.
    fn refuses(&self) -> bool {
        true
    }
}

fn key(suite: Suite, session: usize) -> Vec<u8> {
    let mut key = vec![0x42; suite.key_length() + suite.salt_length()];
    key[..8].copy_from_slice(&(session as u64).to_be_bytes());
    key
}

/// This crate.
pub(crate) struct Ours(Vec<(Sender, Receiver)>);

impl Ours {
    pub(crate) fn new(policy: &Policy, sessions: usize) -> Self {
        let suite = policy.suite;
        let session = |session| {
            let keys = vec![
                MasterKey::new(suite, &key(suite, session))
                    .expect("the key length matches the suite"),
            ];
            let sender =
                Sender::new(policy, keys.clone()).expect("the policy is valid").with_seed(&[1; 32]);
            (sender, Receiver::new(policy, keys).expect("the policy is valid"))
        };
        Self((0..sessions).map(session).collect())
    }
}

impl Peer for Ours {
    fn protect(&mut self, packets: &mut [Packet]) {
        for packet in packets {
            let sender = &mut self.0[packet.session].0;
            packet.length =
                sender.protect(&mut packet.buffer, packet.length).expect("the packet is protected");
        }
    }

    fn unprotect(&mut self, packets: &mut [Packet]) -> usize {
        let mut count = 0;
        for packet in packets {
            let receiver = &mut self.0[packet.session].1;
            count += usize::from(receiver.unprotect(&mut packet.buffer[..packet.length]).is_ok());
        }
        count
    }
}

/// This crate, with packets in batches.
pub(crate) struct Batches(pub(crate) Ours);

/// The number of packets in a batch: what a relay may read at once.
const BATCH: usize = 64;

fn batch<E>(packets: &mut [Packet]) -> Vec<batch::Packet<'_, E>> {
    packets
        .iter_mut()
        .map(|packet| batch::Packet {
            session: packet.session,
            buffer: &mut packet.buffer[..],
            length: Ok(packet.length),
        })
        .collect()
}

impl Peer for Batches {
    fn protect(&mut self, packets: &mut [Packet]) {
        let Self(Ours(sessions)) = self;
        for packets in packets.chunks_mut(BATCH) {
            let mut batch = batch(packets);
            batch::protect(sessions, |all, session| &mut all[session].0, &mut batch);
            let length =
                |packet: batch::Packet<'_, _>| packet.length.expect("the packet is protected");
            let lengths: Vec<usize> = batch.into_iter().map(length).collect();
            packets.iter_mut().zip(lengths).for_each(|(packet, length)| packet.length = length);
        }
    }

    fn unprotect(&mut self, packets: &mut [Packet]) -> usize {
        let Self(Ours(sessions)) = self;
        let batches = packets.chunks_mut(BATCH).map(|packets| {
            let mut batch = batch(packets);
            batch::unprotect(sessions, |all, session| &mut all[session].1, &mut batch);
            batch.iter().filter(|packet| packet.length.is_ok()).count()
        });
        batches.sum()
    }
}

/// libsrtp.
pub(crate) struct Theirs(Vec<(Session, Session)>);

impl Theirs {
    pub(crate) fn new(suite: Suite, sessions: usize) -> Self {
        let key_length = suite.key_length();
        let session = |session| {
            let policy = libsrtp::Policy {
                cipher: match suite.is_aead() {
                    true => Cipher::AesGcm(key_length),
                    false => Cipher::AesCm(key_length),
                },
                rtp_tag: suite.rtp_tag_length(),
                encrypt_rtp: true,
                encrypt_rtcp: true,
                authenticate_rtp: true,
                window: 128,
                keys: vec![Key { bytes: key(suite, session), mki: vec![] }],
            };
            let [send, receive] = [Direction::Send, Direction::Receive]
                .map(|direction| Session::new(&policy, direction));
            (send, receive)
        };
        Self((0..sessions).map(session).collect())
    }
}

impl Peer for Theirs {
    fn protect(&mut self, packets: &mut [Packet]) {
        for packet in packets {
            let session = &mut self.0[packet.session].0;
            let length = session.protect(&mut packet.buffer, packet.length, 0);
            packet.length = length.expect("the packet is protected");
        }
    }

    fn unprotect(&mut self, packets: &mut [Packet]) -> usize {
        let mut count = 0;
        for packet in packets {
            let session = &mut self.0[packet.session].1;
            count += usize::from(session.unprotect(&mut packet.buffer[..packet.length]).is_ok());
        }
        count
    }
}
