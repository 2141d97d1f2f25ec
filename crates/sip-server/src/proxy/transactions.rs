//! The table of requests in progress. A context is found by the server transaction of the request,
//! or by the branch parameter of a response.

use super::budget::{Budget, OverLimit};
use super::calls::Calls;
use super::context::Context;
use super::via_branch::{DialogFields, ViaBranch};
use crate::core::address_of_record::AddressOfRecord;
use crate::core::event::Env;
use crate::core::flow::Connection;
use crate::core::keys::Key;
use crate::core::payers::Payers;
use crate::core::source::Account;
use crate::core::ticket::Handle;
use crate::core::timer::TimerQueue;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use hashbrown::HashTable;
use lock_api::{Mutex, RawMutex};
use sip::transaction::server_key;
use sip::{Deadline, Instant, Message};

/// The number of shards, each with its own lock. At most 256.
const SHARDS: usize = 64;

/// The table of contexts.
pub(crate) struct Transactions<R: RawMutex> {
    shards: Box<[Mutex<R, Shard>]>,
    /// The time of the next timer of each shard, in microseconds, to be read without the lock.
    next_timers: Box<[AtomicU64]>,
    key: Key,
    serial: AtomicU64,
    count: AtomicUsize,
    budget: Budget,
    calls: Calls<R>,
}

#[derive(Default)]
struct Shard {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The slots that hold a context, by its key.
    index: HashTable<u32>,
    timers: TimerQueue<u32>,
}

/// A place for a context. The fields of the timer queue are beside the context, so that a reminder
/// does not load a context without a due timer: most contexts have left the processor cache by
/// then.
struct Slot {
    context: Option<Box<Context>>,
    /// Bytes charged for the context, and the accounts that are charged.
    bytes: u32,
    payers: Payers,
    /// The key of the server transaction, while there is a context.
    key: u64,
    /// The next timer of the context.
    due: Deadline,
    /// The earliest reminder of this slot in the queue, even if the slot has another context by
    /// then, or never. Other reminders of the slot are ignored.
    reminder: Deadline,
}

impl Slot {
    const EMPTY: Self = Self {
        context: None,
        bytes: 0,
        payers: Payers::NONE,
        key: 0,
        due: Deadline::NEVER,
        reminder: Deadline::NEVER,
    };
}

impl<R: RawMutex> Transactions<R> {
    pub(crate) fn new(key: Key, budget: Key) -> Self {
        Self {
            budget: Budget::new(budget),
            calls: Calls::new(),
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            next_timers: (0..SHARDS).map(|_| AtomicU64::new(u64::MAX)).collect(),
            key,
            serial: AtomicU64::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// The number of contexts.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The memory that all contexts use, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.budget.total()
    }

    /// Returns the payers of a request from `account` by `user`. `None` stands for an unlimited
    /// source or an unauthenticated sender.
    pub(crate) fn payers(
        &self,
        account: Option<Account>,
        user: Option<&AddressOfRecord>,
    ) -> Payers {
        self.budget.payers(account, user)
    }

    /// The number of contexts without a final response.
    pub(crate) fn unanswered(&self) -> usize {
        let waiting = |shard: &Mutex<R, Shard>| {
            let shard = shard.lock();
            let contexts = shard.slots.iter().filter_map(|slot| slot.context.as_ref());
            contexts.filter(|context| !context.has_final()).count()
        };
        self.shards.iter().map(waiting).sum()
    }

    /// The key of the server transaction of a request (RFC 3261 section 17.2.3). ACK and CANCEL
    /// have the key of their INVITE.
    pub(crate) fn key_of(&self, request: &Message<'_>) -> u64 {
        server_key(request, |parts| self.key.hash(parts))
    }

    /// Calls `act` with the context of the server transaction `key`, if there is one.
    pub(crate) fn with_key<T>(
        &self,
        key: u64,
        env: &mut Env<'_>,
        act: impl FnOnce(&mut Context, &mut Env<'_>) -> T,
    ) -> Option<T> {
        let number = shard_of(key);
        let mut shard = self.shards[number].lock();
        let slot = shard.find(key)?;
        let result = act(shard.slots.get_mut(slot as usize)?.context.as_mut()?, env);
        self.settle(&mut shard, number, slot);
        Some(result)
    }

    /// Calls `act` with the context that `handle` names, if it still exists.
    pub(crate) fn with_handle<T>(
        &self,
        handle: Handle,
        env: &mut Env<'_>,
        act: impl FnOnce(&mut Context, &mut Env<'_>) -> T,
    ) -> Option<T> {
        let number = usize::from(handle.shard);
        let mut shard = self.shards.get(number)?.lock();
        let context = shard.slots.get_mut(handle.slot as usize)?.context.as_mut()?;
        if context.handle != handle {
            return None;
        }
        let result = act(context, env);
        self.settle(&mut shard, number, handle.slot);
        Some(result)
    }

    /// The result of `look` at the context that `handle` names, if it still exists.
    #[cfg(feature = "office")]
    pub(crate) fn read<T>(&self, handle: Handle, look: impl FnOnce(&Context) -> T) -> Option<T> {
        let shard = self.shards.get(usize::from(handle.shard))?.lock();
        let context = shard.slots.get(handle.slot as usize)?.context.as_ref()?;
        (context.handle == handle).then(|| look(context))
    }

    /// Calls `act` with the context of `branch`. `said`, of a response or a sent request, must be
    /// the identifying fields of the request.
    pub(crate) fn with_branch<T>(
        &self,
        branch: &ViaBranch,
        said: &DialogFields<'_>,
        env: &mut Env<'_>,
        act: impl FnOnce(&mut Context, u8, &mut Env<'_>) -> T,
    ) -> Option<T> {
        let act = |context: &mut Context, index, env: &mut Env<'_>| {
            context.has_said(said, env).then(|| act(context, index, env))
        };
        self.with_own_branch(branch, env, act).flatten()
    }

    /// Calls `act` with the context of `branch`, which this server has made, and its index there.
    pub(crate) fn with_own_branch<T>(
        &self,
        branch: &ViaBranch,
        env: &mut Env<'_>,
        act: impl FnOnce(&mut Context, u8, &mut Env<'_>) -> T,
    ) -> Option<T> {
        let ViaBranch::Stateful { shard: number, slot, index, seal, .. } = *branch else {
            return None;
        };
        let mut shard = self.shards.get(usize::from(number))?.lock();
        let context = shard.slots.get_mut(slot as usize)?.context.as_mut()?;
        if !context.has_seal(index, seal) {
            return None;
        }
        let result = act(context, index, env);
        self.settle(&mut shard, usize::from(number), slot);
        Some(result)
    }

    /// Notifies the contexts that depend on the ended `connection`.
    pub(crate) fn end_connection(&self, connection: Connection, env: &mut Env<'_>) {
        for handle in self.calls.take(connection) {
            self.with_handle(handle, env, |context, env| context.on_ended(connection, env));
        }
    }

    /// Creates a context with `start`, unless the request has one already. `payers` are charged for
    /// it, with about `bytes` at first. Fails if a limit is reached.
    pub(crate) fn insert(
        &self,
        key: u64,
        payers: Payers,
        bytes: usize,
        env: &mut Env<'_>,
        start: impl FnOnce(Handle, &mut Env<'_>) -> Context,
    ) -> Result<(), OverLimit> {
        let limits = &env.settings.config.limits;
        let number = shard_of(key);
        let mut shard = self.shards[number].lock();
        if shard.find(key).is_some() {
            return Ok(());
        }
        if self.len() >= limits.max_transactions {
            return Err(OverLimit::Server);
        }
        self.budget.check(&payers, bytes, limits.max_transaction_bytes)?;
        let slot = match shard.free.pop() {
            Some(slot) => slot,
            None => {
                shard.slots.push(Slot::EMPTY);
                (shard.slots.len() - 1) as u32
            }
        };
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        // The time is included because the serial number starts again when the server restarts.
        let time = env.now.as_micros();
        let id = self.key.proof(&[&serial.to_le_bytes(), &time.to_le_bytes()]) & 0xffff_ffff_ffff;
        let handle = Handle { shard: number as u8, slot, id };
        let context = start(handle, env);
        let Shard { slots, index, .. } = &mut *shard;
        slots[slot as usize].context = Some(Box::new(context));
        slots[slot as usize].key = key;
        slots[slot as usize].payers = payers;
        index.insert_unique(key, slot, |&slot| slots[slot as usize].key);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.settle(&mut shard, number, slot);
        Ok(())
    }

    /// Runs the timers that are due, except in shards that another thread has locked.
    pub(crate) fn on_timer(&self, env: &mut Env<'_>) {
        for (number, next) in self.next_timers.iter().enumerate() {
            if next.load(Ordering::Relaxed) > env.now.as_micros() {
                continue;
            }
            // The other thread may run these timers. If it does not, they stay due.
            let Some(mut shard) = self.shards[number].try_lock() else { continue };
            while let Some((when, at)) = shard.timers.pop_due(env.now) {
                let Some(slot) = shard.slots.get_mut(at as usize) else { continue };
                if slot.reminder != when.into() {
                    // An earlier reminder has replaced this one.
                    continue;
                }
                slot.reminder = Deadline::NEVER;
                if slot.due.passed(env.now).is_none() {
                    shard.remind(at);
                    continue;
                }
                if let Some(context) = &mut slot.context {
                    context.on_timer(env);
                }
                self.settle(&mut shard, number, at);
            }
            self.publish(&shard, number);
        }
    }

    /// The time at which [`Transactions::on_timer`] must be called.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let next = self.next_timers.iter().map(|next| next.load(Ordering::Relaxed)).min();
        next.filter(|&next| next != u64::MAX).map(Instant::from_micros)
    }

    /// Completes a change of the context in a slot: updates its charge and its timers, or drops it
    /// if it is over.
    fn settle(&self, shard: &mut Shard, number: usize, at: u32) {
        let Some(slot) = shard.slots.get_mut(at as usize) else { return };
        let Some(context) = &mut slot.context else { return };
        let handle = context.handle;
        for &connection in context.newly_on() {
            self.calls.add(connection, handle);
        }
        let bytes = if context.is_over() { 0 } else { context.bytes() as u32 };
        self.budget.change(&slot.payers, slot.bytes as usize, bytes as usize);
        slot.bytes = bytes;
        if context.is_over() {
            for &connection in context.is_on() {
                self.calls.remove(connection, context.handle);
            }
            // The reminder stays in the queue, for the next context in the slot.
            (slot.context, slot.due) = (None, Deadline::NEVER);
            shard.free.push(at);
            if let Ok(entry) = shard.index.find_entry(slot.key, |&entry| entry == at) {
                entry.remove();
            }
            self.count.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        slot.due = context.next_timer().into();
        if shard.remind(at) {
            self.publish(shard, number);
        }
    }

    fn publish(&self, shard: &Shard, number: usize) {
        let next = shard.timers.next().map_or(u64::MAX, Instant::as_micros);
        self.next_timers[number].store(next, Ordering::Relaxed);
    }
}

impl Shard {
    /// Returns the slot of the context with this key.
    fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |&slot| self.slots[slot as usize].key == key).copied()
    }

    /// Adds a reminder for the slot at `at` if the queue has none that is early enough. Returns
    /// true if one was added.
    fn remind(&mut self, at: u32) -> bool {
        let slot = &mut self.slots[at as usize];
        let Some(due) = slot.due.time().filter(|_| slot.due < slot.reminder) else { return false };
        slot.reminder = slot.due;
        self.timers.push(due, at);
        true
    }
}

fn shard_of(key: u64) -> usize {
    // The hash table uses bits from both ends of the key.
    (key >> 40) as usize % SHARDS
}
