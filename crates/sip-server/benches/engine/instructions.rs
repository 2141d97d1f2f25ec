//! The number of instructions that the engine takes for each kind of work, counted by Valgrind. The
//! load of the machine does not change these figures, so a test can check them.
//!
//! They do not show the cost of caches, memory, a server with many users, locks, or the kernel: see
//! `docs/dev/performance.md`.

use crate::clients::{self, Client, Pace, Work};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};

/// The last recorded counts, with the compiler that was used.
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/engine/instructions.txt");
/// The tolerated increase of a kind of work in percent.
const TOLERANCE: f64 = 5.0;
/// The tolerated increase if another compiler was used.
const TOLERANCE_OTHER_COMPILER: f64 = 20.0;

/// Few users at a low rate, because Valgrind is fifty times slower. The number of transactions is
/// constant after a thousand operations.
const PACE: Pace = Pace { users: 1000, rate: 30 };
const TOGETHER: usize = 100;
const BATCHES: usize = 10;

/// Does `work` for the counting process.
pub(crate) fn perform(work: Work) {
    let server = clients::server(work, PACE.users);
    let mut client = Client::new(&server, work, 0, PACE, TOGETHER, || ());
    client.count();
    for _ in 0..BATCHES {
        client.batch(TOGETHER);
    }
}

/// Counts all kinds of work, and compares them with the recorded counts, or records them.
pub(crate) fn count(record: bool) -> ExitCode {
    let compiler = compiler();
    let mut counted = BTreeMap::new();
    for work in Work::ALL {
        match count_one(work) {
            Ok(count) => counted.insert(work.name(), count),
            Err(problem) => {
                eprintln!("{problem}");
                return ExitCode::FAILURE;
            }
        };
    }
    if record {
        let lines: String =
            counted.iter().map(|(name, count)| format!("{name}: {count:.0}\n")).collect();
        if let Err(problem) = std::fs::write(RECORDED, format!("{compiler}\n{lines}")) {
            eprintln!("{RECORDED} cannot be written: {problem}");
            return ExitCode::FAILURE;
        }
    }
    compare(&compiler, &counted)
}

fn compare(compiler: &str, counted: &BTreeMap<&str, f64>) -> ExitCode {
    let recorded = std::fs::read_to_string(RECORDED).unwrap_or_default();
    let (recorded_compiler, lines) = recorded.split_once('\n').unwrap_or_default();
    let recorded: BTreeMap<&str, f64> = lines
        .lines()
        .filter_map(|line| line.split_once(": "))
        .filter_map(|(name, count)| Some((name, count.parse().ok()?)))
        .collect();
    let tolerance = if recorded_compiler == compiler {
        TOLERANCE
    } else {
        println!(
            "recorded of {recorded_compiler}, counted of {compiler}: compared with indulgence"
        );
        TOLERANCE_OTHER_COMPILER
    };
    println!("{:32} {:>12} {:>12} {:>8}", "instructions", "each", "recorded", "change");
    let mut failed = false;
    for (name, count) in counted {
        let Some(before) = recorded.get(name) else {
            println!("{name:32} {count:12.0} {:>12}", "none");
            failed = true;
            continue;
        };
        let change = (count / before - 1.0) * 100.0;
        println!("{name:32} {count:12.0} {before:12.0} {change:+7.1}%");
        failed |= change > tolerance;
    }
    if failed {
        eprintln!(
            "the engine takes more than {tolerance} % more instructions than {} says, or does work that is not in \
             there; if it is worth that, record it: cargo bench -p barebell-sip-server --bench engine -- instructions record",
            Path::new(RECORDED).file_name().unwrap_or_default().display()
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The instructions of one operation.
fn count_one(work: Work) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|problem| problem.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*Client*counted*")
        .arg(program)
        .args(["perform", work.name()])
        .output()
        .map_err(|problem| format!("valgrind is needed to count instructions: {problem}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    said.lines()
        .find_map(|line| line.split_once("Collected :"))
        .and_then(|(_, count)| count.trim().parse::<f64>().ok())
        .filter(|&count| count > 0.0 && output.status.success())
        .map(|count| count / (BATCHES * TOGETHER) as f64)
        .ok_or_else(|| format!("valgrind did not count {}: {said}", work.name()))
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let version = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    version.unwrap_or_default().trim().to_owned()
}
