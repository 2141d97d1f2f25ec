//! The workers of a load of calls with media.

use super::found::Found;
use super::plan::Plan;
use super::signal::{Sound, VARIANTS};
use super::worker::Worker;
use crate::load::generator::allow_files;
use crate::load::links::LinkError;
use crate::meters::Meters;
use media::Codec;
use net::Clock;
use sip::{Duration, Instant};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

/// The time for all workers to get ready.
const LEAD: Duration = Duration::from_millis(20);
/// The sockets of a call, and a reserve for calls that overlap.
const SOCKETS: u64 = 3;

/// The reason why a load cannot run.
#[derive(Debug)]
pub(crate) enum VoiceError {
    Link(LinkError),
    /// A worker cannot open its sockets or register its users.
    Worker(String),
}

impl fmt::Display for VoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link(error) => error.fmt(f),
            Self::Worker(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for VoiceError {}

/// The signals that were encoded so far.
static SOUNDS: Mutex<Vec<(Codec, Vec<Arc<Sound>>)>> = Mutex::new(Vec::new());

/// Returns the signal in this codec, in all variants.
fn sounds(codec: Codec) -> Vec<Arc<Sound>> {
    let mut known = SOUNDS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, sounds)) = known.iter().find(|(of, _)| *of == codec) {
        return sounds.clone();
    }
    let sounds: Vec<_> =
        (0..VARIANTS).map(|variant| Arc::new(Sound::new(codec, variant))).collect();
    known.push((codec, sounds.clone()));
    sounds
}

/// Runs a load. `meters` observe the server meanwhile. Setting `ending` ends it early.
///
/// # Errors
/// [`VoiceError`] if the ends cannot be opened, or the server does not register them.
pub(crate) fn run(
    plan: &Plan,
    ending: &Arc<AtomicBool>,
    meters: &mut impl Meters,
) -> Result<Found, VoiceError> {
    run_after(plan, ending, meters, || LEAD)
}

/// As [`run`]. `lead` is called when the ends are ready, and returns the time until the start.
///
/// # Errors
/// As of [`run`].
pub(crate) fn run_after(
    plan: &Plan,
    ending: &Arc<AtomicBool>,
    meters: &mut impl Meters,
    lead: impl FnOnce() -> Duration,
) -> Result<Found, VoiceError> {
    allow_files((plan.calls * SOCKETS) as usize).map_err(VoiceError::Link)?;
    let clock = Clock::start();
    let plan = Arc::new(plan.clone());
    let sounds = [plan.codecs.caller, plan.codecs.callee].map(|codec| sounds(codec.0));
    std::thread::scope(|scope| {
        let (opened, ready) = channel();
        let mut workers = Vec::new();
        for index in 0..plan.workers {
            let (plan, ending, sounds) = (Arc::clone(&plan), Arc::clone(ending), sounds.clone());
            let (opened, (go, started)) = (opened.clone(), channel::<Instant>());
            let thread = scope.spawn(move || {
                // The kernel may refuse: then the thread wakes later, which shows in its lag.
                let _ = net::take_short_turns();
                let opening = Worker::open(plan, index, clock, ending, sounds)
                    .map_err(|error| error.to_string());
                let mut worker = match opening {
                    Ok(worker) => worker,
                    Err(reason) => {
                        let _ = opened.send(Err(reason));
                        return None;
                    }
                };
                let _ = opened.send(worker.register());
                // The channel is closed if another worker has failed.
                let found = started.recv().ok().map(|start| worker.run(start));
                worker.unregister();
                found
            });
            workers.push((go, thread));
        }
        let ready: Vec<Result<(), String>> = ready.iter().take(plan.workers).collect();
        if let Some(reason) = ready.into_iter().find_map(Result::err) {
            return Err(VoiceError::Worker(reason));
        }
        meters.begin();
        let lead = lead();
        let start = clock.now() + lead;
        let measured = start + plan.warmup;
        meters.measured(Duration::ZERO, clock.system(measured), plan.duration);
        let (starts, threads): (Vec<_>, Vec<_>) = workers.into_iter().unzip();
        for go in starts {
            let _ = go.send(start);
        }
        let mut all = Found::default();
        for thread in threads {
            let found = thread.join().map_err(|_| {
                VoiceError::Worker("a worker of the load has ended unexpectedly".to_owned())
            })?;
            found.into_iter().for_each(|found| all.merge(found));
        }
        meters.end();
        Ok(all)
    })
}
