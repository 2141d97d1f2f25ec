//! The stored form of the bindings of one address-of-record.
//!
//! The engine appends a record to [`Output::journal`](crate::Output) at each change. It lists the
//! bindings that were removed and those that were added. The identifier of a binding is never
//! reused. So several worker threads may append in any order: the current bindings are those added
//! and not removed ([`Merged`]). Integers are little-endian:
//!
//! ```text
//! u32 length of the rest | u64 sequence | u16 65535 | u16 length, address of record | entry ...
//! entry: u8 0 | u64 identifier | binding
//!        u8 1 | u64 identifier                      it is removed
//!        u8 2 | u64 identifier | u64 generation     the same, found in that generation of files
//!        u8 3 | u64 identifier | u64 generation     the same for all below it
//! ```
//!
//! A binding ends with its flow and, if the bit 2 of `flow_bound` is set, with the User-Agent of
//! its REGISTER.
//!
//! Schema versions below 3 wrote all bindings of an address-of-record at each change. Such a record
//! removes all earlier bindings, and is still read:
//!
//! ```text
//! u32 length of what follows | u64 sequence | u16 length, address of record | binding ...
//! ```

use crate::core::flow::{Connection, Flow};
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::num::NonZeroU64;
use sip::{Instant, Transport};

mod merged;

pub use merged::Merged;

/// One binding of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBinding<'a> {
    /// The contact URI as it was registered.
    pub contact: &'a [u8],
    /// The Path to the contact, as header field values joined by commas (RFC 3327). Empty for none.
    pub path: &'a [u8],
    /// The `+sip.instance` of the contact (RFC 5626), without the quotes. Empty for none.
    pub instance: &'a [u8],
    /// Keyed hash of the Call-ID of the REGISTER.
    pub call_id: u64,
    /// CSeq number of the REGISTER.
    pub cseq: u32,
    /// The q value in thousandths, 0 to 1000.
    pub q: u16,
    /// `reg-id` of the contact (RFC 5626), 0 for none.
    pub reg_id: u32,
    /// The expiry of the binding.
    pub expires: Instant,
    /// The flow that the REGISTER came on.
    pub flow: Flow,
    /// True if requests follow `flow` and not the address in `contact`.
    pub flow_bound: bool,
    /// The start of the User-Agent of the REGISTER. Empty for none.
    pub agent: &'a [u8],
}

/// A record in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record<'a> {
    /// The sequence number. It increases with each record of an address-of-record.
    pub sequence: u64,
    is_whole: bool,
    /// The address-of-record, `user@domain` in canonical form.
    pub address_of_record: &'a [u8],
    /// The complete record, to be stored and restored unchanged.
    pub bytes: &'a [u8],
    entries: &'a [u8],
}

/// One entry of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entry<'a> {
    /// A binding was added.
    Binding {
        /// Its identifier.
        id: u64,
        /// The binding.
        binding: StoredBinding<'a>,
        /// The binding in its stored form.
        bytes: &'a [u8],
    },
    /// A binding was removed.
    Removed {
        /// Its identifier.
        id: u64,
        /// The generation of files that contained the entry, if it is stored.
        generation: Option<u64>,
    },
    /// All bindings with lower identifiers were removed.
    RemovedBelow {
        /// The lowest identifier that was not removed.
        id: u64,
        /// The generation of files that contained the entry, if it is stored.
        generation: Option<u64>,
    },
}

/// Stands in place of the length of the address-of-record, and marks a record of changes.
const CHANGE: u16 = u16::MAX;

const ADDED: u8 = 0;
const REMOVED: u8 = 1;
const REMOVED_IN: u8 = 2;
const REMOVED_BELOW: u8 = 3;

/// The identifier of the binding at `place` among those that the record `sequence` adds. A message
/// cannot contain more contacts than there are places.
pub(crate) const fn id(sequence: u64, place: u64) -> u64 {
    (sequence << 16) | place
}

/// The error for bytes that are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadRecord;

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stored bindings are damaged: a record does not have the expected form")
    }
}

impl core::error::Error for BadRecord {}

/// Appends a record of changes to `out`.
pub fn write_change<'a>(
    out: &mut Vec<u8>,
    sequence: u64,
    address_of_record: &[u8],
    removed: impl Iterator<Item = u64>,
    added: impl Iterator<Item = (u64, StoredBinding<'a>)>,
) {
    put_change(out, sequence, address_of_record, |out| {
        removed.for_each(|id| Entry::Removed { id, generation: None }.write(out));
        for (id, binding) in added {
            Entry::write_binding(id, out, |out| put_binding(out, &binding));
        }
    });
}

fn put_change(
    out: &mut Vec<u8>,
    sequence: u64,
    address_of_record: &[u8],
    entries: impl FnOnce(&mut Vec<u8>),
) {
    put_record(out, sequence, |out| {
        out.extend_from_slice(&CHANGE.to_le_bytes());
        put_bytes(out, address_of_record);
        entries(out);
    });
}

fn put_record(out: &mut Vec<u8>, sequence: u64, rest: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&sequence.to_le_bytes());
    rest(out);
    let length = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

/// Appends a record of all bindings to `out`, in the format of schema versions below 3.
pub fn write<'a>(
    out: &mut Vec<u8>,
    sequence: u64,
    address_of_record: &[u8],
    bindings: impl Iterator<Item = StoredBinding<'a>>,
) {
    put_record(out, sequence, |out| {
        put_bytes(out, address_of_record);
        bindings.for_each(|binding| put_binding(out, &binding));
    });
}

/// The bits of the byte `flow_bound`.
const IS_FLOW_BOUND: u8 = 1;
const HAS_AGENT: u8 = 2;

fn put_binding(out: &mut Vec<u8>, binding: &StoredBinding<'_>) {
    put_bytes(out, binding.contact);
    put_bytes(out, binding.path);
    put_bytes(out, binding.instance);
    out.extend_from_slice(&binding.call_id.to_le_bytes());
    out.extend_from_slice(&binding.cseq.to_le_bytes());
    out.extend_from_slice(&binding.q.to_le_bytes());
    out.extend_from_slice(&binding.reg_id.to_le_bytes());
    out.extend_from_slice(&binding.expires.as_micros().to_le_bytes());
    let is_flow_bound = if binding.flow_bound { IS_FLOW_BOUND } else { 0 };
    let is_plain = !cfg!(feature = "office") || binding.agent.is_empty();
    let has_agent = if is_plain { 0 } else { HAS_AGENT };
    out.push(is_flow_bound | has_agent);
    put_flow(out, &binding.flow);
    if has_agent != 0 {
        put_bytes(out, binding.agent);
    }
}

/// Returns the consecutive records in `bytes`. The iterator ends after the first damaged record.
pub fn read(bytes: &[u8]) -> impl Iterator<Item = Result<Record<'_>, BadRecord>> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let record = read_one(&mut rest);
        if record.is_none() {
            rest = &[];
        }
        Some(record.ok_or(BadRecord))
    })
}

impl<'a> Record<'a> {
    /// Returns the entries of the record. The iterator ends after the first damaged entry.
    pub fn entries(&self) -> impl Iterator<Item = Result<Entry<'a>, BadRecord>> + use<'a> {
        let Self { sequence, is_whole, entries: mut rest, .. } = *self;
        let first = Entry::RemovedBelow { id: id(sequence, 0), generation: None };
        let mut place = 0;
        let further = core::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let entry = match is_whole {
                true => read_added(&mut rest, id(sequence, place)),
                false => read_entry(&mut rest),
            };
            place += 1;
            if entry.is_none() {
                rest = &[];
            }
            Some(entry.ok_or(BadRecord))
        });
        is_whole.then_some(Ok(first)).into_iter().chain(further)
    }

    /// Returns the bindings that were added. The iterator ends after the first damaged entry.
    pub fn bindings(&self) -> impl Iterator<Item = Result<StoredBinding<'a>, BadRecord>> + use<'a> {
        self.entries().filter_map(|entry| match entry {
            Ok(Entry::Binding { binding, .. }) => Some(Ok(binding)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
    }
}

impl Entry<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let (tag, id, generation) = match *self {
            Self::Binding { id, bytes, .. } => {
                return Self::write_binding(id, out, |out| out.extend_from_slice(bytes));
            }
            Self::Removed { id, generation: None } => (REMOVED, id, None),
            Self::Removed { id, generation } => (REMOVED_IN, id, generation),
            Self::RemovedBelow { id, generation } => {
                (REMOVED_BELOW, id, Some(generation.unwrap_or_default()))
            }
        };
        out.push(tag);
        out.extend_from_slice(&id.to_le_bytes());
        if let Some(generation) = generation {
            out.extend_from_slice(&generation.to_le_bytes());
        }
    }

    fn write_binding(id: u64, out: &mut Vec<u8>, binding: impl FnOnce(&mut Vec<u8>)) {
        out.push(ADDED);
        out.extend_from_slice(&id.to_le_bytes());
        binding(out);
    }
}

/// The index of a transport is its number in storage. New transports are appended.
const TRANSPORTS: [Transport; 5] =
    [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Ws, Transport::Wss];

/// Appends `flow` to `out` in the form that [`take_flow`] reads.
pub(crate) fn put_flow(out: &mut Vec<u8>, flow: &Flow) {
    let number = TRANSPORTS.iter().position(|transport| *transport == flow.transport);
    out.push(number.map_or(u8::MAX, |number| number as u8));
    put_address(out, flow.local);
    put_address(out, flow.remote);
    if flow.transport.is_stream() {
        let connection = flow.connection.map_or(0, |connection| connection.0.get());
        out.extend_from_slice(&connection.to_le_bytes());
    }
}

/// Reads a flow from the start of `rest`.
pub(crate) fn take_flow(rest: &mut &[u8]) -> Option<Flow> {
    let [number] = take(rest)?;
    let transport = *TRANSPORTS.get(usize::from(number))?;
    let local = take_address(rest)?;
    let remote = take_address(rest)?;
    let connection = if transport.is_stream() {
        NonZeroU64::new(u64::from_le_bytes(take(rest)?)).map(Connection)
    } else {
        None
    };
    Some(Flow { transport, local, remote, connection })
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&bytes[..usize::from(length)]);
}

fn put_address(out: &mut Vec<u8>, address: SocketAddr) {
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_le_bytes());
}

fn read_one<'a>(rest: &mut &'a [u8]) -> Option<Record<'a>> {
    let all = *rest;
    let length = usize::try_from(u32::from_le_bytes(take(rest)?)).ok()?;
    let (mut body, after) = rest.split_at_checked(length)?;
    *rest = after;
    let sequence = u64::from_le_bytes(take(&mut body)?);
    let is_change = body.starts_with(&CHANGE.to_le_bytes());
    if is_change {
        body = &body[size_of_val(&CHANGE)..];
    }
    let (address_of_record, entries) = (take_bytes(&mut body)?, body);
    let bytes = &all[..length + 4];
    Some(Record { sequence, is_whole: !is_change, address_of_record, bytes, entries })
}

fn read_entry<'a>(rest: &mut &'a [u8]) -> Option<Entry<'a>> {
    let [tag] = take(rest)?;
    let id = u64::from_le_bytes(take(rest)?);
    match tag {
        ADDED => read_added(rest, id),
        REMOVED => Some(Entry::Removed { id, generation: None }),
        REMOVED_IN => {
            Some(Entry::Removed { id, generation: Some(u64::from_le_bytes(take(rest)?)) })
        }
        REMOVED_BELOW => {
            Some(Entry::RemovedBelow { id, generation: Some(u64::from_le_bytes(take(rest)?)) })
        }
        _ => None,
    }
}

fn read_added<'a>(rest: &mut &'a [u8], id: u64) -> Option<Entry<'a>> {
    let all = *rest;
    let binding = read_binding(rest)?;
    Some(Entry::Binding { id, binding, bytes: &all[..all.len() - rest.len()] })
}

fn read_binding<'a>(rest: &mut &'a [u8]) -> Option<StoredBinding<'a>> {
    let (contact, path, instance) = (take_bytes(rest)?, take_bytes(rest)?, take_bytes(rest)?);
    let call_id = u64::from_le_bytes(take(rest)?);
    let cseq = u32::from_le_bytes(take(rest)?);
    let q = u16::from_le_bytes(take(rest)?);
    let reg_id = u32::from_le_bytes(take(rest)?);
    let expires = Instant::from_micros(u64::from_le_bytes(take(rest)?));
    let [bits] = take(rest)?;
    let flow = take_flow(rest)?;
    let has_agent = cfg!(feature = "office") && bits & HAS_AGENT != 0;
    let agent = if has_agent { take_bytes(rest)? } else { &[] };
    let flow_bound = bits & IS_FLOW_BOUND != 0;
    Some(StoredBinding {
        contact,
        path,
        instance,
        call_id,
        cseq,
        q,
        reg_id,
        expires,
        flow,
        flow_bound,
        agent,
    })
}

/// Reads `N` bytes from the start of `rest`.
pub(crate) fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(*taken)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(u16::from_le_bytes(take(rest)?));
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

fn take_address(rest: &mut &[u8]) -> Option<SocketAddr> {
    let ip = match take::<1>(rest)?[0] {
        4 => IpAddr::from(take::<4>(rest)?),
        6 => IpAddr::from(take::<16>(rest)?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_le_bytes(take(rest)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(contact: &[u8], flow: Flow) -> StoredBinding<'_> {
        StoredBinding {
            contact,
            path: b"<sip:edge.example.com;lr>",
            instance: b"",
            call_id: 7,
            cseq: 314,
            q: 500,
            reg_id: 1,
            expires: Instant::from_micros(1_700_000_000_000_000),
            flow,
            flow_bound: true,
            agent: b"",
        }
    }

    #[test]
    fn records_come_back_as_they_were_written() {
        let udp = Flow {
            transport: Transport::Udp,
            local: "192.0.2.1:5060".parse().unwrap(),
            remote: "192.0.2.9:40000".parse().unwrap(),
            connection: None,
        };
        let tcp = Flow {
            transport: Transport::Tcp,
            local: "[2001:db8::1]:5060".parse().unwrap(),
            remote: "[2001:db8::9]:40000".parse().unwrap(),
            connection: NonZeroU64::new(99).map(Connection),
        };
        let with_agent =
            StoredBinding { agent: b"Phone 1.0", flow_bound: false, ..binding(b"sip:b@host", tcp) };
        let bindings = [binding(b"sip:a@192.0.2.9", udp), with_agent, binding(b"sip:c@host", tcp)];
        let mut bytes = Vec::new();
        write(&mut bytes, 5, b"alice@example.com", bindings.into_iter());
        write(&mut bytes, 6, b"bob@example.com", core::iter::empty());
        let records: Vec<_> = read(&bytes).map(Result::unwrap).collect();
        assert_eq!(records.len(), 2);
        assert_eq!(records[0].sequence, 5);
        assert_eq!(records[0].address_of_record, b"alice@example.com");
        assert!(records[0].bindings().map(Result::unwrap).eq(bindings));
        assert_eq!(records[1].sequence, 6);
        assert_eq!(records[1].bindings().count(), 0);
        assert_eq!([records[0].bytes, records[1].bytes].concat(), bytes);
    }

    #[test]
    fn every_transport_has_a_number() {
        let address = "192.0.2.1:5060".parse().unwrap();
        for (number, transport) in (0..).zip(Transport::ALL) {
            let connection = NonZeroU64::new(7).map(Connection).filter(|_| transport.is_stream());
            let flow = Flow { transport, local: address, remote: address, connection };
            let mut bytes = Vec::new();
            put_flow(&mut bytes, &flow);
            // Stored records are read with the same numbers.
            assert_eq!(bytes[0], number);
            assert_eq!(take_flow(&mut &bytes[..]), Some(flow));
        }
    }

    #[test]
    fn a_cut_record_is_an_error_and_ends_the_reading() {
        let flow = Flow {
            transport: Transport::Udp,
            local: "192.0.2.1:5060".parse().unwrap(),
            remote: "192.0.2.9:40000".parse().unwrap(),
            connection: None,
        };
        let mut bytes = Vec::new();
        let added = [(id(1, 0), binding(b"sip:a@b", flow))];
        write_change(&mut bytes, 1, b"a@b", [9].into_iter(), added.into_iter());
        let record = read(&bytes).next().unwrap().unwrap();
        assert_eq!(record.entries().count(), 2);
        assert_eq!(record.bindings().next(), Some(Ok(added[0].1)));
        for cut in 1..bytes.len() {
            let results: Vec<_> = read(&bytes[..cut]).collect();
            assert_eq!(results, [Err(BadRecord)], "cut at {cut}");
        }
    }
}
