//! The ports of the media relay, and its packets.
//!
//! Each stream belongs to one worker, which relays its packets on its loop; both legs of a stream
//! have the same one.

mod expiry;
mod handshake;
mod handshakes;
mod ng;
mod own_ports;
mod packets;
mod sockets;
#[cfg(test)]
mod tests;
mod token;

pub(super) use expiry::Expiry;
pub(super) use ng::{Ng, NgThread};
pub(super) use own_ports::OwnPorts;

use crate::failure::{Failure, during};
use crate::log;
use dtls::Identity;
use handshake::Handshake;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use parking_lot::{Mutex, RawMutex};
use relay::{Channel, Host, NoPort, Pairs, PortRange, Ports, Side, Stream};
use sdp::dtls::Fingerprint;
use sip::Instant;
use sockets::Pair;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use token::Token;

/// The relay of this program.
pub(crate) type Relay = relay::Relay<RawMutex, Media>;

/// The ports that are tried for a leg, while other programs use them.
const ATTEMPTS: usize = 16;

/// The sockets of all relayed streams, for the relays that share the ports.
#[derive(Clone)]
pub(crate) struct Media(Arc<Sockets>);

struct Sockets {
    pairs: Pairs<RawMutex>,
    /// The leg of each pair of ports in use. An event of a pair that has just been closed finds no
    /// leg, or another one without a packet.
    legs: Box<[Mutex<Option<Leg>>]>,
    /// The epoll instance of each worker.
    sets: Box<[Epoll]>,
    /// The certificate for handshakes with browsers.
    identity: Identity,
    /// The handshakes of all legs. Each worker that is active advances them: the worker that
    /// receives the packets of a leg may leave its sources to another one meanwhile.
    handshakes: Mutex<DueHandshakes>,
    /// Counts opened streams, to divide them between the workers.
    opened: AtomicUsize,
    /// Counts packets that the system did not send, and those longer than the buffer.
    unsent: AtomicU64,
    /// Counts packets that arrived, and those sent on.
    received: AtomicU64,
    sent: AtomicU64,
}

/// The times of handshakes and their pairs of ports, the earliest first.
type DueHandshakes = BTreeSet<(std::time::Instant, usize)>;

/// One leg of a stream.
struct Leg {
    stream: Arc<Stream<RawMutex>>,
    side: Side,
    /// The sockets of both sides, the caller's first.
    sockets: Arc<[Pair; 2]>,
    /// The handshake of the end.
    handshake: Option<Box<Handshake>>,
    /// The time at which a worker advances the handshake, among those in `Sockets`.
    scheduled: Option<std::time::Instant>,
}

impl Media {
    /// The ports of `range`, at most `pairs` pairs at a time, for `workers`.
    ///
    /// # Errors
    /// [`Failure`] if the system gives no epoll instance, no random bytes or no certificate.
    pub(crate) fn new(range: PortRange, pairs: usize, workers: usize) -> Result<Self, Failure> {
        let random = getrandom::u32().map_err(during("cannot choose ports for media"))?;
        let identity = Identity::generate().map_err(during("cannot encrypt media"))?;
        let set = |_| Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
        let sets = (0..workers.max(1)).map(set).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Sockets {
            pairs: Pairs::new(range, pairs, random as usize),
            legs: (0..range.pairs()).map(|_| Mutex::default()).collect(),
            sets,
            identity,
            handshakes: Mutex::default(),
            opened: AtomicUsize::new(0),
            unsent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        })))
    }

    /// The number of workers that own streams.
    pub(super) fn owners(&self) -> usize {
        self.0.sets.len()
    }

    /// A descriptor that is readable when packets for the streams of the worker `owner` wait.
    pub(super) fn as_fd(&self, owner: usize) -> BorrowedFd<'_> {
        self.0.sets[owner].0.as_fd()
    }

    /// Sends `packet` from the port `from` of RTP, unless its stream has ended.
    pub(super) fn send(&self, from: u16, packet: &[u8], to: SocketAddr) {
        let leg = self.0.pairs.extent().0.pair_of(from).and_then(|pair| self.0.legs.get(pair));
        let Some(leg) = leg.map(Mutex::lock) else { return };
        let Some(Leg { side, sockets, .. }) = &*leg else { return };
        let counter = match sockets[side.index()][0].send(packet, to) {
            Ok(_) => &self.0.sent,
            Err(_) => &self.0.unsent,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a pair of ports for this server itself, bound at `local`.
    ///
    /// # Errors
    /// No port is free.
    pub(super) fn own_ports(&self, local: IpAddr) -> Result<OwnPorts, NoPort> {
        let BoundPair { sockets, pair } = self.0.bind(local)?;
        let rtp = self.0.pairs.port(pair.index);
        Ok(OwnPorts::new(sockets, rtp, Box::new(pair)))
    }

    /// The number of packets that were not sent: the system refused them, or they were longer than
    /// the buffer.
    pub(super) fn unsent(&self) -> u64 {
        self.0.unsent.load(Ordering::Relaxed)
    }

    /// The number of packets that arrived, refused ones included.
    pub(super) fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    /// The number of packets that were sent on.
    pub(super) fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }
}

impl Host<RawMutex> for Media {
    type Ports = StreamPorts;

    fn open(
        &self,
        stream: &Arc<Stream<RawMutex>>,
        locals: [IpAddr; 2],
    ) -> Result<StreamPorts, NoPort> {
        let (caller, callee) = (self.0.bind(locals[0])?, self.0.bind(locals[1])?);
        let sockets = Arc::new([caller.sockets, callee.sockets]);
        let ports = StreamPorts { sockets: Arc::clone(&self.0), taken: [caller.pair, callee.pair] };
        let owner = self.0.opened.fetch_add(1, Ordering::Relaxed) % self.owners();
        for side in Side::BOTH {
            let (stream, sockets) = (Arc::clone(stream), Arc::clone(&sockets));
            let leg = Leg { stream, side, sockets, handshake: None, scheduled: None };
            *self.0.legs[ports.taken[side.index()].index].lock() = Some(leg);
        }
        self.0.watch(&ports, &sockets, owner).map_err(|error| {
            log::warn("media", || format!("cannot wait for packets of a call: {error}"));
            NoPort
        })?;
        Ok(ports)
    }

    fn is_own(&self, place: SocketAddr) -> bool {
        let leg = self.0.pairs.extent().0.pair_of(place.port());
        let leg = leg.and_then(|pair| self.0.legs.get(pair));
        leg.is_some_and(|leg| {
            let is_at = |leg: &Leg| leg.sockets[leg.side.index()][0].is_at(place.ip());
            leg.lock().as_ref().is_some_and(is_at)
        })
    }

    fn fingerprint(&self) -> Option<&Fingerprint> {
        Some(self.0.identity.fingerprint())
    }

    fn random(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the system has given random bytes at the start");
    }
}

impl Sockets {
    /// Takes a pair of ports, and binds it at `local`.
    fn bind(self: &Arc<Self>, local: IpAddr) -> Result<BoundPair, NoPort> {
        // Session descriptions do not name the interface of such an address.
        if matches!(local, IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            log::warn("media", || {
                format!(
                    "a call is not relayed: a phone of it uses {local}, which is valid on one link \
                     only; expected an address of a wider scope"
                )
            });
            return Err(NoPort);
        }
        for _ in 0..ATTEMPTS {
            let Some(index) = self.pairs.take() else {
                let (range, most) = self.pairs.extent();
                log::warn("media", || {
                    format!("a call is not relayed: {most} ports of {range} are in use")
                });
                return Err(NoPort);
            };
            let pair = TakenPair { sockets: Arc::clone(self), index };
            match sockets::bind(local, self.pairs.port(index)) {
                Ok(sockets) => return Ok(BoundPair { sockets, pair }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                Err(error) => {
                    log::warn("media", || {
                        format!("a call is not relayed: cannot open a port at {local}: {error}")
                    });
                    return Err(NoPort);
                }
            }
        }
        log::warn("media", || {
            let range = self.pairs.extent().0;
            format!("a call is not relayed: other programs use many of the ports {range}")
        });
        Err(NoPort)
    }

    /// Has the worker `owner` wait for packets of `sockets`. Closing a socket ends that.
    fn watch(&self, ports: &StreamPorts, sockets: &[Pair; 2], owner: usize) -> io::Result<()> {
        for (taken, pair) in ports.taken.iter().zip(sockets) {
            for (channel, socket) in [Channel::Rtp, Channel::Rtcp].into_iter().zip(pair) {
                let token = Token { pair: taken.index, channel };
                let event = EpollEvent::new(EpollFlags::EPOLLIN, token.number());
                self.sets[owner].add(socket, event)?;
            }
        }
        Ok(())
    }
}

/// A bound pair of ports. The sockets are closed before the ports are given back.
struct BoundPair {
    sockets: Pair,
    pair: TakenPair,
}

/// A pair of ports in use. It is given back when this is dropped.
struct TakenPair {
    sockets: Arc<Sockets>,
    index: usize,
}

impl Drop for TakenPair {
    fn drop(&mut self) {
        self.sockets.pairs.give_back(self.index);
    }
}

/// The ports of a stream. They are closed when this is dropped.
pub(crate) struct StreamPorts {
    sockets: Arc<Sockets>,
    taken: [TakenPair; 2],
}

impl Ports for StreamPorts {
    fn rtp(&self) -> [u16; 2] {
        [0, 1].map(|side| self.sockets.pairs.port(self.taken[side].index))
    }

    fn release(&self, side: Side) {
        let leg = self.sockets.legs[self.taken[side.index()].index].lock();
        let pair = leg.iter().flat_map(|leg| &leg.sockets[side.index()]);
        for error in pair.filter_map(|socket| socket.disconnect().err()) {
            log::warn("media", || format!("a port of a call cannot be used anew: {error}"));
        }
    }

    fn shake_hands(&self, side: Side) {
        self.sockets.begin_handshake(self.taken[side.index()].index);
    }
}

impl Drop for StreamPorts {
    fn drop(&mut self) {
        for taken in &self.taken {
            // A worker that relays a packet of the leg ends that first.
            *self.sockets.legs[taken.index].lock() = None;
        }
    }
}

/// The time of the relay at `now`.
pub(super) const fn since_epoch(now: Instant) -> Duration {
    Duration::from_micros(now.as_micros())
}
