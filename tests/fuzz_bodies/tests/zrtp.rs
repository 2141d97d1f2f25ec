//! The fuzz body of ZRTP over random decisions on packets.

use test_support::Random;

#[test]
fn random_changes_of_packets_are_handled() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let length = random.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| random.number() as u8).collect();
        fuzz_bodies::zrtp(&bytes);
    }
}
