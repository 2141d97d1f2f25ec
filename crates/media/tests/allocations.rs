//! A session and a packet path allocate no memory for a packet.

use barebell_media::{
    Channel, Codec, MediaConfig, Negotiator, PacketPath, Security, Seed, Session, Stream,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
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

/// Returns the number of allocations in `work`.
fn allocations(work: impl FnOnce()) -> usize {
    let before = COUNT.get();
    work();
    COUNT.get() - before
}

/// Returns the streams of two ends that have negotiated, each with its address.
fn streams(security: Security) -> [(SocketAddr, Stream); 2] {
    let media_config =
        MediaConfig { codecs: vec![Codec::Pcmu], security, ..MediaConfig::default() };
    let places = ["192.0.2.1:4000", "192.0.2.2:4000"].map(|place| place.parse().unwrap());
    let mut number = 0;
    let mut random = |bytes: &mut [u8]| {
        number += 1;
        bytes.fill(number);
    };
    let [mut here, mut there] = places.map(|place| Negotiator::new(media_config.clone(), place, 1));
    let offer = here.offer(&mut random);
    let (answer, theirs) = there.answer(&offer, &mut random).unwrap();
    [(places[0], here.accept(&answer).unwrap()), (places[1], theirs)]
}

#[test]
fn sending_receiving_and_playing_allocate_nothing() {
    for security in [Security::Off, Security::Required] {
        let [(place, ours), (_, theirs)] = streams(security);
        let seed = Seed { ssrc: 1, sequence_number: 1, timestamp: 0 };
        let [mut here, mut there] = [ours, theirs].map(|s| Session::new(s, seed).unwrap());
        let (mut packet, mut heard, mut now) = (Vec::new(), Vec::new(), Duration::ZERO);
        let mut exchange = |count: usize| {
            for _ in 0..count {
                now += Duration::from_millis(20);
                here.send(&[1000; 160], &mut packet).unwrap().unwrap();
                there.receive_on(Channel::Rtp, now, place, &mut packet);
                heard.clear();
                there.play(now, &mut heard);
            }
        };
        // The buffers get their size.
        exchange(100);
        assert_eq!(allocations(|| exchange(500)), 0, "{security:?}");
        assert!(there.statistics().received >= 599);
    }
}

#[test]
fn relaying_allocates_nothing() {
    let [(_, ours), (_, theirs)] = streams(Security::Required);
    let seed = Seed { ssrc: 1, sequence_number: 1, timestamp: 0 };
    let mut path = PacketPath::new(&theirs, &theirs).unwrap();
    let mut here = Session::new(ours, seed).unwrap();
    let mut packet = Vec::new();
    let mut relay = |count: usize| {
        for _ in 0..count {
            here.send(&[1000; 160], &mut packet).unwrap().unwrap();
            let mut buffer = [0; 1500];
            buffer[..packet.len()].copy_from_slice(&packet);
            path.relay(&mut buffer, packet.len()).unwrap();
        }
    };
    relay(100);
    assert_eq!(allocations(|| relay(500)), 0);
}
