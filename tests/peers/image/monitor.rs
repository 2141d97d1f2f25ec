//! The QEMU monitor: JSON lines over a Unix socket (QMP).

use crate::process::DEADLINE;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// A connection to the monitor.
#[derive(Debug)]
pub(super) struct Monitor(BufReader<UnixStream>);

impl Monitor {
    pub(super) fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).expect("the read timeout can be set");
        let mut monitor = Self(BufReader::new(stream));
        monitor.read();
        monitor.ask("qmp_capabilities", &json!({}));
        monitor
    }

    /// Runs a command and returns its result.
    pub(super) fn ask(&mut self, command: &str, arguments: &Value) -> Value {
        let line = json!({ "execute": command, "arguments": arguments });
        let written = self.0.get_mut().write_all(format!("{line}\n").as_bytes());
        written.unwrap_or_else(|error| panic!("QEMU did not accept {line}: {error}"));
        loop {
            let mut answer = self.read();
            assert!(answer.get("error").is_none(), "QEMU rejected {line}: {answer}");
            // Other lines are events.
            if let Some(answer) = answer.get_mut("return") {
                return answer.take();
            }
        }
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the monitor sends a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("not JSON: {line:?}: {error}"))
    }
}
