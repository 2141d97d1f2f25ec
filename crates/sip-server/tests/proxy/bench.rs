//! A test bench for the server: messages are passed in by hand, and the output is returned in a
//! short form.
//!
//! Each message of the server is noted as `END MESSAGE`, such as `bob INVITE` or `alice 180`, after
//! the name of the end that it goes to. Alice at 192.0.2.10 is the caller. The ends of the callees
//! are those that were registered, or created by [`Bench::end`].

use barebell_sip_server::config::{Domain, Listener, Network};
use barebell_sip_server::{Config, Connection, Event, Flow, Output, Server, Ticket, Worker};
use parking_lot::RawMutex;
use sip::dialog::Dialog;
use sip::message::{Response, reason_phrase};
use sip::{Duration, HeaderName, Instant, Location, Message, Method, Transport};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;

pub(crate) const UDP: &str = "192.0.2.1:5060";
pub(crate) const ALICE: &str = "192.0.2.10:5060";

pub(crate) struct Bench {
    pub(crate) server: Arc<Server<RawMutex>>,
    pub(crate) now: Instant,
    /// The time that received messages have waited.
    pub(crate) waited: Duration,
    /// The complete journal.
    pub(crate) journal: Vec<u8>,
    /// The last output, with complete messages.
    pub(crate) sent: Vec<Sent>,
    /// The pending DNS lookups.
    pub(crate) tickets: Vec<Ticket>,
    workers: Vec<Worker<RawMutex>>,
    turn: usize,
    ends: BTreeMap<&'static str, Flow>,
    /// The last message that each end received, by method or `response`.
    received: BTreeMap<(String, String), String>,
    serial: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) to: String,
    pub(crate) flow: Flow,
    pub(crate) text: String,
}

/// A server for `example.com` without authentication or restrictions.
pub(crate) fn config() -> Config {
    let listener = |transport| Listener { transport, address: UDP.parse().unwrap() };
    let mut config = Config {
        listeners: vec![listener(Transport::Udp), listener(Transport::Tcp)],
        domains: vec![Domain { name: "example.com".into(), aliases: vec!["192.0.2.1".into()] }],
        ..Config::default()
    };
    config.authentication.required = false;
    config.limits.trusted = vec![Network { address: "192.0.2.0".parse().unwrap(), prefix: 24 }];
    config
}

pub(crate) fn udp(remote: &str) -> Flow {
    Flow {
        transport: Transport::Udp,
        local: UDP.parse().unwrap(),
        remote: remote.parse().unwrap(),
        connection: None,
    }
}

pub(crate) fn tcp(remote: &str, connection: u64) -> Flow {
    let connection = NonZeroU64::new(connection).map(Connection);
    Flow { transport: Transport::Tcp, connection, ..udp(remote) }
}

impl Bench {
    pub(crate) fn new(config: Config) -> Self {
        let server = Arc::new(Server::<RawMutex>::new(config, &[7; 32]));
        Self {
            now: Instant::from_micros(1_700_000_000_000_000),
            waited: Duration::ZERO,
            journal: Vec::new(),
            sent: Vec::new(),
            tickets: Vec::new(),
            // The result of an event must not depend on the worker.
            workers: (0..2).map(|_| server.worker()).collect(),
            turn: 0,
            ends: BTreeMap::from([("alice", udp(ALICE))]),
            received: BTreeMap::new(),
            serial: 0,
            server,
        }
    }

    /// Creates a server with bob registered at each of `ends`, with these q values. The first of
    /// them registers last.
    pub(crate) fn with_bob(ends: &[(&'static str, &str)]) -> Self {
        Self::with_config_and_bob(config(), ends)
    }

    pub(crate) fn with_config_and_bob(config: Config, ends: &[(&'static str, &str)]) -> Self {
        let mut bench = Self::new(config);
        for (number, (end, q)) in ends.iter().enumerate().rev() {
            let address = format!("192.0.2.{}:5060", 20 + number);
            bench.end(end, udp(&address));
            let contact = format!("<sip:{end}@{address}>;q={q}");
            assert_eq!(bench.register(end, "bob", &contact), [format!("{end} 200")]);
        }
        bench
    }

    /// Names the remote end of a flow.
    pub(crate) fn end(&mut self, name: &'static str, flow: Flow) {
        if let Some(connection) = flow.connection {
            self.server.connection_opened(connection);
        }
        self.ends.insert(name, flow);
    }

    pub(crate) fn flow(&self, end: &str) -> Flow {
        self.ends[end]
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.server.counters().into_iter().find(|counter| counter.0 == name).expect(name).1
    }

    /// Registers a contact of `user` from `end`.
    pub(crate) fn register(&mut self, end: &str, user: &str, contact: &str) -> Vec<String> {
        let uri = "sip:example.com";
        let register = self.request("REGISTER", uri, end, end, &format!("sip:{user}@example.com"));
        self.receive(
            end,
            &register.replace(line(&register, "Contact"), &format!("Contact: {contact}")),
        )
    }

    /// A request from an end, with a unique branch. The Via is that of the end's flow.
    pub(crate) fn request(
        &mut self,
        method: &str,
        uri: &str,
        end: &str,
        from: &str,
        to: &str,
    ) -> String {
        self.serial += 1;
        let (serial, Flow { transport, remote, .. }) = (self.serial, self.ends[end]);
        let via = ("SIP/2.0/", transport.via_name(), " ", remote, ";branch=z9hG4bK", serial);
        let dialog =
            Dialog::new("call", ("<sip:", from, "@example.com>"), from, ("<", to, ">"), uri);
        written(|out| {
            dialog
                .request(Method::new(method.as_bytes()), serial, via, out)
                .field(HeaderName::Contact, ("<sip:", from, "@", remote, ">"))
                .end();
        })
    }

    /// Simulates long waiting times until the workers shed load.
    pub(crate) fn fall_behind(&mut self, transport: Transport) {
        for worker in &mut self.workers {
            while !worker.is_shedding() {
                self.now += Duration::from_millis(20);
                worker.note_wait(transport, self.now, Duration::from_millis(60));
            }
        }
    }

    /// True if the first worker accepts `text` from a stream.
    pub(crate) fn lets_in(&mut self, text: &str) -> bool {
        self.workers[0].lets_in(text.as_bytes(), self.waited)
    }

    /// Alice sends a request for bob.
    pub(crate) fn call(&mut self, method: &str) -> Vec<String> {
        let request =
            self.request(method, "sip:bob@example.com", "alice", "alice", "sip:bob@example.com");
        self.receive("alice", &request)
    }

    /// Receives a message from an end.
    pub(crate) fn receive(&mut self, end: &str, text: &str) -> Vec<String> {
        let flow = self.ends[end];
        let message = Message::parse(text.as_bytes()).unwrap();
        let kind = message.method().map_or("response".into(), |method| method.to_string());
        self.received.insert((format!("from {end}"), kind), text.to_owned());
        let (now, waited) = (self.now, self.waited);
        self.work(|worker, out| worker.receive_late(now, waited, &flow, text.as_bytes(), out))
    }

    /// The last message that an end received, by method or `response`, or sent: `from alice`.
    pub(crate) fn last(&self, end: &str, kind: &str) -> String {
        self.received
            .get(&(end.to_owned(), kind.to_owned()))
            .unwrap_or_else(|| panic!("{end} has no {kind}"))
            .clone()
    }

    /// Answers the last INVITE that the end received.
    pub(crate) fn answer(&mut self, end: &str, status: u16) -> Vec<String> {
        self.respond(end, "INVITE", status, "")
    }

    /// Answers the last request with this method that the end received, with further lines.
    pub(crate) fn respond(
        &mut self,
        end: &str,
        method: &str,
        status: u16,
        lines: &str,
    ) -> Vec<String> {
        let response = response(&self.last(end, method), status, end, lines);
        self.receive(end, &response)
    }

    /// Sends alice's CANCEL of her last INVITE, or her ACK of the last final response within the
    /// transaction.
    pub(crate) fn follow(&mut self, method: &str) -> Vec<String> {
        let invite = self.last("from alice", "INVITE");
        let invite = Message::parse(invite.as_bytes()).unwrap();
        let follow = match method {
            "CANCEL" => written(|out| invite.write_cancel(b"", out)),
            _ => {
                let response = self.last("alice", "response");
                written(|out| invite.write_ack(&Message::parse(response.as_bytes()).unwrap(), out))
            }
        };
        self.receive("alice", &follow)
    }

    /// Advances the clock and returns the output with its time, in milliseconds from now.
    pub(crate) fn wait(&mut self, millis: u64) -> Vec<String> {
        let start = self.now;
        let end = start + Duration::from_millis(millis);
        let mut noted = Vec::new();
        let mut all = Vec::new();
        while let Some(next) = self.workers[0].next_timer().filter(|next| *next <= end) {
            self.now = self.now.max(next);
            let now = self.now;
            let sent = self.work(|worker, out| worker.on_timer(now, out));
            all.append(&mut self.sent);
            noted.extend(
                sent.into_iter().map(|sent| format!("{} {sent}", now.since(start).as_millis())),
            );
        }
        self.now = end;
        self.sent = all;
        noted
    }

    /// The time until the next timer, in milliseconds.
    pub(crate) fn next_timer(&self) -> Option<u64> {
        self.workers[0].next_timer().map(|next| next.since(self.now).as_millis())
    }

    /// The connection of `end` ends.
    pub(crate) fn disconnect(&mut self, end: &str) -> Vec<String> {
        let (connection, now) = (self.flow(end).connection.expect("a connection"), self.now);
        self.work(|worker, out| worker.connection_ended(now, connection, out))
    }

    /// Advances the clock until only bindings are left.
    pub(crate) fn rest(&mut self) {
        self.wait(400_000);
        assert_eq!(self.server.transactions(), 0, "transactions are stuck");
        assert_eq!(self.server.transaction_bytes(), 0, "bytes are lost");
    }

    /// Returns the DNS result for the first ticket.
    pub(crate) fn located(&mut self, places: &[(Transport, &str)]) -> Vec<String> {
        let ticket = self.tickets.remove(0);
        let locations: Vec<_> = places
            .iter()
            .map(|(transport, remote)| Location {
                transport: *transport,
                remote: remote.parse().unwrap(),
                local: None,
            })
            .collect();
        let now = self.now;
        self.work(|worker, out| worker.located(now, ticket, &locations, out))
    }

    /// Reports the last message to an end with this method as undeliverable.
    pub(crate) fn undeliverable(&mut self, end: &str, kind: &str) -> Vec<String> {
        let (text, flow, now) = (self.last(end, kind), self.ends[end], self.now);
        self.work(|worker, out| worker.undeliverable(now, &flow, text.as_bytes(), out))
    }

    /// The network reports that a datagram to the address of `end`, which begins with `quoted`, was
    /// not delivered.
    pub(crate) fn unreachable(&mut self, end: &str, quoted: &[u8]) -> Vec<String> {
        let (remote, now) = (self.ends[end].remote, self.now);
        self.work(|worker, out| worker.unreachable(now, remote, quoted, out))
    }

    fn work(&mut self, act: impl FnOnce(&mut Worker<RawMutex>, &mut Output)) -> Vec<String> {
        self.turn += 1;
        let count = self.workers.len();
        let mut out = Output::default();
        act(&mut self.workers[self.turn % count], &mut out);
        self.journal.extend_from_slice(&out.journal);
        self.sent.clear();
        let mut noted = Vec::new();
        for transmit in &out.transmits {
            let bytes = &out.bytes[transmit.range.clone()];
            let message = Message::parse(bytes).expect("the server sends messages");
            assert_eq!(message.framing_fault(), None);
            if message.method().is_some() {
                message.validate_request().expect("the server sends good requests");
            }
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            let (to, kind, what) = self.note(&transmit.flow, &message);
            self.received.insert((to.clone(), kind), text.clone());
            noted.push(format!("{to} {what}"));
            self.sent.push(Sent { to, flow: transmit.flow, text });
        }
        for event in &out.events {
            if let Event::Locate { ticket, destination, .. } = event {
                self.tickets.push(ticket.clone());
                noted.push(format!("where is {:?}", destination.host));
            }
        }
        noted
    }

    fn note(&self, flow: &Flow, message: &Message<'_>) -> (String, String, String) {
        let by_flow = self.ends.iter().find(|(_, end)| *end == flow);
        let by_address = self
            .ends
            .iter()
            .find(|(_, end)| (end.transport, end.remote) == (flow.transport, flow.remote));
        let name =
            by_flow.or(by_address).map_or_else(|| flow.to_string(), |(name, _)| (*name).to_owned());
        match (message.method(), message.status()) {
            (Some(method), _) => (name, method.to_string(), method.to_string()),
            (None, status) => (name, "response".into(), status.unwrap_or_default().to_string()),
        }
    }
}

/// The first header field line with this name, without the line end.
pub(crate) fn line<'t>(text: &'t str, name: &str) -> &'t str {
    let start = format!("{name}: ");
    text.lines()
        .find(|line| line.starts_with(&start))
        .unwrap_or_else(|| panic!("no {name}: {text}"))
}

/// All values of the header field with this name.
pub(crate) fn values(text: &str, name: HeaderName) -> Vec<String> {
    let message = Message::parse(text.as_bytes()).unwrap();
    message.elements(name).map(|value| String::from_utf8(value.to_vec()).unwrap()).collect()
}

/// A response of `end` to a request of the server, with the name of the end as its tag.
pub(crate) fn response(request: &str, status: u16, end: &str, lines: &str) -> String {
    let request = Message::parse(request.as_bytes()).unwrap();
    let response = Response {
        request: &request,
        source: UDP.parse().unwrap(),
        status,
        reason: reason_phrase(status),
        to_tag: (status > 100).then_some(end.as_bytes()),
    };
    written(|out| {
        response.write(out, |out| {
            request.write_record_routes(out);
            out.extend_from_slice(lines.as_bytes());
        });
    })
}

/// The output of `write` as text.
pub(crate) fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}
