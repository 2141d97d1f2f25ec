//! `run`: a single load.

use super::error::CommandError;
use super::output;
use super::session::{Ceilings, Means, Opening, Session};
use super::systems::{self, Started};
use crate::ceiling::ceiling;
use crate::cli::RunArgs;
use crate::cli::load::LoadArgs;
use crate::record::{Kind, Operation, System};
use crate::target::Target;
use crate::users::Users;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Measures the ceiling of the generator for each of the loads, on each machine.
pub(crate) fn ceilings(
    load: &LoadArgs,
    work: &[(Operation, bool)],
    rate: f64,
    means: &Means<'_>,
) -> Result<Ceilings, CommandError> {
    let nowhere = Target {
        transport: load.transport(),
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        host: String::new(),
        others: Vec::new(),
    };
    let nobody = Users::List(Vec::new());
    let plan = load.generator(&nowhere, "", &nobody, rate);
    let mut ceilings = Ceilings::new();
    for &(operation, authentication) in work {
        let of_machines = match &means.fleet {
            Some(fleet) => fleet.ceilings(&plan, operation, authentication)?,
            None => vec![ceiling(&plan, operation, authentication, means.ending)?],
        };
        ceilings.insert((operation, authentication), of_machines);
    }
    Ok(ceilings)
}

/// Opens a session with each system.
pub(crate) fn open(
    load: &LoadArgs,
    users: &Users,
    started: &[Started],
    rate: f64,
    ceilings: &Ceilings,
    means: &Means<'_>,
) -> Result<Vec<Session>, CommandError> {
    let mut sessions = Vec::new();
    for started in started {
        sessions.push(open_one(load, users, started, rate, ceilings, means)?);
    }
    Ok(sessions)
}

/// Opens a session with one system.
pub(crate) fn open_one(
    load: &LoadArgs,
    users: &Users,
    started: &Started,
    rate: f64,
    ceilings: &Ceilings,
    means: &Means<'_>,
) -> Result<Session, CommandError> {
    let mut session = Session::open(Opening { load, started, users, rate, means })?;
    session.set_ceilings(ceilings);
    Ok(session)
}

/// Returns the systems of the sessions.
pub(crate) fn systems_of(sessions: &[Session]) -> Vec<System> {
    sessions.iter().map(|session| session.system.clone()).collect()
}

pub(crate) fn execute(args: &RunArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let load = &args.load;
    let users = load.users.users()?;
    let rate = load.rate();
    let means = Means::new(load, &args.output, ending)?;
    let work = [(load.operation, load.users.auth)];
    let ceilings = ceilings(load, &work, rate, &means)?;
    let started = systems::start(load, &users, load.operation, load.users.auth)?;
    let mut sessions = open(load, &users, &started, rate, &ceilings, &means)?;
    let mut record = output::record(Kind::Run, systems_of(&sessions), &means);
    let mut measure = || {
        for repeat in 0..load.detail.repeats {
            for session in &mut sessions {
                record.runs.push(session.measure(&load.spec(rate), "", repeat)?);
            }
        }
        Ok(())
    };
    let outcome = measure();
    output::finish(record, outcome, &args.output)
}
