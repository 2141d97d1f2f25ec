//! Captures of several machines as one: their clocks are aligned by the datagrams that two of them
//! have, and each datagram counts once.
//!
//! A datagram is seen later at its receiver than at its sender. The shortest of all ways to the
//! other machine and the shortest way back therefore bound the offset of its clock: it is taken in
//! the middle, which is right if both take equally long.

use super::analysis::Analysis;
use super::clocks::{Clock, Transit};
use super::error::CaptureError;
use super::file::{End, FileFacts};
use super::open::read;
use super::packet::{Decoder, PacketCounts, Transported};
use super::reading::Reading;
use crate::record::Histogram;
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// The limit of payload in the captures together, in bytes.
const MOST: usize = 1 << 30;

/// A datagram, by its ends and its payload. Copies of it have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    source: SocketAddr,
    destination: SocketAddr,
    payload: u64,
}

impl Key {
    /// Returns the key of a datagram; `None` for a TCP segment, whose copies its stream drops.
    fn of(one: &Transported<'_>) -> Option<Self> {
        let mut hasher = DefaultHasher::new();
        one.payload.hash(&mut hasher);
        let (source, destination) = (one.source, one.destination);
        one.segment.is_none().then(|| Self { source, destination, payload: hasher.finish() })
    }
}

/// A capture in memory.
#[derive(Default)]
struct Taken {
    packets: Vec<(Option<Key>, Transported<'static>)>,
    /// The times of each datagram and its copies, in order.
    times: HashMap<Key, Vec<u64>>,
    counts: PacketCounts,
    facts: FileFacts,
}

impl Taken {
    fn read(path: &Path, room: &mut usize) -> Result<Self, CaptureError> {
        let (mut taken, mut decoder, mut is_full) = (Self::default(), Decoder::default(), false);
        taken.facts = read(path, |frame| {
            let Some(one) = decoder.decode(&frame) else { return };
            is_full |= one.payload.len() > *room;
            if is_full {
                return;
            }
            *room -= one.payload.len();
            let key = Key::of(&one);
            if let Some(key) = key {
                taken.times.entry(key).or_default().push(one.time);
            }
            taken.packets.push((key, one.into_owned()));
        })?;
        decoder.finish();
        taken.counts = decoder.counts;
        if is_full { Err(CaptureError::TooMuch(path.to_owned(), MOST)) } else { Ok(taken) }
    }
}

/// The bounds of the differences of two clocks by the datagrams of one way, in nanoseconds.
#[derive(Clone, Copy)]
struct Way {
    min: i128,
    max: i128,
    count: u64,
}

/// An offset in nanoseconds, and its largest error.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Offset {
    ahead: i128,
    error: i128,
    datagrams: u64,
}

/// Returns the offset of the clock of `other` to that of `first`, or `None` if they have no
/// datagrams of both directions in common.
fn compare(first: &Taken, other: &Taken) -> Option<Offset> {
    let mut ways: HashMap<(IpAddr, IpAddr), Way> = HashMap::new();
    for (key, times) in &other.times {
        // Of a datagram that is sent several times, the copies cannot be told apart.
        let ([there], Some([here])) = (&times[..], first.times.get(key).map(Vec::as_slice)) else {
            continue;
        };
        let difference = i128::from(*there) - i128::from(*here);
        let new = Way { min: difference, max: difference, count: 0 };
        let way = ways.entry((key.source.ip(), key.destination.ip())).or_insert(new);
        way.min = way.min.min(difference);
        way.max = way.max.max(difference);
        way.count += 1;
    }
    let offsets = ways.iter().filter_map(|(&(from, to), there)| {
        let back = ways.get(&(to, from)).filter(|_| from != to)?;
        // On the way from the first machine to the other one, all differences are larger. Each pair
        // of ways comes twice, once in the right order.
        let slack = there.min - back.max;
        (slack >= back.min - there.max).then(|| Offset {
            ahead: (there.min + back.max) / 2,
            error: (slack.abs() + 1) / 2,
            datagrams: there.count + back.count,
        })
    });
    offsets.min_by_key(|offset| offset.error)
}

/// Returns the offsets of all captures to the clock of the first, over others if need be.
fn align(files: &[PathBuf], all: &[Taken]) -> Result<Vec<Offset>, CaptureError> {
    let mut known = vec![None; all.len()];
    known[0] = Some(Offset { ahead: 0, error: 0, datagrams: 0 });
    while let Some(unknown) = known.iter().position(Option::is_none) {
        let candidates = (0..all.len()).filter(|&to| known[to].is_none()).flat_map(|to| {
            let from =
                known.iter().enumerate().filter_map(|(from, offset)| Some((from, (*offset)?)));
            from.filter_map(move |(from, base): (usize, Offset)| {
                let found = compare(&all[from], &all[to])?;
                let (ahead, error) = (base.ahead + found.ahead, base.error + found.error);
                Some((to, Offset { ahead, error, ..found }))
            })
            .collect::<Vec<_>>()
        });
        let best = candidates.min_by_key(|(_, offset)| offset.error);
        let (to, offset) = best.ok_or_else(|| CaptureError::Alone(files[unknown].clone()))?;
        known[to] = Some(offset);
    }
    Ok(known.into_iter().flatten().collect())
}

/// Analyses the captures of several machines as one, by the clock of the first.
///
/// # Errors
/// [`CaptureError`] if one cannot be read, they are too large together, or one has no datagrams of
/// both directions in common with another.
pub(crate) fn join(files: &[PathBuf], mut reading: Reading) -> Result<Analysis, CaptureError> {
    let mut room = MOST;
    let all = files.iter().map(|path| Taken::read(path, &mut room));
    let all = all.collect::<Result<Vec<_>, _>>()?;
    let offsets = align(files, &all)?;
    let mut counts = PacketCounts::default();
    let (mut facts, mut packets) = (FileFacts::default(), Vec::new());
    for (index, (taken, offset)) in all.into_iter().zip(&offsets).enumerate() {
        counts.add(&taken.counts);
        facts.untimed += taken.facts.untimed;
        // The first end that is not as it should be.
        if facts.end == End::Whole {
            facts.end = taken.facts.end;
        }
        packets.extend(taken.packets.into_iter().map(|(key, one)| {
            let time = u64::try_from(i128::from(one.time) - offset.ahead).unwrap_or_default();
            (index, key, Transported { time, ..one })
        }));
    }
    packets.sort_by_key(|(_, _, one)| one.time);
    // The times at which each datagram and its copies left, and the numbers of those by file.
    let mut left: HashMap<Key, Vec<u64>> = HashMap::new();
    let mut numbers: HashMap<(usize, Key), usize> = HashMap::new();
    let mut transits: BTreeMap<(IpAddr, IpAddr), Histogram> = BTreeMap::new();
    for (file, key, one) in packets {
        if let Some(key) = key {
            let number = numbers.entry((file, key)).or_default();
            let times = left.entry(key).or_default();
            // An earlier copy may be lost between the machines: this is the last one that left.
            let earlier = times.get(*number..).and_then(<[u64]>::last).copied();
            *number = if earlier.is_some() { times.len() } else { *number + 1 };
            if let Some(earlier) = earlier {
                let ends = (one.source.ip(), one.destination.ip());
                let delay = sip::Duration::from_micros((one.time - earlier) / 1_000);
                transits.entry(ends).or_default().record(delay);
                continue;
            }
            times.push(one.time);
        }
        reading.cover(one.time);
        reading.take_transported(one.time, &one);
    }
    reading.decoder.counts = counts;
    let names: Vec<String> = files.iter().map(|path| path.display().to_string()).collect();
    let us = |nanos: i128| nanos as f64 / 1e3;
    let clock = |(file, offset): (&PathBuf, &Offset)| Clock {
        file: file.clone(),
        ahead_us: us(offset.ahead),
        error_us: us(offset.error),
        datagrams: offset.datagrams,
    };
    let transit = |((from, to), delay_us)| Transit { from, to, delay_us };
    Ok(Analysis {
        file: PathBuf::from(names.join(" + ")),
        facts,
        clocks: files.iter().zip(&offsets).skip(1).map(clock).collect(),
        transits: transits.into_iter().map(transit).collect(),
        ..reading.finish()
    })
}
