//! All workers of this process, and what they play.

use super::arrivals::{Arrivals, Segment, Spacing};
use super::engine::{Settings, Task};
use super::links::{LinkError, LinkPlan, Sharing};
use super::worker::{Bound, CyclePlan, Found, LoadPlan, Shared, Worker, WorkerPlan};
use crate::users::Users;
use net::Clock;
use sip::Duration;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What a generator is made from.
#[derive(Clone, Debug)]
pub(crate) struct GeneratorPlan {
    pub(crate) target: SocketAddr,
    pub(crate) settings: Settings,
    pub(crate) users: Users,
    pub(crate) workers: usize,
    pub(crate) sharing: Sharing,
    pub(crate) tick: Duration,
}

/// A stretch of load on all workers.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) task: Task,
    pub(crate) segments: Vec<Segment>,
    pub(crate) spacing: Spacing,
    pub(crate) seed: u64,
    /// When the series that it belongs to began, before its own beginning.
    pub(crate) before: Duration,
    /// What of it is measured, from its beginning.
    pub(crate) measured: std::ops::Range<Duration>,
    /// How long to wait for what is under way at its end.
    pub(crate) drain: Duration,
}

enum Job {
    ClosedLoop { task: Task, window: usize, bound: Bound },
    Load(LoadPlan),
    Cycle(CyclePlan),
}

struct Handle {
    jobs: Sender<Job>,
    found: Receiver<Found>,
    thread: Option<JoinHandle<()>>,
}

/// Threads with their sockets open.
pub(crate) struct Generator {
    workers: Vec<Handle>,
    clock: Clock,
    /// What the workers tell while they run.
    pub(crate) shared: Shared,
}

/// Time for all workers to get ready before a load begins.
const LEAD: Duration = Duration::from_millis(20);

impl Generator {
    /// Starts the workers, and opens their sockets. When `ending` is set, loads end early.
    ///
    /// # Errors
    /// [`LinkError`] where a socket cannot be had.
    pub(crate) fn open(plan: &GeneratorPlan, ending: &Arc<AtomicBool>) -> Result<Self, LinkError> {
        let local = local_address(plan.target)?;
        let clock = Clock::start();
        let shared = Shared { ending: Arc::clone(ending), ..Shared::default() };
        let count = plan.workers.clamp(1, plan.users.len().max(1));
        if plan.sharing != Sharing::Thread {
            allow_files(plan.users.len())?;
        }
        let mut workers = Vec::new();
        for index in 0..count {
            let users: Vec<_> =
                share(plan.users.len(), index, count).map(|user| plan.users.get(user)).collect();
            let links = LinkPlan {
                target: plan.target,
                transport: plan.settings.transport,
                sharing: plan.sharing,
                users: users.len(),
                local,
            };
            let settings = Settings {
                salt: plan.settings.salt.wrapping_add(index as u32),
                ..plan.settings.clone()
            };
            let plan = WorkerPlan { settings, users, links, tick: plan.tick };
            workers.push(spawn(plan, index, clock, shared.clone())?);
        }
        Ok(Self { workers, clock, shared })
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The clock of all workers.
    pub(crate) const fn clock(&self) -> Clock {
        self.clock
    }

    /// Does `task` with at most `window` at a time on each worker.
    pub(crate) fn closed_loop(&mut self, task: Task, window: usize, bound: Bound) -> Vec<Found> {
        self.all(|_, _| Job::ClosedLoop { task, window, bound })
    }

    /// Lets each user do something again and again. The start that `plan` names is set here.
    pub(crate) fn cycle(&mut self, plan: &CyclePlan) -> Vec<Found> {
        let start = self.clock.now() + LEAD;
        self.all(|_, _| Job::Cycle(CyclePlan { start, ..plan.clone() }))
    }

    /// Puts a load on the server.
    pub(crate) fn load(&mut self, stretch: &Stretch) -> Vec<Found> {
        let start = self.clock.now() + LEAD;
        self.all(|index, count| {
            Job::Load(LoadPlan {
                task: stretch.task,
                origin: start - stretch.before,
                start,
                arrivals: Arrivals::new(
                    stretch.segments.clone(),
                    stretch.spacing,
                    index,
                    count,
                    stretch.seed,
                ),
                measured: start + stretch.measured.start..start + stretch.measured.end,
                drain: stretch.drain,
                first_user: 0,
            })
        })
    }

    fn all(&mut self, job: impl Fn(usize, usize) -> Job) -> Vec<Found> {
        let count = self.workers.len();
        for (index, worker) in self.workers.iter().enumerate() {
            worker.jobs.send(job(index, count)).expect("a worker lives as long as its generator");
        }
        self.workers
            .iter()
            .map(|worker| worker.found.recv().expect("a worker answers each job"))
            .collect()
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let (closed, _) = channel();
            worker.jobs = closed;
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

fn spawn(
    plan: WorkerPlan,
    index: usize,
    clock: Clock,
    shared: Shared,
) -> Result<Handle, LinkError> {
    let (jobs, orders) = channel::<Job>();
    let (results, found) = channel();
    let (opened, ready) = channel();
    let address = plan.links.local;
    let thread = std::thread::Builder::new()
        .name(format!("load-{index}"))
        .spawn(move || {
            let mut worker = match Worker::new(plan, index, clock, shared) {
                Ok(worker) => worker,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok(()));
            for job in orders {
                let result = match job {
                    Job::ClosedLoop { task, window, bound } => {
                        worker.closed_loop(task, window, bound)
                    }
                    Job::Cycle(plan) => worker.cycle(&plan),
                    Job::Load(plan) => worker.load(&plan),
                };
                if results.send(result).is_err() {
                    return;
                }
            }
        })
        .map_err(|error| LinkError::Socket(address, error))?;
    ready.recv().expect("a worker tells whether it has its sockets")?;
    Ok(Handle { jobs, found, thread: Some(thread) })
}

/// The users of worker `index` among `count`.
fn share(users: usize, index: usize, count: usize) -> std::ops::Range<usize> {
    users * index / count..users * (index + 1) / count
}

/// The address of ours that `target` is reached from.
fn local_address(target: SocketAddr) -> Result<IpAddr, LinkError> {
    let any: IpAddr = match target {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind(SocketAddr::new(any, 0))
        .and_then(|socket| {
            socket.connect(target)?;
            socket.local_addr()
        })
        .map(|address| address.ip())
        .map_err(|error| LinkError::NoRoute(target, error))
}

/// Lets this process have `sockets` sockets, and what it needs besides.
fn allow_files(sockets: usize) -> Result<(), LinkError> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let wanted = sockets as u64 + 256;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    if soft >= wanted {
        return Ok(());
    }
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted))
        .or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, wanted.min(hard), hard))
        .ok()
        .filter(|()| getrlimit(Resource::RLIMIT_NOFILE).is_ok_and(|(soft, _)| soft >= wanted))
        .ok_or(LinkError::TooMany { wanted: sockets, allowed: hard })
}
