//! SIPp as a child process, beside the generator.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// The program.
pub(crate) const PROGRAM: &str = "sipp";
/// Its local address.
pub(crate) const ADDRESS: &str = "127.0.0.1";

/// Returns the command that makes `count` calls a target at a `rate`, with its files in `folder`.
pub(crate) fn caller(target: SocketAddr, rate: f64, count: u64, folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .arg(target.to_string())
        .args(["-i", ADDRESS, "-r", &format!("{rate:.0}"), "-m", &count.to_string()])
        .args(["-l", "100000", "-nostdin", "-timeout", "60s"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

/// Waits for the end of SIPp. Its calls may have failed.
///
/// # Errors
/// It ended for another reason.
pub(crate) fn wait(mut child: Child) -> io::Result<()> {
    check(child.wait()?)
}

/// Returns an error unless SIPp has made its calls. Some of them may have failed.
///
/// # Errors
/// It ended for another reason.
pub(crate) fn check(status: ExitStatus) -> io::Result<()> {
    match status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(io::Error::other(format!("sipp ended with {status}"))),
    }
}

/// Returns the error of its start; if it is not installed, with the command that installs it.
pub(crate) fn not_started(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(
            error.kind(),
            "there is no sipp here: on Debian, apt-get install sip-tester",
        ),
        _ => error,
    }
}

/// Returns a free port on its address.
///
/// # Errors
/// There is none.
pub(crate) fn free_port() -> io::Result<SocketAddr> {
    UdpSocket::bind((ADDRESS, 0))?.local_addr()
}

/// Returns the CPU time of all children that have been waited for, in microseconds.
///
/// # Errors
/// The kernel does not tell it.
pub(crate) fn cpu_of_children() -> io::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let micros = |time: TimeVal| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64;
    Ok(micros(usage.user_time()) + micros(usage.system_time()))
}
