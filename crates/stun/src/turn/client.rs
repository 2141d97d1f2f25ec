//! The client of one TURN server.

use super::credentials::Credentials;
use super::frame;
use super::grant::{Grant, Proof, Request, Subject};
use super::{Error, Random, SendError, attribute_type as turn_at, method};
use crate::message::{Class, Message, TransactionId, attribute_type as at};
use crate::retransmission::{Due, Retransmission};
use crate::{WriteError, Writer};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// The interval of requests that keep a permission, which lasts 300 s, or a channel and its
/// permission (RFC 8656 section 9 and 12).
const RENEWAL: Duration = Duration::from_secs(240);
/// The lifetime of an allocation if the server does not name it (RFC 8656 section 3.2).
const LIFETIME: u32 = 600;
/// An allocation is refreshed so long before its end, but not more often than once in
/// [`LEAST_RENEWAL`].
const BEFORE_END: Duration = Duration::from_secs(60);
const LEAST_RENEWAL: Duration = Duration::from_secs(5);
/// The maximum number of challenges of the server to one request.
const MAX_CHALLENGES: u8 = 3;
/// The maximum number of permissions, and of channels.
const MAX_PEERS: usize = 64;
/// The number of the first channel (RFC 8656 section 12).
const FIRST_CHANNEL: u16 = 0x4000;
/// The maximum number of characters of a reason phrase.
const REASON: usize = 64;

/// The comprehension-required attributes that a response may have.
const KNOWN: &[u16] = &[
    at::USERNAME,
    at::MESSAGE_INTEGRITY,
    at::ERROR_CODE,
    at::UNKNOWN_ATTRIBUTES,
    at::REALM,
    at::NONCE,
    at::MESSAGE_INTEGRITY_SHA256,
    at::PASSWORD_ALGORITHM,
    at::XOR_MAPPED_ADDRESS,
    at::MAPPED_ADDRESS,
    turn_at::CHANNEL_NUMBER,
    turn_at::LIFETIME,
    turn_at::XOR_PEER_ADDRESS,
    turn_at::XOR_RELAYED_ADDRESS,
];

/// The transport from a client to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// A stream: TCP, or TLS over it.
    Stream,
}

/// An output of [`Client::poll`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Send these octets to the server.
    Send(Vec<u8>),
    /// The server relays at this address.
    Allocated(SocketAddr),
    /// The server does not relay, or no longer at the address that it had.
    Failed(Error, Option<SocketAddr>),
}

/// The effect of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// It is not of TURN, or not for this client.
    Ignored,
    /// It was a message of the server itself.
    Handled,
    /// A peer has sent this datagram.
    Data(SocketAddr, &'a [u8]),
}

/// The client of one TURN server, which allocates one relayed address, and keeps it.
///
/// The owner calls [`Client::poll`] until it returns `None` after each input, and at
/// [`Client::next_timer`].
pub struct Client {
    credentials: Credentials,
    transport: Transport,
    is_ipv6: bool,
    random: Random,
    proof: Option<Proof>,
    relayed: Option<SocketAddr>,
    /// The first one is the allocation.
    grants: Vec<Grant>,
    /// The octets of a stream after its last whole message.
    input: Vec<u8>,
    events: VecDeque<Event>,
}

impl Client {
    /// A client that has not begun. The address family is that of the relayed address and of all
    /// peers.
    #[must_use]
    pub fn new(
        credentials: Credentials,
        transport: Transport,
        is_ipv6: bool,
        random: Random,
    ) -> Self {
        Self {
            credentials,
            transport,
            is_ipv6,
            random,
            proof: None,
            relayed: None,
            grants: Vec::from([Grant::new(Subject::Allocation, None)]),
            input: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// Requests a relayed address. On a stream it has to be connected.
    pub fn begin(&mut self, now: Duration) {
        if let Some(allocation) = self.grants.first_mut() {
            allocation.renewal = allocation.renewal.or(Some(now));
        }
    }

    /// The relayed address.
    #[must_use]
    pub const fn relayed(&self) -> Option<SocketAddr> {
        self.relayed
    }

    /// Returns true if there is no relayed address yet, but may be one later.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.relayed.is_none() && !self.grants.is_empty()
    }

    /// The time of the next call of [`Client::poll`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Duration> {
        self.due().filter_map(Grant::next).min()
    }

    /// The grants that can be requested: until there is an allocation, that one.
    fn due(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter().take(if self.relayed.is_some() { usize::MAX } else { 1 })
    }

    /// Lets a peer send through the relay, from any port.
    pub fn permit(&mut self, now: Duration, peer: IpAddr) {
        let subject = Subject::Permission(peer);
        if !self.has(&subject) && self.may_add(peer, |it| matches!(it, Subject::Permission(_))) {
            self.grants.push(Grant::new(subject, Some(now)));
        }
    }

    /// Uses the short header of a channel to and from `peer`.
    pub fn bind(&mut self, now: Duration, peer: SocketAddr) {
        let is_channel = |it: &Subject| matches!(it, Subject::Channel(..));
        let is_bound = self.channel_to(peer).is_some();
        if !is_bound && self.may_add(peer.ip(), is_channel) {
            // Numbers are not used again: the server would refuse them for minutes.
            let number = FIRST_CHANNEL + self.count(is_channel) as u16;
            self.grants.push(Grant::new(Subject::Channel(number, peer), Some(now)));
        }
    }

    fn has(&self, subject: &Subject) -> bool {
        self.grants.iter().any(|grant| grant.subject == *subject)
    }

    fn count(&self, is_kind: impl Fn(&Subject) -> bool) -> usize {
        self.grants.iter().filter(|grant| is_kind(&grant.subject)).count()
    }

    fn may_add(&self, peer: IpAddr, is_kind: impl Fn(&Subject) -> bool) -> bool {
        let has_ended = self.grants.is_empty();
        !has_ended && peer.is_ipv6() == self.is_ipv6 && self.count(is_kind) < MAX_PEERS
    }

    fn channel_to(&self, peer: SocketAddr) -> Option<(&Grant, u16)> {
        self.grants.iter().find_map(|grant| match grant.subject {
            Subject::Channel(number, to) if to == peer => Some((grant, number)),
            _ => None,
        })
    }

    fn is_permitted(&self, peer: IpAddr) -> bool {
        let subject = Subject::Permission(peer);
        self.grants.iter().any(|grant| grant.subject == subject && grant.is_valid)
    }

    /// Writes a datagram for a peer into `out`, for the server.
    ///
    /// # Errors
    /// The server has not permitted the peer (yet), or the datagram is too long.
    pub fn send(&self, peer: SocketAddr, data: &[u8], out: &mut Vec<u8>) -> Result<(), SendError> {
        if let Some((_, number)) = self.channel_to(peer).filter(|(grant, _)| grant.is_valid) {
            let is_on_stream = self.transport == Transport::Stream;
            return Ok(frame::write_channel_data(number, data, is_on_stream, out)?);
        }
        if !self.is_permitted(peer.ip()) {
            return Err(SendError::NotPermitted);
        }
        let mut id = [0; 12];
        (self.random)(&mut id);
        let mut writer = Writer::new(Class::Indication, method::SEND, TransactionId(id), out);
        writer.xor_address(turn_at::XOR_PEER_ADDRESS, peer)?;
        Ok(writer.attribute(turn_at::DATA, data)?)
    }

    /// Handles a datagram of the server.
    pub fn receive<'a>(&mut self, now: Duration, datagram: &'a [u8]) -> Received<'a> {
        if let Some((number, data)) = frame::channel_data(datagram) {
            let peer = self.grants.iter().find_map(|grant| match grant.subject {
                Subject::Channel(it, peer) if it == number => Some(peer),
                _ => None,
            });
            return peer.map_or(Received::Ignored, |peer| Received::Data(peer, data));
        }
        let Ok(message) = Message::parse(datagram) else { return Received::Ignored };
        match message.class {
            Class::Indication if message.method == method::DATA => {
                let peer = message.xor_address(turn_at::XOR_PEER_ADDRESS);
                let data = message.value(turn_at::DATA);
                match peer.zip(data).filter(|(peer, _)| self.is_permitted(peer.ip())) {
                    Some((peer, data)) => Received::Data(peer, data),
                    None => Received::Handled,
                }
            }
            Class::Success | Class::Error => {
                let answers = |grant: &Grant| {
                    let request = grant.request.as_ref();
                    request.is_some_and(|it| it.id == message.id && it.method == message.method)
                };
                let Some(index) = self.grants.iter().position(answers) else {
                    return Received::Ignored;
                };
                match message.class {
                    Class::Error => self.on_error(now, index, &message),
                    _ => self.on_success(now, index, &message),
                }
                Received::Handled
            }
            _ => Received::Ignored,
        }
    }

    /// Handles octets of a stream. `each` gets the datagrams of peers.
    pub fn receive_stream(
        &mut self,
        now: Duration,
        bytes: &[u8],
        mut each: impl FnMut(SocketAddr, &[u8]),
    ) {
        let mut input = core::mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let mut rest = &input[..];
        loop {
            match frame::length(rest) {
                Ok(Some(length)) if length <= rest.len() => {
                    let (message, after) = rest.split_at(length);
                    rest = after;
                    if let Received::Data(peer, data) = self.receive(now, message) {
                        each(peer, data);
                    }
                }
                Ok(_) => break,
                Err(frame::NotTurn) => return self.fail(Error::Malformed),
            }
        }
        let used = input.len() - rest.len();
        input.drain(..used);
        self.input = input;
    }

    /// The connection to the server was not established, or has ended, for this reason.
    pub fn disconnected(&mut self, cause: String) {
        self.fail(Error::Disconnected(cause));
    }

    /// Gives the relayed address back.
    pub fn close(&mut self) {
        let (mut id, mut bytes) = ([0; 12], Vec::new());
        (self.random)(&mut id);
        let mut writer =
            Writer::new(Class::Request, method::REFRESH, TransactionId(id), &mut bytes);
        let is_written = writer.attribute(turn_at::LIFETIME, &[0; 4]).is_ok()
            && self
                .proof
                .as_ref()
                .is_none_or(|proof| proof.sign(&self.credentials.user, &mut writer).is_ok());
        if self.relayed.take().is_some() && is_written {
            self.events.push_back(Event::Send(bytes));
        }
        self.grants.clear();
    }

    /// The next output at `now`.
    pub fn poll(&mut self, now: Duration) -> Option<Event> {
        if self.events.is_empty() {
            self.request_due(now);
        }
        self.events.pop_front()
    }

    /// Sends due requests.
    fn request_due(&mut self, now: Duration) {
        for index in 0..self.due().count() {
            let Some(grant) = self.grants.get(index) else { return };
            if grant.request.is_none() && grant.renewal.is_some_and(|renewal| renewal <= now) {
                self.request(now, index);
            }
            let Some(request) = self.grants.get_mut(index).and_then(|grant| grant.request.as_mut())
            else {
                continue;
            };
            match request.schedule.poll(now) {
                Due::Send => self.events.push_back(Event::Send(request.bytes.clone())),
                Due::Wait => {}
                Due::TimedOut => self.on_silence(now, index),
            }
        }
    }

    /// Makes the request for a grant.
    fn request(&mut self, now: Duration, index: usize) {
        let mut id = TransactionId([0; 12]);
        (self.random)(&mut id.0);
        let (grant, mut bytes) = (&mut self.grants[index], Vec::new());
        let signature = (&*self.credentials.user, self.proof.as_ref());
        match grant.write(id, self.is_ipv6, signature, &mut bytes) {
            Ok(()) => {
                let (method, is_signed) = (grant.method(), self.proof.is_some());
                let schedule = Retransmission::new(now, self.transport == Transport::Stream);
                grant.request = Some(Request { id, method, is_signed, bytes, schedule });
            }
            Err(WriteError::TooLong) => self.fail(Error::TooLong),
        }
    }

    /// The server has not answered a request.
    fn on_silence(&mut self, now: Duration, index: usize) {
        if index == 0 {
            return self.fail(match self.relayed {
                Some(_) => Error::Expired,
                None => Error::TimedOut,
            });
        }
        let grant = &mut self.grants[index];
        (grant.is_valid, grant.request, grant.renewal) = (false, None, Some(now));
    }

    fn on_success(&mut self, now: Duration, index: usize, response: &Message<'_>) {
        // Another response may come: the request goes on (RFC 8489 section 9.2.5). A success
        // without a challenge before it proves nothing: a TURN server asks for credentials.
        if self.proof.as_ref().is_none_or(|proof| !response.has_integrity(&proof.key)) {
            return;
        }
        let is_understood = response.unknown_attributes(KNOWN).next().is_none();
        let mut renewal = RENEWAL;
        if index == 0 {
            if self.relayed.is_none() {
                let relayed = response.xor_address(turn_at::XOR_RELAYED_ADDRESS);
                let is_usable = |it: &SocketAddr| it.is_ipv6() == self.is_ipv6 && it.port() != 0;
                let Some(relayed) = relayed.filter(is_usable).filter(|_| is_understood) else {
                    return self.fail(Error::Malformed);
                };
                self.relayed = Some(relayed);
                self.events.push_back(Event::Allocated(relayed));
            }
            let value = response.value(turn_at::LIFETIME).and_then(|it| it.try_into().ok());
            let lifetime = value.map_or(LIFETIME, u32::from_be_bytes);
            let lifetime = Duration::from_secs(lifetime.into());
            renewal = lifetime.saturating_sub(BEFORE_END).max(lifetime / 2).max(LEAST_RENEWAL);
        }
        let grant = &mut self.grants[index];
        (grant.request, grant.challenges) = (None, 0);
        (grant.is_valid, grant.renewal) = (is_understood, Some(now + renewal));
    }

    fn on_error(&mut self, now: Duration, index: usize, response: &Message<'_>) {
        let Some(error) = response.error() else { return };
        let grant = &mut self.grants[index];
        let is_signed = grant.request.as_ref().is_some_and(|request| request.is_signed);
        let challenge = response.value(at::REALM).zip(response.value(at::NONCE));
        let may_repeat = match error.code {
            401 => !is_signed,
            438 => grant.challenges < MAX_CHALLENGES,
            _ => false,
        };
        if let Some((realm, nonce)) = challenge.filter(|_| may_repeat) {
            grant.challenges += 1;
            self.proof = Some(Proof::new(&self.credentials, realm, nonce));
            return self.request(now, index);
        }
        match (self.relayed, error.code) {
            (None, code) => {
                let reason = error.reason.chars().filter(|it| !it.is_control());
                self.fail(Error::Refused { code, reason: reason.take(REASON).collect() });
            }
            // The server does not know the allocation.
            (Some(_), 437) => self.fail(Error::Expired),
            (Some(_), _) if index == 0 => self.fail(Error::Expired),
            (Some(_), _) => (grant.is_valid, grant.request, grant.renewal) = (false, None, None),
        }
    }

    /// The server is of no further use.
    fn fail(&mut self, error: Error) {
        if !self.grants.is_empty() {
            self.grants.clear();
            self.events.push_back(Event::Failed(error, self.relayed.take()));
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("user", &self.credentials.user)
            .field("transport", &self.transport)
            .field("relayed", &self.relayed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
