//! The program as a process, and a peer for it.

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

pub(crate) const BENCH: &str = env!("CARGO_BIN_EXE_barebell-bench");

/// The exit status and output of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Ended {
    /// Returns the printed record.
    #[track_caller]
    pub(crate) fn record(&self) -> Value {
        let read: Value = serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error} in {}\n{}", self.out, self.err));
        match read {
            Value::Array(mut records) => records.remove(0),
            record => record,
        }
    }
}

/// Runs the program in `folder` with the words of `line`.
pub(crate) fn bench_in(folder: &Path, line: &str) -> Ended {
    bench_with(folder, &[], line)
}

/// As `bench_in`, with these environment variables.
pub(crate) fn bench_with(folder: &Path, variables: &[(&str, &OsStr)], line: &str) -> Ended {
    let mut command = Command::new(BENCH);
    command.current_dir(folder).envs(variables.iter().copied()).args(line.split_whitespace());
    command.output().unwrap().into()
}

/// Runs the program in a temporary folder.
pub(crate) fn bench(line: &str) -> Ended {
    bench_in(tempfile::tempdir().unwrap().path(), line)
}

/// A peer in a process of its own, on a free port.
pub(crate) struct PeerProcess {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl PeerProcess {
    pub(crate) fn start(options: &str) -> Self {
        let mut child = Command::new(BENCH)
            .args(["peer", "--listen", "127.0.0.1:0"])
            .args(options.split_whitespace())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").expect("it says where").to_owned();
        Self { child, out, address }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it without a clean end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Interrupts it, and returns its output.
    pub(crate) fn finish(mut self) -> String {
        interrupt(&self.child);
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        assert!(self.child.wait().unwrap().success());
        said
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn interrupt(child: &Child) {
    signal(child, nix::sys::signal::Signal::SIGINT);
}

pub(crate) fn signal(child: &Child, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(pid, signal).unwrap();
}

/// A running tcpdump.
pub(crate) struct Capturing {
    child: Child,
}

impl Capturing {
    /// Captures the loopback datagrams that match `filter` into `all.pcap`.
    pub(crate) fn start(folder: &Path, filter: &str) -> Self {
        let mut child = Command::new("tcpdump")
            .args(["-i", "lo", "-n", "-U", "-B", "16384", "--immediate-mode", "-w", "all.pcap"])
            .args(["udp", "and"])
            .args(filter.split_whitespace())
            .current_dir(folder)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("tcpdump: {error}; on Debian, apt-get install tcpdump"));
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        assert!(line.contains("listening on lo"), "tcpdump needs the right to capture: {line}");
        std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        Self { child }
    }

    /// Returns the analysis of the capture.
    pub(crate) fn analyse(mut self, folder: &Path) -> Value {
        // The last messages may not have been written to the file.
        std::thread::sleep(std::time::Duration::from_millis(500));
        interrupt(&self.child);
        self.child.wait().unwrap();
        let ended = bench_in(folder, "capture all.pcap --json");
        assert_eq!(ended.status, 0, "{ended:?}");
        let text = bench_in(folder, "capture all.pcap --calls");
        assert!(text.status == 0 && text.out.contains("200"), "{text:?}");
        ended.record()
    }
}

impl Drop for Capturing {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
