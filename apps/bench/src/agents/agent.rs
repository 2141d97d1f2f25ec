//! The agent: generates its share of a load under a controller on another machine.

use super::protocol::{Found, Order, PROTOCOL, Plan, Reply, line};
use crate::ceiling::ceiling;
use crate::console::complain;
use crate::load::gather;
use crate::load::generator::Generator;
use crate::load::worker::Shared;
use crate::sut::probe;
use crate::target::Target;
use crate::{record, voice, watch};
use net::Clock;
use sip::Instant;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The interval of checks for a new second to report.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);

/// Executes the orders from standard input until its end. Then this process ends at once. If
/// `removes_itself`, it removes its program file first.
pub(crate) fn serve(removes_itself: bool, ending: &Arc<AtomicBool>) {
    if removes_itself {
        // A running program does not need its file, so the copy is removed for any end.
        let removed = std::env::current_exe().and_then(std::fs::remove_file);
        if let Err(error) = removed {
            complain(format_args!("this copy of the program cannot be removed: {error}"));
        }
    }
    let clock = Clock::start();
    say(&Reply::Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: PROTOCOL,
        machine: Box::new(watch::machine()),
    });
    let (orders, todo) = channel();
    let (starts, begin) = channel();
    let stop = Arc::clone(ending);
    let shared = SharedById::default();
    let of_work = Arc::clone(&shared);
    let work = thread::Builder::new().name("agent".to_owned()).spawn(move || {
        let generators = HashMap::new();
        Agent { clock, ending: stop, shared: of_work, generators, begin }.work(&todo);
    });
    if let Err(error) = work {
        say(&Reply::Failed(format!("no thread: {error}")));
        return;
    }
    let mut input = std::io::stdin().lock();
    while let Ok(Some(text)) = line(&mut input) {
        match serde_json::from_slice(&text) {
            // Answered in this thread, so that a running job does not delay it.
            Ok(Order::Time) => say(&Reply::Time(clock.now().as_micros())),
            Ok(Order::Begin(start)) => {
                // The work has ended with a failure, which was reported, if this fails.
                let _ = starts.send(start);
            }
            Ok(Order::Stop) => ending.store(true, Ordering::Relaxed),
            Ok(Order::Gone { id }) => {
                if let Some(shared) = locked(&shared).get(&id) {
                    shared.gone.store(true, Ordering::Relaxed);
                }
            }
            Ok(Order::Enough { id }) => {
                if let Some(shared) = locked(&shared).get(&id) {
                    shared.enough.store(true, Ordering::Relaxed);
                }
            }
            Ok(order) => {
                // Reset here, since the end may be ordered before the work has begun.
                if let Order::Do { id, .. } = &order
                    && let Some(shared) = locked(&shared).get(id)
                {
                    shared.enough.store(false, Ordering::Relaxed);
                }
                if orders.send(order).is_err() {
                    return;
                }
            }
            Err(error) => say(&Reply::Failed(format!("it cannot read the order: {error}"))),
        }
    }
}

/// A closed output ends the agent.
fn say(reply: &Reply) {
    let said = serde_json::to_vec(reply).map_err(std::io::Error::from).and_then(|mut text| {
        text.push(b'\n');
        let mut out = std::io::stdout().lock();
        out.write_all(&text)?;
        out.flush()
    });
    if said.is_err() {
        std::process::exit(1);
    }
}

/// The state that each generator shares with the thread that reads orders.
type SharedById = Arc<Mutex<HashMap<u32, Shared>>>;

fn locked(shared: &SharedById) -> MutexGuard<'_, HashMap<u32, Shared>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Agent {
    clock: Clock,
    ending: Arc<AtomicBool>,
    shared: SharedById,
    generators: HashMap<u32, Generator>,
    /// The starts of calls with media.
    begin: Receiver<u64>,
}

impl Agent {
    fn work(&mut self, todo: &Receiver<Order>) {
        for order in todo {
            match self.execute(order) {
                Ok(None) => {}
                Ok(Some(reply)) => say(&reply),
                Err(reason) => say(&Reply::Failed(reason)),
            }
        }
    }

    fn execute(&mut self, order: Order) -> Result<Option<Reply>, String> {
        match order {
            Order::Open { id, plan } => self.open(id, *plan).map(Some),
            Order::Close { id } => {
                self.generators.remove(&id);
                locked(&self.shared).remove(&id);
                Ok(None)
            }
            Order::Ceiling { plan, operation, authentication } => {
                let plan = plan.into_plan()?;
                ceiling(&plan, operation, authentication, &self.ending)
                    .map(|ceiling| Some(Reply::Ceiling(ceiling)))
                    .map_err(|error| error.to_string())
            }
            Order::Do { id, start, job } => {
                let generator =
                    self.generators.get_mut(&id).ok_or_else(|| format!("no sockets {id}"))?;
                let wait = Instant::from_micros(start).since(self.clock.now());
                let start = generator.clock().now() + wait;
                generator.shared.glances.lock().unwrap_or_else(PoisonError::into_inner).clear();
                let shown = Telling::start(&generator.shared, generator.workers());
                let found = job.execute(generator, start);
                drop(shown);
                let found: Result<Vec<_>, _> = found.iter().map(Found::try_from).collect();
                let is_early = self.ending.load(Ordering::Relaxed);
                Ok(Some(Reply::Found { found: found?, is_early }))
            }
            Order::Headroom(plan) => {
                let plan = plan.settle().map_err(|error| error.to_string())?;
                let headroom = voice::headroom(&plan, &self.ending);
                headroom
                    .map(|headroom| Some(Reply::Headroom(headroom)))
                    .map_err(|error| error.to_string())
            }
            Order::Media(plan) => {
                let plan = plan.settle().map_err(|error| error.to_string())?;
                let found = voice::run_after(&plan, &self.ending, &mut (), || {
                    say(&Reply::Opened { workers: plan.workers });
                    self.time_to_begin()
                });
                found
                    .map(|found| Some(Reply::Media(Box::new(found))))
                    .map_err(|error| error.to_string())
            }
            Order::Time
            | Order::Stop
            | Order::Gone { .. }
            | Order::Enough { .. }
            | Order::Begin(_) => Ok(None),
        }
    }

    /// Waits for the start of calls with media, and returns the time until it.
    fn time_to_begin(&self) -> sip::Duration {
        while !self.ending.load(Ordering::Relaxed) {
            match self.begin.recv_timeout(LOOK) {
                Ok(start) => return Instant::from_micros(start).since(self.clock.now()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        sip::Duration::ZERO
    }

    fn open(&mut self, id: u32, plan: Plan) -> Result<Reply, String> {
        let host = plan.host.clone();
        let plan = plan.into_plan()?;
        let (transport, address) = (plan.settings.transport, plan.target);
        let target = Target { transport, address, host, others: Vec::new() };
        if plan.is_probing {
            probe(&target, &plan.settings.domain).map_err(|error| error.to_string())?;
        }
        let generator = Generator::open(&plan, &self.ending).map_err(|error| error.to_string())?;
        let workers = generator.workers();
        locked(&self.shared).insert(id, generator.shared.clone());
        self.generators.insert(id, generator);
        Ok(Reply::Opened { workers })
    }
}

/// Reports each second until it is dropped.
struct Telling {
    stop: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Telling {
    fn start(shared: &Shared, workers: usize) -> Self {
        let (stop, stopped) = channel::<()>();
        let shared = shared.clone();
        let tell = move || {
            let mut last = None;
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let Some((number, second, response)) = gather(&shared, workers) else { continue };
                if last != Some(number)
                    && let Ok(text) = record::encode(&response)
                {
                    say(&Reply::Glance(second, text, number));
                    last = Some(number);
                }
            }
        };
        let thread = thread::Builder::new().name("telling".to_owned()).spawn(tell).ok();
        Self { stop: Some(stop), thread }
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
