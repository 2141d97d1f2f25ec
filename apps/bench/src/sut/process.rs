//! A child process of a server, with its own children.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The time that it gets to end on its own.
const PATIENCE: Duration = Duration::from_secs(5);

/// Ends the process group `$1` when its standard input ends, which happens at any end of this
/// program, and removes the folder `$2`.
const GUARD: &str = "read -r end; kill -TERM -$1; sleep 3; kill -KILL -$1; rm -rf -- \"$2\"";

/// A running server: one program or several. Dropping it stops them with all their children, and
/// removes its folder.
#[derive(Debug)]
pub(super) struct Server {
    /// Its programs in the order of their start. The first leads the process group of all.
    children: Vec<Child>,
    stop: Signal,
    guard: Option<Child>,
    /// The standard input of the guard; its end triggers the guard.
    alive: Option<ChildStdin>,
    folder: TempDir,
}

impl Server {
    /// Returns a server without programs, with its files in `folder`.
    pub(super) const fn new(stop: Signal, folder: TempDir) -> Self {
        Self { children: Vec::new(), stop, guard: None, alive: None, folder }
    }

    /// Starts a program of the server, with its output in the common file in its folder.
    pub(super) fn start(&mut self, command: &[String]) -> io::Result<()> {
        let output = File::options().create(true).append(true).open(self.log())?;
        let errors = output.try_clone()?;
        let [program, arguments @ ..] = command else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        let child = Command::new(program)
            .args(arguments)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(self.group().map_or(0, Pid::as_raw))
            .spawn()?;
        self.children.push(child);
        match self.guard {
            Some(_) => Ok(()),
            None => self.start_guard(),
        }
    }

    fn start_guard(&mut self) -> io::Result<()> {
        let Some(group) = self.group() else { return Ok(()) };
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sh", &group.to_string()])
            .arg(self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // In its own group, the guard does not get signals from the keyboard.
            .process_group(0)
            .spawn()?;
        self.alive = guard.stdin.take();
        self.guard = Some(guard);
        Ok(())
    }

    /// Returns the process ids of its programs.
    pub(super) fn pids(&self) -> Vec<i32> {
        self.children.iter().map(|child| id(child).as_raw()).collect()
    }

    /// Returns the process group of its programs.
    fn group(&self) -> Option<Pid> {
        self.children.first().map(id)
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("output")
    }

    /// Simulates the end of this program for the guard.
    #[cfg(test)]
    pub(super) fn forget_guard_input(&mut self) {
        self.alive = None;
    }

    /// Returns the exit status of a program that has ended, if one has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.children.iter_mut().find_map(|child| child.try_wait().ok().flatten())
    }

    fn have_all_ended(&mut self) -> bool {
        self.children.iter_mut().all(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Returns the last output.
    pub(super) fn printed(&self) -> String {
        let printed = fs::read(self.log()).unwrap_or_default();
        let last = &printed[printed.len().saturating_sub(2000)..];
        String::from_utf8_lossy(last).trim().to_owned()
    }
}

/// Returns the process id of a child.
fn id(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(group) = self.group() {
            let _ = killpg(group, self.stop);
            let end = Instant::now() + PATIENCE;
            while !self.have_all_ended() && Instant::now() < end {
                thread::sleep(Duration::from_millis(10));
            }
            let _ = killpg(group, Signal::SIGKILL);
        }
        for child in &mut self.children {
            let _ = child.wait();
        }
        // The id of the group may be reused from now on, so the guard must not act.
        if let Some(guard) = &mut self.guard {
            let _ = killpg(id(guard), Signal::SIGKILL);
            let _ = guard.wait();
        }
        self.alive = None;
    }
}
