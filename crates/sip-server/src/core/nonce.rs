//! Self-verifying nonces, so that a challenge needs no state (RFC 7616 section 3.3), and the counts
//! of the nonces in use.

use crate::core::keys::{Key, take_hex, write_hex};
use crate::core::source::Source;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicU32, Ordering};
use lock_api::{Mutex, RawMutex};
use sip::{Duration, Instant};

/// The number of shards of the counts, each with its own lock.
const SHARDS: usize = 16;

/// Issues and verifies nonces.
///
/// A nonce consists of the time of issue, a serial number within that millisecond, and a keyed hash
/// of both and of the host that it was issued to. Its counts are stored only after its first valid
/// use, so an attacker without a password fills no memory. If the table is full, the oldest nonces
/// are dropped, and all nonces up to them are stale from then on. So a used count is never accepted
/// again.
pub(crate) struct Nonces<R: RawMutex> {
    key: Key,
    serial: AtomicU32,
    shards: Box<[Mutex<R, Shard>]>,
}

#[derive(Debug, Default)]
struct Shard {
    in_use: BTreeMap<u64, Counts>,
    /// Nonces up to this one that are not in `in_use` are stale.
    forgotten: u64,
}

/// The used counts of one nonce.
#[derive(Clone, Copy, Debug)]
struct Counts {
    highest: u32,
    /// Bit n is set if the count `highest - n` was used.
    used: u64,
    /// The last requests, to tell a retransmission from a replay.
    recent: [Recent; 4],
}

/// An accepted request.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    count: u32,
    /// Its time in seconds.
    second: u32,
    fingerprint: u64,
}

/// The maximum age in seconds of a retransmission: 64 times the default T1 (RFC 3261 section
/// 17.1.1.2).
const REPETITION: u32 = 32;

/// The result of verifying a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nonce {
    /// Issued by this server, and within its lifetime.
    Fresh(u64),
    /// Issued by this server, and expired.
    Expired,
    /// Not issued by this server, or not to this host.
    Foreign,
}

const SERIAL_BITS: u32 = 22;

impl<R: RawMutex> Nonces<R> {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            key,
            serial: AtomicU32::new(0),
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
        }
    }

    /// Makes every nonce issued before `start` stale, because its used counts are not known any
    /// more.
    pub(crate) fn forget_before(&self, start: Instant) {
        let first = (start.as_micros() / 1000) << SERIAL_BITS;
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.forgotten = shard.forgotten.max(first.saturating_sub(1));
        }
    }

    /// Returns a new nonce for `host`.
    pub(crate) fn issue(&self, host: IpAddr, now: Instant) -> [u8; 32] {
        let serial = self.serial.fetch_add(1, Ordering::Relaxed) & ((1 << SERIAL_BITS) - 1);
        let id = (now.as_micros() / 1000) << SERIAL_BITS | u64::from(serial);
        let id = id.to_be_bytes();
        let mut nonce = [0; 32];
        let (first, second) = nonce.split_at_mut(16);
        write_hex(first, &id);
        write_hex(second, &self.proof(&id, host).to_be_bytes());
        nonce
    }

    fn proof(&self, id: &[u8], host: IpAddr) -> u64 {
        match one_host(host) {
            IpAddr::V4(address) => self.key.proof(&[id, &address.octets()]),
            IpAddr::V6(address) => self.key.proof(&[id, &address.octets()]),
        }
    }

    /// True if `nonce` was issued to `host` within the last day. In that case the sender has
    /// received it at that address.
    pub(crate) fn was_issued(&self, nonce: &[u8], host: IpAddr, now: Instant) -> bool {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        matches!(self.judge(nonce, host, now, DAY), Nonce::Fresh(_))
    }

    /// Verifies `nonce` from `host`.
    pub(crate) fn judge(
        &self,
        nonce: &[u8],
        host: IpAddr,
        now: Instant,
        lifetime: Duration,
    ) -> Nonce {
        let Some(bytes) = take_hex::<16>(nonce) else { return Nonce::Foreign };
        let (id, hash) = bytes.split_at(8);
        let hash_is_right = hash
            .iter()
            .zip(self.proof(id, host).to_be_bytes())
            .fold(0, |differing, (one, other)| differing | (one ^ other))
            == 0;
        if !hash_is_right {
            return Nonce::Foreign;
        }
        let id = id.iter().fold(0, |id, &byte| id << 8 | u64::from(byte));
        let issued = Instant::from_micros((id >> SERIAL_BITS) * 1000);
        // The clock was set back since the nonce was issued, so its used counts may be unknown.
        let is_from_the_future = issued > now;
        if is_from_the_future || now.since(issued) > lifetime {
            Nonce::Expired
        } else {
            Nonce::Fresh(id)
        }
    }

    /// Records the use of `count` of the nonce `id` by the request with `fingerprint`. Returns
    /// false if the count was used by another request, or by this one too long ago. A nonce that is
    /// used without a count is valid for that request only.
    pub(crate) fn use_count(
        &self,
        id: u64,
        count: Option<u32>,
        fingerprint: u64,
        now: Instant,
        lifetime: Duration,
        max_nonces: usize,
    ) -> bool {
        let request =
            Recent { count: count.unwrap_or(0), second: now.as_secs() as u32, fingerprint };
        let oldest_fresh = now - lifetime;
        let mut shard = self.shards[id as usize % SHARDS].lock();
        let Shard { in_use, forgotten } = &mut *shard;
        let accepted = match in_use.entry(id) {
            Entry::Occupied(mut counts) => return counts.get_mut().accept(count, request),
            Entry::Vacant(_) if id <= *forgotten => return false,
            Entry::Vacant(place) => place.insert(Counts::UNUSED).accept(count, request),
        };
        let oldest_fresh = (oldest_fresh.as_micros() / 1000) << SERIAL_BITS;
        let max = max_nonces.div_ceil(SHARDS);
        // This may drop the new nonce itself, if it is the oldest. It has been used once and is
        // stale from now on.
        while (in_use.len() > max || in_use.keys().next().is_some_and(|&id| id < oldest_fresh))
            && let Some((oldest, _)) = in_use.pop_first()
        {
            *forgotten = (*forgotten).max(oldest);
        }
        accepted
    }
}

impl Counts {
    const UNUSED: Self =
        Self { highest: 0, used: 1, recent: [Recent { count: 0, second: 0, fingerprint: 0 }; 4] };
    /// No count is left.
    const USED_UP: Self = Self { highest: u32::MAX, used: u64::MAX, ..Self::UNUSED };

    /// A request without a count has 0 in `request`, which is never accepted as a count.
    fn accept(&mut self, count: Option<u32>, request: Recent) -> bool {
        let is_repetition = |known: &Recent| {
            (known.count, known.fingerprint) == (request.count, request.fingerprint)
                && request.second.saturating_sub(known.second) <= REPETITION
        };
        if self.recent.iter().any(is_repetition) {
            return true;
        }
        let Some(count) = count else {
            let is_first = self.highest == 0;
            if is_first {
                *self = Self::USED_UP;
                self.recent[0] = request;
            }
            return is_first;
        };
        if count > self.highest {
            let step = count - self.highest;
            self.used = self.used.checked_shl(step).unwrap_or(0) | 1;
            self.highest = count;
        } else {
            let bit = 1u64.checked_shl(self.highest - count).unwrap_or(0);
            if bit == 0 || self.used & bit != 0 {
                return false;
            }
            self.used |= bit;
        }
        self.recent.rotate_right(1);
        self.recent[0] = request;
        true
    }
}

/// A representative of all addresses of a host. Loopback addresses are one host, and a host may
/// change its address within a /64 at any time (RFC 8981).
fn one_host(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        address if address.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        address => Source::of(address).address(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use alloc::vec::Vec;

    type Table = Nonces<parking_lot::RawMutex>;

    const LIFETIME: Duration = Duration::from_secs(300);
    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(1_700_000_000_000_000) + Duration::from_secs(seconds)
    }

    fn table() -> Table {
        Nonces::new(Key::derive(&[3; 32], "nonce"))
    }

    fn issue(table: &Table, seconds: u64) -> u64 {
        let nonce = table.issue(HOST, at(seconds));
        match table.judge(&nonce, HOST, at(seconds), LIFETIME) {
            Nonce::Fresh(id) => id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_nonce_is_good_for_its_time_and_cannot_be_made_up() {
        let table = table();
        let nonce = table.issue(HOST, at(0));
        assert!(matches!(table.judge(&nonce, HOST, at(300), LIFETIME), Nonce::Fresh(_)));
        assert_eq!(table.judge(&nonce, HOST, at(301), LIFETIME), Nonce::Expired);
        assert!(table.was_issued(&nonce, HOST, at(301)), "it has been there");
        assert!(table.was_issued(&nonce, HOST, at(24 * 3600)));
        assert!(!table.was_issued(&nonce, HOST, at(24 * 3600 + 1)));
        for at_byte in 0..nonce.len() {
            let mut changed = nonce;
            changed[at_byte] = if changed[at_byte] == b'0' { b'1' } else { b'0' };
            assert_eq!(table.judge(&changed, HOST, at(0), LIFETIME), Nonce::Foreign);
        }
        assert_eq!(table.judge(b"", HOST, at(0), LIFETIME), Nonce::Foreign);
    }

    #[test]
    fn a_nonce_is_good_for_the_host_that_it_was_given_to() {
        let table = table();
        let judge = |given: &str, used: &str| {
            let nonce = table.issue(given.parse().unwrap(), at(0));
            matches!(table.judge(&nonce, used.parse().unwrap(), at(0), LIFETIME), Nonce::Fresh(_))
        };
        for (given, used, is_good) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::2", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("127.0.0.1", "127.0.0.9", true),
            ("127.0.0.1", "::1", true),
            ("127.0.0.1", "192.0.2.1", false),
        ] {
            assert_eq!(judge(given, used), is_good, "{given} {used}");
        }
    }

    #[test]
    fn a_nonce_from_the_future_is_stale() {
        let table = table();
        let nonce = table.issue(HOST, at(10));
        assert_eq!(table.judge(&nonce, HOST, at(9), LIFETIME), Nonce::Expired);
    }

    #[test]
    fn a_count_is_good_once_in_any_order() {
        let table = table();
        let id = issue(&table, 0);
        let used = |count, request| table.use_count(id, count, request, at(0), LIFETIME, 100);
        assert!(used(Some(1), 10));
        assert!(used(Some(1), 10), "a retransmission");
        assert!(!used(Some(1), 11), "a replay");
        assert!(used(Some(3), 12));
        assert!(used(Some(2), 13));
        assert!(!used(Some(2), 14));
        assert!(used(Some(100), 15));
        assert!(!used(Some(3), 16));
        assert!(!used(Some(36), 17), "out of the window");
        assert!(used(Some(37), 18));
        assert!(!used(Some(0), 19), "counts begin with 1");
        let later = |seconds| table.use_count(id, Some(37), 18, at(seconds), LIFETIME, 100);
        assert!(later(32), "a retransmission");
        assert!(!later(33), "nobody sends it again for so long");
    }

    #[test]
    fn a_nonce_without_count_is_good_for_one_request() {
        let table = table();
        let id = issue(&table, 0);
        assert!(table.use_count(id, None, 10, at(0), LIFETIME, 100));
        assert!(table.use_count(id, None, 10, at(0), LIFETIME, 100));
        assert!(!table.use_count(id, None, 11, at(0), LIFETIME, 100));
        for count in [0, 1, 5, u32::MAX] {
            assert!(!table.use_count(id, Some(count), 11, at(0), LIFETIME, 100), "{count}");
        }
        let id = issue(&table, 0);
        assert!(table.use_count(id, Some(7), 10, at(0), LIFETIME, 100));
        assert!(!table.use_count(id, None, 11, at(0), LIFETIME, 100), "it was used with a count");
    }

    #[test]
    fn a_full_table_forgets_the_oldest_and_takes_no_replay_of_them() {
        let table = table();
        let ids: Vec<u64> = (0..200).map(|second| issue(&table, second)).collect();
        for &id in &ids {
            assert!(table.use_count(id, Some(1), id, at(0), LIFETIME, 64));
        }
        for &id in &ids {
            assert!(!table.use_count(id, Some(1), id + 1, at(0), LIFETIME, 64), "a replay");
        }
        let kept: usize = table.shards.iter().map(|shard| shard.lock().in_use.len()).sum();
        assert!(kept <= 64, "{kept}");
    }

    #[test]
    fn nonces_of_a_life_before_are_stale() {
        let table = table();
        let (before, after) = (issue(&table, 9), issue(&table, 10));
        table.forget_before(at(10));
        assert!(!table.use_count(before, Some(1), 0, at(0), LIFETIME, 100));
        assert!(table.use_count(after, Some(1), 0, at(0), LIFETIME, 100));
    }

    #[test]
    fn expired_nonces_are_forgotten() {
        let table = table();
        for second in 0..100 {
            let id = issue(&table, second);
            assert!(table.use_count(id, Some(1), 0, at(second), Duration::ZERO, 1000));
        }
        let kept: usize = table.shards.iter().map(|shard| shard.lock().in_use.len()).sum();
        assert!(kept <= SHARDS, "{kept}");
    }
}
