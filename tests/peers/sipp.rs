//! SIPp (Debian package sip-tester): plays a scenario of `tests/sipp` as caller, callee or phone and
//! checks every message that it receives. And the server under test, for these tests.
//!
//! A scenario is SIPp's XML with two additions, both expanded before SIPp sees it:
//! `{name}` is a setting of the instance, and `<include file="x.xml" name="value"/>` is the text of
//! `tests/sipp/parts/x.xml` with further settings.
//!
//! Every row of injected data is `user;credentials;callee;domain`, see [`row`].
//!
//! With the environment variable `SIPP_MESSAGES` set, every message is logged in the folder that is
//! named at the end, and the folder is kept.

mod scenario;
mod server;

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use server::{DOMAIN, Registration, Server, USERS, password, user};
use server::{free_port, stop, wait_until};

/// A configuration for authentication by SIPp: it knows MD5 only, and fails when another algorithm
/// is offered before it.
pub const ONLY_MD5: &str = "[authentication]\nalgorithms = [\"MD5\"]\n";

/// How long one SIPp instance may take before it is taken for stuck.
const DEADLINE: Duration = Duration::from_secs(100);

/// One row of injected data: the user who calls or registers, the user name and password of the
/// credentials, the user who is called, and how the domain is written. SIPp takes changing
/// credentials in this form only from injected data.
pub fn row(user: &str, name: &str, password: &str, callee: &str, domain: &str) -> String {
    format!("{user};[authentication username={name} password={password}];{callee};{domain}")
}

/// A transport that SIPp speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One UDP socket for all calls.
    Udp,
    /// One TCP connection for all calls.
    Tcp,
}

impl Transport {
    /// The name as in a Via.
    fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
        }
    }

    /// Whether something listens on this port of 127.0.0.1. To bind it for a try could take it away
    /// from SIPp.
    fn is_listening(self, port: u16) -> bool {
        let table = match self {
            Self::Udp => "/proc/net/udp",
            Self::Tcp => "/proc/net/tcp",
        };
        let table = fs::read_to_string(table).expect("the system's sockets");
        table.contains(&format!(" 0100007F:{port:04X} 00000000:0000 "))
    }

    /// The source port that the server will see, as a regular expression: SIPp's TCP connections
    /// come from a port that it does not choose.
    fn source_port(self, port: u16) -> String {
        match self {
            Self::Udp => port.to_string(),
            Self::Tcp => "[0-9]+".into(),
        }
    }
}

/// One SIPp instance, not yet started.
#[derive(Debug)]
pub struct Sipp {
    scenario: &'static str,
    port: u16,
    transport: Transport,
    settings: HashMap<String, String>,
    rows: Vec<String>,
    calls: usize,
    rate: usize,
    first_cseq: usize,
}

impl Sipp {
    /// An instance that will play `tests/sipp/{scenario}.xml` on a free port.
    pub fn new(scenario: &'static str) -> Self {
        let sipp = Self {
            scenario,
            port: free_port(),
            transport: Transport::Udp,
            settings: HashMap::new(),
            rows: Vec::new(),
            calls: 0,
            rate: 500,
            first_cseq: 1,
        };
        sipp.set("authenticated", "").set("contact_parameters", "").set("stateful", true)
    }

    /// Phones that register one contact each, with this port, for an hour.
    pub fn register(contact_port: u16) -> Self {
        Self::new("register")
            .set("contact_port", contact_port)
            .set("expires", 3600)
            .set("granted", "3600|35[0-9][0-9]")
    }

    /// Users who register two contacts each, with these ports and q values.
    pub fn register_two(first: (u16, &str), second: (u16, &str)) -> Self {
        Self::new("register_two")
            .set("contact_port", first.0)
            .set("q", first.1)
            .set("second_port", second.0)
            .set("second_q", second.1)
            .set("expires", 3600)
    }

    /// The port that it has, or will have.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Gives `{name}` in the scenario a value.
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.insert(name.into(), value.to_string());
        self
    }

    fn or_set(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.entry(name.into()).or_insert_with(|| value.to_string());
        self
    }

    /// Answers the server's challenges if `yes`; then a request that is not challenged is an error.
    pub fn authenticated(self, yes: bool) -> Self {
        self.set("authenticated", if yes { "_authenticated" } else { "" })
    }

    /// Names the instance at the other end of the calls, whose port and transport are checked.
    pub fn peer(self, peer: &Self) -> Self {
        self.set("peer_port", peer.port)
            .set("callee_port", peer.port)
            .or_set("ringing_port", peer.port)
            .set("peer_transport", peer.transport.name())
            .set("peer_source_port", peer.transport.source_port(peer.port))
    }

    /// Expects the 180 from this instance, not from the peer that answers.
    pub fn ringing_at(self, callee: &Self) -> Self {
        self.set("ringing_port", callee.port)
    }

    /// Speaks this transport instead of UDP.
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Makes one call for each user in `numbers`; each calls the user with the next
    /// number.
    pub fn users(mut self, server: &Server, numbers: impl IntoIterator<Item = usize>) -> Self {
        self.rows = numbers
            .into_iter()
            .map(|number| {
                let callee = user(number % USERS + 1);
                let user = user(number);
                row(&user, &user, &password(number), &callee, &server.domain(number))
            })
            .collect();
        self.calls = self.rows.len();
        self
    }

    /// Makes one call for each row of injected data.
    pub fn rows(mut self, rows: Vec<String>) -> Self {
        self.calls = rows.len();
        self.rows = rows;
        self
    }

    /// Ends after this many calls.
    pub fn calls(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    /// New calls a second.
    pub fn rate(mut self, rate: usize) -> Self {
        self.rate = rate;
        self
    }

    /// The first CSeq number of each call. The Call-ID of the n-th call of an instance is always
    /// the same, so that a phone can go on where an earlier instance ended (RFC 3261 section 10.2).
    pub fn first_cseq(mut self, number: usize) -> Self {
        self.first_cseq = number;
        self
    }

    /// Starts SIPp and, where it listens, waits until it does.
    pub fn start(mut self, server: &Server) -> Running {
        let source_port = self.transport.source_port(self.port);
        for (name, value) in [
            ("own_port", self.port.to_string()),
            ("server_port", server.address().port().to_string()),
            ("transport", self.transport.name().into()),
            ("source_port", source_port),
        ] {
            self.settings.insert(name.into(), value);
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        let scenario = folder.path().join(format!("{}.xml", self.scenario));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("sipp");
        let text = scenario::expand(&sources, self.scenario, &self.settings);
        fs::write(&scenario, text).expect("the scenario is written");

        let mut command = Command::new("sipp");
        command.current_dir(folder.path()).arg(server.address().to_string());
        command.arg("-sf").arg(&scenario).args(["-i", "127.0.0.1", "-bind_local", "-nostdin"]);
        command.args(["-t", if self.transport == Transport::Udp { "u1" } else { "t1" }]);
        command.args(["-trace_err", "-error_file", "errors", "-trace_stat", "-stf", "statistics"]);
        command.args(["-trace_counts", "-trace_logs", "-log_file", "log", "-fd", "1"]);
        command.args(["-timeout_error", "-cid_str", "%u@phone"]);
        command.args(["-default_behaviors", "all,-bye"]);
        if std::env::var_os("SIPP_MESSAGES").is_some() {
            command.args(["-trace_msg", "-message_file", "messages"]);
        }
        for (option, value) in [
            ("-p", usize::from(self.port)),
            ("-cp", usize::from(free_port())),
            ("-m", self.calls),
            ("-l", self.calls),
            ("-r", self.rate),
            ("-base_cseq", self.first_cseq),
            ("-timeout", DEADLINE.as_secs() as usize),
        ] {
            command.args([option, &value.to_string()]);
        }
        if !self.rows.is_empty() {
            let rows = format!("SEQUENTIAL\n{}\n", self.rows.join("\n"));
            fs::write(folder.path().join("rows.csv"), rows).expect("the rows are written");
            command.args(["-inf", "rows.csv"]);
        }
        let screen = File::create(folder.path().join("screen")).expect("a file for SIPp's screen");
        command.stdout(screen.try_clone().expect("a second handle")).stderr(screen);
        let child = match command.stdin(Stdio::null()).spawn() {
            Ok(child) => child,
            Err(error) => panic!("sipp: {error}; install it: apt-get install sip-tester"),
        };
        let mut running = Running {
            scenario: self.scenario,
            calls: self.calls,
            folder: Some(folder),
            child,
            status: None,
        };
        if self.rows.is_empty() {
            wait_until("SIPp listens", || {
                running.status = running.child.try_wait().expect("SIPp's status");
                assert!(running.status.is_none(), "SIPp does not start\n{}", running.report());
                self.transport.is_listening(self.port)
            });
        }
        running
    }

    /// Starts SIPp and waits for its end; panics unless every call succeeded.
    pub fn run(self, server: &Server) {
        self.start(server).finish();
    }
}

/// A SIPp instance at work; it is killed when dropped.
#[derive(Debug)]
pub struct Running {
    scenario: &'static str,
    calls: usize,
    folder: Option<tempfile::TempDir>,
    child: Child,
    status: Option<ExitStatus>,
}

impl Running {
    /// Waits for its end. Panics with SIPp's own words unless every call succeeded and no message
    /// came that the scenario does not expect, nor many twice.
    pub fn finish(mut self) {
        self.succeed();
        // A busy machine may be late now and then; one that repeats every message is not late, its
        // transactions do not match.
        let repeated = self.repeated();
        assert!(
            repeated <= self.calls as u64 / 5,
            "{}: {repeated} messages in {} calls were repeated\n{}",
            self.scenario,
            self.calls,
            self.report()
        );
    }

    /// Like [`Running::finish`], for a server that was away for a while: messages may have been
    /// repeated.
    pub fn finish_interrupted(mut self) {
        self.succeed();
    }

    fn succeed(&mut self) {
        let start = Instant::now();
        while self.status.is_none() {
            assert!(start.elapsed() < DEADLINE * 2, "SIPp does not end\n{}", self.report());
            sleep(Duration::from_millis(20));
            self.status = self.child.try_wait().expect("SIPp's status");
        }
        let totals = self.totals();
        let total = |name: &str| totals.get(&format!("{name}(C)")).copied().unwrap_or(u64::MAX);
        let faults: Vec<String> = ["FailedCall", "OutOfCallMsgs", "DeadCallMsgs", "FatalErrors"]
            .into_iter()
            .filter(|name| total(name) != 0)
            .map(|name| format!("{name} {}", total(name)))
            .collect();
        let succeeded = total("SuccessfulCall");
        assert!(
            self.status.is_some_and(|status| status.success())
                && faults.is_empty()
                && succeeded == self.calls as u64,
            "{}: {succeeded} of {} calls succeeded; {}\n{}",
            self.scenario,
            self.calls,
            faults.join(", "),
            self.report()
        );
    }

    /// What the scenario's log actions have written so far, by line. The last line is left out
    /// while it is incomplete.
    pub fn log(&self) -> Vec<String> {
        let text = self.read("log");
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(str::to_owned).collect()
    }

    fn path(&self) -> &Path {
        self.folder.as_ref().expect("the folder is there until the drop").path()
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last line of the statistics file, by column.
    fn totals(&self) -> HashMap<String, u64> {
        last_line(&self.read("statistics"))
    }

    /// Messages sent or received again.
    fn repeated(&self) -> u64 {
        let file = format!("{}_{}_counts.csv", self.scenario, self.child.id());
        let counts = last_line(&self.read(&file));
        assert!(!counts.is_empty(), "SIPp wrote no {file}");
        counts.iter().filter(|(name, _)| name.ends_with("_Retrans")).map(|(_, count)| count).sum()
    }

    /// What SIPp says went wrong, and how often each message of the scenario went by.
    fn report(&self) -> String {
        let errors: String = self.read("errors").chars().take(3000).collect();
        let screen = self.read("screen");
        let messages = screen.split("Messages  Retrans").nth(1).unwrap_or(&screen);
        let messages = messages.split("-- Test Terminated").next().unwrap_or_default();
        format!("{:?}\n{errors}\n{messages}", self.status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        stop(&mut self.child);
        // The messages that were asked for are of use only if they outlive the test.
        if std::env::var_os("SIPP_MESSAGES").is_some()
            && let Some(folder) = self.folder.take()
        {
            eprintln!("SIPp {}: {}", self.scenario, folder.keep().display());
        }
    }
}

/// The numbers in the last line of a semicolon-separated file, by the names in its first.
fn last_line(text: &str) -> HashMap<String, u64> {
    let (Some(names), Some(values)) = (text.lines().next(), text.lines().last()) else {
        return HashMap::new();
    };
    let values = values.split(';').map(|value| value.trim().parse().ok());
    names
        .split(';')
        .zip(values)
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}
