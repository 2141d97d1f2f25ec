//! A session: a system under test with a generator. All commands measure with it.

use super::error::CommandError;
use super::metering::Metering;
use super::progress::Progress;
use super::systems::Started;
use super::voice::{self, Judge, Wanted};
use super::watching::Watching;
use crate::agents::{Fleet, Force, Pair, Place};
use crate::cli::OutputArgs;
use crate::cli::load::LoadArgs;
use crate::load::generator::Generator;
use crate::load::links::LinkCounts;
use crate::measure::{self, Limits, LoadSpec, MeasureError, Measured};
use crate::meters::Meters;
use crate::record::{Ceiling, Down, Operation, Run, Steps, System};
use crate::sut::{Running, probe};
use crate::target::Target;
use crate::users::Users;
use crate::voice::fault::Faults;
use crate::voice::{Callees, MediaKind};
use crate::watch::Subject;
use sip::Duration;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A system with the state for loads on it.
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
    /// True if the bindings of earlier measurements are removed.
    is_clear: bool,
    /// The messages of the last load, and the operations that ended in it.
    pub(crate) traffic: (LinkCounts, u64),
    /// The server, if it was started here.
    running: Option<Rc<RefCell<Running>>>,
    domain: String,
    /// Set when the server has ended or stopped answering; with the details.
    down: Option<Down>,
    /// Set when the user requests the end.
    ending: Arc<AtomicBool>,
    /// The media of the calls, if they have media, and the options of the load.
    media: Option<(MediaKind, LoadArgs)>,
    /// The machines of these calls, if the load comes from other ones.
    fleet: Option<Rc<Fleet>>,
}

/// The ceilings of the generator, by operation and authentication, for each load machine.
pub(crate) type Ceilings = HashMap<(Operation, bool), Vec<Ceiling>>;

/// The arguments for opening a session.
pub(crate) struct Opening<'a> {
    pub(crate) load: &'a LoadArgs,
    pub(crate) started: &'a Started,
    pub(crate) users: &'a Users,
    /// The highest rate of the loads.
    pub(crate) rate: f64,
    pub(crate) means: &'a Means<'a>,
}

/// The context of all loads of a command.
pub(crate) struct Means<'a> {
    /// The agents, if the load comes from other machines.
    pub(crate) fleet: Option<Rc<Fleet>>,
    /// The agent with all callees, if they are on another machine.
    pub(crate) receiver: Option<Rc<Fleet>>,
    pub(crate) progress: Progress,
    /// Set when the user requests the end.
    pub(crate) ending: &'a Arc<AtomicBool>,
}

impl<'a> Means<'a> {
    /// Starts the agents of `load`.
    ///
    /// # Errors
    /// [`CommandError`] if an agent does not start.
    pub(crate) fn new(
        load: &LoadArgs,
        output: &OutputArgs,
        ending: &'a Arc<AtomicBool>,
    ) -> Result<Self, CommandError> {
        let progress = Progress::new(output);
        let fleet = Fleet::start(&load.agents, load.keep_agents, ending)?;
        if let Some(fleet) = &fleet {
            progress.note(&format!(
                "agents are ready: {}; their clocks are known to {} us",
                load.agents.len(),
                fleet.clock_error_us()
            ));
        }
        Ok(Self { fleet, receiver: None, progress, ending })
    }

    /// Starts the receiver, an agent with all callees.
    ///
    /// # Errors
    /// [`CommandError`] if the agent does not start.
    pub(crate) fn start_receiver(&mut self, place: &Place) -> Result<(), CommandError> {
        self.receiver = Fleet::start(std::slice::from_ref(place), false, self.ending)?;
        self.progress.note(&format!("the receiver is ready: {place}"));
        Ok(())
    }
}

impl Session {
    /// Probes the server, and opens the sockets, here or on the agents.
    ///
    /// # Errors
    /// [`CommandError`] if the server does not answer, or a socket cannot be opened.
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
        let force = match (force, &means.receiver) {
            (Force::Local(sender), Some(receiver)) => {
                Force::Pair(Pair::open(sender, &plan, &target.host, receiver)?)
            }
            (force, _) => force,
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
            progress: means.progress.clone(),
            is_clear: false,
            traffic: Default::default(),
            running: running.clone(),
            domain: domain.clone(),
            down: None,
            ending: Arc::clone(means.ending),
            media: load.detail.media.map(|media| (media, load.clone())),
            fleet: means.fleet.clone(),
        })
    }

    /// Sets the ceilings by which runs are judged.
    pub(crate) fn set_ceilings(&mut self, ceilings: &Ceilings) {
        self.ceilings.clone_from(ceilings);
    }

    /// The address of the server.
    pub(crate) const fn target_address(&self) -> SocketAddr {
        self.target.address
    }

    /// Removes all bindings of all users.
    ///
    /// # Errors
    /// [`CommandError`] if an agent fails, or the server has ended.
    pub(crate) fn clear(&mut self) -> Result<(), CommandError> {
        self.check()?;
        measure::clear(&mut self.force)?;
        self.is_clear = true;
        Ok(())
    }

    /// Measures a load of another kind than [`LoadSpec`]: watches the system during `work`, which
    /// returns the run.
    ///
    /// # Errors
    /// [`CommandError`] if the system cannot be watched, or `work` is stopped.
    pub(crate) fn measure_other(
        &mut self,
        label: &str,
        repeat: u32,
        work: impl FnOnce(&mut Force, &Limits) -> Result<Measured, MeasureError>,
    ) -> Result<Run, CommandError> {
        self.check()?;
        let before = self.counters()?;
        let gone = &self.force.shared().gone;
        let mut meters = Watching::start(self.subject.as_ref(), Duration::ZERO, gone)?;
        let title = format!("{}: {label}", self.system.name);
        let shown = self.progress.show_titled(&self.force, title, None, meters.readings());
        meters.begin();
        let measured = work(&mut self.force, &self.limits);
        meters.end();
        drop(shown);
        let mut run = self.complete(measured?, meters, label, repeat)?;
        let after = if self.down.is_some() { before.clone() } else { self.counters()? };
        run.dropped = dropped(&run, &before, &after);
        Ok(run)
    }

    /// Checks that a measurement can start.
    ///
    /// # Errors
    /// [`CommandError::Ended`] if the server has ended, and [`MeasureError::Stopped`] if the user
    /// requested the end.
    fn check(&mut self) -> Result<(), CommandError> {
        if self.ending.load(Ordering::Relaxed) {
            return Err(MeasureError::Stopped.into());
        }
        let Some(down) = self.down.clone() else { return Ok(()) };
        // After an overload the server may answer again. After the end of its process, a server at
        // that address is another one.
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

    /// Returns the last output of the server, if it was started here and has ended.
    fn has_ended(&self) -> Option<String> {
        self.running.as_ref().and_then(|running| running.borrow_mut().has_ended())
    }

    /// Returns the failure of the server in the last measurement, if there was one.
    pub(crate) const fn down(&self) -> Option<&Down> {
        self.down.as_ref()
    }

    /// True if other programs used more of the processors in `run` than is allowed.
    pub(crate) fn was_disturbed(&self, run: &Run) -> bool {
        self.limits.doubt_of_others(run.watch.as_ref()).is_some()
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
        run.doubts.extend(self.limits.doubt_of_others(watch.as_ref()));
        run.watch = watch;
        let ended = self.has_ended().map(|last_words| format!("it has ended: {last_words}"));
        let (gone, broken) = match trouble {
            Some(trouble) if trouble.is_gone() => (Some(trouble.to_string()), None),
            trouble => (None, trouble),
        };
        if let Some(broken) = broken {
            run.doubts.push(format!("the observation ended: {broken}"));
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

    /// Runs the load `spec` on the system.
    ///
    /// # Errors
    /// [`CommandError`] if the users cannot be prepared or the system cannot be watched.
    pub(crate) fn measure(
        &mut self,
        spec: &LoadSpec,
        label: &str,
        repeat: u32,
    ) -> Result<Run, CommandError> {
        self.check()?;
        if let Some((media, load)) = &self.media {
            let mut run = self.measure_media(*media, load, spec)?;
            run.system.clone_from(&self.system.name);
            (run.label, run.repeat) = (label.to_owned(), repeat);
            return Ok(run);
        }
        let registers = !matches!(
            spec.operation,
            Operation::Options | Operation::InviteNotFound | Operation::Register
        );
        if spec.has_registrar && registers && !self.is_clear {
            self.clear()?;
        }
        let settle = self.settle.unwrap_or(match spec.operation {
            // A proxy removes its transactions some seconds later.
            Operation::Invite => Duration::from_secs(6),
            _ => Duration::ZERO,
        });
        let work = (spec.operation, spec.authentication);
        let ceilings = self.ceilings.get(&work).map_or(&[][..], Vec::as_slice);
        let gone = &self.force.shared().gone;
        let watching = Watching::start(self.subject.as_ref(), settle, gone)?;
        let running = self.running.clone();
        let timings =
            || running.as_ref().map_or(Ok(Steps::new()), |running| running.borrow().timings());
        let readings = watching.readings();
        let mut meters = Metering::new(watching, timings);
        let shown = self.progress.show(&self.force, spec, &self.system.name, label, readings);
        let measured =
            measure::run(&mut self.force, spec, self.users, &self.limits, ceilings, &mut meters);
        drop(shown);
        let measured = measured?;
        self.traffic = (measured.traffic, measured.operations);
        let (watching, steps) = meters.finish();
        let mut run = self.complete(measured, watching, label, repeat)?;
        if self.down.is_none() {
            run.steps = steps?;
        }
        Ok(run)
    }

    /// Runs the load `spec` with media.
    fn measure_media(
        &self,
        media: MediaKind,
        load: &LoadArgs,
        spec: &LoadSpec,
    ) -> Result<Run, CommandError> {
        let hold = spec.hold.as_micros() as f64 / 1e6;
        let wanted = Wanted {
            codecs: media.pair(),
            protection: media.protection,
            calls: (spec.rate() * hold).ceil().max(1.0) as u64,
            rate: spec.rate(),
            audio: spec.hold,
            warmup: spec.warmup,
            duration: Duration::from_micros((spec.seconds() * 1e6) as u64),
            faults: Faults::default(),
            echo_faults: Faults::default(),
            from: load.detail.from,
            workers: load.detail.workers,
            seed: spec.seed,
            transport: self.target.transport,
        };
        let server = self.target.address;
        let callees = match &load.to {
            Some(uri) => Callees::Uri { uri: uri.clone(), server },
            None => Callees::Registered {
                server,
                domain: self.domain.clone(),
                callers_register: load.detail.register_first,
            },
        };
        let plan = voice::plan(&wanted, callees, &load.users.users()?)?;
        let judge = Judge {
            subject: self.subject.as_ref(),
            settle: self.settle,
            limits: load.detail.limits(),
            authentication: spec.authentication,
        };
        let fleet = self.fleet.as_deref();
        let proof = voice::prove(&plan, load.detail.no_headroom, fleet, &self.ending)?;
        let title = format!("{}: calls with media", self.system.name);
        let shown = |readings| self.progress.show_usage(&title, readings);
        voice::measure(&plan, judge, proof, fleet, &self.ending, shown)
    }

    /// Returns the system's counters since its start, if it reports them.
    fn counters(&self) -> Result<BTreeMap<String, u64>, CommandError> {
        let running = self.running.as_ref().map(|running| running.borrow().counters());
        Ok(running.transpose()?.unwrap_or_default())
    }
}

/// Returns the datagrams that were dropped in a run, by place: on the sockets of both ends, and by
/// the server, by its counters `before` and `after` the run.
fn dropped(
    run: &Run,
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let counted = |name: &str| {
        let at = |counters: &BTreeMap<String, u64>| counters.get(name).copied().unwrap_or_default();
        at(after).saturating_sub(at(before))
    };
    let places = [
        ("client's sockets", run.generator.drops),
        ("server's sockets", run.watch.as_ref().map_or(0, |watch| watch.total.udp_drops)),
        ("server, unread", counted("unread")),
        ("server, overload", counted("overload-dropped")),
    ];
    let some = places.into_iter().filter(|(_, count)| *count > 0);
    some.map(|(place, count)| (place.to_owned(), count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::tests::run;

    #[test]
    fn dropped_datagrams_are_those_of_the_run() {
        let counters = |unread, overload| {
            let counters = [("unread", unread), ("overload-dropped", overload), ("requests", 7)];
            counters.map(|(name, count)| (name.to_owned(), count)).into()
        };
        let mut run = run();
        assert!(dropped(&run, &counters(3, 5), &counters(3, 5)).is_empty());
        run.generator.drops = 2;
        let dropped = dropped(&run, &counters(3, 5), &counters(3, 9));
        let dropped: Vec<_> = dropped.iter().map(|(place, count)| (&place[..], *count)).collect();
        assert_eq!(dropped, [("client's sockets", 2), ("server, overload", 4)]);
    }
}
