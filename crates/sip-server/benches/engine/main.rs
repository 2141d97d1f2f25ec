//! The throughput of the engine without sockets: registrations, and complete calls through the
//! proxy.
//!
//! ```text
//! cargo bench -p barebell-sip-server --bench engine
//!     each kind of work on one thread
//! cargo bench -p barebell-sip-server --bench engine -- call
//!     only that of this name
//! cargo bench -p barebell-sip-server --bench engine -- threads
//!     registrations and calls on 1, 2, 4 ... threads
//! cargo bench -p barebell-sip-server --bench engine -- users
//!     refreshes with up to a million users
//! cargo bench -p barebell-sip-server --bench engine -- instructions
//!     counted, and compared with instructions.txt; and as with `logins`
//! cargo bench -p barebell-sip-server --bench engine -- logins
//!     the instructions of refused logins of existing and of absent users, compared
//! cargo bench -p barebell-sip-server --bench engine -- instructions record
//!     and written there
//! ```
//!
//! Only the time in the engine counts: the input messages are created between the clock readings, a
//! few hundred at a time. The figures are medians of several rounds, in CPU time of the thread,
//! because other processes use the machine as well.

mod clients;
mod instructions;
mod lock;
mod logins;

use clients::{Client, Pace, Work};
use lock::Counting;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::time::Duration;

/// The users of the server. One half calls the other half.
const PACE: Pace = Pace { users: 10_000, rate: 2000 };
/// The number of operations that pass through the engine together, step by step.
const TOGETHER: usize = 250;
/// The number of batches of [`TOGETHER`] in one measurement, and the number of measurements.
const BATCHES: usize = 40;
const ROUNDS: usize = 9;
/// The numbers of threads. The largest exceeds the number of processors, to find contended locks.
const THREADS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The number of batches of each thread.
const THREAD_BATCHES: usize = 200;
/// The numbers of users.
const USERS: [usize; 4] = [1000, 10_000, 100_000, 1_000_000];

type Server = barebell_sip_server::Server<Counting>;

/// The allocator that the server uses.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Cargo passes `--bench`. Filters are passed as for tests.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match wanted.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["threads"] => [Work::RegisterUpdate, Work::Call].into_iter().for_each(threads),
        ["users"] => users(Work::RegisterUpdate),
        ["instructions"] => {
            return match instructions::count(false) {
                ExitCode::SUCCESS => logins::compare(),
                failure => failure,
            };
        }
        ["logins"] => return logins::compare(),
        ["instructions", "record"] => return instructions::count(true),
        [::instructions::PERFORM] => logins::perform(),
        ["perform", name] => {
            let work = Work::ALL.into_iter().find(|work| work.name() == name);
            work.into_iter().for_each(instructions::perform);
        }
        _ => one_thread(&wanted),
    }
    ExitCode::SUCCESS
}

/// Measures each kind of work, or those in `wanted`, on one thread.
fn one_thread(wanted: &[String]) {
    println!("{:32} {:>12} {:>14}", "one thread", "us each", "a second");
    for work in Work::ALL {
        if !wanted.is_empty() && !wanted.iter().any(|word| work.name() == word) {
            continue;
        }
        let median = median(work, PACE);
        println!("{:32} {median:12.3} {:14.0}", work.name(), 1e6 / median);
    }
}

/// Measures one kind of work with few users and with many.
fn users(work: Work) {
    println!("{:20} {:>12} {:>12}", work.name(), "users", "us each");
    for users in USERS {
        println!("{:20} {users:12} {:12.3}", "", median(work, Pace { users, ..PACE }));
    }
}

/// The duration of one operation in microseconds, the median of all rounds.
fn median(work: Work, pace: Pace) -> f64 {
    let server = clients::server(work, pace.users);
    let mut client = Client::new(&server, work, 0, pace, TOGETHER, || ());
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let spent: Duration = (0..BATCHES).map(|_| client.batch(TOGETHER)).sum();
            spent.as_secs_f64() * 1e6 / (BATCHES * TOGETHER) as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// Measures on several threads, each with its own users, and counts lock contentions. The clocks of
/// the threads must not be far apart, or the timers of one thread would run on the transactions of
/// another. So all threads do a batch of the same time, and wait for each other.
fn threads(work: Work) {
    println!(
        "{:20} {:>8} {:>14} {:>14} {:>10}",
        work.name(),
        "threads",
        "us each",
        "locks",
        "contended"
    );
    for count in THREADS {
        let server = clients::server(work, PACE.users);
        let barrier = Arc::new(Barrier::new(count));
        let threads: Vec<_> = (0..count)
            .map(|index| {
                let (server, barrier) = (Arc::clone(&server), Arc::clone(&barrier));
                std::thread::spawn(move || {
                    let together = (TOGETHER / count).max(1);
                    let rate = PACE.rate * together as u64 / TOGETHER as u64;
                    let pace = Pace { users: PACE.users / count, rate };
                    let mut client = Client::new(&server, work, index, pace, together, || {
                        barrier.wait();
                    });
                    if barrier.wait().is_leader() {
                        lock::begin();
                    }
                    barrier.wait();
                    let mut spent = Duration::ZERO;
                    for _ in 0..THREAD_BATCHES {
                        spent += client.batch(together);
                        barrier.wait();
                    }
                    spent.as_secs_f64() * 1e6 / (THREAD_BATCHES * together) as f64
                })
            })
            .collect();
        let costs: Vec<f64> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        let (taken, contended) = lock::end();
        println!(
            "{:20} {count:8} {:14.3} {taken:14} {:9.3}%",
            "",
            costs.iter().sum::<f64>() / costs.len() as f64,
            contended as f64 * 100.0 / taken.max(1) as f64,
        );
    }
}
