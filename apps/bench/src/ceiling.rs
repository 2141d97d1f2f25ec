//! The ceiling of the load generator itself.

use crate::load::engine::{Settings, Task};
use crate::load::generator::{Generator, GeneratorPlan};
use crate::load::links::LinkError;
use crate::load::worker::{Bound, Found};
use crate::peer::{Authentication, Peer, Script};
use crate::record::{Ceiling, Operation};
use crate::users::{Users, UsersError};
use sip::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

/// The length of the ceiling measurement, and the operations under way on each worker.
const TIME: Duration = Duration::from_millis(500);
const WINDOW: usize = 200;
/// The number of users for it.
const USERS: usize = 2000;

/// The ceiling cannot be measured.
#[derive(Debug)]
pub(crate) enum CeilingError {
    /// The ideal peer does not start.
    Peer(io::Error),
    Users(UsersError),
    Link(LinkError),
    /// The user requested the end.
    Stopped,
    /// No operation succeeded against the ideal peer.
    NoneDone(Operation),
}

impl fmt::Display for CeilingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(error) => write!(f, "the ideal peer does not start: {error}"),
            Self::Users(error) => error.fmt(f),
            Self::Link(error) => error.fmt(f),
            Self::Stopped => f.write_str("stopped"),
            Self::NoneDone(operation) => {
                write!(f, "the generator completed no {} against an ideal peer", operation.name())
            }
        }
    }
}

impl std::error::Error for CeilingError {}

/// Measures the rate of a generator with this `plan` against an ideal peer in this process (RFC
/// 7502 section 4.9). Target and users of the plan are ignored.
///
/// # Errors
/// [`CeilingError`] if a socket cannot be opened, or the peer fails.
pub(crate) fn ceiling(
    plan: &GeneratorPlan,
    operation: Operation,
    authentication: bool,
    ending: &Arc<AtomicBool>,
) -> Result<Ceiling, CeilingError> {
    let peer = Peer::start(&ideal(operation, authentication)).map_err(CeilingError::Peer)?;
    let plan = GeneratorPlan {
        target: peer.address(),
        settings: Settings {
            domain: "ideal.invalid".to_owned(),
            to: None,
            target: peer.address(),
            // Held calls cost no more CPU time, and would only delay a closed loop.
            hold: Duration::ZERO,
            ring: Duration::ZERO,
            ..plan.settings.clone()
        },
        users: Users::from_pattern(Users::DEFAULT_PATTERN, USERS).map_err(CeilingError::Users)?,
        local: None,
        ..plan.clone()
    };
    let mut generator = Generator::open(&plan, ending).map_err(CeilingError::Link)?;
    let window = WINDOW;
    if operation != Operation::Options {
        sum(&generator.closed_loop(Task::Register, window, Bound::EachUser));
    }
    let task = Task::of(operation);
    let found = generator.closed_loop(task, window, Bound::For(TIME));
    let (operations, cpu, elapsed) = sum(&found);
    if ending.load(Ordering::Relaxed) {
        return Err(CeilingError::Stopped);
    }
    if operations == 0 {
        return Err(CeilingError::NoneDone(operation));
    }
    Ok(Ceiling { rate: operations as f64 / elapsed, cpu_us: cpu as f64 / operations as f64 })
}

/// Returns the script of a peer that does only what the operation needs.
pub(crate) fn ideal(operation: Operation, authentication: bool) -> Script {
    Script {
        is_redirecting: operation == Operation::InviteRedirect,
        authentication: if authentication { Authentication::Nonce } else { Authentication::None },
        ..Script::default()
    }
}

/// Returns the operations, the CPU time in microseconds, and the longest time in seconds.
fn sum(found: &[Found]) -> (u64, u64, f64) {
    found.iter().fold((0, 0, f64::MIN_POSITIVE), |(operations, cpu, elapsed), found| {
        (
            operations + found.tally.operations,
            cpu + found.cpu.total(),
            elapsed.max(found.elapsed.as_micros() as f64 / 1e6),
        )
    })
}
