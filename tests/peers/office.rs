//! An office with a provider, which is a second server. Another trunk of the office is silent.

use crate::server::{DOMAIN, Options, ServerProcess, TRUSTS_NOBODY};
use std::net::UdpSocket;
use test_support::agent::Agent;
use test_support::ports::free_ports;

/// The domain of the provider, which is also its digest realm.
pub const PROVIDER: &str = "provider.test";

/// The address of the provider and of the silent trunk. Users and strangers have another one.
pub const HOST: &str = "127.0.0.2";

/// The password of all users.
pub const PASSWORD: &str = "secret";

/// A subscriber of the provider.
pub const SUBSCRIBER: &str = "4930456789";

/// The account of the office at the provider.
pub const ACCOUNT: &str = "4930111";

/// The user of the office with the number of the account. Bob has none.
pub const ALICE: &str = "alice";

/// The session description of both ends.
pub const SESSION: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\n\
                           t=0 0\r\nm=audio 40000 RTP/AVP 0\r\n";

/// The servers of an office and of its provider.
#[derive(Debug)]
pub struct Office {
    /// The server of the office.
    pub office: ServerProcess,
    /// The server of the provider.
    pub provider: ServerProcess,
    /// The port of the provider at [`HOST`].
    pub port: u16,
    /// The socket of the silent trunk.
    _silent: UdpSocket,
}

fn users(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|&name| (name.to_owned(), PASSWORD.to_owned())).collect()
}

impl Office {
    /// Starts both servers.
    #[must_use]
    pub fn start() -> Self {
        Self::with("", "", "")
    }

    /// Starts both servers, with the further lines `calls` in front, `numbers` in the section of
    /// numbers, and `rules` after it.
    ///
    /// # Panics
    /// A socket cannot be bound.
    #[must_use]
    pub fn with(calls: &str, numbers: &str, rules: &str) -> Self {
        let port = free_ports(1);
        let provider = ServerProcess::start(&Options {
            users: &users(&[SUBSCRIBER, ACCOUNT]),
            domain: PROVIDER,
            configuration: TRUSTS_NOBODY,
            arguments: &["--listen", &format!("udp:{HOST}:{port}")],
        });
        let silent = UdpSocket::bind((HOST, 0)).expect("a socket can be bound");
        let silent_port = silent.local_addr().expect("the socket is bound").port();
        let configuration = format!(
            "{TRUSTS_NOBODY}{calls}\
             [media]\nports = \"33000-33099\"\n\
             [[trunks]]\nname = \"silent\"\nhost = \"{HOST}:{silent_port}\"\n\
             probe_interval = false\nidentity = \"caller\"\n\
             [[trunks]]\nname = \"uplink\"\nhost = \"{HOST}:{port}\"\nprobe_interval = false\n\
             [[trunks.accounts]]\nuser = \"{ACCOUNT}\"\npassword = \"{PASSWORD}\"\n\
             domain = \"{PROVIDER}\"\n\
             [numbers]\ncountry = \"49\"\n\
             classes = [{{ name = \"premium\", prefixes = [\"+49900\"] }}]\n{numbers}\
             [[numbers.rules]]\nname = \"Germany\"\nprefix = \"+49\"\nremove = \"+\"\n\
             trunks = [\"uplink\"]\n\
             [[numbers.rules]]\nname = \"Berlin\"\nprefix = \"+4930\"\nremove = \"+\"\n\
             trunks = [\"silent\", \"uplink\"]\n\
             [[numbers.did]]\nname = \"desk of alice\"\nnumber = \"+{ACCOUNT}\"\n\
             to = \"user:{ALICE}\"\n{rules}"
        );
        let office = ServerProcess::start(&Options {
            users: &users(&[ALICE, "bob"]),
            configuration: &configuration,
            ..Options::default()
        });
        office.wait_for_line("trunk silent: requests go to");
        office.wait_for_line("trunk uplink: requests go to");
        Self { office, provider, port, _silent: silent }
    }

    /// A registered user agent of the office.
    #[must_use]
    pub fn user(&self, name: &str) -> Agent {
        let mut agent = Agent::new(name, PASSWORD, DOMAIN, self.office.address());
        agent.register();
        agent
    }

    /// The registered user agent of the subscriber of the provider.
    ///
    /// # Panics
    /// Never: the address of the provider is one.
    #[must_use]
    pub fn subscriber(&self) -> Agent {
        let place = format!("{HOST}:{}", self.port).parse().expect("an address");
        let mut agent = Agent::new(SUBSCRIBER, PASSWORD, PROVIDER, place);
        agent.register();
        agent
    }
}
