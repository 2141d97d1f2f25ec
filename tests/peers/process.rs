//! Starting, observing and ending programs.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// The time limit of certain events: much longer than necessary, because the machine may be busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A program and its Debian packages.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of the executable.
    pub name: &'static str,
    /// The packages to install, separated by spaces.
    pub packages: &'static str,
}

impl Program {
    /// A command that runs the program.
    #[must_use]
    pub fn command(self) -> Command {
        Command::new(self.name)
    }

    /// The explanation of a failed start.
    fn explain(self, error: &std::io::Error) -> String {
        match error.kind() {
            ErrorKind::NotFound => {
                format!(
                    "{} is missing; install it: sudo apt-get install {}",
                    self.name, self.packages
                )
            }
            _ => format!("cannot start {}: {error}", self.name),
        }
    }
}

/// A running program. On drop it is killed with all its child processes.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts `command`, which runs `program`. Output is appended to the file `log`, and standard
    /// input is a pipe. The program ends with the thread that started it.
    ///
    /// # Panics
    /// The program cannot be started. The panic message tells how to install it.
    #[must_use]
    pub fn start(program: Program, mut command: Command, log: &Path) -> Self {
        let output = OpenOptions::new().create(true).append(true).open(log);
        let output =
            output.unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let errors = output
            .try_clone()
            .unwrap_or_else(|error| panic!("cannot duplicate the handle: {error}"));
        command.stdin(Stdio::piped()).stdout(output).stderr(errors).process_group(0);
        // SAFETY: prctl is async-signal-safe, and the closure touches no memory of the parent.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap_or_else(|error| panic!("{}", program.explain(&error)));
        Self { name: program.name.to_owned(), child }
    }

    /// Writes a line to the standard input.
    ///
    /// # Panics
    /// The line cannot be written, usually because the program has ended.
    pub fn say(&mut self, line: &str) {
        let Some(input) = self.child.stdin.as_mut() else {
            panic!("{} has no standard input", self.name)
        };
        if let Err(error) = input.write_all(format!("{line}\n").as_bytes()) {
            panic!("{} did not accept the command {line:?}: {error}", self.name);
        }
    }

    /// Takes the standard input, which replaces [`say`](Self::say).
    ///
    /// # Panics
    /// The input was taken before.
    #[must_use]
    pub fn take_input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap_or_else(|| panic!("{} has no standard input", self.name))
    }

    /// The exit status, if the program has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for the end of the program, at most `limit`. Returns `None` if it still runs.
    #[must_use]
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        poll(limit, || self.ended())
    }

    /// The process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The open UDP ports.
    #[must_use]
    pub fn udp_ports(&self) -> Vec<u16> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.id()));
        let links = files.into_iter().flatten().flatten();
        let links = links.filter_map(|file| std::fs::read_link(file.path()).ok());
        let open: Vec<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
        let tables = ["/proc/net/udp", "/proc/net/udp6"].map(std::fs::read_to_string);
        let tables = tables.map(Result::unwrap_or_default).concat();
        let port = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (_, port) = words.get(1)?.rsplit_once(':')?;
            let socket = format!("socket:[{}]", words.get(9)?);
            open.contains(&socket).then(|| u16::from_str_radix(port, 16).ok()).flatten()
        };
        tables.lines().filter_map(port).collect()
    }

    /// The CPU time of all threads so far, in steps of 10 ms.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        cpu_in(&self.stat())
    }

    /// The CPU time so far of the threads with names that begin with `name`, in steps of 10 ms for
    /// each.
    #[must_use]
    pub fn cpu_of_threads(&self, name: &str) -> Duration {
        let threads = self.threads(name);
        threads.iter().map(|(_, stat)| cpu_in(&fields(stat))).sum()
    }

    /// Gives the threads with names that begin with `name` a real-time priority (SCHED_FIFO), so
    /// that they run on a busy machine, too. Without the right to do so they keep their priority.
    pub fn prefer_threads(&self, name: &str) {
        let lowest = libc::sched_param { sched_priority: 1 };
        for (thread, _) in self.threads(name) {
            // SAFETY: sched_setscheduler only reads the parameter.
            unsafe { libc::sched_setscheduler(thread, libc::SCHED_FIFO, &raw const lowest) };
        }
    }

    /// The number and `/proc/PID/task/TID/stat` of the threads with names that begin with `name`.
    fn threads(&self, name: &str) -> Vec<(libc::pid_t, String)> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id()));
        let threads = threads.into_iter().flatten().flatten().filter_map(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
            let (number, named) = stat.split_once(" (")?;
            named.starts_with(name).then_some((number.parse().ok()?, stat))
        });
        threads.collect()
    }

    /// The resident memory (RSS) in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        const PAGE: u64 = 4096;
        self.stat().get(21).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE
    }

    /// The bytes written to files, pipes and terminals so far.
    ///
    /// # Panics
    /// The system does not count them.
    #[must_use]
    pub fn written(&self) -> u64 {
        let counts = std::fs::read_to_string(format!("/proc/{}/io", self.id()));
        let counts = counts.expect("the process is running");
        let count = counts.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok());
        count.expect("the system counts written bytes")
    }

    /// The fields of `/proc/PID/stat` (proc(5)) from the third on.
    fn stat(&self) -> Vec<String> {
        let told = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        fields(&told)
    }

    /// Sends SIGINT, as Ctrl-C does, and waits for the end.
    ///
    /// # Panics
    /// The program does not end.
    pub fn interrupt(&mut self) {
        self.signal(libc::SIGINT);
        let name = self.name.clone();
        wait_until(&format!("{name} to end"), || self.ended());
    }

    /// Asserts that the program is running.
    ///
    /// # Panics
    /// The program has ended.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.ended() {
            panic!("{} has ended unexpectedly ({status})", self.name);
        }
    }

    /// Kills the process group.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        // An error means that the process was already waited for.
        let _ = self.child.wait();
    }

    /// Stops the process group, which neither ends nor answers.
    pub fn pause(&self) {
        self.signal(libc::SIGSTOP);
    }

    fn signal(&self, signal: libc::c_int) {
        let group = i32::try_from(self.child.id()).unwrap_or(0);
        if group > 1 {
            // SAFETY: kill accesses no memory. The process group was created for the child, and its
            // ID is not reused while a member runs.
            unsafe { libc::kill(-group, signal) };
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs `command`, which runs `program`, and returns its output.
///
/// # Panics
/// The program cannot be run, or fails.
#[must_use]
pub fn run(program: Program, mut command: Command) -> String {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}", program.explain(&error)));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?} failed ({}):\n{printed}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    printed
}

/// The program `name` of this workspace: the file in the environment variable `variable`, or the
/// newest build.
///
/// # Panics
/// There is no build.
#[must_use]
pub fn built(name: &str, variable: &str) -> PathBuf {
    let how = format!("cargo build --release -p {name}");
    built_by(&how, name, variable, &["release", "debug"])
}

/// The file `name` built by the command `how`: the file in the environment variable `variable`, or
/// the newest in the folders of these profiles.
pub(crate) fn built_by(how: &str, name: &str, variable: &str, profiles: &[&str]) -> PathBuf {
    if let Some(named) = std::env::var_os(variable) {
        return PathBuf::from(named);
    }
    // A test runs in target/PROFILE/deps, next to target/PROFILE/NAME.
    let test = std::env::current_exe().expect("the path of the test program is known");
    let target = test.ancestors().nth(3).unwrap_or(Path::new("target")).to_owned();
    let built = profiles.iter().map(|profile| target.join(profile).join(name));
    let age = |path: &PathBuf| path.metadata().and_then(|file| file.modified());
    built
        .filter(|path| path.is_file())
        .max_by_key(|path| age(path).unwrap_or(SystemTime::UNIX_EPOCH))
        .unwrap_or_else(|| {
            panic!(
                "there is no {name} in {}: build it with `{how}`, or name one in {variable}",
                target.display()
            )
        })
}

/// The fields of `stat` from the third on.
fn fields(stat: &str) -> Vec<String> {
    let words = stat.rsplit_once(')').map_or("", |(_, words)| words);
    words.split_whitespace().map(str::to_owned).collect()
}

/// The CPU time in the [`fields`] of a process or a thread.
fn cpu_in(fields: &[String]) -> Duration {
    let ticks = fields.iter().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok());
    // Linux reports hundredths of a second on all architectures.
    Duration::from_millis(ticks.sum::<u64>() * 10)
}

/// The cost of a program run.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The time from start to end.
    pub elapsed: Duration,
    /// The CPU time of all threads.
    pub cpu: Duration,
    /// The maximum resident memory (RSS) in bytes.
    pub memory: u64,
}

/// Runs `command`, which runs `program`, and returns its cost. The output is discarded.
///
/// # Panics
/// The program cannot be run, or fails.
#[must_use]
pub fn cost(program: Program, mut command: Command) -> Cost {
    let begun = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{}", program.explain(&error)));
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both are written only here, and the child has not been waited for.
    let waited =
        unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, usage.as_mut_ptr()) };
    let elapsed = begun.elapsed();
    // An error means that the process was already waited for.
    let _ = child.wait();
    assert!(waited > 0 && status == 0, "{command:?} failed ({})", ExitStatus::from_raw(status));
    // SAFETY: plain data, filled by the call.
    let usage = unsafe { usage.assume_init() };
    let time = |told: libc::timeval| {
        Duration::from_secs(told.tv_sec.unsigned_abs())
            + Duration::from_micros(told.tv_usec.unsigned_abs())
    };
    Cost {
        elapsed,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        // Linux reports kibibytes.
        memory: usage.ru_maxrss.unsigned_abs() * 1024,
    }
}

/// Runs `test`, and once more if Twinkle crashed or hung in it, as version 1.10.2 does at times. A
/// failure of another kind, or a second one, is a failure.
///
/// # Panics
/// The test fails.
pub fn despite_twinkle(test: impl Fn()) {
    let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test)) else { return };
    let reason = panic.downcast_ref::<String>().map_or("", String::as_str);
    let has_crashed = reason.starts_with("twinkle-console has ended unexpectedly (signal");
    let hangs = reason.contains("Twinkle of ") && reason.ends_with(" to be Ringback");
    if !has_crashed && !hangs {
        std::panic::resume_unwind(panic);
    }
    eprintln!("Twinkle failed, so the test is repeated: {reason}");
    test();
}

/// Polls `condition` until it returns a value.
///
/// # Panics
/// There is no value within [`DEADLINE`]. `what` describes the expectation.
pub fn wait_until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    poll(DEADLINE, condition)
        .unwrap_or_else(|| panic!("not within {} s: {what}", DEADLINE.as_secs()))
}

/// Polls `condition` until it returns a value, at most `limit`.
pub(crate) fn poll<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        let answer = condition();
        if answer.is_some() || Instant::now() >= end {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
}

/// Creates an empty file.
pub(crate) fn create(path: &Path) {
    File::create(path).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Program = Program { name: "barebell-absent", packages: "some-package" };

    #[test]
    #[should_panic(expected = "barebell-absent is missing; install it: sudo apt-get install some-")]
    fn a_missing_program_names_its_package() {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let _ = Process::start(ABSENT, ABSENT.command(), &folder.path().join("log"));
    }

    #[test]
    fn a_dropped_process_is_killed_with_its_children() {
        const SHELL: Program = Program { name: "sh", packages: "dash" };
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let log = folder.path().join("log");
        let mut command = SHELL.command();
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let process = Process::start(SHELL, command, &log);
        let child = wait_until("the child's number", || {
            std::fs::read_to_string(&log).ok().filter(|text| text.ends_with('\n'))
        });
        drop(process);
        let state = format!("/proc/{}/stat", child.trim());
        wait_until("the child to end", || match std::fs::read_to_string(&state) {
            Ok(stat) => stat.contains(") Z ").then_some(()),
            Err(_) => Some(()),
        });
    }
}
