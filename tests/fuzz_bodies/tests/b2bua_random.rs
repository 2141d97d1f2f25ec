//! A reproducible run of the body of the fuzz target `b2bua`.
//!
//! `BAREBELL_B2BUA_SEEDS=N` runs N inputs instead of some more than a thousand.

use test_support::Random;

#[test]
fn random_input_breaks_no_invariant_of_joined_calls() {
    let seeds = std::env::var("BAREBELL_B2BUA_SEEDS").ok().and_then(|text| text.parse().ok());
    for seed in 0..seeds.unwrap_or(1500) {
        // The test harness shows the output only if the test fails.
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let length = 20 + random.below(380);
        let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        fuzz_bodies::b2bua(&bytes);
    }
}
