//! The running phone: one thread for sockets, timers and sound. What its owner wants comes by
//! [`commands`], what has happened goes out as [`Told`].

mod accounts;
mod commands;
mod ears;
mod events;
mod outside;
mod transfer;

use crate::audio::Recording;
use crate::call::{Call, Stage};
use crate::devices::{self, Devices, Wanted};
use crate::leg::{Gate, Leg, Sound};
use crate::links::{Arrival, Links};
use crate::lookups::{Asker, Lookups};
use crate::outcome::Outcome;
use crate::ports::Ports;
use crate::random::random;
use crate::report::Told;
use crate::ringer::Ringer;
use crate::sockets::failure_of;
use crate::system::Watch;
use crate::tap::Tap;
use crate::trace::{Trace, Traced};
use media::ear::Ear;
use media::{Heard, Wishes};
use net::Clock;
use net::tls::Trust;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use sip_ua::{Account, AccountId, Agent, CallId, Config, Location, RegistrationState};
use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time that a packet of sound holds.
const FRAME: Duration = Duration::from_millis(20);
/// How often figures are told.
const TELLS: Duration = Duration::from_secs(5);
/// Sound that is further behind than that is given up.
const TOO_LATE: Duration = Duration::from_millis(200);
/// How long the end waits for what is on its way: a BYE that was lost goes again.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a phone is started with.
pub(crate) struct Setup {
    pub(crate) accounts: Vec<Account>,
    /// Where SIP comes in.
    pub(crate) listen: SocketAddr,
    pub(crate) wishes: Wishes,
    /// What each call sends.
    pub(crate) sound: Sound,
    /// Whether it is sent before the answer.
    pub(crate) early: bool,
    /// What hears each call.
    pub(crate) ear: Ear,
    /// Where what is heard is kept.
    pub(crate) record: Option<PathBuf>,
    /// What looks at what goes over the wire.
    pub(crate) tap: Tap,
    /// Calls at a time that others may begin.
    pub(crate) incoming_calls: usize,
    /// Whether calls are taken that do not come by the server of an account.
    pub(crate) direct_calls: bool,
    /// STUN servers, which tell what the ports of media look like from outside.
    pub(crate) stun: Vec<SocketAddr>,
    /// Whether it is measured what SRTP takes.
    pub(crate) timings: bool,
    /// Whether silence is not sent where the other end can make it itself.
    pub(crate) suppresses_silence: bool,
    /// The sound devices that are used, if any are.
    pub(crate) devices: Option<Wanted>,
    /// Which certificates are trusted, over TLS.
    pub(crate) trust: Trust,
    /// The URI that calls without an account are from.
    pub(crate) from: Option<String>,
    /// How long a call may ring, if it is said.
    pub(crate) ringing: Option<sip::Duration>,
}

/// An account, as far as the phone has to know it.
pub(crate) struct Line {
    pub(crate) uri: String,
    /// Where its requests go first.
    proxy: Option<String>,
    pub(crate) registers: bool,
    /// How far its registration is; `None` before there is an answer.
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

/// Has the thread that calls wake as soon as it is time. Where the system does not let it, it does
/// without.
fn punctual() {
    let _ = net::take_short_turns();
    // Nanoseconds by which Linux may be late, to wake for several things at once: 50,000 as it
    // comes.
    let _ = set_timerslack(1);
}

/// A phone that runs.
pub(crate) struct Phone {
    agent: Agent,
    clock: Clock,
    epoch: Instant,
    links: Links,
    lookups: Lookups,
    waker: UnixStream,
    interrupted: Arc<AtomicBool>,
    lines: Vec<Line>,
    wishes: Wishes,
    sound: Sound,
    early: bool,
    ear: Ear,
    record: Option<PathBuf>,
    recorded: u64,
    calls: BTreeMap<u64, Call>,
    /// The number of the last call.
    last: u64,
    told: VecDeque<Told>,
    trace: Trace,
    tap: Tap,
    stun: Vec<SocketAddr>,
    /// Ports for the next call, whose look from outside is known by the time that there is one.
    spare: Option<Ports>,
    /// Calls that wait for that, and where they go.
    unmapped: Vec<(u64, SocketAddr)>,
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
    /// How the program ends where it cannot begin.
    pub(crate) fn new(setup: Setup) -> Result<Self, Outcome> {
        let failed = |error: std::io::Error| Outcome::Failed(error.to_string());
        let wanted = setup.listen;
        let links = Links::open(wanted, setup.trust).map_err(|error| {
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
        config.ringing = setup.ringing.unwrap_or(config.ringing);
        let now = Instant::now();
        let listening = |local: SocketAddr| {
            ["udp", "tcp"]
                .map(|transport| Told::Listening { address: format!("{transport}:{local}") })
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
            wishes: setup.wishes,
            sound: setup.sound,
            early: setup.early,
            ear: setup.ear,
            record: setup.record,
            recorded: 0,
            calls: BTreeMap::new(),
            last: 0,
            told,
            trace: Trace::default(),
            tap: setup.tap,
            stun: setup.stun,
            spare: None,
            unmapped: Vec::new(),
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

    /// The next thing that has happened, if there is one.
    pub(crate) fn poll(&mut self) -> Option<Told> {
        self.told.pop_front()
    }

    /// Whether something has happened that nobody was told of yet.
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

    /// Where SIP comes in; addresses may be unspecified.
    pub(crate) fn locals(&self) -> Vec<SocketAddr> {
        self.links.locals().collect()
    }

    /// The last messages, the oldest first.
    pub(crate) const fn trace(&self) -> &VecDeque<Traced> {
        self.trace.messages()
    }

    /// Whether nobody on the way to the next server reads what is said about `call`.
    pub(crate) fn is_secured(&self, call: &Call) -> bool {
        call.id.is_some_and(|id| self.agent.is_secured(id))
    }

    /// Whether somebody has pressed Ctrl-C since this was asked last.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.interrupted.swap(false, Ordering::Relaxed)
    }

    fn tell(&mut self, told: Told) {
        self.told.push_back(told);
    }

    fn number_of(&self, id: CallId) -> Option<u64> {
        let mut calls = self.calls.iter();
        calls.find(|(_, call)| call.id == Some(id)).map(|(number, _)| *number)
    }

    /// The media of a call whose way goes out at `local`.
    fn leg(&mut self, local: IpAddr) -> Result<Leg, Outcome> {
        let path = self.record.as_deref().map(|path| Recording::path(path, self.recorded));
        let recording = path.as_deref().map(Recording::begin).transpose();
        let recording = recording.map_err(Outcome::Failed)?;
        self.recorded += 1;
        let (sound, ear) = (self.sound.clone(), self.ear.clone());
        let ports = self.ports(local);
        let leg =
            ports.and_then(|ports| Leg::new(ports, self.wishes.clone(), sound, recording, ear));
        let mut leg =
            leg.map_err(|error| Outcome::Failed(format!("no port for media: {error}")))?;
        leg.tap = self.tap.clone();
        leg.stopwatch = self.timings.then_some(net::nanoseconds);
        leg.suppresses_silence = self.suppresses_silence;
        if self.early {
            leg.gate = Gate::Open;
        }
        Ok(leg)
    }

    /// Sends what is to be sent and tells what has happened, until there is nothing more.
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

    /// Sleeps until something comes, on `others` too, or is due, at the latest at `until`.
    pub(crate) fn wait(&self, others: &[BorrowedFd<'_>], until: Option<Instant>) {
        let now = Instant::now();
        let mut end = now + Duration::from_secs(1);
        end = end.min(until.unwrap_or(end));
        if let Some(timer) = self.agent.next_timer() {
            end = end.min(self.clock.system(timer));
        }
        if let Some(timer) = self.spare.as_ref().and_then(Ports::next_timer) {
            end = end.min(self.epoch + timer);
        }
        if self.has_sound() {
            end = end.min(self.next_tick);
        }
        // To the nanosecond: what is late by parts of a millisecond, now more, now less, is jitter.
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
        // A signal ends the wait as anything else does.
        let _ = ppoll(&mut fds, Some(rest), None);
    }

    /// Reads what has come, and does what is due.
    pub(crate) fn turn(&mut self) {
        let begun = Instant::now();
        let is_due = begun >= self.next_tick;
        if is_due {
            // Before anything else, so that it leaves at an even pace.
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
        let now = self.epoch.elapsed();
        let told = &mut self.told;
        for (&number, call) in &mut self.calls {
            // What comes is played at the next tick, and waits until then in the system, which
            // knows when it came: many calls would wake this thread for every packet.
            let Some(leg) = call.leg.as_mut().filter(|leg| is_due || leg.is_flooded) else {
                continue;
            };
            leg.read(now, |heard| {
                if let Heard::Digit(digit) = heard {
                    told.push_back(Told::Dtmf { call: number, digit });
                }
            });
        }
        self.look_outside(now);
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
            // Addresses of a family that this machine has no route of come last.
            targets.sort_by_key(|target| !self.links.has_route(target.address));
            match asker {
                Asker::Call(number) => {
                    self.place(number, targets.first().map(|target| target.address));
                }
                Asker::Engine(ticket) => {
                    let locations = targets.iter().map(|target| Location {
                        transport: target.transport,
                        remote: target.address,
                        local: self.links.local_towards(target.address),
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

    /// Sends 20 ms of all calls.
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
            leg.is_confirmed |= call.id.is_some_and(|id| self.agent.is_confirmed(id));
            leg.say(at, &microphone);
        }
        self.told.extend(problems.into_iter().map(|cause| Told::Device { cause }));
    }

    /// Plays 20 ms of all calls.
    fn play_sound(&mut self, now: Instant) {
        let at = self.epoch.elapsed();
        let mut mix = [0; devices::FRAME];
        for call in self.calls.values_mut() {
            let Some(leg) = &mut call.leg else { continue };
            leg.play(at);
            if self.devices.is_some() {
                leg.speak(&mut mix);
                if leg.session.is_none() || call.stage == Stage::RingingHere {
                    self.ringer.ring(call.stage, now.duration_since(call.begun), &mut mix);
                }
            }
        }
        let is_used = self.has_sound();
        if let Some(devices) = self.devices.as_mut().filter(|_| is_used) {
            devices.play(&mix);
        }
    }

    /// Tells figures, where it is time.
    fn tell_figures(&mut self, now: Instant) {
        if now < self.next_tell {
            return;
        }
        self.next_tell = now + TELLS;
        for (&number, call) in &self.calls {
            let media = call.leg.as_ref().and_then(|leg| leg.figures(number));
            self.told.extend(media.map(Told::Media));
        }
    }

    /// Ends calls and registrations, and waits a little for what is on its way.
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
