//! The client of one TURN server.

use crate::{Output, RelayError, TurnServer, TurnTransport};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use stun::{Message, TransactionId};
use turn_client_proto::api::{TransmitBuild, TurnConfig, TurnEvent, TurnPollRet, TurnRecvRet};
use turn_client_proto::prelude::*;
use turn_client_proto::stun::Instant as Time;
use turn_client_proto::stun::agent::Transmit;
use turn_client_proto::tcp::TurnClientTcp;
use turn_client_proto::types::{AddressFamily, TransportType, TurnCredentials};
use turn_client_proto::udp::TurnClientUdp;

turn_client_proto::impl_client!(Client, (Udp, TurnClientUdp), (Tcp, TurnClientTcp));

/// The shortest time between two calls of [`Relay::drive`] by its timer.
const PACE: Duration = Duration::from_millis(10);

/// The maximum number of characters of a reason phrase.
const REASON: usize = 64;

/// The client of one TURN server, which allocates one relayed address.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) server: TurnServer,
    index: usize,
    epoch: Instant,
    /// The protocol, once there is a local address.
    client: Option<Client>,
    relayed: Option<SocketAddr>,
    error: Option<RelayError>,
    /// The addresses that may send through the relay.
    peers: BTreeSet<IpAddr>,
    /// The transaction that the server has answered by its realm and nonce.
    challenged: Option<TransactionId>,
    /// The error response to an allocation, if the server refuses it.
    refusal: Option<RelayError>,
    next: Option<Instant>,
}

/// A change of a relay.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The server relays at this address.
    Allocated(SocketAddr),
    /// The server does not relay, or no longer at the address that it had.
    Failed(RelayError, Option<SocketAddr>),
}

/// The effect of received octets.
pub(crate) enum Received {
    /// They are not of the server.
    Ignored,
    /// They were a message of the server itself.
    Handled,
    /// A peer has sent this datagram.
    Data(SocketAddr, Vec<u8>),
}

impl Relay {
    /// The client of the server with this index. Over UDP it asks from `local`.
    pub(crate) fn new(
        server: TurnServer,
        index: usize,
        local: Option<SocketAddr>,
        now: Instant,
    ) -> Self {
        let mut relay = Self {
            server,
            index,
            epoch: now,
            client: None,
            relayed: None,
            error: None,
            peers: BTreeSet::new(),
            challenged: None,
            refusal: None,
            next: None,
        };
        if let Some(local) = local.filter(|_| relay.server.transport == TurnTransport::Udp) {
            let client = TurnClientUdp::allocate(local, relay.server.address, relay.config());
            relay.client = Some(Client::Udp(client));
            relay.next = Some(now);
        }
        relay
    }

    /// The connection to the server is established, from this local address.
    pub(crate) fn connected(&mut self, now: Instant, local: SocketAddr) {
        let client = TurnClientTcp::allocate(local, self.server.address, self.config());
        self.client = Some(Client::Tcp(client));
        self.next = Some(now);
    }

    /// An allocation for peers of the server's address family, in datagrams.
    fn config(&self) -> TurnConfig {
        let credentials = TurnCredentials::new(&self.server.user, &self.server.password);
        let mut config = TurnConfig::new(credentials);
        if self.server.address.is_ipv6() {
            config.set_address_family(AddressFamily::IPV6);
        }
        config
    }

    fn time(&self, now: Instant) -> Time {
        let nanos = now.saturating_duration_since(self.epoch).as_nanos();
        Time::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX))
    }

    /// Returns true if the server is reached by the socket of the medium.
    pub(crate) fn is_on_socket(&self) -> bool {
        self.server.transport == TurnTransport::Udp
    }

    /// The relayed address.
    pub(crate) const fn relayed(&self) -> Option<SocketAddr> {
        self.relayed
    }

    /// Returns true if there is no relayed address yet, but may be one later.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.relayed.is_none() && self.error.is_none()
    }

    /// The time at which [`Relay::drive`] is due.
    pub(crate) const fn next_timer(&self) -> Option<Instant> {
        self.next
    }

    /// Lets a peer send through the relay, from any port.
    pub(crate) fn permit(&mut self, now: Instant, peer: IpAddr) {
        let is_family = self.server.address.is_ipv4() == peer.is_ipv4();
        if is_family && self.peers.insert(peer) && self.relayed.is_some() {
            self.ask_for(now, peer);
        }
    }

    fn ask_for(&mut self, now: Instant, peer: IpAddr) {
        let time = self.time(now);
        if let Some(client) = &mut self.client {
            // The permission may be there already.
            let _ = client.create_permission(TransportType::Udp, peer, time);
            self.next = Some(now);
        }
    }

    /// Uses the short header of a channel to and from `peer`.
    pub(crate) fn bind(&mut self, now: Instant, peer: SocketAddr) {
        let time = self.time(now);
        // `turn-client-proto` does not pad the data of channels on a stream to four octets (RFC
        // 8656 section 12.5). There the data stay in indications.
        if let Some(client @ Client::Udp(_)) = &mut self.client {
            // The channel may be there already.
            let _ = client.bind_channel(TransportType::Udp, peer, time);
            self.next = Some(now);
        }
    }

    /// Sends a datagram to a peer. Without a permission of the server it is lost.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        peer: SocketAddr,
        bytes: &[u8],
        out: &mut impl Extend<Output>,
    ) {
        let time = self.time(now);
        let Some(client) = &mut self.client else { return };
        let sent = client.send_to(TransportType::Udp, peer, bytes, time);
        if let Some(transmit) = sent.ok().flatten().map(TransmitBuild::build) {
            out.extend([self.output(transmit.from, transmit.data)]);
        }
    }

    fn output(&self, local: SocketAddr, bytes: Vec<u8>) -> Output {
        match self.server.transport {
            TurnTransport::Udp => Output::Datagram { local, remote: self.server.address, bytes },
            TurnTransport::Stream => Output::Stream { server: self.index, bytes },
        }
    }

    /// Handles octets of the server: a datagram, or the next ones of the connection.
    pub(crate) fn receive(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> Received {
        let time = self.time(now);
        let Some(client) = self.client.as_mut().filter(|_| from == self.server.address) else {
            return Received::Ignored;
        };
        if self.relayed.is_none() {
            self.refusal = refusal(bytes, &mut self.challenged);
        }
        let transmit = Transmit::new(bytes, client.transport(), from, client.local_addr());
        let received = match client.recv(transmit, time) {
            TurnRecvRet::Ignored(_) if self.refusal.is_none() => return Received::Ignored,
            TurnRecvRet::Ignored(_) => Received::Handled,
            TurnRecvRet::Handled | TurnRecvRet::PeerIcmp { .. } => Received::Handled,
            TurnRecvRet::PeerData(data) => Received::Data(data.peer, data.data().to_vec()),
        };
        self.next = Some(now);
        received
    }

    /// The next datagram of a peer in the octets that were received before.
    pub(crate) fn next_data(&mut self, now: Instant) -> Option<(SocketAddr, Vec<u8>)> {
        let time = self.time(now);
        let data = self.client.as_mut()?.poll_recv(time)?;
        Some((data.peer, data.data().to_vec()))
    }

    /// Sends due requests. Returns the changes.
    pub(crate) fn drive(&mut self, now: Instant, out: &mut impl Extend<Output>) -> Vec<Change> {
        let (time, mut changes) = (self.time(now), Vec::new());
        let mut is_refused = self.refusal.is_some();
        let Some(client) = self.client.as_mut() else { return changes };
        let mut is_closed = matches!(client.poll(time), TurnPollRet::Closed);
        let mut transmits = Vec::new();
        while let Some(transmit) = client.poll_transmit(time) {
            transmits.push((transmit.from, transmit.data.to_vec()));
        }
        while let Some(event) = client.poll_event() {
            match event {
                TurnEvent::AllocationCreated(_, address) => {
                    self.relayed = Some(address);
                    changes.push(Change::Allocated(address));
                }
                TurnEvent::AllocationCreateFailed(_) => is_refused = true,
                _ => {}
            }
        }
        let wait = match client.poll(time) {
            TurnPollRet::WaitUntil(until) => until.saturating_duration_since(time),
            TurnPollRet::Closed => {
                is_closed = true;
                Duration::ZERO
            }
            _ => Duration::ZERO,
        };
        let is_expired = self.relayed.is_some_and(|relayed| {
            !client.relayed_addresses().any(|(_, address)| address == relayed)
        });
        self.next = Some(now + wait.max(PACE));
        let sent: Vec<Output> =
            transmits.into_iter().map(|(local, bytes)| self.output(local, bytes)).collect();
        out.extend(sent);
        if matches!(changes[..], [Change::Allocated(_)]) {
            for peer in self.peers.clone() {
                self.ask_for(now, peer);
            }
        }
        if is_refused || is_closed || is_expired {
            let error = match self.relayed {
                Some(_) => RelayError::Expired,
                None => self.refusal.take().unwrap_or(RelayError::TimedOut),
            };
            changes.extend(self.fail(error));
        }
        changes
    }

    /// The relay is of no further use.
    pub(crate) fn fail(&mut self, error: RelayError) -> Option<Change> {
        (self.client, self.next) = (None, None);
        let relayed = self.relayed.take();
        self.error.is_none().then(|| {
            self.error = Some(error.clone());
            Change::Failed(error, relayed)
        })
    }

    /// Gives the relayed address back.
    pub(crate) fn close(&mut self, now: Instant, out: &mut impl Extend<Output>) {
        let time = self.time(now);
        if let Some(client) = &mut self.client
            && client.delete(time).is_ok()
        {
            self.drive(now, out);
        }
    }
}

/// The refusal of an allocation, if `bytes` are one. The first 401 has the realm for the next
/// request and is in `challenged`; another one refuses the credentials. `turn-client-proto` ignores
/// errors that are not signed, as that one is, and would repeat its request.
fn refusal(bytes: &[u8], challenged: &mut Option<TransactionId>) -> Option<RelayError> {
    let message = Message::parse(bytes).ok()?;
    let error = message.error()?;
    let is_challenge = *challenged.get_or_insert(message.id) == message.id;
    let is_refusal = match error.code {
        401 => !is_challenge,
        // The nonce is stale.
        438 => false,
        _ => true,
    };
    let reason = error.reason.chars().filter(|it| !it.is_control()).take(REASON).collect();
    is_refusal.then_some(RelayError::Refused { code: error.code, reason })
}
