//! All calls of a scenario, by Call-ID and by the time of their timers.

use super::call::Call;
use super::counts::Cause;
use super::dialog::Dialog;
use super::message;
use super::perform::perform;
use super::world::{MediaCommand, MediaOrder, Peer, World};
use sip::Instant;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;

/// The calls of a scenario.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) world: World,
    calls: Vec<Option<Box<Call>>>,
    free: Vec<usize>,
    by_id: HashMap<Vec<u8>, usize>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    /// The time of the entry of each call in `timers`.
    scheduled: Vec<Option<Instant>>,
    /// The users without a call.
    free_users: Vec<usize>,
    number: u64,
    /// The limit of simultaneous calls.
    limit: usize,
}

impl Engine {
    /// Returns the engine without calls. The steps of `<init>` are executed.
    ///
    /// # Errors
    /// [`Cause`] if they fail.
    pub(super) fn new(mut world: World, limit: usize, now: Instant) -> Result<Self, Cause> {
        let init = world.script.init.clone();
        if !init.is_empty() {
            let peer = Peer { address: world.settings.remote, connection: None };
            let mut dialog = Dialog::new(0, Vec::new(), None, peer, &mut world);
            for step in &init {
                perform(&step.actions, &mut dialog, &mut world, 0, now)?;
            }
        }
        let users = world.settings.users.unwrap_or_default();
        Ok(Self {
            world,
            calls: Vec::new(),
            free: Vec::new(),
            by_id: HashMap::new(),
            timers: BinaryHeap::new(),
            scheduled: Vec::new(),
            free_users: (0..users).rev().collect(),
            number: 0,
            limit,
        })
    }

    /// Returns the number of calls in progress.
    pub(super) fn len(&self) -> usize {
        self.calls.len() - self.free.len()
    }

    /// Starts a call to `remote`. Returns false if as many as allowed are in progress.
    pub(super) fn start(&mut self, remote: SocketAddr, now: Instant) -> bool {
        let user = match self.world.settings.users {
            None => None,
            Some(_) => match self.free_users.pop() {
                Some(user) => Some(user),
                None => {
                    self.world.counts.held_back += 1;
                    return false;
                }
            },
        };
        if self.len() >= self.limit {
            self.world.counts.held_back += 1;
            self.free_users.extend(user);
            return false;
        }
        self.number += 1;
        let settings = &self.world.settings;
        let (number, stamp, ip) = (self.number, settings.stamp, settings.local.ip());
        let id = format!("{number}-{}-{stamp:x}@{ip}", std::process::id()).into_bytes();
        let peer = Peer { address: remote, connection: None };
        self.add(id, user, peer, now, |call, world| call.advance(world, now));
        true
    }

    fn add(
        &mut self,
        id: Vec<u8>,
        user: Option<usize>,
        peer: Peer,
        now: Instant,
        first: impl FnOnce(&mut Call, &mut World),
    ) {
        let dialog = Dialog::new(self.number, id.clone(), user, peer, &mut self.world);
        let mut call = Box::new(Call::new(dialog, &self.world, now));
        let counts = &mut self.world.counts;
        counts.started += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.calls.push(None);
            self.scheduled.push(None);
            self.calls.len() - 1
        });
        self.by_id.insert(id, slot);
        first(&mut call, &mut self.world);
        self.calls[slot] = Some(call);
        self.world.counts.peak = self.world.counts.peak.max(self.len() as u64);
        self.settle(slot);
    }

    /// Handles a message from `peer`.
    pub(super) fn receive(&mut self, peer: Peer, bytes: &[u8], now: Instant) {
        let id = message::call_id(bytes).filter(|id| !id.is_empty());
        let (Some(id), Some(_)) = (id, message::cseq(bytes)) else {
            // An empty line keeps a connection alive (RFC 5626 section 4.4.1).
            self.world.counts.malformed += u64::from(!bytes.trim_ascii().is_empty());
            return;
        };
        if let Some(&slot) = self.by_id.get(id) {
            if let Some(call) = &mut self.calls[slot] {
                if self.world.script.is_server {
                    call.dialog.peer = peer;
                }
                call.receive(bytes, &mut self.world, now);
            }
            return self.settle(slot);
        }
        let is_new = message::status(bytes).is_none() && !self.world.ended.has(id);
        if self.world.ended.has(id) {
            self.world.counts.late += 1;
        } else if !is_new || !self.world.script.is_server || message::method(bytes) == b"ACK" {
            self.world.counts.out_of_call += 1;
        } else if self.len() >= self.limit
            || self.world.is_stopping
            || !self.world.shared.take_call()
        {
            self.world.counts.held_back += 1;
        } else {
            self.number += 1;
            self.add(id.to_vec(), None, peer, now, |call, world| {
                // Steps before the first message, such as assignments.
                call.advance(world, now);
                if !call.is_over() {
                    call.receive(bytes, world, now);
                }
            });
        }
    }

    /// Handles the timers that are due.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(&Reverse((at, slot))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            if self.scheduled[slot] != Some(at) {
                continue;
            }
            self.scheduled[slot] = None;
            if let Some(call) = &mut self.calls[slot]
                && call.next_timer().is_some_and(|due| due <= now)
            {
                call.expire(&mut self.world, now);
            }
            self.settle(slot);
        }
    }

    /// Returns the time of the next timer.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Ends all calls as unfinished.
    pub(super) fn abandon(&mut self, now: Instant) {
        for slot in 0..self.calls.len() {
            if let Some(call) = &mut self.calls[slot] {
                call.abandon(&mut self.world, now);
            }
            self.settle(slot);
        }
    }

    /// Removes a call that has ended, or enters its next timer.
    fn settle(&mut self, slot: usize) {
        let Some(call) = &self.calls[slot] else { return };
        if call.is_over() {
            if let Some(call) = self.calls[slot].take() {
                self.by_id.remove(&call.dialog.id);
                self.free_users.extend(call.dialog.user);
                self.world.ended.add(call.dialog.id.clone());
                let (call, order) = (call.dialog.number, MediaOrder::Stop);
                self.world.media.push(MediaCommand { call, order });
            }
            self.scheduled[slot] = None;
            self.free.push(slot);
            return;
        }
        // An entry that is earlier is checked when it is due.
        let next = call.next_timer();
        if let Some(next) = next
            && self.scheduled[slot].is_none_or(|known| next < known)
        {
            self.scheduled[slot] = Some(next);
            self.timers.push(Reverse((next, slot)));
        }
    }
}
