//! Counts of instructions for benchmarks, by Valgrind. The load of the machine does not change
//! them.

use std::process::Command;

/// The argument with which [`count`] runs the program.
pub const PERFORM: &str = "perform";

/// Runs this program under Valgrind with the argument [`PERFORM`]. Returns the instructions of each
/// call of `function`, which is called `expected` times. Its name is that of a function in the
/// crate of the program, which must not be inlined.
///
/// # Errors
/// Valgrind is missing, the program failed, or there were fewer calls.
pub fn count(function: &str, expected: usize) -> Result<Vec<u64>, String> {
    let program = std::env::current_exe().map_err(|problem| problem.to_string())?;
    let file = std::env::temp_dir().join(format!("barebell-instructions-{}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--combine-dumps=yes", "--dump-line=no"])
        .arg(format!("--toggle-collect={function}"))
        .arg(format!("--dump-after={function}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .arg(PERFORM)
        .output()
        .map_err(|problem| format!("valgrind is needed to count instructions: {problem}"))?;
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    // A missing file means that nothing was counted, which is reported below.
    let _ = std::fs::remove_file(&file);
    let totals = found.lines().filter_map(|line| line.strip_prefix("totals: "));
    let mut counts: Vec<u64> = totals.filter_map(|total| total.trim().parse().ok()).collect();
    if !output.status.success() || counts.len() < expected {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("valgrind counted {} calls of {expected}: {errors}", counts.len()));
    }
    // The last entry is the end of the program.
    counts.truncate(expected);
    Ok(counts)
}
