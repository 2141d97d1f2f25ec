//! Who is measured.

use libsrtp::{Cipher, Direction, Key, Session};
use srtp::{MasterKey, Policy, Receiver, Sender, Suite};

/// An implementation of SRTP, with a number of sessions that have keys of their own.
pub(crate) trait Peer {
    /// Protects the packet in the first `length` bytes, and gives its new length.
    fn protect(&mut self, session: usize, buffer: &mut [u8], length: usize) -> usize;

    /// Checks and decrypts a packet; says whether it was right.
    fn unprotect(&mut self, session: usize, packet: &mut [u8]) -> bool;

    /// Whether it tells forged packets from others.
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
            let keys = vec![MasterKey::new(suite, &key(suite, session)).expect("a key")];
            let sender = Sender::new(policy, keys.clone()).expect("a sender").with_seed(&[1; 32]);
            (sender, Receiver::new(policy, keys).expect("a receiver"))
        };
        Self((0..sessions).map(session).collect())
    }
}

impl Peer for Ours {
    fn protect(&mut self, session: usize, buffer: &mut [u8], length: usize) -> usize {
        self.0[session].0.protect(buffer, length).expect("protected")
    }

    fn unprotect(&mut self, session: usize, packet: &mut [u8]) -> bool {
        self.0[session].1.unprotect(packet).is_ok()
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
    fn protect(&mut self, session: usize, buffer: &mut [u8], length: usize) -> usize {
        self.0[session].0.protect(buffer, length, 0).expect("protected")
    }

    fn unprotect(&mut self, session: usize, packet: &mut [u8]) -> bool {
        self.0[session].1.unprotect(packet).is_ok()
    }
}
