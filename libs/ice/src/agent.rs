//! The agent: candidates, checks, the nominated pair.

use crate::description;
use crate::random::Random;
use crate::relay::{Change, Relay};
use crate::{CandidateError, Event, Output, Path, TurnServer, TurnTransport};
use ice::Credentials;
use is::Protocol;
use is::stun::{StunMessage, StunPacket};
use is::{Candidate, CandidateKind, IceAgent, IceAgentEvent, IceConnectionState, IceCreds};
use sdp::ice::IceParameters;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use stun::turn::Received;
use stun::{BINDING, BindingResponse, Class, Client, TransactionId, Writer};

/// The time within which candidates are gathered. A description does not wait longer for the
/// answers of servers. Without a relayed address a call may find no way: that is worth a longer
/// wait.
const GATHERING: Duration = Duration::from_secs(2);
const ALLOCATING: Duration = Duration::from_secs(5);
/// The interval of indications to the servers, which keep the mappings of a NAT (RFC 8445 section
/// 5.1.1.4).
const KEEPALIVE: Duration = Duration::from_secs(15);
/// The maximum number of the peer's addresses, from its description and from checks.
const MAX_REMOTES: usize = 64;

/// A full ICE agent of one medium, with one component.
pub struct Agent {
    ice: IceAgent,
    locals: Vec<SocketAddr>,
    /// The requests for server-reflexive addresses, each from a local address.
    questions: Vec<(SocketAddr, Client)>,
    relays: Vec<Relay>,
    /// Times of requests are durations since then.
    epoch: Instant,
    /// The UDP addresses of servers, each with the local address that it knows.
    servers: Vec<(SocketAddr, SocketAddr)>,
    /// The time of the next keepalives.
    next_keepalive: Instant,
    is_gathered: bool,
    /// The user fragment and the password of the peer.
    remote: Option<IceCreds>,
    /// The addresses of the peer that an authentic check or response came from.
    proved: BTreeSet<SocketAddr>,
    /// The sources of checks that were passed on.
    checked: BTreeSet<SocketAddr>,
    selected: Option<Path>,
    random: Random,
    out: VecDeque<Output>,
}

impl Agent {
    /// An agent with sockets at `locals`, which begins to gather candidates. STUN servers, and TURN
    /// servers over UDP, are asked for server-reflexive addresses, TURN servers for relayed ones.
    /// The controlling agent is that of the first offer.
    ///
    /// # Errors
    /// [`CandidateError`]: a local address is unspecified, link-local or a group.
    pub fn new(
        locals: &[SocketAddr],
        stun: &[SocketAddr],
        turn: &[TurnServer],
        is_controlling: bool,
        random: Random,
        now: Instant,
    ) -> Result<Self, CandidateError> {
        let mut ice = IceAgent::new(credentials(random));
        ice.set_controlling(is_controlling);
        for &address in locals {
            let candidate = Candidate::host(address, Protocol::Udp);
            ice.add_local_candidate(candidate.map_err(|_| CandidateError { address })?);
        }
        let local_for = |server: SocketAddr| {
            locals.iter().copied().find(|local| local.is_ipv4() == server.is_ipv4())
        };
        let ask = |&(local, server): &(SocketAddr, SocketAddr)| {
            let mut id = [0; 12];
            random(&mut id);
            (local, Client::new(TransactionId(id), server, Duration::ZERO))
        };
        let relay = |(index, server): (usize, &TurnServer)| {
            Relay::new(server, index, local_for(server.address), random, now)
        };
        let on_socket = |server: &&TurnServer| server.transport == TurnTransport::Udp;
        let turn_addresses = turn.iter().filter(on_socket).map(|server| server.address);
        let mut servers: Vec<_> = stun
            .iter()
            .copied()
            .chain(turn_addresses)
            .filter_map(|server| Some((local_for(server)?, server)))
            .collect();
        servers.sort_unstable();
        servers.dedup();
        let questions = servers.iter().map(ask).collect();
        let mut agent = Self {
            servers,
            next_keepalive: now + KEEPALIVE,
            ice,
            locals: locals.to_vec(),
            questions,
            relays: turn.iter().enumerate().map(relay).collect(),
            epoch: now,
            is_gathered: false,
            remote: None,
            proved: BTreeSet::new(),
            checked: BTreeSet::new(),
            selected: None,
            random,
            out: VecDeque::new(),
        };
        agent.on_timer(now);
        Ok(agent)
    }

    /// The lines of the description: the credentials and the candidates.
    #[must_use]
    pub fn description(&self) -> String {
        let IceCreds { ufrag, pass } = self.ice.local_credentials();
        let mut text = format!("a=ice-ufrag:{ufrag}\r\na=ice-pwd:{pass}\r\n");
        for candidate in self.ice.local_candidates() {
            description::write(&candidate, &mut text);
        }
        text
    }

    /// The default destination of the description (RFC 8839 section 4.2.1.2): a server-reflexive
    /// address, or else that of the first socket. It is never a relayed one: a peer without ICE has
    /// no permission there.
    #[must_use]
    pub fn default_address(&self) -> Option<SocketAddr> {
        let of = |kind| self.ice.local_candidates().find(|it| it.kind() == kind);
        let candidate = of(CandidateKind::ServerReflexive).or_else(|| of(CandidateKind::Host));
        candidate.map(|it| it.addr())
    }

    /// Returns true if the description has all candidates.
    #[must_use]
    pub const fn is_gathered(&self) -> bool {
        self.is_gathered
    }

    /// The relayed address at a TURN server.
    #[must_use]
    pub fn relayed(&self, server: usize) -> Option<SocketAddr> {
        self.relays.get(server).and_then(Relay::relayed)
    }

    /// The nominated pair.
    #[must_use]
    pub const fn selected(&self) -> Option<Path> {
        self.selected
    }

    /// Makes this end the controlling one, before the checks begin.
    pub fn control(&mut self, is_controlling: bool) {
        if self.remote.is_none() {
            self.ice.set_controlling(is_controlling);
        }
    }

    /// Returns true if a description has other credentials than the one before. In an offer they
    /// restart ICE (RFC 8445 section 9): call [`Agent::restart`] before the answer.
    #[must_use]
    pub fn is_restart(&self, parameters: &IceParameters<'_>) -> bool {
        self.remote.as_ref().is_some_and(|remote| {
            (&*remote.ufrag, &*remote.pass) != (parameters.ufrag, parameters.password)
        })
    }

    /// Sets the parameters of the peer's description, and begins the checks. Those of another
    /// peer, as of another branch of a forked call, replace the former ones.
    pub fn set_remote(&mut self, now: Instant, parameters: &IceParameters<'_>) {
        if self.is_restart(parameters) {
            self.begin_anew(self.ice.local_credentials().clone());
        }
        if self.remote.is_none() {
            let (ufrag, pass) = (parameters.ufrag.to_owned(), parameters.password.to_owned());
            let credentials = IceCreds { ufrag, pass };
            if parameters.is_lite {
                // A lite agent does not nominate.
                self.ice.set_controlling(true);
            }
            self.ice.set_remote_credentials(credentials.clone());
            self.remote = Some(credentials);
        }
        for candidate in parameters.candidates.iter().filter_map(description::read) {
            if self.checked.len() >= MAX_REMOTES || !self.checked.insert(candidate.addr()) {
                continue;
            }
            for relay in &mut self.relays {
                relay.permit(now, candidate.addr().ip());
            }
            self.ice.add_remote_candidate(candidate);
        }
        self.on_timer(now);
    }

    /// Restarts ICE with new credentials. Media go over the old pair until another one is
    /// nominated.
    pub fn restart(&mut self, now: Instant) {
        self.begin_anew(credentials(self.random));
        self.on_timer(now);
    }

    /// Forgets the checks, and the description of the peer.
    fn begin_anew(&mut self, local: IceCreds) {
        self.ice.ice_restart(local, true);
        self.remote = None;
        self.checked.clear();
    }

    /// Handles a datagram that the socket at `local` has received.
    pub fn receive(&mut self, now: Instant, local: SocketAddr, from: SocketAddr, bytes: &[u8]) {
        if self.takes_answer(from, bytes) {
            return self.on_timer(now);
        }
        let relays = self.relays.iter_mut().enumerate();
        let mut udp = relays.filter(|(_, relay)| relay.is_on_socket() && relay.address == from);
        let found = udp.find_map(|(index, relay)| match relay.receive(now, bytes) {
            Received::Ignored => None,
            received => Some((index, received)),
        });
        match found {
            Some((index, Received::Data(peer, data))) => {
                self.receive_relayed(now, index, peer, data);
            }
            Some(_) => self.on_timer(now),
            None => self.receive_directly(now, local, from, bytes),
        }
    }

    /// The owner has established the connection to a TURN server.
    pub fn connected(&mut self, now: Instant, server: usize) {
        if let Some(relay) = self.relays.get_mut(server).filter(|relay| !relay.is_on_socket()) {
            relay.connected(now);
            self.on_timer(now);
        }
    }

    /// Handles octets of the connection to a TURN server.
    pub fn receive_stream(&mut self, now: Instant, server: usize, bytes: &[u8]) {
        let Some(relay) = self.relays.get_mut(server).filter(|relay| !relay.is_on_socket()) else {
            return;
        };
        for (peer, bytes) in relay.receive_stream(now, bytes) {
            self.receive_relayed(now, server, peer, &bytes);
        }
        self.on_timer(now);
    }

    /// The connection to a TURN server has ended, or was not established, for this reason.
    pub fn disconnected(&mut self, now: Instant, server: usize, cause: String) {
        let Some(relay) = self.relays.get_mut(server) else { return };
        relay.disconnected(cause);
        self.on_timer(now);
    }

    /// Handles a datagram of a peer that came through a TURN server.
    fn receive_relayed(&mut self, now: Instant, server: usize, peer: SocketAddr, bytes: &[u8]) {
        if let Some(local) = self.relays[server].relayed() {
            self.receive_directly(now, local, peer, bytes);
        }
    }

    /// Handles a datagram for the local candidate at `local`.
    fn receive_directly(
        &mut self,
        now: Instant,
        local: SocketAddr,
        from: SocketAddr,
        bytes: &[u8],
    ) {
        if !stun::is_stun(bytes) {
            if self.proved.contains(&from) {
                self.out.push_back(Output::Media { from, bytes: bytes.to_vec() });
            }
            return;
        }
        // A peer makes one candidate of each address that it sends a check from.
        let is_known = self.checked.contains(&from);
        if !is_known && self.checked.len() >= MAX_REMOTES {
            return;
        }
        let Ok(message) = StunMessage::parse(bytes) else { return };
        let packet = StunPacket { proto: Protocol::Udp, source: from, destination: local, message };
        if self.ice.handle_packet(now, packet) && !is_known {
            self.checked.insert(from);
        }
        self.on_timer(now);
    }

    /// Sends a datagram to the peer over the nominated pair. Returns false without such
    /// a pair.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        let Some(Path { local, remote, .. }) = self.selected else { return false };
        self.transmit(local, remote, bytes);
        true
    }

    /// Sends a datagram from a local candidate: by a socket, or through a TURN server.
    fn transmit(&mut self, local: SocketAddr, remote: SocketAddr, bytes: &[u8]) {
        let relay = self.relays.iter().find(|relay| relay.relayed() == Some(local));
        match relay {
            Some(relay) => self.out.extend(relay.send(remote, bytes)),
            None if self.locals.contains(&local) => {
                self.out.push_back(Output::Datagram { local, remote, bytes: bytes.to_vec() });
            }
            // The relay is no longer there.
            None => {}
        }
    }

    /// Gives relayed addresses back. The last outputs are to be sent.
    pub fn close(&mut self, now: Instant) {
        for relay in &mut self.relays {
            relay.close(now, &mut self.out);
        }
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    /// The time at which [`Agent::on_timer`] is due.
    pub fn next_timer(&mut self) -> Option<Instant> {
        let questions = self.questions.iter().filter_map(|(_, client)| client.next_timer());
        let questions = questions.map(|timer| self.epoch + timer);
        let relays = self.relays.iter().filter_map(Relay::next_timer);
        let gathering = self.gathering_end().filter(|_| !self.is_gathered);
        let keepalive = (!self.servers.is_empty()).then_some(self.next_keepalive);
        let earliest = questions.chain(relays).chain(gathering).chain(keepalive).min();
        let checks = if self.remote.is_some() { self.ice.poll_timeout() } else { None };
        earliest.into_iter().chain(checks).min()
    }

    /// The time at which candidates are no longer waited for; `None` if all servers have answered.
    fn gathering_end(&self) -> Option<Instant> {
        let is_allocating = self.relays.iter().any(Relay::is_waiting);
        let is_asking = !self.questions.is_empty();
        let limit = is_allocating.then_some(ALLOCATING).or(is_asking.then_some(GATHERING));
        limit.map(|limit| self.epoch + limit)
    }

    /// Does all that is due: requests to servers, checks, repetitions.
    pub fn on_timer(&mut self, now: Instant) {
        self.ask_servers(now);
        self.keep_alive(now);
        for index in 0..self.relays.len() {
            while let Some(change) = self.relays[index].poll(now, &mut self.out) {
                self.on_change(index, change);
            }
        }
        if !self.is_gathered && self.gathering_end().is_none_or(|end| now >= end) {
            self.is_gathered = true;
            self.out.push_back(Output::Event(Event::Gathered));
        }
        if self.remote.is_some() && self.ice.poll_timeout().is_none_or(|timer| timer <= now) {
            self.ice.handle_timeout(now);
        }
        self.settle(now);
    }

    /// Sends the due requests to STUN servers.
    fn ask_servers(&mut self, now: Instant) {
        let (passed, out) = (now.saturating_duration_since(self.epoch), &mut self.out);
        self.questions.retain_mut(|(local, client)| {
            let mut bytes = Vec::new();
            match client.poll(passed, &mut bytes) {
                stun::Event::Send(remote) => {
                    out.push_back(Output::Datagram { local: *local, remote, bytes });
                    true
                }
                stun::Event::Wait => true,
                stun::Event::TimedOut => false,
            }
        });
    }

    /// Sends an indication to each server, if it is due.
    fn keep_alive(&mut self, now: Instant) {
        if now < self.next_keepalive {
            return;
        }
        self.next_keepalive = now + KEEPALIVE;
        for &(local, remote) in &self.servers {
            let (mut id, mut bytes) = ([0; 12], Vec::new());
            (self.random)(&mut id);
            let writer = Writer::new(Class::Indication, BINDING, TransactionId(id), &mut bytes);
            if writer.fingerprint().is_ok() {
                self.out.push_back(Output::Datagram { local, remote, bytes });
            }
        }
    }

    /// Returns true if a datagram is the response of a STUN server.
    fn takes_answer(&mut self, from: SocketAddr, bytes: &[u8]) -> bool {
        let answer = |(_, client): &mut (SocketAddr, Client)| client.receive(from, bytes);
        let answers = self.questions.iter_mut().enumerate();
        let found = answers.into_iter().find_map(|(place, it)| Some((place, answer(it)?)));
        let Some((place, response)) = found else { return false };
        let (base, _) = self.questions.remove(place);
        if let BindingResponse::Mapped(address) = response
            && address != base
            && let Ok(candidate) = Candidate::server_reflexive(address, base, Protocol::Udp)
        {
            self.ice.add_local_candidate(candidate);
        }
        true
    }

    fn on_change(&mut self, server: usize, change: Change) {
        match change {
            Change::Allocated(address) => {
                let local = self.locals.first().copied().unwrap_or(address);
                if let Ok(candidate) = Candidate::relayed(address, local, Protocol::Udp) {
                    self.ice.add_local_candidate(candidate);
                }
            }
            Change::Failed(error, address) => {
                let candidate = self.ice.local_candidates().find(|it| Some(it.addr()) == address);
                if let Some(candidate) = candidate {
                    self.ice.invalidate_candidate(&candidate);
                }
                self.out.push_back(Output::Event(Event::RelayFailed { server, error }));
            }
        }
    }

    /// Passes the outputs of the checks on.
    fn settle(&mut self, now: Instant) {
        while let Some(transmit) = self.ice.poll_transmit() {
            self.transmit(transmit.source, transmit.destination, &transmit.contents);
        }
        while let Some(event) = self.ice.poll_event() {
            match event {
                IceAgentEvent::DiscoveredRecv { source, .. } if self.proved.len() < MAX_REMOTES => {
                    self.proved.insert(source);
                }
                IceAgentEvent::NominatedSend { source, destination, .. } => {
                    self.select(now, source, destination);
                }
                IceAgentEvent::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                    let is_end = self.selected.take().is_some();
                    let event = if is_end { Event::ConsentEnded } else { Event::Failed };
                    self.out.push_back(Output::Event(event));
                }
                _ => {}
            }
        }
    }

    fn select(&mut self, now: Instant, local: SocketAddr, remote: SocketAddr) {
        let server = self.relays.iter().position(|relay| relay.relayed() == Some(local));
        if let Some(server) = server {
            self.relays[server].bind(now, remote);
        }
        let path = Path { local, remote, server };
        if self.selected.replace(path) != Some(path) {
            self.out.push_back(Output::Event(Event::Selected(path)));
        }
    }
}

/// New random credentials.
fn credentials(random: Random) -> IceCreds {
    let mut octets = [0; 32];
    random(&mut octets);
    let Credentials { ufrag, password } = Credentials::new(&octets);
    IceCreds { ufrag, pass: password }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("locals", &self.locals)
            .field("relays", &self.relays.len())
            .field("selected", &self.selected)
            .finish_non_exhaustive()
    }
}
