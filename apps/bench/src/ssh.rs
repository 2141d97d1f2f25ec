//! Access to other machines through `ssh`.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The environment variable with the `ssh` command and its options, separated by blanks.
pub(crate) const SSH_VARIABLE: &str = "BAREBELL_SSH";

/// Returns the `ssh` command and its options.
pub(crate) fn words() -> Vec<String> {
    let variable = std::env::var(SSH_VARIABLE).unwrap_or_default();
    let words: Vec<String> = variable.split_ascii_whitespace().map(str::to_owned).collect();
    if words.is_empty() { vec!["ssh".to_owned()] } else { words }
}

/// Returns true if `text` is safe as a host, or within single quotes, on the command line of `ssh`:
/// it is no option, and ends no quotes.
pub(crate) fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+@%:".contains(c);
    !text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)
}

/// Returns the host in the form of `ssh`: an IPv6 address on our command line may be in brackets.
/// `None` if the host is invalid.
pub(crate) fn host(text: &str) -> Option<&str> {
    let host = text.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(text);
    is_plain(host).then_some(host)
}

/// Returns the command that runs `what` in the shell of `host` through `ssh`. It is not
/// interactive, and ends within about 15 seconds if the host becomes unreachable.
pub(crate) fn command(ssh: &[String], host: &str, what: &str) -> Command {
    let program = ssh.first().map_or("ssh", String::as_str);
    let mut command = Command::new(program);
    command.args(ssh.iter().skip(1)).args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
    command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "--", host, what]);
    // Only this program receives an interrupt from the terminal, and ends the command in order.
    command.process_group(0);
    command
}

/// Returns the reason why `ssh` did not start, and the remedy.
pub(crate) fn not_started(ssh: &[String], error: &io::Error) -> String {
    let program = ssh.first().map_or("ssh", String::as_str);
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "; install it: sudo apt-get install openssh-client",
        _ => "",
    };
    format!("cannot run {program}: {error}{hint}")
}

/// Returns the requirements for reaching a host.
pub(crate) fn advice(host: &str) -> String {
    format!(
        "`ssh -o BatchMode=yes {host} true` has to work without a question; {SSH_VARIABLE} names \
         another ssh command"
    )
}
