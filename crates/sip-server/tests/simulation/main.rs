//! The engine between phones, on a network that loses, duplicates, delays and reorders, on a
//! machine with power cuts. No confirmed binding is lost, no transaction is stuck, and every call
//! is answered or fails as RFC 3261 specifies.
//!
//! `BAREBELL_SIMULATION_SEEDS=N` runs N seeds instead of a few, `BAREBELL_SIMULATION_SEED=N` only
//! that one. With `BAREBELL_SIMULATION_TRACE=TEXT` each message that contains TEXT, such as a
//! Call-ID or a tag, is shown when it arrives.

mod check;
mod host;
mod phone;
mod wire;
mod world;

use world::{Tables, World};

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("BAREBELL_SIMULATION_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("BAREBELL_SIMULATION_SEEDS").unwrap_or(24)).collect(),
    }
}

#[test]
fn nothing_is_lost_and_nothing_is_stuck() {
    let mut sum = check::Sum::default();
    for seed in seeds() {
        // The test harness shows the output only if the test fails.
        println!("BAREBELL_SIMULATION_SEED={seed}");
        let mut world = World::new(seed, Tables::Ample);
        world.run();
        sum.add(&world);
    }
    println!("{sum:#?}");
    if seeds().len() > 1 {
        sum.check();
    }
}

#[test]
fn full_tables_refuse_and_leave_nothing_behind() {
    let mut sum = check::Sum::default();
    for seed in seeds().into_iter().take(8) {
        println!("BAREBELL_SIMULATION_SEED={seed}");
        let mut world = World::new(seed, Tables::TooSmall);
        world.run();
        sum.add(&world);
    }
    println!("{sum:#?}");
    if seeds().len() > 1 {
        sum.check_limits();
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed| {
        let mut world = World::new(seed, Tables::Ample);
        world.run();
        (world.rig.trace(), world.ends.host.tally().counters)
    };
    let seed = seeds()[0];
    assert_eq!(run(seed), run(seed));
    assert_ne!(run(seed).0, run(seed + 1).0);
}
