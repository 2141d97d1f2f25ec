//! A sender in this process and a receiver on another machine: callers here, callees there.

use super::controller::{Crew, Fleet};
use super::error::AgentError;
use super::place::{Share, ours};
use super::protocol::Job;
use crate::load::engine::{Settings, Task};
use crate::load::generator::{Generator, GeneratorPlan};
use crate::load::worker::{Bound, Found};
use std::rc::Rc;
use std::time::Instant;

/// A sender with all callers, and a receiver with all callees.
pub(crate) struct Pair {
    sender: Generator,
    receiver: Crew,
    /// The salt of the sender's calls.
    salt: u32,
}

impl Pair {
    /// Opens the sockets of the receiver, the only agent of `fleet`, to a server with the name
    /// `host`. `sender` has the plan `plan`, with one worker.
    ///
    /// # Errors
    /// [`AgentError`] if the agent fails, here as below.
    pub(crate) fn open(
        sender: Generator,
        plan: &GeneratorPlan,
        host: &str,
        fleet: &Rc<Fleet>,
    ) -> Result<Self, AgentError> {
        let salt = plan.settings.salt;
        // Registrations of both machines have Call-IDs of their own.
        let settings = Settings { salt: salt.wrapping_add(1), ..plan.settings.clone() };
        let plan = GeneratorPlan { settings, ..plan.clone() };
        let receiver = fleet.open_each(host, |_| plan.clone())?;
        Ok(Self { sender, receiver, salt })
    }

    pub(super) const fn sender(&self) -> &Generator {
        &self.sender
    }

    /// Returns the number of workers on both machines.
    pub(super) fn workers(&self) -> usize {
        self.sender.workers() + self.receiver.workers()
    }

    /// Runs [`Generator::closed_loop`]. Each machine registers its own users, both at the same
    /// time. Calls are those of the sender, and all else is the sender's work alone.
    pub(super) fn closed_loop(
        &mut self,
        task: Task,
        window: usize,
        bound: Bound,
    ) -> Result<Vec<Share>, AgentError> {
        match (task, bound) {
            (Task::Register, Bound::EachUser) => {
                let bound = Bound::EachCallee.into();
                let start = self.receiver.begin(&Job::ClosedLoop { task, window, bound })?;
                sleep_until(start);
                let mut shares = ours(self.sender.closed_loop(task, window, Bound::EachCaller));
                shares.extend(self.receiver.finish()?);
                Ok(shares)
            }
            (Task::Invite, _) => self.answered(|sender| sender.closed_loop(task, window, bound)),
            _ => Ok(ours(self.sender.closed_loop(task, window, bound))),
        }
    }

    /// Runs `work` of the sender while the receiver answers its calls.
    pub(super) fn answered(
        &mut self,
        work: impl FnOnce(&mut Generator) -> Vec<Found>,
    ) -> Result<Vec<Share>, AgentError> {
        let start = self.receiver.begin(&Job::Answer { salt: self.salt })?;
        sleep_until(start);
        let found = work(&mut self.sender);
        self.receiver.end_answering()?;
        self.receiver.finish()?;
        Ok(ours(found))
    }
}

fn sleep_until(start: Instant) {
    std::thread::sleep(start.saturating_duration_since(Instant::now()));
}
