//! The interface of one thread to the server: it takes events and returns output.

use crate::core::call_record::{CallRecord, Party};
use crate::core::config::Config;
#[cfg(feature = "office")]
use crate::core::config::KeepAlive;
use crate::core::counters::Counters;
use crate::core::event::Env;
use crate::core::flow::{Connection, Flow};
use crate::core::incoming::reply;
use crate::core::joined_calls::JoinedCalls;
use crate::core::numbers::Numbers;
use crate::core::output::{Event, Output};
use crate::core::overload::{Share, Throttle, has_begun};
use crate::core::settings::Settings;
use crate::core::source::Account;
use crate::core::ticket::Ticket;
use crate::core::timings::{Step, Stopwatch, timed};
use crate::core::trunks::Trunks;
use crate::core::watching::WatchedCalls;
use crate::proxy;
use crate::request::on_request;
use crate::server::Server;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use relay::{CallReport, Calls};
use sip::message::{FramingFault, ParseError, RequestFault};
use sip::{Duration, Instant, Location, Message, Method, Status, Transport};

/// The interface of one thread to a [`Server`].
pub struct Worker<R: RawMutex> {
    server: Arc<Server<R>>,
    settings: Arc<Settings>,
    generation: u64,
    counters: Arc<Counters>,
    relay: Option<Arc<dyn Calls>>,
    joined_calls: Option<Arc<dyn JoinedCalls>>,
    numbers: Option<Arc<dyn Numbers>>,
    trunks: Option<Arc<dyn Trunks>>,
    watched_calls: Option<Arc<dyn WatchedCalls>>,
    stopwatch: Option<Stopwatch>,
    /// The address at which the last message arrived. It is known to be ours.
    local: IpAddr,
    /// The throttle of datagrams.
    datagrams: Throttle,
    /// The throttle of streams, which wait in another queue.
    streams: Throttle,
}

impl<R: RawMutex> Server<R> {
    /// Creates a worker for one thread.
    #[must_use]
    pub fn worker(self: &Arc<Self>) -> Worker<R> {
        let counters = Arc::new(Counters::default());
        self.counters.lock().push(Arc::clone(&counters));
        Worker::new(Arc::clone(self), counters)
    }
}

impl<R: RawMutex> Worker<R> {
    pub(crate) fn new(server: Arc<Server<R>>, counters: Arc<Counters>) -> Self {
        let generation = server.generation.load(Ordering::Acquire);
        let settings = Arc::clone(&server.settings.lock());
        let (datagrams, streams) = (Throttle::new(), Throttle::new());
        let relay = server.relay.lock().clone();
        let joined_calls = server.joined_calls.lock().clone();
        let numbers = server.numbers.lock().clone();
        let trunks = server.trunks.lock().clone();
        let watched_calls = server.watched_calls.lock().clone();
        Self {
            server,
            settings,
            generation,
            counters,
            relay,
            joined_calls,
            numbers,
            trunks,
            watched_calls,
            stopwatch: None,
            local: Ipv4Addr::UNSPECIFIED.into(),
            datagrams,
            streams,
        }
    }

    /// Sets a clock that counts nanoseconds from an arbitrary start, for [`Server::timings`]. It is
    /// used if [`Config::timings`](crate::Config::timings) is on.
    pub fn set_clock(&mut self, clock: fn() -> u64) {
        self.stopwatch = Some(Stopwatch::new(clock));
    }

    /// True if the durations of the steps are measured
    /// ([`Config::timings`](crate::Config::timings)).
    #[must_use]
    pub fn is_timing(&self) -> bool {
        self.settings.config.timings
    }

    /// Handles a datagram, or a message from a stream, on `flow`. A message of the owner's B2BUA
    /// comes on the [internal flow](Flow::internal) of its call.
    pub fn receive(&mut self, now: Instant, flow: &Flow, bytes: &[u8], out: &mut Output) {
        self.receive_late(now, Duration::ZERO, flow, bytes, out);
    }

    /// Like [`Worker::receive`], for a message that has `waited` in the receive queue. A datagram
    /// with a request that begins something new is dropped if it has waited for so long that it has
    /// been retransmitted.
    pub fn receive_late(
        &mut self,
        now: Instant,
        waited: Duration,
        flow: &Flow,
        bytes: &[u8],
        out: &mut Output,
    ) {
        if flow.local.ip() != self.local {
            self.meet_address(flow.local.ip());
        }
        let longest = self.settings.config.limits.max_wait;
        let (served, is_read) = match flow.transport.is_stream() {
            _ if flow.is_internal() => (Share::ALL, true),
            true => (self.streams.served_after(waited, longest), true),
            false => (self.datagrams.served(), self.datagrams.reads(bytes, now - waited)),
        };
        self.with_env(now, out, |server, env| {
            env.served = served;
            if !is_read || is_stale(waited, flow, bytes, &env.settings.config) {
                return env.counters.overload_dropped.add();
            }
            // The server never sends to itself, so the source address is forged.
            if flow.connection.is_none() && env.settings.is_own_end(flow.transport, flow.remote) {
                return env.counters.dropped.add();
            }
            if !flow.transport.is_stream() && stun::is_stun(bytes) {
                return on_stun(server, flow, bytes, env);
            }
            env.stopwatch =
                env.stopwatch.filter(|watch| env.settings.config.timings && watch.is_due());
            let watch = env.stopwatch;
            timed(watch, Step::Handler, || {
                match timed(watch, Step::ParseHeaders, || Message::parse(bytes)) {
                    Ok(message) if message.status().is_some() => {
                        env.counters.responses.add();
                        proxy::on_response(&server.proxy, &message, flow, env);
                    }
                    Ok(message) => {
                        env.counters.requests.add();
                        env.counters.traffic.request(&message, flow);
                        env.waited = waited;
                        on_request(server, &message, flow, env);
                    }
                    Err(ParseError::Empty) => {}
                    Err(_) => env.counters.dropped.add(),
                }
            });
            if let Some(watch) = watch {
                watch.add_to(&env.counters.timings);
            }
        });
    }

    /// Records the waiting time `waited` of a message from `transport` that is read `now`; zero if
    /// no message waits. Must be called for the first of the messages that are read together and,
    /// while [`Worker::is_throttling`], at least every [`Throttle::step`], for datagrams and for
    /// streams.
    pub fn note_wait(&mut self, transport: Transport, now: Instant, waited: Duration) {
        self.refresh();
        let longest = self.settings.config.limits.max_wait;
        self.throttle(transport).observe(now, waited, longest);
    }

    /// True if less than all new requests are served.
    #[must_use]
    pub fn is_throttling(&self) -> bool {
        self.datagrams.is_throttling() || self.streams.is_throttling()
    }

    /// The share of the new requests on datagrams that the owner must pass to this worker. The
    /// owner leaves the others unread.
    #[must_use]
    pub fn share(&self) -> Share {
        self.datagrams.read()
    }

    /// True if `message`, which came on a stream, must be received. Otherwise the owner drops it,
    /// and it is counted. Must be called before the message is queued. `expected` is its expected
    /// waiting time, from the messages before it.
    pub fn lets_in(&mut self, message: &[u8], expected: Duration) -> bool {
        let longest = self.settings.config.limits.max_wait;
        let lets_in = self.streams.lets_in(message, expected, longest);
        if !lets_in {
            self.counters.overload_dropped.add();
        }
        lets_in
    }

    /// True if some of the new requests are neither served nor rejected.
    #[must_use]
    pub fn is_shedding(&self) -> bool {
        [&self.datagrams, &self.streams].iter().any(|throttle| throttle.read() < Share::ALL)
    }

    fn throttle(&mut self, transport: Transport) -> &mut Throttle {
        match transport.is_stream() {
            true => &mut self.streams,
            false => &mut self.datagrams,
        }
    }

    /// Rejects a request of unknown length on a stream. `head` is its header fields with the empty
    /// line. The owner closes the stream.
    pub fn refuse_unframed(&mut self, now: Instant, flow: &Flow, head: &[u8], out: &mut Output) {
        let Ok(message) = Message::parse(head) else { return };
        self.with_env(now, out, |_, env| {
            env.counters.malformed_requests.add();
            let fault = RequestFault::Frame(FramingFault::ContentLength);
            if message.method().is_some_and(|method| method != Method::Ack) {
                let reason = alloc::format!("{fault}");
                reply(&message, flow, Status(fault.status()).with_reason(&reason), env, |_, _| {});
            }
        });
    }

    /// Sends a keep-alive to the phone that is registered on `flow` with the URI `contact`.
    #[cfg(feature = "office")]
    pub fn keep_alive(
        &mut self,
        now: Instant,
        flow: &Flow,
        contact: &[u8],
        kind: KeepAlive,
        out: &mut Output,
    ) {
        self.with_env(now, out, |_, env| proxy::keep_alive(flow, contact, kind, env));
    }

    /// Handles the result of an [`Event::Locate`](crate::Event::Locate): the places of the
    /// destination, in the order to try. `locations` is empty if the lookup failed.
    pub fn located(
        &mut self,
        now: Instant,
        ticket: Ticket,
        locations: &[Location],
        out: &mut Output,
    ) {
        self.with_env(now, out, |server, env| {
            proxy::on_located(&server.proxy, ticket, locations, env);
        });
    }

    /// Continues with the request that waits for a phone ([`Wake`](crate::Wake)).
    ///
    /// # Errors
    /// The phone has not registered. The ticket is kept for the next attempt.
    #[cfg(feature = "office")]
    pub fn woken(&mut self, now: Instant, ticket: Ticket, out: &mut Output) -> Result<(), Ticket> {
        let mut kept = None;
        self.with_env(now, out, |server, env| {
            kept = proxy::on_registered(&server.shared, &server.proxy, ticket, env);
        });
        kept.map_or(Ok(()), Err)
    }

    /// Handles the failure to wake the phone that the request of `ticket` waits for.
    #[cfg(feature = "office")]
    pub fn not_woken(&mut self, now: Instant, ticket: Ticket, out: &mut Output) {
        self.located(now, ticket, &[], out);
    }

    /// Returns true if the request of `ticket` still waits for its phone: it was not cancelled, and
    /// its transaction has not ended.
    #[cfg(feature = "office")]
    pub fn is_waiting(&self, ticket: &Ticket) -> bool {
        proxy::is_waiting(&self.server.proxy, ticket)
    }

    /// Handles a message that could not be sent on `flow`, because the connection has ended or was
    /// refused, or because the owner has no B2BUA for an internal flow.
    pub fn undeliverable(&mut self, now: Instant, flow: &Flow, bytes: &[u8], out: &mut Output) {
        let Ok(message) = Message::parse(bytes) else { return };
        self.with_env(now, out, |server, env| {
            env.counters.undeliverable.add();
            let Ok(via) = message.top_via() else { return };
            if message.status().is_some() {
                // If the connection of a response has ended, the response is sent once to the
                // source address of the request, with the port in its Via (RFC 3261 section
                // 18.2.2). The other fields of that Via come from the answerer, which may have
                // changed them.
                if flow.connection.is_some() && !flow.is_internal() {
                    let remote = SocketAddr::new(flow.remote.ip(), via.port_or_default());
                    let retry = Flow { remote, connection: None, ..*flow };
                    env.out.send(retry, |out| out.extend_from_slice(message.as_bytes()));
                }
                return;
            }
            if let Some(branch) = via.branch() {
                proxy::on_undeliverable(&server.proxy, &message, branch, flow, env);
            }
        });
    }

    /// Handles an ICMP error for a datagram to `remote` (RFC 3261 section 18.4): the branch of that
    /// request fails. `quoted` is the beginning of its payload, as the error repeats it. Without
    /// the Via of this server, or if it is no datagram of a request in progress, the error is
    /// ignored.
    pub fn unreachable(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        quoted: &[u8],
        out: &mut Output,
    ) {
        self.with_env(now, out, |server, env| {
            proxy::on_unreachable(&server.proxy, remote, quoted, env);
        });
    }

    /// Ends a relayed call: sends a BYE to both ends, with the Reason `reason` (RFC 3326), and
    /// records the call. `call` is the report with which the relay has ended it.
    pub fn hang_up(&mut self, now: Instant, call: &CallReport, reason: &str, out: &mut Output) {
        let offset = self.server.clock_offset.load(Ordering::Relaxed);
        let record = CallRecord::new(call.clone(), Party::Server, now, offset);
        self.end_call(now, record.with_reason(Some(reason.as_bytes())), out);
    }

    /// The same for a call that is over by the limits of the relay.
    pub fn expire(&mut self, now: Instant, call: CallReport, out: &mut Output) {
        let offset = self.server.clock_offset.load(Ordering::Relaxed);
        self.end_call(now, CallRecord::of_expired(call, now, offset), out);
    }

    fn end_call(&mut self, now: Instant, record: CallRecord, out: &mut Output) {
        let (call, reason) = (record.report.clone(), record.reason.clone().unwrap_or_default());
        if call.is_last {
            out.events.push(Event::CallEnded(Box::new(record)));
        }
        let hangup = call.attachment.as_ref().and_then(|it| it.downcast_ref::<proxy::Hangup>());
        let messages = hangup.into_iter().flat_map(|hangup| hangup.messages(&reason));
        for (flow, bye) in messages {
            self.receive(now, &flow, &bye, out);
        }
    }

    /// Reverts the REGISTERs in [`Output::journal`], which could not be stored. The owner rejects
    /// them, and does not send a message that is a [promise](crate::OutputMessage::is_promise).
    pub fn unstored(&mut self, out: &mut Output) {
        for undo in out.undo.drain(..).rev() {
            self.server.shared.location.undo(undo);
            self.counters.registers.take_back();
        }
    }

    /// Handles the end of a connection. The bindings on it end as well.
    pub fn connection_ended(&mut self, now: Instant, connection: Connection, out: &mut Output) {
        self.with_env(now, out, |server, env| {
            server.shared.location.end_connection(connection, env.out, env.counters);
            server.proxy.transactions.end_connection(connection, env);
        });
    }

    /// Runs the timers that are due. Timers of transactions that another thread has locked are left
    /// for the next call.
    pub fn on_timer(&mut self, now: Instant, out: &mut Output) {
        self.with_env(now, out, |server, env| {
            server.proxy.transactions.on_timer(env);
            let counters = env.counters;
            server.shared.location.expire(env.now, env.out, counters);
        });
    }

    /// The latest time for the next call of [`Worker::on_timer`]. It is the same for all workers:
    /// each checks it before it sleeps, after its last event.
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        let transactions = self.server.proxy.transactions.next_timer();
        let expiries = self.server.shared.location.next_expiry();
        transactions.into_iter().chain(expiries).min()
    }

    /// The counters of this worker only.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    fn refresh(&mut self) {
        let generation = self.server.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.settings = Arc::clone(&self.server.settings.lock());
            self.generation = generation;
            self.local = Ipv4Addr::UNSPECIFIED.into();
        }
    }

    /// Adds `address`, at which a message arrived, to the addresses of this server if it is new.
    fn meet_address(&mut self, address: IpAddr) {
        self.refresh();
        if self.settings.is_new(address) {
            self.server.learn_address(address);
            self.refresh();
        }
        self.local = address;
    }

    fn with_env(
        &mut self,
        now: Instant,
        out: &mut Output,
        act: impl FnOnce(&Server<R>, &mut Env<'_>),
    ) {
        self.refresh();
        let (sent_before, kept_before) = (out.transmits.len(), out.journal.len());
        let mut env = Env {
            now,
            clock_offset: self.server.clock_offset.load(Ordering::Relaxed),
            settings: &self.settings,
            keys: &self.server.keys,
            answered: &self.server.answered,
            declined: &self.server.declined,
            counters: &self.counters,
            relay: self.relay.as_deref(),
            joined_calls: self.joined_calls.as_deref(),
            numbers: self.numbers.as_deref(),
            trunks: self.trunks.as_deref(),
            watched_calls: self.watched_calls.as_deref(),
            stopwatch: self.stopwatch.as_ref(),
            waited: Duration::ZERO,
            served: Share::ALL,
            out,
        };
        act(&self.server, &mut env);
        #[cfg(feature = "office")]
        proxy::continue_calls(&self.server.shared, &self.server.proxy, &mut env);
        let is_promise = out.journal.len() > kept_before;
        for transmit in out.transmits.iter_mut().skip(sent_before) {
            transmit.is_promise = is_promise;
            self.counters.sent.add();
        }
    }
}

/// True if a retransmission of a request that begins something new is on its way, so that this one
/// may be dropped.
fn is_stale(waited: Duration, flow: &Flow, bytes: &[u8], config: &Config) -> bool {
    waited > config.timers.t1
        && config.limits.max_wait > Duration::ZERO
        && !flow.transport.is_stream()
        && !has_begun(bytes)
}

/// Answers a STUN request of a phone that checks its mapped address, to keep its flow (RFC 5626
/// section 4.4.2).
fn on_stun<R: RawMutex>(server: &Server<R>, flow: &Flow, bytes: &[u8], env: &mut Env<'_>) {
    let (account, limits) = (Account::of(flow), &env.settings.config.limits);
    let is_admitted = env.settings.is_trusted(flow)
        || (!server.shared.bans.is_banned(account.source, env.now)
            && server.shared.admission.admit(account, env.now, limits));
    if !is_admitted {
        return env.counters.rate_limited.add();
    }
    let mut answer = Vec::new();
    match stun::respond_to_binding(flow.remote, bytes, &mut answer) {
        true => {
            env.counters.stun_requests.add();
            env.out.send(*flow, |out| out.extend_from_slice(&answer));
        }
        false => env.counters.dropped.add(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::config::{Domain, Listener};
    use alloc::vec::Vec;

    #[test]
    fn only_answers_to_what_is_kept_are_promises() {
        let local = "192.0.2.1:5060".parse().unwrap();
        let remote = "198.51.100.9:5060".parse().unwrap();
        let mut config = Config {
            listeners: alloc::vec![Listener { transport: Transport::Udp, address: local }],
            domains: alloc::vec![Domain { name: "example.com".into(), aliases: Vec::new() }],
            ..Config::default()
        };
        config.authentication.required = false;
        let server: Arc<Server<parking_lot::RawMutex>> = Arc::new(Server::new(config, &[7; 32]));
        let mut worker = server.worker();
        let mut out = Output::default();
        let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
        for (number, method) in ["OPTIONS", "REGISTER", "OPTIONS"].into_iter().enumerate() {
            let request = alloc::format!(
                "{method} sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {remote};branch=z9hG4bK{number}\r\n\
                 Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=1\r\nTo: <sip:a@example.com>\r\n\
                 Call-ID: x\r\nCSeq: 1 {method}\r\nContact: <sip:a@{remote}>\r\nContent-Length: 0\r\n\r\n"
            );
            let now = Instant::from_micros(1_800_000_000_000_000);
            worker.receive(now, &flow, request.as_bytes(), &mut out);
        }
        let promises: Vec<bool> =
            out.transmits.iter().map(|transmit| transmit.is_promise).collect();
        assert_eq!(promises, [false, true, false]);
    }
}
