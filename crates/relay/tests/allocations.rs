//! A stream allocates no memory for a packet that it passes, in clear or with SRTP that ends at the
//! relay.

use barebell_relay::media::{Codec, MediaConfig, Negotiator, Security, Seed, Session};
use barebell_relay::{
    Calls, Channel, End, Host, Keying, Limits, NoPort, Passage, Ports, Relay, Role, Side, Stream,
};
use parking_lot::{Mutex, RawMutex};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Counts the allocations of each thread.
struct Counted;

std::thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// A host that keeps its only stream.
#[derive(Clone, Default)]
struct OneStream(Arc<Mutex<Option<Arc<Stream<RawMutex>>>>>);

struct Pair;

impl Ports for Pair {
    fn rtp(&self) -> [u16; 2] {
        [20_000, 20_002]
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

/// The stream of a call, and the sessions of its ends with their addresses. The caller has
/// `security`, the callee is in clear.
fn call(security: Security) -> (Arc<Stream<RawMutex>>, [(SocketAddr, Session); 2]) {
    let host = OneStream::default();
    let relay = Relay::new(host.clone(), Limits::default());
    let places = ["198.51.100.1:4000", "203.0.113.1:4000"];
    let [caller, callee] = places.map(|place| place.parse::<SocketAddr>().unwrap());
    let mut number = 0;
    let mut random = |bytes: &mut [u8]| {
        number += 1;
        bytes.fill(number);
    };
    let negotiator = |place, security| {
        let codecs = vec![Codec::Pcmu];
        Negotiator::new(MediaConfig { codecs, security, ..MediaConfig::default() }, place, 1)
    };
    let mut here = negotiator(caller, security);
    let mut there = negotiator(callee, Security::Off);
    let permits = |_: SocketAddr| true;
    let end = |place: SocketAddr| {
        End::new(SocketAddr::new(place.ip(), 5060), [192, 0, 2, 1].into(), &permits)
    };
    let mut in_clear = end(callee);
    in_clear.keying = Keying::Clear;
    let offer = Passage {
        call_id: b"c",
        branch: Some(b"b"),
        from_tag: b"caller",
        to_tag: b"",
        from: end(caller),
        to: in_clear,
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
        from: in_clear,
        to: end(caller),
        role: Role::Response { exchange: 1, is_final: true },
        side: Side::Callee,
        begins: false,
        ..offer
    };
    let offered = relay.describe(&offer, &here.offer(&mut random)).unwrap().unwrap();
    let (answered, theirs) = there.answer(offered.as_bytes(), &mut random).unwrap();
    let answered = relay.describe(&answer, &answered).unwrap().unwrap();
    let ours = here.accept(answered.as_bytes()).unwrap();
    let seed = Seed { ssrc: 1, sequence_number: 1, timestamp: 0 };
    let session = |stream| Session::new(stream, seed).unwrap();
    let stream = host.0.lock().take().unwrap();
    (stream, [(caller, session(ours)), (callee, session(theirs))])
}

#[test]
fn relaying_allocates_nothing() {
    for security in [Security::Off, Security::Required] {
        let (stream, mut ends) = call(security);
        let (mut packet, mut now) = (Vec::new(), Duration::ZERO);
        let mut relay = |count: usize| {
            for _ in 0..count {
                now += Duration::from_millis(20);
                for (side, (from, session)) in [Side::Caller, Side::Callee].iter().zip(&mut ends) {
                    session.send(&[1000; 160], &mut packet).unwrap().unwrap();
                    let (mut buffer, length) = ([0; 1500], packet.len());
                    buffer[..length].copy_from_slice(&packet);
                    let channel = Channel::Rtp;
                    let relayed = stream.relay(*side, channel, *from, &mut buffer, length, now);
                    assert!(relayed.unwrap().length > 0);
                }
            }
        };
        // The buffers get their size, and the addresses are fixed.
        relay(100);
        let before = COUNT.get();
        relay(500);
        assert_eq!(COUNT.get() - before, 0, "{security:?}");
    }
}
