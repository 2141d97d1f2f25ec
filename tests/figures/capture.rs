//! Captures of an interface, evaluated by `barebell-bench capture`.

use peers::process::{Process, Program, built, run, wait_until};
use serde_json::Value;
use std::path::{Path, PathBuf};

const TCPDUMP: Program = Program { name: "tcpdump", packages: "tcpdump" };
const BENCH: Program = Program { name: "barebell-bench", packages: "(none: build it)" };

/// A running capture.
pub(crate) struct Capture {
    process: Process,
    file: PathBuf,
}

/// The statistics of a stream. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// The source and destination ports.
    pub(crate) ports: (u16, u16),
    pub(crate) encoding: String,
    pub(crate) suite: Option<String>,
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    pub(crate) mean_delta: f64,
    pub(crate) max_delta: f64,
    /// `None` for a stream of fewer than 1,000 packets.
    pub(crate) p999_delta: Option<f64>,
    pub(crate) mean_jitter: f64,
    pub(crate) max_jitter: f64,
    pub(crate) kbit_per_s: f64,
}

impl Capture {
    /// Starts a capture of `interface` to `file`. Requires root.
    pub(crate) fn start(file: PathBuf, interface: &str) -> Self {
        let log = file.with_extension("log");
        let mut command = TCPDUMP.command();
        // The buffer holds a second of traffic.
        command.args(["-i", interface, "-B", "32768", "-w"]).arg(&file).arg("udp or tcp");
        let mut process = Process::start(TCPDUMP, command, &log);
        wait_until("tcpdump to listen", || {
            process.assert_running();
            let report = std::fs::read_to_string(&log).unwrap_or_default();
            report.contains("listening on").then_some(())
        });
        Self { process, file }
    }

    /// Ends the capture, and returns its streams.
    pub(crate) fn finish(mut self) -> Vec<Stream> {
        self.process.interrupt();
        streams(&self.file)
    }
}

fn streams(file: &Path) -> Vec<Stream> {
    let binary = built(BENCH.name, "BAREBELL_BENCH");
    let mut command = std::process::Command::new(binary);
    command.args(["capture", "--json"]).arg(file);
    let report: Value =
        serde_json::from_str(&run(BENCH, command)).expect("the output of barebell-bench is JSON");
    let dropped = report[0]["facts"]["dropped"].as_u64().unwrap_or_default();
    assert_eq!(dropped, 0, "the kernel dropped packets");
    let streams = report[0]["rtp"]["streams"].as_array().expect("the output has a list of streams");
    streams.iter().filter_map(stream).collect()
}

fn stream(report: &Value) -> Option<Stream> {
    let port = |key: &str| report[key].as_str()?.rsplit_once(':')?.1.parse().ok();
    let ms = |key: &str| report[key].as_f64();
    Some(Stream {
        ports: (port("source")?, port("destination")?),
        encoding: report["encodings"][0].as_str().unwrap_or("?").to_owned(),
        suite: report["srtp"]["suite"].as_str().map(str::to_owned),
        packets: report["packets"].as_u64()?,
        lost: report["lost"].as_u64()?,
        mean_delta: ms("mean_delta_ms")?,
        max_delta: ms("max_delta_ms")?,
        p999_delta: ms("p999_delta_ms"),
        mean_jitter: ms("mean_jitter_ms")?,
        max_jitter: ms("max_jitter_ms")?,
        kbit_per_s: ms("kbit_per_s")?,
    })
}
