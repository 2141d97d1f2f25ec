//! Who plays, and where they are.

use sip::Transport;
use sip_server::{Connection, Flow};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;

/// The server's own end.
pub(super) const SERVER: &str = "203.0.113.1:5060";
/// The domain that it serves, and so the realm.
pub(super) const DOMAIN: &str = "example.com";
/// A gateway that no rule names, and that never sends anything.
pub(super) const GATEWAY: &str = "192.0.2.7";

/// Where dave takes calls.
const CALLS_OF_DAVE: &str = "10.0.0.8:5060";

/// A user whose phone does as the RFCs say.
pub(super) struct Honest {
    pub(super) user: &'static str,
    pub(super) contact: &'static str,
    transport: Transport,
    remote: &'static str,
    connection: u64,
}

/// Alice and carol are anywhere, one by datagrams and one by a connection through a NAT; dave is in
/// the network of the server, and takes calls at another address of it than he sends from.
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

    /// Whether what goes there arrives at the phone.
    pub(super) fn is_at(&self, remote: SocketAddr) -> bool {
        let takes_calls = self.user == "dave" && remote == address(CALLS_OF_DAVE);
        remote == address(self.remote) || takes_calls
    }
}

/// Where what the attackers send comes from. The last three are forged: what goes there they do not
/// see.
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

/// The flow of bob, who is a user and in league with the stranger, on datagrams.
pub(super) const BOB: usize = 2;

/// Whether the attackers have this host.
pub(super) fn is_attackers(host: IpAddr) -> bool {
    ["192.0.2.99", "198.51.100.20", "198.51.100.21"].iter().any(|known| host.to_string() == *known)
}

/// Whether there is somebody at this host who has sent something to the server himself.
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
    text.parse().expect("an address")
}

/// The users, whose passwords are their names.
pub(super) const USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];
