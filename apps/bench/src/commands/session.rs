//! A system under test with a generator before it: what all commands measure with.

use super::error::CommandError;
use super::probe;
use super::progress::Progress;
use super::systems::Started;
use crate::agents::{Fleet, Force};
use crate::cli::load::LoadArgs;
use crate::cli::target::Target;
use crate::load::engine::{Settings, Task};
use crate::load::generator::{Generator, GeneratorPlan};
use crate::load::links::LinkCounts;
use crate::load::worker::{Bound, Found};
use crate::measure::{self, Limits, LoadSpec, MeasureError, Measured, Meters};
use crate::peer::{Authentication, Peer, Script};
use crate::record::{Ceiling, Down, Operation, Run, Steps, System};
use crate::sut::Running;
use crate::users::Users;
use crate::watch::{self, Reading, Subject, WatchError, Watcher, Window};
use sip::Duration;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// How long the ceiling is looked for, and with how much under way on each worker.
const CEILING_TIME: Duration = Duration::from_millis(500);
const CEILING_WINDOW: usize = 200;
/// Users that suffice for it.
const CEILING_USERS: usize = 2000;

/// A system, and what is needed to put loads on it.
pub(crate) struct Session {
    pub(crate) system: System,
    target: Target,
    force: Force,
    users: usize,
    subject: Option<Subject>,
    settle: Option<Duration>,
    limits: Limits,
    ceilings: Ceilings,
    progress: Progress,
    /// Whether the bindings of earlier measurements are gone.
    is_clear: bool,
    /// What the last load sent and received, and the operations that ended in it.
    pub(crate) traffic: (LinkCounts, u64),
    /// The server, if it was started here.
    running: Option<Rc<RefCell<Running>>>,
    domain: String,
    /// Set when the server has ended, or answered nothing any more: what is known of that.
    down: Option<Down>,
    /// Set when the user wants it to end.
    ending: Arc<AtomicBool>,
}

/// What the generator carries, by operation and whether there is authentication: on each machine
/// that puts a share of the load on.
pub(crate) type Ceilings = HashMap<(Operation, bool), Vec<Ceiling>>;

/// What a session is opened with.
pub(crate) struct Opening<'a> {
    pub(crate) load: &'a LoadArgs,
    pub(crate) started: &'a Started,
    pub(crate) users: &'a Users,
    /// The highest rate that is to be offered.
    pub(crate) rate: f64,
    pub(crate) means: &'a Means<'a>,
}

/// What all loads of a command are put on with.
pub(crate) struct Means<'a> {
    /// The agents that do it, if it is not this machine.
    pub(crate) fleet: Option<Rc<Fleet>>,
    pub(crate) progress: Progress,
    /// Set when the user wants it to end.
    pub(crate) ending: &'a Arc<AtomicBool>,
}

impl<'a> Means<'a> {
    /// Starts the agents that `load` names.
    ///
    /// # Errors
    /// [`CommandError`] where one does not start.
    pub(crate) fn new(
        load: &LoadArgs,
        is_quiet: bool,
        ending: &'a Arc<AtomicBool>,
    ) -> Result<Self, CommandError> {
        let progress = Progress::new(is_quiet);
        let fleet = Fleet::start(&load.agents, load.keep_agents, ending)?;
        if let Some(fleet) = &fleet {
            progress.note(&format!(
                "agents are ready: {}; their clocks are known to {} us",
                load.agents.len(),
                fleet.clock_error_us()
            ));
        }
        Ok(Self { fleet, progress, ending })
    }
}

impl Session {
    /// Finds out whether the server is there, and opens the sockets, here or on the agents.
    ///
    /// # Errors
    /// [`CommandError`] where it is not, or they cannot be had.
    pub(crate) fn open(opening: Opening<'_>) -> Result<Self, CommandError> {
        let Opening { load, started, users, rate, means } = opening;
        let Started { system, target, domain, subject, running, .. } = started;
        let mut system = system.clone();
        if !load.detail.no_probe {
            let banner = probe(target, domain)?;
            system.version = system.version.or(banner);
        }
        let plan = load.generator(target, domain, users, rate);
        let force = match &means.fleet {
            Some(fleet) => Force::Agents(fleet.open(&plan, &target.host)?),
            None => Force::Local(Generator::open(&plan, means.ending)?),
        };
        Ok(Self {
            system,
            target: target.clone(),
            force,
            users: users.len(),
            subject: subject.clone(),
            settle: load.detail.settle,
            limits: load.detail.limits(),
            ceilings: Ceilings::new(),
            progress: means.progress,
            is_clear: false,
            traffic: Default::default(),
            running: running.clone(),
            domain: domain.clone(),
            down: None,
            ending: Arc::clone(means.ending),
        })
    }

    /// What a run has to keep within to be valid.
    pub(crate) fn set_ceilings(&mut self, ceilings: &Ceilings) {
        self.ceilings.clone_from(ceilings);
    }

    /// Removes all bindings of all users.
    ///
    /// # Errors
    /// [`CommandError`] where an agent fails, or the server is not there any more.
    pub(crate) fn clear(&mut self) -> Result<(), CommandError> {
        self.check()?;
        measure::clear(&mut self.force)?;
        self.is_clear = true;
        Ok(())
    }

    /// What is watched while a load is on, which is described by the run that `work` finds: for
    /// loads of another kind than [`LoadSpec`] says.
    ///
    /// # Errors
    /// [`CommandError`] where the system cannot be watched, or the work is stopped.
    pub(crate) fn measure_other(
        &mut self,
        label: &str,
        repeat: u32,
        work: impl FnOnce(&mut Force, &Limits) -> Result<Measured, MeasureError>,
    ) -> Result<Run, CommandError> {
        self.check()?;
        let gone = &self.force.shared().gone;
        let mut meters = Watching::start(self.subject.as_ref(), Duration::ZERO, gone)?;
        let title = format!("{}: {label}", self.system.name);
        let shown = self.progress.show_titled(&self.force, title, None);
        meters.begin();
        let measured = work(&mut self.force, &self.limits);
        meters.end();
        drop(shown);
        self.complete(measured?, meters, label, repeat)
    }

    /// Whether a measurement can begin.
    ///
    /// # Errors
    /// [`CommandError::Ended`] where the server is not there any more, and
    /// [`MeasureError::Stopped`] where the user wants no more.
    fn check(&mut self) -> Result<(), CommandError> {
        if self.ending.load(Ordering::Relaxed) {
            return Err(MeasureError::Stopped.into());
        }
        let Some(down) = self.down.clone() else { return Ok(()) };
        // After an overload the server may answer again. After the end of its process, what answers
        // there is another one.
        if !down.has_ended
            && self.has_ended().is_none()
            && probe(&self.target, &self.domain).is_ok()
        {
            self.down = None;
            self.force.shared().gone.store(false, Ordering::Relaxed);
            return Ok(());
        }
        Err(CommandError::Ended(self.system.name.clone(), down.reason))
    }

    /// The last words of the server, if it was started here and has ended.
    fn has_ended(&self) -> Option<String> {
        self.running.as_ref().and_then(|running| running.borrow_mut().has_ended())
    }

    /// How the server went down in the last measurement, if it did.
    pub(crate) const fn down(&self) -> Option<&Down> {
        self.down.as_ref()
    }

    fn complete(
        &mut self,
        measured: Measured,
        meters: Watching,
        label: &str,
        repeat: u32,
    ) -> Result<Run, CommandError> {
        let mut run = measured.run;
        run.system.clone_from(&self.system.name);
        run.load.transport = self.target.transport.uri_name().to_owned();
        label.clone_into(&mut run.label);
        run.repeat = repeat;
        let (watch, trouble) = meters.finish(measured.operations);
        run.watch = watch;
        let ended = self.has_ended().map(|last_words| format!("it has ended: {last_words}"));
        let (gone, broken) = match trouble {
            Some(trouble) if trouble.is_gone() => (Some(trouble.to_string()), None),
            trouble => (None, trouble),
        };
        if let Some(broken) = broken {
            run.doubts.push(format!("the watching broke off: {broken}"));
        }
        let has_ended = ended.is_some() || gone.is_some();
        let silent = measured.is_silent.then(|| match measured.traffic.refused {
            0 => "it stopped answering".to_owned(),
            _ => "nothing listens at its address any more (connection refused)".to_owned(),
        });
        let reason = ended.or(gone).or(silent);
        run.down = reason.map(|reason| Down { at: measured.heard, has_ended, reason });
        if let Some(down) = &run.down {
            run.doubts.insert(0, down.to_string());
        }
        self.down.clone_from(&run.down);
        Ok(run)
    }

    /// Puts `spec` on the system.
    ///
    /// # Errors
    /// [`CommandError`] where the users cannot be prepared or the system cannot be watched.
    pub(crate) fn measure(
        &mut self,
        spec: &LoadSpec,
        label: &str,
        repeat: u32,
    ) -> Result<Run, CommandError> {
        self.check()?;
        let registers = !matches!(
            spec.operation,
            Operation::Options | Operation::InviteNotFound | Operation::Register
        );
        if spec.has_registrar && registers && !self.is_clear {
            self.clear()?;
        }
        let settle = self.settle.unwrap_or(match spec.operation {
            // A proxy clears its transactions away some seconds later.
            Operation::Invite => Duration::from_secs(6),
            _ => Duration::ZERO,
        });
        let work = (spec.operation, spec.authentication);
        let ceilings = self.ceilings.get(&work).map_or(&[][..], Vec::as_slice);
        let before = self.timings()?;
        let gone = &self.force.shared().gone;
        let mut meters = Watching::start(self.subject.as_ref(), settle, gone)?;
        let shown = self.progress.show(&self.force, spec, &self.system.name, label);
        let measured =
            measure::run(&mut self.force, spec, self.users, &self.limits, ceilings, &mut meters);
        drop(shown);
        let measured = measured?;
        self.traffic = (measured.traffic, measured.operations);
        let mut run = self.complete(measured, meters, label, repeat)?;
        if self.down.is_some() {
            return Ok(run);
        }
        run.steps = self.timings()?;
        for (name, step) in &mut run.steps {
            *step = step.since(before.get(name).copied().unwrap_or_default());
        }
        Ok(run)
    }

    /// How long the steps of the system's work took since its start, if it says so.
    fn timings(&self) -> Result<Steps, CommandError> {
        let running = self.running.as_ref().map(|running| running.borrow().timings());
        Ok(running.transpose()?.unwrap_or_default())
    }
}

/// The meters of the system under test.
pub(crate) struct Watching {
    watcher: Option<Watcher>,
    settle: Duration,
    before: Option<Reading>,
    begun: Option<Reading>,
    measured: Vec<(Reading, Reading)>,
    windows: Vec<Window>,
    failed: Option<WatchError>,
    /// Set when the server is gone: it then puts no work off.
    gone: Arc<AtomicBool>,
}

impl Watching {
    /// Begins to watch, if there is something to watch. After the load, work that was put off is
    /// waited for as long as `settle`.
    pub(crate) fn start(
        subject: Option<&Subject>,
        settle: Duration,
        gone: &Arc<AtomicBool>,
    ) -> Result<Self, CommandError> {
        let watcher = subject.map(|subject| Watcher::start(subject, gone)).transpose()?;
        let before = watcher.as_ref().map(Watcher::mark).transpose()?;
        Ok(Self {
            watcher,
            settle,
            before,
            begun: None,
            measured: Vec::new(),
            windows: Vec::new(),
            failed: None,
            gone: Arc::clone(gone),
        })
    }

    fn mark(&mut self) -> Option<Reading> {
        match self.watcher.as_ref()?.mark() {
            Ok(reading) => Some(reading),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    /// What was seen, while `operations` succeeded; and why that is not all, if the watching broke
    /// off.
    pub(crate) fn finish(
        mut self,
        operations: u64,
    ) -> (Option<crate::record::Watch>, Option<WatchError>) {
        let (Some(watcher), Some(before)) = (self.watcher, self.before) else {
            return (None, None);
        };
        let watched = watcher.finish();
        // What was watched was not there at the end: so the last look at it is the end.
        self.measured.extend(self.begun.zip(watched.last));
        let mut watch = watch::assemble(&watched, &before, &self.measured, &self.windows);
        watch.operations = operations;
        (Some(watch), self.failed.or(watched.trouble))
    }
}

impl Meters for Watching {
    fn begin(&mut self) {
        self.begun = self.mark();
    }

    fn measured(&mut self, at: Duration, start: Instant, length: Duration) {
        let [at, length] = [at, length].map(|span| span.as_micros() as f64 / 1e6);
        self.windows.push(Window { at, start, length });
    }

    fn end(&mut self) {
        if self.watcher.is_some() && !self.gone.load(Ordering::Relaxed) {
            std::thread::sleep(std::time::Duration::from_micros(self.settle.as_micros()));
        }
        if let Some(end) = self.mark()
            && let Some(begin) = self.begun.take()
        {
            self.measured.push((begin, end));
        }
    }
}

/// What a generator like that of `plan` reaches against an ideal peer in this process (RFC 7502
/// section 4.9). The target and the users of the plan do not matter.
///
/// # Errors
/// [`CommandError`] where there are no sockets, or the peer fails.
pub(crate) fn ceiling(
    plan: &GeneratorPlan,
    operation: Operation,
    authentication: bool,
    ending: &Arc<AtomicBool>,
) -> Result<Ceiling, CommandError> {
    let peer = Peer::start(&ideal(operation, authentication)).map_err(CommandError::Peer)?;
    let plan = GeneratorPlan {
        target: peer.address(),
        settings: Settings {
            domain: "ideal.invalid".to_owned(),
            to: None,
            target: peer.address(),
            // Calls that are held cost no more; in a closed loop they would only hold it up.
            hold: Duration::ZERO,
            ring: Duration::ZERO,
            ..plan.settings.clone()
        },
        users: Users::from_pattern(Users::DEFAULT_PATTERN, CEILING_USERS)?,
        ..plan.clone()
    };
    let mut generator = Generator::open(&plan, ending)?;
    let window = CEILING_WINDOW;
    if operation != Operation::Options {
        sum(&generator.closed_loop(Task::Register, window, Bound::EachUser));
    }
    let task = measure::task_of(operation);
    let found = generator.closed_loop(task, window, Bound::For(CEILING_TIME));
    let (operations, cpu, elapsed) = sum(&found);
    if ending.load(Ordering::Relaxed) {
        return Err(MeasureError::Stopped.into());
    }
    if operations == 0 {
        return Err(CommandError::NoCeiling(operation));
    }
    Ok(Ceiling { rate: operations as f64 / elapsed, cpu_us: cpu as f64 / operations as f64 })
}

/// The peer that does nothing but what an operation needs.
pub(crate) fn ideal(operation: Operation, authentication: bool) -> Script {
    Script {
        is_redirecting: operation == Operation::InviteRedirect,
        authentication: if authentication { Authentication::Nonce } else { Authentication::None },
        ..Script::default()
    }
}

/// Operations, CPU time in microseconds, and the longest time in seconds.
fn sum(found: &[Found]) -> (u64, u64, f64) {
    found.iter().fold((0, 0, f64::MIN_POSITIVE), |(operations, cpu, elapsed), found| {
        (
            operations + found.tally.operations,
            cpu + found.cpu.total(),
            elapsed.max(found.elapsed.as_micros() as f64 / 1e6),
        )
    })
}
