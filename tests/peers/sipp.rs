//! SIPp, which plays a scenario of `tests/sipp` as caller, callee or registering phone, and checks
//! every received message.
//!
//! A scenario is SIPp's XML with two additions, both expanded before SIPp sees it:
//! `{name}` is a setting of the instance, and `<include file="x.xml" name="value"/>` is the text of
//! `tests/sipp/parts/x.xml` with further settings.
//!
//! Every row of injected data is `user;credentials;callee;domain`, see [`users::row`].

pub mod operations;
mod running;
mod scenario;
pub mod users;

use crate::folder::{Folder, is_kept};
use crate::process::{Process, Program, wait_until};
use crate::transport::Transport;
pub use running::Running;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use test_support::ports::{address_towards, free_ports};
use users::{T1, USERS, domain, password, row, user};

const SIPP: Program = Program { name: "sipp", packages: "sip-tester" };

/// The time limit of one instance.
const LIMIT: Duration = Duration::from_secs(100);

/// A SIPp instance to be started.
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
    /// Creates an instance that plays `tests/sipp/{scenario}.xml` on a free port.
    #[must_use]
    pub fn new(scenario: &'static str) -> Self {
        let sipp = Self {
            scenario,
            port: free_ports(1),
            transport: Transport::Udp,
            settings: HashMap::new(),
            rows: Vec::new(),
            calls: 0,
            rate: 500,
            first_cseq: 1,
        };
        let sipp = sipp.set("authenticated", "").set("contact_parameters", "");
        sipp.set("stateful", true).set("t1", T1)
    }

    /// Phones that register one contact with this port for an hour.
    #[must_use]
    pub fn register(contact_port: u16) -> Self {
        Self::new("register")
            .set("contact_port", contact_port)
            .set("expires", 3600)
            .set("granted", "3600|35[0-9][0-9]")
    }

    /// Users that register two contacts with these ports and q-values.
    #[must_use]
    pub fn register_two(first: (u16, &str), second: (u16, &str)) -> Self {
        Self::new("register_two")
            .set("contact_port", first.0)
            .set("q", first.1)
            .set("second_port", second.0)
            .set("second_q", second.1)
            .set("expires", 3600)
    }

    /// The port of the instance.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the value of `{name}` in the scenario.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.insert(name.into(), value.to_string());
        self
    }

    fn or_set(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.entry(name.into()).or_insert_with(|| value.to_string());
        self
    }

    /// If `yes`, answers the server's challenges, and fails if a request is not challenged.
    #[must_use]
    pub fn authenticated(self, yes: bool) -> Self {
        self.set("authenticated", if yes { "_authenticated" } else { "" })
    }

    /// Sets the instance at the other end of the calls, to check its port and transport.
    #[must_use]
    pub fn peer(self, peer: &Self) -> Self {
        self.set("peer_port", peer.port)
            .set("callee_port", peer.port)
            .or_set("ringing_port", peer.port)
            .set("peer_transport", via_name(peer.transport))
            .set("peer_source_port", source_port(peer.transport, peer.port))
    }

    /// Expects the 180 from this instance instead of the answering peer.
    #[must_use]
    pub fn ringing_at(self, callee: &Self) -> Self {
        self.set("ringing_port", callee.port)
    }

    /// Sets the transport instead of UDP.
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Makes one call per user in `numbers`; each calls the user with the next number.
    #[must_use]
    pub fn users(
        mut self,
        server: impl Into<SocketAddr>,
        numbers: impl IntoIterator<Item = usize>,
    ) -> Self {
        let server = server.into();
        self.rows = numbers
            .into_iter()
            .map(|number| {
                let callee = user(number % USERS + 1);
                let user = user(number);
                row(&user, &user, &password(number), &callee, &domain(server, number))
            })
            .collect();
        self.calls = self.rows.len();
        self
    }

    /// Makes one call per row of injected data.
    #[must_use]
    pub fn rows(mut self, rows: Vec<String>) -> Self {
        self.calls = rows.len();
        self.rows = rows;
        self
    }

    /// Sets the number of calls.
    #[must_use]
    pub fn calls(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    /// Sets the rate of new calls per second.
    #[must_use]
    pub fn rate(mut self, rate: usize) -> Self {
        self.rate = rate;
        self
    }

    /// Sets the first CSeq number of each call. The Call-ID of the n-th call of an instance is
    /// constant, so that a phone can continue a previous instance (RFC 3261 section 10.2).
    #[must_use]
    pub fn first_cseq(mut self, number: usize) -> Self {
        self.first_cseq = number;
        self
    }

    /// Starts SIPp, and waits until it listens, if it does.
    ///
    /// # Panics
    /// SIPp cannot be started or ends at once.
    #[must_use]
    pub fn start(mut self, server: impl Into<SocketAddr>) -> Running {
        let server = server.into();
        let ours = address_towards(server);
        let pattern = |address: IpAddr| address.to_string().replace('.', r"\.");
        let source_port = source_port(self.transport, self.port);
        for (name, value) in [
            ("own_port", self.port.to_string()),
            ("own_address", ours.to_string()),
            ("own_address_pattern", pattern(ours.into())),
            ("server_address_pattern", pattern(server.ip())),
            ("server_port", server.port().to_string()),
            ("transport", via_name(self.transport)),
            ("source_port", source_port),
        ] {
            self.settings.insert(name.into(), value);
        }
        let folder = Folder::new(&format!("sipp-{}", self.scenario));
        let scenario = format!("{}.xml", self.scenario);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("sipp");
        folder.write(&scenario, &scenario::expand(&sources, self.scenario, &self.settings));

        let mut command = SIPP.command();
        command.current_dir(folder.path()).arg(server.to_string());
        command.args(["-sf", &scenario, "-i", &ours.to_string(), "-bind_local", "-nostdin"]);
        command.args(["-t", if self.transport == Transport::Udp { "u1" } else { "t1" }]);
        command.args(["-trace_err", "-error_file", "errors", "-trace_stat", "-stf", "statistics"]);
        command.args(["-trace_counts", "-trace_logs", "-log_file", "seen", "-fd", "1"]);
        command.args(["-timeout_error", "-cid_str", "%u@phone"]);
        command.args(["-default_behaviors", "all,-bye"]);
        if is_kept() {
            command.args(["-trace_msg", "-message_file", "messages"]);
        }
        for (option, value) in [
            ("-p", usize::from(self.port)),
            ("-cp", usize::from(free_ports(1))),
            ("-m", self.calls),
            ("-l", self.calls),
            ("-r", self.rate),
            ("-base_cseq", self.first_cseq),
            ("-timeout", usize::try_from(LIMIT.as_secs()).unwrap_or(usize::MAX)),
        ] {
            command.args([option, &value.to_string()]);
        }
        if !self.rows.is_empty() {
            folder.write("rows.csv", &format!("SEQUENTIAL\n{}\n", self.rows.join("\n")));
            command.args(["-inf", "rows.csv"]);
        }
        let process = Process::start(SIPP, command, &folder.join("screen"));
        let mut running = Running::new(self.scenario, self.calls, folder, process);
        if self.rows.is_empty() {
            wait_until("SIPp to listen", || {
                running.assert_started();
                self.transport.is_listening(ours, self.port).then_some(())
            });
        }
        running
    }

    /// Starts SIPp and waits for its end.
    ///
    /// # Panics
    /// A call failed.
    pub fn run(self, server: impl Into<SocketAddr>) {
        self.start(server).finish();
    }
}

fn via_name(transport: Transport) -> String {
    transport.name().to_uppercase()
}

/// The source port seen by the server, as a regular expression. SIPp's TCP connections use
/// ephemeral ports.
fn source_port(transport: Transport, port: u16) -> String {
    match transport {
        Transport::Udp => port.to_string(),
        Transport::Tcp | Transport::Tls | Transport::Wss => "[0-9]+".into(),
    }
}
