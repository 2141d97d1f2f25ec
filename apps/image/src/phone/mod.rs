//! The phone: at most one account and one call, in one thread of execution.

mod call;
mod events;
mod leg;
mod ports;
pub mod screens;

pub use call::{Call, Stage};

use crate::attachment::Attachment;
use crate::dns::Resolver;
use crate::log::Log;
use crate::machine::clock::nanoseconds;
use crate::machine::random::Random;
use crate::net::{Address, HeaderTimes, Network};
use crate::options::phone::{Options, Sounds};
use crate::sound::Sound;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use leg::{Leg, Source};
use media::tone::Tone;
use media::{Clock, MediaConfig, Received};
use ports::Ports;
use sip::locate::Destination;
use sip::{Flow, Instant, Transport};
use sip_ua::{Account, AccountId, Agent, Config, Failure, Location, Password, Ticket, Transmit};
use smoltcp::wire::EthernetAddress;
use srtp::timings::{Step, Timing};

/// The SIP port.
const SIP: u16 = 5060;
/// Maximum number of datagrams handled before sound is due.
const TURN: usize = 64;

/// The purpose of a DNS search.
#[derive(Debug)]
enum Search {
    /// A request of the engine.
    Engine(Ticket),
    /// The STUN server.
    Stun,
}

/// The state of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// There is no account: calls are direct.
    None,
    /// The REGISTER is pending.
    Asking,
    /// It is registered.
    Registered,
    /// The registration failed for this reason.
    Failed(String),
}

/// The phone.
pub struct Phone {
    options: Options,
    network: Network,
    attachment: Attachment,
    agent: Agent,
    account: Option<AccountId>,
    login: Login,
    resolver: Resolver<Search>,
    stun: Option<SocketAddr>,
    /// The ports of the next call behind a NAT. Their public address is asked for at once.
    spare: Option<Ports>,
    call: Option<Call>,
    /// The peer of the last call, and the reason for its end.
    last_end: Option<String>,
    /// The source of the last SIP datagram.
    host: Option<IpAddr>,
    sound: Box<dyn Sound>,
    random: Random,
    /// The log.
    pub log: Log,
}

impl fmt::Debug for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Phone").field("login", &self.login).finish_non_exhaustive()
    }
}

impl Phone {
    /// A phone on this network with this sound device.
    #[must_use]
    pub fn new(
        options: Options,
        network: Network,
        sound: Box<dyn Sound>,
        mut random: Random,
        now: Instant,
    ) -> Self {
        let config = Config {
            direct_calls: options.direct,
            incoming_calls: 1,
            // Redirections are not followed: the user is not asked to confirm them.
            redirects: 0,
            user_agent: concat!("barebell-image/", env!("CARGO_PKG_VERSION")).into(),
            ..Config::default()
        };
        let attachment = Attachment::new(options.machine.fixed(), now);
        let mut agent = Agent::new(config, &random.bytes());
        agent.shorten_by(media::shorten);
        Self {
            options,
            network,
            attachment,
            agent,
            account: None,
            login: Login::None,
            resolver: Resolver::default(),
            stun: None,
            spare: None,
            call: None,
            last_end: None,
            host: None,
            sound,
            random,
            log: Log::default(),
        }
    }

    /// The host that had our network address first, if the address was given up for that.
    #[must_use]
    pub fn rival(&self) -> Option<EthernetAddress> {
        self.attachment.rival()
    }

    /// Our network address, if there is one.
    #[must_use]
    pub fn address(&self) -> Option<&Address> {
        self.network.address()
    }

    /// The DHCP server of our address, and the time of the lease in seconds.
    #[must_use]
    pub fn lease(&self) -> Option<(Ipv4Addr, u32)> {
        self.network.lease()
    }

    /// The state of the account.
    #[must_use]
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The call, if there is one.
    #[must_use]
    pub fn call(&self) -> Option<&Call> {
        self.call.as_ref()
    }

    /// The peer of the last call, and the reason for its end.
    #[must_use]
    pub fn last_end(&self) -> Option<&str> {
        self.last_end.as_deref()
    }

    /// Runs what is due at `now`.
    pub fn step(&mut self, now: Instant) {
        self.log.set_time(now);
        if !self.attachment.has_begun() {
            let address = self.attachment.begin(now, &mut self.network, &mut self.log);
            return self.on_address(address, now);
        }
        for _ in 0..TURN {
            let Some(datagram) = self.network.receive(now) else { break };
            let (ends, port) = (datagram.ends, datagram.ends.destination.port());
            let from = SocketAddr::V4(ends.source);
            if port == SIP {
                let flow = Flow {
                    transport: Transport::Udp,
                    local: SocketAddr::V4(ends.destination),
                    remote: from,
                    connection: None,
                };
                self.host = Some(from.ip());
                self.agent.receive(now, &flow, datagram.payload);
                self.act(now);
            } else if let Some(spare) = self.spare.as_mut().filter(|spare| spare.has(port)) {
                spare.receive(now, from, datagram.payload);
            } else if self.call.as_ref().is_some_and(|call| call.leg.ports.has(port)) {
                let (mut memory, length) = leg::copy(datagram.payload);
                let leg = self.call.as_mut().map(|call| &mut call.leg);
                let heard = leg.map(|leg| leg.receive(now, port, from, &mut memory[..length]));
                if let Some(Received::Digit(key)) = heard {
                    self.log.say(format_args!("the other end has pressed {key}"));
                }
            } else {
                let payload = datagram.payload;
                self.resolver.receive(now, ends.source, port, payload, &mut self.random);
                self.go_on_with_searches(now);
            }
        }
        for undelivered in self.network.undelivered() {
            if undelivered.ends.source.port() == SIP {
                self.agent.undeliverable(now, &undelivered.payload, Failure::Unreachable);
                self.act(now);
            }
        }
        if self.agent.next_timer().is_some_and(|time| time <= now) {
            self.agent.on_timer(now);
            self.act(now);
        }
        if self.resolver.next_time().is_some_and(|time| time <= now) {
            self.resolver.on_time(now, &mut self.random);
            self.go_on_with_searches(now);
        }
        self.look_outside(now);
        self.go_on_with_call(now);
        let polled = self.network.poll(now);
        let (network, log) = (&mut self.network, &mut self.log);
        if let Some(address) = self.attachment.follow(now, polled, network, log) {
            self.on_address(address, now);
        }
    }

    fn on_address(&mut self, address: Option<Address>, now: Instant) {
        if self.network.address() == address.as_ref() {
            return;
        }
        match &address {
            Some(address) => {
                self.log.say(format_args!("address {}", address.ours));
                self.resolver.set_servers(self.options.machine.dns(address));
                self.network.listen(SIP);
            }
            None => {
                self.log.say(format_args!("the lease has ended"));
                self.network.close(SIP);
            }
        }
        self.network.set_address(address);
        // The public address is another one.
        if let Some(spare) = self.spare.take() {
            spare.close(&mut self.network);
        }
        if self.network.address().is_none() {
            return;
        }
        // Registrations and calls continue from the new address, also after a time without one.
        self.agent.network_changed(now);
        self.act(now);
        if let Some((host, port)) = self.options.stun.clone() {
            let (port, transport) = (Some(port), Some(Transport::Udp));
            let destination = Destination { host, port, transport, sips: false };
            self.resolver.locate(now, destination, Search::Stun, &mut self.random);
            self.go_on_with_searches(now);
        }
        if self.account.is_none() {
            self.register(now);
        }
        if let Some(uri) = self.options.call.take() {
            self.place(now, &uri);
        }
    }

    /// Logs in as `uri`, through `server` if given, once there is a network.
    pub fn log_in(&mut self, now: Instant, uri: &str, password: &str, server: Option<&str>) {
        self.options.account = Some(uri.into());
        self.options.password = (!password.is_empty()).then(|| password.into());
        self.options.server = server.map(String::from);
        self.login = Login::Asking;
        if let Some(account) = self.account.take() {
            self.agent.forget_account(account);
        }
        if self.ours().is_some() {
            self.register(now);
        }
    }

    /// Registers the account of the options, if there is one.
    fn register(&mut self, now: Instant) {
        let Some(uri) = &self.options.account else { return };
        let password = self.options.password.as_deref().map(Password::new);
        let proxy = self.options.server.as_ref().map(|server| format!("sip:{server};lr"));
        self.account =
            self.agent.add_account(Account { password, proxy, ..Account::new(uri) }).ok();
        let Some(account) = self.account else {
            self.login =
                Login::Failed(format!("{uri} is not a SIP address such as sip:alice@example.org"));
            return;
        };
        self.login = Login::Asking;
        self.log.say(format_args!("logging in as {uri}"));
        self.agent.register(now, account);
        self.act(now);
    }

    /// Calls `uri`. [`Phone::call`] and the log show the result.
    pub fn place(&mut self, now: Instant, uri: &str) {
        if self.call.is_some() {
            return self.log.say(format_args!("there is a call already"));
        }
        let uri = whole(uri);
        let Some(leg) = self.new_leg(now) else {
            self.last_end = Some(format!("{uri}: there is no network yet"));
            return self.log.say(format_args!("there is no network yet"));
        };
        self.log.say(format_args!("calling {uri}"));
        self.call = Some(Call::new(uri, Stage::Opening, leg, now));
    }

    /// Answers the call that rings here.
    pub fn answer(&mut self, now: Instant) {
        let Some(call) = &mut self.call else { return };
        if call.stage != Stage::RingingHere {
            return;
        }
        if call.leg.call.answer(&mut self.agent, now).is_ok() {
            call.stand(now);
            self.log.say(format_args!("the call is established"));
        }
        self.act(now);
    }

    /// Ends the call at any stage.
    pub fn hang_up(&mut self, now: Instant) {
        let Some(call) = &self.call else { return };
        match (call.id, call.stage) {
            (Some(id), Stage::Opening | Stage::RingingHere) => {
                let _ = self.agent.decline(now, id, 603);
            }
            (Some(id), _) => {
                let _ = self.agent.hang_up(now, id);
            }
            (None, _) => self.end_call(now, "taken back"),
        }
        self.act(now);
    }

    /// Asks the remote end to call `uri` (RFC 5589 section 6). The log shows the result; the call
    /// ends here once the transfer succeeds.
    pub fn transfer(&mut self, now: Instant, uri: &str) {
        let Some(id) = self.call.as_ref().and_then(|call| call.id) else { return };
        let uri = whole(uri);
        match self.agent.transfer(now, id, &uri) {
            Ok(()) => self.log.say(format_args!("asking the other end to call {uri}")),
            Err(error) => self.log.say(format_args!("not transferred: {error}")),
        }
        self.act(now);
    }

    /// Sends a DTMF key in the call.
    pub fn press(&mut self, now: Instant, key: char) {
        let Some(call) = self.call.as_mut().filter(|call| call.leg.session().is_some()) else {
            return;
        };
        if let Err(error) = call.leg.call.press(&mut self.agent, now, key) {
            self.log.say(format_args!("key not sent: {error}"));
        }
        self.act(now);
    }

    /// Mutes or unmutes the call.
    pub fn mute(&mut self) {
        if let Some(call) = &mut self.call {
            call.leg.call.mute(!call.leg.call.is_muted());
        }
    }

    fn ours(&self) -> Option<Ipv4Addr> {
        self.network.address().map(|address| address.ours.address())
    }

    fn new_leg(&mut self, now: Instant) -> Option<Leg> {
        let ours = self.ours()?;
        let media_config = MediaConfig {
            codecs: leg::codecs(),
            security: self.options.srtp,
            plus: self.options.plus,
            ..MediaConfig::default()
        };
        let source = match self.options.sound {
            Sounds::Silence => Source::Silence,
            Sounds::Tone(hertz) => Source::Tone(Tone::new(hertz.into(), leg::RATE, 8000)),
            Sounds::Echo => Source::Echo,
            Sounds::Device => Source::Microphone,
        };
        self.look_outside(now);
        let spare = self.spare.take();
        let (network, random) = (&mut self.network, &mut self.random);
        let ports = spare.unwrap_or_else(|| Ports::open(now, None, network, random));
        if self.options.timings {
            network.time_headers(ports.rtp());
        }
        let clock: Clock = nanoseconds;
        let stopwatch = self.options.timings.then_some(clock);
        Some(Leg::new(now, ours, media_config, stopwatch, source, ports, random))
    }

    /// Asks for the public address of the ports of the next call, until there is a call.
    fn look_outside(&mut self, now: Instant) {
        if self.spare.is_none() && self.call.is_none() {
            // A public address needs no STUN.
            let is_private = self.ours().is_some_and(|ours| ours.is_private());
            let Some(stun) = self.stun.filter(|_| is_private) else { return };
            let ports = Ports::open(now, Some(stun), &mut self.network, &mut self.random);
            self.spare = Some(ports);
        }
        if let Some(spare) = &mut self.spare {
            spare.step(now, &mut self.network, &mut self.random);
        }
    }

    /// The RTP port of the call or else of the next one, and its public address if a STUN server
    /// has reported it.
    #[must_use]
    pub fn rtp(&self) -> Option<(u16, Option<SocketAddr>)> {
        let ports = self.call.as_ref().map(|call| &call.leg.ports).or(self.spare.as_ref())?;
        Some((ports.rtp(), ports.mapped()))
    }

    /// The public address of the SIP port, as the registrar sees it.
    #[must_use]
    pub fn seen(&self) -> Option<SocketAddr> {
        self.agent.seen(self.account?)
    }

    fn go_on_with_call(&mut self, now: Instant) {
        let Some(call) = &mut self.call else { return };
        call.leg.step(now, &self.agent, &mut *self.sound, &mut self.network, &mut self.random);
        if call.stage != Stage::Opening || call.leg.ports.is_waiting(now) {
            return;
        }
        if let Some(id) = call.id {
            self.ring(now, id);
        } else {
            call.leg.prepare(None);
            let random = &mut |bytes: &mut [u8]| self.random.fill(bytes);
            let (agent, account) = (&mut self.agent, self.account);
            match call.leg.call.place(agent, now, account, &call.party, random) {
                Ok(id) => (call.id, call.stage) = (Some(id), Stage::Calling),
                Err(error) => {
                    let why = format!("{error}");
                    self.end_call(now, &why);
                }
            }
        }
        self.act(now);
    }

    /// Sends the engine's messages and handles its events.
    fn act(&mut self, now: Instant) {
        loop {
            while let Some(Transmit { flow, bytes }) = self.agent.poll_transmit() {
                match (flow.transport, flow.remote) {
                    (Transport::Udp, SocketAddr::V4(remote)) => {
                        self.network.send(now, SIP, remote, &bytes);
                    }
                    _ => self.agent.undeliverable(now, &bytes, Failure::Unreachable),
                }
            }
            let Some(event) = self.agent.poll_event() else { return };
            self.on_event(now, event);
        }
    }

    fn go_on_with_searches(&mut self, now: Instant) {
        let (opened, closed, queries) = self.resolver.work();
        opened.into_iter().for_each(|port| self.network.listen(port));
        closed.into_iter().for_each(|port| self.network.close(port));
        for (port, server, query) in queries {
            self.network.send(now, port, server, &query);
        }
        while let Some((what, targets)) = self.resolver.found() {
            match what {
                Search::Stun => self.stun = targets.first().map(|target| target.address),
                Search::Engine(ticket) => {
                    let Some(ours) = self.ours() else { continue };
                    let local = Some(SocketAddr::new(IpAddr::V4(ours), SIP));
                    let location = |target: &sip::locate::Target| Location {
                        transport: target.transport,
                        remote: target.address,
                        local,
                    };
                    // This phone supports only UDP.
                    let targets =
                        targets.iter().filter(|target| target.transport == Transport::Udp);
                    let locations: Vec<_> = targets.map(location).collect();
                    self.agent.located(now, ticket, &locations);
                    self.act(now);
                }
            }
        }
    }

    fn end_call(&mut self, now: Instant, why: &str) {
        let Some(mut call) = self.call.take() else { return };
        call.leg.close(now, &mut self.network);
        self.sound.rest();
        self.log.say(format_args!("the call has ended: {why}"));
        self.last_end = Some(format!("{}: {why}", call.party));
        if let Some(session) = call.leg.session() {
            let totals = session.statistics();
            self.log.say(format_args!(
                "{} packets sent, {} received, {} lost",
                totals.sent,
                totals.received,
                totals.lost()
            ));
            for (suite, timings) in session.timings() {
                let suite = suite.name();
                self.log.say(format_args!("SRTP {suite}: mean times of the steps"));
                for step in Step::ALL {
                    self.say_time(step.name(), timings.get(step));
                }
            }
        }
        if let Some(HeaderTimes { outgoing, incoming }) = self.network.header_times() {
            self.say_time("network headers, outgoing", outgoing);
            self.say_time("network headers, incoming", incoming);
        }
    }

    /// Logs the mean time of a step.
    fn say_time(&mut self, name: &str, Timing { count, nanoseconds }: Timing) {
        if let Some(mean) = nanoseconds.checked_div(count) {
            self.log.say(format_args!("{name}: {mean} ns, {count} times"));
        }
    }
}

/// Completes an address that was typed without its scheme.
fn whole(uri: &str) -> String {
    if uri.contains(':') { uri.into() } else { format!("sip:{uri}") }
}
