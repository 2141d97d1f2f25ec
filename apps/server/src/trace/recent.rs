//! The messages of the last minutes, and the search for those of a call, a user or an address.

use super::parties::{call_id, is_with, parties};
use super::ring::{BLOCK_SIZE, Entry, Kind, Ring, Since};
use super::traffic::{Place, Traffic};
use net::wall_clock;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sip::{Flow, Message};
use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

/// The maximum number of messages in an answer. The latest are kept.
const MAX_FOUND: usize = 5_000;

/// The maximum bytes of messages in an answer.
const MAX_FOUND_BYTES: usize = 8 << 20;

/// The messages of the last minutes of all workers. Each worker has a ring of its own, and waits
/// for a reader only while the open block of this ring is copied.
pub(crate) struct Recent {
    rings: Box<[Mutex<Ring>]>,
    /// True if messages are kept.
    is_on: bool,
    /// One reader at a time, so that readers have few blocks beside the rings.
    reader: Mutex<()>,
}

/// The messages of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The messages, the oldest first.
    pub(crate) messages: Vec<Traffic>,
    /// The number of older ones that are left out.
    pub(crate) left_out: usize,
}

impl Found {
    /// The rows of an answer.
    pub(crate) fn rows(self) -> impl Iterator<Item = FoundRow> {
        let left_out = (self.left_out > 0).then_some(FoundRow::LeftOut(self.left_out));
        left_out.into_iter().chain(self.messages.into_iter().map(FoundRow::Message))
    }
}

/// A row of an answer to a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FoundRow {
    /// The number of older messages that are left out, before the others.
    LeftOut(usize),
    /// A message. They come in order.
    Message(Traffic),
}

/// A search.
pub(crate) struct Search<'s> {
    /// A Call-ID, or an address with or without a port.
    pub(crate) target: &'s str,
    /// A further Call-ID.
    pub(crate) call_id: &'s str,
    /// A user: `user@domain`, or `user` in any domain.
    pub(crate) user: &'s str,
    /// The earliest time, in microseconds since 1970.
    pub(crate) since: u64,
}

/// A message in a ring.
struct Kept<'r> {
    worker: usize,
    entry: &'r Entry,
    bytes: &'r [u8],
}

impl Recent {
    /// Rings for `workers` workers, of `bytes` in all.
    pub(crate) fn new(workers: usize, bytes: usize) -> Self {
        let workers = workers.max(1);
        // The rings of many workers are not too small to keep anything.
        let each = if bytes == 0 { 0 } else { (bytes / workers).max(2 * BLOCK_SIZE) };
        let rings = (0..workers).map(|_| Mutex::new(Ring::new(each))).collect();
        Self { rings, is_on: each > 0, reader: Mutex::new(()) }
    }

    /// Keeps a message that `worker` received, or sent.
    pub(super) fn note(&self, worker: usize, flow: &Flow, bytes: &[u8], is_sent: bool) {
        // Other datagrams are keep-alives and STUN.
        if self.is_on && bytes.first().is_some_and(u8::is_ascii_alphabetic) {
            let kind = if is_sent { Kind::Sent } else { Kind::Received };
            self.push(worker, kind, flow, &[bytes]);
        }
    }

    /// Keeps messages that `worker` sent.
    pub(super) fn note_sent<'m>(
        &self,
        worker: usize,
        messages: impl Iterator<Item = (&'m Flow, &'m [u8])>,
    ) {
        if self.is_on {
            messages.for_each(|(flow, bytes)| self.note(worker, flow, bytes, true));
        }
    }

    /// Keeps that `message` to the B2BUA, which came from `flow`, caused these `others` of it.
    pub(super) fn note_joined<'m>(
        &self,
        worker: usize,
        flow: &Flow,
        message: &[u8],
        others: impl Iterator<Item = &'m [u8]> + Clone,
    ) {
        // The first messages of a leg are enough: later ones have known Call-IDs.
        let is_first = |it: &[u8]| it.starts_with(b"INVITE ") || it.starts_with(b"SIP/2.0 1");
        if !self.is_on || !(is_first(message) || others.clone().any(is_first)) {
            return;
        }
        let Some(id) = call_id(message) else { return };
        for other in others.filter_map(call_id).filter(|other| *other != id) {
            self.push(worker, Kind::Joined, flow, &[id, b"\n", other]);
        }
    }

    fn push(&self, worker: usize, kind: Kind, flow: &Flow, parts: &[&[u8]]) {
        let at = wall_clock().as_micros();
        self.rings[worker % self.rings.len()].lock().push(at, kind, flow, parts);
    }

    /// The entries of each worker after the first `seen` ones, a number for each, which then counts
    /// these entries, too.
    fn since(&self, seen: &mut Vec<u64>) -> Vec<Since> {
        seen.resize(self.rings.len(), 0);
        let read = |(ring, seen): (&Mutex<Ring>, &mut u64)| {
            let since = ring.lock().since(*seen);
            *seen = since.end;
            since
        };
        self.rings.iter().zip(seen).map(read).collect()
    }

    /// Passes the entries that are new since the last call with `seen` to `each`, in their order.
    /// Returns the number of entries that were no longer there.
    pub(super) fn read(&self, seen: &mut Vec<u64>, mut each: impl FnMut(&Entry, &[u8])) -> u64 {
        let _reader = self.reader.lock();
        let rings = self.since(seen);
        let mut entries: Vec<(&Entry, &[u8])> = rings.iter().flat_map(Since::entries).collect();
        entries.sort_by_key(|(entry, _)| entry.at);
        entries.into_iter().for_each(|(entry, bytes)| each(entry, bytes));
        rings.iter().map(|ring| ring.lost).sum()
    }

    /// The messages of the calls that `search` names: those of both legs of a call through the
    /// B2BUA, too. Secrets are blanked.
    pub(crate) fn find(&self, search: &Search<'_>) -> Found {
        let _reader = self.reader.lock();
        let rings = self.since(&mut Vec::new());
        let mut kept: Vec<Kept<'_>> = Vec::new();
        for (worker, ring) in rings.iter().enumerate() {
            kept.extend(ring.entries().map(|(entry, bytes)| Kept { worker, entry, bytes }));
        }
        kept.retain(|it| it.entry.at >= search.since);
        kept.sort_by_key(|it| it.entry.at);
        let ids: Vec<Option<&[u8]>> = kept.iter().map(Kept::call_id).collect();
        let mut calls = Calls::of_joins(&kept);
        let target = Target::new(search);
        let messages = || kept.iter().zip(&ids).filter(|(it, _)| it.entry.kind != Kind::Joined);
        messages().filter(|(it, id)| target.fits(it, **id)).for_each(|(_, id)| calls.want(*id));
        let wanted: Vec<_> = messages()
            .filter_map(|(it, id)| match id {
                Some(id) => calls.place(id).map(|place| (it, place)),
                // It is of no call.
                None => target.fits(it, None).then_some((it, (calls.legs.len(), 0))),
            })
            .collect();
        let mut bytes = 0;
        let fits = |(it, _): &&(&Kept<'_>, _)| {
            bytes += it.bytes.len();
            bytes <= MAX_FOUND_BYTES
        };
        let count = wanted.iter().rev().take(MAX_FOUND).take_while(fits).count();
        let left_out = wanted.len() - count;
        let messages = wanted[left_out..].iter().map(|(it, place)| it.traffic(*place)).collect();
        Found { messages, left_out }
    }

    /// The Call-IDs of the legs of the call that has `id` as one of them, with `id` itself.
    pub(crate) fn legs(&self, id: &str) -> Vec<String> {
        let _reader = self.reader.lock();
        let rings = self.since(&mut Vec::new());
        let joins = rings.iter().enumerate().flat_map(|(worker, ring)| {
            let joins = ring.entries().filter(|(entry, _)| entry.kind == Kind::Joined);
            joins.map(move |(entry, bytes)| Kept { worker, entry, bytes })
        });
        let joins: Vec<_> = joins.collect();
        let mut calls = Calls::of_joins(&joins);
        calls.want(Some(id.as_bytes()));
        calls.places.keys().map(|id| String::from_utf8_lossy(id).into_owned()).collect()
    }
}

impl<'r> Kept<'r> {
    fn call_id(&self) -> Option<&'r [u8]> {
        (self.entry.kind != Kind::Joined).then(|| call_id(self.bytes)).flatten()
    }

    /// The message with secrets blanked, as one of this call and leg.
    fn traffic(&self, (call, leg): (usize, usize)) -> Traffic {
        let Self { worker, entry, bytes } = *self;
        let flow = entry.flow();
        let place = Place { at: entry.at, worker, flow: &flow, is_sent: entry.kind == Kind::Sent };
        let missing = entry.missing as usize;
        Traffic { call, missing, ..Traffic::new(place, leg, bytes, false) }
    }
}

/// The messages that a search is for.
enum Target<'s> {
    /// Those of these Call-IDs, or with this user.
    Name { call_ids: [&'s [u8]; 2], user: &'s str },
    /// Those from and to this address.
    Address { ip: IpAddr, port: Option<u16> },
}

impl<'s> Target<'s> {
    fn new(search: &Search<'s>) -> Self {
        let text = search.target;
        let bare = text.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = text.parse::<SocketAddr>() {
            let ip = address.ip().to_canonical();
            return Self::Address { ip, port: Some(address.port()) };
        }
        match bare.parse::<IpAddr>() {
            Ok(ip) => Self::Address { ip: ip.to_canonical(), port: None },
            Err(_) => {
                let call_ids = [text.as_bytes(), search.call_id.as_bytes()];
                Self::Name { call_ids, user: search.user }
            }
        }
    }

    fn fits(&self, kept: &Kept<'_>, id: Option<&[u8]>) -> bool {
        match self {
            Self::Address { ip, port } => {
                let remote = kept.entry.flow().remote;
                remote.ip().to_canonical() == *ip && port.is_none_or(|port| port == remote.port())
            }
            Self::Name { call_ids, user } => {
                id.is_some_and(|id| call_ids.contains(&id))
                    || Message::parse(kept.bytes).is_ok_and(|it| is_with(user, &parties(&it)))
            }
        }
    }
}

/// The calls of an answer.
#[derive(Default)]
struct Calls<'r> {
    /// The Call-IDs that belong together with each.
    joined: HashMap<&'r [u8], Vec<&'r [u8]>>,
    /// The number of the call of each Call-ID, and that of its leg once a message has it.
    places: HashMap<&'r [u8], (usize, Option<usize>)>,
    /// The number of legs of each call that messages have.
    legs: Vec<usize>,
}

impl<'r> Calls<'r> {
    fn of_joins(kept: &[Kept<'r>]) -> Self {
        let mut calls = Self::default();
        for it in kept.iter().filter(|it| it.entry.kind == Kind::Joined) {
            let Some(at) = it.bytes.iter().position(|byte| *byte == b'\n') else { continue };
            let (one, other) = (&it.bytes[..at], &it.bytes[at + 1..]);
            calls.joined.entry(one).or_default().push(other);
            calls.joined.entry(other).or_default().push(one);
        }
        calls
    }

    /// Adds the call of the Call-ID `id`.
    fn want(&mut self, id: Option<&'r [u8]>) {
        let Some(id) = id.filter(|id| !self.places.contains_key(id)) else { return };
        let (mut seen, mut left) = (HashSet::from([id]), vec![id]);
        while let Some(id) = left.pop() {
            self.places.insert(id, (self.legs.len(), None));
            let others = self.joined.get(id).into_iter().flatten();
            left.extend(others.filter(|other| seen.insert(other)));
        }
        self.legs.push(0);
    }

    /// The call and the leg of a message. Legs are numbered in the order of their first messages.
    fn place(&mut self, id: &[u8]) -> Option<(usize, usize)> {
        let (call, leg) = self.places.get_mut(id)?;
        let legs = &mut self.legs[*call];
        let leg = *leg.get_or_insert_with(|| {
            *legs += 1;
            *legs - 1
        });
        Some((*call, leg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Transport;

    fn flow(port: u16) -> Flow {
        let address = |port| ([127, 0, 0, 1], port).into();
        let (local, remote) = (address(5060), address(port));
        Flow { transport: Transport::Udp, local, remote, connection: None }
    }

    fn message(start: &str, call_id: &str, user: &str, more: &str) -> Vec<u8> {
        let text = format!(
            "{start}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\n\
             From: <sip:{user}@Example.com>;tag=1\r\nTo: <sip:bob@example.com>\r\n\
             Call-ID: {call_id}\r\nCSeq: 1 INVITE\r\n{more}Content-Length: 0\r\n\r\n"
        );
        text.into_bytes()
    }

    fn invite(call_id: &str, user: &str) -> Vec<u8> {
        let more = "Authorization: Digest username=\"a\", response=\"SECRET\"\r\n";
        message("INVITE sip:bob@example.com SIP/2.0", call_id, user, more)
    }

    fn find(recent: &Recent, target: &str) -> Vec<Traffic> {
        let search = Search { target, call_id: "", user: target, since: 0 };
        recent.find(&search).messages
    }

    #[test]
    fn calls_are_found_by_call_id_by_user_and_by_address() {
        let recent = Recent::new(2, 1 << 20);
        recent.note(0, &flow(1111), &invite("x", "alice"), false);
        let answer = message("SIP/2.0 486 Busy Here", "x", "alice", "");
        recent.note_sent(1, [(&flow(1111), &answer[..])].into_iter());
        recent.note(3, &flow(2222), &invite("y", "carol"), false);
        recent.note(0, &flow(3333), b"Nonsense", false);
        recent.note(0, &flow(3333), b"\r\n\r\n", false);
        for (target, expected) in [
            ("x", 2),
            ("alice", 2),
            ("alice@example.com", 2),
            ("alice@example.org", 0),
            ("bob", 3),
            ("127.0.0.1:1111", 2),
            ("127.0.0.1:2222", 1),
            ("127.0.0.1", 4),
            ("[::ffff:127.0.0.1]:3333", 1),
            ("z", 0),
        ] {
            assert_eq!(find(&recent, target).len(), expected, "{target}");
        }
        let found = find(&recent, "x");
        assert_eq!(found.iter().map(|it| it.is_sent).collect::<Vec<_>>(), [false, true]);
        assert_eq!(found.iter().map(|it| it.worker).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(found[0].remote.port(), 1111);
        assert!(!found[0].bytes.windows(6).any(|part| part == b"SECRET"));
        let calls = find(&recent, "127.0.0.1");
        let mut calls: Vec<usize> = calls.iter().map(|it| it.call).collect();
        // Messages of the same microsecond have no order.
        calls.sort_unstable();
        assert_eq!(calls, [0, 0, 1, 2]);
    }

    #[test]
    fn both_legs_of_a_joined_call_are_found() {
        let recent = Recent::new(2, 1 << 20);
        recent.note(0, &flow(1), &invite("a", "alice"), false);
        let legs = [invite("b", "alice"), invite("a", "alice")];
        recent.note_joined(0, &flow(1), &invite("a", "alice"), legs.iter().map(|it| &it[..]));
        recent.note(1, &flow(2), &invite("b", "alice"), true);
        let bye = message("BYE sip:bob@example.com SIP/2.0", "c", "alice", "");
        recent.note_joined(0, &flow(1), &bye, [&bye[..]].into_iter());
        recent.note(1, &flow(2), &bye, true);
        for target in ["a", "b"] {
            let found = find(&recent, target);
            let legs: Vec<_> = found.iter().map(|it| (it.call, it.leg)).collect();
            assert_eq!(legs, [(0, 0), (0, 1)], "{target}");
            let mut legs = recent.legs(target);
            legs.sort();
            assert_eq!(legs, ["a", "b"]);
        }
        let calls: HashSet<usize> = find(&recent, "alice").iter().map(|it| it.call).collect();
        assert_eq!(calls.len(), 2);
        assert_eq!(recent.legs("c"), ["c"]);
    }

    #[test]
    fn answers_are_bounded_and_have_the_latest() {
        let recent = Recent::new(1, 64 << 20);
        for number in 0..MAX_FOUND + 10 {
            recent.note(0, &flow(1), &invite(&number.to_string(), "alice"), false);
        }
        let search = Search { target: "alice", call_id: "", user: "alice", since: 0 };
        let found = recent.find(&search);
        assert_eq!((found.messages.len(), found.left_out), (MAX_FOUND, 10));
        let text = String::from_utf8_lossy(&found.messages[0].bytes).into_owned();
        assert!(text.contains("Call-ID: 10\r\n"), "{text}");
        let since = wall_clock().as_micros() + 1;
        assert!(recent.find(&Search { since, ..search }).messages.is_empty());
    }

    #[test]
    fn memory_is_divided_among_workers_and_can_be_off() {
        let recent = Recent::new(64, 1 << 20);
        recent.note(63, &flow(1), &invite("x", "alice"), false);
        assert_eq!(find(&recent, "x").len(), 1);
        let off = Recent::new(2, 0);
        off.note(0, &flow(1), &invite("x", "alice"), false);
        assert!(find(&off, "x").is_empty());
    }
}
