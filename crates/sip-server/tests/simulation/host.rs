//! The machine that the server runs on: its workers, its disk, its power switch.

use crate::{Net, Wake, instant, since_start, wire};
use parking_lot::RawMutex;
use sip::digest::Ha1Set;
use sip::{HeaderName, Instant, Message, Method, Transport};
use sip_server::{Config, Connection, Event, Flow, Output, Server, Worker, record};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

const SECRET: [u8; 32] = *b"The server keeps it on its disk.";

/// How many workers share the server.
const WORKERS: usize = 3;

/// How long a worker collects before it writes and sends.
const BATCH: Duration = Duration::from_millis(2);

pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    config: Config,
    users: Vec<(String, Ha1Set)>,
    /// All records that were written, and nothing else, outlives a power cut.
    disk: Vec<u8>,
    life: Option<Life>,
    lives: u32,
    alarm: Option<Duration>,
    /// What happened in all lives.
    pub(crate) tally: Tally,
}

/// What is gone with the power.
struct Life {
    server: Arc<Server<RawMutex>>,
    workers: Vec<Worker<RawMutex>>,
    outputs: Vec<Output>,
    is_collecting: Vec<bool>,
    /// Streams that something came on.
    streams: BTreeSet<u64>,
    /// Every INVITE that was forwarded, by its branch.
    invites: BTreeMap<String, Forwarded>,
}

/// An INVITE that was forwarded.
struct Forwarded {
    call_id: String,
    at: Instant,
    /// When the first response came.
    heard: Option<Instant>,
    cancelled: Option<Instant>,
    success: Option<Instant>,
}

impl Forwarded {
    /// Whether no response came in time, if that is over.
    fn is_unheard(&self) -> bool {
        self.heard.is_none_or(|heard| heard.since(self.at) >= PATIENCE)
    }
}

/// 64*T1: how long RFC 3261 has transactions wait.
const PATIENCE: sip::Duration = sip::Duration::from_secs(32);

/// What the host counts itself, to be compared with the engine's counters, and those counters.
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
    pub(crate) fn new(address: SocketAddr, config: Config, users: Vec<(String, Ha1Set)>) -> Self {
        let mut host = Self {
            address,
            config,
            users,
            disk: Vec::new(),
            life: None,
            lives: 0,
            alarm: None,
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

    /// Transaction key and Call-ID of each INVITE that went out in this life and was not answered
    /// in time (timer B).
    pub(crate) fn unheard(&self) -> impl Iterator<Item = (&str, &str)> {
        let invites = self.life.iter().flat_map(|life| &life.invites);
        invites
            .filter(|(_, sent)| sent.is_unheard())
            .map(|(key, sent)| (&key[..], &sent.call_id[..]))
    }

    /// Cuts the power: of what each worker had not yet sent, nothing, all or a part is on disk.
    pub(crate) fn kill(&mut self, net: &mut Net) {
        let Some(life) = self.life.take() else { return };
        for output in &life.outputs {
            let written = match net.random().below(3) {
                0 => 0,
                1 => output.journal.len(),
                _ => net.random().below(output.journal.len() as u64 + 1) as usize,
            };
            self.disk.extend_from_slice(&output.journal[..written]);
            // A record that is cut off is the last: nothing can be read after it.
            let good = record::read(&self.disk).map_while(Result::ok);
            let length = good.map(|record| record.bytes.len()).sum();
            self.disk.truncate(length);
        }
        self.tally.kills += 1;
        self.tally.count(&life.server);
        for stream in net.streams_of(self.address) {
            net.close(stream);
        }
    }

    /// Switches the power on again, if it is off.
    pub(crate) fn start(&mut self, net: &mut Net) {
        if self.life.is_some() {
            return;
        }
        let mut records: Vec<&[u8]> = record::read(&self.disk)
            .map(|record| record.expect("the disk is good").bytes)
            .collect();
        if net.random().chance(500) {
            // As a storage that keeps one record for each address of record gives them.
            let mut latest = BTreeMap::new();
            for record in record::read(&self.disk).map_while(Result::ok) {
                let kept = latest.entry(record.address_of_record).or_insert(record);
                if kept.sequence <= record.sequence {
                    *kept = record;
                }
            }
            records = latest.into_values().map(|record| record.bytes).collect();
        }
        let records = records.concat();
        self.life = Some(Life::new(&self.config, &self.users, &records, instant(net.now())));
        self.lives += 1;
        for stream in net.streams_of(self.address) {
            net.close(stream);
        }
        self.disk = records;
        self.alarm = None;
        self.set_alarm(net);
    }

    /// A message came from `remote`.
    pub(crate) fn receive(
        &mut self,
        net: &mut Net,
        remote: SocketAddr,
        stream: Option<u64>,
        bytes: &[u8],
    ) {
        let Some(life) = &mut self.life else { return };
        let connection = stream.and_then(NonZeroU64::new).map(Connection);
        let transport = if connection.is_some() { Transport::Tcp } else { Transport::Udp };
        let flow = Flow { transport, local: self.address, remote, connection };
        let number = net.random().below(WORKERS as u64) as usize;
        let output = &mut life.outputs[number];
        let before = output.transmits.len();
        if let (Some(stream), Some(connection)) = (stream, connection)
            && life.streams.insert(stream)
        {
            life.server.connection_opened(connection);
        }
        life.workers[number].receive(instant(net.now()), &flow, bytes, output);
        self.tally.received += 1;
        self.after_event(net, number, before, bytes);
    }

    /// A stream was closed.
    pub(crate) fn closed(&mut self, net: &mut Net, stream: u64) {
        let Some(life) = &mut self.life else { return };
        let Some(connection) = NonZeroU64::new(stream).map(Connection) else { return };
        let number = net.random().below(WORKERS as u64) as usize;
        let output = &mut life.outputs[number];
        let before = output.transmits.len();
        life.workers[number].connection_ended(instant(net.now()), connection, output);
        self.after_event(net, number, before, &[]);
    }

    /// A worker has collected enough.
    pub(crate) fn flush(&mut self, net: &mut Net, number: usize, life_number: u32) {
        if life_number != self.lives {
            return;
        }
        let Some(life) = &mut self.life else { return };
        life.is_collecting[number] = false;
        let output = std::mem::take(&mut life.outputs[number]);
        self.disk.extend_from_slice(&output.journal);
        let mut failed = Vec::new();
        for transmit in &output.transmits {
            let bytes = &output.bytes[transmit.range.clone()];
            if !deliver(net, &transmit.flow, bytes) {
                failed.push((transmit.flow, bytes));
            }
        }
        for (flow, bytes) in failed {
            let Some(life) = &mut self.life else { return };
            let now = instant(net.now());
            let output = &mut life.outputs[number];
            let before = output.transmits.len();
            life.workers[number].undeliverable(now, &flow, bytes, output);
            self.tally.undeliverable += 1;
            self.note(now, number, before, &[]);
        }
        for event in output.events {
            if let Event::Locate { destination, .. } = event {
                panic!("nobody here has a name: {destination:?}");
            }
        }
        self.set_batch(net, number);
        self.set_alarm(net);
    }

    /// The alarm for the timers rings.
    pub(crate) fn on_alarm(&mut self, net: &mut Net) {
        if self.alarm.is_none_or(|alarm| alarm > net.now()) {
            return;
        }
        self.alarm = None;
        let Some(life) = &mut self.life else { return };
        let number = net.random().below(WORKERS as u64) as usize;
        let output = &mut life.outputs[number];
        let before = output.transmits.len();
        life.workers[number].on_timer(instant(net.now()), output);
        self.after_event(net, number, before, &[]);
    }

    /// The tally with the counters of this life.
    pub(crate) fn tally(&self) -> Tally {
        let mut tally = self.tally.clone();
        if let Some(life) = &self.life {
            tally.count(&life.server);
        }
        tally
    }

    fn after_event(&mut self, net: &mut Net, number: usize, before: usize, bytes: &[u8]) {
        self.note(instant(net.now()), number, before, bytes);
        self.set_batch(net, number);
        self.set_alarm(net);
    }

    /// Looks at what `bytes` made a worker send, after `before` other messages.
    fn note(&mut self, now: Instant, number: usize, before: usize, bytes: &[u8]) {
        if let Some(life) = &mut self.life {
            self.tally.note_sent(&life.outputs[number], before);
            life.watch(number, before, bytes, now);
        }
    }

    /// Sees to it that what a worker has to send is sent.
    fn set_batch(&mut self, net: &mut Net, number: usize) {
        let Some(life) = &mut self.life else { return };
        let output = &life.outputs[number];
        let is_idle =
            output.journal.is_empty() && output.transmits.is_empty() && output.events.is_empty();
        if !is_idle && !life.is_collecting[number] {
            life.is_collecting[number] = true;
            net.wake_at(net.now() + BATCH, Wake::Flush { worker: number, life: self.lives });
        }
    }

    fn set_alarm(&mut self, net: &mut Net) {
        let Some(life) = &self.life else { return };
        let Some(next) = life.workers[0].next_timer() else { return };
        let next = since_start(next).max(net.now());
        if self.alarm.is_none_or(|alarm| next < alarm) {
            self.alarm = Some(next);
            net.wake_at(next, Wake::Server);
        }
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
            is_collecting: vec![false; WORKERS],
            streams: BTreeSet::new(),
            invites: BTreeMap::new(),
            server,
        }
    }

    /// Looks at what came and what that made go out, which `before` other messages precede.
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
        // What is not there is of a call from before the power cut.
        let Some(forwarded) = self.invites.get_mut(&wire::key(&message, false)) else { return };
        if (200..300).contains(&status) {
            let given_up =
                |since: Option<Instant>| since.is_some_and(|since| now.since(since) >= PATIENCE);
            let is_late = given_up(forwarded.success)
                || given_up(forwarded.cancelled)
                || (forwarded.is_unheard() && given_up(Some(forwarded.at)));
            // A proxy forwards each 2xx, repetitions and those of other branches too (RFC 3261
            // section 16.7 step 5), as long as its transaction lasts.
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

/// Sends on the flow. False where that is known to be in vain.
fn deliver(net: &mut Net, flow: &Flow, bytes: &[u8]) -> bool {
    match (flow.transport, flow.connection) {
        (Transport::Udp, _) => {
            net.send(flow.local, flow.remote, bytes);
            true
        }
        (_, Some(connection)) => net.write(connection.0.get(), flow.local, bytes),
        // Phones do not listen, so there is only what they opened.
        (_, None) => match net.streams_of(flow.remote).first() {
            Some(&stream) => net.write(stream, flow.local, bytes),
            None => false,
        },
    }
}
