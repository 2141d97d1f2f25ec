//! SIPp (Debian package sip-tester): plays a scenario of `tests/sipp` as caller, callee or phone and
//! checks every message that it receives. And the server under test, for these tests.
//!
//! A scenario is SIPp's XML with two additions, both expanded before SIPp sees it:
//! `{name}` is a setting of the instance, and `<include file="x.xml" name="value"/>` is the text of
//! `tests/sipp/parts/x.xml` with further settings.
//!
//! Every row of injected data is `user;credentials;callee;domain`, see [`row`].

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The only domain of the server under test, and so its digest realm.
pub const DOMAIN: &str = "barebell.test";

/// A configuration for authentication by SIPp: it knows MD5 only, and fails when another algorithm
/// is offered before it.
pub const ONLY_MD5: &str = "[authentication]\nalgorithms = [\"MD5\"]\n";

/// Users loaded into the server (seed row A3), numbered from 1.
pub const USERS: usize = 10_000;

/// How long one SIPp instance may take before it is taken for stuck.
const DEADLINE: Duration = Duration::from_secs(100);

/// Name of the user with this number.
pub fn user(number: usize) -> String {
    format!("user{number:05}")
}

/// Password of the user with this number.
pub fn password(number: usize) -> String {
    format!("secret-{number:05}")
}

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
            ("server_port", server.port.to_string()),
            ("transport", self.transport.name().into()),
            ("source_port", source_port),
        ] {
            self.settings.insert(name.into(), value);
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        let scenario = folder.path().join(format!("{}.xml", self.scenario));
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("sipp");
        let text = expand(&sources.join(format!("{}.xml", self.scenario)), &self.settings);
        if let Some(left) = find_setting(&text) {
            panic!("scenario {}: {left} has no value", self.scenario);
        }
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
        let running = Running {
            scenario: self.scenario,
            calls: self.calls,
            folder: Some(folder),
            child,
            status: None,
        };
        if self.rows.is_empty() {
            let port = self.port;
            wait_until("SIPp listens", || match self.transport {
                Transport::Udp => UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_err(),
                Transport::Tcp => TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_err(),
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
    /// came that the scenario does not expect.
    pub fn finish(mut self) {
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

    /// What the scenario's log actions have written so far, by line. The last line is left out
    /// while it is incomplete.
    pub fn log(&self) -> Vec<String> {
        let text = self.read("log");
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().map(str::to_owned).collect()
    }

    /// Whether SIPp has ended.
    pub fn ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("SIPp's status");
        }
        self.status.is_some()
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

/// The text of a scenario or part, with settings and parts filled in.
fn expand(file: &Path, settings: &HashMap<String, String>) -> String {
    const INCLUDE: &str = "<include ";
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let text = fill(&text, settings);
    let mut expanded = String::new();
    let mut rest = text.as_str();
    while let Some((before, include)) = rest.split_once(INCLUDE) {
        let (attributes, after) = include.split_once("/>").expect("an include ends with />");
        let mut inner = settings.clone();
        let mut parts = attributes.split('"');
        while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
            inner.insert(name.trim().trim_end_matches('=').into(), value.replace("&lt;", "<"));
        }
        let name = inner.remove("file").expect("an include names a file");
        let folder = match file.parent() {
            Some(folder) if folder.ends_with("parts") => folder.to_owned(),
            folder => folder.expect("a scenario is in a folder").join("parts"),
        };
        expanded.push_str(before);
        expanded.push_str(&expand(&folder.join(name), &inner));
        rest = after;
    }
    expanded + rest
}

/// Replaces `{name}` by its value wherever there is one.
fn fill(text: &str, settings: &HashMap<String, String>) -> String {
    settings
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// A `{name}` that was left over.
fn find_setting(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(start, _)| {
        let end = start + text[start..].find('}')?;
        let name = &text[start + 1..end];
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_name.then_some(&text[start..=end])
    })
}

/// A binding as `barebell registrations` shows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registration {
    /// The address of record.
    pub address_of_record: String,
    /// The contact URI.
    pub contact: String,
    /// Seconds that it has left.
    pub expires_in: u64,
}

/// The server under test, with a data directory of its own. It is killed when dropped. Only one
/// runs at a time: a test that starts one waits for the tests before it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    port: u16,
    options: Vec<String>,
    folder: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Server {
    /// Starts the server on a free port with these command-line options and this configuration
    /// file, and loads [`USERS`] users.
    pub fn start(options: &[&str], configuration: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a temporary directory");
        fs::write(folder.path().join("barebell.toml"), configuration).expect("a configuration");
        let port = free_port();
        let options: Vec<String> = options.iter().map(|&option| option.into()).collect();
        let child = serve(folder.path(), port, &options);
        let server = Self { child, port, options, folder, _alone: alone };
        let users: String =
            (1..=USERS).map(|number| format!("{}:{}\n", user(number), password(number))).collect();
        let file = server.folder.path().join("users");
        fs::write(&file, users).expect("the users are written");
        server.command(&["user", "import", &file.to_string_lossy(), "--domain", DOMAIN]);
        server
    }

    /// Where it listens, on UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The domain as the user with this number writes it: odd ones its name, even ones the server's
    /// address, which means the same.
    pub fn domain(&self, number: usize) -> String {
        if number % 2 == 1 { DOMAIN.into() } else { self.address().to_string() }
    }

    /// Ends it with SIGKILL, as a crash would.
    pub fn crash(&mut self) {
        stop(&mut self.child);
    }

    /// Starts it again on the same data and port.
    pub fn restart(&mut self) {
        self.crash();
        self.child = serve(self.folder.path(), self.port, &self.options);
    }

    /// The bindings that it has now, in order.
    pub fn registrations(&self) -> Vec<Registration> {
        let text = self.command(&["registrations", "--json"]);
        let mut found: Vec<Registration> = serde_json::Deserializer::from_str(&text)
            .into_iter::<serde_json::Value>()
            .map(|value| value.unwrap_or_else(|error| panic!("not JSON: {error}\n{text}")))
            .flat_map(|value| match value {
                serde_json::Value::Array(values) => values,
                value => vec![value],
            })
            .map(|value| {
                let text = |name: &str| value[name].as_str().map(str::to_owned);
                let registration = || {
                    Some(Registration {
                        address_of_record: text("address_of_record")?,
                        contact: text("contact")?,
                        expires_in: value["expires_in"].as_u64()?,
                    })
                };
                registration().unwrap_or_else(|| panic!("not a registration: {value}"))
            })
            .collect();
        found.sort();
        found
    }

    /// The standard output of a command on this server's data.
    fn command(&self, arguments: &[&str]) -> String {
        let output = Command::new(binary())
            .args(arguments)
            .arg("--data")
            .arg(self.folder.path())
            .output()
            .expect("barebell runs");
        assert!(
            output.status.success(),
            "barebell {arguments:?}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.child);
        if std::thread::panicking() {
            let log = fs::read(self.folder.path().join("server.log")).unwrap_or_default();
            let end = log.len().saturating_sub(4000);
            eprintln!("end of the server's log:\n{}", String::from_utf8_lossy(&log[end..]));
        }
    }
}

/// Starts the server and waits until it answers an OPTIONS.
fn serve(folder: &Path, port: u16, options: &[String]) -> Child {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let log = File::options().create(true).append(true).open(folder.join("server.log"));
    let log = log.expect("a file for the server's log");
    let mut child = Command::new(binary())
        .arg("serve")
        .arg("--config")
        .arg(folder.join("barebell.toml"))
        .arg("--data")
        .arg(folder)
        .args(["--domain", DOMAIN])
        .args(["--listen", &format!("udp:{address}"), "--listen", &format!("tcp:{address}")])
        .args(options)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle"))
        .stderr(log)
        .spawn()
        .expect("barebell starts");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.connect(address).expect("an address");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let own = socket.local_addr().expect("an address");
    let mut asked = 0;
    wait_until("the server answers", || {
        if let Ok(Some(status)) = child.try_wait() {
            let log = fs::read_to_string(folder.join("server.log")).unwrap_or_default();
            panic!("the server ended: {status}\n{log}");
        }
        asked += 1;
        let options = format!(
            "OPTIONS sip:{address} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK{asked};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:test@{own}>;tag=1\r\nTo: <sip:{address}>\r\n\
             Call-ID: ready\r\nCSeq: {asked} OPTIONS\r\nContent-Length: 0\r\n\r\n"
        );
        socket.send(options.as_bytes()).is_ok() && socket.recv(&mut [0; 2048]).is_ok()
    });
    child
}

/// The program under test: `BAREBELL_BIN`, or what cargo has built.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("BAREBELL_BIN") {
        return path.into();
    }
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| workspace.join("target"), |target| workspace.join(target));
    ["release/barebell", "debug/barebell"]
        .iter()
        .map(|path| target.join(path))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no {target:?}/release/barebell: cargo build --release"))
}

/// A port of 127.0.0.1 that is free for UDP and TCP.
fn free_port() -> u16 {
    loop {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let port = udp.local_addr().expect("an address").port();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Waits for something that is sure to come soon; panics when it does not come at all.
fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Kills a child, if it still runs, and collects it.
fn stop(child: &mut Child) {
    // Both fail only if it has ended and been collected before.
    let _ = child.kill();
    let _ = child.wait();
}
