//! `seeds`: the experiments of the source documents (docs/sources.md). Each record is made by
//! another command of this program, in a process of its own; the page has all of them.

mod page;

use super::error::CommandError;
use crate::cli::seeds::SeedsArgs;
use crate::console::{complain, print};
use crate::lifetime::ends_with_this_program;
use crate::seeds::ours::{Found, Results};
use crate::seeds::part::{Job, Part, Scope, Work};
use crate::seeds::softphone::{Installed, Kind};
use crate::seeds::source::Source;
use crate::seeds::{bare, generators, phones, profile, srtp_steps};
use crate::{report, sipp, sut};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The systems that transcode.
const TRANSCODERS: [&str; 3] = ["barebell-relay", "rtpengine", "baresip"];
/// The interval of checks for the end of a command.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn execute(args: &SeedsArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let source = Source::read();
    if args.numbers {
        return print(&source.page()).map(|()| true).map_err(CommandError::Print);
    }
    if args.rows {
        return print(&source.sources_page()).map(|()| true).map_err(CommandError::Print);
    }
    let mut absent = Vec::new();
    let servers = installed(args.sut.iter().map(String::as_str), &mut absent);
    let phones = installed_phones(&mut absent);
    let scope = Scope {
        is_full: args.full,
        servers,
        transcoders: installed(TRANSCODERS, &mut absent),
        bare: bare::find(args.images.as_deref(), &phones, &mut absent),
        phones,
        profiler: sut::find("perf"),
        sipp: sut::find(sipp::PROGRAM),
        is_root: is_root(),
    };
    if scope.profiler.is_none() {
        absent.push("without the steps of a rival: perf is not installed".to_owned());
    }
    if scope.sipp.is_none() {
        absent.push("without SIPp, which is not installed (Debian: sip-tester)".to_owned());
    }
    if args.list {
        let text = list(&source, &scope, &absent);
        return print(&text).map(|()| true).map_err(CommandError::Print);
    }
    let parts = if args.part.is_empty() { &Part::ALL[..] } else { &args.part };
    if !scope.is_root && parts.contains(&Part::Qos) {
        absent
            .push("qos measures an idle network only: a link of 100 Mbit/s needs root".to_owned());
    }
    absent.iter().for_each(complain);
    let mut jobs: Vec<Job> = Vec::new();
    for part in parts {
        let own = part.jobs(&scope);
        if own.is_empty() {
            let text = format!("{} is not measured: it needs {}", part.name(), part.needs());
            complain(&text);
            absent.push(text);
        }
        let new = own.into_iter().filter(|job| jobs.iter().all(|known| known != job));
        let new: Vec<Job> = new.collect();
        jobs.extend(new);
    }
    fs::create_dir_all(&args.output).map_err(|error| wrong(&args.output, error))?;
    let mut is_well = true;
    let mut clock = Clock::new(&jobs, args.quiet);
    for (number, job) in jobs.iter().enumerate() {
        if ending.load(Ordering::SeqCst) {
            absent.push("ended before all was measured".to_owned());
            is_well = false;
            break;
        }
        clock.begin(number, job);
        match measure(job, &args.output, ending, &mut clock)? {
            Ended::Well => {}
            Ended::NotValid => is_well = false,
            Ended::Failed(reason) => {
                let text = format!("{} was not measured: {reason}", job.record);
                clock.clear();
                complain(&text);
                absent.push(text);
                is_well = false;
            }
        }
    }
    let results = read(&args.output, &mut absent);
    let files = page::write(&source, &results, &absent, args.full, &args.output)?;
    let files: String = files.iter().map(|path| format!("report: {}\n", path.display())).collect();
    print(&files).map_err(CommandError::Print)?;
    Ok(is_well)
}

fn wrong(path: &Path, error: io::Error) -> CommandError {
    CommandError::Seeds(path.to_owned(), error)
}

/// Returns the systems with installed programs; the others go to `absent`.
fn installed<'a>(
    systems: impl IntoIterator<Item = &'a str>,
    absent: &mut Vec<String>,
) -> Vec<String> {
    let is_there = |name: &&str| match sut::check(name) {
        Ok(()) => true,
        Err(error) => {
            absent.push(format!("without {name}: {error}"));
            false
        }
    };
    systems.into_iter().filter(is_there).map(str::to_owned).collect()
}

/// Returns the installed phones; the others go to `absent`.
fn installed_phones(absent: &mut Vec<String>) -> Installed {
    let find = |kind: Kind| {
        let (programs, packages) = kind.programs();
        let found: Option<Vec<PathBuf>> = programs.iter().map(|name| sut::find(name)).collect();
        if found.is_none() {
            let how = packages.map(|names| format!(" (Debian: {names})")).unwrap_or_default();
            absent.push(format!("without {}, which is not installed{how}", kind.name()));
        }
        Some((kind, found?.swap_remove(0)))
    };
    Installed(Kind::ALL.into_iter().filter_map(find).collect())
}

fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and always succeeds.
    unsafe { libc::geteuid() == 0 }
}

/// Returns the parts with their needs and figures.
fn list(source: &Source, scope: &Scope, absent: &[String]) -> String {
    let mut text = String::new();
    for part in Part::ALL {
        let minutes = |is_full| {
            let jobs = part.jobs(&Scope { is_full, ..scope.clone() });
            jobs.iter().map(|job| job.seconds).sum::<u64>().div_ceil(60)
        };
        let figures =
            source.figures.iter().filter(|figure| figure.part.as_deref() == Some(part.name()));
        let figures: Vec<String> =
            figures.map(|figure| format!("{} {}", figure.document, figure.name)).collect();
        let _ = writeln!(
            text,
            "{:<11} {} min, in full {} min; needs {}\n            {}",
            part.name(),
            minutes(false),
            minutes(true),
            part.needs(),
            figures.join("; ")
        );
    }
    for reason in absent {
        let _ = writeln!(text, "{reason}");
    }
    text
}

/// The end of a measurement.
enum Ended {
    Well,
    /// It has a record, but something in it is not valid or failed.
    NotValid,
    /// It has no record; with the reason.
    Failed(String),
}

fn measure(
    job: &Job,
    folder: &Path,
    ending: &AtomicBool,
    clock: &mut Clock,
) -> Result<Ended, CommandError> {
    let file = folder.join(format!("{}.json", job.record));
    // An earlier record is not that of this measurement.
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(wrong(&file, error)),
        _ => {}
    }
    let program =
        std::env::current_exe().map_err(|error| wrong(Path::new("/proc/self/exe"), error))?;
    let data = file.with_extension("perf");
    let command = match &job.work {
        Work::Command(words) => {
            let mut command = Command::new(&program);
            command.args(words);
            command
        }
        Work::Profiled { profiler, words, .. } => {
            let mut command = profile::recording(profiler, &data, &program);
            command.args(words);
            command
        }
        Work::Bare { equipment, words } => {
            let profile = file.with_extension("toml");
            fs::write(&profile, bare::profile(equipment))
                .map_err(|error| wrong(&profile, error))?;
            let mut command = Command::new(&program);
            command.args(words).arg("--sut").arg(&profile);
            let run = || run(command, job, &file, ending, clock).map_err(io::Error::other);
            return Ok(bare::in_lan(run).unwrap_or_else(|error| Ended::Failed(error.to_string())));
        }
        Work::Matrix(equipment) => {
            let is_quiet = clock.is_quiet;
            clock.clear();
            let mut tell = |call: &bare::Call| {
                if !is_quiet || call.failure.is_some() {
                    complain(call);
                }
            };
            let calls = match bare::matrix(equipment, ending, &mut tell) {
                Ok(calls) => calls,
                Err(error) => return Ok(Ended::Failed(error.to_string())),
            };
            let is_well = calls.iter().all(|call| call.failure.is_none());
            let ended = if is_well { Ended::Well } else { Ended::NotValid };
            return write(&file, &calls).map(|()| ended);
        }
        Work::Srtp { rounds } => {
            let costs = srtp_steps::measure(*rounds).map_err(CommandError::Flood)?;
            return write(&file, &costs).map(|()| Ended::Well);
        }
        Work::Generators(plan) => {
            return match generators::measure(plan, ending) {
                Ok(all) if all.is_empty() => Ok(Ended::Failed("it was ended".to_owned())),
                Ok(all) => write(&file, &all).map(|()| Ended::Well),
                Err(error) => Ok(Ended::Failed(error.to_string())),
            };
        }
        Work::Phones { phones, seconds } => {
            clock.clear();
            return match phones::measure(phones, *seconds, ending) {
                Ok((calls, silent)) => {
                    silent.iter().for_each(complain);
                    let ended = if silent.is_empty() { Ended::Well } else { Ended::NotValid };
                    write(&file, &calls).map(|()| ended)
                }
                Err(error) => Ok(Ended::Failed(error.to_string())),
            };
        }
    };
    run(command, job, &file, ending, clock)
}

/// Runs a command that writes the record, and under a profiler the record of functions.
fn run(
    mut command: Command,
    job: &Job,
    file: &Path,
    ending: &AtomicBool,
    clock: &mut Clock,
) -> Result<Ended, CommandError> {
    let program = PathBuf::from(command.get_program());
    let folder = file.parent().unwrap_or(Path::new(""));
    let log = file.with_extension("txt");
    let output = File::create(&log).map_err(|error| wrong(&log, error))?;
    let errors = output.try_clone().map_err(|error| wrong(&log, error))?;
    command.arg("-o").arg(file).arg("-o").arg(file.with_extension("html"));
    command.stdout(output).stderr(errors);
    let child = ends_with_this_program(&mut command, Signal::SIGTERM).spawn();
    let child = child.map_err(|error| wrong(&program, error))?;
    let status = wait(child, ending, clock).map_err(|error| wrong(&program, error))?;
    if !file.is_file() {
        let printed = fs::read_to_string(&log).unwrap_or_default();
        let last =
            printed.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        return Ok(Ended::Failed(last.trim_start_matches("barebell-bench: ").to_owned()));
    }
    if let Work::Profiled { profiler, process, .. } = &job.work {
        match profile::functions(profiler, &file.with_extension("perf"), process) {
            Ok(functions) => write(&folder.join(format!("{}.json", job.functions())), &functions)?,
            Err(error) => return Ok(Ended::Failed(error.to_string())),
        }
    }
    Ok(if status == Some(0) { Ended::Well } else { Ended::NotValid })
}

fn write(file: &Path, results: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(results).expect("results have a JSON form") + "\n";
    fs::write(file, text).map_err(|error| wrong(file, error))
}

/// Waits for the end of a command, and ends it if this program is to end.
fn wait(mut child: Child, ending: &AtomicBool, clock: &mut Clock) -> io::Result<Option<i32>> {
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if ending.load(Ordering::SeqCst) && !is_told {
            is_told = true;
            // At a terminal it had the signal, too; only SIGTERM is then still to be heard.
            if let Ok(pid) = i32::try_from(child.id()) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
            }
        }
        clock.show();
        std::thread::sleep(LOOK);
    }
}

/// Reads the results in the folder.
fn read(folder: &Path, absent: &mut Vec<String>) -> Results {
    let mut results = Results::new();
    let names = Part::ALL.into_iter().flat_map(Part::records);
    for name in names {
        let path = folder.join(format!("{name}.json"));
        if results.contains_key(&name) || !path.is_file() {
            continue;
        }
        match read_one(&name, &path) {
            Ok(Some(found)) => {
                results.insert(name, found);
            }
            Ok(None) => {}
            Err(error) => absent.push(error),
        }
    }
    results
}

fn read_one(name: &str, path: &PathBuf) -> Result<Option<Found>, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = || fs::read(path).map_err(|error| told(&error));
    match name {
        "flood" => serde_json::from_slice(&text()?).map(|lines| Some(Found::Flood(lines))),
        "bare" => serde_json::from_slice(&text()?).map(|calls| Some(Found::Bare(calls))),
        "scenario" => serde_json::from_slice(&text()?).map(|all| Some(Found::Generators(all))),
        "phone" => serde_json::from_slice(&text()?).map(|calls| Some(Found::Phones(calls))),
        name if name.ends_with("-functions") => {
            serde_json::from_slice(&text()?).map(|functions| Some(Found::Functions(functions)))
        }
        "srtp" => serde_json::from_slice(&text()?).map(|costs| Some(Found::Srtp(Box::new(costs)))),
        _ => {
            let records = report::read(path).map_err(|error| error.to_string())?;
            return Ok(records.into_iter().next().map(|record| Found::Record(Box::new(record))));
        }
    }
    .map_err(|error| told(&error))
}

/// The progress: what is being measured, and the time that is left.
struct Clock {
    is_quiet: bool,
    is_live: bool,
    total: usize,
    /// The expected seconds of all jobs from each one on.
    left: Vec<u64>,
    number: usize,
    name: String,
    begun: Instant,
    job_begun: Instant,
    is_shown: bool,
}

impl Clock {
    fn new(jobs: &[Job], is_quiet: bool) -> Self {
        let left = (0..jobs.len()).map(|first| jobs[first..].iter().map(|job| job.seconds).sum());
        let now = Instant::now();
        Self {
            is_quiet,
            is_live: io::stderr().is_terminal(),
            total: jobs.len(),
            left: left.collect(),
            number: 0,
            name: String::new(),
            begun: now,
            job_begun: now,
            is_shown: false,
        }
    }

    fn begin(&mut self, number: usize, job: &Job) {
        self.number = number;
        self.name.clone_from(&job.record);
        self.job_begun = Instant::now();
        if !self.is_quiet && !self.is_live {
            complain(self.line());
        }
        self.show();
    }

    /// Returns the line of the current job. The time left is scaled by the past ones.
    fn line(&self) -> String {
        let before = self.left[0] - self.left[self.number];
        let took = (self.job_begun - self.begun).as_secs_f64();
        let scale = if before < 60 { 1.0 } else { (took / before as f64).clamp(0.3, 5.0) };
        let elapsed = self.job_begun.elapsed().as_secs_f64();
        let left = (self.left[self.number] as f64 * scale - elapsed).max(0.0) / 60.0;
        format!("{} of {}: {}; about {left:.0} min left", self.number + 1, self.total, self.name)
    }

    fn show(&mut self) {
        if !self.is_quiet && self.is_live {
            let seconds = self.job_begun.elapsed().as_secs();
            // A closed standard error does not stop the measurement.
            let _ = write!(io::stderr(), "\r\x1b[K{}, {seconds} s", self.line());
            self.is_shown = true;
        }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.clear();
    }
}
