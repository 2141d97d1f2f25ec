//! A short and reproducible run of the body of the fuzz target `agent`.

use test_support::{Random, fuzz};

#[test]
fn whatever_strangers_send_the_agent_keeps_its_promises() {
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let length = 20 + random.below(380);
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        fuzz::agent(&bytes);
    }
}
