//! Authenticates and decrypts SRTP with the keys from session descriptions in the capture (RFC
//! 4568).

use sdp::CryptoAttribute;
use serde::Serialize;
use srtp::{Receiver, UnprotectError};
use std::rc::Rc;

/// The packet counts of a stream with known keys (RFC 4568).
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Srtp {
    /// The name of the crypto suite.
    pub(crate) suite: String,
    /// Packets with a valid tag.
    pub(crate) authentic: u64,
    /// Packets without a valid tag under any key. After the first authentic packet, they are in no
    /// other figure of the stream: a receiver drops them.
    pub(crate) not_authentic: u64,
    /// Packets that carry no tag, duplicates, and packets too late for a receiver to check.
    pub(crate) unchecked: u64,
}

/// The result for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// The tag is invalid. The packet is ignored if others were authentic.
    NotAuthentic { passed_over: bool },
    /// The packet is authentic or cannot be checked. The value is its padding in bytes, if known.
    Taken(Option<usize>),
}

/// The limit of earlier keys that are tried: packets may be under way when keys change.
const PROVEN: usize = 3;

/// A key of the stream's sender.
struct Key {
    receiver: Receiver,
    suite: &'static str,
    /// True if its packets carry a tag.
    has_tag: bool,
}

/// The keys of a stream.
pub(super) struct Decryptor {
    /// The last description.
    described: Rc<[CryptoAttribute]>,
    /// The keys with an authentic packet, the newest first.
    proven: Vec<Key>,
    /// The keys without an authentic packet so far.
    candidates: Vec<Key>,
    /// The last sequence number, and the rollover count.
    last: Option<(u16, u32)>,
    counts: Srtp,
    /// The buffer for a copy of the packet.
    buffer: Vec<u8>,
}

impl Decryptor {
    pub(super) fn new(described: &Rc<[CryptoAttribute]>) -> Self {
        let mut new = Self {
            described: Rc::new([]),
            proven: Vec::new(),
            candidates: Vec::new(),
            last: None,
            counts: Srtp::default(),
            buffer: Vec::new(),
        };
        new.use_keys(described);
        new
    }

    /// Sets the current keys. Keys that were in use are kept for packets under way.
    pub(super) fn use_keys(&mut self, described: &Rc<[CryptoAttribute]>) {
        if are_same(&self.described, described) {
            return;
        }
        self.described = described.clone();
        self.candidates = described.iter().filter_map(Key::new).collect();
    }

    pub(super) fn check(&mut self, packet: &[u8]) -> Check {
        // A packet that is not authentic must stay unchanged.
        self.buffer.clear();
        self.buffer.extend_from_slice(packet);
        let rollover = self.rollover(packet);
        let mut is_copy = false;
        for key in &mut self.proven {
            match key.receiver.unprotect(&mut self.buffer) {
                Ok(plain) => {
                    let padding = padding(plain);
                    *key.count(&mut self.counts) += 1;
                    return Check::Taken(padding);
                }
                Err(UnprotectError::Replayed | UnprotectError::TooOld) => is_copy = true,
                Err(_) => {}
            }
        }
        for index in 0..self.candidates.len() {
            let found = self.candidates[index].find(&mut self.buffer, rollover);
            let Some(padding) = found else { continue };
            let key = self.candidates.swap_remove(index);
            self.counts.suite = key.suite.to_owned();
            *key.count(&mut self.counts) += 1;
            // The sender uses only one of the described keys.
            self.candidates.clear();
            self.proven.insert(0, key);
            self.proven.truncate(PROVEN);
            return Check::Taken(padding);
        }
        if is_copy {
            self.counts.unchecked += 1;
            return Check::Taken(None);
        }
        self.counts.not_authentic += 1;
        Check::NotAuthentic { passed_over: !self.proven.is_empty() }
    }

    /// Returns the rollover count for a packet.
    fn rollover(&mut self, packet: &[u8]) -> u32 {
        let Ok(header) = rtp::Header::parse(packet) else { return 0 };
        let number = header.sequence_number();
        let (last, rollover) = self.last.unwrap_or((number, 0));
        let half = 1 << 15;
        if number > last && number - last > half {
            // The packet was sent before the last rollover and overtaken.
            return rollover;
        }
        let rollover = rollover.saturating_add(u32::from(last > number && last - number > half));
        self.last = Some((number, rollover));
        rollover
    }

    pub(super) fn report(mut self) -> Srtp {
        if self.counts.suite.is_empty() {
            let names: Vec<_> = self.candidates.iter().map(|key| key.suite).collect();
            self.counts.suite = names.join(",");
        }
        self.counts
    }
}

impl Key {
    fn new(crypto: &CryptoAttribute) -> Option<Self> {
        let receiver = Receiver::new(&crypto.policy, crypto.master_keys().ok()?).ok()?;
        let has_tag = crypto.policy.rtp_tag_length() > 0;
        Some(Self { receiver, suite: crypto.policy.suite.name(), has_tag })
    }

    /// Authenticates the packet with this rollover counter or with 0. Returns its padding in bytes,
    /// if known.
    fn find(&mut self, packet: &mut [u8], rollover: u32) -> Option<Option<usize>> {
        let ssrc = rtp::Header::parse(packet).ok()?.ssrc();
        let counters = [0, rollover];
        for &counter in &counters[..if rollover > 0 { 2 } else { 1 }] {
            self.receiver.add_source(ssrc, counter).ok()?;
            if let Ok(plain) = self.receiver.unprotect(packet) {
                return Some(padding(plain));
            }
        }
        None
    }

    fn count<'a>(&self, counts: &'a mut Srtp) -> &'a mut u64 {
        if self.has_tag { &mut counts.authentic } else { &mut counts.unchecked }
    }
}

/// Returns the padding of an unencrypted packet in bytes.
pub(super) fn padding(packet: &[u8]) -> Option<usize> {
    let parsed = rtp::Packet::parse(packet).ok()?;
    Some(packet.len() - parsed.header.len() - parsed.payload.len())
}

fn are_same(one: &[CryptoAttribute], other: &[CryptoAttribute]) -> bool {
    let is_same = |(one, other): (&CryptoAttribute, &CryptoAttribute)| {
        let keys = one.keys.iter().zip(&other.keys);
        one.policy == other.policy
            && one.keys.len() == other.keys.len()
            && keys.into_iter().all(|(one, other)| one.bytes == other.bytes && one.mki == other.mki)
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}
