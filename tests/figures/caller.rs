//! Our phone as it places calls for the others, `barebell-phone control`.

use peers::folder::Folder;
use peers::process::{Process, Program, built};
use peers::trace::Tail;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// Our phone.
pub(crate) const PHONE: Program = Program { name: "barebell-phone", packages: "(none: build it)" };
/// What the calls here are encrypted with.
pub(crate) const SUITE: &str = "AES_CM_128_HMAC_SHA1_80";
/// How often it is looked whether something has happened.
const LOOKS: Duration = Duration::from_millis(2);

/// A phone that calls.
pub(crate) struct Caller {
    pub(crate) process: Process,
    events: Tail,
    _folder: Folder,
}

impl Caller {
    /// Starts one that sends a tone in G.711, encrypted.
    pub(crate) fn start() -> Self {
        let folder = Folder::new("caller");
        let log = folder.join("events.log");
        let mut command = Command::new(built(PHONE.name, "BAREBELL_PHONE_BIN"));
        command.args(["control", "--listen", "127.0.0.1:0", "--play", "tone:440"]);
        command.args(["--codecs", "PCMU", "--srtp", "required", "--suites", SUITE]);
        let process = Process::start(PHONE, command, &log);
        Self { process, events: Tail::new(log), _folder: folder }
    }

    /// Tells it to do something.
    pub(crate) fn say(&mut self, command: &Value) {
        self.process.say(&command.to_string());
    }

    /// Calls `uri`.
    pub(crate) fn call(&mut self, uri: &str) {
        self.say(&json!({ "command": "call", "uri": uri }));
    }

    /// What has happened since this was asked last.
    pub(crate) fn news(&mut self) -> Vec<Value> {
        self.process.assert_running();
        let lines = self.events.lines();
        lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until `event` has happened `count` times, `limit` at the longest. Gives those that
    /// have.
    pub(crate) fn wait_for(&mut self, event: &str, count: usize, limit: Duration) -> Vec<Value> {
        let (mut seen, end) = (Vec::new(), Instant::now() + limit);
        while seen.len() < count && Instant::now() < end {
            seen.extend(self.news().into_iter().filter(|told| told["event"] == event));
            std::thread::sleep(LOOKS);
        }
        seen
    }
}
