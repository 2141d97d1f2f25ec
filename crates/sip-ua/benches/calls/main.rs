//! The work of a user agent for a message, a timer and a call, beside 10 to 10,000 calls.
//!
//! ```text
//! cargo bench -p barebell-sip-ua --bench calls
//! ```
//!
//! Valgrind counts instructions, so the load of the machine does not change the figures. The
//! benchmark fails if the work beside the most calls is more than [`TOLERANCE`] times the work
//! beside the fewest. The times, of a run without Valgrind, are for information.

mod engine;

use engine::Engine;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The numbers of established calls.
const CALLS: [usize; 4] = [10, 100, 1000, 10_000];
/// The maximum ratio of the work beside the most and the fewest calls.
const TOLERANCE: f64 = 1.5;
/// The number of repetitions of each subject.
const REPEATS: usize = 12;

/// A kind of input.
struct Subject {
    name: &'static str,
    /// Runs the subject once. It passes the measured part to the function.
    run: fn(&mut Engine, usize, Measure<'_>),
}

/// Measures a piece of work.
type Measure<'a> = &'a mut dyn FnMut(&mut dyn FnMut());

const SUBJECTS: [Subject; 5] = [
    Subject { name: "a retransmission by timer", run: Engine::retransmit },
    Subject { name: "a request within a call", run: Engine::request_within },
    Subject { name: "a request and its response", run: Engine::ask_within },
    Subject { name: "an incoming call to its end", run: Engine::incoming_call },
    Subject { name: "an outgoing call to its end", run: Engine::outgoing_call },
];

fn main() -> ExitCode {
    if std::env::args().any(|word| word == instructions::PERFORM) {
        perform(&mut |work| counted(work));
        return ExitCode::SUCCESS;
    }
    report()
}

/// Runs all subjects beside all numbers of calls.
fn perform(measure: Measure<'_>) {
    for calls in CALLS {
        let mut engine = Engine::with_calls(calls);
        for subject in &SUBJECTS {
            for repeat in 0..REPEATS {
                (subject.run)(&mut engine, repeat, &mut *measure);
            }
        }
    }
}

/// The function that Valgrind measures, one piece of work per call.
#[inline(never)]
fn counted(work: &mut dyn FnMut()) {
    work();
}

/// Prints the work and the times, and fails if the work grows.
fn report() -> ExitCode {
    let counts = match instructions::count("calls::counted", CALLS.len() * SUBJECTS.len() * REPEATS)
    {
        Ok(counts) => counts,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    };
    let mut times = Vec::new();
    perform(&mut |work| {
        let start = Instant::now();
        work();
        times.push(start.elapsed());
    });
    let columns: String = CALLS.map(|calls| format!("{calls:>12}")).concat();
    println!("{:32}{columns}", "instructions, microseconds");
    let mut grows = false;
    for (place, subject) in SUBJECTS.iter().enumerate() {
        let start = |column: usize| (column * SUBJECTS.len() + place) * REPEATS;
        let mean: [u64; CALLS.len()] = std::array::from_fn(|column| {
            let counts = &counts[start(column)..start(column) + REPEATS];
            counts.iter().sum::<u64>() / REPEATS as u64
        });
        let least: [Duration; CALLS.len()] = std::array::from_fn(|column| {
            let times = &times[start(column)..start(column) + REPEATS];
            times.iter().min().copied().unwrap_or_default()
        });
        let ratio = mean[CALLS.len() - 1] as f64 / mean[0] as f64;
        let mark = if ratio > TOLERANCE { "  grows" } else { "" };
        let columns = mean.map(|count| format!("{count:>12}")).concat();
        println!("{:32}{columns}  {ratio:.2}{mark}", subject.name);
        let micros = |time: Duration| format!("{:>12.1}", time.as_secs_f64() * 1e6);
        println!("{:32}{}", "", least.map(micros).concat());
        grows |= ratio > TOLERANCE;
    }
    if grows {
        eprintln!("the work grows to more than {TOLERANCE} times with the number of calls");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
