//! Watches the system under test: processor time, memory, context switches, dropped datagrams and
//! network traffic of a process with all its descendants, here or on another machine.
//!
//! Everything is read from `/proc`, here and, over `ssh`, there, by the same parser; the other
//! machine needs no program of ours.
//!
//! - *Processor time*: `/proc/PID/task/*/schedstat` has the nanoseconds that each thread was on a
//!   processor. User and system time are in `/proc/PID/stat`, in ticks of 10 ms; the total is
//!   divided in their proportion. Of threads and children that end between two readings, the ticks
//!   of `stat` tell (`utime`, `stime`, `cutime`, `cstime`), so that these are exact to 10 ms each.
//! - *Memory*: `Pss` of `/proc/PID/smaps_rollup`, where a page that several processes share counts
//!   once. Where that may not be read (processes of another user), it is the resident set size, in
//!   which such a page counts for each, and the source says so.
//! - *Context switches*: `/proc/PID/task/*/status`, voluntary and not.
//! - *Drops*: the column of `/proc/PID/net/udp` and `udp6`, of the sockets that the processes have
//!   open.
//! - *Network bytes*: `/proc/PID/net/dev`, all interfaces of the first process's network namespace,
//!   `lo` among them, on which every byte is received and sent on the same machine.
//!
//! A reading is taken about once a second, and at each mark. Memory and sockets, which cost most,
//! are read in every fifth one and at marks.
//!
//! *Cost*, of six processes with 130 MB of shared memory: 0.3 ms of processor time for a reading, 5
//! ms for one with memory and sockets, so 0.12 % of one processor here; memory costs 36 us for each
//! MB that is mapped. On another machine the shell and `grep` take 4 ms and 15 ms, 0.6 % of one
//! processor. The figures of the watched processes do not contain it.

mod error;
mod machine;
mod parse;
mod source;
mod tally;

pub(crate) use error::WatchError;
pub(crate) use machine::machine;

use crate::record::{Sample, Usage, Watch};
use parse::parse;
use source::{Remote, Source};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tally::{Tally, difference, sum};

/// Between readings.
const INTERVAL: Duration = Duration::from_secs(1);
/// Of so many readings one has memory and sockets in it.
const FULL_EVERY: usize = 5;
/// Between looks whether the processes of this machine are still there.
const PULSE: Duration = Duration::from_millis(100);

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Processes of this machine, each with its descendants.
    Local(Vec<i32>),
    /// Processes of another machine, each with its descendants.
    Ssh {
        /// As for `ssh`: a name of its configuration, or `USER@HOST`.
        host: String,
        /// Which of its processes.
        what: Remotely,
    },
}

/// Processes of another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Remotely {
    /// The one with this number.
    Pid(i32),
    /// All with this name, as `/proc/PID/comm` has it: its first 15 bytes.
    Name(String),
}

impl FromStr for Subject {
    type Err = WatchError;

    /// `PID[,PID...]`, `ssh:HOST:PID`, or `ssh:HOST:NAME`.
    fn from_str(text: &str) -> Result<Self, WatchError> {
        let wrong = || WatchError::Subject(text.to_owned());
        let number = |text: &str| text.parse::<i32>().ok().filter(|&pid| pid > 0);
        let Some(rest) = text.strip_prefix("ssh:") else {
            let pids: Option<Vec<i32>> = text.split(',').map(number).collect();
            return pids.map(Self::Local).ok_or_else(wrong);
        };
        // The host may be an IPv6 address.
        let (host, what) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let host = crate::ssh::host(host).ok_or_else(wrong)?;
        let what = match number(what) {
            Some(pid) => Remotely::Pid(pid),
            None if crate::ssh::is_plain(what) => Remotely::Name(what.chars().take(15).collect()),
            None => return Err(wrong()),
        };
        Ok(Self::Ssh { host: host.to_owned(), what })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(pids) => {
                let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
                write!(f, "pid {}", pids.join(","))
            }
            Self::Ssh { host, what: Remotely::Pid(pid) } => write!(f, "ssh:{host} pid {pid}"),
            Self::Ssh { host, what: Remotely::Name(name) } => write!(f, "ssh:{host} {name}"),
        }
    }
}

/// A look at the system under test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// When it was taken.
    pub(crate) at: Instant,
    /// What was used until then. Only differences mean anything.
    pub(crate) total: Usage,
    /// Memory in bytes.
    pub(crate) memory: u64,
}

/// What a [`Watcher`] saw.
#[derive(Debug)]
pub(crate) struct Watched {
    /// What was watched, and what is to be known of that.
    pub(crate) source: String,
    /// Processors of the watched machine.
    pub(crate) cores: usize,
    /// About one a second: when, how many seconds after the look before, what was used since then,
    /// and memory in bytes.
    pub(crate) samples: Vec<(Instant, f64, Usage, u64)>,
    /// The last look at it.
    pub(crate) last: Option<Reading>,
    /// Why there are no more of them, if the watching broke off.
    pub(crate) trouble: Option<WatchError>,
}

/// Watches until it is dropped or finished, in a thread of its own.
#[derive(Debug)]
pub(crate) struct Watcher {
    subject: Subject,
    eye: Arc<Mutex<Eye>>,
    sampler: Option<JoinHandle<Samples>>,
    stop: Option<Sender<()>>,
}

type Samples = (Vec<(Instant, f64, Usage, u64)>, Option<WatchError>);

/// Takes readings.
#[derive(Debug)]
struct Eye {
    source: Source,
    roots: Vec<i32>,
    /// When each root began, to tell it from another process that gets its number.
    started: Vec<u64>,
    tally: Tally,
    cores: usize,
    last: Option<Reading>,
}

impl Eye {
    fn look(&mut self, is_full: bool) -> Result<Reading, WatchError> {
        let before = Instant::now();
        let text = self.source.read(is_full)?;
        // In the middle, as far as we know of a machine elsewhere.
        let at = before + before.elapsed() / 2;
        let snapshot = parse(&text);
        if self.started.is_empty() {
            // Found by name, a process is often followed by children of the same name, which may
            // end.
            let all = self.roots.clone();
            let is_child = |pid: &i32| {
                snapshot.processes.get(pid).is_some_and(|process| all.contains(&process.parent))
            };
            self.roots.retain(|pid| !is_child(pid));
        }
        let mut started = Vec::with_capacity(self.roots.len());
        for pid in &self.roots {
            let process = snapshot.processes.get(pid).filter(|process| !process.is_zombie);
            started.push(process.ok_or(WatchError::Gone(*pid))?.started);
        }
        if self.started.is_empty() {
            self.started = started;
        } else if let Some(index) = (0..started.len()).find(|&i| started[i] != self.started[i]) {
            return Err(WatchError::Gone(self.roots[index]));
        }
        self.tally.update(&snapshot, is_full);
        self.cores = self.cores.max(snapshot.cores);
        let reading = Reading { at, total: self.tally.total(), memory: self.tally.memory() };
        self.last = Some(reading);
        Ok(reading)
    }
}

impl Watcher {
    /// Begins to watch. `gone` is set when a watched process has ended.
    ///
    /// # Errors
    /// [`WatchError`] where there is nothing to see.
    pub(crate) fn start(subject: &Subject, gone: &Arc<AtomicBool>) -> Result<Self, WatchError> {
        Self::start_by(&crate::ssh::words(), subject, gone)
    }

    fn start_by(
        ssh: &[String],
        subject: &Subject,
        gone: &Arc<AtomicBool>,
    ) -> Result<Self, WatchError> {
        let (source, roots) = match subject {
            Subject::Local(pids) => (Source::Local(pids.clone()), pids.clone()),
            Subject::Ssh { host, what } => {
                let what = match what {
                    Remotely::Pid(pid) => pid.to_string(),
                    Remotely::Name(name) => name.clone(),
                };
                let (remote, roots) = Remote::open(ssh, host, &what)?;
                (Source::Remote(remote), roots)
            }
        };
        let mut eye = Eye {
            source,
            roots,
            started: Vec::new(),
            tally: Tally::default(),
            cores: 0,
            last: None,
        };
        let first = eye.look(true)?;
        let eye = Arc::new(Mutex::new(eye));
        let (stop, stopped) = channel::<()>();
        let sampled = Arc::clone(&eye);
        let gone = Arc::clone(gone);
        let processes = match subject {
            Subject::Local(pids) => pids.clone(),
            Subject::Ssh { .. } => Vec::new(),
        };
        let sampler = thread::spawn(move || {
            let mut samples = Vec::new();
            let (mut last, mut next) = (first, Instant::now() + INTERVAL);
            let mut number = 0_usize;
            loop {
                let wait = next.saturating_duration_since(Instant::now());
                let pulse = if processes.is_empty() { wait } else { wait.min(PULSE) };
                if stopped.recv_timeout(pulse) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                if pulse < wait && processes.iter().all(|&pid| source::is_running(pid)) {
                    continue;
                }
                number += 1;
                // After a stall, what was missed is not made up for.
                next = Instant::now().max(next) + INTERVAL;
                let mut eye = sampled.lock().unwrap_or_else(PoisonError::into_inner);
                match eye.look(number.is_multiple_of(FULL_EVERY)) {
                    Ok(now) => {
                        let seconds = now.at.duration_since(last.at).as_secs_f64();
                        let used = difference(&now.total, &last.total);
                        samples.push((now.at, seconds, used, now.memory));
                        last = now;
                    }
                    Err(error) => {
                        gone.fetch_or(error.is_gone(), Ordering::Relaxed);
                        return (samples, Some(error));
                    }
                }
            }
            (samples, None)
        });
        Ok(Self { subject: subject.clone(), eye, sampler: Some(sampler), stop: Some(stop) })
    }

    /// A reading at once, with everything in it: for the edges of what is measured.
    ///
    /// # Errors
    /// [`WatchError`] where what was watched is there no more.
    pub(crate) fn mark(&self) -> Result<Reading, WatchError> {
        self.eye.lock().unwrap_or_else(PoisonError::into_inner).look(true)
    }

    /// Ends the watching.
    pub(crate) fn finish(mut self) -> Watched {
        drop(self.stop.take());
        let samples = self.sampler.take().and_then(|sampler| sampler.join().ok());
        let (samples, trouble) = samples.unwrap_or_default();
        let eye = self.eye.lock().unwrap_or_else(PoisonError::into_inner);
        let mut source = self.subject.to_string();
        if eye.tally.is_resident() {
            source.push_str(
                " (PSS and sockets of another user's processes may not be read: memory is the \
                 resident set, drops are not known)",
            );
        }
        Watched { source, cores: eye.cores, samples, last: eye.last, trouble }
    }
}

/// A stretch of time that is measured, and where it stands in the series of the run, in seconds:
/// what puts users back in between is not in that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: Instant,
    pub(crate) at: f64,
    pub(crate) length: f64,
}

/// Where what was seen around `instant` stands in the series, `None` if in a pause between windows.
/// What was before the first lies before the series, and what was after the last behind it.
fn place(windows: &[Window], instant: Instant) -> Option<f64> {
    let index = windows.partition_point(|window| window.start <= instant).saturating_sub(1);
    let window = windows.get(index)?;
    let after = match instant.checked_duration_since(window.start) {
        Some(after) => after.as_secs_f64(),
        None => -window.start.duration_since(instant).as_secs_f64(),
    };
    let is_last = index + 1 == windows.len();
    (is_last || after <= window.length).then_some(window.at + after)
}

/// What is recorded, of times that are given by the marks at their edges; what was used in each is
/// added up. `before` is the mark before any load. Samples are told by the time axis of `windows`
/// or, if there are none, from the first of the times.
pub(crate) fn assemble(
    watched: &Watched,
    before: &Reading,
    measured: &[(Reading, Reading)],
    windows: &[Window],
) -> Watch {
    let begin = measured.first().map_or(before.at, |(begin, _)| begin.at);
    let whole = [Window { start: begin, at: 0.0, length: f64::INFINITY }];
    let windows = if windows.is_empty() { &whole[..] } else { windows };
    let sample = |&(instant, seconds, usage, memory): &(Instant, f64, Usage, u64)| {
        // By its middle: what a sample tells was used until then.
        let half = Duration::try_from_secs_f64(seconds / 2.0).unwrap_or_default();
        let middle = place(windows, instant.checked_sub(half).unwrap_or(instant))?;
        Some(Sample { at: middle + seconds / 2.0, seconds: Some(seconds), usage, memory })
    };
    let marks = measured.iter().flat_map(|(begin, end)| [begin.memory, end.memory]);
    let seen = watched.samples.iter().map(|(.., memory)| *memory);
    Watch {
        operations: 0,
        source: watched.source.clone(),
        total: measured.iter().fold(Usage::default(), |total, (begin, end)| {
            sum(&total, &difference(&end.total, &begin.total))
        }),
        memory: measured.last().map_or(before.memory, |(_, end)| end.memory),
        memory_max: marks.chain(seen).chain([before.memory]).max().unwrap_or(0),
        memory_before: before.memory,
        cores: watched.cores,
        samples: watched.samples.iter().filter_map(sample).collect(),
    }
}

#[cfg(test)]
mod tests;
