//! A headless browser with one page, controlled by the DevTools protocol over a pair of pipes.

use crate::browser::arguments;
use crate::folder::Folder;
use crate::nat::Machine;
use crate::process::{DEADLINE, Process, Program, poll, run};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Command;

const SHELL: Program = Program { name: "sh", packages: "dash chromium" };
const MKFIFO: Program = Program { name: "mkfifo", packages: "coreutils" };

/// The script that opens the pipes as descriptors 3 and 4.
const SCRIPT: &str = "in=$1 out=$2; shift 2; exec chromium \"$@\" 3<\"$in\" 4>\"$out\"";

/// A browser and its page.
#[derive(Debug)]
pub struct Devtools {
    input: File,
    output: BufReader<File>,
    session: Option<String>,
    last: u64,
    process: Process,
    _folder: Folder,
}

impl Devtools {
    /// Opens the page at `url`, in a browser that trusts `certificate`.
    ///
    /// # Panics
    /// The browser does not start.
    #[must_use]
    pub fn open(url: &str, certificate: &Path) -> Self {
        Self::with(SHELL.command(), url, certificate)
    }

    /// As [`open`](Self::open), on another machine.
    ///
    /// # Panics
    /// As for [`open`](Self::open).
    #[must_use]
    pub fn open_on(machine: &Machine, url: &str, certificate: &Path) -> Self {
        Self::with(machine.command(SHELL.name), url, certificate)
    }

    /// Opens the page in the browser that the shell `command` starts.
    fn with(mut command: Command, url: &str, certificate: &Path) -> Self {
        let folder = Folder::new("devtools");
        let pipes = [folder.join("in"), folder.join("out")];
        let mut mkfifo = Command::new(MKFIFO.name);
        mkfifo.args(&pipes);
        let _ = run(MKFIFO, mkfifo);
        command.args(["-c", SCRIPT, "sh"]).args(&pipes).arg("--remote-debugging-pipe");
        command.args(arguments(&folder, certificate)).arg("about:blank");
        let process = Process::start(SHELL, command, &folder.join("chromium.log"));
        // In the order of the shell: each side waits for the other one.
        let input = File::create(&pipes[0]).expect("the pipe exists");
        let output = BufReader::new(File::open(&pipes[1]).expect("the pipe exists"));
        let mut page = Self { input, output, session: None, last: 0, process, _folder: folder };
        let opened = page.call("Target.createTarget", &json!({ "url": url }));
        let target = opened.expect("the browser opens a page")["targetId"].clone();
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = page.call("Target.attachToTarget", &attach);
        let session = attached.expect("the page was opened")["sessionId"].clone();
        page.session = session.as_str().map(str::to_owned);
        page
    }

    /// Calls a method of the protocol, and returns its result or its error.
    fn call(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let sent = self.input.write_all(format!("{message}\0").as_bytes());
        sent.unwrap_or_else(|error| panic!("chromium does not accept {method}: {error}"));
        loop {
            let mut bytes = Vec::new();
            let count = self.output.read_until(0, &mut bytes).unwrap_or(0);
            assert!(count > 0, "chromium has ended, or is not installed, at {method}");
            let answer: Value = serde_json::from_slice(&bytes[..count - 1]).unwrap_or_default();
            if answer["id"] == self.last {
                let error = answer.get("error").cloned();
                return error.map_or_else(|| Ok(answer["result"].clone()), Err);
            }
        }
    }

    /// Sets the width of the page in pixels, and its colours.
    ///
    /// # Panics
    /// The browser refuses it.
    pub fn show_as(&mut self, width: u32, is_dark: bool) {
        let size = json!({
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false,
        });
        let scheme = if is_dark { "dark" } else { "light" };
        let colours = json!({
            "features": [{ "name": "prefers-color-scheme", "value": scheme }],
        });
        for (method, params) in [
            ("Emulation.setDeviceMetricsOverride", &size),
            ("Emulation.setEmulatedMedia", &colours),
        ] {
            let set = self.call(method, params);
            set.unwrap_or_else(|error| panic!("{method}: {error}"));
        }
    }

    /// The whole page as PNG, in base64.
    ///
    /// # Panics
    /// The browser refuses it.
    pub fn picture(&mut self) -> String {
        let size = self.call("Page.getLayoutMetrics", &json!({}));
        let size = &size.unwrap_or_else(|error| panic!("no size: {error}"))["cssContentSize"];
        let clip = json!({
            "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1,
        });
        let taken = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let taken = self.call("Page.captureScreenshot", &taken);
        let taken = taken.unwrap_or_else(|error| panic!("no picture: {error}"));
        taken["data"].as_str().unwrap_or_default().to_owned()
    }

    /// Answers the questions of the page: each `confirm` is true.
    pub fn confirm_all(&mut self) {
        self.evaluate("window.confirm = () => true");
    }

    /// The value of `script` in the page; of a promise, its result.
    ///
    /// # Panics
    /// The script throws.
    pub fn evaluate(&mut self, script: &str) -> Value {
        self.value_of(script).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// As [`evaluate`](Self::evaluate), with the error of a script, or of a page that still loads.
    fn value_of(&mut self, script: &str) -> Result<Value, Value> {
        let params = json!({
            "expression": script, "awaitPromise": true, "returnByValue": true, "userGesture": true,
        });
        let answer = self.call("Runtime.evaluate", &params)?;
        let thrown = answer.get("exceptionDetails").cloned();
        thrown.map_or_else(|| Ok(answer["result"]["value"].clone()), Err)
    }

    /// Waits until `script` is true in the page. `state` shows the state of the page otherwise.
    ///
    /// # Panics
    /// It does not become true.
    pub fn wait_for(&mut self, script: &str, state: &str) {
        let found = poll(DEADLINE, || {
            self.process.assert_running();
            self.value_of(script).ok()?.as_bool().filter(|&is_true| is_true)
        });
        let shown = self.value_of(state);
        assert!(found.is_some(), "{script} is not true; the page shows {shown:?}");
    }
}
