//! One key agreement, as a state machine.

mod receive;
mod repeat;
#[cfg(test)]
mod tests;

use crate::agreement::KeyPair;
use crate::algorithm::{Preferences, Suite};
use crate::cache::{Cache, Retained, Update, Zid};
use crate::crypto::{HashChain, Random};
use crate::error::Failure;
use crate::event::{Continuity, Event};
use crate::hello_hash::{HelloHash, VERSION};
use crate::keys::{Keys, Role};
use crate::message::{self, Message};
use crate::packet::{frame, unframe};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use repeat::Repeat;
use zeroize::Zeroizing;

/// The longest wait of a responder for the next message of the initiator, which repeats each of
/// its messages for 10.6 s.
const PATIENCE: Duration = Duration::from_secs(15);
/// The most answers to repetitions of one message.
const ANSWERS: u32 = 40;
/// The most packets that wait for the owner.
const WAITING: usize = 16;
/// The lifetime of retained secrets without an end (RFC 6189 section 4.9).
const FOR_EVER: u32 = u32::MAX;

/// The settings of an association.
#[derive(Clone)]
pub struct Config {
    /// The ZID of this end: random once, and the same in all calls.
    pub zid: Zid,
    /// Random bytes, from which the secrets of the association are derived. They must not be used
    /// twice.
    pub seed: [u8; 32],
    /// The SSRC of the stream of RTP that is sent.
    pub ssrc: u32,
    /// The name of the program in the Hello message.
    pub client: [u8; 16],
    /// The algorithms.
    pub preferences: Preferences,
    /// The peer is known to have ZRTP, by an earlier call. A description with `a=zrtp-hash` says
    /// so, too: see [`Association::expect`].
    pub is_expected: bool,
    /// The time for which secrets are retained, in seconds; `None` if they do not expire, zero if
    /// they are not.
    pub lifetime: Option<u32>,
}

impl Config {
    /// The default settings: all algorithms, secrets that do not expire.
    #[must_use]
    pub fn new(zid: Zid, seed: [u8; 32], ssrc: u32) -> Self {
        Self {
            zid,
            seed,
            ssrc,
            client: *b"Barebell        ",
            preferences: Preferences::default(),
            is_expected: false,
            lifetime: None,
        }
    }

    /// The hash of the Hello message of an association with these settings, for the description.
    #[must_use]
    pub fn hello_hash(&self) -> HelloHash {
        let mut random = Random::new(self.seed);
        HelloHash::of(&self.hello(&HashChain::new(*random.bytes())))
    }

    fn hello(&self, chain: &HashChain) -> Vec<u8> {
        message::hello(VERSION, self.client, self.zid, &self.preferences, &chain.0)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("zid", &self.zid).finish_non_exhaustive()
    }
}

/// The agreement on the keys of one stream.
///
/// Neither end has a role before: both send Hello messages, and the one whose Commit message
/// prevails is the initiator. The owner passes the received ZRTP packets
/// ([`is_zrtp`](crate::is_zrtp)) and the time, which is a duration since any start. After each call
/// it sends all packets of [`Association::poll_transmit`] and handles all events of
/// [`Association::poll_event`].
///
/// Packets that do not belong to the agreement are ignored: they neither cost an exponentiation
/// nor end it. Error messages are an exception, because they cannot be authentic: before the keys
/// are there, one of them ends the agreement.
pub struct Association {
    config: Config,
    chain: HashChain,
    random: Random,
    hello: Vec<u8>,
    expected: Option<HelloHash>,
    peer: Option<Peer>,
    state: State,
    repeat: Option<Repeat>,
    /// The end of the wait for a message of the initiator, or for the peer's first Hello.
    deadline: Option<Duration>,
    reply: Option<Reply>,
    /// The failure that is reported instead of a timeout.
    suspicion: Option<Failure>,
    sequence_number: u16,
    packets: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
}

/// The peer, by its first Hello message.
struct Peer {
    hello: Vec<u8>,
    h3: [u8; 32],
    zid: Zid,
    client: [u8; 16],
    /// The best algorithms that both ends have.
    suite: Suite,
    retained: Option<Retained>,
}

/// The answer to a message, for the case that it is repeated.
struct Reply {
    request: Vec<u8>,
    response: Vec<u8>,
    left: u32,
}

enum State {
    /// Hello messages are exchanged.
    Discovery { is_acknowledged: bool },
    /// The initiator repeats Commit until DHPart1.
    Committed(Box<Commitment>),
    /// The responder has sent DHPart1 and waits for DHPart2.
    Answered(Box<Answer>),
    /// The initiator repeats DHPart2 until Confirm1; the responder has sent Confirm1 and waits for
    /// Confirm2.
    Confirming(Box<Agreement>),
    /// The initiator repeats Confirm2 until Conf2ACK.
    Acknowledging(Box<Secured>),
    /// Both ends have confirmed the keys.
    Secure(Box<Secured>),
    /// There are no keys.
    Failed,
}

struct Commitment {
    suite: Suite,
    pair: KeyPair,
    hvi: [u8; 32],
    commit: Vec<u8>,
    part2: Vec<u8>,
}

struct Answer {
    suite: Suite,
    pair: KeyPair,
    h2: [u8; 32],
    hvi: [u8; 32],
    commit: Vec<u8>,
    part1: Vec<u8>,
}

struct Agreement {
    role: Role,
    keys: Keys,
    /// The DHPart message of the peer, and H1 in it.
    part: Vec<u8>,
    h1: [u8; 32],
    continuity: Continuity,
}

/// The state after the keys: what the cache is to hold.
struct Secured {
    role: Role,
    keys: Keys,
    continuity: Continuity,
    is_verified: bool,
    /// The time for which both ends retain the secret, in seconds.
    lifetime: u32,
}

impl Association {
    /// Begins an agreement: the first Hello message is ready to be sent.
    #[must_use]
    pub fn new(config: Config, now: Duration) -> Self {
        let mut random = Random::new(config.seed);
        let chain = HashChain::new(*random.bytes());
        let hello = config.hello(&chain);
        let mut association = Self {
            repeat: Some(Repeat::hello(hello.clone(), now)),
            config,
            chain,
            random,
            hello,
            expected: None,
            peer: None,
            state: State::Discovery { is_acknowledged: false },
            deadline: None,
            reply: None,
            suspicion: None,
            sequence_number: 0,
            packets: VecDeque::new(),
            events: VecDeque::new(),
        };
        association.handle_timeout(now);
        association
    }

    /// Sets the hash of the peer's Hello message, from its description. Another Hello is ignored.
    pub fn expect(&mut self, hash: HelloHash) {
        self.expected = Some(hash);
        if self.peer.as_ref().is_some_and(|peer| !hash.is_of(&peer.hello)) {
            self.fail(Failure::HelloHash, Duration::ZERO);
        }
    }

    /// Handles a received packet. The cache is read for the secrets of the peer, once.
    pub fn handle(&mut self, now: Duration, datagram: &[u8], cache: &Cache) {
        let Some((ssrc, bytes)) = unframe(datagram) else { return };
        if let Some(reply) = self.reply.as_mut().filter(|reply| reply.request == bytes) {
            if reply.left > 0 {
                reply.left -= 1;
                let response = reply.response.clone();
                self.send(&response);
            }
            return;
        }
        let Some(message) = Message::parse(bytes) else { return };
        if let Err(failure) = self.receive(now, ssrc, message, bytes, cache) {
            self.fail(failure, now);
        }
    }

    /// The peer has sent a packet of SRTP that is authentic by the key of [`Event::Keyed`]: it has
    /// the Confirm2 message, whose acknowledgement may be lost.
    pub fn srtp_received(&mut self) {
        if let State::Acknowledging(_) = self.state {
            self.acknowledge();
        }
    }

    /// The user says that the short authentication string is the same at both ends, or not.
    pub fn set_verified(&mut self, is_verified: bool) {
        if let State::Acknowledging(secured) | State::Secure(secured) = &mut self.state {
            secured.is_verified = is_verified;
        }
        self.update();
    }

    /// The next packet to send.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.packets.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The time of the next call of [`Association::handle_timeout`].
    #[must_use]
    pub fn next_timeout(&self) -> Option<Duration> {
        let repeat = self.repeat.as_ref().map(Repeat::due);
        [repeat, self.deadline].into_iter().flatten().min()
    }

    /// Repeats a message that was not answered, or gives up. To be called when due.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.expire(now);
        }
        let Some(repeat) = self.repeat.as_mut().filter(|repeat| repeat.due() <= now) else {
            return;
        };
        match repeat.next(now) {
            Some(message) => self.send(&message),
            None => self.expire(now),
        }
    }

    /// The peer does not answer.
    fn expire(&mut self, now: Duration) {
        (self.repeat, self.deadline) = (None, None);
        match self.state {
            State::Discovery { .. } if self.suspicion.is_none() => {
                let is_expected = self.config.is_expected || self.expected.is_some();
                self.events.push_back(Event::Silent { is_expected });
            }
            State::Failed => {}
            _ => self.fail(self.suspicion.unwrap_or(Failure::Timeout), now),
        }
    }

    /// Ends the agreement. The peer is told, until it acknowledges.
    fn fail(&mut self, failure: Failure, now: Duration) {
        if let State::Failed = self.state {
            return;
        }
        (self.repeat, self.deadline, self.reply) = (None, None, None);
        self.state = State::Failed;
        self.events.push_back(Event::Failed(failure));
        if let Some(code) = failure.code() {
            let error = message::write(b"Error   ", &[&code.0.to_be_bytes()]);
            self.repeat_message(error, now);
        }
    }

    /// Sends a message of the initiator, or an Error message, until it is answered.
    fn repeat_message(&mut self, message: Vec<u8>, now: Duration) {
        self.repeat = Some(Repeat::message(message, now));
        self.handle_timeout(now);
    }

    /// Sends a message once.
    fn send(&mut self, message: &[u8]) {
        if self.packets.len() < WAITING {
            self.packets.push_back(frame(message, self.sequence_number, self.config.ssrc));
            self.sequence_number = self.sequence_number.wrapping_add(1);
        }
    }

    /// The responder answers a message, and each repetition of it.
    fn answer(&mut self, request: &[u8], response: Vec<u8>) {
        self.send(&response);
        self.reply = Some(Reply { request: request.to_vec(), response, left: ANSWERS });
    }

    /// The peer has the Confirm2 message.
    fn acknowledge(&mut self) {
        match core::mem::replace(&mut self.state, State::Failed) {
            State::Acknowledging(secured) => {
                self.state = State::Secure(secured);
                self.repeat = None;
                self.update();
            }
            state => self.state = state,
        }
    }

    /// Has the owner store the secret, once both ends have it. After a broken continuity that
    /// waits for the user (RFC 6189 section 4.6.1.1).
    fn update(&mut self) {
        let (State::Secure(secured), Some(peer)) = (&self.state, &self.peer) else { return };
        let may = secured.continuity != Continuity::Broken || secured.is_verified;
        if !may || secured.lifetime == 0 {
            return;
        }
        let retained = Retained {
            rs1: secured.keys.retained.clone(),
            rs2: peer.retained.as_ref().map(|it| Zeroizing::clone(&it.rs1)),
            is_verified: secured.is_verified,
        };
        let lifetime = (secured.lifetime != FOR_EVER)
            .then(|| Duration::from_secs(u64::from(secured.lifetime)));
        self.events.push_back(Event::Update(Update { peer: peer.zid, retained, lifetime }));
    }
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Discovery { .. } => "Discovery",
            State::Committed(_) => "Committed",
            State::Answered(_) => "Answered",
            State::Confirming(_) => "Confirming",
            State::Acknowledging(_) => "Acknowledging",
            State::Secure(_) => "Secure",
            State::Failed => "Failed",
        };
        f.debug_struct("Association").field("state", &state).finish_non_exhaustive()
    }
}
