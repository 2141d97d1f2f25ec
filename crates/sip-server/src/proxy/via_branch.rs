//! The branch parameter of the Via that the proxy adds: it finds the transaction again, and tells a
//! loop from a spiral (RFC 3261 section 16.6 step 8, RFC 5393 section 4.2).

use crate::keys::{Key, put_hex, take_hex};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use memchr::memchr_iter;
use sip::header::{CSeq, MAGIC_COOKIE, NameAddr};
use sip::message::RequestHead;
use sip::{HeaderName, Message};
use smallvec::SmallVec;

/// Where a context is, and which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle {
    pub(crate) shard: u8,
    pub(crate) slot: u32,
    /// Unlike that of any other context that was ever in the slot, and not to be guessed. 48 bits.
    pub(crate) id: u64,
}

/// The branch parameter of a Via that this server made. It names a branch of a request, a `Fork`,
/// where that is in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViaBranch {
    /// Of a request in a transaction.
    Stateful {
        /// Where its context is.
        shard: u8,
        slot: u32,
        /// Which branch of the context.
        index: u8,
        /// Proof that it is that context's, and that branch: see [`seal`].
        seal: u64,
        loop_hash: u32,
    },
    /// Of a request without one.
    Stateless {
        /// Keyed hash of what the next Via says, so that only answers to what was forwarded are
        /// taken back.
        origin: u64,
        loop_hash: u32,
        /// Our end of where it came from: what goes back leaves there, or no NAT would let it in
        /// (RFC 3581 section 4).
        local: SocketAddr,
    },
}

/// How each of them begins.
const OWN: &[u8] = b"z9hG4bKb";
const STATEFUL: &[u8] = b"bb";
const STATELESS: &[u8] = b"bs";

impl ViaBranch {
    /// Reads a branch parameter.
    pub(crate) fn parse(branch: &[u8]) -> Option<Self> {
        let rest = branch.strip_prefix(MAGIC_COOKIE)?;
        if let Some(hex) = rest.strip_prefix(STATEFUL) {
            let bytes = take_hex::<16>(hex)?;
            let (slot, rest) = bytes.split_first_chunk::<4>()?;
            let (&[shard, index], rest) = rest.split_first_chunk::<2>()?;
            let (id, rest) = rest.split_first_chunk::<6>()?;
            let seal = id.iter().fold(0, |seal, &byte| seal << 8 | u64::from(byte));
            let slot = u32::from_be_bytes(*slot);
            let loop_hash = u32::from_be_bytes(*rest.first_chunk()?);
            return Some(Self::Stateful { shard, slot, index, seal, loop_hash });
        }
        let (hashes, local) = rest.strip_prefix(STATELESS)?.split_at_checked(24)?;
        let bytes = take_hex::<12>(hashes)?;
        let (origin, loop_hash) = bytes.split_first_chunk::<8>()?;
        let (ip, port) = local.split_at_checked(local.len().checked_sub(4)?)?;
        let ip = match ip.len() {
            8 => IpAddr::from(take_hex::<4>(ip)?),
            _ => IpAddr::from(take_hex::<16>(ip)?),
        };
        Some(Self::Stateless {
            origin: u64::from_be_bytes(*origin),
            loop_hash: u32::from_be_bytes(*loop_hash.first_chunk()?),
            local: SocketAddr::new(ip, u16::from_be_bytes(take_hex(port)?)),
        })
    }

    /// Appends the branch parameter's value.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC_COOKIE);
        match *self {
            Self::Stateful { shard, slot, index, seal, loop_hash } => {
                out.extend_from_slice(STATEFUL);
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&slot.to_be_bytes());
                bytes[4..6].copy_from_slice(&[shard, index]);
                bytes[6..12].copy_from_slice(&seal.to_be_bytes()[2..]);
                bytes[12..].copy_from_slice(&loop_hash.to_be_bytes());
                put_hex(out, &bytes);
            }
            Self::Stateless { origin, loop_hash, local } => {
                out.extend_from_slice(STATELESS);
                put_hex(out, &origin.to_be_bytes());
                put_hex(out, &loop_hash.to_be_bytes());
                match local.ip() {
                    IpAddr::V4(ip) => put_hex(out, &ip.octets()),
                    IpAddr::V6(ip) => put_hex(out, &ip.octets()),
                }
                put_hex(out, &local.port().to_be_bytes());
            }
        }
    }

    const fn loop_hash(&self) -> u32 {
        match *self {
            Self::Stateful { loop_hash, .. } | Self::Stateless { loop_hash, .. } => loop_hash,
        }
    }
}

/// Proof that branch `index` is one of the context that `handle` names, of 48 bits. Who has that of
/// one branch does not have another's, and so cannot answer for the others that are called.
pub(crate) fn seal(key: &Key, handle: &Handle, index: u8) -> u64 {
    key.proof(&[b"seal", &handle.id.to_le_bytes(), &[index]]) & 0xffff_ffff_ffff
}

/// What a response has to say as its request did: the branch alone does not tell whose dialog it
/// speaks of (RFC 3261 section 17.1.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) call_id: &'a [u8],
    pub(crate) from_tag: &'a [u8],
    /// The tag of To, where the request had one.
    pub(crate) to_tag: &'a [u8],
    /// The number in CSeq.
    pub(crate) cseq: u32,
}

impl<'a> Said<'a> {
    /// What a request says.
    pub(crate) fn of(head: &RequestHead<'a>) -> Self {
        Self {
            call_id: head.call_id,
            from_tag: head.from.tag().unwrap_or_default(),
            to_tag: head.to.tag().unwrap_or_default(),
            cseq: head.cseq.number,
        }
    }

    /// What any message says. `None` where that cannot be read.
    pub(crate) fn read(message: &Message<'a>) -> Option<Self> {
        let tag = |name| {
            let address = NameAddr::parse(name, message.value(name)?).ok()?;
            Some(address.tag().unwrap_or_default())
        };
        Some(Self {
            call_id: message.value(HeaderName::CallId)?,
            from_tag: tag(HeaderName::From)?,
            to_tag: tag(HeaderName::To)?,
            cseq: CSeq::parse(message.value(HeaderName::CSeq)?).ok()?.number,
        })
    }

    pub(crate) fn hash(&self, key: &Key) -> u64 {
        let Self { call_id, from_tag, to_tag, cseq } = *self;
        key.hash(&[b"said", call_id, from_tag, to_tag, &cseq.to_be_bytes()])
    }
}

/// Hash of all that decides where a request goes: one that comes back with the same hash would go
/// round for ever. A CANCEL and the ACK of a refusal have the hash of their INVITE, since in
/// stateless mode it is in their branch (RFC 3261 section 16.11): so neither the method in CSeq nor
/// the tag of To counts.
pub(crate) fn loop_hash(
    key: &Key,
    request: &Message<'_>,
    head: &RequestHead<'_>,
    uri: &[u8],
) -> u32 {
    let number = head.cseq.number.to_be_bytes();
    let mut parts: SmallVec<[&[u8]; 8]> = SmallVec::new();
    parts.extend([uri, head.call_id, head.from.tag().unwrap_or_default(), &number]);
    parts.extend(request.values(HeaderName::Route));
    // Others see it, but whoever knows how to steer it only loses his own requests.
    key.hash(&parts) as u32
}

/// Whether a request has been here before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// It has not.
    First,
    /// It was sent to somebody else then, and has come back (RFC 3261 section 16.3 step 4).
    Spiral,
    /// It would go round for ever, or nearly.
    Loop,
}

/// How often a request may come back, wherever it was sent: whoever owns a target can let it come
/// back with another one each time.
const MOST_SPIRALS: usize = 5;

/// Whether `request` has been here before, and with the same `loop_hash`, which is made only where
/// it has been here at all.
pub(crate) fn visit(request: &Message<'_>, loop_hash: impl FnOnce() -> u32) -> Visit {
    // Few lines have a branch that could be ours, and only those are read.
    let lines = request.values(HeaderName::Via).filter(|line| may_be_own(line));
    let mut own = lines.flat_map(sip::header::elements).filter_map(|via| {
        let via = sip::header::Via::parse(via).ok()?;
        ViaBranch::parse(via.branch()?)
    });
    let Some(last) = own.next() else { return Visit::First };
    let hash = loop_hash();
    let is_loop =
        |(at, branch): (usize, ViaBranch)| at >= MOST_SPIRALS || branch.loop_hash() == hash;
    if core::iter::once(last).chain(own).enumerate().any(is_loop) {
        Visit::Loop
    } else {
        Visit::Spiral
    }
}

/// Whether there is a branch in `line` that begins as ours do.
fn may_be_own(line: &[u8]) -> bool {
    const K: usize = MAGIC_COOKIE.len() - 1;
    memchr_iter(b'K', line).any(|at| at >= K && line[at - K..].starts_with(OWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_come_back() {
        let handle = Handle { shard: 200, slot: 0x0102_0304, id: 0xffff_ffff_fffe };
        for branch in [
            ViaBranch::Stateful {
                shard: handle.shard,
                slot: handle.slot,
                index: 9,
                seal: handle.id,
                loop_hash: 0xdead_beef,
            },
            ViaBranch::Stateless {
                origin: u64::MAX - 1,
                loop_hash: 7,
                local: "192.0.2.1:5060".parse().unwrap(),
            },
            ViaBranch::Stateless {
                origin: 1,
                loop_hash: u32::MAX,
                local: "[2001:db8::1]:65535".parse().unwrap(),
            },
        ] {
            let mut text = Vec::new();
            branch.write(&mut text);
            assert_eq!(ViaBranch::parse(&text), Some(branch));
            text.pop();
            assert_eq!(ViaBranch::parse(&text), None);
        }
        assert_eq!(ViaBranch::parse(b"z9hG4bK776asdhds"), None);
    }
}
