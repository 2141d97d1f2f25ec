//! Random actions of strangers and of a user that cooperates with them. A separate model
//! (`fuzz_bodies::attack`) checks the messages that the engine sends.
//!
//! `BAREBELL_ATTACK_SEEDS=N` runs N scripts instead of some more than a thousand,
//! `BAREBELL_ATTACK_SEED=N` only that one.

use fuzz_bodies::{Step, attack};
use std::collections::BTreeMap;
use test_support::Random;

/// The number of steps of a script.
const STEPS: usize = 40;

/// Generates a script. Most bytes of each step are zero, because zero selects the most useful
/// choice.
fn script(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = vec![random.below(64) as u8];
    // Some scripts change little of the valid messages, others nearly all.
    let changes = *random.pick(&[100, 250, 500]);
    for _ in 0..STEPS {
        let mut step = [0; Step::LENGTH];
        step[0] = random.below(16) as u8;
        // Most steps refer to recent messages.
        step[2] = random.below(5) as u8;
        step[3] = random.below(16) as u8;
        for byte in step.iter_mut().skip(1) {
            if random.chance(changes) {
                *byte = random.number() as u8;
            }
        }
        bytes.extend(step);
    }
    bytes
}

#[test]
fn nobody_gets_further_than_the_rules_say() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds = match number("BAREBELL_ATTACK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("BAREBELL_ATTACK_SEEDS").unwrap_or(1500),
    };
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for seed in seeds.clone() {
        // The test harness shows the output only if the test fails.
        println!("BAREBELL_ATTACK_SEED={seed}");
        for (name, count) in attack(&script(seed)) {
            *sum.entry(name).or_default() += count;
        }
    }
    println!("{sum:#?}");
    if seeds.count() > 100 {
        check(&sum);
    }
}

/// Checks that every kind of action was tried often enough.
fn check(sum: &BTreeMap<String, u64>) {
    let grounds = ["Credentials", "Binding", "Dialog"];
    let methods = ["INVITE", "BYE", "MESSAGE", "SUBSCRIBE", "NOTIFY", "REFER", "UPDATE", "INFO"];
    let ways = grounds.iter().flat_map(|ground| methods.map(|method| format!("{ground} {method}")));
    let others = [
        "Dialog ACK",
        "authentication-failures",
        "foreign challenges",
        "dns-queries",
        "expired-bindings",
        "identity-mismatches",
        "passed back",
        "relay-denied",
        "retransmissions-received",
        "retransmissions-sent",
        "sent to a host that never answered",
        "stale-nonces",
        "unasked",
        "unreachable",
    ];
    for name in ways.chain(others.map(str::to_owned)) {
        assert!(sum.get(&name).is_some_and(|count| *count > 0), "there was never: {name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| attack(&script(seed));
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
