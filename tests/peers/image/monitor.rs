//! QEMU's monitor: JSON in lines, over a socket of the file system (QMP).

use crate::process::DEADLINE;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// A connection to a machine's monitor.
#[derive(Debug)]
pub(super) struct Monitor(BufReader<UnixStream>);

impl Monitor {
    pub(super) fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket that can wait");
        let mut monitor = Self(BufReader::new(stream));
        monitor.read();
        monitor.ask("qmp_capabilities", &json!({}));
        monitor
    }

    /// Has the machine do something, and gives what it says to that.
    pub(super) fn ask(&mut self, command: &str, arguments: &Value) -> Value {
        let line = json!({ "execute": command, "arguments": arguments });
        let written = self.0.get_mut().write_all(format!("{line}\n").as_bytes());
        written.unwrap_or_else(|error| panic!("QEMU did not take {line}: {error}"));
        loop {
            let mut answer = self.read();
            assert!(answer.get("error").is_none(), "QEMU refused {line}: {answer}");
            // What is neither is the report of an event.
            if let Some(answer) = answer.get_mut("return") {
                return answer.take();
            }
        }
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line of QEMU's monitor");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("no JSON: {line:?}: {error}"))
    }
}
