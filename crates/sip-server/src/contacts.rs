//! Who is registered at a contact: a request whose URI is a phone's contact, as in an attended
//! transfer, goes where the phone is (RFC 5626 section 5.3).

use crate::flow::Flow;
use crate::keys::Key;
use crate::reach::Scope;
use alloc::boxed::Box;
use hashbrown::HashTable;
use lock_api::{Mutex, RawMutex};
use sip::{Host, SipUri};
use smallvec::SmallVec;

const SHARDS: usize = 16;

/// The claims of all bindings.
pub(crate) struct Contacts<R: RawMutex> {
    key: Key,
    shards: Box<[Mutex<R, Claims>]>,
}

/// Claims, each with the hash of the address of record that makes it.
type Claims = HashTable<(u64, u64)>;

impl<R: RawMutex> Contacts<R> {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, shards: (0..SHARDS).map(|_| Mutex::new(HashTable::new())).collect() }
    }

    /// What stands for the contact `uri` of a phone on `flow`, which requests to it have to follow;
    /// zero where nothing says that the phone is there: then it has no claim to what is sent there.
    pub(crate) fn claim(&self, uri: &SipUri<'_>, flow: &Flow) -> u64 {
        let is_its_own = match uri.host {
            Host::Ip(ip) => ip.to_canonical() == flow.remote.ip() || Scope::of(ip) > Scope::Global,
            // Of a phone that does not know its address (RFC 5626 section 4.1, RFC 7118 section 5).
            Host::Name(name) => {
                name.len() > 8 && name[name.len() - 8..].eq_ignore_ascii_case(b".invalid")
            }
        };
        if is_its_own { self.hash(uri) } else { 0 }
    }

    fn hash(&self, uri: &SipUri<'_>) -> u64 {
        let user = sip::uri::unescape(uri.user.unwrap_or_default());
        let port = uri.port.unwrap_or_default().to_be_bytes();
        // None is as good as another one, but for zero.
        self.key.hash(&[&user, &uri.host.canonical(), &port]).max(1)
    }

    fn shard(&self, claim: u64) -> &Mutex<R, Claims> {
        &self.shards[(claim >> 40) as usize % SHARDS]
    }

    /// The claims of the address of record change.
    pub(crate) fn change(&self, address: u64, before: &[u64], after: &[u64]) {
        for &claim in before.iter().filter(|claim| !after.contains(claim)) {
            let mut shard = self.shard(claim).lock();
            if let Ok(entry) = shard.find_entry(claim, |known| *known == (claim, address)) {
                entry.remove();
            }
        }
        for (at, &claim) in after.iter().enumerate() {
            if claim != 0 && !before.contains(&claim) && !after[..at].contains(&claim) {
                let mut shard = self.shard(claim).lock();
                shard.insert_unique(claim, (claim, address), |known| known.0);
            }
        }
    }

    /// The claim that `uri` names, and the hashes of the addresses of record that have it.
    pub(crate) fn find(&self, uri: &SipUri<'_>) -> (u64, SmallVec<[u64; 2]>) {
        let claim = self.hash(uri);
        let shard = self.shard(claim).lock();
        let known = shard.iter_hash(claim).filter(|known| known.0 == claim);
        (claim, known.map(|known| known.1).collect())
    }
}
