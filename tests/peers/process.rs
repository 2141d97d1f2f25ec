//! Starting, watching and ending the programs of a test.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// How long to wait for something that is certain to happen: far more than it ever takes, since
/// the machine may be busy with other work.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A program and the Debian package that it comes in.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of the executable.
    pub name: &'static str,
    /// The packages to install for it, separated by spaces.
    pub packages: &'static str,
}

impl Program {
    /// A command that runs it.
    #[must_use]
    pub fn command(self) -> Command {
        Command::new(self.name)
    }

    /// Explains why it could not be run.
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

/// A running program. Dropped, it is killed with everything that it started.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
}

impl Process {
    /// Starts `command`, a run of `program`, with its output appended to the file `log` and its
    /// standard input a pipe. It ends when the thread that started it does.
    ///
    /// # Panics
    /// When it cannot be started, with the command that installs it if it is missing.
    #[must_use]
    pub fn start(program: Program, mut command: Command, log: &Path) -> Self {
        let output = OpenOptions::new().create(true).append(true).open(log);
        let output =
            output.unwrap_or_else(|error| panic!("cannot write {}: {error}", log.display()));
        let errors = output.try_clone().unwrap_or_else(|error| panic!("no second handle: {error}"));
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

    /// Writes a line to its standard input.
    ///
    /// # Panics
    /// When it does not take it, most often because it has ended.
    pub fn say(&mut self, line: &str) {
        let Some(input) = self.child.stdin.as_mut() else {
            panic!("{} has no standard input", self.name)
        };
        if let Err(error) = input.write_all(format!("{line}\n").as_bytes()) {
            panic!("{} did not take the command {line:?}: {error}", self.name);
        }
    }

    /// Its standard input, for whoever writes to it from now on in place of [`say`](Self::say).
    ///
    /// # Panics
    /// When it has been taken before.
    #[must_use]
    pub fn take_input(&mut self) -> ChildStdin {
        self.child.stdin.take().unwrap_or_else(|| panic!("{} has no standard input", self.name))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits for its end, `limit` at the longest; `None` if it still runs then.
    #[must_use]
    pub fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        poll(limit, || self.ended())
    }

    /// The number of the process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The ports of UDP that it has open.
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

    /// The processor time that it has taken so far, all threads, to a hundredth of a second.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        let words = self.stat();
        let ticks = words.iter().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok());
        // Linux tells it in hundredths of a second on all machines that there are.
        Duration::from_millis(ticks.sum::<u64>() * 10)
    }

    /// The memory that it has in use (RSS), in bytes.
    #[must_use]
    pub fn memory(&self) -> u64 {
        const PAGE: u64 = 4096;
        self.stat().get(21).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE
    }

    /// What the system tells of it (proc(5), `stat`), from the third word on.
    fn stat(&self) -> Vec<String> {
        let told = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let words = told.rsplit_once(')').map_or("", |(_, words)| words);
        words.split_whitespace().map(str::to_owned).collect()
    }

    /// Asks it to end, as Ctrl-C does, and waits for that.
    ///
    /// # Panics
    /// When it does not.
    pub fn interrupt(&mut self) {
        self.signal(libc::SIGINT);
        let name = self.name.clone();
        wait_until(&format!("{name} to end"), || self.ended());
    }

    /// Panics if it has ended.
    ///
    /// # Panics
    /// If it has ended.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.ended() {
            panic!("{} has ended by itself ({status})", self.name);
        }
    }

    /// Kills it, and everything in its process group, at once.
    pub fn kill(&mut self) {
        self.signal(libc::SIGKILL);
        // The error that it has been waited for already is as good as success.
        let _ = self.child.wait();
    }

    fn signal(&self, signal: libc::c_int) {
        let group = i32::try_from(self.child.id()).unwrap_or(0);
        if group > 1 {
            // SAFETY: kill touches no memory. The group is the child's own, made when it started,
            // and stays the child's as long as anything of it runs.
            unsafe { libc::kill(-group, signal) };
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs `command`, a run of `program`, to its end and gives what it printed.
///
/// # Panics
/// When it cannot be run, or fails.
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

/// The program `name` of this workspace: what the environment variable `variable` names, or the
/// newest that has been built.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn built(name: &str, variable: &str) -> PathBuf {
    let how = format!("cargo build --release -p {name}");
    built_by(&how, name, variable, &["release", "debug"])
}

/// What `how` builds as `name`: what the environment variable `variable` names, or the newest in
/// the folders of these profiles.
pub(crate) fn built_by(how: &str, name: &str, variable: &str, profiles: &[&str]) -> PathBuf {
    if let Some(named) = std::env::var_os(variable) {
        return PathBuf::from(named);
    }
    // A test runs from target/PROFILE/deps, beside target/PROFILE/NAME.
    let test = std::env::current_exe().expect("the path of the test program");
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

/// What a run of a program has cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// From its start to its end.
    pub elapsed: Duration,
    /// The processor time of all its threads.
    pub cpu: Duration,
    /// The most memory that it had in use (RSS), in bytes.
    pub memory: u64,
}

/// Runs `command`, a run of `program`, to its end, and tells what it has cost. What it prints is
/// passed over.
///
/// # Panics
/// When it cannot be run, or fails.
#[must_use]
pub fn cost(program: Program, mut command: Command) -> Cost {
    let begun = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{}", program.explain(&error)));
    let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
    // SAFETY: both are written only here, and the child has been waited for by nobody else.
    let waited =
        unsafe { libc::wait4(child.id().cast_signed(), &raw mut status, 0, usage.as_mut_ptr()) };
    let elapsed = begun.elapsed();
    // The error that it has been waited for already is as good as success.
    let _ = child.wait();
    assert!(waited > 0 && status == 0, "{command:?} failed ({})", ExitStatus::from_raw(status));
    // SAFETY: plain data, which the call has filled.
    let usage = unsafe { usage.assume_init() };
    let time = |told: libc::timeval| {
        Duration::from_secs(told.tv_sec.unsigned_abs())
            + Duration::from_micros(told.tv_usec.unsigned_abs())
    };
    Cost {
        elapsed,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        // Linux tells it in kibibytes.
        memory: usage.ru_maxrss.unsigned_abs() * 1024,
    }
}

/// Asks again and again until there is an answer.
///
/// # Panics
/// When there is none by [`DEADLINE`]: `what` says what was waited for.
pub fn wait_until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    poll(DEADLINE, condition)
        .unwrap_or_else(|| panic!("waited {} s in vain: {what}", DEADLINE.as_secs()))
}

/// Asks again and again until there is an answer, `limit` at the longest.
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

/// Makes an empty file.
pub(crate) fn create(path: &Path) {
    File::create(path).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABSENT: Program = Program { name: "barebell-absent", packages: "some-package" };

    #[test]
    #[should_panic(expected = "barebell-absent is missing; install it: sudo apt-get install some-")]
    fn a_missing_program_says_how_to_install_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let _ = Process::start(ABSENT, ABSENT.command(), &folder.path().join("log"));
    }

    #[test]
    fn a_dropped_process_is_gone_with_its_children() {
        const SHELL: Program = Program { name: "sh", packages: "dash" };
        let folder = tempfile::tempdir().expect("a folder");
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
