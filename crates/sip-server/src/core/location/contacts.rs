//! The index of addresses-of-record by contact. A request to the contact of a phone, as in an
//! attended transfer, goes to the flow of the phone (RFC 5626 section 5.3).

use crate::core::flow::Flow;
use crate::core::keys::Key;
use crate::core::reach::Scope;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use hashbrown::HashTable;
use lock_api::{Mutex, RawMutex};
use sip::{Host, SipUri};
use smallvec::SmallVec;

const SHARDS: usize = 16;

/// The claims of all bindings. A claim is the key of a contact URI.
pub(crate) struct Contacts<R: RawMutex> {
    key: Key,
    shards: Box<[Mutex<R, Claims>]>,
    /// The sequence number of the next claim.
    serial: AtomicU64,
}

type Claims = HashTable<Claim>;

/// A contact URI of an address-of-record.
struct Claim {
    /// The key from [`Contacts::claim`].
    uri: u64,
    /// The hash of the address-of-record.
    address: u64,
    serial: u64,
}

impl<R: RawMutex> Contacts<R> {
    pub(crate) fn new(key: Key) -> Self {
        Self {
            key,
            shards: (0..SHARDS).map(|_| Mutex::new(HashTable::new())).collect(),
            serial: AtomicU64::new(0),
        }
    }

    /// Returns the key of the contact `uri` of a phone on `flow`, if requests to it must follow
    /// that flow. Returns zero if there is no evidence that the phone has this address: then it has
    /// no claim to requests to that address.
    pub(crate) fn claim(&self, uri: &SipUri<'_>, flow: &Flow) -> u64 {
        let is_its_own = match uri.host {
            Host::Ip(ip) => ip.to_canonical() == flow.remote.ip() || Scope::of(ip) > Scope::Global,
            // A phone that does not know its address uses a name in `.invalid` (RFC 5626 section
            // 4.1, RFC 7118 section 5).
            Host::Name(name) => {
                name.len() > 8 && name[name.len() - 8..].eq_ignore_ascii_case(b".invalid")
            }
        };
        if is_its_own { self.hash(uri) } else { 0 }
    }

    fn hash(&self, uri: &SipUri<'_>) -> u64 {
        let user = sip::uri::unescape(uri.user.unwrap_or_default());
        let port = uri.port.unwrap_or_default().to_be_bytes();
        // Zero is reserved for no claim.
        self.key.hash(&[&user, &uri.host.canonical(), &port]).max(1)
    }

    fn shard(&self, claim: u64) -> &Mutex<R, Claims> {
        &self.shards[(claim >> 40) as usize % SHARDS]
    }

    /// Changes the claims of an address-of-record.
    pub(crate) fn change(&self, address: u64, before: &[u64], after: &[u64]) {
        for &claim in before.iter().filter(|claim| !after.contains(claim)) {
            let mut shard = self.shard(claim).lock();
            let is_it = |known: &Claim| (known.uri, known.address) == (claim, address);
            if let Ok(entry) = shard.find_entry(claim, is_it) {
                entry.remove();
            }
        }
        for (at, &claim) in after.iter().enumerate() {
            if claim != 0 && !before.contains(&claim) && !after[..at].contains(&claim) {
                let serial = self.serial.fetch_add(1, Ordering::Relaxed);
                let new = Claim { uri: claim, address, serial };
                self.shard(claim).lock().insert_unique(claim, new, |known| known.uri);
            }
        }
    }

    /// Returns the key of `uri`, and the hashes of the addresses-of-record with that contact, the
    /// oldest claim first.
    pub(crate) fn find(&self, uri: &SipUri<'_>) -> (u64, SmallVec<[u64; 2]>) {
        let claim = self.hash(uri);
        let mut found: SmallVec<[(u64, u64); 2]> = {
            let shard = self.shard(claim).lock();
            let known = shard.iter_hash(claim).filter(|known| known.uri == claim);
            known.map(|known| (known.serial, known.address)).collect()
        };
        found.sort_unstable();
        (claim, found.into_iter().map(|(_, address)| address).collect())
    }
}
