//! The source of a load.

use super::controller::Crew;
use super::error::AgentError;
use super::pair::Pair;
use super::place::{Share, ours, turns};
use super::protocol;
use crate::load::engine::Task;
use crate::load::generator::{Generator, Stretch};
use crate::load::worker::{Bound, CyclePlan, Shared};
use std::time::Instant;

/// The source of a load: the workers of this process, those of agents, or a sender here and a
/// receiver on another machine.
pub(crate) enum Force {
    Local(Generator),
    Agents(Crew),
    Pair(Pair),
}

impl Force {
    /// Returns the state that is published during the work.
    pub(crate) const fn shared(&self) -> &Shared {
        match self {
            Self::Local(generator) => &generator.shared,
            Self::Agents(crew) => &crew.shared,
            Self::Pair(pair) => &pair.sender().shared,
        }
    }

    /// Returns the number of entries in [`Force::shared`]: workers, or agents.
    pub(crate) fn tellers(&self) -> usize {
        match self {
            Self::Local(generator) => generator.workers(),
            Self::Agents(crew) => crew.agents(),
            Self::Pair(pair) => pair.sender().workers(),
        }
    }

    /// Returns the number of workers on all machines.
    pub(crate) fn workers(&self) -> usize {
        match self {
            Self::Local(generator) => generator.workers(),
            Self::Agents(crew) => crew.workers(),
            Self::Pair(pair) => pair.workers(),
        }
    }

    /// Returns the number of operations that can start, with `users` in all, before a user is used
    /// again.
    pub(crate) fn turns(&self, users: usize) -> usize {
        match self {
            Self::Local(generator) => turns(users, generator.workers()),
            Self::Agents(crew) => crew.turns(users),
            Self::Pair(pair) => turns(users, pair.sender().workers()),
        }
    }

    /// Runs [`Generator::closed_loop`] on all machines.
    ///
    /// # Errors
    /// [`AgentError`] if an agent fails, here as below.
    pub(crate) fn closed_loop(
        &mut self,
        task: Task,
        window: usize,
        bound: Bound,
    ) -> Result<Vec<Share>, AgentError> {
        match self {
            Self::Local(generator) => Ok(ours(generator.closed_loop(task, window, bound))),
            Self::Agents(crew) => {
                crew.work(&protocol::Job::ClosedLoop { task, window, bound: bound.into() })
            }
            Self::Pair(pair) => pair.closed_loop(task, window, bound),
        }
    }

    /// Runs [`Generator::cycle`] on all machines, starting soon.
    pub(crate) fn cycle(&mut self, plan: &CyclePlan) -> Result<Vec<Share>, AgentError> {
        match self {
            Self::Local(generator) => Ok(ours(generator.cycle(plan, generator.soon()))),
            Self::Agents(crew) => crew.work(&plan.into()),
            Self::Pair(pair) => pair.answered(|sender| sender.cycle(plan, sender.soon())),
        }
    }

    /// Runs [`Generator::load`] on all machines, each with its share, starting soon. Returns the
    /// start, too.
    pub(crate) fn load(&mut self, stretch: &Stretch) -> Result<(Vec<Share>, Instant), AgentError> {
        match self {
            Self::Local(generator) => {
                let (now, clock) = (Instant::now(), generator.clock().now());
                let soon = generator.soon();
                let start = now + std::time::Duration::from(soon.since(clock));
                Ok((ours(generator.load(stretch, soon)), start))
            }
            Self::Agents(crew) => crew.timed_work(&stretch.into()),
            Self::Pair(pair) => {
                let mut start = Instant::now();
                let shares = pair.answered(|sender| {
                    start = Instant::now();
                    sender.load(stretch, sender.soon())
                })?;
                Ok((shares, start))
            }
        }
    }
}
