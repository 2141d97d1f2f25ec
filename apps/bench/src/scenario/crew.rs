//! The workers of a scenario: each has a share of the calls, and sockets of its own.

use super::fault::ScenarioError;
use super::run::{Glance, Outcome, Plan, Scenario};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::thread;

impl Plan {
    /// Returns the plan of the worker `index` of `count`: its share of the rate, of the calls, of
    /// simultaneous ones, and of the lines of files that are taken in their order.
    fn share(&self, index: usize, count: usize) -> Self {
        let mut plan = self.clone();
        plan.rate /= count as f64;
        let (number, all) = (index as u64, count as u64);
        plan.calls = self.calls.map(|calls| calls / all + u64::from(number < calls % all));
        plan.limit = (self.limit / count).max(1);
        plan.worker = (index, count);
        plan.seed = self.seed.wrapping_add(index as u64);
        // Call-IDs of the workers differ.
        plan.settings.stamp = self.settings.stamp.wrapping_add(index as u32);
        plan
    }
}

/// Opens the sockets of `count` workers, at most one for each call. Those that wait for calls share
/// an address, callers have a port each.
///
/// # Errors
/// As of [`Scenario::open`], and if callers are to share a port.
pub(crate) fn open(plan: &Plan, count: usize) -> Result<Vec<Scenario>, ScenarioError> {
    let most = plan.calls.map_or(usize::MAX, |calls| usize::try_from(calls).unwrap_or(usize::MAX));
    let count = count.min(most).max(1);
    let first = Scenario::open(plan.share(0, count), None)?;
    if count > 1 && !first.is_server() && plan.local.port() != 0 {
        let text = format!("--workers {count}: expected port 0 in --listen, not one");
        return Err(ScenarioError::Usage(text));
    }
    let mut workers = vec![first];
    for index in 1..count {
        let worker = Scenario::open(plan.share(index, count), workers.first())?;
        workers.push(worker);
    }
    Ok(workers)
}

/// Runs the workers until all calls have ended, or `ending` is set and those in progress have
/// ended. `show` is called once a second.
///
/// # Errors
/// As of [`Scenario::run`].
pub(crate) fn run(
    mut workers: Vec<Scenario>,
    ending: &AtomicBool,
    warn: &(dyn Fn(&str) + Sync),
    show: &(dyn Fn(Glance) + Sync),
) -> Result<Outcome, ScenarioError> {
    let glances = Mutex::new(vec![Glance::default(); workers.len()]);
    let note = |index: usize, glance: Glance| {
        let mut glances = glances.lock().unwrap_or_else(PoisonError::into_inner);
        glances[index] = glance;
        if index == 0 {
            let seconds = glance.seconds;
            let sum = glances.iter().fold(Glance::default(), |sum, one| sum.with(one));
            show(Glance { seconds, ..sum });
        }
    };
    let outcomes = thread::scope(|scope| {
        let workers = workers.iter_mut().enumerate();
        let threads = workers.map(|(index, worker)| {
            let note = &note;
            scope.spawn(move || {
                worker.run(ending, &mut |text| warn(text), &mut |glance| note(index, glance))
            })
        });
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|one| one.join().expect("a worker does not panic"));
        ended.collect::<Result<Vec<_>, _>>()
    })?;
    let merge = |mut sum: Outcome, one: Outcome| {
        sum.merge(&one);
        sum
    };
    Ok(outcomes.into_iter().reduce(merge).expect("there is a worker"))
}
