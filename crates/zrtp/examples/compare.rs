//! Two calls of the same ends. In the first their users compare the strings; the second continues
//! it.

use barebell_zrtp::{Association, Cache, Config, Event, Zid};
use std::time::Duration;

fn main() {
    let mut caches = [Cache::default(), Cache::default()];
    for call in 1..=2 {
        println!("call {call}");
        // The bytes have to be random.
        let config = |end: u8| Config::new(Zid([end; 12]), [16 * call + end; 32], u32::from(end));
        let mut ends = [config(1), config(2)].map(|it| Association::new(it, Duration::ZERO));
        let mut secrets = 0;
        while secrets < 2 {
            for sender in [0, 1] {
                while let Some(packet) = ends[sender].poll_transmit() {
                    ends[1 - sender].handle(Duration::ZERO, &packet, &caches[1 - sender]);
                }
                while let Some(event) = ends[sender].poll_event() {
                    match event {
                        Event::Keyed(keyed) => println!(
                            "  end {sender}: {}, {}; {:?}, verified: {}",
                            keyed.sas, keyed.suite, keyed.continuity, keyed.is_verified
                        ),
                        Event::Update(update) => {
                            secrets += 1;
                            caches[sender].store(update, 0);
                        }
                        other => println!("  end {sender}: {other:?}"),
                    }
                }
            }
        }
        for (end, cache) in ends.iter_mut().zip(&mut caches) {
            end.set_verified(true);
            while let Some(event) = end.poll_event() {
                if let Event::Update(update) = event {
                    cache.store(update, 0);
                }
            }
        }
    }
}
