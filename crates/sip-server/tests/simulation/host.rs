//! The machine of the server: its workers, its disk and its power switch.

use crate::wire;
use barebell_sip_server::{
    Config, Connection, Event, Flow, Output, Server, Worker, journal_record as record,
};
use parking_lot::RawMutex;
use sip::digest::Ha1Set;
use sip::{HeaderName, Instant, Message, Method, Transport};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use test_support::Random;
use test_support::rig::{End, Outgoing, Peer, Way};

const SECRET: [u8; 32] = *b"The server keeps it on its disk.";

/// The number of workers that share the server.
const WORKERS: usize = 3;

/// The time that a worker collects output before it writes and sends.
const BATCH: sip::Duration = sip::Duration::from_millis(2);

pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    config: Config,
    users: Vec<(String, Ha1Set)>,
    /// The stored records. Only they survive a power cut.
    disk: Vec<u8>,
    life: Option<Life>,
    random: Random,
    /// The totals over all restarts.
    pub(crate) tally: Tally,
}

/// The state that a power cut destroys.
struct Life {
    server: Arc<Server<RawMutex>>,
    workers: Vec<Worker<RawMutex>>,
    outputs: Vec<Output>,
    /// The time at which the output of each worker is sent, if there is any.
    due: Vec<Option<Instant>>,
    /// Messages that may be sent, because their records have been stored.
    outbox: VecDeque<Outgoing>,
    /// Streams on which data has arrived.
    streams: BTreeSet<u64>,
    /// Every INVITE that was forwarded, by its branch.
    invites: BTreeMap<String, Forwarded>,
}

/// An INVITE that was forwarded.
struct Forwarded {
    call_id: String,
    at: Instant,
    /// The time of the first response.
    heard: Option<Instant>,
    cancelled: Option<Instant>,
    success: Option<Instant>,
}

impl Forwarded {
    /// True if no response arrived in time.
    fn is_unheard(&self) -> bool {
        self.heard.is_none_or(|heard| heard.since(self.at) >= PATIENCE)
    }
}

/// 64*T1: the time that transactions wait (RFC 3261).
const PATIENCE: sip::Duration = sip::Duration::from_secs(32);

/// The host's own counts, for a comparison with the engine's counters, and those counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) received: u64,
    pub(crate) undeliverable: u64,
    pub(crate) sent: u64,
    pub(crate) registered: u64,
    pub(crate) challenged: u64,
    pub(crate) kills: u64,
    pub(crate) counters: BTreeMap<&'static str, u64>,
}

impl Host {
    pub(crate) fn new(
        address: SocketAddr,
        config: Config,
        users: Vec<(String, Ha1Set)>,
        seed: u64,
    ) -> Self {
        let mut host = Self {
            address,
            config,
            users,
            disk: Vec::new(),
            life: None,
            random: Random::new(seed),
            tally: Tally::default(),
        };
        host.life = Some(Life::new(&host.config, &host.users, &[], Instant::ZERO));
        host
    }

    pub(crate) fn server(&self) -> Option<&Server<RawMutex>> {
        self.life.as_ref().map(|life| &*life.server)
    }

    pub(crate) fn max_contacts(&self) -> usize {
        self.config.registrar.max_contacts
    }

    /// The transaction key and the Call-ID of each INVITE that was sent since the start and had no
    /// response in time (timer B).
    pub(crate) fn unheard(&self) -> impl Iterator<Item = (&str, &str)> {
        let invites = self.life.iter().flat_map(|life| &life.invites);
        invites
            .filter(|(_, sent)| sent.is_unheard())
            .map(|(key, sent)| (&key[..], &sent.call_id[..]))
    }

    /// Cuts the power. Of the unsent output of each worker nothing, all or a part has been stored.
    pub(crate) fn kill(&mut self) {
        let Some(life) = self.life.take() else { return };
        for output in &life.outputs {
            let written = match self.random.below(3) {
                0 => 0,
                1 => output.journal.len(),
                _ => self.random.below(output.journal.len() as u64 + 1) as usize,
            };
            self.disk.extend_from_slice(&output.journal[..written]);
            // A truncated record is the last one: nothing can be read after it.
            let good = record::read(&self.disk).map_while(Result::ok);
            let length = good.map(|record| record.bytes.len()).sum();
            self.disk.truncate(length);
        }
        self.tally.kills += 1;
        self.tally.count(&life.server);
    }

    /// Switches the power on if it is off.
    pub(crate) fn start(&mut self, now: Instant) {
        if self.life.is_some() {
            return;
        }
        let mut records = self.disk.clone();
        if self.random.chance(500) {
            // Like a storage that keeps one merged record for each address-of-record.
            let mut all: BTreeMap<&[u8], record::Merged> = BTreeMap::new();
            for record in record::read(&self.disk) {
                let record = record.expect("the disk is good");
                all.entry(record.address_of_record).or_default().take_in(&record, 0);
            }
            records.clear();
            all.iter().for_each(|(address, merged)| merged.write(&mut records, address));
        }
        self.life = Some(Life::new(&self.config, &self.users, &records, now));
        self.disk = records;
    }

    /// The tally with the counters since the start.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        if let Some(life) = &self.life {
            tally.count(&life.server);
        }
        tally
    }

    /// Calls `act` with a random worker, and checks the output for `bytes`.
    fn work(
        &mut self,
        now: Instant,
        bytes: &[u8],
        act: impl FnOnce(&mut Worker<RawMutex>, &mut Output),
    ) {
        let number = self.random.below(WORKERS as u64) as usize;
        let Some(life) = &mut self.life else { return };
        let output = &mut life.outputs[number];
        let before = output.transmits.len();
        act(&mut life.workers[number], output);
        self.tally.note_sent(output, before);
        let is_idle =
            output.journal.is_empty() && output.transmits.is_empty() && output.events.is_empty();
        if !is_idle && life.due[number].is_none() {
            life.due[number] = Some(now + BATCH);
        }
        life.watch(number, before, bytes, now);
    }

    fn flow(&self, remote: SocketAddr, stream: Option<u64>) -> Flow {
        let connection = stream.and_then(NonZeroU64::new).map(Connection);
        let transport = if connection.is_some() { Transport::Tcp } else { Transport::Udp };
        Flow { transport, local: self.address, remote, connection }
    }
}

impl End for Host {
    fn receive(&mut self, now: Instant, from: Peer, bytes: &[u8]) {
        let flow = self.flow(from.address, from.stream);
        let Some(life) = &mut self.life else { return };
        if let (Some(stream), Some(connection)) = (from.stream, flow.connection)
            && life.streams.insert(stream)
        {
            life.server.connection_opened(connection);
        }
        self.tally.received += 1;
        self.work(now, bytes, |worker, output| worker.receive(now, &flow, bytes, output));
    }

    fn next_timer(&self) -> Option<Instant> {
        let life = self.life.as_ref()?;
        life.due.iter().copied().flatten().chain(life.workers[0].next_timer()).min()
    }

    fn on_timer(&mut self, now: Instant) {
        let Some(life) = &mut self.life else { return };
        for (due, output) in life.due.iter_mut().zip(&mut life.outputs) {
            if due.take_if(|due| *due <= now).is_some() {
                self.disk.extend_from_slice(&output.journal);
                life.outbox.extend(output.transmits.iter().map(|transmit| Outgoing {
                    to: transmit.flow.remote,
                    way: way(&transmit.flow),
                    bytes: output.bytes[transmit.range.clone()].to_vec(),
                }));
                for event in &output.events {
                    if let Event::Locate { destination, .. } = event {
                        panic!("nobody here has a name: {destination:?}");
                    }
                }
                output.clear();
            }
        }
        if life.workers[0].next_timer().is_some_and(|next| next <= now) {
            self.work(now, &[], |worker, output| worker.on_timer(now, output));
        }
    }

    fn next_output(&mut self) -> Option<Outgoing> {
        self.life.as_mut()?.outbox.pop_front()
    }

    fn stream_closed(&mut self, now: Instant, stream: u64) {
        let Some(connection) = NonZeroU64::new(stream).map(Connection) else { return };
        self.work(now, &[], |worker, output| worker.connection_ended(now, connection, output));
    }

    fn undeliverable(&mut self, now: Instant, outgoing: Outgoing) {
        let Outgoing { to, way, bytes } = outgoing;
        let stream = if let Way::Stream(stream) = way { Some(stream) } else { None };
        let flow = Flow { transport: Transport::Tcp, ..self.flow(to, stream) };
        self.tally.undeliverable += 1;
        self.work(now, &[], |worker, output| worker.undeliverable(now, &flow, &bytes, output));
    }
}

impl Life {
    fn new(config: &Config, users: &[(String, Ha1Set)], records: &[u8], now: Instant) -> Self {
        let server = Arc::new(Server::<RawMutex>::new(config.clone(), &SECRET));
        for (user, ha1) in users {
            server.add_user(user.as_bytes(), ha1.clone());
        }
        for record in record::read(records) {
            server.restore(&record.expect("the records are good"), now);
        }
        Self {
            workers: (0..WORKERS).map(|_| server.worker()).collect(),
            outputs: (0..WORKERS).map(|_| Output::default()).collect(),
            due: vec![None; WORKERS],
            outbox: VecDeque::new(),
            streams: BTreeSet::new(),
            invites: BTreeMap::new(),
            server,
        }
    }

    /// Checks the received message and the output that it caused, which begins after `before`
    /// messages.
    fn watch(&mut self, number: usize, before: usize, bytes: &[u8], now: Instant) {
        let output = &self.outputs[number];
        for transmit in &output.transmits[before..] {
            let sent = Message::parse(&output.bytes[transmit.range.clone()]).expect("a message");
            match sent.method() {
                Some(Method::Invite) => {
                    let forwarded = Forwarded {
                        call_id: wire::value(&sent, HeaderName::CallId).to_owned(),
                        at: now,
                        heard: None,
                        cancelled: None,
                        success: None,
                    };
                    self.invites.entry(wire::key(&sent, false)).or_insert(forwarded);
                }
                Some(Method::Cancel) => {
                    let forwarded = self.invites.get_mut(&wire::key(&sent, true));
                    forwarded.expect("only what was forwarded is cancelled").cancelled = Some(now);
                }
                _ => {}
            }
        }
        let Ok(message) = Message::parse(bytes) else { return };
        let Some(status) = message.status() else { return };
        // An unknown INVITE belongs to a call from before the power cut.
        let Some(forwarded) = self.invites.get_mut(&wire::key(&message, false)) else { return };
        if (200..300).contains(&status) {
            let given_up =
                |since: Option<Instant>| since.is_some_and(|since| now.since(since) >= PATIENCE);
            let is_late = given_up(forwarded.success)
                || given_up(forwarded.cancelled)
                || (forwarded.is_unheard() && given_up(Some(forwarded.at)));
            // A proxy forwards each 2xx, including retransmissions and those of other branches (RFC
            // 3261 section 16.7 step 5), while its transaction exists.
            if !is_late {
                let passed = output.transmits[before..]
                    .iter()
                    .any(|transmit| output.bytes[transmit.range.clone()].starts_with(b"SIP/2.0 2"));
                assert!(passed, "a 2xx was not forwarded: {}", bytes.escape_ascii());
            }
            forwarded.success = forwarded.success.or(Some(now));
        }
        forwarded.heard = forwarded.heard.or(Some(now));
    }
}

impl Tally {
    fn count(&mut self, server: &Server<RawMutex>) {
        for (name, count) in server.counters() {
            *self.counters.entry(name).or_default() += count;
        }
    }

    fn note_sent(&mut self, output: &Output, before: usize) {
        for transmit in &output.transmits[before..] {
            self.sent += 1;
            let Ok(message) = Message::parse(&output.bytes[transmit.range.clone()]) else {
                panic!("the server sends what is no message");
            };
            let is_register = wire::value(&message, HeaderName::CSeq).ends_with("REGISTER");
            match message.status() {
                Some(200) if is_register => self.registered += 1,
                Some(401 | 407) => self.challenged += 1,
                _ => {}
            }
        }
    }
}

/// The way to send a message on this flow. Phones do not listen, so there are only the streams that
/// they opened.
const fn way(flow: &Flow) -> Way {
    match (flow.transport, flow.connection) {
        (Transport::Udp, _) => Way::Datagram,
        (_, Some(connection)) => Way::Stream(connection.0.get()),
        (_, None) => Way::OpenStream,
    }
}
