//! The systems of the command line: running ones, and those that are started here.

use super::error::CommandError;
use crate::cli::load::LoadArgs;
use crate::record::{Operation, System};
use crate::sut::{self, Mode, Running, Wanted};
use crate::target::Target;
use crate::users::Users;
use crate::watch::Subject;
use std::cell::RefCell;
use std::rc::Rc;

/// A running system.
pub(crate) struct Started {
    /// The text of `--sut`; `None` for the target.
    pub(crate) spec: Option<String>,
    pub(crate) system: System,
    pub(crate) target: Target,
    pub(crate) domain: String,
    /// The processes to watch.
    pub(crate) subject: Option<Subject>,
    /// Stops the system when the last reference is dropped, if it was started here.
    pub(crate) running: Option<Rc<RefCell<Running>>>,
}

/// Returns the mode of a system for an operation.
pub(crate) const fn mode_of(operation: Operation, is_stateless: bool) -> Mode {
    match operation {
        Operation::InviteRedirect => Mode::Redirect,
        _ if is_stateless => Mode::Stateless,
        _ => Mode::Stateful,
    }
}

/// Starts the systems of `load` for `operation`, or connects to running ones.
///
/// # Errors
/// [`CommandError`] if no system is given, or one does not start.
pub(crate) fn start(
    load: &LoadArgs,
    users: &Users,
    operation: Operation,
    authentication: bool,
) -> Result<Vec<Started>, CommandError> {
    let mut systems = Vec::new();
    if let Some(target) = &load.target {
        systems.push(Started {
            spec: None,
            system: System {
                name: target.to_string(),
                target: target.to_string(),
                ..System::default()
            },
            target: target.clone(),
            domain: load.domain_at(target).to_owned(),
            subject: load.watch.clone(),
            running: None,
        });
    }
    for spec in &load.sut {
        systems.push(start_one(spec, load, users, operation, authentication)?);
    }
    if systems.is_empty() {
        return Err(CommandError::NoTarget);
    }
    Ok(systems)
}

/// Starts the system of `--sut spec`, or connects to a running one.
///
/// # Errors
/// [`CommandError`] if it does not start.
pub(crate) fn start_one(
    spec: &str,
    load: &LoadArgs,
    users: &Users,
    operation: Operation,
    authentication: bool,
) -> Result<Started, CommandError> {
    let wanted = Wanted {
        mode: mode_of(operation, load.detail.stateless),
        authentication,
        users,
        address: load.detail.sut_address,
        workers: load.detail.sut_workers.map(usize::from),
        transport: load.detail.transport(),
        namespace: load.detail.sut_namespace.as_deref(),
        timings: load.detail.timings,
        retransmits: load.detail.retransmits,
    };
    let running = sut::start(spec, &wanted)?;
    let target = Target::at(running.transport, running.target);
    Ok(Started {
        spec: Some(spec.to_owned()),
        system: running.system.clone(),
        target,
        domain: load.users.domain.clone().unwrap_or_else(|| running.domain.clone()),
        subject: running.watch.clone(),
        running: Some(Rc::new(RefCell::new(running))),
    })
}
