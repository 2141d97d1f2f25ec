//! The signalling of the callers, or of the callees, of a worker: a user agent with its link.

use super::error::SideError;
use super::link::Link;
use super::plan::{Callees, Plan, User};
use net::{Clock, Outbox};
use sip::locate::{Destination, Host};
use sip::{Duration, Instant, Transport};
use sip_ua::{Account, AccountId, Agent, CallId, Config, Event, Failure, Location, Password};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

/// The limit of simultaneous incoming calls and server transactions.
const LIMIT: usize = 1 << 20;
/// The lifetime of bindings; they are refreshed.
const EXPIRES: Duration = Duration::from_secs(3600);

/// The host of the contacts of ends as in browsers: a page does not know its address (RFC 7118
/// section 5).
const HOST: &str = "bench.invalid";

/// The callers or the callees.
pub(crate) struct Side {
    pub(crate) link: Link,
    pub(crate) agent: Agent,
    /// The end of each call.
    pub(crate) calls: HashMap<CallId, usize>,
    /// The account of each pair of users; empty if there are no accounts.
    pub(crate) accounts: Vec<AccountId>,
    /// Events with their times.
    events: VecDeque<(Instant, Event)>,
    server: Option<SocketAddr>,
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Returns random bytes for keys and identifiers.
pub(crate) fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system has random numbers");
}

impl Side {
    /// Opens the side of the callers, or of the callees, of `users`.
    ///
    /// # Errors
    /// [`SideError`] if there is no link, or a user is invalid.
    pub(crate) fn open(
        plan: &Plan,
        users: &[(User, User)],
        is_caller: bool,
        clock: Clock,
    ) -> Result<Self, SideError> {
        let link = Link::open(plan, clock)?;
        let mut secret = [0; 32];
        random(&mut secret);
        let config = Config {
            user: "bench".to_owned(),
            user_agent: concat!("barebell-bench/", env!("CARGO_PKG_VERSION")).to_owned(),
            keepalive: None,
            incoming_calls: LIMIT,
            server_transactions: LIMIT,
            ..Config::default()
        };
        let mut agent = Agent::new(config, &secret);
        let mut accounts = Vec::new();
        let transport = plan.transport.uri_param();
        let hides_address = plan.protection.is_web(is_caller)
            && matches!(plan.transport, Transport::Ws | Transport::Wss);
        for (caller, callee) in users {
            let (name, password) = if is_caller { caller } else { callee };
            let account = match &plan.callees {
                Callees::Registered { server, domain, callers_register } => Account {
                    password: Some(Password::new(password)),
                    proxy: Some(format!("sip:{server};transport={transport};lr")),
                    registers: *callers_register || !is_caller,
                    expires: EXPIRES,
                    contact_host: hides_address.then(|| HOST.to_owned()),
                    ..Account::new(&format!("sip:{name}@{domain}"))
                },
                _ if is_caller => Account {
                    registers: false,
                    ..Account::new(&format!("sip:{name}@{}", link.address()))
                },
                _ => break,
            };
            let added = agent.add_account(account);
            accounts.push(added.map_err(|error| SideError::User(name.clone(), error))?);
        }
        let server = match plan.callees {
            Callees::Direct => None,
            Callees::Registered { server, .. } | Callees::Uri { server, .. } => Some(server),
        };
        Ok(Self {
            link,
            agent,
            calls: HashMap::new(),
            accounts,
            events: VecDeque::new(),
            server,
            sent: 0,
            received: 0,
        })
    }

    /// Reads the messages that wait.
    pub(crate) fn receive(&mut self, clock: &Clock) {
        let Self { link, agent, events, received, .. } = self;
        link.receive(clock, &mut |at, flow, bytes| {
            agent.receive(at, flow, bytes);
            *received += 1;
            while let Some(event) = agent.poll_event() {
                events.push_back((at, event));
            }
        });
    }

    /// Runs the timers that are due.
    pub(crate) fn on_timer(&mut self, now: Instant) {
        if self.agent.next_timer().is_some_and(|when| when <= now) {
            self.agent.on_timer(now);
        }
    }

    /// Returns the next event with its time. Queries for locations are answered here.
    pub(crate) fn poll_event(&mut self, now: Instant) -> Option<(Instant, Event)> {
        loop {
            let (at, event) = match self.events.pop_front() {
                Some(event) => event,
                None => (now, self.agent.poll_event()?),
            };
            let Event::Locate { ticket, destination } = &event else { return Some((at, event)) };
            let locations: Vec<_> = self.location(destination).into_iter().collect();
            self.agent.located(now, *ticket, &locations);
        }
    }

    /// Returns the location of a destination: its address, or the server for any name.
    fn location(&self, destination: &Destination) -> Option<Location> {
        let remote = match &destination.host {
            Host::Ip(ip) => Some(SocketAddr::new(*ip, destination.port.unwrap_or(5060))),
            Host::Name(_) => self.server,
        };
        let (transport, local) = (self.link.transport(), Some(self.link.address()));
        Some(Location { transport, remote: remote?, local })
    }

    /// Sends the messages of the agent.
    pub(crate) fn flush(&mut self, outbox: &mut Outbox) {
        while let Some(transmit) = self.agent.poll_transmit() {
            self.link.send(outbox, &transmit.flow, &transmit.bytes);
            self.sent += 1;
        }
    }
}

/// Returns the reason of a failure in words.
pub(crate) fn reason_of(failure: &Failure) -> String {
    match failure {
        Failure::Refused { status, reason } => format!("{status} {reason}"),
        failure => format!("{failure:?}"),
    }
}
