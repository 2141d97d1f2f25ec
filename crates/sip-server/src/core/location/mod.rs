//! The users and their bindings: the location service of RFC 3261 section 10, and the digest
//! secrets, found by one hash lookup.

mod changes;
mod connections;
mod contacts;
mod login;
mod stored;
mod subscriber;
pub(crate) mod tombstones;

pub(crate) use changes::{Changed, Replaced};
pub(crate) use subscriber::Subscriber;

use crate::core::address_of_record::AddressOfRecord;
use crate::core::binding::Binding;
use crate::core::counters::Counters;
use crate::core::ended::{Ended, OnConnection, Phone};
use crate::core::flow::{Connection, Flow};
use crate::core::keys::Key;
use crate::core::logins::{AuthNames, Logins};
use crate::core::output::Output;
use crate::core::timer::TimerQueue;
use crate::core::undo::Undo;
use alloc::boxed::Box;
use alloc::vec::Vec;
use changes::{Restoring, journal};
use connections::Connections;
use contacts::Contacts;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use hashbrown::HashTable;
use lock_api::{Mutex, RawMutex};
use sip::{Deadline, Duration, Instant, SipUri};
use smallvec::SmallVec;
use subscriber::Known;
#[cfg(feature = "office")]
use tombstones::Tombstone;
use tombstones::Tombstones;

/// The number of shards, each with its own lock.
pub(crate) const SHARDS: usize = 64;

/// The maximum number of obsolete expiry reminders in a shard, beyond a few for each user.
const SPARE_REMINDERS: usize = 1024;

#[derive(Debug, Default)]
struct Shard {
    table: HashTable<Subscriber>,
    expiries: TimerQueue<u64>,
    /// The sequence number of the last record. Records are compared only with records of the same
    /// address-of-record.
    sequence: u64,
    ended: Ended,
    /// Set while stored records are restored.
    restoring: Option<Box<Restoring>>,
}

/// The location service: all users and bindings.
pub(crate) struct LocationService<R: RawMutex> {
    shards: Box<[Mutex<R, Shard>]>,
    key: Key,
    contacts: Contacts<R>,
    connections: Connections<R>,
    auth_names: AuthNames<R>,
    users: AtomicUsize,
    registered: AtomicUsize,
    bindings: AtomicUsize,
    /// The earliest possible expiry of a binding, in microseconds.
    next_expiry: AtomicU64,
}

impl<R: RawMutex> LocationService<R> {
    pub(crate) fn new(key: Key, contacts: Key) -> Self {
        Self {
            contacts: Contacts::new(contacts),
            connections: Connections::new(),
            auth_names: AuthNames::new(),
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            key,
            users: AtomicUsize::new(0),
            registered: AtomicUsize::new(0),
            bindings: AtomicUsize::new(0),
            next_expiry: AtomicU64::new(u64::MAX),
        }
    }

    /// Returns the address-of-record of `user` (without escapes) in `domain`.
    pub(crate) fn address_of_record(&self, user: &[u8], domain: &str) -> AddressOfRecord {
        let mut bytes: SmallVec<[u8; 64]> = SmallVec::from_slice(user);
        bytes.push(b'@');
        bytes.extend_from_slice(domain.as_bytes());
        AddressOfRecord::new(&self.key, bytes)
    }

    pub(crate) fn canonical(&self, bytes: &[u8]) -> AddressOfRecord {
        AddressOfRecord::new(&self.key, SmallVec::from_slice(bytes))
    }

    fn shard(&self, hash: u64) -> &Mutex<R, Shard> {
        // The hash table uses bits from both ends of the hash.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    /// Calls `look` with the subscriber, if there is one.
    pub(crate) fn look_up<T>(
        &self,
        address: &AddressOfRecord,
        look: impl FnOnce(Option<&Subscriber>) -> T,
    ) -> T {
        let shard = self.shard(address.hash()).lock();
        look(
            shard
                .table
                .find(address.hash(), |found| *found.address_of_record == *address.as_bytes()),
        )
    }

    /// The phone of `address` that was registered on the connection of `flow`, if it has ended.
    pub(crate) fn phone_once_on(
        &self,
        address: &AddressOfRecord,
        flow: &Flow,
        now: Instant,
    ) -> Option<Phone> {
        let shard = self.shard(address.hash()).lock();
        shard.ended.phone(address.hash(), flow.connection?, now)
    }

    /// The identity of the phone of `binding`.
    pub(crate) fn phone_of(&self, binding: &Binding) -> Phone {
        binding.phone(&self.key)
    }

    /// Returns the address-of-record with this hash, if there is a subscriber with it.
    pub(crate) fn address_with_hash(&self, hash: u64) -> Option<AddressOfRecord> {
        let shard = self.shard(hash).lock();
        let is_it = |found: &Subscriber| self.key.hash_one(&found.address_of_record) == hash;
        let found = shard.table.find(hash, is_it)?;
        Some(self.canonical(&found.address_of_record))
    }

    /// Calls `change` with the subscriber, and writes the change to the journal if `change` reports
    /// one. If there is no such user and `create` is set, a subscriber is added that exists as long
    /// as its bindings. Otherwise returns `None`.
    pub(crate) fn update<T>(
        &self,
        address: &AddressOfRecord,
        create: bool,
        out: &mut Output,
        change: impl FnOnce(&mut Subscriber) -> (T, Changed),
    ) -> Option<T> {
        let mut shard = self.shard(address.hash()).lock();
        let Shard { table, expiries, sequence, ended, .. } = &mut *shard;
        let found = table
            .find_entry(address.hash(), |found| *found.address_of_record == *address.as_bytes());
        let mut entry = match found {
            Ok(entry) => entry,
            Err(_) if !create => return None,
            Err(absent) => absent.into_table().insert_unique(
                address.hash(),
                Subscriber {
                    address_of_record: SmallVec::from_slice(address.as_bytes()),
                    logins: None,
                    bindings: Vec::new(),
                    tombstones: Tombstones::default(),
                    reminder: Deadline::NEVER,
                },
                |other| self.key.hash_one(&other.address_of_record),
            ),
        };
        let subscriber = entry.get_mut();
        let before = subscriber.known(&self.key);
        let (result, changed) = change(subscriber);
        // Expired bindings may have been dropped even if nothing else changed.
        self.tell(address.hash(), &before, subscriber, ended);
        let is_news = self.remind(subscriber, address.hash(), expiries);
        match changed {
            Changed::No => {}
            Changed::Yes => drop(journal(subscriber, &before, sequence, out)),
            Changed::Undoable(Replaced { call_id, bindings: removed }) => {
                let added = journal(subscriber, &before, sequence, out);
                let (address, is_user) = (address.clone(), subscriber.logins.is_some());
                out.undo.push(Undo { address, is_user, call_id, added, removed });
            }
        }
        if subscriber.bindings.is_empty() && subscriber.logins.is_none() {
            entry.remove();
        }
        if is_news && expiries.len() > 4 * table.len() + SPARE_REMINDERS {
            self.remind_anew(table, expiries);
        }
        Some(result)
    }

    /// Adds a user, or sets a new password, which removes the bindings made with the old one.
    pub(crate) fn add_user(&self, canonical: &[u8], logins: Logins, out: &mut Output) {
        let address = self.canonical(canonical);
        let new_name = auth_name(&logins);
        let before = self.update(&address, true, out, |subscriber| {
            let before = subscriber.logins.replace(Box::new(logins));
            let password =
                |logins: &Option<Box<Logins>>| logins.as_ref().map(|logins| logins.by_name.clone());
            let is_changed = before.is_some() && password(&before) != password(&subscriber.logins);
            let ends = is_changed && !subscriber.bindings.is_empty();
            if ends {
                subscriber.bindings.clear();
            }
            (before, if ends { Changed::Yes } else { Changed::No })
        });
        let before = before.flatten();
        let old_name = before.as_deref().and_then(auth_name);
        self.auth_names.change(canonical, old_name.as_deref(), new_name.as_deref());
        if before.is_none() {
            self.users.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Removes a user and the bindings of the user. Returns false if there is no such user.
    pub(crate) fn remove_user(&self, canonical: &[u8], out: &mut Output) -> bool {
        let address = self.canonical(canonical);
        let removed = self.update(&address, false, out, |subscriber| {
            let had_bindings = !subscriber.bindings.is_empty();
            subscriber.bindings.clear();
            let changed = if had_bindings { Changed::Yes } else { Changed::No };
            (subscriber.logins.take(), changed)
        });
        let Some(removed) = removed.flatten() else { return false };
        self.auth_names.change(canonical, auth_name(&removed).as_deref(), None);
        self.users.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Removes the bindings of a user, or that of the URI `contact` only. Copies of their REGISTERs
    /// are expected until `copies_until`, and do not restore them. Returns the number of removed
    /// bindings.
    #[cfg(feature = "office")]
    pub(crate) fn end_bindings(
        &self,
        canonical: &[u8],
        contact: Option<&[u8]>,
        copies_until: Instant,
        out: &mut Output,
    ) -> usize {
        let ended = self.update(&self.canonical(canonical), false, out, |subscriber| {
            let Subscriber { bindings, tombstones, .. } = subscriber;
            let ends = |binding: &mut Binding| contact.is_none_or(|uri| *binding.contact == *uri);
            let ended: Vec<Binding> = bindings.extract_if(.., ends).collect();
            for &Binding { call_id, cseq, .. } in &ended {
                let until = copies_until;
                tombstones.note(Tombstone { call_id, cseq, removes: false, until });
            }
            (ended.len(), if ended.is_empty() { Changed::No } else { Changed::Yes })
        });
        ended.unwrap_or_default()
    }

    /// Returns the key of the contact `uri` of `binding` in [`Contacts`].
    pub(crate) fn claim(&self, binding: &Binding, uri: &SipUri<'_>) -> u64 {
        if binding.flow_bound { self.contacts.claim(uri, &binding.flow) } else { 0 }
    }

    /// Applies `look` to the bindings of the phone registered at `uri`, the newest first. One user
    /// may have several bindings there, each behind another NAT. If several users claim the URI,
    /// the user is `called`, or else the one with the oldest claim. A user has no claim to a URI
    /// that names another user of the domain.
    pub(crate) fn look_up_contact<T>(
        &self,
        uri: &SipUri<'_>,
        called: Option<&AddressOfRecord>,
        now: Instant,
        look: impl FnMut(&Binding) -> Option<T>,
    ) -> SmallVec<[T; 1]> {
        let (claim, mut addresses) = self.contacts.find(uri);
        addresses.retain(|address| !self.names_another(uri, *address));
        let called = called.map(|called| called.hash()).filter(|hash| addresses.contains(hash));
        let Some(address) = called.or(addresses.first().copied()) else { return SmallVec::new() };
        let shard = self.shard(address).lock();
        let is_it = |found: &Subscriber| self.key.hash_one(&found.address_of_record) == address;
        let bindings = shard.table.find(address, is_it).map(|found| found.current(now).rev());
        let there = bindings.into_iter().flatten().filter(|binding| binding.claim == claim);
        there.filter_map(look).collect()
    }

    /// True if the user part of `uri` is the name of another user in the domain of `address`.
    fn names_another(&self, uri: &SipUri<'_>, address: u64) -> bool {
        let Some(claimant) = self.address_with_hash(address) else { return true };
        let user = sip::uri::unescape(uri.user.unwrap_or_default());
        let at = claimant.as_bytes().iter().rposition(|&byte| byte == b'@').unwrap_or_default();
        let named = self.canonical(&[&user, &claimant.as_bytes()[at..]].concat());
        named.hash() != address
            && self.look_up(&named, |found| found.is_some_and(|found| found.logins.is_some()))
    }

    /// Removes the bindings that have expired.
    pub(crate) fn expire(&self, now: Instant, out: &mut Output, counters: &Counters) {
        if self.next_expiry.load(Ordering::Relaxed) > now.as_micros() {
            return;
        }
        self.next_expiry.store(u64::MAX, Ordering::Relaxed);
        for shard in &self.shards {
            let mut shard = shard.lock();
            let Shard { table, expiries, sequence, ended, .. } = &mut *shard;
            while let Some((when, hash)) = expiries.pop_due(now) {
                let Ok(mut entry) = table
                    .find_entry(hash, |found| self.key.hash_one(&found.address_of_record) == hash)
                else {
                    continue;
                };
                let subscriber = entry.get_mut();
                if subscriber.reminder != when.into() {
                    // An earlier reminder has replaced this one.
                    continue;
                }
                subscriber.reminder = Deadline::NEVER;
                let is_kept = |binding: &Binding| binding.expires > now;
                for _ in 0..self.retain(hash, subscriber, (sequence, ended), out, is_kept) {
                    counters.expired_bindings.add();
                }
                self.remind(subscriber, hash, expiries);
                if subscriber.bindings.is_empty() && subscriber.logins.is_none() {
                    entry.remove();
                }
            }
            if let Some(next) = expiries.next() {
                self.next_expiry.fetch_min(next.as_micros(), Ordering::Relaxed);
            }
        }
    }

    /// Records that a connection was opened.
    pub(crate) fn open_connection(&self, connection: Connection) {
        self.connections.open(connection);
    }

    /// True if the connection of `flow` is open. An internal flow always is.
    pub(crate) fn is_open(&self, flow: &Flow) -> bool {
        flow.is_internal()
            || flow.connection.is_some_and(|connection| self.connections.is_open(connection))
    }

    /// True if the phone of `binding` sleeps at `now`.
    #[cfg(feature = "office")]
    pub(crate) fn is_asleep(&self, binding: &Binding, now: Instant) -> bool {
        binding.awake_until().is_some_and(|until| match binding.flow.transport.is_stream() {
            true => !self.is_open(&binding.flow),
            false => until <= now,
        })
    }

    /// Removes the bindings on a connection that has ended.
    pub(crate) fn end_connection(
        &self,
        connection: Connection,
        out: &mut Output,
        counters: &Counters,
    ) {
        for hash in self.connections.end(connection) {
            let mut shard = self.shard(hash).lock();
            let Shard { table, sequence, ended, .. } = &mut *shard;
            let is_it = |found: &Subscriber| self.key.hash_one(&found.address_of_record) == hash;
            let Ok(mut entry) = table.find_entry(hash, is_it) else { continue };
            let subscriber = entry.get_mut();
            let is_kept = |binding: &Binding| binding.connection() != Some(connection);
            for _ in 0..self.retain(hash, subscriber, (sequence, ended), out, is_kept) {
                counters.lost_bindings.add();
            }
            if subscriber.bindings.is_empty() && subscriber.logins.is_none() {
                entry.remove();
            }
        }
    }

    /// Keeps only the bindings for which `is_kept` returns true. Returns the number of removed
    /// bindings.
    fn retain(
        &self,
        hash: u64,
        subscriber: &mut Subscriber,
        (sequence, ended): (&mut u64, &mut Ended),
        out: &mut Output,
        is_kept: impl Fn(&Binding) -> bool,
    ) -> usize {
        let before = subscriber.known(&self.key);
        subscriber.bindings.retain(is_kept);
        let gone = before.bindings - subscriber.bindings.len();
        if gone > 0 {
            self.tell(hash, &before, subscriber, ended);
            journal(subscriber, &before, sequence, out);
        }
        gone
    }

    /// Updates the other tables after a change of the bindings of a subscriber. Bindings on
    /// connections that have ended meanwhile, or before a restart, are dropped.
    fn tell(&self, hash: u64, before: &Known, subscriber: &mut Subscriber, ended: &mut Ended) {
        let after = subscriber.connections(&self.key);
        let has = |all: &[OnConnection], one: &OnConnection| {
            all.iter().any(|other| other.connection == one.connection)
        };
        for new in after.iter().filter(|now| !has(&before.connections, now)) {
            let connection = new.connection;
            if !self.connections.add(connection, hash) {
                subscriber.bindings.retain(|binding| binding.connection() != Some(connection));
            }
        }
        for &gone in before.connections.iter().filter(|then| !has(&after, then)) {
            self.connections.remove(gone.connection, hash);
            ended.note(hash, gone);
        }
        self.contacts.change(hash, &before.claims, &subscriber.claims());
        self.count(before.bindings, subscriber.bindings.len());
    }

    /// The time at which [`LocationService::expire`] must be called.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let next = self.next_expiry.load(Ordering::Relaxed);
        (next != u64::MAX).then(|| Instant::from_micros(next))
    }

    /// Calls `each` with every current binding of a shard and its address-of-record.
    pub(crate) fn for_each(
        &self,
        shard: usize,
        now: Instant,
        each: &mut dyn FnMut(&[u8], &Binding),
    ) {
        let Some(shard) = self.shards.get(shard) else { return };
        for subscriber in &shard.lock().table {
            for binding in subscriber.current(now) {
                each(&subscriber.address_of_record, binding);
            }
        }
    }

    pub(crate) fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    pub(crate) fn registered(&self) -> usize {
        self.registered.load(Ordering::Relaxed)
    }

    pub(crate) fn bindings(&self) -> usize {
        self.bindings.load(Ordering::Relaxed)
    }

    fn count(&self, before: usize, after: usize) {
        if before == after {
            return;
        }
        self.bindings.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
        match (before, after) {
            (0, 1..) => self.registered.fetch_add(1, Ordering::Relaxed),
            (1.., 0) => self.registered.fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Builds the queue again, without the obsolete reminders that shortened and removed
    /// registrations leave behind.
    fn remind_anew(&self, table: &mut HashTable<Subscriber>, expiries: &mut TimerQueue<u64>) {
        *expiries = TimerQueue::default();
        for subscriber in table {
            subscriber.reminder = Deadline::NEVER;
            let hash = self.key.hash_one(&subscriber.address_of_record);
            self.remind(subscriber, hash, expiries);
        }
    }

    /// Adds a reminder for the first expiry if the queue has none that is early enough. Returns
    /// true if one was added.
    fn remind(
        &self,
        subscriber: &mut Subscriber,
        hash: u64,
        expiries: &mut TimerQueue<u64>,
    ) -> bool {
        // Lookups ignore expired bindings, so their removal can be delayed and batched.
        const LATENESS: Duration = Duration::from_secs(1);
        let earliest = subscriber.bindings.iter().map(|binding| binding.expires).min();
        let Some(when) = earliest.map(|earliest| earliest + LATENESS) else { return false };
        let is_news = Deadline::from(when) < subscriber.reminder;
        if is_news {
            subscriber.reminder = when.into();
            expiries.push(when, hash);
            self.next_expiry.fetch_min(when.as_micros(), Ordering::Relaxed);
        }
        is_news
    }
}

fn auth_name(logins: &Logins) -> Option<Box<[u8]>> {
    logins.by_auth_name.as_ref().map(|auth| auth.name.clone())
}

#[cfg(test)]
mod tests;
