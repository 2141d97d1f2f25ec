//! Repeated datagrams.

use crate::cookie::{self, MAX_COOKIE};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// The memory of an entry besides its key and its response, in bytes.
const OVERHEAD: usize = 128;

/// The limits of [`Duplicates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateLimits {
    /// The maximum number of responses.
    pub entries: usize,
    /// The maximum number of bytes in memory.
    pub bytes: usize,
    /// The time after which a response is forgotten.
    pub age: Duration,
}

impl Default for DuplicateLimits {
    /// 16,384 responses of 16 MiB in 30 s. Kamailio repeats a request for 6 s.
    fn default() -> Self {
        Self { entries: 16_384, bytes: 16 << 20, age: Duration::from_secs(30) }
    }
}

/// The responses to recent datagrams, by source address and cookie. A repeated datagram receives
/// the same response, and has no other effect.
///
/// Different proxies, and a proxy before and after its restart, may use the same cookie. So a
/// datagram with other bytes is not a repetition.
#[derive(Clone, Debug)]
pub struct Duplicates {
    limits: DuplicateLimits,
    /// The number of an entry, by its key.
    numbers: BTreeMap<Arc<[u8]>, u64>,
    /// The entries in the order of their numbers and times.
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    bytes: usize,
    evicted: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    time: Duration,
    key: Arc<[u8]>,
    /// A hash of the datagram.
    hash: u64,
    response: Vec<u8>,
}

impl Entry {
    fn bytes(&self) -> usize {
        OVERHEAD + self.key.len() + self.response.len()
    }
}

impl Duplicates {
    /// Creates an empty table.
    #[must_use]
    pub const fn new(limits: DuplicateLimits) -> Self {
        Self {
            limits,
            numbers: BTreeMap::new(),
            entries: VecDeque::new(),
            first: 0,
            bytes: 0,
            evicted: 0,
        }
    }

    /// The response to an earlier datagram of the same source with the same bytes.
    pub fn response(
        &mut self,
        now: Duration,
        source: SocketAddr,
        datagram: &[u8],
    ) -> Option<&[u8]> {
        self.forget(now);
        let number = self.numbers.get(key(source, datagram)?.as_slice())?;
        let entry = &self.entries[(number - self.first) as usize];
        (entry.hash == hash(datagram)).then_some(&entry.response)
    }

    /// Stores the response to a datagram. It replaces the one of the same source and cookie. A
    /// datagram without a cookie is not stored.
    pub fn store(&mut self, now: Duration, source: SocketAddr, datagram: &[u8], response: &[u8]) {
        self.forget(now);
        let Some(key) = key(source, datagram) else { return };
        let key: Arc<[u8]> = key.as_slice().into();
        let number = self.first + self.entries.len() as u64;
        self.numbers.insert(key.clone(), number);
        let entry = Entry { time: now, key, hash: hash(datagram), response: response.to_vec() };
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        while self.entries.len() > self.limits.entries || self.bytes > self.limits.bytes {
            self.remove_first();
            self.evicted += 1;
        }
    }

    /// The number of stored responses.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if no response is stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The bytes in memory.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of responses that were removed before their time, for a limit.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.evicted
    }

    fn forget(&mut self, now: Duration) {
        let age = self.limits.age;
        while self.entries.front().is_some_and(|entry| now.saturating_sub(entry.time) > age) {
            self.remove_first();
        }
    }

    fn remove_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else { return };
        // A later response to the same source and cookie has another number.
        if self.numbers.get(&entry.key) == Some(&self.first) {
            self.numbers.remove(&entry.key);
        }
        self.first += 1;
        self.bytes -= entry.bytes();
    }
}

/// A key: the source address and the cookie.
struct Key {
    bytes: [u8; 18 + MAX_COOKIE],
    length: usize,
}

impl Key {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The key of a datagram that has a cookie.
fn key(source: SocketAddr, datagram: &[u8]) -> Option<Key> {
    let (cookie, _) = cookie::split(datagram)?;
    let address = match source.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut key = Key { bytes: [0; 18 + MAX_COOKIE], length: 18 + cookie.len() };
    key.bytes[..16].copy_from_slice(&address.octets());
    key.bytes[16..18].copy_from_slice(&source.port().to_be_bytes());
    key.bytes[18..key.length].copy_from_slice(cookie);
    Some(key)
}

/// FNV-1a. It tells datagrams of permitted sources apart, and resists no attacker.
fn hash(datagram: &[u8]) -> u64 {
    datagram.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
