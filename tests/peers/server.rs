//! The server under test: `barebell serve` with a data folder of its own.

use crate::folder::Folder;
use crate::process::{Process, Program, built, run, wait_until};
use crate::transport::Transport;
use serde_json::Value;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use test_support::agent::ping;
use test_support::ports::{address_towards, free_ports};

/// The served domain, which is also the digest realm.
pub const DOMAIN: &str = "barebell.test";

/// The configuration without trusted networks, not even this machine. A request that waits for a
/// busy processor is served: agents send each request once.
pub const TRUSTS_NOBODY: &str = "[limits]\nmax_wait = \"10s\"\ntrusted = []\n";

/// The log file in its folder.
const LOG: &str = "barebell.log";

/// The server is built, not installed.
const BAREBELL: Program = Program { name: "barebell", packages: "(none: build it)" };

/// The options of a server, besides data, domain and addresses.
#[derive(Clone, Debug, Default)]
pub struct Options<'a> {
    /// Arguments of `barebell serve`.
    pub arguments: &'a [&'a str],
    /// The text of the configuration file; empty for no file.
    pub configuration: &'a str,
    /// The users: names and passwords.
    pub users: &'a [(String, String)],
    /// The domain; empty for [`DOMAIN`].
    pub domain: &'a str,
}

/// A binding as printed by `barebell registrations --json`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Registration {
    /// The address-of-record, such as `alice@barebell.test`.
    pub address_of_record: String,
    /// The URI of the contact.
    pub contact: String,
    /// The flow of the binding, over which requests to it are sent, such as `udp:127.0.0.1:5070`.
    pub flow: String,
    /// The remaining time in seconds.
    pub expires_in: u64,
}

/// A running server: UDP and TCP on one loopback port, TLS on the next one, and WebSocket on the
/// one after that. It is killed on drop.
#[derive(Debug)]
pub struct ServerProcess {
    process: Process,
    binary: PathBuf,
    port: u16,
    arguments: Vec<String>,
    folder: Folder,
}

impl ServerProcess {
    /// Starts a server and waits until it answers.
    ///
    /// # Panics
    /// The server cannot be started or does not answer.
    #[must_use]
    pub fn start(options: &Options<'_>) -> Self {
        let binary = built("barebell", "BAREBELL_BIN");
        let (folder, port) = (Folder::new("server"), free_ports(3));
        let domain = if options.domain.is_empty() { DOMAIN } else { options.domain };
        let mut arguments = vec!["serve".to_owned(), "--domain".to_owned(), domain.to_owned()];
        for (transport, port) in
            [("udp", port), ("tcp", port), ("tls", port + 1), ("wss", port + 2)]
        {
            arguments.extend(["--listen".into(), format!("{transport}:127.0.0.1:{port}")]);
        }
        if !options.configuration.is_empty() {
            folder.write("barebell.toml", options.configuration);
            let file = folder.join("barebell.toml").display().to_string();
            arguments.extend(["--config".into(), file]);
        }
        arguments.extend(options.arguments.iter().map(|&argument| argument.to_owned()));
        import(&binary, &folder, domain, options.users);
        let process = serve(&binary, &folder, &arguments);
        let mut server = Self { process, binary, port, arguments, folder };
        server.wait_until_it_answers();
        server
    }

    /// The address of UDP and TCP.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The address of `transport`, which uses TLS.
    #[must_use]
    pub fn secure_address(&self, transport: Transport) -> SocketAddr {
        let behind = if transport == Transport::Wss { 2 } else { 1 };
        (Ipv4Addr::LOCALHOST, self.port + behind).into()
    }

    /// The URL of its WebSocket, at the port after that of TLS.
    #[must_use]
    pub fn web_url(&self) -> String {
        format!("wss://127.0.0.1:{}", self.port + 2)
    }

    /// The data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Its self-signed certificate, used by default.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.data().join("tls-chain.pem")
    }

    /// The URI of `user` at the server.
    #[must_use]
    pub fn uri(&self, user: &str) -> String {
        format!("sip:{user}@{}", self.address())
    }

    /// The registrations, sorted.
    ///
    /// # Panics
    /// The command fails, or its output is malformed.
    #[must_use]
    pub fn registrations(&self) -> Vec<Registration> {
        let rows = self.rows(&["registrations", "--json"]);
        let mut found: Vec<_> = rows
            .iter()
            .map(registration)
            .collect::<Option<_>>()
            .unwrap_or_else(|| panic!("malformed output of registrations --json:\n{rows:?}"));
        found.sort();
        found
    }

    /// The registrations of `user`.
    #[must_use]
    pub fn registrations_of(&self, user: &str) -> Vec<Registration> {
        let address_of_record = format!("{user}@{DOMAIN}");
        let mut found = self.registrations();
        found.retain(|registration| registration.address_of_record == address_of_record);
        found
    }

    /// Waits until `user` has exactly `count` bindings, and returns them.
    ///
    /// # Panics
    /// The number is not reached.
    #[must_use]
    pub fn wait_for_registrations(&self, user: &str, count: usize) -> Vec<Registration> {
        wait_until(&format!("{count} registrations of {user}"), || {
            Some(self.registrations_of(user)).filter(|found| found.len() == count)
        })
    }

    /// The counter or other number `name` of `barebell status --json`.
    ///
    /// # Panics
    /// The command fails, or there is no such counter.
    #[must_use]
    pub fn counter(&self, name: &str) -> u64 {
        let printed = run(BAREBELL, command(&self.binary, &self.folder, &["status", "--json"]));
        let status: Value = serde_json::from_str(&printed)
            .unwrap_or_else(|error| panic!("{error} in the output of status --json:\n{printed}"));
        let count = status["counters"][name].as_u64().or_else(|| status[name].as_u64());
        count.unwrap_or_else(|| panic!("no number {name} in the output of status:\n{printed}"))
    }

    /// Waits until the counter `name` is at least `count`.
    ///
    /// # Panics
    /// The number is not reached.
    pub fn wait_for_count(&self, name: &str, count: u64) {
        wait_until(&format!("{name} is {count}"), || (self.counter(name) >= count).then_some(()));
    }

    /// The rows that a command of the server such as `calls --json` prints.
    ///
    /// # Panics
    /// The command fails, or its output is malformed.
    #[must_use]
    pub fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        let printed = run(BAREBELL, command(&self.binary, &self.folder, arguments));
        let rows = serde_json::Deserializer::from_str(&printed).into_iter::<Value>();
        let rows = rows.collect::<Result<Vec<_>, _>>();
        rows.unwrap_or_else(|error| panic!("{error} in the output of {arguments:?}:\n{printed}"))
    }

    /// The program.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The log so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join(LOG)).unwrap_or_default()
    }

    /// Waits for a log line with `text`, and returns the first one.
    ///
    /// # Panics
    /// No such line appears.
    pub fn wait_for_line(&self, text: &str) -> String {
        wait_until(&format!("the server says {text:?}"), || {
            self.log().lines().find(|line| line.contains(text)).map(str::to_owned)
        })
    }

    /// Writes `configuration` and reloads it (SIGHUP). The server was started with a configuration.
    ///
    /// # Panics
    /// The signal cannot be sent.
    pub fn reconfigure(&self, configuration: &str) {
        self.folder.write("barebell.toml", configuration);
        let mut kill = Command::new("kill");
        kill.args(["-HUP", &self.process.id().to_string()]);
        let _ = run(Program { name: "kill", packages: "procps" }, kill);
    }

    /// Kills the server as in a crash (SIGKILL).
    pub fn crash(&mut self) {
        self.process.kill();
    }

    /// Stops the server gracefully (SIGINT), and waits for its end.
    ///
    /// # Panics
    /// The server does not end.
    pub fn stop(&mut self) {
        self.process.interrupt();
    }

    /// Restarts the ended server with the same data, port and configuration.
    ///
    /// # Panics
    /// The server does not answer.
    pub fn restart(&mut self) {
        self.process = serve(&self.binary, &self.folder, &self.arguments);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&mut self) {
        wait_until_answered(self.address(), &mut self.process);
    }
}

impl From<&ServerProcess> for SocketAddr {
    fn from(server: &ServerProcess) -> Self {
        server.address()
    }
}

/// Waits until the server `process` at `address` answers OPTIONS over UDP.
///
/// # Panics
/// The server does not answer, or the process ends.
pub(crate) fn wait_until_answered(address: SocketAddr, process: &mut Process) {
    let socket = UdpSocket::bind((address_towards(address), 0)).expect("a UDP socket can be bound");
    let wait = socket.set_read_timeout(Some(Duration::from_millis(250)));
    wait.and_then(|()| socket.connect(address)).expect("the UDP socket can be connected");
    let from = socket.local_addr().expect("the socket is bound");
    let mut attempt = 0;
    wait_until("an answer of the server to OPTIONS", || {
        process.assert_running();
        attempt += 1;
        // An error reports that a previous request met a closed port.
        let _ = socket.send(&ping(from, address, attempt));
        let mut answer = [0; 2048];
        socket.recv(&mut answer).ok().filter(|&size| answer[..size].starts_with(b"SIP/2.0"))
    });
}

fn command(binary: &Path, folder: &Folder, arguments: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(binary);
    command.args(arguments).arg("--data").arg(folder.join("data"));
    command
}

fn serve(binary: &Path, folder: &Folder, arguments: &[String]) -> Process {
    let command = command(binary, folder, arguments);
    Process::start(BAREBELL, command, &folder.join(LOG))
}

fn import(binary: &Path, folder: &Folder, domain: &str, users: &[(String, String)]) {
    let lines: String =
        users.iter().map(|(name, password)| format!("{name}:{password}\n")).collect();
    folder.write("users", &lines);
    let mut command = command(binary, folder, &["user", "import", "--domain", domain]);
    command.arg(folder.join("users"));
    let _ = run(BAREBELL, command);
}

fn registration(entry: &Value) -> Option<Registration> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    Some(Registration {
        address_of_record: text("address_of_record")?,
        contact: text("contact")?,
        flow: text("flow")?,
        expires_in: entry.get("expires_in")?.as_u64()?,
    })
}
