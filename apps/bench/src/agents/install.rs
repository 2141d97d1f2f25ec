//! The installation on another machine: the program is present there, or is copied through `ssh`.

use super::error::AgentError;
use super::place::Place;
use crate::ssh;
use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The script that queries the other machine: its system, the presence of this version in its PATH,
/// and the presence of an earlier copy. Each line has a mark, since shells may print other text.
/// The arguments are the name of the copy and its length. It has no single quotes, since it is put
/// between such.
const ASK: &str = r#"
echo "barebell system $(uname -sm)"
found=$(barebell-bench --version 2>/dev/null) && echo "barebell found $found"
copy=${TMPDIR:-/tmp}/$1
if [ -f "$copy" ] && [ ! -h "$copy" ] && [ -O "$copy" ] && [ "$(wc -c < "$copy")" -eq "$2" ]; then
    echo "barebell copy $copy"
fi
"#;

/// The script that reads the program from standard input. The file name is unpredictable; a copy
/// that is kept gets the name that is queried.
const TAKE: &str = r#"
umask 077
copy=$(mktemp "${TMPDIR:-/tmp}/$1.XXXXXX") || exit 1
cat > "$copy" && [ "$(wc -c < "$copy")" -eq "$2" ] && chmod 700 "$copy" || { rm -f "$copy"; exit 1; }
if [ "$3" = keep ]; then mv -f "$copy" "${TMPDIR:-/tmp}/$1" && copy=${TMPDIR:-/tmp}/$1; fi
echo "barebell copy $copy"
"#;

/// This program, for machines without it.
pub(super) struct Program {
    path: std::path::PathBuf,
    /// The name of copies: version and checksum.
    name: String,
    length: u64,
}

impl Program {
    /// Returns the running program.
    pub(super) fn ours() -> std::io::Result<Self> {
        let path = std::env::current_exe()?;
        let mut file = File::open(&path)?;
        let mut sum = crc32fast::Hasher::new();
        let mut buffer = vec![0; 1 << 20];
        let mut length = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => {
                    sum.update(&buffer[..count]);
                    length += count as u64;
                }
            }
        }
        let name = format!("barebell-bench-{}-{:08x}", env!("CARGO_PKG_VERSION"), sum.finalize());
        Ok(Self { path, name, length })
    }

    /// Returns the command that runs an agent at `place`. The program is copied there first if
    /// necessary; the copy removes itself unless `is_kept`.
    pub(super) fn bring(
        &self,
        place: &Place,
        is_kept: bool,
        ending: &AtomicBool,
    ) -> Result<Command, AgentError> {
        let Place::Ssh(host) = place else {
            let mut command = Command::new(&self.path);
            command.arg("agent");
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            return Ok(command);
        };
        let ssh = ssh::words();
        let run = |script: &str, last: &str, input: Stdio| {
            let Self { name, length, .. } = self;
            let what = format!("exec sh -c '{script}' sh {name} {length} {last}");
            let said = said(&ssh, ssh::command(&ssh, host, &what), input, ending);
            said.map_err(|reason| match ending.load(Ordering::Relaxed) {
                true => AgentError::Stopped,
                false => AgentError::Start(place.clone(), reason),
            })
        };
        let there = run(ASK, "", Stdio::null())?;
        let value = |text: &str, key: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(key));
            found.map(|value| value.trim().to_owned())
        };
        let this = concat!("barebell-bench ", env!("CARGO_PKG_VERSION"));
        let start = |program: &str, options: &str| {
            ssh::command(&ssh, host, &format!("exec {program} agent{options}"))
        };
        if value(&there, "barebell found ").as_deref() == Some(this) {
            return Ok(start("barebell-bench", ""));
        }
        let ours = our_system();
        let theirs = value(&there, "barebell system ").unwrap_or_default();
        if theirs != ours {
            let place = place.clone();
            return Err(AgentError::Kind { place, theirs, ours });
        }
        let copy = match value(&there, "barebell copy ") {
            Some(copy) if is_kept => copy,
            _ => {
                let file = File::open(&self.path)
                    .map_err(|error| AgentError::Start(place.clone(), error.to_string()))?;
                let taken = run(TAKE, if is_kept { "keep" } else { "" }, file.into())?;
                value(&taken, "barebell copy ").ok_or_else(|| {
                    let reason = "the program could not be copied there".to_owned();
                    AgentError::Start(place.clone(), reason)
                })?
            }
        };
        // The folder for temporary files must not contain shell syntax either.
        if !copy.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c)) {
            let reason = format!("no program can be started at {copy}");
            return Err(AgentError::Start(place.clone(), reason));
        }
        Ok(start(&copy, if is_kept { "" } else { " --remove" }))
    }
}

/// Returns operating system and processor architecture, as `uname -sm` prints them.
fn our_system() -> String {
    nix::sys::utsname::uname().map_or_else(
        |_| String::new(),
        |name| format!("{} {}", name.sysname().to_string_lossy(), name.machine().to_string_lossy()),
    )
}

/// Runs `command` and returns its output, or the reason of its failure.
fn said(
    ssh: &[String],
    mut command: Command,
    input: Stdio,
    ending: &AtomicBool,
) -> Result<String, String> {
    let mut child = command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| ssh::not_started(ssh, &error))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let out = scope.spawn(|| text(out));
        let err = scope.spawn(|| text(err));
        let status = loop {
            match child.try_wait() {
                Ok(None) if !ending.load(Ordering::Relaxed) => {
                    thread::sleep(Duration::from_millis(5));
                }
                Ok(None) => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
                Ok(Some(status)) => break Some(status),
                Err(_) => break None,
            }
        };
        let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
        match status {
            Some(status) if status.success() => Ok(out),
            Some(status) if err.is_empty() => Err(format!("ssh has ended with {status}")),
            _ => Err(err),
        }
    })
}

/// Returns the text from a pipe, up to a limit.
fn text(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        // The text before a failure is kept.
        let _ = from.by_ref().take(1 << 16).read_to_end(&mut bytes);
        let _ = std::io::copy(&mut from, &mut std::io::sink());
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
