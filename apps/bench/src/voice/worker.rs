//! A worker: a thread with the signalling and the media of its share of the calls.
//!
//! Frames are due at ticks. Each stream has one of the ticks of 20 ms, so that the streams are
//! spread evenly. A worker that is late sends what was due, with the times at which it was due.

mod calls;
mod figures;
mod paths;
mod place;

use super::air::Air;
use super::comparison::Sent;
use super::end::{CALLEE, CALLER, End, Window};
use super::error::SideError;
use super::fault::Faults;
use super::found::Found;
use super::line::LONGEST;
use super::plan::{Callees, Plan, User};
use super::side::{Side, random, reason_of};
use super::signal::{Sound, VARIANTS};
use super::web::WebPath;
use crate::cpu::Cpu;
use crate::load::links::{Clocks, wait_readable};
use call::{Call, Setup};
use dtls::Identity;
use media::KeyAgreement;
use net::{Clock, Inbox, Options, Socket};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use sip::{Duration, Instant};
use sip_ua::{AccountId, Event, RegistrationState};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The interval of ticks, and the number of ticks in the interval of packets.
const TICK: Duration = Duration::from_micros(500);
const SLOTS: usize = 40;
/// The ticks that are processed before datagrams are read.
const TICKS: usize = 2;
/// The sockets that are read before the next ticks. Those of two ticks are fewer, up to thousands
/// of calls; so neither the sending nor the reading stays behind alone.
const READ: usize = 512;
/// The time between the end of the audio and the BYE. The last packets come back meanwhile.
const LINGER: Duration = Duration::from_millis(500);
/// The time after which the audio of a call has to have come back.
const LONG_ENOUGH: Duration = Duration::from_secs(2);
/// The time to wait for the end of calls, and for registrations without progress.
const PATIENCE: Duration = Duration::from_secs(5);
/// The registrations under way at a time.
const REGISTERING: usize = 100;
/// The kernel's buffer of an end, in bytes.
const BUFFER: usize = 128 << 10;
/// The numbers of the sockets in epoll: those of signalling, then those of the ends.
const SIDES: usize = 2;

/// A worker.
pub(crate) struct Worker {
    plan: Arc<Plan>,
    index: usize,
    /// The users of this worker.
    users: Vec<(User, User)>,
    /// The names of the callees of these callers, if they are not those of the pairs.
    called: Vec<String>,
    ending: Arc<AtomicBool>,
    /// The signal in the codec of callers and of callees, by variant.
    sounds: [Vec<Arc<Sound>>; 2],
    sides: [Side; SIDES],
    ends: Vec<Option<Box<End>>>,
    free: Vec<usize>,
    serials: u64,
    /// The ends of callers, each with its serial number, by tick.
    slots: Vec<Vec<(usize, u64)>>,
    next_tick: u64,
    /// The current call of each caller, by the user name.
    current: HashMap<String, (usize, u64)>,
    /// The callers that register before a call: the time of the request, and the call.
    registering: HashMap<AccountId, (Instant, (usize, u64))>,
    epoll: Epoll,
    events: Vec<EpollEvent>,
    inbox: Inbox,
    air: Air,
    /// The certificate of ends as in browsers.
    identity: Option<Identity>,
    /// The ends with a handshake that has not ended, each with its serial number.
    paths: Vec<(usize, u64)>,
    /// The number of the next call of this worker.
    next_call: u64,
    is_observing: bool,
    registered: usize,
    refused: Option<String>,
}

impl Worker {
    /// Opens the signalling of a worker.
    ///
    /// # Errors
    /// [`SideError`] if a side cannot be opened.
    pub(crate) fn open(
        plan: Arc<Plan>,
        index: usize,
        clock: Clock,
        ending: Arc<AtomicBool>,
        sounds: [Vec<Arc<Sound>>; 2],
    ) -> Result<Self, SideError> {
        let users: Vec<_> = plan.users.iter().skip(index).step_by(plan.workers).cloned().collect();
        let called = plan.called.iter().skip(index).step_by(plan.workers).cloned().collect();
        let sides =
            [Side::open(&plan, &users, true, clock)?, Side::open(&plan, &users, false, clock)?];
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(io::Error::from)?;
        for (number, side) in sides.iter().enumerate() {
            let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
            epoll.add(side.link.fd(), event).map_err(io::Error::from)?;
        }
        let is_web = plan.protection.is_web(true) || plan.protection.is_web(false);
        let identity = is_web.then(Identity::generate).transpose().map_err(io::Error::other)?;
        Ok(Self {
            plan,
            index,
            users,
            called,
            ending,
            sounds,
            sides,
            ends: Vec::new(),
            free: Vec::new(),
            serials: 0,
            slots: vec![Vec::new(); SLOTS],
            next_tick: 0,
            current: HashMap::new(),
            registering: HashMap::new(),
            epoll,
            events: vec![EpollEvent::empty(); READ],
            inbox: Inbox::new(16, LONGEST),
            air: Air::new(clock),
            identity,
            paths: Vec::new(),
            next_call: 0,
            is_observing: index == 0,
            registered: 0,
            refused: None,
        })
    }

    fn now(&self) -> Instant {
        self.air.clock.now()
    }

    /// Registers the callees, if there is a server.
    ///
    /// # Errors
    /// A message if the server refuses one, or is silent.
    pub(crate) fn register(&mut self) -> Result<(), String> {
        if !matches!(self.plan.callees, Callees::Registered { .. }) {
            return Ok(());
        }
        let accounts = self.sides[CALLEE].accounts.clone();
        let mut started = 0;
        let mut progress = (0, self.now());
        while self.registered < accounts.len() {
            let now = self.now();
            while started < accounts.len() && started - self.registered < REGISTERING {
                self.sides[CALLEE].agent.register(now, accounts[started]);
                started += 1;
            }
            self.pump(now);
            if let Some(reason) = self.refused.take() {
                return Err(format!("the server refuses a registration: {reason}"));
            }
            if self.registered > progress.0 {
                progress = (self.registered, now);
            }
            if now.since(progress.1) > PATIENCE || self.is_ending() {
                let count = self.registered;
                return Err(format!("{count} of {} callees could register", accounts.len()));
            }
            self.wait(now + Duration::from_millis(2));
        }
        Ok(())
    }

    /// Removes the bindings of the callees, and of callers that register, as far as the server
    /// answers.
    pub(crate) fn unregister(&mut self) {
        let now = self.now();
        let callers_register = self.plan.callees.are_called_after_registration();
        for side in self.sides.iter_mut().skip(if callers_register { CALLER } else { CALLEE }) {
            for &account in &side.accounts {
                side.agent.unregister(now, account);
            }
        }
        let end = now + PATIENCE;
        while self.sides.iter().any(|side| side.agent.is_asking()) && self.now() < end {
            let now = self.now();
            self.pump(now);
            self.wait(now + Duration::from_millis(2));
        }
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    /// Runs the load from `start`.
    pub(crate) fn run(&mut self, start: Instant) -> Found {
        let cpu = Cpu::of_thread();
        let from = start + self.plan.warmup;
        let until = from + self.plan.duration;
        self.next_tick = start.as_micros() / TICK.as_micros();
        let mut next_second = from;
        let mut has_ended = false;
        let mut measured_cpu = None;
        loop {
            let now = self.now();
            if !has_ended && !self.air.is_measuring && now >= from && now < until {
                self.begin_window();
                measured_cpu = Some((Cpu::of_thread(), now));
            }
            if !has_ended && self.is_ending() {
                self.air.found.is_stopped = true;
            }
            if !has_ended && (now >= until || self.air.found.is_stopped) {
                has_ended = true;
                if let Some((cpu, begun)) = measured_cpu {
                    let used = Cpu::of_thread().since(cpu).total() as f64;
                    self.air.found.busy = used / now.since(begun).as_micros().max(1) as f64;
                }
                self.end_window(now);
                self.hang_up_all(now);
            }
            if self.air.is_measuring && now >= next_second {
                next_second += Duration::from_secs(1);
                let calls =
                    self.ends.iter().flatten().filter(|end| {
                        end.side == CALLER && end.audio_end > now && end.line.is_some()
                    });
                let calls = calls.count();
                self.air.found.held.0 += calls as u64;
                self.air.found.held.1 += 1;
            }
            if !has_ended {
                self.place_due(now, start, from..until);
            }
            self.tick(now);
            self.pump(now);
            if has_ended && (self.ends.iter().all(Option::is_none) || now > until + PATIENCE) {
                break;
            }
            let tick = Instant::from_micros(self.next_tick * TICK.as_micros());
            self.wait(tick);
        }
        let found = &mut self.air.found;
        found.cpu = Cpu::of_thread().since(cpu);
        found.counts.sent = self.sides.iter().map(|side| side.sent).sum();
        found.counts.received = self.sides.iter().map(|side| side.received).sum();
        for (drops, unsent) in self.sides.iter().map(|side| side.link.failures()) {
            found.drops += drops;
            found.unsent += unsent;
        }
        std::mem::take(found)
    }

    /// Opens the end of a call, and returns its place.
    fn open_end(&mut self, side: usize, now: Instant) -> io::Result<usize> {
        let options = Options { is_timed: true, receive_buffer: BUFFER, ..Options::default() };
        let socket = Socket::bind(SocketAddr::new(self.plan.local, 0), options)?;
        let index = self.free.pop().unwrap_or(self.ends.len());
        let event = EpollEvent::new(EpollFlags::EPOLLIN, (index + SIDES) as u64);
        self.epoll.add(socket.as_fd(), event)?;
        let codecs = self.plan.codecs;
        let codec = if side == CALLER { codecs.caller } else { codecs.callee };
        let mut media_config = self.plan.media_config(codec.0, side == CALLER);
        let is_web = self.plan.protection.is_web(side == CALLER);
        let identity = self.identity.as_ref().filter(|_| is_web);
        if let Some(identity) = identity {
            media_config.key_agreements = vec![KeyAgreement::Dtls(identity.fingerprint().clone())];
        }
        let web = identity.map(|_| Box::new(WebPath::new(random)));
        let mut call = Call::new(Setup::new(media_config, socket.address()), &mut random);
        call.set_ice(web.as_ref().map(|web| web.lines(socket.address())));
        self.serials += 1;
        let seed = self.plan.seed ^ self.serials << 8 ^ (self.index as u64) << 1 ^ side as u64;
        let end = End {
            serial: self.serials,
            side,
            call,
            socket: Rc::new(socket),
            web,
            keys: None,
            description: None,
            line: None,
            caller: None,
            number: 0,
            scheduled: now,
            placed: now,
            is_measured: false,
            has_rung: false,
            is_answered: false,
            audio_end: Instant::MAX,
            is_hung_up: false,
            is_cut: false,
            observed: None,
            faults: fastrand::Rng::with_seed(seed),
            window: Window::default(),
            was_heard: false,
        };
        match self.ends.get_mut(index) {
            Some(place) => *place = Some(Box::new(end)),
            None => self.ends.push(Some(Box::new(end))),
        }
        self.air.found.sockets += 1;
        Ok(index)
    }

    fn fail(&mut self, is_measured: bool, reason: &str) {
        self.air.found.early_failures += u64::from(!is_measured);
        self.air.found.first_failure.get_or_insert_with(|| reason.to_owned());
    }

    fn remove(&mut self, index: usize) {
        if let Some(end) = self.ends[index].take() {
            self.air.found.drops += u64::from(end.socket.dropped());
            self.free.push(index);
        }
    }

    /// Sends the frames of the ticks that are due at `now`, and the packets that were held back.
    fn tick(&mut self, now: Instant) {
        for _ in 0..TICKS {
            let at = Instant::from_micros(self.next_tick * TICK.as_micros());
            if at > now {
                break;
            }
            let slot = (self.next_tick % SLOTS as u64) as usize;
            self.next_tick += 1;
            let mut ends = std::mem::take(&mut self.slots[slot]);
            ends.retain(|&(index, serial)| {
                let Some(mut end) = self.take_end(index, serial) else { return false };
                self.air.send_frames(&mut end, index, &self.plan.faults, at);
                if !end.is_hung_up && at >= end.audio_end + LINGER {
                    end.is_hung_up = true;
                    let agent = &mut self.sides[CALLER].agent;
                    // A call that has ended meanwhile is reported as an event.
                    let _ = end.call.id().map(|id| agent.hang_up(at, id));
                }
                self.ends[index] = Some(end);
                true
            });
            self.slots[slot] = ends;
        }
        while let Some(held) = self.air.due(now) {
            let (index, serial) = held.end;
            if let Some(end) = self.ends[index].as_ref().filter(|end| end.serial == serial) {
                let Air { outbox, found, .. } = &mut self.air;
                Air::transmit(outbox, found, &end.socket, held.to, &held.bytes);
            }
        }
    }

    /// Takes an end out of its place, if it is still this one.
    fn take_end(&mut self, index: usize, serial: u64) -> Option<Box<End>> {
        let place = &mut self.ends[index];
        if place.as_ref()?.serial == serial { place.take() } else { None }
    }

    /// Reads datagrams, and handles events and timers.
    fn pump(&mut self, now: Instant) {
        let count = self.epoll.wait(&mut self.events, EpollTimeout::ZERO).unwrap_or_default();
        for at in 0..count {
            let number = self.events[at].data() as usize;
            match number.checked_sub(SIDES) {
                None => self.sides[number].receive(&self.air.clock),
                Some(index) => self.receive(index),
            }
        }
        self.drive_paths(now);
        for side in 0..SIDES {
            self.sides[side].on_timer(now);
            while let Some((at, event)) = self.sides[side].poll_event(now) {
                self.on_event(side, at, event);
            }
            self.sides[side].flush(&mut self.air.outbox);
        }
    }

    /// Reads the datagrams of an end.
    fn receive(&mut self, index: usize) {
        let Some(mut end) = self.ends[index].take() else { return };
        if end.side == CALLEE {
            self.attach(&mut end);
        }
        let clocks = Clocks::read(&self.air.clock);
        let Self { inbox, air, plan, .. } = self;
        let faults = if end.side == CALLER { Faults::default() } else { plan.echo_faults };
        let socket = Rc::clone(&end.socket);
        // An error of the socket shows as losses.
        let _ = inbox.receive(&socket, |datagram| {
            let at = clocks.time_of(datagram.at);
            air.receive(&mut end, index, &faults, datagram.bytes, at);
        });
        self.ends[index] = Some(end);
    }

    /// Makes a callee compare its audio with that of its caller, once the caller sends.
    fn attach(&self, end: &mut End) {
        let Some(line) = end.line.as_mut().filter(|line| line.heard_signal().is_none()) else {
            return;
        };
        let Some((index, serial)) = end.caller else { return };
        let caller = self.ends[index].as_ref().filter(|caller| caller.serial == serial);
        let sent = caller.and_then(|caller| caller.line.as_ref()?.sent.clone());
        if let (Some(sent), Some(caller)) = (sent, caller) {
            let sound = Arc::clone(&self.sounds[CALLEE][(caller.number % VARIANTS) as usize]);
            line.listen(Sent { sound, ..sent });
        }
    }

    fn on_event(&mut self, side: usize, at: Instant, event: Event) {
        match &event {
            Event::Registration { account, state } => match state {
                RegistrationState::Registered { .. } if side == CALLER => {
                    self.on_caller_registration(*account, at, None);
                }
                RegistrationState::Failed { failure, .. } if side == CALLER => {
                    self.on_caller_registration(*account, at, Some(&reason_of(failure)));
                }
                RegistrationState::Registered { .. } => self.registered += 1,
                RegistrationState::Failed { failure, .. } => {
                    self.refused = Some(reason_of(failure));
                }
                RegistrationState::Ended => {}
            },
            Event::Incoming { call, from, offer, .. } => {
                self.accept(at, *call, from, offer.as_deref());
            }
            event => {
                let Some(id) = event.call() else { return };
                let Some(&index) = self.sides[side].calls.get(&id) else { return };
                let Some(mut end) = self.ends[index].take() else { return };
                if let Event::Answered { session: Some(answer), .. } = &event
                    && end.web.is_some()
                {
                    end.description = Some(answer.clone());
                }
                let agent = &mut self.sides[side].agent;
                let change = end.call.on_event(agent, at, event, &mut random);
                let is_over = self.on_change(&mut end, index, at, change);
                self.ends[index] = Some(end);
                if is_over {
                    self.sides[side].calls.remove(&id);
                    self.remove(index);
                }
            }
        }
    }

    fn hang_up_all(&mut self, now: Instant) {
        self.drop_waiting();
        let side = &mut self.sides[CALLER];
        for end in self.ends.iter_mut().flatten().filter(|end| end.side == CALLER) {
            end.audio_end = end.audio_end.min(now);
            if !std::mem::replace(&mut end.is_hung_up, true) {
                end.is_cut = true;
                // A call that has ended meanwhile is reported as an event.
                let _ = end.call.id().map(|id| side.agent.hang_up(now, id));
            }
        }
    }

    /// Waits for datagrams until `until`, or the next timer.
    fn wait(&self, until: Instant) {
        let now = self.now();
        let timers = self.sides.iter().filter_map(|side| side.agent.next_timer());
        let next = timers.chain(self.air.next_held()).chain([until]).min().unwrap_or(until);
        if next > now {
            wait_readable([self.epoll.0.as_fd()], next.since(now));
        }
    }
}
