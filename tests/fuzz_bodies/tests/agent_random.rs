//! A short and reproducible run of the body of the fuzz target `agent`.

use test_support::Random;

#[test]
fn random_input_breaks_no_invariant_of_the_agent() {
    for seed in 0..1500 {
        let mut random = Random::new(seed);
        let length = 20 + random.below(380);
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        fuzz_bodies::agent(&bytes);
    }
}
