//! The branch parameter of the Via that the proxy adds. It identifies the transaction, and
//! distinguishes a loop from a spiral (RFC 3261 section 16.6 step 8, RFC 5393 section 4.2).

use crate::core::keys::{Key, put_hex, take_hex};
use crate::core::ticket::Handle;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use memchr::memchr_iter;
use sip::header::{CSeq, MAGIC_COOKIE, NameAddr};
use sip::message::RequestHead;
use sip::{HeaderName, Message};
use smallvec::SmallVec;

/// The branch parameter of a Via of this server. For a request in a transaction it names a branch,
/// a `Fork`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViaBranch {
    /// The branch of a request in a transaction.
    Stateful {
        /// The position of its context.
        shard: u8,
        slot: u32,
        /// The index of the branch in the context.
        index: u8,
        /// Proof that the branch belongs to that context: see [`seal`].
        seal: u64,
        loop_hash: u32,
    },
    /// The branch of a request without a transaction.
    Stateless {
        /// Keyed hash of the next Via and the request. Only responses to forwarded requests have
        /// it.
        origin: u64,
        loop_hash: u32,
        /// The local address that the request arrived at. Responses leave from it, because a NAT
        /// would block them from another address (RFC 3581 section 4).
        local: SocketAddr,
    },
}

/// The prefix of both kinds.
const OWN: &[u8] = b"z9hG4bKb";
const STATEFUL: &[u8] = b"bb";
const STATELESS: &[u8] = b"bs";

impl ViaBranch {
    /// Parses a branch parameter.
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

    /// The branch in the top Via of `bytes`, the beginning of a request of this server.
    pub(crate) fn of_quoted(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split(|&byte| byte == b'\n');
        let via = lines.find_map(|line| line.strip_prefix(b"Via: "))?;
        let mut params = via.trim_ascii_end().split(|&byte| byte == b';');
        Self::parse(params.find_map(|param| param.strip_prefix(b"branch="))?)
    }

    /// Appends the value of the branch parameter.
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

/// Proof of 48 bits that branch `index` belongs to the context that `handle` names. A callee that
/// knows the seal of its own branch cannot answer on the branch of another callee.
pub(crate) fn seal(key: &Key, handle: &Handle, index: u8) -> u64 {
    key.proof(&[b"seal", &handle.id.to_le_bytes(), &[index]]) & 0xffff_ffff_ffff
}

/// The identifying fields that a response must repeat. The branch parameter alone does not identify
/// the dialog (RFC 3261 section 17.1.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct DialogFields<'a> {
    pub(crate) call_id: &'a [u8],
    pub(crate) from_tag: &'a [u8],
    /// The To tag. In a request it is empty outside of dialogs.
    pub(crate) to_tag: &'a [u8],
    pub(crate) cseq: CSeq<'a>,
}

/// A response with its identifying fields.
#[derive(Clone, Copy)]
pub(crate) struct Answer<'r, 'm> {
    pub(crate) message: &'r Message<'m>,
    pub(crate) said: DialogFields<'m>,
}

impl<'a> DialogFields<'a> {
    /// Returns the fields of a request.
    pub(crate) fn of(head: &RequestHead<'a>) -> Self {
        Self {
            call_id: head.call_id,
            from_tag: head.from.tag().unwrap_or_default(),
            to_tag: head.to.tag().unwrap_or_default(),
            cseq: head.cseq,
        }
    }

    /// Returns the fields of any message, or `None` if they cannot be parsed.
    pub(crate) fn read(message: &Message<'a>) -> Option<Self> {
        let tag = |name| {
            let address = NameAddr::parse(name, message.value(name)?).ok()?;
            Some(address.tag().unwrap_or_default())
        };
        Some(Self {
            call_id: message.value(HeaderName::CallId)?,
            from_tag: tag(HeaderName::From)?,
            to_tag: tag(HeaderName::To)?,
            cseq: CSeq::parse(message.value(HeaderName::CSeq)?).ok()?,
        })
    }

    pub(crate) fn hash(&self, key: &Key) -> u64 {
        let Self { call_id, from_tag, to_tag, cseq } = *self;
        key.hash(&[b"said", call_id, from_tag, to_tag, &cseq.number.to_be_bytes()])
    }
}

impl<'r, 'm> Answer<'r, 'm> {
    /// Parses the fields of `message`. Returns `None` if they cannot be parsed.
    pub(crate) fn read(message: &'r Message<'m>) -> Option<Self> {
        Some(Self { message, said: DialogFields::read(message)? })
    }
}

/// Hash of all fields that determine the routing of a request. A request that returns with the same
/// hash is in a loop. A CANCEL and the ACK of a non-2xx response have the hash of their INVITE,
/// because in stateless mode it is in their branch parameter (RFC 3261 section 16.11). So the
/// method in CSeq and the To tag are not included.
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
    // The hash is visible, but a sender that produces a collision only loses its own requests.
    key.hash(&parts) as u32
}

/// The result of the loop detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Visit {
    /// The request has not passed this server before.
    First,
    /// The request was sent to another target before and has returned (RFC 3261 section 16.3 step
    /// 4).
    Spiral,
    /// The request is in a loop, or has returned too often.
    Loop,
}

/// The maximum number of returns of a request. The owner of a target could let a request return
/// with another target each time.
const MOST_SPIRALS: usize = 5;

/// Checks if `request` has passed this server before, and with the same `loop_hash`. `loop_hash` is
/// called only if it has passed.
pub(crate) fn visit(request: &Message<'_>, loop_hash: impl FnOnce() -> u32) -> Visit {
    // Few lines contain a branch of this server. Only those are parsed.
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

/// True if `line` contains the prefix of a branch of this server.
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
