//! All trunks of a server.

use crate::config::TrunkConfig;
use crate::event::{Event, Ticket};
use crate::random::{ContactKey, Random};
use crate::report::{TrunkReport, TrunkView};
pub use crate::trunk::Counters;
use crate::trunk::{Shared, Trunk};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use sip::{Flow, Instant};
use sip_ua::{Location, Transmit};

/// The maximum number of trunks: their number is one byte.
const MAX_TRUNKS: usize = 256;

/// The trunks of a server: registrations, OPTIONS and the target of each.
pub struct Registry {
    trunks: Vec<Trunk>,
    /// Removed trunks: their registrations end.
    leaving: Vec<Trunk>,
    shared: Shared,
}

impl Registry {
    /// A registry without trunks. The contacts of registrations are derived from `secret`, which is
    /// kept over restarts, and all other unpredictable values from `seed`, which has to be new.
    /// `product` is the User-Agent.
    #[must_use]
    pub fn new(product: &str, secret: &[u8; 32], seed: &[u8; 32]) -> Self {
        let shared = Shared {
            product: product.into(),
            contacts: ContactKey::new(secret),
            random: Random::new(seed),
            events: VecDeque::new(),
            counters: Counters::default(),
            tickets: 0,
        };
        Self { trunks: Vec::new(), leaving: Vec::new(), shared }
    }

    /// Replaces the trunks by those of `configs`, at most 256. A trunk with an unchanged
    /// configuration keeps its state. The registrations of others end, before a trunk of
    /// the same name registers.
    pub fn configure(&mut self, now: Instant, configs: Vec<TrunkConfig>) {
        let mut before = core::mem::take(&mut self.trunks);
        for (number, config) in (0..=u8::MAX).zip(configs).take(MAX_TRUNKS) {
            let known = before.iter().position(|trunk| trunk.config == config);
            let mut trunk = match known {
                Some(known) => before.swap_remove(known),
                None => Trunk::new(number, config, &mut self.shared, now),
            };
            trunk.number = number;
            self.trunks.push(trunk);
        }
        self.remove(before, now);
    }

    /// Ends all registrations. See [`Registry::is_ending`].
    pub fn end(&mut self, now: Instant) {
        let trunks = core::mem::take(&mut self.trunks);
        self.remove(trunks, now);
    }

    fn remove(&mut self, trunks: Vec<Trunk>, now: Instant) {
        for mut trunk in trunks {
            trunk.leave(&mut self.shared, now);
            self.leaving.push(trunk);
        }
        self.settle(now);
    }

    /// Returns true while registrations of removed trunks end. That takes 4 s at most.
    #[must_use]
    pub const fn is_ending(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Drops the trunks that are gone, and starts those that waited for them.
    fn settle(&mut self, now: Instant) {
        self.leaving.retain(|trunk| !trunk.is_gone(now));
        for trunk in &mut self.trunks {
            if self.leaving.iter().all(|other| other.config.name != trunk.config.name) {
                trunk.start(&mut self.shared);
            }
        }
    }

    /// Processes a message on `flow` to the user agent of the trunk with this number. Only
    /// responses have an effect.
    pub fn receive(&mut self, now: Instant, number: u8, flow: &Flow, message: &[u8]) {
        if !message.starts_with(b"SIP/2.0 ") {
            return;
        }
        // Each agent recognizes the responses to its own requests.
        for trunk in self.trunks.iter_mut().chain(&mut self.leaving) {
            if trunk.number == number {
                trunk.receive(flow, message, &mut self.shared, now);
            }
        }
        self.settle(now);
    }

    /// Passes the answer to [`Event::Locate`]: the servers in the order of preference. Empty if the
    /// look-up failed. Those without a local address are not used.
    pub fn located(&mut self, now: Instant, ticket: Ticket, locations: &[Location]) {
        for trunk in &mut self.trunks {
            if trunk.located(ticket, locations, &mut self.shared, now) {
                break;
            }
        }
    }

    /// Processes the end of the connection of `flow`: the accounts that are registered on it
    /// register again, since the provider can no longer use it.
    pub fn closed(&mut self, now: Instant, flow: &Flow) {
        for trunk in &mut self.trunks {
            trunk.closed(flow, &mut self.shared, now);
        }
    }

    /// Processes the failure of a call through a trunk at the server of `flow`: no answer, 503, or
    /// no connection, which `reason` says in words. The server is asked by OPTIONS at once, or has
    /// failed if the trunk sends none.
    pub fn call_failed(&mut self, now: Instant, number: u8, flow: &Flow, reason: &str) {
        if let Some(trunk) = self.trunks.get_mut(usize::from(number)) {
            trunk.call_failed(flow, reason, &mut self.shared, now);
        }
    }

    /// Runs the timers that are due at `now`.
    pub fn on_timer(&mut self, now: Instant) {
        for trunk in self.trunks.iter_mut().chain(&mut self.leaving) {
            if trunk.next_timer().is_some_and(|next| next <= now) {
                trunk.on_timer(&mut self.shared, now);
            }
        }
        self.settle(now);
    }

    /// The time of the next call of [`Registry::on_timer`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.trunks.iter().chain(&self.leaving).filter_map(Trunk::next_timer).min()
    }

    /// Returns the next message to send, on an [internal flow](Flow::internal_to) to its server:
    /// the proxy forwards it there.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.trunks.iter_mut().chain(&mut self.leaving).find_map(Trunk::poll_transmit)
    }

    /// Returns the next event, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// The targets of all trunks and the marks of their requests, by number.
    #[must_use]
    pub fn views(&self, now: Instant) -> Vec<TrunkView> {
        self.trunks.iter().map(|trunk| trunk.view(now)).collect()
    }

    /// The state of all trunks, by number.
    #[must_use]
    pub fn reports(&self, now: Instant) -> Vec<TrunkReport> {
        self.trunks.iter().map(|trunk| trunk.report(now)).collect()
    }

    /// The counters.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.shared.counters
    }
}
