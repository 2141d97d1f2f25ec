//! SIPp: plays a scenario of `tests/sipp` as caller, callee or phone and checks every message that
//! it receives.
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

/// How long one instance may take before it is taken for stuck.
const LIMIT: Duration = Duration::from_secs(100);

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

    /// Phones that register one contact each, with this port, for an hour.
    #[must_use]
    pub fn register(contact_port: u16) -> Self {
        Self::new("register")
            .set("contact_port", contact_port)
            .set("expires", 3600)
            .set("granted", "3600|35[0-9][0-9]")
    }

    /// Users who register two contacts each, with these ports and q values.
    #[must_use]
    pub fn register_two(first: (u16, &str), second: (u16, &str)) -> Self {
        Self::new("register_two")
            .set("contact_port", first.0)
            .set("q", first.1)
            .set("second_port", second.0)
            .set("second_q", second.1)
            .set("expires", 3600)
    }

    /// The port that it has, or will have.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Gives `{name}` in the scenario a value.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.insert(name.into(), value.to_string());
        self
    }

    fn or_set(mut self, name: &str, value: impl ToString) -> Self {
        self.settings.entry(name.into()).or_insert_with(|| value.to_string());
        self
    }

    /// Answers the server's challenges if `yes`; then a request that is not challenged is an error.
    #[must_use]
    pub fn authenticated(self, yes: bool) -> Self {
        self.set("authenticated", if yes { "_authenticated" } else { "" })
    }

    /// Names the instance at the other end of the calls, whose port and transport are checked.
    #[must_use]
    pub fn peer(self, peer: &Self) -> Self {
        self.set("peer_port", peer.port)
            .set("callee_port", peer.port)
            .or_set("ringing_port", peer.port)
            .set("peer_transport", via_name(peer.transport))
            .set("peer_source_port", source_port(peer.transport, peer.port))
    }

    /// Expects the 180 from this instance, not from the peer that answers.
    #[must_use]
    pub fn ringing_at(self, callee: &Self) -> Self {
        self.set("ringing_port", callee.port)
    }

    /// Speaks this transport instead of UDP.
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.transport = transport;
        self
    }

    /// Makes one call for each user in `numbers`; each calls the user with the next
    /// number.
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

    /// Makes one call for each row of injected data.
    #[must_use]
    pub fn rows(mut self, rows: Vec<String>) -> Self {
        self.calls = rows.len();
        self.rows = rows;
        self
    }

    /// Ends after this many calls.
    #[must_use]
    pub fn calls(mut self, calls: usize) -> Self {
        self.calls = calls;
        self
    }

    /// New calls a second.
    #[must_use]
    pub fn rate(mut self, rate: usize) -> Self {
        self.rate = rate;
        self
    }

    /// The first CSeq number of each call. The Call-ID of the n-th call of an instance is always
    /// the same, so that a phone can go on where an earlier instance ended (RFC 3261 section 10.2).
    #[must_use]
    pub fn first_cseq(mut self, number: usize) -> Self {
        self.first_cseq = number;
        self
    }

    /// Starts SIPp and, where it listens, waits until it does.
    ///
    /// # Panics
    /// When it cannot be started or ends at once.
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
    /// Unless every call succeeded.
    pub fn run(self, server: impl Into<SocketAddr>) {
        self.start(server).finish();
    }
}

/// The name as in a Via.
fn via_name(transport: Transport) -> String {
    transport.name().to_uppercase()
}

/// The source port that the server will see, as a regular expression: SIPp's TCP connections come
/// from a port that it does not choose.
fn source_port(transport: Transport, port: u16) -> String {
    match transport {
        Transport::Udp => port.to_string(),
        Transport::Tcp | Transport::Tls | Transport::Wss => "[0-9]+".into(),
    }
}
