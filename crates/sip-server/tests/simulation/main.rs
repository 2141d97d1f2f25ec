//! The engine between phones, on a network that loses, doubles, delays and reorders, on a machine
//! whose power is cut: no binding that was answered is lost, no transaction is stuck, every call is
//! answered or fails as RFC 3261 says.
//!
//! `BAREBELL_SIMULATION_SEEDS=N` runs N seeds instead of a few, `BAREBELL_SIMULATION_SEED=N` that
//! one alone. With `BAREBELL_SIMULATION_TRACE=TEXT` each message that has TEXT in it, such as a
//! Call-ID or a tag, is shown as it arrives.

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
        // The harness shows it only where the test fails.
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
