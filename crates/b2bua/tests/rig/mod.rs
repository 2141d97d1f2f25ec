//! Phones on a network with a virtual clock, with a back-to-back user agent between them. The rig
//! has the part of the proxy: it passes requests to the phone that their URI names. With
//! [`Rig::behind_proxy`] the server's proxy is in front of both legs instead.
// Each test file uses a part of it.
#![allow(dead_code)]

pub(crate) mod flow;
pub(crate) mod office;
mod proxy;

use barebell_b2bua::{B2bua, Config, InfoDigit, Transmit};
use parking_lot::{Mutex, MutexGuard};
use proxy::Proxy;
use sip::message::Response;
use sip::{Connection, Flow, Instant, Message, Method, Transport, Uri};
use sip_server::config::Joining;
use sip_server::{CallServices, Group, JoinedCalls};
use sip_ua::{Account, AccountId, Agent, CallError, CallId, Event, Location, RegistrationState};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use test_support::network::{self, Link, Network};

/// The start of the clock.
const BEGIN: Instant = Instant::from_micros(1_000_000_000);

/// The element to wake: a phone, or the B2BUA.
#[derive(Clone, Copy)]
enum Wake {
    Phone(usize),
    B2bua,
    /// Only the time advances.
    Nothing,
}

pub(crate) struct Rig {
    network: Network<Wake>,
    /// The time at which the clock of the network is zero.
    begin: Instant,
    pub(crate) phones: Vec<Agent>,
    events: Vec<VecDeque<Event>>,
    pub(crate) b2bua: Shared,
    pub(crate) owner: Owner,
    /// All messages that phones were sent, with the number of the phone.
    pub(crate) received: Vec<(usize, Vec<u8>)>,
    proxy: Option<Proxy>,
    /// The phones that neither send nor receive any more.
    silent: Vec<usize>,
    script: flow::Script,
}

/// The owner of the B2BUA.
#[derive(Default)]
pub(crate) struct Owner {
    /// The events other than digits.
    pub(crate) events: VecDeque<barebell_b2bua::Event>,
    /// True if digits are played to the other party, and the played ones.
    pub(crate) plays: bool,
    pub(crate) played: Vec<(bool, InfoDigit)>,
}

impl Owner {
    fn attend(&mut self, b2bua: &mut B2bua, now: Instant) {
        while let Some(event) = b2bua.poll_event() {
            match event {
                barebell_b2bua::Event::Digit { request, is_of_caller, digit, .. } => {
                    self.played.extend(self.plays.then_some((is_of_caller, digit)));
                    b2bua.answer_digit(now, request, self.plays);
                }
                event => self.events.push_back(event),
            }
        }
    }
}

pub(crate) fn address(phone: usize) -> SocketAddr {
    ([192, 0, 2, phone as u8 + 1], 5060).into()
}

pub(crate) fn server() -> SocketAddr {
    ([192, 0, 2, 100], 5060).into()
}

/// Returns a session description of a phone with this port and direction.
pub(crate) fn session(phone: usize, port: u16, direction: &str) -> Vec<u8> {
    let host = address(phone).ip();
    format!(
        "v=0\r\no=p{phone} {port} 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\na={direction}\r\n"
    )
    .into_bytes()
}

/// Returns `description` without its origin.
pub(crate) fn without_origin(description: &[u8]) -> String {
    let text = String::from_utf8_lossy(description);
    text.lines().filter(|line| !line.starts_with("o=")).collect::<Vec<_>>().join("\n")
}

/// Returns the phone that a URI names: its own address, or by the user part `p` and its number.
fn phone_of(uri: &[u8]) -> Option<usize> {
    let Ok(Uri::Sip(uri)) = Uri::parse(uri) else { return None };
    if let Some(ip) = uri.host.ip()
        && ip != server().ip()
    {
        return (0..100).find(|phone| address(*phone).ip() == ip);
    }
    std::str::from_utf8(uri.user?).ok()?.strip_prefix('p')?.parse().ok()
}

/// The B2BUA, which the proxy asks about its calls.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<B2bua>>);

impl JoinedCalls for Shared {
    fn replacing(&self, uri: &[u8], replaces: &[u8]) -> Option<Vec<u8>> {
        self.0.lock().replacing(uri, replaces)
    }

    fn referral_of_trunk(&self, call_id: &[u8], to_tag: &[u8], refer_to: &[u8]) -> Option<Vec<u8>> {
        self.0.lock().referral_of_trunk(call_id, to_tag, refer_to)
    }
}

impl Rig {
    pub(crate) fn new(seed: u64, configs: &[sip_ua::Config]) -> Self {
        Self::with_config(seed, configs, Config::default())
    }

    pub(crate) fn with_config(seed: u64, configs: &[sip_ua::Config], config: Config) -> Self {
        let mut secret = [200; 32];
        secret[..8].copy_from_slice(&seed.to_le_bytes());
        let phones = configs.iter().enumerate().map(|(number, config)| {
            let mut secret = [number as u8; 32];
            secret[..8].copy_from_slice(&seed.to_le_bytes());
            let config = sip_ua::Config { direct_calls: true, ..config.clone() };
            Agent::new(config, &secret)
        });
        let delay = Duration::from_millis(5);
        let link = Link { delay, jitter: Duration::from_millis(30), ..Link::default() };
        Self {
            network: Network::new(seed, link),
            begin: BEGIN,
            phones: phones.collect(),
            events: configs.iter().map(|_| VecDeque::new()).collect(),
            b2bua: Shared(Arc::new(Mutex::new(B2bua::new(config, &secret)))),
            owner: Owner::default(),
            received: Vec::new(),
            proxy: None,
            silent: Vec::new(),
            script: flow::Script::default(),
        }
    }

    /// Returns `count` phones that are registered at a proxy in front of the B2BUA, on a network
    /// with the properties `link`.
    pub(crate) fn behind_proxy(seed: u64, count: usize, link: Link) -> Self {
        let config = |phone: usize| {
            let mut account = Account::new(&format!("sip:p{phone}@{}", server()));
            account.proxy = Some(format!("sip:{};lr", server()));
            sip_ua::Config { accounts: vec![account], ..sip_ua::Config::default() }
        };
        let configs: Vec<_> = (0..count).map(config).collect();
        let mut rig = Self::new(seed, &configs);
        rig.proxy = Some(Proxy::new(server(), Arc::new(rig.b2bua.clone())));
        (0..count).for_each(|phone| rig.register(phone));
        rig.network.link = link;
        rig
    }

    /// Returns phone 0, which is registered at the proxy in front of the B2BUA, and a phone for
    /// each of `trunks`, which is the trunk.
    pub(crate) fn office(seed: u64, trunks: Vec<barebell_b2bua::Trunk>) -> Self {
        Self::office_of(seed, 1, trunks)
    }

    /// Like [`Rig::office`], with as many phones of users as `users` in front of the trunks.
    pub(crate) fn office_of(seed: u64, users: usize, trunks: Vec<barebell_b2bua::Trunk>) -> Self {
        let of_user = |user: usize| {
            let mut account = Account::new(&format!("sip:p{user}@{}", server()));
            account.proxy = Some(format!("sip:{};lr", server()));
            sip_ua::Config { accounts: vec![account], ..sip_ua::Config::default() }
        };
        let mut configs: Vec<_> = (0..users).map(of_user).collect();
        configs.extend(Self::phones(trunks.len()));
        let office = Arc::new(office::Office::new(users, trunks.len()));
        let mut rig = Self::with_config(seed, &configs, Config { trunks, ..Config::default() });
        rig.proxy = Some(Proxy::of_office(server(), Arc::new(rig.b2bua.clone()), office));
        (0..users).for_each(|user| rig.register(user));
        rig
    }

    /// A phone registers.
    fn register(&mut self, phone: usize) {
        self.act(phone, |phone, now| {
            phone.register(now, AccountId(0));
            Ok(())
        });
        self.expect_where(phone, |event| {
            let state = RegistrationState::Registered { expires: sip::Duration::ZERO };
            matches!(event, Event::Registration { state: found, .. }
                if std::mem::discriminant(found) == std::mem::discriminant(&state))
        });
    }

    /// Returns `count` phones with default settings.
    pub(crate) fn phones(count: usize) -> Vec<sip_ua::Config> {
        vec![sip_ua::Config::default(); count]
    }

    pub(crate) fn now(&self) -> Instant {
        self.begin + sip::Duration::from(self.network.now())
    }

    pub(crate) fn b2bua(&self) -> MutexGuard<'_, B2bua> {
        self.b2bua.0.lock()
    }

    /// The proxy sends only those of the further calls through the B2BUA that need it.
    pub(crate) fn join_if_needed(&mut self) {
        self.proxy.as_mut().expect("a proxy").join(Joining::Needed);
    }

    /// Sets the call services of the user of a phone.
    pub(crate) fn set_services(&mut self, phone: usize, services: CallServices) {
        let name = format!("p{phone}@{}", server().ip());
        self.proxy.as_mut().expect("a proxy").set_services(&name, services);
    }

    /// Sets the groups of the proxy.
    pub(crate) fn set_groups(&mut self, groups: Vec<Group>) {
        self.proxy.as_mut().expect("a proxy").set_groups(groups);
    }

    /// Runs an action of a phone.
    pub(crate) fn act<T>(
        &mut self,
        phone: usize,
        act: impl FnOnce(&mut Agent, Instant) -> Result<T, CallError>,
    ) -> T {
        let now = self.now();
        let done = act(&mut self.phones[phone], now).expect("the phone does it");
        self.drain(phone);
        done
    }

    /// Runs an action of the B2BUA.
    pub(crate) fn act_b2bua(&mut self, act: impl FnOnce(&mut B2bua, Instant)) {
        let now = self.now();
        act(&mut self.b2bua(), now);
        self.drain_b2bua();
    }

    /// A phone calls another one with the offer `session`, or without an offer if it is empty.
    pub(crate) fn call(&mut self, from: usize, to: usize, session: &[u8]) -> CallId {
        let uri = format!("sip:p{to}@{}", server());
        let account = self.proxy.as_ref().map(|_| AccountId(0));
        self.act(from, |phone, now| phone.call(now, account, &uri, session.to_vec()))
    }

    /// Establishes a call. Returns its identifiers at both phones.
    pub(crate) fn establish(&mut self, from: usize, to: usize) -> (CallId, CallId) {
        let caller = self.call(from, to, &session(from, 4000, "sendrecv"));
        let callee = self.expect_incoming(to);
        self.act(to, |phone, now| phone.answer(now, callee, &session(to, 5000, "sendrecv")));
        self.expect_where(from, |event| matches!(event, Event::Answered { .. }));
        (caller, callee)
    }

    pub(crate) fn expect_incoming(&mut self, phone: usize) -> CallId {
        let event = self.expect_where(phone, |event| matches!(event, Event::Incoming { .. }));
        event.call().expect("a call")
    }

    /// Returns the next event of a phone for which `is_it` is true. Earlier ones are dropped.
    pub(crate) fn expect_where(&mut self, phone: usize, is_it: impl Fn(&Event) -> bool) -> Event {
        let end = self.now() + sip::Duration::from_secs(3600);
        loop {
            while let Some(event) = self.events[phone].pop_front() {
                if is_it(&event) {
                    return event;
                }
            }
            assert!(self.step() && self.now() < end, "phone {phone} waits for an event");
        }
    }

    /// Returns the events of a phone that were not taken.
    pub(crate) fn events(&mut self, phone: usize) -> Vec<Event> {
        self.events[phone].drain(..).collect()
    }

    /// Returns the last message that a phone got with this beginning.
    pub(crate) fn last(&self, phone: usize, beginning: &str) -> String {
        let is_it = |(of, bytes): &&(usize, Vec<u8>)| {
            *of == phone && bytes.starts_with(beginning.as_bytes())
        };
        let found = self.received.iter().rfind(is_it);
        let (_, bytes) = found.unwrap_or_else(|| panic!("phone {phone} got no {beginning}"));
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Returns the number of messages that a phone got with this beginning.
    pub(crate) fn count(&self, phone: usize, beginning: &str) -> usize {
        let is_it = |(of, bytes): &&(usize, Vec<u8>)| {
            *of == phone && bytes.starts_with(beginning.as_bytes())
        };
        self.received.iter().filter(is_it).count()
    }

    /// A phone vanishes from the network.
    pub(crate) fn silence(&mut self, phone: usize) {
        self.silent.push(phone);
    }

    /// The phone is back.
    pub(crate) fn wake(&mut self, phone: usize) {
        self.silent.retain(|silent| *silent != phone);
    }

    pub(crate) fn drain(&mut self, phone: usize) {
        let now = self.now();
        loop {
            while let Some(transmit) = self.phones[phone].poll_transmit() {
                if !self.silent.contains(&phone) {
                    self.transmit(address(phone), transmit.flow.remote, &transmit.bytes);
                }
            }
            match self.phones[phone].poll_event() {
                Some(Event::Locate { ticket, .. }) => {
                    let location = Location {
                        transport: Transport::Udp,
                        remote: server(),
                        local: Some(address(phone)),
                    };
                    self.phones[phone].located(now, ticket, &[location]);
                }
                Some(event) => self.events[phone].push_back(event),
                None => break,
            }
        }
        if let Some(next) = self.phones[phone].next_timer() {
            self.network.wake_at(next.since(self.begin).into(), Wake::Phone(phone));
        }
    }

    /// Passes the messages between the proxy, the B2BUA and the network.
    fn drain_proxy(&mut self) {
        let now = self.now();
        let Some(proxy) = &mut self.proxy else { return };
        loop {
            let sent = proxy.sent(now);
            let is_idle = sent.is_empty();
            for (flow, bytes) in sent {
                match flow.is_internal() {
                    true => {
                        let mut b2bua = self.b2bua.0.lock();
                        b2bua.receive(now, &flow, &bytes);
                        self.owner.attend(&mut b2bua, now);
                    }
                    false => self.script.transmit(&mut self.network, server(), flow.remote, &bytes),
                }
            }
            // The proxy asks the B2BUA, so that this may not be locked.
            let sent: Vec<_> = {
                let mut b2bua = self.b2bua.0.lock();
                std::iter::from_fn(|| b2bua.poll_transmit()).collect()
            };
            for transmit in sent {
                assert!(transmit.flow.is_internal(), "the B2BUA has no other flow");
                proxy.receive(now, &transmit.flow, &transmit.bytes);
            }
            if is_idle && !proxy.has_sent() {
                break;
            }
        }
        let timers = [self.b2bua.0.lock().next_timer(), proxy.next_timer()];
        for next in timers.into_iter().flatten() {
            self.network.wake_at(next.since(self.begin).into(), Wake::B2bua);
        }
    }

    fn drain_b2bua(&mut self) {
        let now = self.now();
        self.owner.attend(&mut self.b2bua.0.lock(), now);
        if self.proxy.is_some() {
            return self.drain_proxy();
        }
        let sent: Vec<_> = {
            let mut b2bua = self.b2bua();
            std::iter::from_fn(|| b2bua.poll_transmit()).collect()
        };
        for transmit in sent {
            self.pass_on(&transmit);
        }
        if let Some(next) = self.b2bua.0.lock().next_timer() {
            self.network.wake_at(next.since(self.begin).into(), Wake::B2bua);
        }
    }

    /// Passes a message of the B2BUA to its phone.
    pub(crate) fn pass_on(&mut self, transmit: &Transmit) {
        assert!(transmit.flow.is_internal(), "the B2BUA has no other flow");
        let message = Message::parse(&transmit.bytes).expect("a message");
        assert_eq!(message.framing_fault(), None, "a good message");
        let to = match message.request_uri() {
            Some(uri) => {
                message.validate_request().expect("a good request");
                phone_of(uri)
            }
            None => {
                let via = message.top_via().expect("a Via");
                (0..self.phones.len()).find(|phone| via.host.ip() == Some(address(*phone).ip()))
            }
        };
        match to {
            Some(to) => self.transmit(server(), address(to), &transmit.bytes),
            None => self.refuse_unknown(&message),
        }
    }

    /// Answers a request that no phone has, as the proxy does.
    fn refuse_unknown(&mut self, request: &Message<'_>) {
        if request.method().is_some_and(|method| method != Method::Ack) {
            let (status, reason) = (404, "Not Found");
            let source = server();
            let response = Response { request, source, status, reason, to_tag: Some(b"none") };
            let mut bytes = Vec::new();
            response.write(&mut bytes, |_| {});
            self.network.send(server(), server(), &bytes);
        }
    }

    /// Processes the next event of the network. Returns false at the end of all events.
    pub(crate) fn step(&mut self) -> bool {
        let Some(event) = self.network.next_event() else { return false };
        let now = self.now();
        match event {
            network::Event::Datagram { from, to, bytes } if to == server() => {
                if let Some(proxy) = &mut self.proxy {
                    let flow = Flow {
                        transport: Transport::Udp,
                        local: to,
                        remote: from,
                        connection: None,
                    };
                    proxy.receive(now, &flow, &bytes);
                    self.drain_proxy();
                    return true;
                }
                // The addresses of both legs are those of the caller: the first phone.
                let flow = Flow {
                    transport: Transport::Tcp,
                    local: to,
                    remote: address(0),
                    connection: Some(Connection::INTERNAL),
                };
                self.b2bua().receive(now, &flow, &bytes);
                self.drain_b2bua();
            }
            network::Event::Datagram { from, to, bytes } => {
                let phone = (0..self.phones.len()).find(|phone| address(*phone) == to);
                let phone = phone.expect("a phone");
                if self.silent.contains(&phone) {
                    return true;
                }
                self.received.push((phone, bytes.clone()));
                if self.script.takes(phone, &bytes) {
                    return true;
                }
                let flow =
                    Flow { transport: Transport::Udp, local: to, remote: from, connection: None };
                self.phones[phone].receive(now, &flow, &bytes);
                self.drain(phone);
            }
            network::Event::Wake(Wake::Phone(phone)) => {
                if self.phones[phone].next_timer().is_some_and(|next| next <= now) {
                    self.phones[phone].on_timer(now);
                    self.drain(phone);
                }
            }
            network::Event::Wake(Wake::B2bua) => {
                let mut b2bua = self.b2bua.0.lock();
                let is_due = b2bua.next_timer().is_some_and(|next| next <= now);
                if is_due {
                    b2bua.on_timer(now);
                }
                drop(b2bua);
                let proxy = self.proxy.as_mut();
                let proxy = proxy.filter(|it| it.next_timer().is_some_and(|next| next <= now));
                // A wake without a due timer is an older one, and schedules no other.
                if !is_due && proxy.is_none() {
                    return true;
                }
                if let Some(proxy) = proxy {
                    proxy.on_timer(now);
                }
                self.drain_b2bua();
            }
            network::Event::Wake(Wake::Nothing)
            | network::Event::Stream { .. }
            | network::Event::Closed { .. } => {}
        }
        true
    }

    /// Advances the time.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now() + sip::Duration::from(time);
        while self.step_until(end) {}
    }

    /// Processes the next event up to `end`. Returns false at that time.
    pub(crate) fn step_until(&mut self, end: Instant) -> bool {
        let time: Duration = end.since(self.begin).into();
        if self.network.next_time().is_some_and(|next| next <= time) {
            return self.step();
        }
        self.network.wake_at(time, Wake::Nothing);
        self.step();
        false
    }

    /// Lets the clock jump to `to`: nothing happens meanwhile.
    pub(crate) fn jump(&mut self, to: Instant) {
        self.begin += to.since(self.now());
        self.received.clear();
        let now = self.now();
        for phone in 0..self.phones.len() {
            self.phones[phone].on_timer(now);
            self.drain(phone);
        }
        self.b2bua().on_timer(now);
        if let Some(proxy) = &mut self.proxy {
            proxy.on_timer(now);
        }
        self.drain_b2bua();
    }

    /// A phone answers the requests that it has let wait.
    pub(crate) fn answer_requests(&mut self, phone: usize) {
        for event in self.events(phone) {
            let Event::Request { request, .. } = event else { continue };
            self.act(phone, |phone, now| {
                // The call may have ended since.
                let _ = phone.respond(now, request, 200, b"");
                Ok(())
            });
        }
    }

    /// Runs all calls to their end. No state may remain.
    pub(crate) fn finish(&mut self) {
        let end = self.network.now() + Duration::from_secs(600);
        while self.network.next_time().is_some_and(|next| next <= end) {
            self.step();
        }
        for (number, phone) in self.phones.iter().enumerate() {
            assert_eq!(phone.calls(), 0, "calls of phone {number} are left");
            assert_eq!(phone.transactions(), 0, "transactions of phone {number} are left");
        }
        assert_eq!(self.b2bua().calls(), 0, "calls of the B2BUA are left");
        assert_eq!(self.b2bua().remains(), 0, "legs or transactions of the B2BUA are left");
        assert_eq!(self.b2bua().next_timer(), None, "timers of the B2BUA are left");
        let proxied = self.proxy.as_ref().map_or(0, Proxy::transactions);
        assert_eq!(proxied, 0, "transactions of the proxy are left");
    }
}
