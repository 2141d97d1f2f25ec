//! Phone processes for several tests.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod registrar;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

pub(crate) const PHONE: &str = env!("CARGO_BIN_EXE_barebell-phone");

/// A running phone. It is killed if it does not end.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    /// The listening address.
    pub(crate) address: String,
}

impl Running {
    /// Starts a phone with `args` that listens on a free port and prints JSON.
    pub(crate) fn start(args: &[&str]) -> Self {
        let mut child = Command::new(PHONE)
            .args(args)
            .args(["--listen", "127.0.0.1:0", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the phone starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut phone = Self { child, lines, address: String::new() };
        let first = phone.next().expect("listening");
        let address = first["address"].as_str().expect("an address");
        phone.address = address.strip_prefix("udp:").expect("UDP").to_owned();
        phone
    }

    /// Starts a calling phone, which does not print its listening address.
    pub(crate) fn start_caller(args: &[&str]) -> Self {
        let mut child = Command::new(PHONE)
            .args(args)
            .args(["--listen", "127.0.0.1:0", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the phone starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        Self { child, lines, address: String::new() }
    }

    /// Starts a phone that answers one call.
    pub(crate) fn answer(more: &[&str]) -> Self {
        Self::start(&[&["answer", "--auto", "--calls", "1"], more].concat())
    }

    pub(crate) fn uri(&self) -> String {
        format!("sip:bob@{}", self.address)
    }

    /// Calls it from another phone, which ends.
    pub(crate) fn call(&self, more: &[&str]) -> Output {
        phone(&[&["call", &self.uri(), "--listen", "127.0.0.1:0", "--json"], more].concat())
    }

    /// Writes `text` to its standard input.
    pub(crate) fn types(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().expect("its input");
        input.write_all(text.as_bytes()).expect("it reads");
        input.flush().expect("it reads");
    }

    /// The next event.
    pub(crate) fn next(&mut self) -> Option<serde_json::Value> {
        let line = self.lines.next()?.expect("text");
        Some(serde_json::from_str(&line).expect("JSON"))
    }

    /// The next event with this name; others before it are skipped.
    pub(crate) fn expect(&mut self, event: &str) -> serde_json::Value {
        while let Some(told) = self.next() {
            if told["event"] == event {
                return told;
            }
        }
        panic!("the phone has ended before {event}");
    }

    /// Its exit status and standard error, once it has ended.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        while self.next().is_some() {}
        let mut said = String::new();
        let mut error = self.child.stderr.take().expect("its words");
        std::io::Read::read_to_string(&mut error, &mut said).expect("text");
        (self.child.wait().expect("it ends").code(), said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a phone until it ends.
pub(crate) fn phone(args: &[&str]) -> Output {
    Command::new(PHONE).args(args).stdin(Stdio::null()).output().expect("the phone runs")
}

/// The JSON events in `output`.
pub(crate) fn told(output: &[u8]) -> Vec<serde_json::Value> {
    let text = String::from_utf8_lossy(output);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The event with this name.
pub(crate) fn event<'a>(told: &'a [serde_json::Value], name: &str) -> &'a serde_json::Value {
    told.iter().find(|told| told["event"] == name).unwrap_or_else(|| panic!("{name}: {told:?}"))
}

/// The text on standard error.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The sample rate and the samples of a WAV file.
pub(crate) fn recorded(path: &Path) -> (u32, Vec<i16>) {
    let mut reader = hound::WavReader::open(path).expect("a recording");
    let samples = reader.samples().map(|sample| sample.expect("a sample")).collect();
    (reader.spec().sample_rate, samples)
}

/// The amplitude of a tone in the loudest quarter of a second of a recording: under load some of it
/// is concealed.
pub(crate) fn loudest(hertz: f64, rate: u32, samples: &[i16]) -> f64 {
    let (quarter, step) = (rate as usize / 4, rate as usize / 40);
    let parts = samples.windows(quarter).step_by(step);
    parts.map(|part| media::tone::amplitude_of(hertz, rate, part)).fold(0.0, f64::max)
}

/// The test cases of a JUnit XML file: names, and messages of failures.
pub(crate) fn junit(path: &Path) -> Vec<(String, Option<String>)> {
    use quick_xml::events::Event;
    let text = std::fs::read_to_string(path).expect("a file");
    let mut reader = quick_xml::Reader::from_str(&text);
    let mut cases: Vec<(String, Option<String>)> = Vec::new();
    loop {
        let event = reader.read_event().expect("XML");
        let (Event::Start(tag) | Event::Empty(tag)) = &event else {
            if matches!(event, Event::Eof) {
                return cases;
            }
            continue;
        };
        let attribute = |name: &str| {
            let value = tag.try_get_attribute(name).expect("attributes").expect("the attribute");
            value.normalized_value(quick_xml::XmlVersion::Explicit1_0).expect("text").into_owned()
        };
        match tag.name().as_ref() {
            "testcase" => {
                attribute("time").parse::<f64>().expect("a time");
                cases.push((attribute("name"), None));
            }
            "failure" => cases.last_mut().expect("a case").1 = Some(attribute("message")),
            "skipped" => cases.last_mut().expect("a case").1 = Some("skipped".to_owned()),
            _ => {}
        }
    }
}
