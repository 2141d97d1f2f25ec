//! A relayed call of two codecs, for the benchmark and for the fuzz body of converted packets. The
//! module above names the crate `relay`.

use super::relay::{
    Calls, Codec, End, Host, Limits, NoPort, Passage, Ports, Relay, Role, Side, Stream,
};
use parking_lot::{Mutex, RawMutex};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The addresses of RTP: the caller's and the callee's.
pub(crate) const ENDS: [([u8; 4], u16); 2] = [([198, 51, 100, 1], 4000), ([203, 0, 113, 1], 6000)];

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

/// The payload type of a codec. That of comfort noise is 13, that of telephone events is 100.
pub(crate) fn number(codec: Codec) -> u8 {
    let dynamic = || 96 + Codec::ALL.iter().take_while(|it| **it != codec).count() as u8;
    codec.static_payload_type().unwrap_or_else(dynamic)
}

/// The stream of a call between a caller with the first codec and a callee with the second one,
/// each with its packet time in milliseconds. `None` if a description is refused.
pub(crate) fn stream(codecs: [Codec; 2], times: [u8; 2]) -> Option<Arc<Stream<RawMutex>>> {
    let relay: Relay<RawMutex, _> = Relay::new(OneStream::default(), Limits::default());
    let permits = |_: SocketAddr| true;
    let end = |at: usize| {
        End::new(SocketAddr::new(ENDS[at].0.into(), 5060), [192, 0, 2, 1].into(), &permits)
    };
    let (from, mut to) = (end(0), end(1));
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
        begins: false,
        ..offer
    };
    let body = |at: usize| {
        let (codec, number, time) = (codecs[at], number(codecs[at]), times[at]);
        let (host, port) = (IpAddr::from(ENDS[at].0), ENDS[at].1);
        let (rate, channels) = (codec.clock_rate(), codec.channels());
        format!(
            "v=0\r\nc=IN IP4 {host}\r\nm=audio {port} RTP/AVP {number} 13 100\r\na=ptime:{time}\r\n\
             a=rtpmap:{number} {}/{rate}/{channels}\r\na=rtpmap:100 telephone-event/{rate}\r\n",
            codec.name()
        )
    };
    relay.describe(&offer, body(0).as_bytes()).ok()?;
    relay.describe(&answer, body(1).as_bytes()).ok()?;
    relay.host().0.lock().take()
}
