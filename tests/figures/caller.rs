//! barebell-phone as the caller (`barebell-phone control`).

use peers::folder::Folder;
use peers::process::{Process, Program, built};
use peers::trace::Tail;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

pub(crate) const PHONE: Program = Program { name: "barebell-phone", packages: "(none: build it)" };
/// The SRTP suite of the calls.
pub(crate) const SUITE: &str = "AES_CM_128_HMAC_SHA1_80";
/// The polling interval of events.
const LOOKS: Duration = Duration::from_millis(2);

/// A calling phone.
pub(crate) struct Caller {
    pub(crate) process: Process,
    events: Tail,
    _folder: Folder,
}

impl Caller {
    /// Starts a phone that sends a tone in G.711 with SRTP.
    pub(crate) fn start() -> Self {
        let folder = Folder::new("caller");
        let log = folder.join("events.log");
        let mut command = Command::new(built(PHONE.name, "BAREBELL_PHONE_BIN"));
        command.args(["control", "--listen", "127.0.0.1:0", "--play", "tone:440"]);
        command.args(["--codecs", "PCMU", "--srtp", "required", "--suites", SUITE]);
        let process = Process::start(PHONE, command, &log);
        Self { process, events: Tail::new(log), _folder: folder }
    }

    /// Sends a command.
    pub(crate) fn say(&mut self, command: &Value) {
        self.process.say(&command.to_string());
    }

    pub(crate) fn call(&mut self, uri: &str) {
        self.say(&json!({ "command": "call", "uri": uri }));
    }

    /// The events since the last call.
    pub(crate) fn news(&mut self) -> Vec<Value> {
        self.process.assert_running();
        let lines = self.events.lines();
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until `event` has occurred `count` times, at most `limit`. Returns the events.
    pub(crate) fn wait_for(&mut self, event: &str, count: usize, limit: Duration) -> Vec<Value> {
        let (mut seen, end) = (Vec::new(), Instant::now() + limit);
        while seen.len() < count && Instant::now() < end {
            seen.extend(self.news().into_iter().filter(|event_line| event_line["event"] == event));
            std::thread::sleep(LOOKS);
        }
        seen
    }
}
