//! A trunk: its servers, the target among them, and the registrations there.

use crate::account::Account;
use crate::config::TrunkConfig;
use crate::event::{Event, Notice, Ticket};
use crate::place::{Key, Places};
use crate::random::{ContactKey, Random};
use crate::report::{PlaceReport, State, TrunkReport, TrunkView};
use crate::words;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use sip::locate::Host;
use sip::transaction::Timers;
use sip::{Duration, Endpoint, Flow, Instant};
use sip_ua::{AccountId, Agent, Failure, Location, RegistrationState, RequestId, Transmit};

/// The interval of look-ups. The resolver caches their answers for as long as the records say.
const LOCATE_EVERY: Duration = Duration::from_secs(60);
/// The wait after a look-up without an answer, and after the failure of all servers.
const LOCATE_AGAIN: Duration = Duration::from_secs(5);
const LONGEST_LOCATE_WAIT: Duration = Duration::from_secs(320);
/// The maximum wait after wrong credentials. The minimum is half of it.
const REJECTED_WAIT: Duration = Duration::from_secs(3600);
/// The time for the end of the registrations of a trunk that is removed.
const LEAVE_TIME: Duration = Duration::from_secs(4);
/// The timers of requests. Silence is noticed after 64 T1, that is 16 s. Retransmissions reach the
/// proxy in the same process only, which has its own timers.
const TIMERS: Timers = Timers {
    t1: Duration::from_millis(250),
    t2: Duration::from_secs(4),
    t4: Duration::from_secs(5),
};

/// The parts of the registry that its trunks share.
pub(crate) struct Shared {
    pub(crate) product: String,
    pub(crate) contacts: ContactKey,
    pub(crate) random: Random,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
    pub(crate) tickets: u64,
}

/// Counters of the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Servers that have failed.
    pub failures: u64,
    /// Changes from one target to another one.
    pub moves: u64,
    /// Registrations that a provider has refused.
    pub refused: u64,
}

/// The look-ups of the servers of a trunk.
#[derive(Default)]
struct Lookup {
    pending: Option<Ticket>,
    next: Option<Instant>,
    failures: u32,
    /// The reason of a failure, or empty.
    reason: String,
}

/// A trunk.
pub(crate) struct Trunk {
    pub(crate) config: TrunkConfig,
    /// Its number in the configuration.
    pub(crate) number: u8,
    agent: Agent,
    accounts: Vec<Account>,
    places: Places,
    target: Option<Key>,
    lookup: Lookup,
    /// The OPTIONS without a result.
    probes: Vec<(RequestId, Key)>,
    next_probe: Option<Instant>,
    is_started: bool,
    has_registered: bool,
    /// The time at which a trunk that is removed is gone at the latest.
    end: Option<Instant>,
}

/// The account of the agent for OPTIONS.
const PROBING: AccountId = AccountId(0);

impl Trunk {
    pub(crate) fn new(number: u8, config: TrunkConfig, shared: &mut Shared, now: Instant) -> Self {
        let account = |config: &TrunkConfig, uri: &str, contact: String| sip_ua::Account {
            registrar: Some(config.uri.clone()),
            proxy: config.proxy.clone(),
            registers: config.registers,
            expires: config.expires,
            any_realm: true,
            contact: Some(contact),
            ..sip_ua::Account::new(uri)
        };
        let (mut accounts, mut known) = (Vec::new(), Vec::new());
        for (place, of) in config.accounts.iter().enumerate() {
            let contact = shared.contacts.contact(&config.name, &of.uri);
            accounts.push(sip_ua::Account {
                username: of.auth_name.clone(),
                password: of.password.clone(),
                ..account(&config, &of.uri, contact.clone())
            });
            known.push(Account::new(AccountId(place), of, contact, config.registers, now));
        }
        if accounts.is_empty() {
            let contact = shared.contacts.contact(&config.name, &config.uri);
            accounts.push(account(&config, &config.uri, contact));
        }
        let settings = sip_ua::Config {
            accounts,
            user_agent: shared.product.clone(),
            timers: TIMERS,
            keepalive: None,
            server_transactions: 64,
            ..sip_ua::Config::default()
        };
        let agent = Agent::new(settings, &shared.random.secret());
        Self {
            config,
            number,
            agent,
            accounts: known,
            places: Places::default(),
            target: None,
            lookup: Lookup::default(),
            probes: Vec::new(),
            next_probe: None,
            is_started: false,
            has_registered: false,
            end: None,
        }
    }

    /// Begins to locate and to register, if the trunk has not begun yet.
    pub(crate) fn start(&mut self, shared: &mut Shared) {
        if !self.is_started {
            self.is_started = true;
            self.look_up(shared);
        }
    }

    /// Ends all registrations. The trunk is kept until [`Trunk::is_gone`].
    pub(crate) fn leave(&mut self, shared: &mut Shared, now: Instant) {
        self.end = Some(now + LEAVE_TIME);
        (self.lookup, self.next_probe) = (Lookup::default(), None);
        for account in &mut self.accounts {
            account.own_retry = None;
            match account.state {
                State::Works => self.agent.unregister(now, account.id),
                _ => self.agent.forget_account(account.id),
            }
        }
        self.drain(shared, now);
    }

    /// Returns true if a removed trunk has ended its registrations, or its time is over.
    pub(crate) fn is_gone(&self, now: Instant) -> bool {
        !self.agent.is_asking() || self.end.is_none_or(|end| end <= now)
    }

    fn look_up(&mut self, shared: &mut Shared) {
        if self.lookup.pending.is_some() {
            return;
        }
        shared.tickets += 1;
        let (ticket, destination) = (Ticket(shared.tickets), self.config.destination.clone());
        (self.lookup.pending, self.lookup.next) = (Some(ticket), None);
        shared.events.push_back(Event::Locate { ticket, destination });
    }

    /// Processes the answer to a look-up. Returns false if the ticket is not of this trunk.
    pub(crate) fn located(
        &mut self,
        ticket: Ticket,
        locations: &[Location],
        shared: &mut Shared,
        now: Instant,
    ) -> bool {
        if self.lookup.pending != Some(ticket) {
            return false;
        }
        self.lookup.pending = None;
        // Without a listener of the transport nothing can be sent.
        let flows: Vec<Flow> = locations.iter().filter_map(Location::flow).collect();
        if flows.is_empty() {
            let longest = LOCATE_AGAIN.times(2 << self.lookup.failures.min(8));
            let wait = shared.random.upper_half(longest.min(LONGEST_LOCATE_WAIT));
            self.lookup.failures += 1;
            self.lookup.next = Some(now + wait);
            let host = match &self.config.destination.host {
                Host::Name(name) => name.clone(),
                Host::Ip(address) => address.to_string(),
            };
            let reason = format!(
                "{host} is not located: the DNS has no address for it, or this server has no \
                 listener of its transport"
            );
            if self.lookup.reason != reason {
                self.tell(true, reason.clone(), shared);
                self.lookup.reason = reason;
            }
            return true;
        }
        self.lookup = Lookup { next: Some(now + LOCATE_EVERY), ..Lookup::default() };
        let before = self.target_flow();
        let has_changed = self.places.replace(&flows, now);
        // The local address may be another one.
        let is_moved = has_changed
            && before.is_some_and(|before| self.target_flow().is_some_and(|it| it != before));
        self.choose(is_moved, shared, now);
        self.drain(shared, now);
        true
    }

    /// Makes the best server the target. With `is_moved` its flow has changed.
    fn choose(&mut self, is_moved: bool, shared: &mut Shared, now: Instant) {
        let best = self.places.best().map(|place| place.key());
        if (best == self.target && !is_moved) || self.end.is_some() {
            return;
        }
        let before = core::mem::replace(&mut self.target, best);
        self.next_probe = None;
        let Some(key) = best else {
            let soon = now + LOCATE_AGAIN;
            self.lookup.next = Some(self.lookup.next.map_or(soon, |next| next.min(soon)));
            return self.tell(true, "no server works; calls through the trunk fail".into(), shared);
        };
        if before.is_some() && before != best {
            shared.counters.moves += 1;
        }
        self.tell(false, format!("requests go to {}", shown(key)), shared);
        if self.config.registers {
            match core::mem::replace(&mut self.has_registered, true) {
                true => self.agent.network_changed(now),
                false => {
                    self.accounts.iter().for_each(|account| self.agent.register(now, account.id));
                }
            }
        }
        if self.config.probe.is_some() {
            self.probe_target(shared, now);
        }
    }

    /// Sends an OPTIONS to the target, and plans the next one.
    fn probe_target(&mut self, shared: &mut Shared, now: Instant) {
        let (Some(every), Some(flow)) = (self.config.probe, self.target_flow()) else {
            return;
        };
        let every = every.as_micros();
        let tenth = shared.random.upper_half(Duration::from_micros(every / 5));
        self.next_probe = Some(now + Duration::from_micros(every * 9 / 10) + tenth);
        self.probe(flow, now);
    }

    fn probe(&mut self, flow: Flow, now: Instant) {
        let key = (flow.transport, flow.remote);
        if self.probes.iter().any(|(_, of)| *of == key) {
            return;
        }
        if let Ok(id) = self.agent.options(now, Some(PROBING), &self.config.uri, &flow) {
            self.probes.push((id, key));
        }
    }

    /// Processes a response.
    pub(crate) fn receive(
        &mut self,
        flow: &Flow,
        response: &[u8],
        shared: &mut Shared,
        now: Instant,
    ) {
        self.agent.receive(now, flow, response);
        self.drain(shared, now);
    }

    /// Processes the end of the connection of `flow`.
    pub(crate) fn closed(&mut self, flow: &Flow, shared: &mut Shared, now: Instant) {
        self.agent.closed(now, flow.transport, flow.remote);
        self.drain(shared, now);
    }

    /// Processes the failure of a call at the server `remote`: the server is asked by OPTIONS, or
    /// has failed if the trunk sends none.
    pub(crate) fn call_failed(
        &mut self,
        flow: &Flow,
        reason: &str,
        shared: &mut Shared,
        now: Instant,
    ) {
        let key = (flow.transport, flow.remote);
        if self.target != Some(key) {
            return;
        }
        match self.config.probe {
            Some(_) => self.probe_target(shared, now),
            None => self.fail(key, format!("{reason} (to a call)"), shared, now),
        }
        self.drain(shared, now);
    }

    /// Runs the timers that are due at `now`.
    pub(crate) fn on_timer(&mut self, shared: &mut Shared, now: Instant) {
        let is_due = |time: &mut Instant| *time <= now;
        if self.lookup.next.take_if(is_due).is_some() {
            self.look_up(shared);
        }
        if self.next_probe.take_if(is_due).is_some() {
            self.probe_target(shared, now);
        }
        for flow in self.places.take_due(now) {
            match self.config.probe {
                Some(_) => self.probe(flow, now),
                None => {
                    self.places.pardon((flow.transport, flow.remote), now);
                    self.choose(false, shared, now);
                }
            }
        }
        for account in &mut self.accounts {
            if account.own_retry.take_if(is_due).is_some() {
                self.agent.register(now, account.id);
            }
        }
        self.agent.on_timer(now);
        self.drain(shared, now);
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        let retries = self.accounts.iter().filter_map(|account| account.own_retry);
        let own = [self.lookup.next, self.next_probe, self.places.next_retry(), self.end];
        own.into_iter().flatten().chain(retries).chain(self.agent.next_timer()).min()
    }

    /// Processes the events of the agent.
    fn drain(&mut self, shared: &mut Shared, now: Instant) {
        while let Some(event) = self.agent.poll_event() {
            match event {
                sip_ua::Event::Locate { ticket, .. } => {
                    let location = self.target_flow().map(Location::from);
                    self.agent.located(now, ticket, location.as_slice());
                }
                sip_ua::Event::Registration { account, state } => {
                    self.on_registration(account, state, shared, now);
                }
                sip_ua::Event::Options { request, result } => {
                    self.on_options(request, result, shared, now);
                }
                _ => {}
            }
        }
    }

    fn on_options(
        &mut self,
        request: RequestId,
        result: Result<(), Failure>,
        shared: &mut Shared,
        now: Instant,
    ) {
        let Some(at) = self.probes.iter().position(|(id, _)| *id == request) else { return };
        let (_, key) = self.probes.swap_remove(at);
        match result {
            Err(failure) if words::is_of_server(&failure) => {
                self.fail(key, format!("{} (to OPTIONS)", words::reason(&failure)), shared, now);
            }
            _ => self.answers(key, !self.config.registers, shared, now),
        }
    }

    fn on_registration(
        &mut self,
        id: AccountId,
        state: RegistrationState,
        shared: &mut Shared,
        now: Instant,
    ) {
        let at = self.agent.registrar_flow(id).map(|flow| (flow.transport, flow.remote));
        let Some(place) = self.accounts.iter().position(|account| account.id == id) else { return };
        let uri = self.accounts[place].uri.clone();
        match state {
            RegistrationState::Registered { expires } => {
                let is_new = self.accounts[place].note_registered(now + expires, now);
                let Some(at) = at else { return };
                if is_new {
                    let (at, seconds) = (shown(at), expires.as_secs());
                    let text = format!("{uri} is registered at {at} for {seconds} s");
                    self.tell(false, text, shared);
                }
                self.answers(at, true, shared, now);
                if self.target.is_some_and(|target| target != at) {
                    // The target has changed while the request was under way.
                    self.agent.network_changed(now);
                }
            }
            RegistrationState::Failed { failure, retry } => {
                let mut reason = words::reason(&failure);
                if let Some(at) = at {
                    match words::is_of_server(&failure) {
                        true => {
                            let is_late = self.target != Some(at);
                            self.fail(at, format!("{reason} (to REGISTER)"), shared, now);
                            if self.target.is_some() && self.end.is_none() {
                                // The account registers at the new target.
                                if is_late {
                                    self.agent.register(now, id);
                                }
                                return;
                            }
                        }
                        false => self.answers(at, false, shared, now),
                    }
                    reason = format!("{reason} ({})", shown(at));
                }
                if self.end.is_some() {
                    return;
                }
                let wait = retry.unwrap_or_else(|| shared.random.upper_half(REJECTED_WAIT));
                let account = &mut self.accounts[place];
                account.own_retry = retry.is_none().then_some(now + wait);
                if account.note_failure(reason.clone(), Some(now + wait), now) {
                    shared.counters.refused += 1;
                    let text = format!(
                        "{uri} is not registered: {reason}; it is tried again in {} s",
                        wait.as_secs()
                    );
                    self.tell(true, text, shared);
                }
            }
            RegistrationState::Ended => {}
        }
    }

    /// Notes that a server answers.
    fn answers(&mut self, key: Key, is_of_use: bool, shared: &mut Shared, now: Instant) {
        if self.places.note_answer(key, is_of_use, now) {
            self.tell(false, format!("{} works again", shown(key)), shared);
        }
        self.choose(false, shared, now);
    }

    /// Notes that a server has failed.
    fn fail(&mut self, key: Key, reason: String, shared: &mut Shared, now: Instant) {
        let text = format!("{} has failed: {reason}", shown(key));
        if self.places.note_failure(key, reason, &mut shared.random, now) {
            shared.counters.failures += 1;
            self.tell(true, text, shared);
        }
        self.choose(false, shared, now);
    }

    fn tell(&self, is_trouble: bool, text: String, shared: &mut Shared) {
        let notice = Notice { trunk: self.config.name.clone(), text, is_trouble };
        shared.events.push_back(Event::Changed(notice));
    }

    /// Returns the next message to send, on the internal flow to its server.
    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        let Transmit { flow, bytes } = self.agent.poll_transmit()?;
        Some(Transmit { flow: flow.internal_to(Endpoint::Trunk(self.number)), bytes })
    }

    /// The flow to the target.
    fn target_flow(&self) -> Option<Flow> {
        self.places.get(self.target?).map(|place| place.flow)
    }

    fn is_usable(&self, now: Instant) -> bool {
        let is_registered = |account: &Account| {
            account.state == State::Works && account.until.is_some_and(|until| until > now)
        };
        let is_registered = !self.config.registers || self.accounts.iter().any(is_registered);
        self.target.is_some() && is_registered
    }

    pub(crate) fn view(&self, now: Instant) -> TrunkView {
        TrunkView {
            target: self.target_flow().filter(|_| self.is_usable(now)),
            servers: self.places.0.iter().map(|place| place.flow).collect(),
            contacts: self.accounts.iter().map(|account| account.contact.clone()).collect(),
            users: self.accounts.iter().map(|account| account.user.clone()).collect(),
        }
    }

    pub(crate) fn report(&self, now: Instant) -> TrunkReport {
        let places = self.places.0.iter().map(|place| PlaceReport {
            flow: place.flow,
            is_target: self.target == Some(place.key()),
            state: place.state,
            reason: place.reason.clone(),
            since: place.since,
            retry: place.retry,
        });
        TrunkReport {
            name: self.config.name.clone(),
            is_usable: self.is_usable(now),
            places: places.collect(),
            accounts: self.accounts.iter().map(Account::report).collect(),
            lookup: self.lookup.reason.clone(),
        }
    }
}

/// A server in words, as `udp:192.0.2.1:5060`.
fn shown((transport, remote): Key) -> String {
    format!("{}:{remote}", transport.uri_name())
}
