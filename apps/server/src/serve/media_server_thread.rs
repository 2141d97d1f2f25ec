//! The thread of the media server: messages, packets, and the tick of 20 ms.

use super::hub::Hub;
use super::local::{CarryOut, Local};
use super::media::{Media, OwnPorts};
use super::media_server::{Counts, Index, Input, Prepared, SharedMediaServer, Storage};
use crate::log;
use media_server::media::Channel;
use media_server::{CallId, Event, Mailboxes, MediaServer, Opening, Transmit};
use net::MAX_DATAGRAM;
use notifier::Messages;
use parking_lot::Mutex;
use relay::Host;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The interval of packets.
const TICK: Duration = Duration::from_millis(20);
/// The delay after which ticks are left out.
const LATE: Duration = Duration::from_millis(100);
/// The longest sleep without a call.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);
/// The maximum number of inputs between two ticks, so that a storm of calls does not delay packets.
const MOST_INPUTS: usize = 64;
/// The maximum number of packets that are read from a socket at once.
const MOST_PACKETS: usize = 16;

/// The thread of the media server. It ends when this is dropped.
pub(crate) struct MediaServerThread {
    inputs: SyncSender<Input>,
    thread: Option<JoinHandle<()>>,
}

impl MediaServerThread {
    /// Starts the thread for `server`, with ports of `media`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(
        hub: &Arc<Hub>,
        server: &SharedMediaServer,
        media: Media,
        prepared: Prepared,
    ) -> io::Result<Self> {
        let inputs = server.inputs.clone();
        let (hub, counts, index) =
            (Arc::clone(hub), Arc::clone(&server.counts), Arc::clone(&server.index));
        let thread =
            std::thread::Builder::new().name("media-server".to_owned()).spawn(move || {
                if let Err(error) = net::take_short_turns() {
                    log::info("turns", || {
                        format!("the media server has no short time slices: {error}")
                    });
                }
                let Prepared { queue, storage, sounds, config } = prepared;
                let random = |bytes: &mut [u8]| {
                    getrandom::fill(bytes).expect("the system has given random bytes at the start");
                };
                let mut server = MediaServer::new(config, Box::new(random));
                server.set_sounds(sounds);
                let local = Local::new(0, &hub.engine);
                let lines = HashMap::new();
                let changed = Changed::of(&index);
                let turns =
                    Turns { hub, counts, index, storage, media, server, local, lines, changed };
                turns.run(&queue);
            })?;
        Ok(Self { inputs, thread: Some(thread) })
    }
}

impl Drop for MediaServerThread {
    fn drop(&mut self) {
        // The thread reads its queue until it ends.
        let _ = self.inputs.send(Input::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The resources of a call.
struct Line {
    ports: OwnPorts,
    /// The address of the other end's signalling.
    origin: IpAddr,
    /// The last destination of packets, and true if the other end may have them sent there.
    destination: [Option<(SocketAddr, bool)>; 2],
    /// The mailbox with reserved space.
    reserved: Option<String>,
}

/// The mailboxes with numbers of messages that the notifier is not told yet.
#[derive(Clone, Default)]
struct Changed(Arc<Mutex<BTreeSet<String>>>);

impl Changed {
    /// All mailboxes of `index`, and those that change from now on.
    fn of(index: &Index) -> Self {
        let changed = Self::default();
        let noted = changed.clone();
        index.watch(Box::new(move |mailbox| {
            noted.0.lock().insert(mailbox.to_owned());
        }));
        changed.0.lock().extend(index.names());
        changed
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

struct Turns {
    hub: Arc<Hub>,
    counts: Arc<Counts>,
    index: Arc<Index>,
    storage: Storage,
    media: Media,
    server: MediaServer,
    local: Local,
    lines: HashMap<CallId, Line>,
    changed: Changed,
}

impl Turns {
    fn run(mut self, queue: &Receiver<Input>) {
        let mut next_tick = Instant::now();
        loop {
            let mut wait = self.sleep(next_tick);
            let mut is_ending = false;
            for _ in 0..MOST_INPUTS {
                match queue.recv_timeout(wait) {
                    Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => {
                        is_ending = true;
                        break;
                    }
                    Ok(input) => self.take(input),
                    Err(RecvTimeoutError::Timeout) => break,
                }
                wait = Duration::ZERO;
            }
            let now = self.hub.clock.now();
            if is_ending {
                self.server.hang_up_all(now);
                return self.settle();
            }
            if self.server.next_timer().is_some_and(|when| when <= now) {
                self.server.on_timer(now);
            }
            next_tick = self.tick(next_tick);
            self.settle();
            self.tell_counts();
        }
    }

    /// Tells the notifier the numbers of messages that have changed.
    fn tell_counts(&mut self) {
        for mailbox in self.changed.take() {
            let Some(counts) = self.index.counts(&mailbox) else { continue };
            let messages = Messages { new: counts.new, old: counts.old };
            let now = self.hub.clock.now();
            self.hub.notifier.set_messages(now, &mailbox, messages, &mut self.local);
            self.hub.carry_out(&mut self.local);
        }
    }

    /// The time to wait for an input.
    fn sleep(&self, next_tick: Instant) -> Duration {
        let now = self.hub.clock.now();
        let timer = self.server.next_timer().map(|when| Duration::from(when.since(now)));
        let timer = timer.unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP);
        match self.server.calls() {
            0 => timer,
            _ => timer.min(next_tick.saturating_duration_since(Instant::now())),
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Message(flow, bytes) => {
                self.server.receive(self.hub.clock.now(), &flow, &bytes);
            }
            Input::Reply(call, reply) => self.server.reply(call, reply),
            Input::Configure(sounds, config) => {
                self.server.set_sounds(sounds);
                self.server.configure(*config);
            }
            Input::End => {}
        }
        self.settle();
    }

    /// Reads the packets, and sends those of 20 ms, if they are due at `due`. Returns the time of
    /// the next tick.
    fn tick(&mut self, due: Instant) -> Instant {
        let start = Instant::now();
        if self.server.calls() == 0 {
            return start;
        }
        if start < due {
            return due;
        }
        self.read();
        let now = self.hub.clock.now();
        let Self { server, lines, media, hub, .. } = self;
        server.tick(now, &mut |call, channel, to, packet| {
            let Some(line) = lines.get_mut(&call) else { return };
            let may_send = || media.is_own(to) || hub.engine.may_send_media(line.origin, to);
            let known = line.destination[channel as usize].filter(|(known, _)| *known == to);
            let (_, is_permitted) = known.unwrap_or_else(|| (to, may_send()));
            line.destination[channel as usize] = Some((to, is_permitted));
            if is_permitted {
                // A full buffer of the system loses a packet, as a network does.
                let _ = line.ports.send(channel, packet, to);
            }
        });
        if start.saturating_duration_since(due) > LATE {
            let count = start.saturating_duration_since(due).as_millis() / TICK.as_millis();
            self.counts.late.fetch_add(count as u64, Ordering::Relaxed);
            return start + TICK;
        }
        due + TICK
    }

    /// Reads the packets of all calls.
    fn read(&mut self) {
        let mut buffer = [0; MAX_DATAGRAM];
        let now = self.hub.clock.now();
        for (call, line) in &self.lines {
            for channel in [Channel::Rtp, Channel::Rtcp] {
                for _ in 0..MOST_PACKETS {
                    match line.ports.receive(channel, &mut buffer) {
                        Ok((length, from)) => {
                            let packet = &mut buffer[..length];
                            self.server.receive_media(now, *call, channel, from, packet);
                        }
                        // An ICMP error of an earlier packet is read as an error.
                        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                        Err(_) => break,
                    }
                }
            }
        }
    }

    /// Carries out the requests of the engine, and passes its messages to the proxy.
    fn settle(&mut self) {
        loop {
            while let Some(event) = self.server.poll_event() {
                self.carry_out(event);
            }
            let mut has_sent = false;
            while let Some(Transmit { flow, bytes }) = self.server.poll_transmit() {
                let Local { worker, out, .. } = &mut self.local;
                worker.receive(self.hub.clock.now(), &flow, &bytes, out);
                has_sent = true;
            }
            if !has_sent {
                break;
            }
            self.hub.carry_out(&mut self.local);
        }
        *self.counts.engine.lock() = self.server.counters();
    }

    fn carry_out(&mut self, event: Event) {
        match event {
            Event::Open { call, local, remote, deposit, is_proved } => {
                let opening = self.open(call, [local, remote], deposit, is_proved);
                self.server.open(self.hub.clock.now(), call, opening);
            }
            Event::Ask { call, mailbox, ask } => {
                if let Some(reply) = self.storage.ask(call, mailbox, ask) {
                    self.server.reply(call, reply);
                }
            }
            Event::Closed { call } => {
                if let Some(Line { reserved: Some(mailbox), .. }) = self.lines.remove(&call) {
                    self.index.release(&mailbox);
                }
            }
            _ => {}
        }
    }

    fn open(
        &mut self,
        call: CallId,
        [local, origin]: [IpAddr; 2],
        deposit: Option<String>,
        is_proved: bool,
    ) -> Opening {
        if let Some(mailbox) = &deposit
            && !self.index.reserve(mailbox, is_proved)
        {
            log::warn("voicemail", || {
                format!(
                    "a call to mailbox {mailbox} is refused: the share of its caller in the \
                     mailbox or in the space of all is full"
                )
            });
            return Opening::MailboxFull;
        }
        let Ok(ports) = self.media.own_ports(local) else {
            deposit.iter().for_each(|mailbox| self.index.release(mailbox));
            return Opening::NoPort;
        };
        let at = SocketAddr::new(local.to_canonical(), ports.rtp());
        self.lines.insert(call, Line { ports, origin, destination: [None; 2], reserved: deposit });
        Opening::At(at)
    }
}
