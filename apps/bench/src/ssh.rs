//! Other machines, through `ssh`.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The environment variable with the command to use for `ssh`, and its options, with blanks
/// between.
pub(crate) const SSH_VARIABLE: &str = "BAREBELL_SSH";

/// The command to use for `ssh`, and its options.
pub(crate) fn words() -> Vec<String> {
    let variable = std::env::var(SSH_VARIABLE).unwrap_or_default();
    let words: Vec<String> = variable.split_ascii_whitespace().map(str::to_owned).collect();
    if words.is_empty() { vec!["ssh".to_owned()] } else { words }
}

/// Whether `text` can stand for a host, or within single quotes, on the command line of `ssh`: it
/// is nothing that is taken for an option, and ends no quotes.
pub(crate) fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+@%:".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

/// The name of a host as `ssh` takes it, from how it is written on our command line: an IPv6
/// address may stand in brackets. `None` if it is none.
pub(crate) fn host(text: &str) -> Option<&str> {
    let host = text.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(text);
    is_plain(host).then_some(host)
}

/// The command that has `what` done by the shell of `host`, by the command `ssh`. It asks nothing,
/// and ends within some 15 seconds when the host is no longer there.
pub(crate) fn command(ssh: &[String], host: &str, what: &str) -> Command {
    let program = ssh.first().map_or("ssh", String::as_str);
    let mut command = Command::new(program);
    command.args(ssh.iter().skip(1)).args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
    command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "--", host, what]);
    // An interrupt from the terminal is for us, who end it in an orderly way.
    command.process_group(0);
    command
}

/// Why `ssh` did not start, and what to do.
pub(crate) fn not_started(ssh: &[String], error: &io::Error) -> String {
    let program = ssh.first().map_or("ssh", String::as_str);
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "; install it: sudo apt-get install openssh-client",
        _ => "",
    };
    format!("cannot run {program}: {error}{hint}")
}

/// What has to work for a host to be reached.
pub(crate) fn advice(host: &str) -> String {
    format!(
        "`ssh -o BatchMode=yes {host} true` has to work without a question; {SSH_VARIABLE} names \
         another ssh command"
    )
}
