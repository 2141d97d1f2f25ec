//! The fuzz bodies of a browser's leg over random input.

use test_support::Random;

/// Calls `body` with random steps: a byte below `choices`, a length, and so many bytes.
fn over_random(count: u64, choices: u64, body: fn(&[u8])) {
    for seed in 0..count {
        let mut random = Random::new(seed);
        let mut bytes = Vec::new();
        for _ in 0..1 + random.below(40) {
            let length = random.below(60);
            bytes.extend([random.below(choices) as u8, length as u8]);
            bytes.extend((0..length).map(|_| random.below(256) as u8));
        }
        body(&bytes);
    }
}

#[test]
fn random_checks_keep_the_rules_of_ice() {
    over_random(3000, 256, fuzz_bodies::ice);
}

#[test]
fn random_descriptions_and_packets_keep_the_rules_of_the_relay() {
    over_random(3000, 256, fuzz_bodies::browser);
}

/// Most steps pass the next datagram of the client, so that handshakes come to their end.
#[test]
fn random_datagrams_yield_no_keys_of_another_certificate() {
    over_random(150, 4, fuzz_bodies::dtls);
    for is_other in [0, 1] {
        let steps = [2, 0].repeat(40);
        fuzz_bodies::dtls(&[&[is_other], &steps[..]].concat());
    }
}
