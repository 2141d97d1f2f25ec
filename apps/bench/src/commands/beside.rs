//! A load beside another one: registrations beside calls with media, or calls beside bursts of
//! registrations. A process of its own, with users and an address of its own (row D8 of
//! docs/sources.md).

use super::error::CommandError;
use super::systems::Started;
use crate::cli::load::LoadArgs;
use crate::cli::values::Shape;
use crate::record::{Operation, Record, Run};
use crate::report;
use crate::users::Users;
use sip::Duration;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use tempfile::NamedTempFile;

/// The address of the load to a server on loopback.
const OWN_LOOPBACK: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The load of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct BesideLoad<'a> {
    pub(super) operation: Operation,
    pub(super) rate: f64,
    pub(super) shape: Option<&'a Shape>,
    /// The local address; by default another one than that of the main load, if the server is on
    /// loopback.
    pub(super) from: Option<IpAddr>,
    pub(super) length: Duration,
    /// The users of the main load, which come first, and the most that take part after them.
    pub(super) taken: usize,
    pub(super) most: usize,
}

/// The process that makes a load during the main one.
pub(super) struct Beside {
    child: Child,
    record: NamedTempFile,
    /// The file of the users; it is removed at the end.
    _users: NamedTempFile,
}

/// Returns a command error for an I/O error of the process.
fn failed(error: io::Error) -> CommandError {
    CommandError::Beside(error)
}

impl Beside {
    /// Starts the process. `main` has the options of the main load, and `all` its users, with those
    /// of the process.
    ///
    /// # Errors
    /// [`CommandError`] if there are too few users, or the process does not start.
    pub(super) fn start(
        main: &LoadArgs,
        all: &Users,
        started: &Started,
        load: BesideLoad<'_>,
    ) -> Result<Self, CommandError> {
        if all.len() < load.taken + 2 {
            let text = "a load beside another one needs more users than the other one takes";
            return Err(CommandError::Usage(text.to_owned()));
        }
        let users = write_users(all, &load).map_err(failed)?;
        let record = tempfile::Builder::new().suffix(".json").tempfile().map_err(failed)?;
        let target = started.target.address;
        let from = load.from.or_else(|| match target.ip() {
            IpAddr::V4(ip) if ip.is_loopback() => Some(OWN_LOOPBACK.into()),
            _ => None,
        });
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .args(["run", "--operation", load.operation.name(), "--quiet", "--warmup", "0"])
            .args(["--tail", "0", "--settle", "0", "--no-probe", "--workers", "1"])
            .arg("--target")
            .arg(started.target.to_string())
            .arg("--domain")
            .arg(&started.domain)
            .arg("--rate")
            .arg(load.rate.to_string())
            .arg("--duration")
            .arg(format!("{}us", load.length.as_micros()))
            .arg("--user-file")
            .arg(users.path())
            .arg("--max-lag")
            .arg(format!("{}us", main.detail.max_lag.as_micros()))
            .arg("--max-other-load")
            .arg(main.detail.max_other_load.to_string())
            .arg("-o")
            .arg(record.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if main.users.auth {
            command.arg("--auth");
        }
        if let Some(shape) = load.shape {
            command.arg("--shape").arg(shape.to_string());
        }
        if let Some(from) = from {
            command.arg("--from").arg(from.to_string());
        }
        let child = command.spawn().map_err(failed)?;
        Ok(Self { child, record, _users: users })
    }

    /// Waits for the end of the process, and returns its run.
    ///
    /// # Errors
    /// [`CommandError`] if it has measured nothing.
    pub(super) fn finish(mut self) -> Result<Run, CommandError> {
        let status = self.child.wait().map_err(failed)?;
        let records = report::read(self.record.path());
        let run = records.ok().and_then(|mut records: Vec<Record>| records.pop()?.runs.pop());
        run.ok_or_else(|| failed(io::Error::other(format!("no result, {status}"))))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // It has ended, unless the load beside it has failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the users of the load to a file.
fn write_users(all: &Users, load: &BesideLoad<'_>) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    for user in load.taken..all.len().min(load.taken + load.most) {
        let (name, password) = all.get(user);
        writeln!(file, "{name}:{password}")?;
    }
    file.flush()?;
    Ok(file)
}

/// Returns the label of a load of `length` beside that of `label`.
pub(super) fn label(kind: &str, label: &str, length: Duration) -> String {
    format!("{kind} beside {label}, {} s", length.as_secs())
}
