//! A simulated network: two agents behind NATs, a STUN and a TURN server.

use super::turn::{PASSWORD, TurnServer, USER};
use ice_agent::{Agent, Event, Output, TurnCredentials, TurnTransport};
use sdp::SessionDescription;
use sdp::ice::IceParameters;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The time of a datagram from one end to the other.
const DELAY: Duration = Duration::from_millis(20);
/// The address of a connection to the TURN server: the network does not translate it.
const STREAM_PORT: u16 = 30_000;

/// The kind of a NAT.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nat {
    /// Mapping and filtering are independent of the other end.
    FullCone,
    /// A mapping for each destination, which only that one can send to.
    Symmetric,
}

/// One end: an agent behind a NAT.
pub(crate) struct End {
    pub(crate) agent: Agent,
    pub(crate) local: SocketAddr,
    public: SocketAddr,
    nat: Nat,
    /// The destinations and their outside ports.
    mappings: Vec<(Option<SocketAddr>, u16)>,
    pub(crate) events: Vec<Event>,
    pub(crate) heard: Vec<Vec<u8>>,
}

/// A datagram, or a message on a connection to the TURN server.
struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

pub(crate) struct Net {
    pub(crate) now: Instant,
    pub(crate) ends: Vec<End>,
    pub(crate) turn: TurnServer,
    on_the_way: BTreeMap<(Instant, u64), Packet>,
    sent: u64,
    /// The number of indications to the STUN server.
    pub(crate) kept_alive: usize,
    /// True if all datagrams are lost.
    pub(crate) is_dead: bool,
}

pub(crate) fn stun_server() -> SocketAddr {
    ([203, 0, 113, 1], 3478).into()
}

pub(crate) fn turn_server(transport: TurnTransport) -> ice_agent::TurnServer {
    let credentials = TurnCredentials { user: USER.to_owned(), password: PASSWORD.to_owned() };
    ice_agent::TurnServer { address: ([203, 0, 113, 2], 3478).into(), transport, credentials }
}

pub(crate) fn random(bytes: &mut [u8]) {
    fastrand::fill(bytes);
}

impl Net {
    /// Two agents behind NATs of this kind, with these TURN servers. The first one controls.
    pub(crate) fn new(nat: Nat, turn: [&[ice_agent::TurnServer]; 2]) -> Self {
        let now = Instant::now();
        let end = |place: usize| {
            let octet = place as u8 + 1;
            let local: SocketAddr = ([10, 0, octet, 2], 4000).into();
            let servers = turn[place];
            let agent = Agent::new(&[local], &[stun_server()], servers, place == 0, random, now);
            End {
                agent: agent.unwrap(),
                local,
                public: ([198, 51, 100, 10 + octet], 0).into(),
                nat,
                mappings: Vec::new(),
                events: Vec::new(),
                heard: Vec::new(),
            }
        };
        let ends = vec![end(0), end(1)];
        let server = turn_server(TurnTransport::Udp).address;
        let turn = TurnServer::new(server, now);
        let on_the_way = BTreeMap::new();
        let mut net = Self { now, ends, turn, on_the_way, sent: 0, kept_alive: 0, is_dead: false };
        net.settle();
        net
    }

    /// The owner of an end connects to its first TURN server.
    pub(crate) fn connect_stream(&mut self, place: usize) {
        let now = self.now;
        self.ends[place].agent.connected(now, 0);
        self.settle();
    }

    /// Each end learns the description of the other.
    pub(crate) fn exchange(&mut self) {
        let lines = [0, 1].map(|place| self.ends[place].agent.description());
        for (place, lines) in lines.iter().enumerate() {
            self.describe(1 - place, lines);
        }
    }

    /// One end learns a description, as an offer or an answer. Returns true if it restarts.
    pub(crate) fn describe(&mut self, place: usize, lines: &str) -> bool {
        let text = format!("v=0\r\nm=audio 9 RTP/AVP 0\r\n{lines}");
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        let parameters = IceParameters::of(&session.media[0], &session).unwrap().unwrap();
        let agent = &mut self.ends[place].agent;
        let restarts = agent.is_restart(&parameters);
        if restarts {
            agent.restart(self.now);
        }
        agent.set_remote(self.now, &parameters);
        self.settle();
        restarts
    }

    /// Takes the outputs of the agents.
    pub(crate) fn settle(&mut self) {
        for place in 0..self.ends.len() {
            while let Some(output) = self.ends[place].agent.poll() {
                let end = &mut self.ends[place];
                match output {
                    Output::Event(event) => end.events.push(event),
                    Output::Media { bytes, .. } => end.heard.push(bytes),
                    Output::Datagram { local, remote, bytes } => {
                        assert_eq!(local, end.local);
                        let from = end.outside(remote);
                        self.send(from, remote, bytes);
                    }
                    Output::Stream { bytes, .. } => {
                        let from = SocketAddr::new(end.local.ip(), STREAM_PORT);
                        self.send(from, self.turn.address, bytes);
                    }
                }
            }
        }
    }

    pub(crate) fn send(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        self.sent += 1;
        self.on_the_way.insert((self.now + DELAY, self.sent), Packet { from, to, bytes });
    }

    /// Runs for a time.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let timers = self.ends.iter_mut().filter_map(|end| end.agent.next_timer());
            let packet = self.on_the_way.keys().next().map(|(at, _)| *at);
            let Some(next) = timers.chain(packet).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            while let Some(first) = self.on_the_way.first_entry()
                && first.key().0 <= self.now
            {
                let packet = first.remove();
                if !self.is_dead {
                    self.deliver(&packet);
                }
            }
            for end in &mut self.ends {
                if end.agent.next_timer().is_some_and(|timer| timer <= self.now) {
                    end.agent.on_timer(self.now);
                }
            }
            self.settle();
        }
        self.now = end;
    }

    fn deliver(&mut self, Packet { from, to, bytes }: &Packet) {
        let (now, from, to) = (self.now, *from, *to);
        if to == stun_server() {
            let mut answer = Vec::new();
            if stun::respond_to_binding(from, bytes, &mut answer) {
                self.send(to, from, answer);
            } else {
                self.kept_alive += 1;
            }
            return;
        }
        if to.ip() == self.turn.address.ip() {
            let sent = match to == self.turn.address {
                true => self.turn.receive(now, from, bytes),
                false => self.turn.relay(now, to, from, bytes),
            };
            sent.into_iter().for_each(|(from, to, bytes)| self.send(from, to, bytes));
            return;
        }
        for end in &mut self.ends {
            if to == SocketAddr::new(end.local.ip(), STREAM_PORT) {
                // A connection has no boundaries of messages, and pads the data of channels.
                let mut padded = bytes.clone();
                padded.resize(bytes.len().next_multiple_of(4), 0);
                for part in padded.chunks(31) {
                    end.agent.receive_stream(now, 0, part);
                }
            } else if to.ip() == end.public.ip() && end.lets_in(from, to.port()) {
                end.agent.receive(now, end.local, from, bytes);
            }
        }
        self.settle();
    }

    /// Sends a datagram of media from each end, and counts those that arrive.
    pub(crate) fn talk(&mut self) -> [usize; 2] {
        let before = [0, 1].map(|place| self.ends[place].heard.len());
        for place in [0, 1] {
            // A version of RTP, and a length that is no multiple of four.
            self.ends[place].agent.send(&[0x80; 55]);
        }
        self.settle();
        self.run(4 * DELAY);
        [0, 1].map(|place| self.ends[place].heard.len() - before[place])
    }
}

impl End {
    /// The address that a destination sees.
    fn outside(&mut self, to: SocketAddr) -> SocketAddr {
        let key = (self.nat == Nat::Symmetric).then_some(to);
        let known = self.mappings.iter().find(|(destination, _)| *destination == key);
        let port = known.map_or(20_000 + 7 * self.mappings.len() as u16, |(_, port)| *port);
        if known.is_none() {
            self.mappings.push((key, port));
        }
        SocketAddr::new(self.public.ip(), port)
    }

    fn lets_in(&self, from: SocketAddr, port: u16) -> bool {
        let is_its = |destination: &Option<SocketAddr>| destination.is_none_or(|it| it == from);
        self.mappings.iter().any(|(destination, it)| *it == port && is_its(destination))
    }
}
