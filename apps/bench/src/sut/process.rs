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

/// A running server. Dropping it stops the server with all its children, and removes its folder.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    stop: Signal,
    guard: Child,
    /// The standard input of the guard; its end triggers the guard.
    alive: Option<ChildStdin>,
    log: PathBuf,
    _folder: TempDir,
}

impl Server {
    /// Starts `command` in a process group of its own, with its output in a file in `folder`.
    pub(super) fn start(command: &[String], stop: Signal, folder: TempDir) -> io::Result<Self> {
        let log = folder.path().join("output");
        let output = File::create(&log)?;
        let errors = output.try_clone()?;
        let [program, arguments @ ..] = command else {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        };
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0)
            .spawn()?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "sh", &child.id().to_string()])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // In its own group, the guard does not get signals from the keyboard.
            .process_group(0)
            .spawn();
        let mut guard = match guard {
            Ok(guard) => guard,
            Err(error) => {
                let _ = killpg(group(&child), Signal::SIGKILL);
                let _ = child.wait();
                return Err(error);
            }
        };
        let alive = guard.stdin.take();
        Ok(Self { child, stop, guard, alive, log, _folder: folder })
    }

    /// Returns the process id, which is also that of its group.
    pub(super) fn pid(&self) -> i32 {
        group(&self.child).as_raw()
    }

    /// Simulates the end of this program for the guard.
    #[cfg(test)]
    pub(super) fn forget_guard_input(&mut self) {
        self.alive = None;
    }

    /// Returns the exit status, if the server has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns the last output.
    pub(super) fn printed(&self) -> String {
        let printed = fs::read(&self.log).unwrap_or_default();
        let last = &printed[printed.len().saturating_sub(2000)..];
        String::from_utf8_lossy(last).trim().to_owned()
    }
}

/// Returns the process group of a child that is its leader.
fn group(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = killpg(group(&self.child), self.stop);
        let end = Instant::now() + PATIENCE;
        while self.ended().is_none() && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = killpg(group(&self.child), Signal::SIGKILL);
        let _ = self.child.wait();
        // The id of the group may be reused from now on, so the guard must not act.
        let _ = killpg(group(&self.guard), Signal::SIGKILL);
        let _ = self.guard.wait();
        self.alive = None;
    }
}
