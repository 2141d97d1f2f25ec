//! The state shared by all threads of the running server, and the execution of the engine's output.

use super::b2bua::SharedB2bua;
use super::connections::Connections;
use super::hep_counters::HepCounters;
use super::http::HttpCounters;
use super::keeper::SharedKeeper;
use super::local::{CarryOut, Engine, Failed, Local, Waiter};
use super::media::{Media, Ng, Relay};
use super::media_server::SharedMediaServer;
use super::notifier::SharedNotifier;
use super::numbers::SharedPlan;
use super::observations::Observations;
use super::push::SharedPush;
use super::records::Records;
use super::refused::RefusedCalls;
use super::total::Total;
use super::trunk_calls;
use super::trunks::{Asked, SharedTrunks};
use crate::listen::Listen;
use crate::log;
use crate::trace::Tracer;
use crate::trunks::TrunkSettings;
use crate::why::Refusals;
use net::{Clock, Outgoing, Socket};
use sip::header::CSeq;
use sip::locate::Destination;
use sip::{Endpoint, HeaderName, Instant, Location, Message, Transport};
use sip_server::{CallRecord, Event, Flow, Output, Payers};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use store::Journal;
use tokio::sync::mpsc;
use trunk::TrunkConfig;

/// A look-up of a destination.
pub(crate) struct Lookup {
    pub(crate) destination: Destination,
    pub(crate) waiter: Waiter,
    pub(crate) payers: Payers,
}

/// The maximum number of waiting look-ups. Further ones fail at once.
pub(crate) const MAX_LOOKUPS: usize = 65_536;

/// The maximum number of times that messages pass between the engine and the user agents in the
/// process at once. Few are needed: this bounds a fault of the program.
const MOST_TURNS: usize = 100;

/// The engine, storage and sockets.
pub(crate) struct Hub {
    pub(crate) engine: Arc<Engine>,
    pub(crate) clock: Clock,
    /// The storage of registrations, if they are stored.
    pub(crate) journal: Option<Box<dyn Journal>>,
    /// For each UDP address, a socket for each worker.
    pub(crate) sockets: Vec<Vec<Socket>>,
    pub(crate) connections: Connections,
    pub(crate) b2bua: Arc<SharedB2bua>,
    pub(crate) trunks: Arc<SharedTrunks>,
    pub(crate) numbers: Arc<SharedPlan>,
    /// The media server, if there is one.
    pub(crate) media_server: Option<SharedMediaServer>,
    pub(crate) notifier: Arc<SharedNotifier>,
    /// The ports of media, if there is a relay.
    pub(crate) media: Option<Media>,
    /// The relay of calls that the engine forwards, if they are relayed.
    pub(crate) relay: Option<Arc<Relay>>,
    /// The NG protocol, if it is on.
    pub(crate) ng: Option<Arc<Ng>>,
    /// The call records, if they are written.
    pub(crate) records: Option<Records>,
    /// The limit of the records of calls that reach no phone.
    pub(crate) refused: RefusedCalls,
    /// The traces of messages.
    pub(crate) trace: Tracer,
    pub(crate) hep: HepCounters,
    /// The last refusals.
    pub(crate) refusals: Refusals,
    pub(crate) lookups: mpsc::Sender<Lookup>,
    /// The listening addresses.
    pub(crate) listens: Vec<Listen>,
    /// Counts look-ups that failed because too many waited.
    pub(crate) dropped_lookups: AtomicU64,
    /// Counts look-ups not made because the DNS did not answer for the name before.
    pub(crate) silent_lookups: AtomicU64,
    /// Counts REGISTER requests answered with 500 because the bindings could not be stored.
    pub(crate) unstored: AtomicU64,
    /// The total time of datagrams, if timings are on.
    pub(crate) total: Total,
    pub(crate) http: Arc<HttpCounters>,
    pub(crate) observations: Observations,
    /// The keeper of messages, if they are kept.
    pub(crate) keeper: Option<Arc<SharedKeeper>>,
    /// The push notifications, if there are any.
    pub(crate) push: Option<Arc<SharedPush>>,
}

impl CarryOut for Hub {
    fn received(&self, worker: usize, flow: &Flow, message: &[u8]) {
        self.trace.received(worker, flow, message);
    }

    fn carry_out(&self, local: &mut Local) {
        self.store_and_send(local);
        for turn in 0.. {
            if turn == MOST_TURNS && !local.internal.is_empty() {
                log::error("internal", || {
                    "messages within the server are dropped: too many turns".into()
                });
                local.internal.clear();
            }
            let is_quiet = local.internal.is_empty()
                && !local.has_call_changes
                && local.failed_trunks.is_empty()
                && local.wakes.is_empty()
                && local.registered.is_empty();
            if local.failed.is_empty() && is_quiet {
                break;
            }
            let now = self.clock.now();
            self.notifier.exchange(now, local);
            self.exchange_sleepers(now, local);
            if !local.internal.is_empty() {
                let asked = self.trunks.exchange(now, local);
                self.look_up(asked, local);
                let digits = self.b2bua.exchange(now, local, &self.trace);
                for asked in digits {
                    let is_played = self.plays(&asked, now);
                    self.b2bua.answer_digit(now, local, asked.request, is_played);
                }
                self.pass_to_keeper(local);
                match &self.media_server {
                    Some(server) => server.take(local),
                    // The dialog began before a restart.
                    None => {
                        let messages = local.take_internal(Endpoint::MediaServer);
                        let failed = messages.into_iter().map(|(flow, it)| Failed::Send(flow, it));
                        local.failed.extend(failed);
                    }
                }
            }
            for (place, words) in std::mem::take(&mut local.failed_trunks) {
                let asked = self.trunks.call_failed(now, local, place, &words);
                self.look_up(asked, local);
            }
            for failed in std::mem::take(&mut local.failed) {
                match failed {
                    Failed::Send(flow, bytes) => {
                        local.worker.undeliverable(now, &flow, &bytes, &mut local.out);
                    }
                    Failed::Locate(waiter) => self.located(now, local, waiter, &[]),
                    Failed::Connection(flow) => {
                        if let Some(connection) = flow.connection {
                            local.worker.connection_ended(now, connection, &mut local.out);
                        }
                        let asked = self.trunks.closed(now, local, &flow);
                        self.look_up(asked, local);
                    }
                }
            }
            self.store_and_send(local);
        }
        for record in std::mem::take(&mut local.refused) {
            if !self.b2bua.calls_again(&record.report.call_id) {
                self.keep(Box::new(record));
            }
        }
        local.declined.clear();
    }
}

impl Hub {
    /// The time of the next call of [`Hub::on_timer`].
    pub(super) fn next_timer(&self, local: &Local) -> Option<Instant> {
        let handshake = self.media.as_ref().and_then(Media::next_handshake);
        let handshake = handshake.map(|due| self.clock.time_of(due));
        let timers = [
            local.worker.next_timer(),
            self.b2bua.next_timer(),
            self.trunks.next_timer(),
            self.notifier.next_timer(),
            self.next_digit(),
            handshake,
        ];
        timers.into_iter().flatten().min()
    }

    /// Runs the timers of the engine, of the user agents in the process, of digits and of
    /// handshakes that are due at `now`.
    pub(super) fn on_timer(&self, now: Instant, local: &mut Local) {
        local.worker.on_timer(now, &mut local.out);
        self.b2bua.on_timer(now, local);
        self.notifier.on_timer(now, local);
        let asked = self.trunks.on_timer(now, local);
        self.look_up(asked, local);
        self.play_digits(now);
        if let Some(media) = &self.media {
            media.continue_handshakes(std::time::Instant::now());
        }
    }

    /// Replaces the trunks by those of `settings`, with their configurations `configs`.
    pub(super) fn configure_trunks(
        &self,
        local: &mut Local,
        settings: &[TrunkSettings],
        configs: Vec<TrunkConfig>,
    ) {
        self.b2bua.set_trunks(trunk_calls::trunks(settings, &configs));
        let asked = self.trunks.configure(self.clock.now(), local, settings, configs);
        self.look_up(asked, local);
        self.carry_out(local);
    }

    /// Begins the look-ups `asked` of the trunk registry. Those that cannot begin have failed.
    fn look_up(&self, asked: Vec<Asked>, local: &mut Local) {
        for (ticket, destination) in asked {
            let (waiter, payers) = (Waiter::Trunks(ticket), Payers::NONE);
            self.begin(Lookup { destination, waiter, payers }, &mut local.failed);
        }
    }

    /// Passes the messages in `local` to the keeper.
    fn pass_to_keeper(&self, local: &mut Local) {
        match &self.keeper {
            Some(keeper) => keeper.take(local),
            // It was turned on by a reload, which takes effect at the next start.
            None => {
                let messages = local.take_internal(Endpoint::Keeper);
                let failed = messages.into_iter().map(|(flow, it)| Failed::Send(flow, it));
                local.failed.extend(failed);
            }
        }
    }

    /// Passes the phones that are to be woken, and the users that have registered, to the push
    /// notifications.
    fn exchange_sleepers(&self, now: Instant, local: &mut Local) {
        if let Some(keeper) = &self.keeper {
            local.registered.iter().for_each(|user| keeper.registered(user));
        }
        if let Some(push) = &self.push {
            return push.exchange(now, local);
        }
        // They were turned on by a reload, which takes effect at the next start.
        for wake in std::mem::take(&mut local.wakes) {
            local.worker.not_woken(now, wake.ticket, &mut local.out);
        }
        local.registered.clear();
    }

    fn begin(&self, lookup: Lookup, failed: &mut Vec<Failed>) {
        if let Err(full) = self.lookups.try_send(lookup) {
            self.dropped_lookups.fetch_add(1, Ordering::Relaxed);
            log::warn("lookups", || "too many DNS look-ups are pending".to_owned());
            failed.push(Failed::Locate(full.into_inner().waiter));
        }
    }

    /// Passes the result of a look-up to `waiter`.
    pub(super) fn located(
        &self,
        now: Instant,
        local: &mut Local,
        waiter: Waiter,
        locations: &[Location],
    ) {
        match waiter {
            Waiter::Engine(ticket) => {
                local.worker.located(now, ticket, locations, &mut local.out);
            }
            Waiter::Trunks(ticket) => {
                let asked = self.trunks.located(now, local, ticket, locations);
                self.look_up(asked, local);
            }
        }
    }

    /// The local address of messages to `remote` by `transport`. `None` if nothing is sent there.
    pub(crate) fn local_for(&self, transport: Transport, remote: SocketAddr) -> Option<SocketAddr> {
        Listen::local_for(&self.listens, transport, remote, net::source_for(remote)?)
    }

    fn store_and_send(&self, local: &mut Local) {
        let Local {
            index,
            worker,
            out,
            outbox,
            internal,
            declined,
            refused,
            failed,
            arrivals,
            registrations,
            wakes,
            registered,
            judge,
            ..
        } = local;
        judge.judge(worker.counters(), &out.transmits, &out.bytes, None);
        if let Some((refusals, left_out)) = judge.end() {
            self.refusals.keep(*index, refusals.into_iter(), left_out);
        }
        if out.is_empty() {
            return out.clear();
        }
        if self.store(*index, out).is_err() {
            registrations.clear();
            worker.unstored(out);
            let refused = refuse_promises(out);
            self.unstored.fetch_add(refused, Ordering::Relaxed);
        }
        // Another thread may get the response to a message as soon as it is sent.
        local.has_call_changes |= self.notifier.note(self.clock.now(), &mut out.events);
        SharedB2bua::take(out, internal);
        let sent = out.transmits.iter();
        self.trace.sent(*index, sent.map(|it| (&it.flow, &out.bytes[it.range.clone()])));
        // Datagrams for one destination are adjacent and in order, so that the outbox can join
        // them. Responses are sent first: otherwise the response to a forwarded request could
        // overtake the 100. Streams keep their order.
        let bytes = &out.bytes;
        out.transmits.sort_unstable_by_key(|transmit| {
            let is_late = !transmit.flow.transport.is_stream()
                && !bytes[transmit.range.clone()].starts_with(b"SIP/2.0 ");
            (is_late, transmit.flow.remote, transmit.range.start)
        });
        for (number, group) in self.sockets.iter().enumerate() {
            let Some(socket) = group.get(*index % group.len().max(1)) else { continue };
            let datagrams = out
                .transmits
                .iter()
                .filter(|transmit| self.group_of(&transmit.flow) == Some(number))
                .map(|transmit| Outgoing {
                    remote: Some(transmit.flow.remote),
                    local: transmit.flow.local.ip(),
                    bytes: &out.bytes[transmit.range.clone()],
                });
            outbox.send(socket, datagrams, |datagram| {
                let Some(remote) = datagram.remote else { return };
                let local = SocketAddr::new(datagram.local, socket.address().port());
                let flow = Flow { transport: Transport::Udp, local, remote, connection: None };
                failed.push(Failed::Send(flow, datagram.bytes.to_vec()));
            });
        }
        for transmits in out.transmits.chunk_by(|one, other| one.flow == other.flow) {
            if transmits[0].flow.transport.is_stream() {
                self.connections.send(transmits, &out.bytes, failed);
            }
        }
        self.total.add(arrivals);
        if !registrations.is_empty() {
            let now = self.clock.now();
            let delays = registrations.drain(..).map(|arrived| now.since(arrived));
            delays.for_each(|delay| self.observations.registered(*index, delay));
        }
        for event in out.events.drain(..) {
            match event {
                Event::Locate { destination, ticket, payers } => {
                    let waiter = Waiter::Engine(ticket);
                    self.begin(Lookup { destination, waiter, payers }, failed);
                }
                Event::Notice(notice) => log::warn(notice.kind(), || notice.to_string()),
                Event::CallEnded(record) if is_recorded_otherwise(&record, declined) => {}
                Event::CallEnded(record) if may_call_again(&record) => refused.push(*record),
                Event::CallEnded(record) => self.keep(record),
                Event::Wake(wake) => wakes.push(*wake),
                Event::Registered(user) => registered.push(user),
                // Calls are for the notifier, which has them.
                _ => {}
            }
        }
        out.clear();
    }

    /// Keeps the record of a call, if calls are recorded.
    pub(crate) fn keep(&self, record: Box<CallRecord>) {
        self.observations.call_ended(&record);
        if let Some(records) = &self.records
            && self.refused.admits(&record, self.clock.now())
        {
            records.push(record);
        }
    }

    /// The number of datagrams that the system dropped before they were read, as far as it has
    /// reported them.
    pub(crate) fn unread(&self) -> u64 {
        self.sockets.iter().flatten().map(|socket| u64::from(socket.dropped())).sum()
    }

    /// Stores the changes of registrations in `out`, from the thread at `index`.
    ///
    /// # Errors
    /// Writing fails. The journal has logged the error.
    pub(crate) fn store(&self, index: usize, out: &Output) -> io::Result<()> {
        let Some(journal) = self.journal.as_ref().filter(|_| !out.journal.is_empty()) else {
            return Ok(());
        };
        let began = std::time::Instant::now();
        let result = journal.append(index, &out.journal);
        self.observations.stored(index, began.elapsed());
        result
    }

    /// The index of the sockets for a UDP flow. Sockets bound to its address have precedence over
    /// those bound to a wildcard address.
    fn group_of(&self, flow: &Flow) -> Option<usize> {
        if flow.transport != Transport::Udp {
            return None;
        }
        let position = |fits: &dyn Fn(&Socket) -> bool| {
            self.sockets.iter().position(|group| group.first().is_some_and(fits))
        };
        position(&|socket| socket.address() == flow.local)
            .or_else(|| position(&|socket| socket.serves(flow.local)))
    }
}

/// True if the second leg of a call through the B2BUA has the record of the call: the B2BUA has not
/// refused it itself, which are the calls `declined`.
fn is_recorded_otherwise(record: &CallRecord, declined: &[Vec<u8>]) -> bool {
    let is_first_leg = record.unreached.is_some_and(|it| it.is_first_leg);
    // The report has the beginning of a long Call-ID.
    is_first_leg && !declined.iter().any(|call_id| call_id.starts_with(&record.report.call_id))
}

/// True if the B2BUA may call the callee again, which has refused the session description: then the
/// call goes on.
fn may_call_again(record: &CallRecord) -> bool {
    let status = record.response.as_ref().map(|(status, _)| *status);
    record.is_joined && matches!(status, Some(415 | 488 | 606))
}

/// The header fields that a refusal copies from the response that it replaces.
const KEPT: [HeaderName; 6] = [
    HeaderName::Via,
    HeaderName::From,
    HeaderName::To,
    HeaderName::CallId,
    HeaderName::CSeq,
    HeaderName::Server,
];

/// Replaces each response to a REGISTER that could not be stored by a refusal. Returns their
/// number.
fn refuse_promises(out: &mut Output) -> u64 {
    let Output { bytes, transmits, .. } = out;
    let mut refused = 0;
    transmits.retain_mut(|transmit| {
        if !transmit.is_promise {
            return true;
        }
        match storage_failure(&bytes[transmit.range.clone()]) {
            Ok(Some(refusal)) => {
                transmit.range = bytes.len()..bytes.len() + refusal.len();
                bytes.extend_from_slice(&refusal);
                refused += 1;
                true
            }
            // Sent by a timer that also ended bindings. The message does not depend on them.
            Ok(None) => true,
            Err(_) => false,
        }
    });
    refused
}

/// The refusal that replaces `answer`. Returns `None` if `answer` is not a success response to a
/// REGISTER.
fn storage_failure(answer: &[u8]) -> Result<Option<Vec<u8>>, sip::message::ParseError> {
    let answer = Message::parse(answer)?;
    let cseq = answer.value(HeaderName::CSeq).and_then(|value| CSeq::parse(value).ok());
    let is_register = cseq.is_some_and(|cseq| cseq.method == sip::Method::Register);
    if !is_register || answer.status().is_none_or(|status| status / 100 != 2) {
        return Ok(None);
    }
    let mut refusal = b"SIP/2.0 500 Storage Failure\r\n".to_vec();
    answer.fields_of(&KEPT).for_each(|field| refusal.extend_from_slice(field.line));
    refusal.extend_from_slice(b"Content-Length: 0\r\n\r\n");
    Ok(Some(refusal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_server::OutputMessage;

    const ENDS: &str = "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1;received=192.0.2.9\r\n\
                        From: <sip:a@b>;tag=1\r\nTo: <sip:a@b>;tag=2\r\nCall-ID: x\r\n";

    #[test]
    fn only_unstored_registrations_are_refused() {
        let answer = |status: &str, method: &str, more: &str| {
            format!("SIP/2.0 {status}\r\n{ENDS}CSeq: 1 {method}\r\n{more}Content-Length: 0\r\n\r\n")
        };
        let bindings = "Contact: <sip:a@192.0.2.1>;expires=60\r\nPath: <sip:p;lr>\r\nServer: B\r\n";
        let ok = answer("200 OK", "REGISTER", bindings);
        let failure = answer("500 Storage Failure", "REGISTER", "Server: B\r\n");
        let timeout = answer("408 Request Timeout", "INVITE", "");
        let mut out = Output::default();
        let address = ([192, 0, 2, 1], 5060).into();
        let flow =
            Flow { transport: Transport::Udp, local: address, remote: address, connection: None };
        for (text, is_promise) in [(&ok, false), (&ok, true), (&timeout, true)] {
            let start = out.bytes.len();
            out.bytes.extend_from_slice(text.as_bytes());
            let (range, payers) = (start..out.bytes.len(), Payers::NONE);
            out.transmits.push(OutputMessage { flow, range, is_promise, payers });
        }
        assert_eq!(refuse_promises(&mut out), 1);
        let sent: Vec<_> = out
            .transmits
            .iter()
            .map(|transmit| String::from_utf8_lossy(&out.bytes[transmit.range.clone()]))
            .collect();
        assert_eq!(sent, [ok, failure, timeout]);
    }
}
