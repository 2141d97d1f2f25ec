use super::*;
use alloc::vec;

fn binding(expires: Instant) -> Binding {
    let address = ([192, 0, 2, 1], 5060).into();
    Binding {
        contact: SmallVec::from_slice(b"sip:alice@192.0.2.1"),
        extra: None,
        call_id: 0,
        cseq: 1,
        q: 1000,
        flow_bound: false,
        id: 0,
        claim: 0,
        expires,
        flow: Flow {
            transport: sip::Transport::Udp,
            local: address,
            remote: address,
            connection: None,
        },
    }
}

#[test]
fn reminders_that_nobody_needs_do_not_pile_up() {
    let key = Key::derive(&[1; 32], "subscribers");
    let location: LocationService<parking_lot::RawMutex> = LocationService::new(key.clone(), key);
    let address = location.address_of_record(b"alice", "example.com");
    let mut out = Output::default();
    let mut set = |bindings: Vec<Binding>| {
        location.update(&address, true, &mut out, |subscriber| {
            subscriber.bindings = bindings;
            ((), Changed::No)
        });
    };
    let start = Instant::from_micros(1_000_000_000);
    for step in 0..10_000 {
        let sooner = start + Duration::from_secs(20_000 - step);
        set(vec![binding(sooner)]);
        if step % 3 == 1 {
            set(Vec::new());
        }
    }
    let queued: usize = location.shards.iter().map(|shard| shard.lock().expiries.len()).sum();
    assert!(queued <= SPARE_REMINDERS + 5, "{queued}");
    assert_eq!(location.bindings(), 1);
    let counters = Counters::default();
    location.expire(start + Duration::from_secs(10_003), &mut out, &counters);
    assert_eq!(location.bindings(), 0);
    location.expire(start + Duration::from_secs(30_000), &mut out, &counters);
    assert_eq!(location.next_expiry(), None);
}
