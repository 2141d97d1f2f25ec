//! The parties and their addresses.

use sip::Transport;
use sip_server::{Connection, Flow};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;

/// The server's address.
pub(super) const SERVER: &str = "203.0.113.1:5060";
/// The server's domain, which is also the realm.
pub(super) const DOMAIN: &str = "example.com";
/// A gateway without a rule, which never sends anything.
pub(super) const GATEWAY: &str = "192.0.2.7";

/// The address at which dave receives calls.
const CALLS_OF_DAVE: &str = "10.0.0.8:5060";

/// A user with a phone that conforms to the RFCs.
pub(super) struct Honest {
    pub(super) user: &'static str,
    pub(super) contact: &'static str,
    transport: Transport,
    remote: &'static str,
    connection: u64,
}

/// Alice and carol are on the Internet, alice by datagrams and carol by a connection through a NAT.
/// Dave is in the server's network, and receives calls at an address other than that from which he
/// sends.
pub(super) const HONEST: [Honest; 3] = [
    Honest {
        user: "alice",
        contact: "sip:alice@198.51.100.10:5060",
        transport: Transport::Udp,
        remote: "198.51.100.10:5060",
        connection: 0,
    },
    Honest {
        user: "carol",
        contact: "sip:carol@192.168.1.30:5060;transport=tcp",
        transport: Transport::Tcp,
        remote: "198.51.100.30:40000",
        connection: 3,
    },
    Honest {
        user: "dave",
        contact: "sip:dave@10.0.0.8:5060",
        transport: Transport::Udp,
        remote: "10.0.0.7:5060",
        connection: 0,
    },
];

impl Honest {
    pub(super) fn flow(&self) -> Flow {
        flow(self.transport, self.remote, self.connection)
    }

    /// Returns true if messages to `remote` reach the phone.
    pub(super) fn is_at(&self, remote: SocketAddr) -> bool {
        let takes_calls = self.user == "dave" && remote == address(CALLS_OF_DAVE);
        remote == address(self.remote) || takes_calls
    }
}

/// The flows of the attackers' messages. The last three are forged: the attackers receive nothing
/// sent there.
pub(super) fn sources() -> [Flow; 8] {
    [
        flow(Transport::Udp, "192.0.2.99:5060", 0),
        flow(Transport::Tcp, "192.0.2.99:50000", 9),
        flow(Transport::Udp, "198.51.100.20:5060", 0),
        flow(Transport::Tcp, "198.51.100.20:50001", 8),
        flow(Transport::Udp, "192.0.2.99:7000", 0),
        flow(Transport::Udp, "192.0.2.7:5060", 0),
        flow(Transport::Udp, "198.51.100.10:5060", 0),
        flow(Transport::Udp, SERVER, 0),
    ]
}

/// The index of the datagram flow of bob, a malicious user.
pub(super) const BOB: usize = 2;

/// Returns true if the attackers control this host.
pub(super) fn is_attackers(host: IpAddr) -> bool {
    ["192.0.2.99", "198.51.100.20", "198.51.100.21"].iter().any(|known| host.to_string() == *known)
}

/// Returns true if a party at this host has sent messages to the server.
pub(super) fn answers(host: IpAddr) -> bool {
    is_attackers(host)
        || HONEST.iter().any(|phone| phone.flow().remote.ip() == host)
        || host == address(CALLS_OF_DAVE).ip()
}

pub(super) fn flow(transport: Transport, remote: &str, connection: u64) -> Flow {
    Flow {
        transport,
        local: address(SERVER),
        remote: address(remote),
        connection: NonZeroU64::new(connection).map(Connection),
    }
}

pub(super) fn address(text: &str) -> SocketAddr {
    text.parse().expect("a valid address")
}

/// The users. Each password equals the user name.
pub(super) const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];
