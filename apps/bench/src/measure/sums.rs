//! Sums of the results of machines, over workers and passes.

use crate::agents::{Place, Share};
use crate::cpu::Cpu;
use crate::load::links::LinkCounts;
use crate::load::tally::Tally;
use crate::load::worker::Found;
use crate::record::{self, Ceiling};
use sip::Duration;

/// Sums over passes.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) machines: Vec<OfMachine>,
    pub(super) measured: Duration,
    /// The start of the next pass in the series.
    pub(super) before: Duration,
}

/// Sums over the workers of a machine, or of several.
pub(super) struct OfMachine {
    pub(super) agent: Option<Place>,
    pub(super) tally: Tally,
    pub(super) cpu: Cpu,
    pub(super) links: LinkCounts,
    pub(super) sockets: usize,
    /// The highest share of CPU time of a worker.
    pub(super) busiest: f64,
    pub(super) clock_error_us: u64,
    /// The end of the load in the series.
    pub(super) elapsed: Duration,
    /// The time of the last message, and the operations that were started after that.
    pub(super) heard: Option<Duration>,
    pub(super) unheard: u64,
    /// The time of an early stop.
    pub(super) stopped: Option<Duration>,
}

impl Sums {
    /// Adds the results of each machine in a pass.
    pub(super) fn add(&mut self, shares: Vec<Share>) {
        for (index, share) in shares.into_iter().enumerate() {
            let Some(mut of_pass) = OfMachine::of(share) else { continue };
            of_pass.heard = of_pass.heard.map(|heard| self.before + heard);
            of_pass.elapsed = self.before + of_pass.elapsed;
            if index < self.machines.len() {
                let before = self.machines.remove(index);
                // These are the same in each pass, or describe the end of the last one. The last
                // message may have come in an earlier pass.
                let OfMachine { sockets, elapsed, .. } = of_pass;
                let (heard, unheard) = match of_pass.heard {
                    Some(_) => (of_pass.heard, of_pass.unheard),
                    None => (before.heard, before.unheard + of_pass.unheard),
                };
                let merged = before.merge(of_pass);
                let merged = OfMachine { sockets, elapsed, heard, unheard, ..merged };
                self.machines.insert(index, merged);
            } else {
                self.machines.push(of_pass);
            }
        }
    }

    /// Returns the sum of all machines, if there are results.
    pub(super) fn together(self) -> Option<OfMachine> {
        self.machines.into_iter().reduce(OfMachine::merge)
    }
}

impl OfMachine {
    pub(super) fn of(share: Share) -> Option<Self> {
        let Share { agent, clock_error_us, found } = share;
        let of_worker = |found: Found| Self {
            agent: agent.clone(),
            cpu: found.cpu,
            links: found.links,
            sockets: found.sockets,
            busiest: found.busy,
            tally: found.tally,
            clock_error_us,
            elapsed: found.elapsed,
            heard: found.heard,
            unheard: found.unheard,
            stopped: found.stopped,
        };
        found.into_iter().map(of_worker).reduce(Self::merge)
    }

    fn merge(mut self, other: Self) -> Self {
        self.tally.merge(&other.tally);
        self.cpu.user_us += other.cpu.user_us;
        self.cpu.system_us += other.cpu.system_us;
        self.links = self.links.plus(other.links);
        self.sockets += other.sockets;
        self.busiest = self.busiest.max(other.busiest);
        self.clock_error_us = self.clock_error_us.max(other.clock_error_us);
        self.elapsed = self.elapsed.max(other.elapsed);
        self.heard = self.heard.max(other.heard);
        self.unheard += other.unheard;
        self.stopped = self.stopped.max(other.stopped);
        self
    }

    /// Returns the share in the form of the record.
    pub(super) fn share(&self, agent: &Place, ceiling: Option<Ceiling>) -> record::Share {
        let (offered, lag) = self.tally.offered_and_lag();
        record::Share {
            agent: agent.to_string(),
            offered,
            operations: self.tally.operations,
            cpu_user_us: self.cpu.user_us,
            cpu_system_us: self.cpu.system_us,
            lag_p99_us: lag.told(99.0),
            drops: self.links.drops,
            unsent: self.links.unsent,
            clock_error_us: self.clock_error_us,
            ceiling,
        }
    }
}
