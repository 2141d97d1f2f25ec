//! The signalling of the callers, or of the callees, of a worker: a user agent with its socket.

use super::plan::{Callees, Plan, User};
use crate::load::links::Clocks;
use net::{BATCH, Clock, Inbox, Options, Outbox, Outgoing, Socket};
use sip::locate::{Destination, Host};
use sip::{Duration, Flow, Instant, Transport};
use sip_ua::{Account, AccountId, Agent, CallId, Config, Event, Failure, Location, Password};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;

/// The longest received message.
const LONGEST: usize = 8192;
/// The limit of simultaneous incoming calls and server transactions.
const LIMIT: usize = 1 << 20;
/// The lifetime of bindings; they are refreshed.
const EXPIRES: Duration = Duration::from_secs(3600);

/// The callers or the callees.
pub(crate) struct Side {
    pub(crate) socket: Socket,
    pub(crate) agent: Agent,
    /// The end of each call.
    pub(crate) calls: HashMap<CallId, usize>,
    /// The account of each pair of users; empty if there are no accounts.
    pub(crate) accounts: Vec<AccountId>,
    inbox: Inbox,
    /// Events with their times.
    pub(crate) events: VecDeque<(Instant, Event)>,
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
    /// The socket cannot be opened.
    pub(crate) fn open(plan: &Plan, users: &[(User, User)], is_caller: bool) -> io::Result<Self> {
        let options = Options { is_timed: true, ..Options::default() };
        let socket = Socket::bind(SocketAddr::new(plan.local, 0), options)?;
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
        for (caller, callee) in users {
            let (name, password) = if is_caller { caller } else { callee };
            let account = match &plan.callees {
                Callees::Registered { server, domain } => Account {
                    password: Some(Password::new(password)),
                    proxy: Some(format!("sip:{server};lr")),
                    registers: !is_caller,
                    expires: EXPIRES,
                    ..Account::new(&format!("sip:{name}@{domain}"))
                },
                _ if is_caller => Account {
                    registers: false,
                    ..Account::new(&format!("sip:{name}@{}", socket.address()))
                },
                _ => break,
            };
            let added = agent.add_account(account);
            accounts.push(added.map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidInput, format!("user {name}: {error}"))
            })?);
        }
        let server = match plan.callees {
            Callees::Direct => None,
            Callees::Registered { server, .. } | Callees::Uri { server, .. } => Some(server),
        };
        Ok(Self {
            socket,
            agent,
            calls: HashMap::new(),
            accounts,
            inbox: Inbox::new(BATCH, LONGEST),
            events: VecDeque::new(),
            server,
            sent: 0,
            received: 0,
        })
    }

    /// Reads the messages that wait. Returns true if there may be more.
    pub(crate) fn receive(&mut self, clock: &Clock) -> bool {
        let clocks = Clocks::read(clock);
        let Self { socket, agent, inbox, events, received, .. } = self;
        let local = socket.address();
        let count = inbox.receive(socket, |datagram| {
            let at = clocks.time_of(datagram.at);
            let (transport, remote, connection) = (Transport::Udp, datagram.remote, None);
            agent.receive(at, &Flow { transport, local, remote, connection }, datagram.bytes);
            *received += 1;
            while let Some(event) = agent.poll_event() {
                events.push_back((at, event));
            }
        });
        count.is_ok_and(|count| count == BATCH)
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
        let local = self.socket.address();
        Some(Location { transport: Transport::Udp, remote: remote?, local })
    }

    /// Sends the messages of the agent.
    pub(crate) fn flush(&mut self, outbox: &mut Outbox) {
        while let Some(transmit) = self.agent.poll_transmit() {
            let (remote, local) = (Some(transmit.flow.remote), self.socket.address().ip());
            let outgoing = Outgoing { remote, local, bytes: &transmit.bytes };
            // The transaction of a message that cannot be sent times out.
            outbox.send(&self.socket, [outgoing], |_| {});
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
