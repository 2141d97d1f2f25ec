//! Agents on a network with a virtual clock, with scripted strangers and a proxy.
// Each test file uses a part of it.
#![allow(dead_code)]

mod hunt;
pub(crate) mod proxy;
pub(crate) mod stranger;

use barebell_sip_ua::{Agent, CallError, CallId, Config, Event, Location};
use proxy::Proxy;
use sip::{Flow, Instant, Message, Transport};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;
use test_support::network::{self, Link, Network};

/// A session description, which the engine does not parse.
pub(crate) const SESSION: &[u8] = b"v=0\r\n";

/// The start of the agents' clock.
const BEGIN: Instant = Instant::from_micros(1_000_000_000);

/// The agent to wake. `None` only advances the time.
type Wake = Option<usize>;

pub(crate) struct Rig {
    network: Network<Wake>,
    agents: Vec<Agent>,
    events: Vec<VecDeque<Event>>,
    /// The addresses of the agents.
    places: Vec<SocketAddr>,
    proxies: Vec<Proxy>,
    /// A stranger that redirects all calls, and the Contact line that it sends.
    redirector: Option<(SocketAddr, String)>,
    /// The addresses that the DNS returns after each address.
    pub(crate) backups: Vec<SocketAddr>,
    /// Messages for addresses without an agent or proxy.
    mail: BTreeMap<SocketAddr, VecDeque<Vec<u8>>>,
    /// The start lines and CSeq of all sent messages, with the index of the agent.
    pub(crate) sent: Vec<(usize, String)>,
    /// All sent messages.
    wire: Vec<Sent>,
}

/// A sent message.
struct Sent {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

pub(crate) fn address(number: usize) -> SocketAddr {
    ([192, 0, 2, number as u8 + 1], 5060).into()
}

impl Rig {
    pub(crate) fn new(seed: u64, link: Link, configs: &[Config]) -> Self {
        let agents = configs.iter().enumerate();
        let agents = agents.map(|(number, config)| {
            let mut secret = [number as u8; 32];
            secret[..8].copy_from_slice(&seed.to_le_bytes());
            Agent::new(config.clone(), &secret)
        });
        Self {
            network: Network::new(seed, link),
            agents: agents.collect(),
            events: configs.iter().map(|_| VecDeque::new()).collect(),
            places: (0..configs.len()).map(address).collect(),
            proxies: Vec::new(),
            redirector: None,
            backups: Vec::new(),
            mail: BTreeMap::new(),
            sent: Vec::new(),
            wire: Vec::new(),
        }
    }

    /// Returns the elapsed time.
    pub(crate) fn now(&self) -> Duration {
        self.network.now()
    }

    fn instant(&self) -> Instant {
        BEGIN + sip::Duration::from(self.network.now())
    }

    /// Returns true if a request of the agent waits for its response.
    pub(crate) fn is_asking(&self, side: usize) -> bool {
        self.agents[side].is_asking()
    }

    /// Runs an action of an agent.
    pub(crate) fn act<T>(
        &mut self,
        side: usize,
        act: impl FnOnce(&mut Agent, Instant) -> Result<T, CallError>,
    ) -> T {
        self.try_act(side, act).expect("the agent does it")
    }

    pub(crate) fn try_act<T>(
        &mut self,
        side: usize,
        act: impl FnOnce(&mut Agent, Instant) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let now = self.instant();
        let done = act(&mut self.agents[side], now);
        self.drain(side);
        done
    }

    /// One agent calls another one directly.
    pub(crate) fn call(&mut self, from: usize, to: usize) -> CallId {
        self.call_with(from, to, SESSION)
    }

    pub(crate) fn call_with(&mut self, from: usize, to: usize, session: &[u8]) -> CallId {
        self.call_uri(from, &format!("sip:user@{}", self.places[to]), session)
    }

    pub(crate) fn call_uri(&mut self, from: usize, uri: &str, session: &[u8]) -> CallId {
        self.act(from, |agent, now| agent.call(now, None, uri, session.to_vec()))
    }

    /// Adds a proxy to the network.
    pub(crate) fn add_proxy(&mut self, proxy: Proxy) {
        self.proxies.push(proxy);
    }

    /// The proxy at `place` stops waiting for the ringing phone.
    pub(crate) fn hunt_on(&mut self, place: SocketAddr) {
        let proxy = self.proxies.iter_mut().find(|proxy| proxy.address == place);
        let (to, cancel) = proxy.and_then(|proxy| proxy.cancel()).expect("a call that rings");
        self.transmit(place, to, &cancel);
    }

    /// A stranger at `place` redirects all calls to `contact`.
    pub(crate) fn redirect(&mut self, place: SocketAddr, contact: &str) {
        self.redirector = Some((place, format!("Contact: {contact}\r\n")));
    }

    /// Returns the number of calls of an agent.
    pub(crate) fn calls(&self, side: usize) -> usize {
        self.agents[side].calls()
    }

    /// Changes the address of an agent and informs it.
    pub(crate) fn move_to(&mut self, side: usize, place: SocketAddr) {
        self.places[side] = place;
        self.act(side, |agent, now| {
            agent.network_changed(now);
            Ok(())
        });
    }

    /// Sets the properties of the network for messages from now on.
    pub(crate) fn set_link(&mut self, link: Link) {
        self.network.link = link;
    }

    /// Returns the number of messages of an agent with this beginning: a method, or a status.
    pub(crate) fn count(&self, side: usize, beginning: &str) -> usize {
        self.sent.iter().filter(|(of, line)| *of == side && line.starts_with(beginning)).count()
    }

    fn transmit(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        self.wire.push(Sent { from, to, bytes: bytes.to_vec() });
        self.network.send(from, to, bytes);
    }

    /// Returns the last message from one address to another with this beginning.
    pub(crate) fn last(&self, from: SocketAddr, to: SocketAddr, beginning: &str) -> &[u8] {
        let is_meant = |sent: &&Sent| {
            (sent.from, sent.to) == (from, to) && sent.bytes.starts_with(beginning.as_bytes())
        };
        &self.wire.iter().rfind(is_meant).expect("such a message").bytes
    }

    /// Asserts that `flow` was sent, as `A>B INVITE, B>A 180`: between each two ends the same
    /// messages in the same order. The agents are A, B, C and so on. `others` names the others.
    pub(crate) fn assert_flow(&self, others: &[(char, SocketAddr)], flow: &str) {
        let agents = ('A'..).zip((0..self.agents.len()).map(address));
        let names: Vec<(char, SocketAddr)> = agents.chain(others.iter().copied()).collect();
        let name = |place| names.iter().find(|(_, of)| *of == place).map_or('?', |(name, _)| *name);
        let seen = self.wire.iter().map(|Sent { from, to, bytes }| {
            test_support::flow::step(name(*from), name(*to), bytes)
        });
        test_support::flow::assert_same(seen, flow);
    }

    /// Transmits the messages of an agent, and answers its queries.
    fn drain(&mut self, side: usize) {
        let now = self.instant();
        // It compares its count with the requests.
        let _ = self.is_asking(side);
        loop {
            while let Some(transmit) = self.agents[side].poll_transmit() {
                let message = Message::parse(&transmit.bytes).expect("agents send messages");
                if message.method().is_some() {
                    message.validate_request().expect("agents send good requests");
                }
                assert_eq!(message.framing_fault(), None, "agents send good messages");
                let cseq = message.value(sip::HeaderName::CSeq).unwrap_or_default();
                let text = String::from_utf8_lossy(&transmit.bytes);
                let start = text.lines().next().unwrap_or_default();
                self.sent.push((side, format!("{start} ({})", String::from_utf8_lossy(cseq))));
                self.transmit(transmit.flow.local, transmit.flow.remote, &transmit.bytes);
            }
            match self.agents[side].poll_event() {
                Some(Event::Locate { ticket, destination }) => {
                    let sip::locate::Host::Ip(ip) = destination.host else { panic!("a name") };
                    let remote = SocketAddr::new(ip, destination.port.unwrap_or(5060));
                    let local = Some(self.places[side]);
                    let places = std::iter::once(&remote).chain(&self.backups);
                    let locations = places.map(|remote| Location {
                        transport: Transport::Udp,
                        remote: *remote,
                        local,
                    });
                    let locations: Vec<_> = locations.collect();
                    self.agents[side].located(now, ticket, &locations);
                }
                Some(event) => self.events[side].push_back(event),
                None => break,
            }
        }
        if let Some(next) = self.agents[side].next_timer() {
            let at = next.since(BEGIN).into();
            self.network.wake_at(at, Some(side));
        }
    }

    /// Processes the next network event. Returns false if there are no more events.
    fn step(&mut self) -> bool {
        let Some(event) = self.network.next_event() else { return false };
        let now = self.instant();
        let side = match event {
            network::Event::Datagram { from, to, bytes } => {
                if let Some(proxy) = self.proxies.iter_mut().find(|proxy| proxy.address == to) {
                    for (remote, bytes) in proxy.receive(from, &bytes) {
                        self.transmit(to, remote, &bytes);
                    }
                    return true;
                }
                if let Some((place, contact)) = &self.redirector
                    && *place == to
                {
                    if bytes.starts_with(b"INVITE") {
                        let answer =
                            test_support::flow::response(&bytes, from, 302, "r", contact, "");
                        self.transmit(to, from, &answer);
                    }
                    return true;
                }
                let Some(side) = self.places.iter().position(|place| *place == to) else {
                    self.mail.entry(to).or_default().push_back(bytes);
                    return true;
                };
                let flow =
                    Flow { transport: Transport::Udp, local: to, remote: from, connection: None };
                self.agents[side].receive(now, &flow, &bytes);
                side
            }
            network::Event::Wake(None) => return true,
            network::Event::Wake(Some(side)) => {
                if self.agents[side].next_timer().is_none_or(|next| next > now) {
                    return true;
                }
                self.agents[side].on_timer(now);
                side
            }
            network::Event::Stream { .. } | network::Event::Closed { .. } => return true,
        };
        self.drain(side);
        true
    }

    /// Advances the time.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now() + time;
        self.network.wake_at(end, None);
        while self.network.next_time().is_some_and(|next| next <= end) {
            self.step();
        }
    }

    /// Returns the next event of an agent.
    pub(crate) fn expect(&mut self, side: usize) -> Event {
        while self.events[side].is_empty() {
            assert!(self.step(), "nothing happens any more");
        }
        self.events[side].pop_front().expect("an event")
    }

    /// Returns the next event of any agent.
    pub(crate) fn expect_any(&mut self) -> (usize, Event) {
        loop {
            let found = self.events.iter().position(|events| !events.is_empty());
            if let Some(side) = found {
                return (side, self.events[side].pop_front().expect("an event"));
            }
            assert!(self.step(), "nothing happens any more");
        }
    }

    /// Returns the events of an agent since the previous call.
    pub(crate) fn events(&mut self, side: usize) -> Vec<Event> {
        self.events[side].drain(..).collect()
    }

    /// Runs all calls to their end: no state may remain.
    pub(crate) fn finish(&mut self) {
        let end = self.now() + Duration::from_secs(600);
        while self.network.next_time().is_some_and(|next| next <= end) {
            self.step();
        }
        assert!(self.now() <= end);
        for (side, agent) in self.agents.iter().enumerate() {
            assert_eq!(agent.calls(), 0, "calls of {side} are left");
            assert_eq!(agent.transactions(), 0, "transactions of {side} are left");
            assert!(!agent.is_asking(), "requests of {side} are left");
        }
    }
}
