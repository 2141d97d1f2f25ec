//! A folder with the data of a server, and commands for it.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use test_support::ports::free_ports;

/// A range of `count` free ports, as in the configuration. No other test has them.
pub(crate) fn free_range(count: u16) -> (Range<u16>, String) {
    let first = free_ports(count);
    (first..first + count, format!("{first}-{}", first + count - 1))
}

/// A data directory, and the commands for it.
pub(crate) struct Site(tempfile::TempDir);

impl Site {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_barebell"));
        command.args(words.split_whitespace()).arg("--data").arg(self.data());
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command that succeeds. Returns its standard output.
    pub(crate) fn good(&self, words: &str) -> String {
        let output = self.command(words).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{words}: {error}");
        stdout(&output)
    }

    /// Runs a command that fails. Returns its standard error.
    pub(crate) fn bad(&self, words: &str) -> String {
        let output = self.command(words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{words}: {}", stdout(&output));
        stderr(&output)
    }

    /// The output of `status --json`, for a running or a stopped server.
    pub(crate) fn status(&self) -> String {
        stdout(&self.command("status --json").output().unwrap())
    }

    /// Starts a server and waits until it answers.
    pub(crate) fn serve(&self, words: &str) -> Server {
        self.started(&mut self.command(&format!("serve --listen udp:127.0.0.1:0 {words}")))
    }

    /// A command run by the shell after `before`, such as `ulimit -n 100`.
    pub(crate) fn command_after(&self, before: &str, words: &str) -> Command {
        let plain = self.command(words);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{before} && exec \"$0\" \"$@\"")]);
        command.arg(plain.get_program()).args(plain.get_args()).stdin(Stdio::null());
        command
    }

    /// Starts the server of `command`, and waits until it answers. [`Site::log`] contains its
    /// output.
    pub(crate) fn started(&self, command: &mut Command) -> Server {
        let log = OpenOptions::new().create(true).append(true).open(self.log_path()).unwrap();
        let server = Server(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let give_up = Instant::now() + Duration::from_secs(60);
        while !self.status().contains("\"running\":true") {
            assert!(Instant::now() < give_up, "the server does not answer: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// The log of the servers.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap()
    }

    /// The log of the servers, as soon as it contains `text`: a response may arrive before its log
    /// line.
    pub(crate) fn log_with(&self, text: &str) -> String {
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            let log = self.log();
            if log.contains(text) {
                return log;
            }
            assert!(Instant::now() < give_up, "{text} is not in {log}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn log_path(&self) -> PathBuf {
        self.0.path().join("log")
    }
}

/// A server that is killed at the end of the test.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    /// Has it reload its configuration.
    pub(crate) fn hang_up(&self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    }

    pub(crate) fn terminate(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn with_input(mut command: Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

pub(crate) fn show(path: &Path) -> String {
    path.display().to_string()
}
