//! All requests on their way: found by the transaction of the request, or by the branch of a
//! response.

use super::budget::{Budget, Lacking, Payers};
use super::calls::Calls;
use super::context::Context;
use super::via_branch::{self, Handle, ViaBranch};
use crate::event::Env;
use crate::flow::Connection;
use crate::keys::Key;
use crate::location::AddressOfRecord;
use crate::source::Account;
use crate::timer::TimerQueue;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use hashbrown::HashTable;
use lock_api::{Mutex, RawMutex};
use sip::transaction::server_key;
use sip::{Deadline, Instant, Message};

/// How many parts the contexts are spread over, each with a lock of its own. At most 256.
const SHARDS: usize = 64;

/// The table of contexts.
pub(crate) struct Transactions<R: RawMutex> {
    shards: Box<[Mutex<R, Shard>]>,
    /// When each shard has a timer due, as microseconds, so that it need not be locked to see.
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

/// A place for a context. What the timer queue has to know is kept beside it, so that a reminder
/// does not touch a context that has nothing to do: most are out of the processor's cache by then.
struct Slot {
    context: Option<Box<Context>>,
    /// Bytes of the context that are paid for, and by whom.
    bytes: u32,
    payers: Payers,
    /// The key of the server transaction, as long as there is a context.
    key: u64,
    /// When the context has something to do.
    due: Deadline,
    /// The one reminder in the queue that counts, for whatever is in the slot then; never if there
    /// is none. Others are passed over.
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

    /// How many contexts there are.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Bytes that all contexts take.
    pub(crate) fn bytes(&self) -> usize {
        self.budget.total()
    }

    /// The payers of a request that is counted for `account`, if that has a share, of `user`, if
    /// there is one.
    pub(crate) fn payers(
        &self,
        account: Option<Account>,
        user: Option<&AddressOfRecord>,
    ) -> Payers {
        self.budget.payers(account, user)
    }

    /// How many contexts have not given a final response.
    pub(crate) fn unanswered(&self) -> usize {
        let waiting = |shard: &Mutex<R, Shard>| {
            let shard = shard.lock();
            let contexts = shard.slots.iter().filter_map(|slot| slot.context.as_ref());
            contexts.filter(|context| !context.has_final()).count()
        };
        self.shards.iter().map(waiting).sum()
    }

    /// What identifies the server transaction of a request (RFC 3261 section 17.2.3). ACK and
    /// CANCEL have that of their INVITE.
    pub(crate) fn key_of(&self, request: &Message<'_>) -> u64 {
        server_key(request, |parts| self.key.hash(parts))
    }

    /// Lets `act` work on the context of the server transaction `key`, if there is one.
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

    /// Lets `act` work on the context that `handle` names, if it is still there.
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

    /// Lets `act` work on the context that `branch` is of, where `message`, a response or what was
    /// sent, says of itself what it has to.
    pub(crate) fn with_branch<T>(
        &self,
        branch: &ViaBranch,
        message: &Message<'_>,
        env: &mut Env<'_>,
        act: impl FnOnce(&mut Context, u8, &mut Env<'_>) -> T,
    ) -> Option<T> {
        let ViaBranch::Stateful { shard: number, slot, index, seal, .. } = *branch else {
            return None;
        };
        let mut shard = self.shards.get(usize::from(number))?.lock();
        let context = shard.slots.get_mut(slot as usize)?.context.as_mut()?;
        let is_its_own = via_branch::seal(&env.keys.branch, &context.handle, index) == seal;
        if !is_its_own || !context.has_said(message, env) {
            return None;
        }
        let result = act(context, index, env);
        self.settle(&mut shard, usize::from(number), slot);
        Some(result)
    }

    /// The connection has ended: contexts that depend on it are told.
    pub(crate) fn end_connection(&self, connection: Connection, env: &mut Env<'_>) {
        for handle in self.calls.take(connection) {
            self.with_handle(handle, env, |context, env| context.on_ended(connection, env));
        }
    }

    /// Makes a context with `start`, unless the request has one already or there are too many.
    /// `payers` pay for it, which will take about `bytes` at first.
    pub(crate) fn insert(
        &self,
        key: u64,
        payers: Payers,
        bytes: usize,
        env: &mut Env<'_>,
        start: impl FnOnce(Handle, &mut Env<'_>) -> Context,
    ) -> Result<(), Lacking> {
        let limits = &env.settings.config.limits;
        let number = shard_of(key);
        let mut shard = self.shards[number].lock();
        if shard.find(key).is_some() {
            return Ok(());
        }
        if self.len() >= limits.max_transactions {
            return Err(Lacking::Whole);
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
        // With the time, for the serial number begins anew in the next life of the server.
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

    /// Runs the timers that are due, but for those of contexts that another thread works on.
    pub(crate) fn on_timer(&self, env: &mut Env<'_>) {
        for (number, next) in self.next_timers.iter().enumerate() {
            if next.load(Ordering::Relaxed) > env.now.as_micros() {
                continue;
            }
            // Another thread that is at it may well be running these timers; if not, they stay due.
            let Some(mut shard) = self.shards[number].try_lock() else { continue };
            while let Some((when, at)) = shard.timers.pop_due(env.now) {
                let Some(slot) = shard.slots.get_mut(at as usize) else { continue };
                if slot.reminder != when.into() {
                    // There was an earlier one since.
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

    /// When [`Transactions::on_timer`] has something to do.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let next = self.next_timers.iter().map(|next| next.load(Ordering::Relaxed)).min();
        next.filter(|&next| next != u64::MAX).map(Instant::from_micros)
    }

    /// After a change: drops a context that is over, or sees to it that its timers are looked at.
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
            // The reminder is in the queue still, and is for what comes into the slot next.
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
    /// The slot of the context with this key.
    fn find(&self, key: u64) -> Option<u32> {
        self.index.find(key, |&slot| self.slots[slot as usize].key == key).copied()
    }

    /// Sees to it that the queue reminds of the slot at `at` when it is due. True where it would
    /// not have.
    fn remind(&mut self, at: u32) -> bool {
        let slot = &mut self.slots[at as usize];
        let Some(due) = slot.due.time().filter(|_| slot.due < slot.reminder) else { return false };
        slot.reminder = slot.due;
        self.timers.push(due, at);
        true
    }
}

fn shard_of(key: u64) -> usize {
    // The table takes its own bits from both ends of the key.
    (key >> 40) as usize % SHARDS
}
