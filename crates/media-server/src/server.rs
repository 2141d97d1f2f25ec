//! The engine: its calls, its inputs and its outputs.

use crate::config::Config;
use crate::deposit::Deposit;
use crate::event::{Event, Opening, Reply};
use crate::invitation::{Invitation, Service};
use crate::line::Line;
use crate::player::Player;
use crate::program::Program;
use crate::retrieval::Retrieval;
use crate::room::{Member, Room};
use crate::slot::{PassedTransfer, Slots};
use crate::sounds::{RATE, Sounds};
use crate::step::Asks;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use call::{Call, Change, Setup};
use core::net::SocketAddr;
use media::{Channel, Received};
use sip::{Flow, Instant, Message, Source};
use sip_ua::{Agent, CallId, Transmit};

/// The user part of the contact of this agent.
const USER: &str = "media";
/// The pause after which a caller may try again.
const RETRY_AFTER: &[u8] = b"Retry-After: 10\r\n";

/// Fills bytes with random values.
pub type Random = Box<dyn FnMut(&mut [u8]) + core::marker::Send>;

/// Sends a packet of a call: the call, the socket, the destination, the contents.
pub type Send<'a> = &'a mut dyn FnMut(CallId, Channel, SocketAddr, &[u8]);

/// Counts of a [`MediaServer`] since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Calls that were answered.
    pub calls: u64,
    /// Calls that were refused because of [`Config::calls`] or without a free port.
    pub over_limit: u64,
    /// Calls that were refused because of [`Config::calls_of_source`], [`Config::members`],
    /// [`Config::calls_of_mailbox`], [`Config::slots_of_user`] or [`Config::calls_of_strangers`].
    pub over_share: u64,
    /// Calls that were refused since the mailbox was full.
    pub full: u64,
    /// Messages that were recorded, and handed to the owner.
    pub recorded: u64,
    /// Calls that were ended because of [`Config::call_length`] or [`Config::inactivity`].
    pub ended: u64,
    /// Calls that were parked.
    pub parked: u64,
    /// Parked calls that were returned to the party that had parked them.
    pub returned: u64,
}

/// A call that waits for its port.
pub(crate) struct Arrival {
    pub(crate) invitation: Invitation,
    offer: Option<Vec<u8>>,
    source: Source,
    /// The slot of a parked call, or of one that retrieves it.
    pub(crate) slot: Option<String>,
    /// The call that this one replaces when it is answered (RFC 3891).
    replaces: Option<CallId>,
}

/// A media server: a user agent that answers the calls that a proxy sends to it on
/// [internal flows](Flow::internal_to). See the [crate] for its use.
pub struct MediaServer {
    pub(crate) agent: Agent,
    pub(crate) config: Config,
    pub(crate) sounds: Sounds,
    pub(crate) arrivals: BTreeMap<CallId, Arrival>,
    pub(crate) lines: BTreeMap<CallId, Line>,
    rooms: BTreeMap<String, Room>,
    pub(crate) slots: Slots,
    /// The transfers that pass, by the call that is transferred.
    pub(crate) transfers: BTreeMap<CallId, PassedTransfer>,
    /// The number of calls of each source.
    sources: BTreeMap<Source, usize>,
    events: VecDeque<Event>,
    pub(crate) counters: Counters,
    random: Random,
}

impl core::fmt::Debug for MediaServer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MediaServer").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

impl MediaServer {
    /// Returns a media server without calls. `random` fills bytes with random values, for keys.
    #[must_use]
    pub fn new(config: Config, mut random: Random) -> Self {
        let agent = sip_ua::Config {
            user: USER.into(),
            user_agent: config.product.clone(),
            direct_calls: true,
            // They are limited here.
            incoming_calls: usize::MAX,
            server_transactions: config.calls.saturating_mul(4).saturating_add(256),
            session_expires: Some(config.session_expires),
            redirects: 0,
            keepalive: None,
            ..sip_ua::Config::default()
        };
        let mut secret = [0; 32];
        random(&mut secret);
        Self {
            agent: Agent::new(agent, &secret),
            config,
            sounds: Sounds::default(),
            arrivals: BTreeMap::new(),
            lines: BTreeMap::new(),
            rooms: BTreeMap::new(),
            slots: Slots::default(),
            transfers: BTreeMap::new(),
            sources: BTreeMap::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
            random,
        }
    }

    /// Replaces the sounds of the operator, for programs that begin to play one from now on.
    pub fn set_sounds(&mut self, sounds: Sounds) {
        self.sounds = sounds;
    }

    /// Changes the limits and codecs, for calls from now on.
    pub fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// Processes a message that came on `flow`. A message on a flow that is not internal is
    /// ignored.
    pub fn receive(&mut self, now: Instant, flow: &Flow, bytes: &[u8]) {
        if flow.is_internal() {
            let changed = Invitation::without_replaces(bytes);
            self.agent.receive(now, flow, changed.as_deref().unwrap_or(bytes));
            self.process(now);
        }
    }

    /// Returns the next message to send, if any.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.agent.poll_transmit()
    }

    /// Returns the next request to the owner, if any.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the time of the next call to [`MediaServer::on_timer`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.agent.next_timer()
    }

    /// Processes the timers that are due at `now`.
    pub fn on_timer(&mut self, now: Instant) {
        self.agent.on_timer(now);
        self.process(now);
    }

    /// Returns the number of calls, those without a port included.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.lines.len() + self.arrivals.len()
    }

    /// Returns the number of calls, of transactions and of other entries for calls, which are zero
    /// some time after the last call.
    #[must_use]
    pub fn remains(&self) -> usize {
        let agent = self.agent.calls() + self.agent.transactions();
        let ours = self.rooms.len() + self.slots.len() + self.sources.len() + self.transfers.len();
        agent + self.calls() + ours
    }

    /// Returns the counts since the creation.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Ends all calls.
    pub fn hang_up_all(&mut self, now: Instant) {
        let calls: Vec<CallId> = self.lines.keys().chain(self.arrivals.keys()).copied().collect();
        for call in calls {
            // A call that has ended is an event.
            let _ = self.agent.hang_up(now, call);
        }
        self.process(now);
    }

    fn process(&mut self, now: Instant) {
        while let Some(event) = self.agent.poll_event() {
            match event {
                sip_ua::Event::Incoming { call, flow, offer, replaces, .. } => {
                    self.on_incoming(now, call, &flow, (offer, replaces));
                }
                sip_ua::Event::Ended { call, .. } => self.on_ended(now, call),
                sip_ua::Event::Transfer { call, transfer } => {
                    self.on_transfer(now, call, &transfer);
                }
                sip_ua::Event::TransferAsked { call, .. } => self.on_transfer_asked(now, call),
                // Requests on an internal flow need no location.
                sip_ua::Event::Locate { ticket, .. } => self.agent.located(now, ticket, &[]),
                event => self.pass(now, &event),
            }
        }
    }

    /// Passes an event to the media of its call.
    fn pass(&mut self, now: Instant, event: &sip_ua::Event) {
        let Some(id) = event.call() else { return };
        let Some(line) = self.lines.get_mut(&id) else { return };
        let change = line.call.on_event(&mut self.agent, now, event, &mut *self.random);
        if let Some(Change::Key(key)) = change {
            self.press(id, key);
        }
    }

    fn on_incoming(
        &mut self,
        now: Instant,
        call: CallId,
        flow: &Flow,
        (offer, replaces): (Option<Vec<u8>>, Option<CallId>),
    ) {
        let invite = self.agent.invite(call).map(<[u8]>::to_vec).unwrap_or_default();
        let invite = Message::parse(&invite).ok();
        let Some(Ok(invitation)) = invite.as_ref().map(Invitation::read) else {
            let _ = self.agent.decline(now, call, 404);
            return;
        };
        let source = Source::of(flow.remote.ip());
        let count = self.sources.get(&source).copied().unwrap_or_default();
        let members = match &invitation.service {
            Service::Conference(name) => self.rooms.get(name).map_or(0, |room| room.members),
            _ => 0,
        };
        let deposit = match &invitation.service {
            Service::Deposit(mailbox) => Some(mailbox.clone()),
            _ => None,
        };
        let of_mailbox = deposit.as_ref().map_or(0, |mailbox| self.deposits(mailbox));
        let is_proved = invitation.caller.is_some();
        let is_known = match &invitation.service {
            Service::Announcement(name) => self.sounds.has(name),
            _ => true,
        };
        let slot = self.slot_for(&invitation, replaces);
        let needs_slot = matches!(invitation.service, Service::Park(_) | Service::Meet(_));
        let status = if !is_known {
            404
        } else if self.calls() >= self.config.calls {
            self.counters.over_limit += 1;
            503
        } else if count >= self.config.calls_of_source
            || members >= self.config.members
            || of_mailbox >= self.config.calls_of_mailbox
            || (needs_slot && slot.is_none())
            || (!is_proved && self.calls_of_strangers() >= self.config.calls_of_strangers())
        {
            self.counters.over_share += 1;
            486
        } else {
            self.sources.insert(source, count + 1);
            self.arrivals.insert(call, Arrival { invitation, offer, source, slot, replaces });
            let [local, remote] = [flow.local.ip(), flow.remote.ip()];
            self.events.push_back(Event::Open { call, local, remote, deposit, is_proved });
            return;
        };
        let lines = if status == 404 { b"" } else { RETRY_AFTER };
        let _ = self.agent.decline_with(now, call, status, lines);
    }

    /// The number of calls that record a message for `mailbox`.
    fn deposits(&self, mailbox: &str) -> usize {
        let arriving = self.arrivals.values().filter(|arrival| {
            matches!(&arrival.invitation.service, Service::Deposit(name) if name == mailbox)
        });
        let answered = self.lines.values().filter(|line| {
            matches!(&line.program, Program::Deposit(deposit) if deposit.mailbox() == mailbox)
        });
        arriving.count() + answered.count()
    }

    /// The number of calls of callers that have not authenticated.
    fn calls_of_strangers(&self) -> usize {
        let arriving = self.arrivals.values().filter(|it| it.invitation.caller.is_none());
        arriving.count() + self.lines.values().filter(|line| !line.is_proved).count()
    }

    /// Answers [`Event::Open`]. A call that has ended meanwhile is ignored.
    pub fn open(&mut self, now: Instant, call: CallId, opening: Opening) {
        let Some(arrival) = self.arrivals.remove(&call) else { return };
        let refused = match opening {
            Opening::At(local) => return self.answer(now, call, arrival, local),
            Opening::NoPort => {
                self.counters.over_limit += 1;
                (503, RETRY_AFTER)
            }
            Opening::MailboxFull => {
                self.counters.full += 1;
                (480, &b"Warning: 399 barebell \"The mailbox is full\"\r\n"[..])
            }
        };
        self.release(arrival.source);
        let _ = self.agent.decline_with(now, call, refused.0, refused.1);
        self.process(now);
    }

    /// Answers a call, which receives at `local`.
    fn answer(&mut self, now: Instant, id: CallId, arrival: Arrival, local: SocketAddr) {
        let Arrival { invitation, offer, source, slot, replaces } = arrival;
        let random = &mut *self.random;
        let mut call = Call::new(Setup::new(self.config.media.clone(), local), random);
        let is_usable = call.ring(&mut self.agent, now, id, offer.as_deref(), random).is_ok();
        if !is_usable || call.answer(&mut self.agent, now).is_err() {
            self.release(source);
            self.events.push_back(Event::Closed { call: id });
            return self.process(now);
        }
        let origin = (source, invitation.caller.is_some());
        let program = match slot {
            Some(slot) => self.wait_in(now, id, (slot, replaces), &invitation),
            None => self.program(invitation),
        };
        if let Program::Room(member) = &program {
            self.rooms.entry(member.room.clone()).or_insert_with(Room::new).join();
        }
        self.counters.calls += 1;
        self.lines.insert(id, Line::new(call, origin, now, program));
        self.process(now);
    }

    fn program(&self, invitation: Invitation) -> Program {
        let party = invitation.party();
        match &invitation.service {
            Service::Echo => Program::Echo,
            Service::Music => Program::Music(Player::new(RATE)),
            Service::Announcement(name) => {
                let mut player = Player::new(RATE);
                player.pause(200);
                self.sounds.play(name, &mut player);
                player.pause(200);
                Program::Announcement(player)
            }
            Service::Conference(room) => Program::Room(Member::new(room.clone())),
            Service::Deposit(mailbox) => {
                let Config { message_length, silence, .. } = self.config;
                let (longest, silence) = (message_length.into(), silence.into());
                let mailbox = mailbox.clone();
                let deposit = Deposit::new(mailbox, party, longest, silence, &self.sounds);
                Program::Deposit(Box::new(deposit))
            }
            Service::Retrieval(mailbox) => Program::Retrieval(Retrieval::new(mailbox.clone())),
            // These two have a slot.
            Service::Park(_) | Service::Meet(_) => Program::Echo,
        }
    }

    fn on_ended(&mut self, now: Instant, call: CallId) {
        self.end_transfer_of(now, call);
        let mut asks = Asks::new();
        let source = if let Some(mut line) = self.lines.remove(&call) {
            line.program.end(&mut asks);
            if let Program::Room(member) = &line.program
                && self.rooms.get_mut(&member.room).is_some_and(|room| !room.leave())
            {
                self.rooms.remove(&member.room);
            }
            if let Program::Slot(waiting) = &line.program
                && let Some(other) = self.slots.leave(&waiting.slot, call)
            {
                // The two calls of a slot end together.
                self.leave_alone(now, other, call);
            }
            line.source
        } else if let Some(arrival) = self.arrivals.remove(&call) {
            arrival.source
        } else {
            return;
        };
        self.release(source);
        self.ask(call, asks);
        self.events.push_back(Event::Closed { call });
    }

    /// Takes a call from those of its source.
    fn release(&mut self, source: Source) {
        if let Some(count) = self.sources.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.sources.remove(&source);
            }
        }
    }

    /// Queues the requests of the service that handles `call` as events for the owner.
    fn ask(&mut self, call: CallId, asks: Asks) {
        for (mailbox, ask) in asks {
            if matches!(ask, crate::event::Ask::Keep(_)) {
                self.counters.recorded += 1;
            }
            self.events.push_back(Event::Ask { call, mailbox, ask });
        }
    }

    /// Answers a request of `call`. Without the call it is ignored.
    pub fn reply(&mut self, call: CallId, reply: Reply) {
        let mut asks = Asks::new();
        if let Some(line) = self.lines.get_mut(&call) {
            line.program.on_reply(reply, &self.sounds, &mut asks);
        }
        self.ask(call, asks);
    }

    /// Takes a key of a caller.
    fn press(&mut self, call: CallId, key: char) {
        let mut asks = Asks::new();
        if let Some(line) = self.lines.get_mut(&call) {
            line.program.press(key, &self.sounds, &mut asks);
        }
        self.ask(call, asks);
    }

    /// Processes a datagram that arrived at `now` for `call` on the socket of `channel`. It is
    /// decrypted in place.
    pub fn receive_media(
        &mut self,
        now: Instant,
        call: CallId,
        channel: Channel,
        from: SocketAddr,
        datagram: &mut [u8],
    ) {
        let Some(line) = self.lines.get_mut(&call) else { return };
        if let Received::Digit(key) = line.call.receive(channel, now, from, datagram) {
            self.press(call, key);
        }
    }

    /// Processes 20 ms of all calls. To be called every 20 ms while there are calls. `transmit`
    /// sends the packets.
    pub fn tick(&mut self, now: Instant, transmit: Send<'_>) {
        self.return_calls(now);
        self.end_late_transfers(now);
        let Self { agent, config, sounds, lines, rooms, slots, counters, .. } = self;
        rooms.values_mut().for_each(Room::begin);
        slots.begin();
        for line in lines.values_mut() {
            line.hear(now);
            if let Program::Slot(waiting) = &line.program
                && let Some(slot) = slots.get_mut(&waiting.slot)
            {
                slot.room.add(line.heard());
            }
            if let Program::Room(member) = &line.program
                && !member.is_muted
                && let Some(room) = rooms.get_mut(&member.room)
            {
                room.add(line.heard());
            }
        }
        let mut asked: Vec<(CallId, Asks)> = Vec::new();
        let mut over: Vec<CallId> = Vec::new();
        for (id, line) in lines {
            let mix = match &line.program {
                Program::Room(member) => rooms.get(&member.room).map(Room::mix),
                Program::Slot(waiting) => slots.get(&waiting.slot).map(|slot| slot.room.mix()),
                _ => None,
            };
            let mut asks = Asks::new();
            let send = &mut |channel, to, packet: &[u8]| transmit(*id, channel, to, packet);
            let is_over = line.speak(agent, now, (mix, sounds), &mut asks, send);
            if !asks.is_empty() {
                asked.push((*id, asks));
            }
            let is_limited = line.is_over_limit(now, config);
            counters.ended += u64::from(is_limited);
            if is_over || is_limited {
                line.call.say_bye(now, send);
                over.push(*id);
            }
        }
        for (call, asks) in asked {
            self.ask(call, asks);
        }
        for call in over {
            // A call that has ended meanwhile is an event.
            let _ = self.agent.hang_up(now, call);
        }
        self.process(now);
    }
}
