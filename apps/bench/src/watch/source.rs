//! The source of readings: this machine's `/proc`, or that of another machine through `ssh`.

use super::error::WatchError;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// The timeout of a reading of another machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// The limit of a reading of another machine in bytes.
const LONGEST: usize = 64 << 20;

/// The script on the other machine, for any POSIX shell. For each line of its input, it prints the
/// files of the processes as `path:line`, then a line `end`. A line `full` requests memory and
/// sockets too. Its arguments are process ids, or the name of processes. It has no single quotes,
/// since it is put between such.
const SCRIPT: &str = r#"
LC_ALL=C; export LC_ALL
case "$1" in
*[!0-9\ ]*)
    roots=
    for folder in /proc/[0-9]*; do
        name=; { read -r name < "$folder/comm"; } 2>/dev/null
        [ "$name" = "$1" ] && roots="$roots ${folder#/proc/}"
    done ;;
*) roots=$1 ;;
esac
echo "roots:$roots"; echo end
set -- $roots; first=$1
while read -r what; do
    all=; set -- $roots
    while [ $# -gt 0 ]; do
        next=
        for pid in "$@"; do
            case " $all " in *" $pid "*) continue ;; esac
            [ -r "/proc/$pid/stat" ] || continue
            all="$all $pid"
            for file in /proc/$pid/task/*/children; do
                found=; { read -r found < "$file"; } 2>/dev/null
                next="$next $found"
            done
        done
        set -- $next
    done
    files=; statuses=; folders=
    for pid in $all; do
        files="$files /proc/$pid/stat /proc/$pid/task/*/schedstat"
        statuses="$statuses /proc/$pid/task/*/status"
        folders="$folders /proc/$pid/fd"
        [ "$what" = full ] && files="$files /proc/$pid/smaps_rollup"
    done
    grep -s "" $files /proc/$first/net/dev /dev/null
    grep -s -e ctxt_switches -e VmRSS $statuses /dev/null
    if [ "$what" = full ]; then
        grep -s "^cpu[0-9]" /proc/stat /dev/null
        ls -l $folders 2>/dev/null | grep socket:
        grep -sv " 0 *$" /proc/$first/net/udp /proc/$first/net/udp6
    fi
    echo end
done
"#;

/// A source of readings.
#[derive(Debug)]
pub(super) enum Source {
    Local(Vec<i32>),
    Remote(Remote),
}

impl Source {
    /// Returns a reading as lines of the form `path:line`; a full one has memory and sockets.
    pub(super) fn read(&mut self, is_full: bool) -> Result<String, WatchError> {
        match self {
            Self::Local(roots) => Ok(read_local(roots, is_full)),
            Self::Remote(remote) => remote.read(is_full),
        }
    }
}

/// Returns true if the process exists and is no zombie.
pub(super) fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it may contain any character.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Reads the same files as the script, but only the needed ones of threads.
pub(super) fn read_local(roots: &[i32], is_full: bool) -> String {
    let mut text = String::new();
    let mut append = |path: &str, wanted: &dyn Fn(&str) -> bool| {
        // Files of ended processes are skipped.
        if let Ok(content) = fs::read_to_string(path) {
            for line in content.lines().filter(|line| wanted(line)) {
                let _ = writeln!(text, "{path}:{line}");
            }
        }
    };
    let any = |_: &str| true;
    let mut todo = roots.to_vec();
    let mut seen = BTreeSet::new();
    while let Some(pid) = todo.pop() {
        if !seen.insert(pid) {
            continue;
        }
        append(&format!("/proc/{pid}/stat"), &any);
        for thread in entries(&format!("/proc/{pid}/task")) {
            let children = fs::read_to_string(format!("{thread}/children")).unwrap_or_default();
            todo.extend(
                children.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()),
            );
            append(&format!("{thread}/schedstat"), &any);
            append(&format!("{thread}/status"), &|line| {
                line.contains("ctxt_switches") || line.starts_with("VmRSS")
            });
        }
        if is_full {
            append(&format!("/proc/{pid}/smaps_rollup"), &|line| line.starts_with("Pss:"));
        }
    }
    let Some(first) = roots.first() else { return text };
    append(&format!("/proc/{first}/net/dev"), &any);
    if is_full {
        append("/proc/stat", &|line| line.starts_with("cpu"));
        for family in ["udp", "udp6"] {
            append(&format!("/proc/{first}/net/{family}"), &|line| {
                !line.trim_end().ends_with(" 0")
            });
        }
        for pid in seen {
            for descriptor in entries(&format!("/proc/{pid}/fd")) {
                if let Ok(target) = fs::read_link(&descriptor)
                    && target.as_os_str().as_encoded_bytes().starts_with(b"socket:")
                {
                    let _ = writeln!(text, "{}", target.display());
                }
            }
        }
    }
    text
}

fn entries(folder: &str) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(Path::new(folder)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.path().to_str().map(str::to_owned))
}

/// A shell on another machine.
#[derive(Debug)]
pub(super) struct Remote {
    ssh: Child,
    requests: ChildStdin,
    replies: Receiver<String>,
    host: String,
}

impl Remote {
    /// Starts the script on `host` through `ssh`, for processes by id or by name, and returns it
    /// with the ids.
    pub(super) fn open(
        ssh: &[String],
        host: &str,
        what: &str,
    ) -> Result<(Self, Vec<i32>), WatchError> {
        let failed = |error: std::io::Error| {
            WatchError::Ssh(host.to_owned(), crate::ssh::not_started(ssh, &error))
        };
        let script = format!("exec sh -c '{SCRIPT}' sh '{what}'");
        let mut command = crate::ssh::command(ssh, host, &script);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(std::io::Error::other("it has no standard input and output")));
        };
        let (sender, replies) = sync_channel(4);
        thread::spawn(move || {
            let mut lines = BufReader::new(output);
            let mut text = String::new();
            loop {
                let begin = text.len();
                // The limit also holds for a line without an end.
                let left = u64::try_from(LONGEST.saturating_sub(begin)).unwrap_or(0);
                if !matches!(lines.by_ref().take(left).read_line(&mut text), Ok(1..)) {
                    break;
                }
                if &text[begin..] == "end\n" {
                    text.truncate(begin);
                    if sender.send(std::mem::take(&mut text)).is_err() {
                        break;
                    }
                }
            }
        });
        let mut remote = Self { ssh: child, requests, replies, host: host.to_owned() };
        let roots = remote.reply()?;
        let roots = roots.lines().find_map(|line| line.strip_prefix("roots:")).unwrap_or("");
        let roots: Vec<i32> = roots.split(' ').filter_map(|pid| pid.parse().ok()).collect();
        match roots.is_empty() {
            true => Err(WatchError::NoProcess(host.to_owned(), what.to_owned())),
            false => Ok((remote, roots)),
        }
    }

    fn read(&mut self, is_full: bool) -> Result<String, WatchError> {
        let request = if is_full { "full\n" } else { "more\n" };
        // If writing fails, the reply has the reason.
        let _ = self.requests.write_all(request.as_bytes());
        self.reply()
    }

    fn reply(&mut self) -> Result<String, WatchError> {
        self.replies.recv_timeout(PATIENCE).map_err(|error| {
            let reason = match error {
                RecvTimeoutError::Timeout => format!("no answer in {} s", PATIENCE.as_secs()),
                RecvTimeoutError::Disconnected => self.last_words(),
            };
            WatchError::Ssh(self.host.clone(), reason)
        })
    }

    /// Returns the last output of ssh.
    fn last_words(&mut self) -> String {
        let _ = self.ssh.kill();
        let mut said = Vec::new();
        if let Some(errors) = self.ssh.stderr.take() {
            let _ = errors.take(4096).read_to_end(&mut said);
        }
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        if said.is_empty() { "ssh has ended".to_owned() } else { said }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}
