//! The client of one TURN server, and the transport to it.

use crate::random::Random;
use crate::{Output, TurnServer};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use stun::turn::{Client, Event, Received, Transport};

/// The client of one TURN server, which allocates one relayed address.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    transport: Transport,
    index: usize,
    /// The local socket that reaches the server over UDP.
    local: Option<SocketAddr>,
    epoch: Instant,
    client: Client,
}

impl Relay {
    /// The client of the server with this index. Over UDP it asks from `local`.
    pub(crate) fn new(
        server: &TurnServer,
        index: usize,
        local: Option<SocketAddr>,
        random: Random,
        now: Instant,
    ) -> Self {
        let TurnServer { address, transport, credentials } = server.clone();
        let client = Client::new(credentials, transport, address.is_ipv6(), random);
        let mut relay = Self { address, transport, index, local, epoch: now, client };
        match (transport, local) {
            (Transport::Udp, Some(_)) => relay.client.begin(Duration::ZERO),
            (Transport::Udp, None) => {
                relay.client.disconnected("no socket has its address family".to_owned());
            }
            (Transport::Stream, _) => {}
        }
        relay
    }

    fn time(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.epoch)
    }

    /// Returns true if the server is reached by the socket of the medium.
    pub(crate) fn is_on_socket(&self) -> bool {
        self.transport == Transport::Udp
    }

    /// The relayed address.
    pub(crate) const fn relayed(&self) -> Option<SocketAddr> {
        self.client.relayed()
    }

    /// Returns true if there is no relayed address yet, but may be one later.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.client.is_waiting()
    }

    /// The time at which [`Relay::poll`] is due.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.client.next_timer().map(|timer| self.epoch + timer)
    }

    /// The connection to the server is established.
    pub(crate) fn connected(&mut self, now: Instant) {
        self.client.begin(self.time(now));
    }

    /// The connection to the server was not established, or has ended.
    pub(crate) fn disconnected(&mut self, cause: String) {
        self.client.disconnected(cause);
    }

    /// Lets a peer send through the relay, from any port.
    pub(crate) fn permit(&mut self, now: Instant, peer: IpAddr) {
        self.client.permit(self.time(now), peer);
    }

    /// Uses the short header of a channel to and from `peer`.
    pub(crate) fn bind(&mut self, now: Instant, peer: SocketAddr) {
        self.client.bind(self.time(now), peer);
    }

    /// Sends a datagram to a peer. Without a permission of the server it is lost.
    pub(crate) fn send(&self, peer: SocketAddr, bytes: &[u8]) -> Option<Output> {
        let mut message = Vec::with_capacity(bytes.len() + 4);
        self.client.send(peer, bytes, &mut message).ok()?;
        self.output(message)
    }

    /// Octets for the server; `None` if no socket reaches it.
    fn output(&self, bytes: Vec<u8>) -> Option<Output> {
        match self.transport {
            Transport::Udp => {
                let local = self.local?;
                Some(Output::Datagram { local, remote: self.address, bytes })
            }
            Transport::Stream => Some(Output::Stream { server: self.index, bytes }),
        }
    }

    /// Handles a datagram of the server.
    pub(crate) fn receive<'a>(&mut self, now: Instant, bytes: &'a [u8]) -> Received<'a> {
        self.client.receive(self.time(now), bytes)
    }

    /// Handles the next octets of the connection. Returns the datagrams of peers.
    pub(crate) fn receive_stream(
        &mut self,
        now: Instant,
        bytes: &[u8],
    ) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut found = Vec::new();
        let each = |peer, data: &[u8]| found.push((peer, data.to_vec()));
        self.client.receive_stream(self.time(now), bytes, each);
        found
    }

    /// The next change. Due requests go to `out`.
    pub(crate) fn poll(&mut self, now: Instant, out: &mut impl Extend<Output>) -> Option<Change> {
        while let Some(event) = self.client.poll(self.time(now)) {
            match event {
                Event::Send(bytes) => out.extend(self.output(bytes)),
                Event::Allocated(address) => return Some(Change::Allocated(address)),
                Event::Failed(error, address) => return Some(Change::Failed(error, address)),
                _ => {}
            }
        }
        None
    }

    /// Gives the relayed address back.
    pub(crate) fn close(&mut self, now: Instant, out: &mut impl Extend<Output>) {
        self.client.close();
        self.poll(now, out);
    }
}

/// A change of a relay.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The server relays at this address.
    Allocated(SocketAddr),
    /// The server does not relay, or no longer at the address that it had.
    Failed(stun::turn::Error, Option<SocketAddr>),
}
