//! The ports of relayed media. There are no sockets: a table leads from a port to its leg.
//!
//! Packets of a plain leg with known ends are rewritten in their frames, by an entry in the table.
//! All other packets pass the stream of their leg.

use crate::lock::Lock;
use crate::machine::random::Random;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use core::time::Duration;
use lock_api::Mutex;
use relay::frame::{Entry, rewrite};
use relay::{Channel, Host, NoPort, Pairs, PortRange, Ports, Rewrites, Side, Stream};
use smoltcp::wire::EthernetAddress;

/// The time after which an entry is made anew: the Ethernet address of its neighbour may change.
const LIFETIME: Duration = Duration::from_secs(1);

/// The ports of all relayed streams.
#[derive(Clone)]
pub struct Media(Arc<Table>);

struct Table {
    pairs: Pairs<Lock>,
    range: PortRange,
    /// The leg of each pair of ports in use.
    legs: Mutex<Lock, Box<[Option<Box<Leg>>]>>,
    random: Mutex<Lock, Random>,
}

/// One leg of a stream.
struct Leg {
    stream: Arc<Stream<Lock>>,
    side: Side,
    /// The ports of RTP of both sides, the caller's first.
    ports: [u16; 2],
    /// The rewrite of its RTP packets, and the end of its lifetime.
    entry: Option<(Entry, Duration)>,
}

/// A packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The local port.
    pub port: u16,
    /// The destination.
    pub to: SocketAddrV4,
    /// The length of the packet in its buffer.
    pub length: usize,
}

impl fmt::Debug for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Media").field("pairs", &self.0.pairs).finish_non_exhaustive()
    }
}

impl Media {
    /// The ports of `range`, at most `pairs` pairs at a time.
    #[must_use]
    pub fn new(range: PortRange, pairs: usize, mut random: Random) -> Self {
        let first = random.below(range.pairs() as u32) as usize;
        Self(Arc::new(Table {
            pairs: Pairs::new(range, pairs, first),
            range,
            legs: Mutex::new((0..range.pairs()).map(|_| None).collect()),
            random: Mutex::new(random),
        }))
    }

    /// Returns true if `port` belongs to a relayed stream.
    #[must_use]
    pub fn is_open(&self, port: u16) -> bool {
        let pair = self.0.range.pair_of(port);
        pair.is_some_and(|pair| self.0.legs.lock()[pair].is_some())
    }

    /// The number of pairs of ports in use.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.pairs.count()
    }

    /// Relays a packet that came `from` an address to `port`: `length` bytes in `buffer`. Returns
    /// `None` if it is dropped, which its stream counts.
    pub fn relay(
        &self,
        port: u16,
        from: SocketAddrV4,
        buffer: &mut [u8],
        length: usize,
        now: Duration,
    ) -> Option<Outgoing> {
        let (pair, channel) = (self.0.range.pair_of(port)?, channel_of(port));
        let (stream, side, ports) = self.leg(pair, |leg| leg.origin())?;
        let relayed = stream.relay(side, channel, from.into(), buffer, length, now).ok()?;
        let SocketAddr::V4(to) = relayed.to else { return None };
        // Codecs are not converted here, so that each packet is one at most.
        let port = ports[side.other().index()] + u16::from(relayed.channel == Channel::Rtcp);
        (relayed.length > 0).then_some(Outgoing { port, to, length: relayed.length })
    }

    /// Has the next packets of `port` rewritten in their frames, if its stream permits that. They
    /// leave from `ours`, with the Ethernet addresses `link`: the source, and the destination.
    pub(crate) fn expedite(
        &self,
        port: u16,
        ours: Ipv4Addr,
        link: [EthernetAddress; 2],
        now: Duration,
    ) {
        let pair = self.0.range.pair_of(port).filter(|_| channel_of(port) == Channel::Rtp);
        let Some(pair) = pair else { return };
        let Some((stream, side, ports)) = self.leg(pair, |leg| leg.origin()) else { return };
        let locals = ports.map(|port| SocketAddr::new(ours.into(), port));
        stream.hand_over(side, locals, |mut entry| {
            entry.link = link.map(|address| address.0);
            self.leg(pair, |leg| leg.entry = Some((entry, now + LIFETIME)));
        });
    }

    /// Writes the received `frame` to `out` as it is sent on, if it has a packet that is rewritten.
    /// Returns its length.
    pub(crate) fn rewrite(&self, frame: &[u8], out: &mut [u8], now: Duration) -> Option<usize> {
        // The destination port behind the headers of Ethernet and of IPv4 without options.
        let port = u16::from_be_bytes(*frame.get(36..)?.first_chunk()?);
        let pair = self.0.range.pair_of(port)?;
        let mut legs = self.0.legs.lock();
        let leg = legs[pair].as_mut()?;
        let (entry, end) = leg.entry.as_ref()?;
        if now >= *end {
            leg.entry = None;
            return None;
        }
        // A switch may deliver frames for other hosts.
        let out = out.get_mut(..frame.len()).filter(|_| frame[..6] == entry.link[0])?;
        out.copy_from_slice(frame);
        let rewritten = rewrite(out, entry).ok()?;
        leg.stream.count(leg.side, &frame[rewritten.packet], now);
        Some(rewritten.frame)
    }

    /// Calls `act` with the leg of a pair of ports, if it has one.
    fn leg<T>(&self, pair: usize, act: impl FnOnce(&mut Leg) -> T) -> Option<T> {
        self.0.legs.lock()[pair].as_deref_mut().map(act)
    }
}

impl Leg {
    /// The stream, the side and the ports of the leg.
    fn origin(&self) -> (Arc<Stream<Lock>>, Side, [u16; 2]) {
        (Arc::clone(&self.stream), self.side, self.ports)
    }
}

/// The channel of a port: those of RTP are even.
const fn channel_of(port: u16) -> Channel {
    if port.is_multiple_of(2) { Channel::Rtp } else { Channel::Rtcp }
}

impl Host<Lock> for Media {
    type Ports = StreamPorts;

    fn open(&self, stream: &Arc<Stream<Lock>>, _: [IpAddr; 2]) -> Result<StreamPorts, NoPort> {
        let take = || {
            let pair = self.0.pairs.take().ok_or(NoPort)?;
            Ok(TakenPair { table: Arc::clone(&self.0), pair })
        };
        let ports = StreamPorts([take()?, take()?]);
        for (side, taken) in Side::BOTH.into_iter().zip(&ports.0) {
            let leg = Leg { stream: Arc::clone(stream), side, ports: ports.rtp(), entry: None };
            self.0.legs.lock()[taken.pair] = Some(Box::new(leg));
        }
        Ok(ports)
    }

    fn withdraw(&self, ports: &StreamPorts) -> [Rewrites; 2] {
        for taken in &ports.0 {
            self.leg(taken.pair, |leg| leg.entry = None);
        }
        // The stream has counted them.
        Default::default()
    }

    fn random(&self, bytes: &mut [u8]) {
        self.0.random.lock().fill(bytes);
    }
}

/// The ports of a stream. They are closed when this is dropped.
pub struct StreamPorts([TakenPair; 2]);

impl Ports for StreamPorts {
    fn rtp(&self) -> [u16; 2] {
        [0, 1].map(|side| self.0[side].table.range.port(self.0[side].pair))
    }
}

/// A pair of ports in use. It is given back when this is dropped.
struct TakenPair {
    table: Arc<Table>,
    pair: usize,
}

impl Drop for TakenPair {
    fn drop(&mut self) {
        self.table.legs.lock()[self.pair] = None;
        self.table.pairs.give_back(self.pair);
    }
}
