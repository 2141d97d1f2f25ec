//! A server with some users and their phones.

use crate::phone::{Account, Action, Event, Kind, Phone, Srtp};
use crate::process::wait_until;
use crate::server::{DOMAIN, Options, ServerProcess, TRUSTS_NOBODY};
use crate::transport::Transport;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::Path;
use test_support::agent::Agent;

/// The users, each with the frequency of their phones' tone in Hz.
const USERS: [(&str, u32); 3] = [("alice", 440), ("bob", 1000), ("carol", 620)];
/// The common password.
pub const PASSWORD: &str = "secret";

/// A running server with the users alice, bob and carol.
#[derive(Debug)]
pub struct TestServer {
    /// The server.
    pub server: ServerProcess,
}

impl TestServer {
    /// Starts a server with default settings, which trusts this machine.
    #[must_use]
    pub fn open() -> Self {
        Self::with("", &[])
    }

    /// Starts a server without trusted networks, as on the Internet.
    #[must_use]
    pub fn without_trusted_sources() -> Self {
        Self::with(TRUSTS_NOBODY, &[])
    }

    /// Starts a server without trusted networks, which accepts WebSocket connections of `origin`.
    #[must_use]
    pub fn for_pages(origin: &str) -> Self {
        Self::with(&format!("{TRUSTS_NOBODY}[websocket]\norigins = [\"{origin}\"]\n"), &[])
    }

    /// Starts a server without trusted networks, which trusts the certificate in `file` for
    /// outgoing TLS connections.
    #[must_use]
    pub fn that_trusts_over_tls(file: &Path) -> Self {
        Self::with(&format!("{TRUSTS_NOBODY}[tls]\ntrust = \"{}\"\n", file.display()), &[])
    }

    /// Starts a redirect server (302).
    #[must_use]
    pub fn that_redirects() -> Self {
        Self::with("", &["--mode", "redirect"])
    }

    /// Starts a server without trusted networks that also listens on UDP port 5060 of `address`.
    /// Its [accounts](Self::account) use the loopback interface.
    #[must_use]
    pub fn also_at(address: Ipv4Addr) -> Self {
        Self::with(TRUSTS_NOBODY, &["--listen", &format!("udp:{address}:5060")])
    }

    /// Starts a server without trusted networks that relays all calls at these `ports`, with this
    /// rule for `keys`, and further lines of `[media]`.
    #[must_use]
    pub fn relaying(ports: &Range<u16>, keys: &str, more: &str) -> Self {
        let ports = format!("{}-{}", ports.start, ports.end - 1);
        let media = format!("relay = \"all\"\nports = \"{ports}\"\nkeys = \"{keys}\"\n{more}");
        Self::with(&format!("{TRUSTS_NOBODY}[media]\n{media}"), &[])
    }

    /// Starts a server with this configuration file and these arguments.
    #[must_use]
    pub fn with(configuration: &str, arguments: &[&str]) -> Self {
        let users = USERS.map(|(name, _)| (name.to_owned(), PASSWORD.to_owned()));
        // Short registrations let tests observe refreshes.
        let configuration = format!("[registrar]\nmin_expires = \"5s\"\n{configuration}");
        let options =
            Options { users: &users, configuration: &configuration, arguments, domain: "" };
        Self { server: ServerProcess::start(&options) }
    }

    /// Waits until the server has `count` open UDP ports among `ports`.
    pub fn wait_for_ports(&self, ports: &Range<u16>, count: usize) {
        wait_until(&format!("{count} open ports of the relay"), || {
            let mut open = self.server.process().udp_ports();
            open.retain(|port| ports.contains(port));
            (open.len() == count).then_some(())
        });
    }

    /// The account of `user` for a phone.
    #[must_use]
    pub fn account(&self, user: &str, transport: Transport) -> Account {
        match transport {
            Transport::Tls | Transport::Wss => Account {
                issuers: Some(self.server.certificate()),
                ..account(self.server.secure_address(transport), user, transport)
            },
            _ => account(&self.server, user, transport),
        }
    }

    /// A registered scripted user agent of `user`.
    #[must_use]
    pub fn agent(&self, user: &str) -> Agent {
        let mut agent = self.agent_by(user, self.server.address());
        agent.register();
        agent
    }

    /// A scripted user agent of `user` that sends initial requests to `proxy`, without a
    /// registration.
    #[must_use]
    pub fn agent_by(&self, user: &str, proxy: SocketAddr) -> Agent {
        Agent::new(user, PASSWORD, DOMAIN, proxy)
    }

    /// Starts a phone of `user` and waits for its registration.
    #[must_use]
    pub fn phone(&self, kind: Kind, user: &str, transport: Transport) -> Phone {
        Phone::registered(kind, self.account(user, transport))
    }

    /// `caller` calls `callee`, which answers. Waits until each hears the other's tone.
    pub fn connect(&self, caller: &mut Phone, callee: &mut Phone) {
        connect(caller, callee);
    }
}

/// The account of `user` with the common password at `server`.
#[must_use]
pub fn account(server: impl Into<SocketAddr>, user: &str, transport: Transport) -> Account {
    Account {
        user: user.to_owned(),
        password: PASSWORD.to_owned(),
        server: server.into(),
        proxy: None,
        transport,
        issuers: None,
        listens: true,
        expires: 600,
        tone: tone_of(user),
        has_server: true,
        srtp: Srtp::Off,
        suites: "",
        codecs: "",
        machine: None,
        stun: Vec::new(),
        options: String::new(),
    }
}

/// `caller` calls `callee` through their server. Waits until each hears the other's tone.
pub fn connect(caller: &mut Phone, callee: &mut Phone) {
    let Account { user, .. } = &callee.account;
    let Account { server, transport, .. } = &caller.account;
    let by = match transport {
        Transport::Tls | Transport::Wss => format!(";transport={}", transport.name()),
        Transport::Udp | Transport::Tcp => String::new(),
    };
    caller.dial_until_it_rings(&format!("sip:{user}@{server}{by}"));
    callee.wait_for(Event::Incoming);
    callee.act(&Action::Answer);
    caller.wait_for(Event::Established);
    callee.wait_for(Event::Established);
    caller.wait_until_it_hears(callee.account.tone);
    callee.wait_until_it_hears(caller.account.tone);
}

/// The frequency of the tone of `user` in Hz; 350 for others.
fn tone_of(user: &str) -> u32 {
    USERS.iter().find(|(name, _)| *name == user).map_or(350, |(_, tone)| *tone)
}
