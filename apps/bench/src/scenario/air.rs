//! The media of all calls: one socket, from which recordings are sent.

use super::fault::ScenarioError;
use super::recording::{Position, Recording};
use super::world::{MediaCommand, MediaOrder};
use net::{BATCH, Inbox, Options, Outbox, Outgoing, Socket};
use serde::{Deserialize, Serialize};
use sip::Instant;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

/// The longest received packet.
const LONGEST: usize = 2048;

/// The counts of media packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MediaCounts {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Received packets that were sent back.
    pub(crate) echoed: u64,
    /// Recordings that were not sent, since the peer had named no address.
    pub(crate) unaddressed: u64,
}

impl MediaCounts {
    /// Adds the counts of another worker.
    pub(super) fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.received += other.received;
        self.echoed += other.echoed;
        self.unaddressed += other.unaddressed;
    }
}

/// The media of all calls.
pub(super) struct Air {
    socket: Socket,
    inbox: Inbox,
    outbox: Outbox,
    /// The recordings in progress, by their number; and those of each call.
    players: HashMap<u64, Player>,
    by_call: HashMap<u64, Vec<u64>>,
    due: BinaryHeap<Reverse<(Instant, u64)>>,
    number: u64,
    echoes: bool,
    rng: fastrand::Rng,
    pub(super) counts: MediaCounts,
}

struct Player {
    recording: Arc<Recording>,
    rounds: Option<u32>,
    position: Position,
    start: Instant,
    to: SocketAddr,
    paused: Option<Instant>,
}

impl Air {
    /// Binds the socket to `address`; without a port to a free even one.
    ///
    /// # Errors
    /// [`ScenarioError`] if the address cannot be bound.
    pub(super) fn open(
        address: SocketAddr,
        echoes: bool,
        seed: u64,
    ) -> Result<Self, ScenarioError> {
        let wrong = |error| ScenarioError::Socket(address.to_string(), error);
        let options = Options { receive_buffer: 4 << 20, ..Options::default() };
        let mut socket = Socket::bind(address, options).map_err(wrong)?;
        // An odd port is kept until an even one is found, so that it is not found again.
        let mut odd = Vec::new();
        while address.port() == 0 && !socket.address().port().is_multiple_of(2) && odd.len() < 64 {
            let next = Socket::bind(address, options).map_err(wrong)?;
            odd.push(std::mem::replace(&mut socket, next));
        }
        Ok(Self {
            socket,
            inbox: Inbox::new(BATCH, LONGEST),
            outbox: Outbox::default(),
            players: HashMap::new(),
            by_call: HashMap::new(),
            due: BinaryHeap::new(),
            number: 0,
            echoes,
            rng: fastrand::Rng::with_seed(seed),
            counts: MediaCounts::default(),
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.socket.address()
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Executes the commands of a call.
    pub(super) fn command(&mut self, command: MediaCommand, now: Instant) {
        let MediaCommand { call, order } = command;
        match order {
            MediaOrder::Play { recording, rounds, to: Some(to) } => {
                self.number += 1;
                let position = Position::new(&mut self.rng);
                let player = Player { recording, rounds, position, start: now, to, paused: None };
                self.by_call.entry(call).or_default().push(self.number);
                self.players.insert(self.number, player);
                self.due.push(Reverse((now, self.number)));
            }
            MediaOrder::Play { to: None, .. } => self.counts.unaddressed += 1,
            MediaOrder::Pause => {
                for number in self.by_call.get(&call).into_iter().flatten() {
                    if let Some(player) = self.players.get_mut(number) {
                        player.paused.get_or_insert(now);
                    }
                }
            }
            MediaOrder::Resume => {
                for number in self.by_call.get(&call).into_iter().flatten() {
                    if let Some(player) = self.players.get_mut(number)
                        && let Some(paused) = player.paused.take()
                    {
                        player.start += now.since(paused);
                        self.due.push(Reverse((now, *number)));
                    }
                }
            }
            MediaOrder::Stop => {
                for number in self.by_call.remove(&call).into_iter().flatten() {
                    self.players.remove(&number);
                }
            }
        }
    }

    /// Sends the packets that are due, and returns the time of the next one.
    pub(super) fn send(&mut self, now: Instant) -> Option<Instant> {
        let Self { socket, outbox, players, due, counts, .. } = self;
        let mut packets = Vec::new();
        let next = loop {
            let Some(&Reverse((at, number))) = due.peek() else { break None };
            if at > now {
                break Some(at);
            }
            due.pop();
            let Some(player) = players.get_mut(&number) else { continue };
            if player.paused.is_some() {
                continue;
            }
            let Player { recording, rounds, position, start, to, .. } = player;
            while let Some(at) = position.next_at(recording, *rounds).map(|at| *start + at) {
                if at > now {
                    due.push(Reverse((at, number)));
                    break;
                }
                packets.extend(position.take(recording).map(|bytes| (*to, bytes)));
            }
            if position.next_at(recording, *rounds).is_none() {
                players.remove(&number);
            }
        };
        counts.sent += packets.len() as u64;
        send_all(socket, outbox, &packets);
        next
    }

    /// Receives packets, and sends them back if the options say so.
    pub(super) fn receive(&mut self) {
        let Self { socket, inbox, outbox, counts, echoes, .. } = self;
        let mut back = Vec::new();
        let received = inbox.receive(socket, |packet| {
            counts.received += 1;
            if *echoes {
                back.push((packet.remote, packet.bytes.to_vec()));
            }
        });
        // An error of the socket shows as missing packets.
        let _ = received;
        counts.echoed += back.len() as u64;
        send_all(socket, outbox, &back);
    }
}

/// Sends packets to their addresses; a packet that cannot be sent is lost.
fn send_all(socket: &Socket, outbox: &mut Outbox, packets: &[(SocketAddr, Vec<u8>)]) {
    let local = socket.address().ip();
    let datagrams = packets.iter().map(|(to, bytes)| Outgoing { remote: Some(*to), local, bytes });
    outbox.send(socket, datagrams, |_| {});
}
