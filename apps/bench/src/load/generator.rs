//! The workers of this process, and their users.

use super::arrivals::{Arrivals, Segment, Spacing};
use super::engine::{Settings, Task};
use super::links::{LinkError, LinkPlan, Sharing, Tls};
use super::worker::{Bound, CyclePlan, Found, LoadPlan, Shared, Worker, WorkerPlan};
use crate::tls;
use crate::users::Users;
use net::Clock;
use net::tls::{Client, ServerName, Trust};
use serde::{Deserialize, Serialize};
use sip::{Duration, Instant, Transport};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// The configuration of a generator.
#[derive(Clone, Debug)]
pub(crate) struct GeneratorPlan {
    pub(crate) target: SocketAddr,
    pub(crate) settings: Settings,
    /// The users of this machine.
    pub(crate) users: Users,
    /// The highest rate of this machine.
    pub(crate) rate: f64,
    /// The number of threads; `None` derives it from the rate and the processors.
    pub(crate) workers: Option<usize>,
    pub(crate) sharing: Sharing,
    /// True if datagrams of one length go to the kernel together, where a thread has one socket.
    pub(crate) is_segmenting: bool,
    /// True if TLS resumes sessions.
    pub(crate) is_resuming: bool,
    /// The timer tick; `None` derives it from the rate, zero means no ticks.
    pub(crate) tick: Option<Duration>,
    /// True if the server is probed with OPTIONS before the load.
    pub(crate) is_probing: bool,
    /// The local address; `None` for that of the route to the server.
    pub(crate) local: Option<IpAddr>,
    pub(crate) part: Part,
}

/// The share of this machine among several machines with equal shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The index, from 0.
    pub(crate) index: usize,
    /// The number of machines.
    pub(crate) count: usize,
}

impl Part {
    /// The share of a single machine.
    pub(crate) const WHOLE: Self = Self { index: 0, count: 1 };

    /// Returns the index of worker `worker` of this machine among all workers, and their number, if
    /// each machine had `workers` workers. A machine takes every `count`-th index, and its workers
    /// take those in turn. So the machines have equal shares whatever their numbers of workers.
    const fn place(self, worker: usize, workers: usize) -> (usize, usize) {
        (self.index + self.count * worker, self.count * workers)
    }

    /// Returns the users of this machine, in pairs that call each other.
    pub(crate) fn users(self, users: usize) -> Range<usize> {
        let pairs = share(users / 2, self.index, self.count);
        let end = if self.index + 1 == self.count { users } else { pairs.end * 2 };
        pairs.start * 2..end
    }
}

/// A period of load on all workers.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    pub(crate) task: Task,
    pub(crate) segments: Vec<Segment>,
    pub(crate) spacing: Spacing,
    pub(crate) seed: u64,
    /// The time from the start of its series to its own start.
    pub(crate) before: Duration,
    /// The measured time, from its start.
    pub(crate) measured: Range<Duration>,
    /// The time to wait for operations under way at its end.
    pub(crate) drain: Duration,
}

enum Job {
    ClosedLoop { task: Task, window: usize, bound: Bound },
    Load(LoadPlan),
    Cycle(CyclePlan),
    Answer { salt: u32 },
    LogOut,
}

struct Handle {
    jobs: Sender<Job>,
    found: Receiver<Found>,
    thread: Option<JoinHandle<()>>,
}

/// The worker threads with open sockets.
pub(crate) struct Generator {
    workers: Vec<Handle>,
    clock: Clock,
    part: Part,
    /// The state that the workers publish while they run.
    pub(crate) shared: Shared,
}

/// The time for all workers to get ready before a load.
const LEAD: Duration = Duration::from_millis(20);

impl Generator {
    /// Starts the workers and opens their sockets. Setting `ending` ends a load early.
    ///
    /// # Errors
    /// [`LinkError`] if a socket cannot be opened.
    pub(crate) fn open(plan: &GeneratorPlan, ending: &Arc<AtomicBool>) -> Result<Self, LinkError> {
        let local = plan.local.map_or_else(|| local_address(plan.target), Ok)?;
        let clock = Clock::start();
        let shared = Shared { ending: Arc::clone(ending), ..Shared::default() };
        let settings = &plan.settings;
        let tls = of_tls(settings.transport, &settings.domain, plan.is_resuming)?;
        let count = plan.workers.unwrap_or_else(|| enough(plan.rate));
        let count = count.clamp(1, plan.users.len().max(1));
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
                is_segmenting: plan.is_segmenting,
                users: users.len(),
                local,
                tls: tls.clone(),
            };
            let settings = Settings {
                salt: plan.settings.salt.wrapping_add(plan.part.place(index, count).0 as u32),
                ..plan.settings.clone()
            };
            let plan = WorkerPlan { settings, users, links, tick: plan.tick };
            workers.push(spawn(plan, index, clock, shared.clone())?);
        }
        Ok(Self { workers, clock, part: plan.part, shared })
    }

    /// Returns the number of workers.
    pub(crate) fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns the clock of all workers.
    pub(crate) const fn clock(&self) -> Clock {
        self.clock
    }

    /// Runs `task` in a closed loop with at most `window` operations at a time on each worker.
    pub(crate) fn closed_loop(&mut self, task: Task, window: usize, bound: Bound) -> Vec<Found> {
        self.all(|_, _| Job::ClosedLoop { task, window, bound })
    }

    /// Answers the calls of a sender with one worker and the salt `salt`, until the sender has
    /// ended: see [`Shared::enough`].
    pub(crate) fn answer(&mut self, salt: u32) -> Vec<Found> {
        self.all(|_, _| Job::Answer { salt })
    }

    /// Returns the next time at which all workers can start together.
    pub(crate) fn soon(&self) -> Instant {
        self.clock.now() + LEAD
    }

    /// Runs the operations of each user in a cycle from `start`; the start in `plan` is ignored.
    pub(crate) fn cycle(&mut self, plan: &CyclePlan, start: Instant) -> Vec<Found> {
        self.all(|_, _| Job::Cycle(CyclePlan { start, ..plan.clone() }))
    }

    /// Runs a load from `start`.
    pub(crate) fn load(&mut self, stretch: &Stretch, start: Instant) -> Vec<Found> {
        let part = self.part;
        self.all(|worker, workers| {
            let (index, count) = part.place(worker, workers);
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
    /// Removes the bindings that were made, also after a failed measurement.
    fn drop(&mut self) {
        for worker in &self.workers {
            let _ = worker.jobs.send(Job::LogOut);
        }
        for worker in &mut self.workers {
            let (closed, _) = channel();
            worker.jobs = closed;
            if let Some(thread) = worker.thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// Returns the TLS configuration. Server certificates are not verified. The server name is the
/// users' domain.
pub(crate) fn of_tls(
    transport: Transport,
    domain: &str,
    is_resuming: bool,
) -> Result<Option<Tls>, LinkError> {
    if !transport.is_secure() {
        return Ok(None);
    }
    let failed = |text: String| LinkError::Tls(text);
    let client = Client::new(&Trust::Any, None, true);
    let client = client.map_err(|error| failed(error.to_string()))?;
    let client = if is_resuming { client } else { client.without_resumption() };
    let name = ServerName::try_from(domain.to_owned());
    let name = name.map_err(|_| failed(format!("{domain} is no host name")))?;
    let server = tls::unsigned().map_err(failed)?;
    Ok(Some(Tls { client, name, server }))
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
                    Job::Answer { salt } => worker.answer(salt),
                    Job::LogOut => {
                        worker.log_out();
                        continue;
                    }
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

/// Returns the number of workers for `rate`, limited by the number of processors.
fn enough(rate: f64) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = (rate / 20_000.0).ceil().max(1.0) as usize;
    cores.min(wanted)
}

/// Returns the users of worker `index` among `count`.
pub(crate) fn share(users: usize, index: usize, count: usize) -> Range<usize> {
    users * index / count..users * (index + 1) / count
}

/// Returns the local address for the route to `target`.
pub(crate) fn local_address(target: SocketAddr) -> Result<IpAddr, LinkError> {
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

/// Raises the limit of open files for `sockets` more sockets and a reserve.
pub(crate) fn allow_files(sockets: usize) -> Result<(), LinkError> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    // The sockets of another generator are open too if several systems are measured in turn.
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let wanted = (open + sockets) as u64 + 256;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{Authentication, Peer, Script};

    /// Returns a generator of 20 users at the peer, with registrations of `expires` seconds.
    fn registered(peer: &Peer, expires: u32, ending: &Arc<AtomicBool>) -> Generator {
        let plan = GeneratorPlan {
            target: peer.address(),
            settings: Settings {
                salt: 7,
                domain: "bench.invalid".to_owned(),
                transport: Transport::Udp,
                timers: sip::transaction::Timers::default(),
                ring: Duration::ZERO,
                hold: Duration::ZERO,
                expires,
                target: peer.address(),
                to: None,
                retransmits: true,
                hangs_up: true,
                register_first: false,
                reuse_nonces: false,
            },
            users: Users::from_pattern(Users::DEFAULT_PATTERN, 20).unwrap(),
            rate: 100.0,
            workers: Some(2),
            sharing: Sharing::Thread,
            is_segmenting: true,
            is_resuming: true,
            tick: None,
            is_probing: false,
            local: None,
            part: Part::WHOLE,
        };
        let mut generator = Generator::open(&plan, ending).unwrap();
        generator.closed_loop(Task::Register, 10, Bound::EachUser);
        await_bindings(peer, 20);
        generator
    }

    /// Waits for the peer's counts, which it publishes a little after its responses.
    fn await_bindings(peer: &Peer, bindings: u64) {
        for _ in 0..1000 {
            if peer.counts().bindings == bindings {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{} bindings, not {bindings}", peer.counts().bindings);
    }

    #[test]
    fn registered_users_are_logged_out_at_the_end_also_of_a_stopped_load() {
        let script = Script { authentication: Authentication::Nonce, ..Script::default() };
        for is_stopped in [false, true] {
            let peer = Peer::start(&script).unwrap();
            let ending = Arc::new(AtomicBool::new(false));
            let generator = registered(&peer, 600, &ending);
            ending.store(is_stopped, std::sync::atomic::Ordering::Relaxed);
            drop(generator);
            await_bindings(&peer, 0);
            assert_eq!(peer.counts().registers, 80, "each challenged");
        }
    }

    #[test]
    fn only_the_bindings_that_there_are_are_removed() {
        let peer = Peer::start(&Script::default()).unwrap();
        let mut generator = registered(&peer, 600, &Arc::default());
        generator.closed_loop(Task::Logout, 10, Bound::EachUser);
        await_bindings(&peer, 0);
        drop(generator);
        let probe = registered(&peer, 600, &Arc::default());
        assert_eq!(peer.counts().registers, 60);
        drop(probe);
    }

    #[test]
    fn bindings_are_refreshed_during_a_load_and_are_no_operations() {
        let peer = Peer::start(&Script::default()).unwrap();
        let mut generator = registered(&peer, 2, &Arc::default());
        let stretch = Stretch {
            task: Task::Invite,
            segments: vec![Segment::constant(40.0, 3.0)],
            spacing: Spacing::Fixed,
            seed: 1,
            before: Duration::ZERO,
            measured: Duration::ZERO..Duration::from_secs(3),
            drain: Duration::from_secs(20),
        };
        let start = generator.soon();
        let found = generator.load(&stretch, start);
        let mut tally = found[0].tally.clone();
        tally.merge(&found[1].tally);
        let operations = tally.operations;
        let counts = tally.counts().clone();
        assert_eq!(
            (counts.offered, counts.started, counts.succeeded, operations),
            (120, 120, 120, 120)
        );
        assert!(counts.refreshed >= 20, "each at least once: {}", counts.refreshed);
        assert_eq!(peer.counts().registers, 20 + counts.refreshed);
        assert!(!tally.verdict().1.contains("REGISTER"), "not among the final responses");
    }

    #[test]
    fn machines_share_arrivals_evenly_and_users_without_a_gap() {
        // Three machines with 1, 2 and 4 workers.
        let segments = [Segment::constant(100.0, 6.0)];
        let mut all = Vec::new();
        for (index, workers) in [(0, 1), (1, 2), (2, 4)] {
            let part = Part { index, count: 3 };
            let mut of_machine = 0;
            for worker in 0..workers {
                let (place, places) = part.place(worker, workers);
                let spacing = Spacing::Fixed;
                let arrivals = Arrivals::new(segments.to_vec(), spacing, place, places, 7);
                let before = all.len();
                all.extend(arrivals.map(Duration::as_micros));
                of_machine += all.len() - before;
            }
            assert_eq!(of_machine, 200, "machine {index}");
        }
        // Rounding down to microseconds makes some one too early.
        all.iter_mut().for_each(|at| *at = (*at + 1) / 10 * 10);
        all.sort_unstable();
        assert_eq!(all, (0..600).map(|number| number * 10_000).collect::<Vec<_>>());
        for users in [6, 7, 10, 11, 1001] {
            let parts = [0, 1, 2].map(|index| Part { index, count: 3 }.users(users));
            assert_eq!(parts.clone().into_iter().flatten().collect::<Vec<_>>(), {
                (0..users).collect::<Vec<_>>()
            });
            // Only the odd user at the end has its partner on another machine.
            assert!(parts.iter().all(|part| part.start % 2 == 0 && part.len() >= 2), "{parts:?}");
        }
        assert_eq!(Part::WHOLE.users(7), 0..7);
    }
}
