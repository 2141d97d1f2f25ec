//! A server with a few users and their phones.

use crate::phone::{Account, Action, Event, Kind, Phone, Srtp};
use crate::server::{Barebell, DOMAIN, Options, TRUSTS_NOBODY};
use crate::transport::Transport;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use test_support::agent::Agent;

/// The users of every exchange, each with the tone that their phones send, in Hz.
const USERS: [(&str, u32); 3] = [("alice", 440), ("bob", 1000), ("carol", 620)];
/// The password of all of them.
pub const PASSWORD: &str = "secret";

/// A running server with the users alice, bob and carol.
#[derive(Debug)]
pub struct Exchange {
    /// The server.
    pub server: Barebell,
}

impl Exchange {
    /// Starts the server.
    #[must_use]
    pub fn open() -> Self {
        Self::with("", &[])
    }

    /// Starts a server that takes nobody's word, as on the internet: else it believes what comes
    /// from this machine.
    #[must_use]
    pub fn that_trusts_nobody() -> Self {
        Self::with(TRUSTS_NOBODY, &[])
    }

    /// Starts a server that takes nobody's word, and lets pages of `origin` in.
    #[must_use]
    pub fn for_pages(origin: &str) -> Self {
        Self::with(&format!("{TRUSTS_NOBODY}[websocket]\norigins = [\"{origin}\"]\n"), &[])
    }

    /// Starts a server that takes nobody's word, and calls others over TLS who show the certificate
    /// in `file`.
    #[must_use]
    pub fn that_trusts_over_tls(file: &Path) -> Self {
        Self::with(&format!("{TRUSTS_NOBODY}[tls]\ntrust = \"{}\"\n", file.display()), &[])
    }

    /// Starts a server that sends callers to the phones (302).
    #[must_use]
    pub fn that_redirects() -> Self {
        Self::with("", &["--mode", "redirect"])
    }

    /// Starts a server that can also be reached at `address`, port 5060, by UDP, and takes nobody's
    /// word. Its [accounts](Self::account) are reached by the loopback interface all the same.
    #[must_use]
    pub fn also_at(address: Ipv4Addr) -> Self {
        Self::with(TRUSTS_NOBODY, &["--listen", &format!("udp:{address}:5060")])
    }

    fn with(configuration: &str, arguments: &[&str]) -> Self {
        let users = USERS.map(|(name, _)| (name.to_owned(), PASSWORD.to_owned()));
        // Registrations this short let a test see them refreshed.
        let configuration = format!("[registrar]\nmin_expires = \"5s\"\n{configuration}");
        let options = Options { users: &users, configuration: &configuration, arguments };
        Self { server: Barebell::start(&options) }
    }

    /// What a phone of `user` needs to know.
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

    /// A small user agent of `user`, registered.
    #[must_use]
    pub fn agent(&self, user: &str) -> Agent {
        let mut agent = self.agent_by(user, self.server.address());
        agent.register();
        agent
    }

    /// A small user agent of `user` that sends what it begins to `proxy`, and does not register.
    #[must_use]
    pub fn agent_by(&self, user: &str, proxy: SocketAddr) -> Agent {
        Agent::new(user, PASSWORD, DOMAIN, proxy)
    }

    /// Starts a phone of `user` and waits until it is registered.
    #[must_use]
    pub fn phone(&self, kind: Kind, user: &str, transport: Transport) -> Phone {
        Phone::registered(kind, self.account(user, transport))
    }

    /// `caller` calls `callee`, who answers, and each hears the other's tone.
    pub fn connect(&self, caller: &mut Phone, callee: &mut Phone) {
        connect(caller, callee);
    }
}

/// What a phone of `user` needs to know who has the usual password at `server`.
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

/// `caller` calls `callee` by their server, who answers, and each hears the other's tone.
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

/// The tone that phones of `user` send, in Hz; 350 for one who is no user.
fn tone_of(user: &str) -> u32 {
    USERS.iter().find(|(name, _)| *name == user).map_or(350, |(_, tone)| *tone)
}
