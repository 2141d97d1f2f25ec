//! Driver of `barebell-phone control`: JSON lines on its standard input.
//!
//! Unlike other phones, it neither follows a transfer nor answers calls automatically. The thread
//! `attend` does so.

use crate::folder::Folder;
use crate::phone::{Account, Action, Driver, Event, Srtp};
use crate::process::{Process, Program, built};
use crate::tone::Recording;
use crate::trace::Tail;
use crate::transport::Transport;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{ChildStdin, Command};
use std::sync::{Arc, Weak};
use std::time::Duration;
use test_support::ports::free_ports;

/// The phone is built, not installed.
const PHONE: Program = Program { name: "barebell-phone", packages: "(none: build it)" };
/// The amplitude of its tones.
const LOUDNESS: f64 = 16_000.0;

/// A running barebell-phone.
#[derive(Debug)]
pub(crate) struct BarebellPhone {
    process: Process,
    attendant: Arc<Mutex<Attendant>>,
    port: u16,
    folder: Folder,
}

/// The controller of the phone.
#[derive(Debug)]
struct Attendant {
    input: ChildStdin,
    events: Tail,
    /// The current calls by number.
    calls: BTreeMap<u64, State>,
    answers_at_once: bool,
}

/// The state of a call.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    rings_here: bool,
    /// True if this end holds the call.
    is_held: bool,
}

impl BarebellPhone {
    pub(crate) fn start(account: &Account) -> Self {
        let (folder, port) = (Folder::new("phone"), free_ports(1));
        let binary = built(PHONE.name, "BAREBELL_PHONE_BIN");
        let (mut command, address) = match &account.machine {
            None => (Command::new(binary), account.address()),
            Some(machine) => (machine.command(binary), machine.address),
        };
        command.arg("control").args(["--listen", &format!("{address}:{port}")]);
        for server in &account.stun {
            command.args(["--stun", server]);
        }
        command.args(["--play", &format!("tone:{}", account.tone)]);
        command.arg("--record").arg(folder.join("heard.wav"));
        // The SIP trace goes to standard error, which is the file of events.
        command.arg("--trace");
        command.args(["--srtp", account.srtp.name()]);
        match account.srtp {
            Srtp::Zrtp => {
                command.args(["--keys", "zrtp"]).env("XDG_DATA_HOME", folder.path());
            }
            Srtp::Dtls => {
                command.args(["--keys", "dtls"]);
            }
            Srtp::Off | Srtp::Optional | Srtp::Required => {}
        }
        if !account.suites.is_empty() {
            command.args(["--suites", account.suites]);
        }
        if !account.codecs.is_empty() {
            command.args(["--codecs", account.codecs]);
        }
        command.args(account.options.split_whitespace());
        if account.has_server {
            folder.write("phone.toml", &configuration(account));
            command.arg("--config").arg(folder.join("phone.toml"));
        }
        command.current_dir(folder.path());
        let mut process = Process::start(PHONE, command, &folder.join("events.log"));
        let attendant = Attendant {
            input: process.take_input(),
            events: Tail::new(folder.join("events.log")),
            calls: BTreeMap::new(),
            answers_at_once: false,
        };
        let attendant = Arc::new(Mutex::new(attendant));
        let watched = Arc::downgrade(&attendant);
        std::thread::spawn(move || attend(&watched));
        Self { process, attendant, port, folder }
    }
}

fn configuration(account: &Account) -> String {
    let Account { user, password, server, transport, expires, .. } = account;
    // Without a proxy, messages go to the host of the URI by UDP.
    let proxy = match (account.proxy, transport) {
        (None, Transport::Udp) => String::new(),
        (proxy, transport) => {
            let place = proxy.unwrap_or(*server);
            format!("proxy = \"{place};transport={}\"\n", transport.name())
        }
    };
    let trust = account
        .issuers
        .as_ref()
        .map_or_else(String::new, |file| format!("[tls]\ntrust = \"{}\"\n", file.display()));
    format!(
        "{trust}[[account]]\n\
         uri = \"sip:{user}@{server}\"\n\
         password = \"{password}\"\n\
         {proxy}\
         register = false\n\
         expires = \"{expires}s\"\n"
    )
}

/// Handles events while the phone exists.
fn attend(attendant: &Weak<Mutex<Attendant>>) {
    while let Some(attendant) = attendant.upgrade() {
        attendant.lock().look();
        drop(attendant);
        std::thread::sleep(Duration::from_millis(25));
    }
}

impl Attendant {
    /// Processes new events.
    fn look(&mut self) {
        for line in self.events.lines() {
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            let number = event["call"].as_u64().unwrap_or_default();
            match event["event"].as_str().unwrap_or_default() {
                "calling" => drop(self.calls.insert(number, State::default())),
                "following" => {
                    let by = event["by"].as_u64().unwrap_or_default();
                    self.calls.insert(by, State::default());
                }
                "incoming" => {
                    self.calls.insert(number, State { rings_here: true, is_held: false });
                    if self.answers_at_once {
                        self.say(&json!({ "command": "answer", "call": number }));
                    }
                }
                "answered" => drop(self.calls.insert(number, State::default())),
                "held" if event["here"] == true => {
                    let is_held = event["held"] == true;
                    self.calls.entry(number).and_modify(|state| state.is_held = is_held);
                }
                "transfer_asked" => self.say(&json!({ "command": "follow", "call": number })),
                "ended" => drop(self.calls.remove(&number)),
                _ => {}
            }
        }
    }

    fn say(&mut self, command: &Value) {
        if let Err(error) = writeln!(self.input, "{command}") {
            panic!("barebell-phone did not accept {command}: {error}");
        }
    }

    /// The last call with this state.
    fn call(&self, wanted: impl Fn(&State) -> bool) -> u64 {
        let mut calls = self.calls.iter().rev();
        let found = calls.find(|(_, state)| wanted(state));
        *found.unwrap_or_else(|| panic!("no such call: there are {:?}", self.calls)).0
    }

    fn of_call(&mut self, command: &str, wanted: impl Fn(&State) -> bool) {
        let call = self.call(wanted);
        self.say(&json!({ "command": command, "call": call }));
    }

    fn act(&mut self, action: &Action) {
        self.look();
        match action {
            Action::Register => self.say(&json!({ "command": "register" })),
            Action::Unregister => self.say(&json!({ "command": "unregister" })),
            Action::Dial(uri) => self.say(&json!({ "command": "call", "uri": uri })),
            Action::Answer => self.of_call("answer", |call| call.rings_here),
            Action::Reject => self.of_call("decline", |call| call.rings_here),
            Action::HangUp => self.of_call("hang_up", |_| true),
            Action::AutoAnswer(on) => self.answers_at_once = *on,
            Action::Press(key) => {
                let call = self.call(|_| true);
                self.say(&json!({ "command": "press", "call": call, "keys": key.to_string() }));
            }
            Action::Hold => self.of_call("hold", |call| !call.rings_here),
            Action::Resume => self.of_call("resume", |call| call.is_held),
            Action::Transfer(uri) => {
                let call = self.call(|call| !call.rings_here);
                self.say(&json!({ "command": "transfer", "call": call, "to": uri }));
            }
            Action::Consult(uri) => {
                self.of_call("hold", |call| !call.rings_here);
                self.say(&json!({ "command": "call", "uri": uri }));
            }
            Action::TransferToConsulted => {
                let (first, second) =
                    (self.call(|call| call.is_held), self.call(|call| !call.is_held));
                self.say(&json!({ "command": "transfer", "call": first, "with": second }));
            }
        }
    }
}

impl Driver for BarebellPhone {
    fn act(&mut self, action: &Action) {
        self.attendant.lock().act(action);
    }

    fn event(&self, line: &str) -> Option<Event> {
        let event: Value = serde_json::from_str(line).ok()?;
        match event["event"].as_str()? {
            "registered" => Some(Event::Registered),
            "registration_failed" => Some(Event::RegistrationFailed),
            "unregistered" => Some(Event::Unregistered),
            "incoming" => Some(Event::Incoming),
            "ringing" => Some(Event::Ringback),
            "answered" => Some(Event::Established),
            "ended" => Some(Event::Ended),
            "path" => event["turn"].as_str().map(|_| Event::ThroughTurn),
            "dtmf" => event["digit"].as_str()?.chars().next().map(Event::Key),
            _ => None,
        }
    }

    /// The concatenated recordings of all calls, which are in one file per call.
    fn recording(&self) -> Option<Recording> {
        // A call without media leaves no file.
        let paths = (1..100).map(|number| match number {
            1 => self.folder.join("heard.wav"),
            _ => self.folder.join(&format!("heard-{number}.wav")),
        });
        let files = paths.filter(|path| path.exists());
        let recordings = files.filter_map(|path| Recording::read(&path));
        recordings.reduce(|mut all, next| {
            all.append(&next);
            all
        })
    }

    fn loudness(&self) -> Option<f64> {
        Some(LOUDNESS)
    }

    fn suite(&self) -> Option<String> {
        let log = std::fs::read_to_string(self.event_log()).unwrap_or_default();
        let mut event = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        // Keys that are agreed on by media follow the answer.
        let answered =
            event.rfind(|event| event["event"] == "answered" || event["event"] == "secured")?;
        answered["srtp"].as_str().map(str::to_owned)
    }

    fn sas(&self, line: &str) -> Option<String> {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["event"] == "secured").then(|| event["sas"].as_str().map(str::to_owned))?
    }

    fn port(&self) -> u16 {
        self.port
    }

    fn event_log(&self) -> PathBuf {
        self.folder.join("events.log")
    }

    fn sip_log(&self) -> PathBuf {
        self.event_log()
    }

    fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}
