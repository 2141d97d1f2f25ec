//! The running phone: one thread for sockets, timers and sound.

use crate::audio::{Recording, Source};
use crate::call::Call;
use crate::cli::LineArgs;
use crate::config;
use crate::exit::Outcome;
use crate::leg::{Leg, Sound, random};
use crate::lookups::Lookups;
use crate::report::{Answered, Media, Report, Told};
use media::{Heard, Refusal, Security, Wishes};
use net::Clock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sip::{Flow, Transport};
use sip_ua::{AccountId, Agent, CallId, Config, End, Event, Failure, Location, RegistrationState};
use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
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

/// What the owner wants of the phone.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Call { uri: String, duration: Option<Duration> },
    Answer { auto: bool, calls: Option<u64> },
}

/// An account, as far as the phone has to know it.
struct Line {
    uri: String,
    /// Where its requests go first.
    proxy: Option<String>,
    is_registered: bool,
}

/// A phone that runs.
pub(crate) struct Phone {
    task: Task,
    agent: Agent,
    clock: Clock,
    epoch: Instant,
    socket: UdpSocket,
    local: SocketAddr,
    lookups: Lookups,
    waker: UnixStream,
    stopping: Arc<AtomicBool>,
    report: Report,
    accounts: Vec<Line>,
    wishes: Wishes,
    sound: Sound,
    record: Option<PathBuf>,
    calls: BTreeMap<CallId, Call>,
    taken: u64,
    /// Whether the call was placed anew with nothing but SRTP in the offer.
    has_retried: bool,
    /// What the end will be, once nothing more is to be done.
    outcome: Option<Outcome>,
    next_tick: Instant,
    next_tell: Instant,
}

impl Phone {
    /// A phone for `task`, whose port without `--listen` is `port`.
    ///
    /// # Errors
    /// How the command ends where it cannot begin.
    pub(crate) fn new(task: Task, line: &LineArgs, echo: bool, port: u16) -> Result<Self, Outcome> {
        let accounts = match &line.config {
            Some(path) => {
                config::accounts(path, line.account.as_deref()).map_err(Outcome::Usage)?
            }
            None => Vec::new(),
        };
        let line_of = |account: &sip_ua::Account| Line {
            uri: account.uri.clone(),
            proxy: account.proxy.clone(),
            is_registered: false,
        };
        let lines = accounts.iter().map(line_of).collect();
        let sound = match echo {
            true => Sound::Echo,
            false => Sound::Source(Source::named(&line.play).map_err(Outcome::Usage)?),
        };
        let wanted = line.listen.unwrap_or((Ipv4Addr::UNSPECIFIED, port).into());
        let failed = |error: std::io::Error| Outcome::Failed(error.to_string());
        let socket = UdpSocket::bind(wanted).map_err(|error| {
            Outcome::Failed(format!(
                "cannot listen on udp:{wanted}: {error}; choose another place with --listen"
            ))
        })?;
        socket.set_nonblocking(true).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        let (waker, wakes) = UnixStream::pair().map_err(failed)?;
        waker.set_nonblocking(true).map_err(failed)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (flag, mut bell) = (Arc::clone(&stopping), wakes.try_clone().map_err(failed)?);
        let handler = ctrlc::set_handler(move || {
            flag.store(true, Ordering::Relaxed);
            let _ = std::io::Write::write_all(&mut bell, b"c");
        });
        handler.map_err(|error| Outcome::Failed(error.to_string()))?;
        let mut secret = [0; 32];
        random(&mut secret);
        let config = Config { accounts, ..Config::default() };
        let now = Instant::now();
        Ok(Self {
            task,
            agent: Agent::new(config, &secret),
            clock: Clock::start(),
            epoch: now,
            socket,
            local,
            lookups: Lookups::start(wakes).map_err(failed)?,
            waker,
            stopping,
            report: Report::new(line.json),
            accounts: lines,
            wishes: Wishes { security: line.srtp.into(), ..Wishes::default() },
            sound,
            record: line.record.clone(),
            calls: BTreeMap::new(),
            taken: 0,
            has_retried: false,
            outcome: None,
            next_tick: now,
            next_tell: now + TELLS,
        })
    }

    fn account(&self) -> Option<AccountId> {
        (!self.accounts.is_empty()).then_some(AccountId(0))
    }

    /// Our address towards `remote`.
    fn local_towards(&self, remote: SocketAddr) -> SocketAddr {
        let ip = match self.local.ip() {
            ip if ip.is_unspecified() => net::source_for(remote).unwrap_or(ip),
            ip => ip,
        };
        SocketAddr::new(ip, self.local.port())
    }

    /// Runs until all is done.
    pub(crate) fn run(mut self) -> Outcome {
        let now = self.clock.now();
        match self.task.clone() {
            Task::Call { uri, .. } if self.accounts.is_empty() => self.place(&uri),
            _ => {
                self.report.tell(&Told::Listening { address: format!("udp:{}", self.local) });
                for account in 0..self.accounts.len() {
                    self.agent.register(now, AccountId(account));
                }
            }
        }
        loop {
            self.drain();
            if let Some(outcome) = self.outcome.take() {
                self.say_goodbye();
                return outcome;
            }
            self.wait();
            self.read();
            self.act();
        }
    }

    /// Calls `uri`.
    fn place(&mut self, uri: &str) {
        let uri = match uri.starts_with("sip:") {
            true => uri.to_owned(),
            false => format!("sip:{uri}"),
        };
        let Some(towards) = self.first_hop(&uri) else {
            let failure = Failure::NotLocated;
            return self.outcome = Some(Outcome::of_end(&End::Failed(failure), &uri));
        };
        let local = self.local_towards(towards).ip();
        let mut leg = match self.leg(local) {
            Ok(leg) => leg,
            Err(outcome) => return self.outcome = Some(outcome),
        };
        let offer = leg.negotiator.offer(&mut random);
        let now = self.clock.now();
        match self.agent.call(now, self.account(), &uri, offer) {
            Ok(id) => drop(self.calls.insert(id, Call::new(leg, uri))),
            Err(error) => {
                let text = format!("{uri}: {error}, such as sip:bob@example.org");
                self.outcome = Some(Outcome::Usage(text));
            }
        }
    }

    /// Where the first request goes: our address in the offer depends on it.
    fn first_hop(&self, uri: &str) -> Option<SocketAddr> {
        let proxy = self.accounts.first().and_then(|account| account.proxy.as_deref());
        let destination = sip_ua::destination(proxy.unwrap_or(uri).as_bytes())?;
        let found = crate::lookups::resolver().locate_and_wait(destination).ok()?;
        found.first().map(|target| target.address)
    }

    fn leg(&self, local: IpAddr) -> Result<Leg, Outcome> {
        let recording = self.record.as_deref().map(Recording::begin).transpose();
        let recording = recording.map_err(Outcome::Failed)?;
        Leg::new(local, self.wishes.clone(), self.sound.clone(), recording)
            .map_err(|error| Outcome::Failed(format!("no port for media: {error}")))
    }

    /// Sends what the agent has to send, and does what it tells.
    fn drain(&mut self) {
        loop {
            while let Some(transmit) = self.agent.poll_transmit() {
                if self.socket.send_to(&transmit.bytes, transmit.flow.remote).is_err() {
                    self.agent.undeliverable(self.clock.now(), &transmit.bytes);
                }
            }
            match self.agent.poll_event() {
                Some(event) => self.on_event(event),
                None => return,
            }
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Locate { ticket, destination } => self.lookups.ask(ticket, destination),
            Event::Registration { account, state } => self.on_registration(account, &state),
            Event::Incoming { call, from, flow, offer, .. } => {
                self.on_incoming(call, from, &flow, offer.as_deref());
            }
            Event::Ringing { call, status, session, .. } => {
                let early_media = session.is_some();
                if let (Some(call), Some(session)) = (self.calls.get_mut(&call), session)
                    && let Ok(stream) = call.leg.negotiator.accept(&session)
                {
                    call.leg.carry(stream);
                }
                self.report.tell(&Told::Ringing { call: call.0, status, early_media });
            }
            Event::Answered { call, session } => self.on_answered(call, session.as_deref()),
            Event::Offer { call, offer } => self.on_offer(call, offer.as_deref()),
            Event::Answer { call, answer } => self.on_answered(call, Some(&answer)),
            Event::OfferFailed { .. } => {}
            Event::Ended { call, end } => self.on_ended(call, &end),
            _ => {}
        }
    }

    fn on_registration(&mut self, account: AccountId, state: &RegistrationState) {
        let Some(line) = self.accounts.get_mut(account.0) else { return };
        line.is_registered = matches!(state, RegistrationState::Registered { .. });
        let name = line.uri.clone();
        match state {
            RegistrationState::Registered { expires } => {
                let seconds = expires.as_secs();
                self.report.tell(&Told::Registered { account: &name, seconds });
                if let Task::Call { uri, .. } = self.task.clone()
                    && self.calls.is_empty()
                    && self.taken == 0
                {
                    self.taken = 1;
                    self.place(&uri);
                }
            }
            RegistrationState::Failed { failure, .. } => {
                let outcome = Outcome::of_end(&End::Failed(failure.clone()), &name);
                let cause = outcome.to_string();
                self.report.tell(&Told::RegistrationFailed { account: &name, cause: &cause });
                if matches!(self.task, Task::Call { .. }) {
                    self.outcome = Some(outcome);
                }
            }
            _ => {}
        }
    }

    fn on_incoming(&mut self, id: CallId, from: String, flow: &Flow, offer: Option<&[u8]>) {
        let now = self.clock.now();
        let Task::Answer { auto, .. } = self.task else {
            // Who places one call takes no other.
            let _ = self.agent.decline(now, id, 486);
            return;
        };
        self.report.tell(&Told::Incoming { call: id.0, from: &from });
        let leg = self.leg(self.local_towards(flow.remote).ip());
        let Ok(leg) = leg else {
            let _ = self.agent.decline(now, id, 500);
            return;
        };
        let mut call = Call::new(leg, from);
        let session = match offer {
            Some(offer) => call.leg.answer(offer),
            None => Ok(call.leg.negotiator.offer(&mut random)),
        };
        match session {
            Ok(session) => {
                let _ = self.agent.ring(now, id, b"");
                call.answer = session;
                self.calls.insert(id, call);
                if auto {
                    self.take(id);
                }
            }
            Err(refusal) => {
                eprintln!("barebell-phone: refused: {refusal}");
                let _ = self.agent.decline(now, id, 488);
            }
        }
    }

    /// Answers a call.
    fn take(&mut self, id: CallId) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        if call.answered.is_some() {
            return;
        }
        if self.agent.answer(self.clock.now(), id, &call.answer).is_err() {
            return;
        }
        call.answered = Some(Instant::now());
        self.taken += 1;
        self.tell_answered(id);
    }

    fn tell_answered(&self, id: CallId) {
        let Some(call) = self.calls.get(&id) else { return };
        if let Some(session) = &call.leg.session {
            let answered = Answered::new(id.0, session.stream(), &call.party);
            self.report.tell(&Told::Answered(answered));
        }
    }

    /// The call stands, or an answer has come.
    fn on_answered(&mut self, id: CallId, session: Option<&[u8]>) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        call.answered.get_or_insert_with(Instant::now);
        let accepted = match session {
            Some(session) => call.leg.negotiator.accept(session),
            // It came with the early media.
            None if call.leg.session.is_some() => return self.tell_answered(id),
            None => Err(Refusal::Malformed),
        };
        let carried = accepted.map(|stream| call.leg.carry(stream));
        match carried {
            Ok(true) => self.tell_answered(id),
            Ok(false) => self.give_up(id, &Refusal::Keys),
            Err(refusal) => self.give_up(id, &refusal),
        }
    }

    /// Ends a call whose media cannot be had.
    fn give_up(&mut self, id: CallId, refusal: &Refusal) {
        let outcome = Outcome::of_refusal(refusal);
        let _ = self.agent.hang_up(self.clock.now(), id);
        if matches!(self.task, Task::Call { .. }) {
            self.outcome = Some(outcome);
        }
    }

    /// The other end wants to change the session.
    fn on_offer(&mut self, id: CallId, offer: Option<&[u8]>) {
        let Some(call) = self.calls.get_mut(&id) else { return };
        let now = self.clock.now();
        let session = match offer {
            Some(offer) => call.leg.answer(offer),
            None => Ok(call.leg.negotiator.offer(&mut random)),
        };
        match session {
            Ok(session) => {
                let _ = self.agent.accept(now, id, &session);
                let held = call.leg.session.as_ref().is_some_and(|session| !session.stream().sends);
                if held != call.is_held {
                    call.is_held = held;
                    self.report.tell(&Told::Held { call: id.0, held });
                }
            }
            Err(refusal) => {
                eprintln!("barebell-phone: a change of the call is refused: {refusal}");
                let _ = self.agent.refuse(now, id, 488);
            }
        }
    }

    fn on_ended(&mut self, id: CallId, end: &End) {
        let Some(call) = self.calls.remove(&id) else { return };
        if self.places_anew(end) {
            return;
        }
        let totals = call.leg.session.as_ref().map(|session| session.statistics());
        let mut outcome = Outcome::of_end(end, &call.party);
        let heard_nothing = totals.is_some_and(|totals| totals.received == 0);
        if outcome == Outcome::Done && call.answered.is_some() && heard_nothing {
            outcome = Outcome::NothingHeard(format!(
                "no media came from {}: a firewall or NAT between, or it is muted",
                call.party
            ));
        }
        let cause = match &outcome {
            Outcome::Done => match end {
                End::HungUp => "hung up here".to_owned(),
                _ => format!("hung up by {}", call.party),
            },
            other => other.to_string(),
        };
        let totals = totals.map(|totals| Media::new(id.0, &totals));
        let status = outcome.code();
        self.report.tell(&Told::Ended { call: id.0, cause: &cause, status, totals });
        let is_last = match &self.task {
            Task::Call { .. } => true,
            Task::Answer { calls, .. } => {
                calls.is_some_and(|calls| self.taken >= calls) && self.calls.is_empty()
            }
        };
        if is_last && self.outcome.is_none() {
            self.outcome = Some(match self.task {
                Task::Call { .. } => outcome,
                Task::Answer { .. } => Outcome::Done,
            });
        }
    }

    /// Phones that want SRTP refuse an offer of both (RFC 8643 has it so): they get one of SRTP alone.
    fn places_anew(&mut self, end: &End) -> bool {
        let is_refused =
            matches!(end, End::Failed(Failure::Refused { status: 415 | 488 | 606, .. }));
        let Task::Call { uri, .. } = self.task.clone() else { return false };
        if !is_refused || self.has_retried || self.wishes.security != Security::Optional {
            return false;
        }
        self.has_retried = true;
        self.wishes.security = Security::Required;
        self.place(&uri);
        true
    }

    /// Sleeps until something comes, or is due.
    fn wait(&self) {
        let now = Instant::now();
        let mut until = now + Duration::from_secs(1);
        if let Some(timer) = self.agent.next_timer() {
            until = until.min(self.clock.system(timer));
        }
        if !self.calls.is_empty() {
            until = until.min(self.next_tick);
        }
        // Rounded up: to wake too early would be to wake twice.
        let micros = until.saturating_duration_since(now).as_micros();
        let millis = u16::try_from(micros.div_ceil(1000)).unwrap_or(1000);
        let mut fds = vec![
            PollFd::new(self.socket.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.waker.as_fd(), PollFlags::POLLIN),
        ];
        let stdin = std::io::stdin();
        if matches!(self.task, Task::Answer { auto: false, .. }) {
            fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        for call in self.calls.values() {
            fds.push(PollFd::new(call.leg.socket.as_fd(), PollFlags::POLLIN));
        }
        // A signal ends the wait as anything else does.
        let _ = poll(&mut fds, PollTimeout::from(millis));
    }

    /// Reads what has come.
    fn read(&mut self) {
        let mut bell = [0; 64];
        while matches!(self.waker.read(&mut bell), Ok(1..)) {}
        let answers: Vec<_> = self.lookups.answers().collect();
        for (ticket, targets) in answers {
            let locations: Vec<Location> = targets
                .iter()
                .map(|target| Location {
                    transport: target.transport,
                    remote: target.address,
                    local: self.local_towards(target.address),
                })
                .collect();
            self.agent.located(self.clock.now(), ticket, &locations);
        }
        let mut datagram = vec![0; sip::message::MAX_MESSAGE];
        for _ in 0..64 {
            let Ok((length, remote)) = self.socket.recv_from(&mut datagram) else { break };
            let local = self.local_towards(remote);
            let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
            self.agent.receive(self.clock.now(), &flow, &datagram[..length]);
        }
        let now = self.epoch.elapsed();
        for (id, call) in &mut self.calls {
            let report = &self.report;
            call.leg.read(now, |heard| {
                if let Heard::Digit(digit) = heard {
                    report.tell(&Told::Dtmf { call: id.0, digit });
                }
            });
        }
    }

    /// Does what is due.
    fn act(&mut self) {
        let now = Instant::now();
        self.agent.on_timer(self.clock.now());
        if now >= self.next_tick {
            let at = self.epoch.elapsed();
            self.calls.values_mut().for_each(|call| call.leg.tick(at));
            self.next_tick += FRAME;
            if now > self.next_tick + TOO_LATE {
                self.next_tick = now + FRAME;
            }
        }
        if now >= self.next_tell {
            self.next_tell = now + TELLS;
            for (id, call) in &self.calls {
                if let Some(session) = &call.leg.session {
                    self.report.tell(&Told::Media(Media::new(id.0, &session.statistics())));
                }
            }
        }
        if let Task::Call { duration: Some(duration), .. } = self.task {
            let over: Vec<CallId> = self
                .calls
                .iter()
                .filter(|(_, call)| call.answered.is_some_and(|begun| now >= begun + duration))
                .map(|(id, _)| *id)
                .collect();
            for id in over {
                let _ = self.agent.hang_up(self.clock.now(), id);
            }
        }
        self.answer_by_hand();
        if self.stopping.swap(false, Ordering::Relaxed) {
            self.stop();
        }
    }

    /// The return key takes the calls that ring.
    fn answer_by_hand(&mut self) {
        if !matches!(self.task, Task::Answer { auto: false, .. }) {
            return;
        }
        let stdin = std::io::stdin();
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let is_ready = poll(&mut fds, PollTimeout::ZERO).is_ok_and(|count| count > 0);
        let mut line = String::new();
        if is_ready && stdin.read_line(&mut line).is_ok_and(|length| length > 0) {
            let ringing: Vec<CallId> = self.calls.keys().copied().collect();
            ringing.into_iter().for_each(|id| self.take(id));
        }
    }

    /// Ctrl-C: all calls are hung up, and that is the end.
    fn stop(&mut self) {
        let calls: Vec<CallId> = self.calls.keys().copied().collect();
        for id in calls {
            let _ = self.agent.hang_up(self.clock.now(), id);
        }
        self.drain();
        self.outcome.get_or_insert(Outcome::Done);
    }

    /// Ends registrations, and waits a little for what is on its way.
    fn say_goodbye(&mut self) {
        let now = self.clock.now();
        for (number, account) in self.accounts.iter().enumerate() {
            if account.is_registered {
                self.agent.unregister(now, AccountId(number));
            }
        }
        let end = Instant::now() + FAREWELL;
        self.drain();
        while self.agent.is_asking() && Instant::now() < end {
            self.wait();
            self.read();
            self.agent.on_timer(self.clock.now());
            self.drain();
        }
    }
}
