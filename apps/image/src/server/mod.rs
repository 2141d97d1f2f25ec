//! The server: from the frame to the response and back in one thread of execution.

mod accounts;
mod budget;
mod config;
mod connections;
mod fetching;
mod media;
mod quality;
mod query;
pub mod screens;
mod shortage;
mod syslog;
#[cfg(test)]
mod tests;

use crate::attachment::Attachment;
use crate::dns::Resolver;
use crate::lock::Lock;
use crate::log::Log;
use crate::machine::clock::nanoseconds;
use crate::machine::heap::Heap;
use crate::machine::random::Random;
use crate::net::{Address, Ends, Network};
use crate::options::server::{Options, Sntp};
use crate::sntp::{self, TimeKeeper};
use accounts::Accounts;
use alloc::sync::Arc;
use alloc::vec::Vec;
use budget::Budget;
use config::SIP;
use connections::{Connections, News};
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use media::RelayedMedia;
use shortage::Level;
use sip::{Duration, Flow, Instant, Location, Transport};
use sip_server::{Event, Output, Ticket, Timing, Worker};
use syslog::Syslog;

/// Maximum number of messages handled before timers run.
const TURN: usize = 64;
/// Maximum interval of the work on connections.
const ROUND: Duration = Duration::from_millis(100);
/// Interval of checking memory and time.
const LOOK: Duration = Duration::from_millis(200);

/// The start-up phase of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It waits for a link.
    Link,
    /// It waits for an address.
    Address,
    /// It waits for the file of users.
    Users,
    /// It serves.
    Ready,
}

/// The server.
pub struct Server {
    options: Options,
    network: Network,
    attachment: Attachment,
    phase: Phase,
    engine: Arc<sip_server::Server<Lock>>,
    worker: Worker<Lock>,
    out: Output,
    accounts: Accounts,
    next_fetch: Option<Instant>,
    connections: Connections,
    /// The latest time of the next work on connections.
    next_round: Instant,
    resolver: Resolver<Ticket>,
    media: Option<RelayedMedia>,
    time_keeper: Option<TimeKeeper>,
    /// Microseconds from the time of timers to the time of day.
    clock_offset: i64,
    syslog: Option<Syslog>,
    memory: fn() -> Heap,
    /// The state of the memory, and the number of messages dropped for lack of it.
    level: Level,
    dropped: u64,
    /// The logged values of both, and of the connections closed for their memory.
    told: (Level, u64, u64),
    next_look: Instant,
    /// The time from which a query is answered again.
    next_answer: Instant,
    random: Random,
    /// Number of changes of bindings.
    changes: u64,
    /// The time from receiving a message's frame to sending the last frame for it.
    total: Timing,
    /// The log.
    pub log: Log,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("phase", &self.phase).finish_non_exhaustive()
    }
}

impl Server {
    /// A server on this network; `memory` returns the state of the heap.
    #[must_use]
    pub fn new(
        options: Options,
        mut network: Network,
        mut random: Random,
        memory: fn() -> Heap,
        now: Instant,
    ) -> Self {
        network.set_memory(Budget::of(memory().claimed).datagrams);
        let secret = options.secret.unwrap_or_else(|| random.bytes());
        let config = config::config(&options, None, &[], memory().claimed);
        let engine = Arc::new(sip_server::Server::new(config, &secret));
        engine.forget_nonces_before(now);
        let media = RelayedMedia::new(&options, memory().claimed, &mut random);
        if let Some(media) = &media {
            engine.set_relay(media.calls());
            network.set_media(media.ports().clone());
        }
        let mut worker = engine.worker();
        worker.set_clock(nanoseconds);
        let syslog = options.syslog.map(Syslog::new);
        let attachment = Attachment::new(options.machine.fixed(), now);
        Self {
            options,
            network,
            attachment,
            phase: Phase::Link,
            engine,
            worker,
            out: Output::default(),
            accounts: Accounts::default(),
            next_fetch: None,
            connections: Connections::new(now),
            next_round: now,
            resolver: Resolver::default(),
            media,
            time_keeper: None,
            clock_offset: 0,
            syslog,
            memory,
            level: Level::Plenty,
            dropped: 0,
            told: (Level::Plenty, 0, 0),
            next_look: now,
            next_answer: now,
            random,
            changes: 0,
            total: Timing::default(),
            log: Log::default(),
        }
    }

    /// The current phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Runs what is due at `now`; `clock` returns the current time.
    pub fn step(&mut self, clock: &mut dyn FnMut() -> Instant) {
        let now = clock();
        self.log.set_time(self.time_of_day(now));
        match self.phase {
            Phase::Link => self.wait_for_link(now),
            Phase::Address | Phase::Users | Phase::Ready => self.serve(now, clock),
        }
    }

    /// The time of day at `now`, a time of the clock that timers use.
    fn time_of_day(&self, now: Instant) -> Instant {
        Instant::from_micros(now.as_micros().saturating_add_signed(self.clock_offset))
    }

    /// Sets the time of day. Timers are not affected.
    fn set_clock(&mut self, now: Instant, offset: i64) {
        let seconds = (offset - self.clock_offset) / 1_000_000;
        self.clock_offset = offset;
        self.engine.set_clock_offset(offset);
        if seconds != 0 {
            self.log.say(format_args!("the clock was set by {seconds} s"));
            self.log.set_time(self.time_of_day(now));
        }
    }

    fn wait_for_link(&mut self, now: Instant) {
        let address = self.attachment.begin(now, &mut self.network, &mut self.log);
        if self.attachment.has_begun() {
            self.phase = Phase::Address;
            self.on_address(address, now);
        }
    }

    fn serve(&mut self, now: Instant, clock: &mut dyn FnMut() -> Instant) {
        for _ in 0..TURN {
            let (start, counts) = (nanoseconds(), self.network.counts());
            let Some(datagram) = self.network.receive(now) else { break };
            let ends = datagram.ends;
            if ends.destination.port() == SIP {
                let flow = Flow {
                    transport: Transport::Udp,
                    local: SocketAddr::V4(ends.destination),
                    remote: SocketAddr::V4(ends.source),
                    connection: None,
                };
                self.level = Level::of((self.memory)());
                if self.level == Level::Exhausted {
                    self.dropped += 1;
                    continue;
                }
                if let Some(answer) = shortage::refusal_at(self.level, &flow, datagram.payload) {
                    self.network.send(now, SIP, ends.source, &answer);
                    continue;
                }
                let (time, waited) = (clock(), datagram.waited);
                self.worker.note_wait(Transport::Udp, time, waited);
                self.worker.receive_late(time, waited, &flow, datagram.payload, &mut self.out);
                self.act(now);
                self.total.count += 1;
                self.total.nanoseconds += nanoseconds().saturating_sub(start);
            } else if let Some(media) = &mut self.media
                && media.ports().is_open(ends.destination.port())
            {
                if let Some((outgoing, packet)) = media.receive(now, ends, datagram.payload) {
                    self.network.send(now, outgoing.port, outgoing.to, packet);
                    self.network.expedite(now, ends.destination.port(), *outgoing.to.ip());
                }
            } else if self.accounts.port() == Some(ends.destination.port()) {
                let came =
                    self.accounts.receive(now, ends.source, datagram.payload, (self.memory)());
                self.on_fetch(came, now);
            } else if ends.destination.port() == sntp::PORT {
                let keeper = self.time_keeper.as_mut();
                let heard =
                    keeper.and_then(|keeper| keeper.receive(now, ends.source, datagram.payload));
                if let Some(offset) = heard {
                    self.set_clock(now, offset);
                }
            } else if let Some(host) = self.options.query
                && host.port() == ends.destination.port()
            {
                // The rate limit protects a host against forged queries in its name.
                if host.ip() == ends.source.ip() && now >= self.next_answer {
                    self.next_answer = now + LOOK;
                    let steps = self.engine.timings().map(|(step, timing)| (step.name(), timing));
                    let rewrite = Timing { count: counts.rewritten, nanoseconds: counts.rewriting };
                    let frames = [self.total, rewrite];
                    let answer = query::answer(datagram.payload, steps.into_iter(), frames);
                    self.network.send(now, host.port(), ends.source, answer.as_bytes());
                }
            } else {
                let port = ends.destination.port();
                let payload = datagram.payload;
                self.resolver.receive(now, ends.source, port, payload, &mut self.random);
                self.go_on_with_searches(now);
            }
        }
        for undelivered in self.network.undelivered() {
            let Ends { source, destination } = undelivered.ends;
            if source.port() == SIP {
                let (remote, quoted) = (SocketAddr::V4(destination), &undelivered.payload);
                self.worker.unreachable(now, remote, quoted, &mut self.out);
                self.act(now);
            }
        }
        if self.worker.next_timer().is_some_and(|time| time <= now) {
            self.worker.on_timer(now, &mut self.out);
            self.act(now);
        }
        if self.accounts.is_busy() {
            self.go_on_with_accounts(now);
        }
        if self.next_fetch.is_some_and(|time| time <= now) && !self.accounts.is_busy() {
            self.fetch(now);
        }
        if self.resolver.next_time().is_some_and(|time| time <= now) {
            self.resolver.on_time(now, &mut self.random);
            self.go_on_with_searches(now);
        }
        if now >= self.next_look {
            self.look_around(now);
        }
        let polled = self.network.poll(now);
        if self.phase == Phase::Ready && (polled.has_stirred || now >= self.next_round) {
            self.go_on_with_connections(now);
        }
        let (network, log) = (&mut self.network, &mut self.log);
        if let Some(address) = self.attachment.follow(now, polled, network, log) {
            self.on_address(address, now);
        }
    }

    /// Checks states that change without an event.
    fn look_around(&mut self, now: Instant) {
        self.next_look = now + LOOK;
        self.level = Level::of((self.memory)());
        self.tell_memory();
        if let Some(media) = &self.media {
            media.end_calls(now, &mut self.worker, &mut self.log, &mut self.out);
            self.act(now);
        }
        let number = u64::from_le_bytes(self.random.bytes());
        let question = self.time_keeper.as_mut().and_then(|keeper| keeper.transmit(now, number));
        if let Some((server, message)) = question {
            self.network.send(now, sntp::PORT, server, &message);
        }
        if let (Some(syslog), true) = (&mut self.syslog, self.phase == Phase::Ready) {
            syslog.send(now, &self.log, &mut self.network);
        }
    }

    /// Logs changes of the memory state.
    fn tell_memory(&mut self) {
        let now = (self.level, self.dropped, self.connections.shed_count());
        let (level, dropped, shed) = core::mem::replace(&mut self.told, now);
        if now.0 != level {
            self.log.say(format_args!(
                "{}",
                match now.0 {
                    Level::Plenty => "memory is there again",
                    Level::Short => "memory is short: new requests are refused",
                    Level::Exhausted => "memory is exhausted: messages are dropped",
                }
            ));
        }
        if now.1 != dropped {
            self.log.say(format_args!("{} messages were dropped for want of memory", now.1));
        }
        if now.2 != shed {
            self.log.say(format_args!("{} connections were ended for want of memory", now.2));
        }
    }

    /// Bytes of memory that connections may hold now.
    fn room_for_connections(&self) -> usize {
        let share = Budget::of((self.memory)().claimed).connections;
        if self.level == Level::Plenty { share } else { share / 4 }
    }

    fn go_on_with_connections(&mut self, now: Instant) {
        self.next_round = now + ROUND;
        let mut news = Vec::new();
        let stack = self.network.stack(now);
        self.connections.accept(now, stack, &self.engine);
        let (worker, out) = (&mut self.worker, &mut self.out);
        if self.connections.step(now, stack, self.level, worker, out, &mut news) {
            self.next_round = now;
        }
        self.tell(now, news);
        self.act(now);
        let (mut news, most) = (Vec::new(), self.room_for_connections());
        self.connections.shed(self.network.stack(now), most, &mut news);
        self.tell(now, news);
        self.act(now);
    }

    /// Reports events of connections to the engine.
    fn tell(&mut self, now: Instant, news: Vec<News>) {
        for news in news {
            match news {
                News::Ended(connection) => {
                    self.worker.connection_ended(now, connection, &mut self.out);
                }
                News::Unsent(flow, bytes) => {
                    self.worker.undeliverable(now, &flow, &bytes, &mut self.out);
                }
            }
        }
    }

    /// Opens and closes ports for DNS queries, sends them, and reports results to the engine.
    fn go_on_with_searches(&mut self, now: Instant) {
        let (opened, closed, queries) = self.resolver.work();
        opened.into_iter().for_each(|port| self.network.listen(port));
        closed.into_iter().for_each(|port| self.network.close(port));
        for (port, server, query) in queries {
            self.network.send(now, port, server, &query);
        }
        while let Some((ticket, targets)) = self.resolver.found() {
            let location = |target: sip::locate::Target| Location {
                transport: target.transport,
                remote: target.address,
                local: None,
            };
            let locations: Vec<_> = targets.into_iter().map(location).collect();
            self.worker.located(now, ticket, &locations, &mut self.out);
        }
        if !self.out.is_empty() {
            self.act(now);
        }
    }

    /// Executes the output of the engine.
    fn act(&mut self, now: Instant) {
        while !self.out.is_empty() {
            let mut out = core::mem::take(&mut self.out);
            self.changes += u64::from(!out.journal.is_empty());
            let mut unsent = Vec::new();
            for transmit in &out.transmits {
                let bytes = &out.bytes[transmit.range.clone()];
                let flow = &transmit.flow;
                match (flow.transport, flow.remote) {
                    (Transport::Udp, SocketAddr::V4(remote)) => {
                        self.network.send(now, SIP, remote, bytes);
                    }
                    (Transport::Tcp, _) => {
                        // A port that is not in use by a connection closed just before.
                        let port = 49_152 + self.random.below(16_384) as u16;
                        let stack = self.network.stack(now);
                        let sent =
                            self.connections.send(now, stack, &self.engine, flow, port, bytes);
                        unsent.extend(sent.err());
                    }
                    _ => {}
                }
            }
            let mut searches = false;
            for event in out.events.drain(..) {
                match event {
                    Event::Notice(notice) => self.log.say(format_args!("{notice}")),
                    Event::CallEnded(record) => {
                        self.log.say(format_args!("{}", quality::Ended(&record)));
                    }
                    Event::Locate { destination, ticket, .. } => {
                        self.resolver.locate(now, destination, ticket, &mut self.random);
                        searches = true;
                    }
                    // There is neither a notifier nor a push notification service.
                    _ => {}
                }
            }
            out.clear();
            self.out = out;
            self.tell(now, unsent);
            if searches {
                self.go_on_with_searches(now);
            }
        }
    }

    fn on_address(&mut self, address: Option<Address>, now: Instant) {
        if self.network.address() == address.as_ref() {
            return;
        }
        let ours = |address: &Address| address.ours;
        if let (Some(new), Phase::Ready) = (&address, self.phase)
            && self.network.address().map(ours) == Some(new.ours)
        {
            // Only the servers beside the address have changed: connections and users stay.
            self.network.set_address(address);
            self.use_servers(now);
            self.next_fetch = Some(now);
            return;
        }
        self.end_fetch();
        self.network.close(SIP);
        self.network.close(sntp::PORT);
        self.options.query.iter().for_each(|host| self.network.close(host.port()));
        let mut news = Vec::new();
        self.connections.end_all(self.network.stack(now), &mut news);
        self.tell(now, news);
        self.act(now);
        self.network.set_address(address);
        match self.network.address() {
            Some(address) => {
                self.log.say(format_args!("address {}", address.ours));
                self.use_servers(now);
                self.network.listen(sntp::PORT);
                self.options.query.iter().for_each(|host| self.network.listen(host.port()));
                self.configure();
                self.phase = Phase::Users;
                self.next_fetch = Some(now);
                let realm = config::domain(&self.options, self.ours()).name;
                if self.accounts.since(&realm).is_some() {
                    self.tell_age(now);
                    self.begin_to_serve(now);
                }
            }
            None => {
                self.log.say(format_args!("the lease has ended"));
                self.phase = Phase::Address;
            }
        }
    }

    /// Uses the DNS and NTP servers that belong to our address.
    fn use_servers(&mut self, now: Instant) {
        let Some(address) = self.network.address() else { return };
        self.resolver.set_servers(self.options.machine.dns(address));
        let time_server = match self.options.sntp {
            Sntp::ByDhcp => address.ntp,
            Sntp::Server(server) => Some(server),
            Sntp::Off => None,
        };
        self.time_keeper = time_server.map(|server| TimeKeeper::new(server, now));
    }

    fn ours(&self) -> Option<IpAddr> {
        self.network.address().map(|address| IpAddr::V4(address.ours.address()))
    }

    /// Configures the engine with our address and the users' algorithms.
    fn configure(&mut self) {
        let ours = self.ours();
        let config =
            config::config(&self.options, ours, &self.accounts.algorithms, (self.memory)().claimed);
        self.engine.configure(config);
    }

    fn begin_to_serve(&mut self, now: Instant) {
        let Some(ours) = self.ours() else { return };
        self.network.listen(SIP);
        self.network.stack(now).listen(SIP);
        self.phase = Phase::Ready;
        self.log.say(format_args!("ready: SIP by UDP and TCP at {ours}:{SIP}"));
    }
}
