//! The rates of calls that SIPp and this program reach on one machine, with the same scenario file
//! and the same callee.

use super::running::Running;
use crate::lifetime::ends_with_this_program;
use crate::scenario::Outcome;
use crate::sipp;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const CALL: &str = include_str!("../../profiles/sipp-call.xml");
const ANSWER: &str = include_str!("../../profiles/sipp-answer.xml");
/// The names of the files of a run.
const CALL_FILE: &str = "call.xml";
const ANSWER_FILE: &str = "answer.xml";
const STATISTICS: &str = "statistics.csv";
const FIGURES: &str = "figures.json";
/// The longest time until the callee listens.
const START: Duration = Duration::from_secs(10);
/// The longest time after that of the load; then the caller is ended, and has no point.
const PATIENCE: Duration = Duration::from_secs(40);
/// The interval of checks.
const LOOK: Duration = Duration::from_millis(10);

/// A program that makes calls, with its results by rising rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Generator {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
}

/// The result at a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Planned calls a second.
    pub(crate) offered: f64,
    /// The time until all calls had ended.
    pub(crate) seconds: f64,
    pub(crate) succeeded: u64,
    pub(crate) failed: u64,
    pub(crate) retransmitted: u64,
    /// The CPU time of the generator for a call in microseconds, without the callee.
    pub(crate) cpu_us: f64,
}

/// The plan of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rates {
    /// SIPp, if it is installed.
    pub(crate) sipp: Option<PathBuf>,
    /// Calls a second.
    pub(crate) rates: &'static [u32],
    /// The length of the load at each rate.
    pub(crate) seconds: u32,
}

/// Measures the generators in turn at each rate.
///
/// # Errors
/// A program cannot be started, or ends without figures.
pub(crate) fn measure(plan: &Rates, ending: &AtomicBool) -> io::Result<Vec<Generator>> {
    let program = std::env::current_exe()?;
    let generator = |name: &str| Generator { name: name.to_owned(), points: Vec::new() };
    let mut ours = generator("barebell-bench");
    let mut theirs = generator("SIPp");
    for &rate in plan.rates {
        let run = Run { program: &program, rate, calls: u64::from(rate * plan.seconds), plan };
        for (generator, is_sipp) in [(&mut ours, false), (&mut theirs, true)] {
            if is_sipp && plan.sipp.is_none() {
                continue;
            }
            let point = run.measure(is_sipp, ending);
            let told = |error| io::Error::other(format!("{} at {rate}/s: {error}", generator.name));
            generator.points.extend(point.map_err(told)?);
        }
    }
    Ok([ours, theirs].into_iter().filter(|one| !one.points.is_empty()).collect())
}

/// A run of a generator at a rate.
struct Run<'a> {
    program: &'a Path,
    rate: u32,
    calls: u64,
    plan: &'a Rates,
}

impl Run<'_> {
    /// Returns the result; none if the calls did not end, or the program is to end.
    fn measure(&self, is_sipp: bool, ending: &AtomicBool) -> io::Result<Option<Point>> {
        let folder = tempfile::tempdir()?;
        let folder = folder.path();
        fs::write(folder.join(CALL_FILE), CALL)?;
        fs::write(folder.join(ANSWER_FILE), ANSWER)?;
        let address = sipp::free_port()?;
        let callee = self.callee(folder, address)?;
        let before = sipp::cpu_of_children()?;
        let mut command =
            if is_sipp { self.sipp(folder, address) } else { self.ours(folder, address)? };
        let child = ends_with_this_program(&mut command, Signal::SIGKILL).spawn();
        let child =
            child.map_err(|error| if is_sipp { sipp::not_started(error) } else { error })?;
        let limit = Duration::from_secs(self.plan.seconds.into()) + PATIENCE;
        let Some(status) = wait(child, limit, ending)? else { return Ok(None) };
        let cpu_us = (sipp::cpu_of_children()? - before) / self.calls as f64;
        drop(callee);
        let point = if is_sipp {
            sipp::check(status)?;
            statistics(&fs::read_to_string(folder.join(STATISTICS))?)
        } else {
            let text = fs::read_to_string(folder.join(FIGURES))?;
            let outcome: Outcome = serde_json::from_str(&text)?;
            let sent_again = outcome.counts.steps.iter().map(|step| step.retransmitted);
            Some(Point {
                seconds: outcome.seconds,
                succeeded: outcome.counts.succeeded,
                failed: outcome.counts.failed,
                retransmitted: sent_again.sum(),
                ..Point::default()
            })
        };
        let point = point.ok_or_else(|| io::Error::other("its statistics have no last line"))?;
        Ok(Some(Point { offered: self.rate.into(), cpu_us, ..point }))
    }

    /// Starts the callee, and waits until it listens.
    fn callee(&self, folder: &Path, address: SocketAddr) -> io::Result<Running> {
        let mut command = Command::new(self.program);
        command
            .args(["scenario", ANSWER_FILE, "--quiet", "--listen"])
            .arg(format!("udp:{address}"));
        command.current_dir(folder);
        let mut callee = Running::start(command, folder, "")?;
        let begun = Instant::now();
        while UdpSocket::bind(address).is_ok() {
            if callee.has_ended() || begun.elapsed() > START {
                return Err(io::Error::other(format!("the callee does not listen at {address}")));
            }
            thread::sleep(LOOK);
        }
        Ok(callee)
    }

    fn ours(&self, folder: &Path, address: SocketAddr) -> io::Result<Command> {
        let mut command = Command::new(self.program);
        command
            .args(["scenario", CALL_FILE, "--quiet", "--json", "--target"])
            .arg(format!("udp:{address}"))
            .args(["--rate", &self.rate.to_string(), "--calls", &self.calls.to_string()])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(File::create(folder.join(FIGURES))?)
            .stderr(Stdio::null());
        Ok(command)
    }

    fn sipp(&self, folder: &Path, address: SocketAddr) -> Command {
        let mut command = sipp::caller(address, self.rate.into(), self.calls, folder);
        command.args(["-sf", CALL_FILE, "-trace_stat", "-stf", STATISTICS, "-fd", "1"]);
        command
    }
}

/// Waits for the end of a caller. Returns `None` if it was ended, at `limit` or since this program
/// is to end.
fn wait(mut child: Child, limit: Duration, ending: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if begun.elapsed() > limit || ending.load(Ordering::SeqCst) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

/// Reads the last line of SIPp's file of statistics: its times are a date, a time and the seconds
/// since 1970, divided by tabs.
fn statistics(text: &str) -> Option<Point> {
    let mut lines = text.lines();
    let names = lines.next()?.split(';');
    let values: HashMap<&str, &str> = names.zip(lines.next_back()?.split(';')).collect();
    let time = |name: &str| values.get(name)?.rsplit('\t').next()?.trim().parse::<f64>().ok();
    let count = |name: &str| values.get(name)?.trim().parse().ok();
    Some(Point {
        seconds: time("CurrentTime")? - time("StartTime")?,
        succeeded: count("SuccessfulCall(C)")?,
        failed: count("FailedCall(C)")?,
        retransmitted: count("Retransmissions(C)")?,
        ..Point::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_of_sipp_are_those_of_its_last_line() {
        let text = "StartTime;CurrentTime;SuccessfulCall(P);SuccessfulCall(C);FailedCall(C);\
                    Retransmissions(C);\n\
                    2026-11-28\t15:40:32.5\t1795880432.5;2026-11-28\t15:40:32.6\t1795880432.6;0;0;0;0;\n\
                    2026-11-28\t15:40:32.5\t1795880432.5;2026-11-28\t15:40:34.75\t1795880434.75;7;18;2;3;\n";
        let point = statistics(text).unwrap();
        assert_eq!((point.succeeded, point.failed, point.retransmitted), (18, 2, 3));
        assert_eq!(point.seconds, 2.25);
        assert_eq!(statistics("StartTime;CurrentTime;\n"), None);
        assert_eq!(statistics(""), None);
    }
}
