//! `run`: one load.

use super::CommandError;
use super::output;
use super::progress::Progress;
use super::session::{self, Ceilings, Opening, Session};
use super::systems::{self, Started};
use crate::cli::RunArgs;
use crate::cli::load::LoadArgs;
use crate::record::{Kind, Operation, System};
use crate::users::Users;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What the generator carries of each of the loads that are to come.
pub(crate) fn ceilings(
    load: &LoadArgs,
    work: &[(Operation, bool)],
    rate: f64,
    ending: &Arc<AtomicBool>,
) -> Result<Ceilings, CommandError> {
    let mut ceilings = Ceilings::new();
    for &(operation, authentication) in work {
        let transport = load.transport();
        let ceiling = session::ceiling(load, operation, authentication, transport, rate, ending)?;
        ceilings.insert((operation, authentication), ceiling);
    }
    Ok(ceilings)
}

/// A session with each system.
pub(crate) fn open(
    load: &LoadArgs,
    users: &Users,
    started: &[Started],
    rate: f64,
    ceilings: &Ceilings,
    progress: Progress,
    ending: &Arc<AtomicBool>,
) -> Result<Vec<Session>, CommandError> {
    let mut sessions = Vec::new();
    for started in started {
        let mut session = Session::open(Opening {
            load,
            system: started.system.clone(),
            target: started.target.clone(),
            domain: started.domain.clone(),
            users,
            subject: started.subject.clone(),
            rate,
            ending,
            progress,
        })?;
        session.set_ceilings(ceilings);
        sessions.push(session);
    }
    Ok(sessions)
}

/// The systems of the sessions.
pub(crate) fn systems_of(sessions: &[Session]) -> Vec<System> {
    sessions.iter().map(|session| session.system.clone()).collect()
}

pub(crate) fn execute(args: &RunArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let load = &args.load;
    let users = load.users.users()?;
    let rate = load.rate();
    let progress = Progress::new(args.output.quiet);
    let work = [(load.operation, load.users.auth)];
    let ceilings = ceilings(load, &work, rate, ending)?;
    let started = systems::start(load, &users, load.operation, load.users.auth)?;
    let mut sessions = open(load, &users, &started, rate, &ceilings, progress, ending)?;
    let mut record = output::record(Kind::Run, systems_of(&sessions));
    for repeat in 0..load.detail.repeats {
        for session in &mut sessions {
            record.runs.push(session.measure(&load.spec(rate), "", repeat)?);
        }
    }
    output::finish(record, &args.output)
}
