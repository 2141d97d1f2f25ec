//! A relayed call without a network: prints the descriptions that both ends get, and where the
//! packets of each are sent.
//!
//! ```sh
//! cargo run -p barebell-relay --example pass_packets
//! ```

use barebell_relay::{
    Calls, Channel, End, Host, Limits, NoPort, Passage, Ports, Relay, Role, Side, Stream,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Streams = Arc<Mutex<Vec<Arc<Stream<parking_lot::RawMutex>>>>>;

/// A host that numbers the ports of its streams. One with sockets binds them, and passes their
/// packets to the stream.
struct Numbers(Streams);

struct Pair([u16; 2]);

impl Ports for Pair {
    fn rtp(&self) -> [u16; 2] {
        self.0
    }
}

impl Host<parking_lot::RawMutex> for Numbers {
    type Ports = Pair;

    fn open(
        &self,
        stream: &Arc<Stream<parking_lot::RawMutex>>,
        _: [IpAddr; 2],
    ) -> Result<Pair, NoPort> {
        let mut streams = self.0.lock().map_err(|_| NoPort)?;
        let first = u16::try_from(20_000 + 4 * streams.len()).map_err(|_| NoPort)?;
        streams.push(Arc::clone(stream));
        Ok(Pair([first, first + 2]))
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7); // Not random.
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (caller, callee): (IpAddr, IpAddr) = ([198, 51, 100, 1].into(), [203, 0, 113, 1].into());
    let streams = Streams::default();
    let relay = Relay::new(Numbers(Arc::clone(&streams)), Limits::default());
    let permits = |_: SocketAddr| true;
    let end = |host| End::new(SocketAddr::new(host, 5060), [192, 0, 2, 1].into(), &permits);
    let offer = Passage {
        call_id: b"c",
        branch: Some(b"z9hG4bK1"),
        from_tag: b"caller",
        to_tag: b"",
        from: end(caller),
        to: end(callee),
        role: Role::Offer { exchange: 1 },
        side: Side::Caller,
        begins: true,
        parties: [b"sip:alice@example.com", b"sip:bob@example.com"],
        owner: 0,
        now: Duration::ZERO,
    };
    let answer = Passage {
        from_tag: b"callee",
        to_tag: b"caller",
        from: end(callee),
        to: end(caller),
        role: Role::Response { exchange: 1, is_final: true },
        side: Side::Callee,
        begins: false,
        ..offer
    };
    for (name, passage, host, port) in
        [("offer", offer, caller, 4000), ("answer", answer, callee, 5000)]
    {
        let description = format!("v=0\r\nc=IN IP4 {host}\r\nm=audio {port} RTP/AVP 0\r\n");
        let passed = relay.describe(&passage, description.as_bytes())?;
        println!("The {name} passes as:\n{}", passed.ok_or("the call is not relayed")?);
    }

    let streams = streams.lock().map_err(|_| "a thread has panicked")?;
    let stream = streams.first().ok_or("no stream")?;
    let ends = [(Side::Caller, caller, 4000), (Side::Callee, callee, 5000)];
    for (number, (side, host, port)) in (1..).zip(ends) {
        // The header of RTP, and 20 ms of PCMU.
        let mut packet = [0xff; 172];
        packet[..12].copy_from_slice(&[0x80, 0, 0, number, 0, 0, 0, 160, 0, 0, 0, number]);
        let (from, length) = (SocketAddr::new(host, port), packet.len());
        let now = Duration::from_millis(20);
        let relayed = stream.relay(side, Channel::Rtp, from, &mut packet, length, now);
        let relayed = relayed.map_err(|drop| format!("{drop:?}"))?;
        println!("{} bytes from {from} are sent to {}", relayed.length, relayed.to);
    }
    Ok(())
}
