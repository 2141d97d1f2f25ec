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

use sip::Instant;
use std::time::Duration;
use test_support::network::Network;
use world::{Tables, World};

/// What things are woken up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The phone of this number.
    Phone(usize),
    /// The server's timers.
    Server,
    /// A worker in one life of the server, to send what it has collected.
    Flush { worker: usize, life: u32 },
    /// The power comes back.
    PowerOn,
    /// The step of this number of the plan.
    Step(usize),
}

pub(crate) type Net = Network<Wake>;

/// When the simulation begins.
const START: Instant = Instant::from_micros(1_700_000_000_000_000);

/// The time of the engine and the phones.
pub(crate) fn instant(since_start: Duration) -> Instant {
    START + sip::Duration::from_micros(since_start.as_micros() as u64)
}

/// The time of the network.
pub(crate) fn since_start(instant: Instant) -> Duration {
    Duration::from_micros(instant.since(START).as_micros())
}

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
        (world.net.trace(), world.host.tally().counters)
    };
    let seed = seeds()[0];
    assert_eq!(run(seed), run(seed));
    assert_ne!(run(seed).0, run(seed + 1).0);
}
