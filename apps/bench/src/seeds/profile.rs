//! The functions of a server by the profiler `perf`.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A function with its share of the processor time of its process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Function {
    pub(crate) share: f64,
    pub(crate) object: String,
    pub(crate) name: String,
}

/// Returns the command that runs `program` with its children under the profiler, which writes to
/// `data`.
pub(crate) fn recording(profiler: &Path, data: &Path, program: &Path) -> Command {
    let mut command = Command::new(profiler);
    command.args(["record", "--quiet", "-F", "997", "-o"]).arg(data).arg("--").arg(program);
    command
}

/// Returns the functions of the processes with this name in a profile.
///
/// # Errors
/// The profiler cannot be started or fails.
pub(crate) fn functions(
    profiler: &PathBuf,
    data: &Path,
    process: &str,
) -> io::Result<Vec<Function>> {
    let mut command = Command::new(profiler);
    command.args(["report", "--stdio", "--no-children", "--comm", process]);
    command.args(["-F", "overhead,dso,sym", "-i"]).arg(data);
    let output = command.output()?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(io::Error::other(format!("perf report failed: {printed}")));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads the lines of `perf report`: share of all samples, object, kind in brackets, function.
fn parse(text: &str) -> Vec<Function> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let share = words.next()?.strip_suffix('%')?.parse().ok()?;
        let object = words.next()?.to_owned();
        let name = words.nth(1)?.to_owned();
        Some(Function { share, object, name })
    };
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut functions: Vec<Function> = lines.filter_map(line).collect();
    let whole: f64 = functions.iter().map(|function| function.share).sum();
    functions.iter_mut().for_each(|function| function.share /= whole);
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_processes_with_the_name() {
        let text = "# Total Lost Samples: 0\n#\n     1.50%  kamailio           [.] parse_via\n     \
                    0.50%  [kernel.kallsyms]  [k] udp_sendmsg\n\n";
        let function = |share, object: &str, name: &str| Function {
            share,
            object: object.to_owned(),
            name: name.to_owned(),
        };
        assert_eq!(
            parse(text),
            [
                function(0.75, "kamailio", "parse_via"),
                function(0.25, "[kernel.kallsyms]", "udp_sendmsg"),
            ]
        );
    }
}
