//! Packets whose codec a relay converts.

#[path = "../../../crates/relay/benches/support/mod.rs"]
mod support;

use relay::{self, Channel, Codec, Side};
use std::net::SocketAddr;
use std::time::Duration;
use support::{ENDS, number, stream};

/// The sound that a stream sends at most: that of its limit, and the last packets with their
/// filling.
const BURST: Duration = Duration::from_millis(2000 + 400);

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
    let ends = ENDS.map(SocketAddr::from);
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
