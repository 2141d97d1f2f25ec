//! The media server, and phones that call it on a virtual clock.

use barebell_media_server::call::{Call, Change, Setup};
use barebell_media_server::media::tone::{Tone, amplitude_of};
use barebell_media_server::media::{Channel, Codec, MediaConfig};
use barebell_media_server::sip::{Duration, Endpoint, Flow, Instant, Transport};
use barebell_media_server::sip_ua::{self, Agent, CallId, End, Location, Transfer};
use barebell_media_server::{Ask, Config, Event, MediaServer, Opening, Reply, Summary};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) const FRAME: Duration = Duration::from_millis(20);

/// Reproducible numbers for keys.
pub(crate) fn numbers(seed: u64) -> impl FnMut(&mut [u8]) + Send {
    let mut state = seed;
    move |bytes| {
        bytes.fill_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
    }
}

/// A source of random octets.
type RandomSource = Box<dyn FnMut(&mut [u8]) + Send>;

pub(crate) struct Phone {
    pub(crate) agent: Agent,
    pub(crate) call: Call,
    pub(crate) place: SocketAddr,
    pub(crate) tone: Option<Tone>,
    pub(crate) heard: Vec<i16>,
    pub(crate) rate: u32,
    pub(crate) ended: Option<End>,
    /// The target that the server has asked the phone to call.
    pub(crate) transferred: Option<String>,
    /// The last news of the transfer that the phone has requested.
    pub(crate) news: Option<Transfer>,
    pub(crate) random: RandomSource,
    /// The first Route of the INVITE, as the proxy writes it.
    pub(crate) route: String,
}

/// A message in the mailbox.
pub(crate) struct Message {
    pub(crate) id: u64,
    pub(crate) is_heard: bool,
    pub(crate) samples: Arc<[i16]>,
    pub(crate) caller: String,
}

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) server: MediaServer,
    pub(crate) phones: Vec<Phone>,
    /// The ports of the server, by call.
    pub(crate) ports: HashMap<CallId, u16>,
    pub(crate) next_port: u16,
    pub(crate) messages: Vec<Message>,
    /// True if the mailbox has no room.
    pub(crate) is_full: bool,
    /// True if the packets of the phones get lost.
    pub(crate) is_cut: bool,
}

pub(crate) fn server_place() -> SocketAddr {
    ([192, 0, 2, 1], 5060).into()
}

pub(crate) fn flow_of(phone: SocketAddr) -> Flow {
    let flow =
        Flow { transport: Transport::Udp, local: server_place(), remote: phone, connection: None };
    flow.internal_to(Endpoint::MediaServer)
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            now: Instant::from_micros(1_700_000_000_000_000),
            server: MediaServer::new(config, Box::new(numbers(1))),
            phones: Vec::new(),
            ports: HashMap::new(),
            next_port: 20_000,
            messages: Vec::new(),
            is_full: false,
            is_cut: false,
        }
    }

    /// Adds a phone that calls the service of `route`, and sends a tone of `hertz`. Zero stands for
    /// silence.
    pub(crate) fn call(&mut self, route: &str, codec: Codec, hertz: f64) -> usize {
        let number = self.phones.len();
        let place: SocketAddr = ([192, 0, 2, 10 + number as u8], 5060).into();
        let mut random = numbers(10 + number as u64);
        let media = MediaConfig { codecs: vec![codec], ..MediaConfig::default() };
        let local = SocketAddr::new(place.ip(), 4000);
        let rate = codec.sample_rate();
        let mut phone = Phone {
            agent: Agent::new(sip_ua::Config::default(), &[number as u8 + 1; 32]),
            call: Call::new(Setup::new(media, local), &mut random),
            place,
            tone: (hertz > 0.0).then(|| Tone::new(hertz, rate, 8000)),
            heard: Vec::new(),
            rate,
            ended: None,
            transferred: None,
            news: None,
            random: Box::new(random),
            route: route.to_owned(),
        };
        let uri = format!("sip:service@{}", server_place());
        let Phone { agent, call, random, .. } = &mut phone;
        call.place(agent, self.now, None, &uri, random).expect("a URI");
        self.phones.push(phone);
        self.settle();
        number
    }

    /// Passes messages until all ends are silent.
    pub(crate) fn settle(&mut self) {
        let now = self.now;
        let mut is_done = false;
        while !is_done {
            is_done = true;
            for phone in &mut self.phones {
                let Phone { agent, call, random, place, route, ended, .. } = phone;
                while let Some(sent) = agent.poll_transmit() {
                    is_done = false;
                    let mut bytes = sent.bytes;
                    if bytes.starts_with(b"INVITE ") && !route.is_empty() {
                        let end = bytes.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
                        bytes.splice(end..end, format!("Route: {route}\r\n").into_bytes());
                    }
                    self.server.receive(now, &flow_of(*place), &bytes);
                }
                while let Some(event) = agent.poll_event() {
                    is_done = false;
                    match &event {
                        sip_ua::Event::TransferAsked { to, .. } => {
                            phone.transferred = Some(to.clone());
                        }
                        sip_ua::Event::Transfer { transfer, .. } => {
                            phone.news = Some(transfer.clone());
                        }
                        _ => {}
                    }
                    if let sip_ua::Event::Locate { ticket, .. } = event {
                        let remote = server_place();
                        let local = *place;
                        let local = Some(local);
                        let location = Location { transport: Transport::Udp, remote, local };
                        agent.located(now, ticket, &[location]);
                    } else if let Some(Change::Ended(end)) =
                        call.on_event(agent, now, &event, random)
                    {
                        *ended = Some(end);
                    }
                }
            }
            while let Some(sent) = self.server.poll_transmit() {
                is_done = false;
                let to = sent.flow.remote;
                if let Some(phone) = self.phones.iter_mut().find(|phone| phone.place == to) {
                    let flow = Flow {
                        transport: Transport::Udp,
                        local: to,
                        remote: server_place(),
                        connection: None,
                    };
                    phone.agent.receive(now, &flow, &sent.bytes);
                }
            }
            while let Some(event) = self.server.poll_event() {
                is_done = false;
                self.serve(event);
            }
        }
    }

    /// Carries out a request of the server.
    pub(crate) fn serve(&mut self, event: Event) {
        match event {
            Event::Open { call, local, deposit, .. } => {
                let opening = match deposit {
                    Some(_) if self.is_full => Opening::MailboxFull,
                    _ => {
                        self.next_port += 2;
                        self.ports.insert(call, self.next_port);
                        Opening::At(SocketAddr::new(local, self.next_port))
                    }
                };
                self.server.open(self.now, call, opening);
            }
            Event::Closed { call } => {
                self.ports.remove(&call).expect("an open port");
            }
            Event::Ask { call, mailbox, ask } => {
                assert_eq!(mailbox, "bob@example.com");
                let messages = &mut self.messages;
                let reply = match ask {
                    Ask::List => Reply::Listed(
                        messages
                            .iter()
                            .map(|it| Summary { id: it.id, is_heard: it.is_heard })
                            .collect(),
                    ),
                    Ask::Load(id) => {
                        let found = messages.iter().find(|message| message.id == id);
                        Reply::Loaded(found.map(|message| Arc::clone(&message.samples)))
                    }
                    Ask::Keep(recording) => {
                        let (id, caller) = (messages.len() as u64 + 1, recording.caller);
                        let samples = recording.samples.into();
                        messages.push(Message { id, is_heard: false, samples, caller });
                        Reply::Done(true)
                    }
                    Ask::Delete(id) => {
                        messages.retain(|message| message.id != id);
                        Reply::Done(true)
                    }
                    Ask::MarkHeard(id) => {
                        let mut messages = messages.iter_mut();
                        messages.find(|it| it.id == id).expect("a message").is_heard = true;
                        return;
                    }
                };
                self.server.reply(call, reply);
            }
            _ => {}
        }
    }

    /// Lets 20 ms pass: each end sends and plays sound.
    pub(crate) fn tick(&mut self) {
        self.now += FRAME;
        let now = self.now;
        let mut to_server = Vec::new();
        for phone in &mut self.phones {
            phone.agent.on_timer(now);
            let mut frame = Vec::new();
            if let Some(tone) = &mut phone.tone {
                tone.fill(phone.rate as usize / 50, &mut frame);
            }
            let Phone { agent, call, place, heard, .. } = phone;
            call.send(agent, now, &mut frame, &mut |channel, to, bytes| {
                to_server.push((place.ip(), channel, to, bytes.to_vec()));
            });
            call.play(now, heard);
        }
        for (ip, channel, to, mut bytes) in to_server {
            let port = if channel == Channel::Rtp { to.port() } else { to.port() & !1 };
            let call = self.ports.iter().find(|(_, known)| **known == port).map(|(call, _)| *call);
            let from = SocketAddr::new(ip, if channel == Channel::Rtp { 4000 } else { 4001 });
            if let Some(call) = call.filter(|_| !self.is_cut) {
                self.server.receive_media(now, call, channel, from, &mut bytes);
            }
        }
        self.server.on_timer(now);
        let mut to_phones = Vec::new();
        self.server.tick(now, &mut |call, channel, to, bytes| {
            to_phones.push((call, channel, to, bytes.to_vec()));
        });
        for (call, channel, to, mut bytes) in to_phones {
            let Some(port) = self.ports.get(&call) else { continue };
            let port = if channel == Channel::Rtp { *port } else { port + 1 };
            let from = SocketAddr::new(server_place().ip(), port);
            let phone = self.phones.iter_mut().find(|phone| phone.place.ip() == to.ip());
            if let Some(phone) = phone {
                phone.call.receive(channel, now, from, &mut bytes);
            }
        }
        self.settle();
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        (0..millis / 20).for_each(|_| self.tick());
    }

    /// The amplitude of a tone in the sound that a phone hears in the next second.
    pub(crate) fn hears(&mut self, phone: usize, hertz: &[f64]) -> Vec<f64> {
        self.phones[phone].heard.clear();
        self.pass(1000);
        let Phone { heard, rate, .. } = &self.phones[phone];
        hertz.iter().map(|hertz| amplitude_of(*hertz, *rate, heard)).collect()
    }

    pub(crate) fn press(&mut self, phone: usize, key: char) {
        let Phone { agent, call, .. } = &mut self.phones[phone];
        call.press(agent, self.now, key).expect("a call");
        self.pass(300);
    }

    /// Asks the server to transfer the other party of its slot.
    pub(crate) fn transfer(&mut self, phone: usize, uri: &str) {
        let Phone { agent, call, .. } = &mut self.phones[phone];
        agent.transfer(self.now, call.id().expect("a placed call"), uri).expect("a call");
        self.settle();
    }

    /// The phone refuses the transfer that the server asks for.
    pub(crate) fn refuse_transfer(&mut self, phone: usize, status: u16) {
        let Phone { agent, call, .. } = &mut self.phones[phone];
        let call = call.id().expect("a placed call");
        agent.refuse_transfer(self.now, call, status).expect("a request");
        self.settle();
    }

    /// The phone calls the service of `route`, as the server asks it to do.
    pub(crate) fn follow_transfer(&mut self, phone: usize, route: &str) {
        let Phone { agent, call, random, route: known, .. } = &mut self.phones[phone];
        *known = route.to_owned();
        let id = call.id().expect("a placed call");
        call.follow(agent, self.now, id, random).expect("a request");
        self.settle();
    }

    pub(crate) fn hang_up(&mut self, phone: usize) {
        let Phone { agent, call, .. } = &mut self.phones[phone];
        agent.hang_up(self.now, call.id().expect("a placed call")).expect("a call");
        self.settle();
    }

    /// The status of the refusal of a call.
    pub(crate) fn refusal(&self, phone: usize) -> Option<u16> {
        match &self.phones[phone].ended {
            Some(End::Failed(sip_ua::Failure::Refused { status, .. })) => Some(*status),
            _ => None,
        }
    }

    /// Asserts that nothing is left some time after the last call.
    pub(crate) fn assert_empty(&mut self) {
        for _ in 0..40 {
            self.now += Duration::from_secs(1);
            self.server.on_timer(self.now);
            self.phones.iter_mut().for_each(|phone| phone.agent.on_timer(self.now));
            self.settle();
        }
        assert_eq!(self.server.remains(), 0);
        assert_eq!(self.ports.len(), 0);
    }
}
