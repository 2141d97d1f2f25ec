//! The running phone: one thread for sockets, timers and sound. [`commands`] has its commands,
//! [`PhoneEvent`] is its events.

mod accounts;
mod commands;
mod ears;
mod events;
mod ice;
mod outside;
mod transfer;

use crate::audio::Recording;
use crate::call::{Call, Stage};
use crate::devices::{self, Devices, Wanted};
use crate::exchange::Exchange;
use crate::ice::{Ice, IceSetup};
use crate::leg::{Leg, Sound};
use crate::links::{Arrival, Links};
use crate::lookups::{Asker, Lookups};
use crate::outcome::Outcome;
use crate::ports::Ports;
use crate::random::random;
use crate::report::PhoneEvent;
use crate::ringer::Ringer;
use crate::secrets::Secrets;
use crate::sockets::failure_of;
use crate::system::Watch;
use crate::tap::Tap;
use crate::trace::{Trace, Traced};
use dtls::Identity;
use media::audio_meter::AudioMeter;
use media::{KeyAgreement, MediaConfig, Received};
use net::Clock;
use net::tls::Trust;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use sip_ua::{Account, AccountId, Agent, CallId, Config, Event, Location, RegistrationState};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Duration of the sound in a packet.
const FRAME: Duration = Duration::from_millis(20);
/// Interval of the statistics events.
const TELLS: Duration = Duration::from_secs(5);
/// Sound that is later than this is skipped.
const TOO_LATE: Duration = Duration::from_millis(200);
/// Time that the end waits for pending requests: a lost BYE is retransmitted.
const FAREWELL: Duration = Duration::from_secs(2);

/// The setup of a phone.
pub(crate) struct Setup {
    pub(crate) accounts: Vec<Account>,
    /// The listening address of SIP.
    pub(crate) listen: SocketAddr,
    /// True if a phone with an account may use another port when that one is in use: the registrar
    /// learns it.
    pub(crate) may_listen_elsewhere: bool,
    pub(crate) media_config: MediaConfig,
    /// The certificate for DTLS-SRTP, if it is in the media configuration.
    pub(crate) identity: Option<Identity>,
    /// The secrets for ZRTP, if it is in the media configuration.
    pub(crate) secrets: Option<Secrets>,
    /// The sound source of each call.
    pub(crate) sound: Sound,
    /// True if it is sent before the answer.
    pub(crate) early: bool,
    /// The detector on received sound, for each call.
    pub(crate) ear: AudioMeter,
    /// The recording of received sound.
    pub(crate) record: Option<PathBuf>,
    /// The trace and capture of packets.
    pub(crate) tap: Tap,
    /// Maximum number of incoming calls at a time.
    pub(crate) incoming_calls: usize,
    /// True if calls are accepted that do not come through the server of an account.
    pub(crate) direct_calls: bool,
    /// True if accounts subscribe to their message counts.
    pub(crate) subscribes: bool,
    /// The parameters of a push notification service in contacts. It may be empty.
    pub(crate) push: String,
    /// STUN servers, which report the public addresses of media ports.
    pub(crate) stun: Vec<SocketAddr>,
    /// The servers of ICE, if it is used.
    pub(crate) ice: Option<IceSetup>,
    /// True if the time of each SRTP step is measured.
    pub(crate) timings: bool,
    /// True if silence is suppressed when the remote end can generate comfort noise.
    pub(crate) suppresses_silence: bool,
    /// The sound devices, if they are used.
    pub(crate) devices: Option<Wanted>,
    /// The trust anchors of TLS.
    pub(crate) trust: Trust,
    /// The From URI of calls without an account.
    pub(crate) from: Option<String>,
    /// The time limit for ringing; `None` for the default.
    pub(crate) ringing: Option<sip::Duration>,
}

/// The phone's state of an account.
pub(crate) struct Line {
    pub(crate) uri: String,
    /// The outbound proxy.
    proxy: Option<String>,
    pub(crate) registers: bool,
    /// The state of the registration; `None` before the first result.
    pub(crate) state: Option<RegistrationState>,
}

impl Line {
    fn of(account: &Account) -> Self {
        Self {
            uri: account.uri.clone(),
            proxy: account.proxy.clone(),
            registers: account.registers,
            state: None,
        }
    }
}

/// Makes the current thread wake up punctually. Failures are ignored.
fn punctual() {
    let _ = net::take_short_turns();
    // The timer slack of Linux in nanoseconds, by which timers may be late to be merged: the
    // default is 50,000.
    let _ = set_timerslack(1);
}

/// The running phone.
pub(crate) struct Phone {
    agent: Agent,
    clock: Clock,
    epoch: Instant,
    links: Links,
    lookups: Lookups,
    waker: UnixStream,
    interrupted: Arc<AtomicBool>,
    lines: Vec<Line>,
    media_config: MediaConfig,
    identity: Option<Identity>,
    secrets: Option<Secrets>,
    sound: Sound,
    early: bool,
    ear: AudioMeter,
    record: Option<PathBuf>,
    recorded: u64,
    calls: BTreeMap<u64, Call>,
    /// The numbers of the calls that the engine knows.
    numbers: HashMap<CallId, u64>,
    /// The number of the last call.
    last: u64,
    told: VecDeque<PhoneEvent>,
    trace: Trace,
    tap: Tap,
    stun: Vec<SocketAddr>,
    ice: Option<IceSetup>,
    /// Ports for the next call, with the public address determined in advance.
    spare: Option<Ports>,
    /// Calls that wait for the public address, and their destinations.
    unmapped: Vec<(u64, SocketAddr)>,
    /// Incoming calls that wait for the public address.
    unmapped_incoming: Vec<Event>,
    timings: bool,
    suppresses_silence: bool,
    network: Watch,
    devices: Option<Devices>,
    ringer: Ringer,
    next_tick: Instant,
    next_tell: Instant,
    next_look: Instant,
}

impl Phone {
    /// A phone that listens.
    ///
    /// # Errors
    /// The outcome of the program if it cannot start.
    pub(crate) fn new(setup: Setup) -> Result<Self, Outcome> {
        let failed = |error: std::io::Error| Outcome::Failed(error.to_string());
        let wanted = setup.listen;
        // A direct caller finds the phone at its usual port only.
        let has_registrar = !setup.accounts.is_empty() && !setup.direct_calls;
        let may_move = setup.may_listen_elsewhere && has_registrar;
        let links = match may_move {
            true => Links::open_near(wanted, setup.trust),
            false => Links::open(wanted, setup.trust),
        };
        let links = links.map_err(|error| {
            Outcome::Failed(format!(
                "cannot listen on {wanted}: {error}; choose another place with --listen"
            ))
        })?;
        punctual();
        let lines = setup.accounts.iter().map(Line::of).collect();
        let (waker, wakes) = UnixStream::pair().map_err(failed)?;
        waker.set_nonblocking(true).map_err(failed)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        let (flag, mut bell) = (Arc::clone(&interrupted), wakes.try_clone().map_err(failed)?);
        let handler = ctrlc::set_handler(move || {
            flag.store(true, Ordering::Relaxed);
            let _ = std::io::Write::write_all(&mut bell, b"c");
        });
        handler.map_err(|error| Outcome::Failed(error.to_string()))?;
        let mut secret = [0; 32];
        random(&mut secret);
        let accounts = setup.accounts;
        let incoming_calls = setup.incoming_calls;
        let direct_calls = setup.direct_calls;
        let mut config = Config { accounts, incoming_calls, direct_calls, ..Config::default() };
        config.from = setup.from;
        config.subscribes = setup.subscribes;
        config.push = setup.push;
        config.ringing = setup.ringing.unwrap_or(config.ringing);
        let now = Instant::now();
        let listening = |local: SocketAddr| {
            ["udp", "tcp"]
                .map(|transport| PhoneEvent::Listening { address: format!("{transport}:{local}") })
        };
        let told = links.locals().flat_map(listening).collect();
        let mut agent = Agent::new(config, &secret);
        agent.shorten_by(media::shorten);
        let mut phone = Self {
            agent,
            clock: Clock::start(),
            epoch: now,
            links,
            lookups: Lookups::start(wakes).map_err(failed)?,
            waker,
            interrupted,
            lines,
            media_config: setup.media_config,
            identity: setup.identity,
            secrets: setup.secrets,
            sound: setup.sound,
            early: setup.early,
            ear: setup.ear,
            record: setup.record,
            recorded: 0,
            calls: BTreeMap::new(),
            numbers: HashMap::new(),
            last: 0,
            told,
            trace: Trace::default(),
            tap: setup.tap,
            stun: setup.stun,
            ice: setup.ice,
            spare: None,
            unmapped: Vec::new(),
            unmapped_incoming: Vec::new(),
            timings: setup.timings,
            suppresses_silence: setup.suppresses_silence,
            network: Watch::start(),
            devices: setup.devices.map(Devices::new),
            ringer: Ringer::new(devices::RATE),
            next_tick: now,
            next_tell: now + TELLS,
            next_look: now,
        };
        phone.prepare();
        Ok(phone)
    }

    /// Returns the next event.
    pub(crate) fn poll(&mut self) -> Option<PhoneEvent> {
        self.told.pop_front()
    }

    /// Returns true if there are events that are not polled yet.
    pub(crate) fn has_news(&self) -> bool {
        !self.told.is_empty()
    }

    /// The calls, by their numbers.
    pub(crate) const fn calls(&self) -> &BTreeMap<u64, Call> {
        &self.calls
    }

    /// The accounts.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The address and port of SIP as the registrar of an account sees them.
    pub(crate) fn seen(&self, account: AccountId) -> Option<SocketAddr> {
        self.agent.seen(account)
    }

    /// The listening addresses of SIP, which may be unspecified.
    pub(crate) fn locals(&self) -> Vec<SocketAddr> {
        self.links.locals().collect()
    }

    /// The last messages, the oldest first.
    pub(crate) const fn trace(&self) -> &VecDeque<Traced> {
        self.trace.messages()
    }

    /// Returns true if the signalling of `call` is encrypted on the way to the next hop.
    pub(crate) fn is_secured(&self, call: &Call) -> bool {
        call.id().is_some_and(|id| self.agent.is_secured(id))
    }

    /// Returns true if Ctrl-C was pressed since the last call of this function.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.interrupted.swap(false, Ordering::Relaxed)
    }

    fn tell(&mut self, told: PhoneEvent) {
        self.told.push_back(told);
    }

    fn number_of(&self, id: CallId) -> Option<u64> {
        self.numbers.get(&id).copied()
    }

    /// Sets the leg of a call, and records the number of the call by its identifier in the engine.
    fn set_leg(&mut self, number: u64, leg: Leg) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        self.numbers.extend(leg.call.id().map(|id| (id, number)));
        call.leg = Some(leg);
    }

    /// A media leg for a call with the local address `local`.
    fn leg(&mut self, local: IpAddr) -> Result<Leg, Outcome> {
        let path = self.record.as_deref().map(|path| Recording::path(path, self.recorded));
        let recording = path.as_deref().map(Recording::begin).transpose();
        let recording = recording.map_err(Outcome::Failed)?;
        self.recorded += 1;
        let (sound, ear, tap) = (self.sound.clone(), self.ear.clone(), self.tap.clone());
        let exchange = self.secrets.clone().map(Exchange::new).transpose();
        let exchange = exchange.map_err(Outcome::Failed)?;
        let mut media_config = self.media_config.clone();
        for agreement in &mut media_config.key_agreements {
            if let (KeyAgreement::Zrtp(hash), Some(exchange)) = (agreement, &exchange) {
                *hash = exchange.hello_hash().to_string();
            }
        }
        let setup = ::call::Setup {
            early: self.early,
            suppresses_silence: self.suppresses_silence,
            stopwatch: self.timings.then_some(net::nanoseconds),
            ..::call::Setup::new(media_config, SocketAddr::new(local, 0))
        };
        let ports = self.ports(local);
        let leg = ports.and_then(|ports| {
            let handshakes = (self.identity.clone(), exchange);
            Leg::new(ports, setup, sound, handshakes, recording, ear, tap)
        });
        leg.map_err(|error| Outcome::Failed(format!("no port for media: {error}")))
    }

    /// Sends pending messages and handles pending engine events.
    pub(crate) fn settle(&mut self) {
        loop {
            while let Some(transmit) = self.agent.poll_transmit() {
                self.trace.note(true, transmit.flow, &transmit.bytes);
                self.tap.follow(self.trace.messages());
                if let Err(error) = self.links.send(&transmit) {
                    let failure = failure_of(&error);
                    self.agent.undeliverable(self.clock.now(), &transmit.bytes, failure);
                }
            }
            match self.agent.poll_event() {
                Some(event) => self.on_event(event),
                None => return,
            }
        }
    }

    /// Waits for input, also on `others`, or the next timer, at most until `until`.
    pub(crate) fn wait(&mut self, others: &[BorrowedFd<'_>], until: Option<Instant>) {
        let now = Instant::now();
        let mut end = now + Duration::from_secs(1);
        end = end.min(until.unwrap_or(end));
        if let Some(timer) = self.agent.next_timer() {
            end = end.min(self.clock.system(timer));
        }
        let passed = self.epoch.elapsed();
        if let Some(timer) = self.spare.as_mut().and_then(|spare| spare.next_timer(passed)) {
            end = end.min(self.epoch + timer);
        }
        if self.has_sound() {
            end = end.min(self.next_tick);
        }
        // Precise to the nanosecond: varying delays of parts of a millisecond are jitter.
        let rest = TimeSpec::from(end.saturating_duration_since(now));
        let reads = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds: Vec<PollFd<'_>> = self.links.fds().collect();
        fds.push(reads(self.waker.as_fd()));
        fds.extend(others.iter().copied().map(reads));
        let legs = self.calls.values().filter_map(|call| call.leg.as_ref());
        for leg in legs.filter(|leg| leg.is_flooded) {
            fds.extend([&leg.ports.rtp, &leg.ports.rtcp].map(|socket| reads(socket.as_fd())));
        }
        fds.extend(self.spare.iter().map(|ports| reads(ports.rtp.as_fd())));
        let ice = self.spare.iter().filter_map(|ports| ports.ice.as_ref());
        fds.extend(ice.flat_map(Ice::fds));
        // A signal ends the wait like input.
        let _ = ppoll(&mut fds, Some(rest), None);
    }

    /// Reads input and runs due timers.
    pub(crate) fn turn(&mut self) {
        let begun = Instant::now();
        let is_due = begun >= self.next_tick;
        if is_due {
            // First of all, so that packets leave at an even pace.
            self.send_sound(begun);
        }
        let mut bell = [0; 64];
        while matches!(self.waker.read(&mut bell), Ok(1..)) {}
        self.read_answers();
        let (agent, clock, trace) = (&mut self.agent, &self.clock, &mut self.trace);
        let tap = &mut self.tap;
        self.links.turn(&mut |arrival| match arrival {
            Arrival::Message(flow, bytes) => {
                trace.note(false, flow, bytes);
                tap.follow(trace.messages());
                agent.receive(clock.now(), &flow, bytes);
            }
            Arrival::Undeliverable(bytes, failure) => {
                agent.undeliverable(clock.now(), bytes, failure);
            }
            Arrival::Closed(transport, remote) => agent.closed(clock.now(), transport, remote),
        });
        let (now, at_now) = (self.epoch.elapsed(), self.clock.now());
        let told = &mut self.told;
        for (&number, call) in &mut self.calls {
            // Received packets are played at the next tick. Until then they wait in the kernel,
            // which knows their arrival times. Otherwise each packet of many calls would wake this
            // thread.
            let Some(leg) = call.leg.as_mut().filter(|leg| is_due || leg.is_flooded) else {
                continue;
            };
            leg.read(now, at_now, |heard| {
                if let Received::Digit(digit) = heard {
                    told.push_back(PhoneEvent::Dtmf { call: number, digit });
                }
            });
        }
        self.look_for_keys();
        self.look_outside(now);
        self.look_at_ice();
        if self.network.has_changed() {
            self.agent.network_changed(self.clock.now());
        }
        self.look_for_network(begun);
        self.agent.on_timer(self.clock.now());
        if is_due {
            self.play_sound(begun);
        }
        self.tell_figures(begun);
    }

    fn read_answers(&mut self) {
        let answers: Vec<_> = self.lookups.answers().collect();
        for (asker, mut targets) in answers {
            // Addresses of a family without a route come last.
            targets.sort_by_key(|target| !self.links.has_route(target.address));
            match asker {
                Asker::Call(number) => {
                    self.place(number, targets.first().map(|target| target.address));
                }
                Asker::Engine(ticket) => {
                    let locations = targets.iter().map(|target| Location {
                        transport: target.transport,
                        remote: target.address,
                        local: Some(self.links.local_towards(target.address)),
                    });
                    let locations: Vec<Location> = locations.collect();
                    self.agent.located(self.clock.now(), ticket, &locations);
                }
            }
        }
    }

    fn has_sound(&self) -> bool {
        self.calls.values().any(|call| call.leg.is_some())
    }

    /// Sends 20 ms of sound in all calls.
    fn send_sound(&mut self, now: Instant) {
        self.next_tick += FRAME;
        if now > self.next_tick + TOO_LATE {
            self.next_tick = now + FRAME;
        }
        let at = self.epoch.elapsed();
        let is_used = self.has_sound();
        let mut problems = Vec::new();
        let microphone = match &mut self.devices {
            Some(devices) if is_used => {
                problems = devices.open(now);
                devices.capture()
            }
            Some(devices) => {
                devices.close();
                Vec::new()
            }
            None => Vec::new(),
        };
        for call in self.calls.values_mut() {
            let Some(leg) = &mut call.leg else { continue };
            leg.say(&self.agent, at, self.clock.now(), &microphone);
        }
        self.told.extend(problems.into_iter().map(|cause| PhoneEvent::Device { cause }));
    }

    /// Plays 20 ms of sound of all calls.
    fn play_sound(&mut self, now: Instant) {
        let at = self.clock.now();
        let mut mix = [0; devices::FRAME];
        for call in self.calls.values_mut() {
            let Some(leg) = &mut call.leg else { continue };
            leg.play(at);
            if self.devices.is_some() {
                leg.speak(&mut mix);
                if leg.session().is_none() || call.stage == Stage::RingingHere {
                    self.ringer.ring(call.stage, now.duration_since(call.begun), &mut mix);
                }
            }
        }
        let is_used = self.has_sound();
        if let Some(devices) = self.devices.as_mut().filter(|_| is_used) {
            devices.play(&mix);
        }
    }

    /// Reports statistics when they are due.
    fn tell_figures(&mut self, now: Instant) {
        if now < self.next_tell {
            return;
        }
        self.next_tell = now + TELLS;
        for (&number, call) in &self.calls {
            let media = call.leg.as_ref().and_then(|leg| leg.figures(number));
            self.told.extend(media.map(PhoneEvent::Media));
        }
    }

    /// Ends calls and registrations, and waits briefly for pending requests.
    pub(crate) fn say_goodbye(&mut self) {
        let now = self.clock.now();
        let calls: Vec<u64> = self.calls.keys().copied().collect();
        for number in calls {
            let _ = self.hang_up(number);
        }
        for (number, line) in self.lines.iter().enumerate() {
            if matches!(line.state, Some(RegistrationState::Registered { .. })) {
                self.agent.unregister(now, AccountId(number));
            }
        }
        let end = Instant::now() + FAREWELL;
        self.settle();
        while self.agent.is_asking() && Instant::now() < end {
            self.wait(&[], Some(end));
            self.turn();
            self.settle();
        }
    }
}
