//! Packets whose codec a relay converts.

use parking_lot::{Mutex, RawMutex};
use relay::{
    Calls, Channel, Codec, End, Host, Limits, NoPort, Passage, Ports, Relay, Role, Side, Stream,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The sound that a stream sends at most: that of its limit, and the last packets with their
/// filling.
const BURST: Duration = Duration::from_millis(2000 + 400);

/// A host that keeps its stream.
#[derive(Default)]
struct OneStream(Mutex<Option<Arc<Stream<RawMutex>>>>);

struct Pair;

impl Ports for Pair {
    fn rtp(&self) -> [u16; 2] {
        [20000, 20002]
    }
}

impl Host<RawMutex> for OneStream {
    type Ports = Pair;

    fn open(&self, stream: &Arc<Stream<RawMutex>>, _: [IpAddr; 2]) -> Result<Pair, NoPort> {
        *self.0.lock() = Some(Arc::clone(stream));
        Ok(Pair)
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// Converts packets. The first byte chooses the codecs, the second one the packet times. Each
/// packet has a byte for the time before it in milliseconds, one that chooses the side and the
/// channel, and one for its length.
///
/// # Panics
/// A packet that is sent is no RTP or RTCP, has the payload type of no agreed codec, or there is
/// more sound than the limit.
pub fn transcode(bytes: &[u8]) {
    let [pair, times, rest @ ..] = bytes else { return };
    let mut rest = rest;
    let count = Codec::ALL.len();
    let codecs = [0, 1].map(|at| Codec::ALL[(usize::from(*pair) / [1, count][at]) % count]);
    let Some(stream) = stream(codecs, [times & 15, times >> 4].map(|time| time * 5)) else {
        return;
    };
    let ends = [([198, 51, 100, 1], 4000), ([203, 0, 113, 1], 6000)].map(SocketAddr::from);
    let (mut now, mut sound) = (Duration::ZERO, [Duration::ZERO; 2]);
    let mut buffer = [0; 1024];
    while let [elapsed, choice, length, after @ ..] = rest {
        let (packet, after) = after.split_at(after.len().min((*length).into()));
        rest = after;
        now += Duration::from_millis((*elapsed).into());
        let side = Side::BOTH[usize::from(choice & 1)];
        let (channel, port) = match choice & 6 {
            6 => (Channel::Rtcp, 1),
            _ => (Channel::Rtp, 0),
        };
        let mut from = ends[side.index()];
        from.set_port(from.port() + port);
        buffer[..packet.len()].copy_from_slice(packet);
        let relayed = stream.relay(side, channel, from, &mut buffer, packet.len(), now);
        let mut next = relayed.ok();
        while let Some(relayed) = next {
            let sent = &buffer[..relayed.length];
            if codecs[0] == codecs[1] || relayed.length == 0 {
                // It passes.
            } else if rtp::is_rtcp(sent) {
                rtp::rtcp::Compound::parse(sent).expect("reports");
            } else {
                let sent = rtp::Packet::parse(sent).expect("a packet");
                let codec = codecs[side.other().index()];
                match sent.header.payload_type() {
                    100 | 13 => {}
                    it if it == number(codec) => {
                        let units = codec.units(sent.payload).expect("sound").into();
                        sound[side.index()] += Duration::from_secs(units) / codec.clock_rate();
                    }
                    it => panic!("payload type {it} for {codec:?}"),
                }
            }
            next = relayed.has_more.then(|| stream.next(side, &mut buffer)).flatten();
        }
    }
    for sound in sound {
        assert!(sound <= BURST + now * 3 / 2, "{sound:?} in {now:?}");
    }
}

fn number(codec: Codec) -> u8 {
    let dynamic = || 96 + Codec::ALL.iter().take_while(|it| **it != codec).count() as u8;
    codec.static_payload_type().unwrap_or_else(dynamic)
}

/// A call of a caller with the first codec and a callee with the second one, each with its packet
/// time.
fn stream(codecs: [Codec; 2], times: [u8; 2]) -> Option<Arc<Stream<RawMutex>>> {
    let relay: Relay<RawMutex, _> = Relay::new(OneStream::default(), Limits::default());
    let permits = |_: SocketAddr| true;
    let end = |host: [u8; 4]| {
        End::new(SocketAddr::new(host.into(), 5060), [192, 0, 2, 1].into(), &permits)
    };
    let (from, mut to) = (end([198, 51, 100, 1]), end([203, 0, 113, 1]));
    to.codecs.transcode = Codec::ALL;
    let offer = Passage {
        call_id: b"c",
        branch: Some(b"b"),
        from_tag: b"caller",
        to_tag: b"",
        from,
        to,
        role: Role::Offer { exchange: 1 },
        side: Side::Caller,
        begins: true,
        parties: [b"", b""],
        owner: 0,
        now: Duration::ZERO,
    };
    let answer = Passage {
        from_tag: b"callee",
        to_tag: b"caller",
        from: to,
        to: from,
        role: Role::Response { exchange: 1, is_final: true },
        side: Side::Callee,
        ..offer
    };
    let body = |(host, port), at: usize| {
        let (codec, number, time) = (codecs[at], number(codecs[at]), times[at]);
        let (rate, channels) = (codec.clock_rate(), codec.channels());
        format!(
            "v=0\r\nc=IN IP4 {host}\r\nm=audio {port} RTP/AVP {number} 13 100\r\na=ptime:{time}\r\n\
             a=rtpmap:{number} {}/{rate}/{channels}\r\na=rtpmap:100 telephone-event/{rate}\r\n",
            codec.name()
        )
    };
    relay.describe(&offer, body(("198.51.100.1", 4000), 0).as_bytes()).ok()?;
    relay.describe(&answer, body(("203.0.113.1", 6000), 1).as_bytes()).ok()?;
    relay.host().0.lock().take()
}
