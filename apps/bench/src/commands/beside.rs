//! Registrations beside calls with media: a process of its own, with users and an address of its
//! own (row D8 of docs/sources.md).

use super::error::CommandError;
use super::systems::Started;
use crate::cli::media::MediaArgs;
use crate::record::{Record, Run};
use crate::report;
use crate::users::Users;
use crate::voice::Plan;
use sip::Duration;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use tempfile::NamedTempFile;

/// The address of the registrations to a server on loopback.
const OWN_LOOPBACK: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The most users that register.
const MOST: usize = 10_000;

/// The process that registers users during a load.
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
    /// Starts the process, if the command line asks for registrations.
    ///
    /// # Errors
    /// [`CommandError`] if there is no server or there are too few users, or the process does not
    /// start.
    pub(super) fn start(
        args: &MediaArgs,
        started: Option<&Started>,
        plan: &Plan,
    ) -> Result<Option<Self>, CommandError> {
        let Some(rate) = args.registrations else { return Ok(None) };
        let usage = |text: &str| Err(CommandError::Usage(text.to_owned()));
        let Some(started) = started.filter(|_| args.load.to.is_none()) else {
            return usage("--registrations needs a server (--target or --sut)");
        };
        let all = args.load.users.users()?;
        let taken = plan.users.len() * 2;
        if all.len() < taken + 2 {
            return usage("--registrations needs more --users than the calls take");
        }
        let users = write_users(&all, taken).map_err(failed)?;
        let record = tempfile::Builder::new().suffix(".json").tempfile().map_err(failed)?;
        let target = started.target.address;
        let from = args.registrations_from.or_else(|| match target.ip() {
            IpAddr::V4(ip) if ip.is_loopback() => Some(OWN_LOOPBACK.into()),
            _ => None,
        });
        let length = plan.warmup + plan.duration;
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .args(["run", "--operation", "register-update", "--quiet", "--warmup", "0"])
            .args(["--tail", "0", "--settle", "0", "--no-probe", "--workers", "1"])
            .arg("--target")
            .arg(started.target.to_string())
            .arg("--domain")
            .arg(&started.domain)
            .arg("--rate")
            .arg(rate.to_string())
            .arg("--duration")
            .arg(format!("{}us", length.as_micros()))
            .arg("--user-file")
            .arg(users.path())
            .arg("--max-lag")
            .arg(format!("{}us", args.load.detail.max_lag.as_micros()))
            .arg("--max-other-load")
            .arg(args.load.detail.max_other_load.to_string())
            .arg("-o")
            .arg(record.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        if args.load.users.auth {
            command.arg("--auth");
        }
        if let Some(shape) = &args.registrations_shape {
            command.arg("--shape").arg(shape.to_string());
        }
        if let Some(from) = from {
            command.arg("--from").arg(from.to_string());
        }
        let child = command.spawn().map_err(failed)?;
        Ok(Some(Self { child, record, _users: users }))
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

/// Writes the users after the first `taken` ones to a file.
fn write_users(all: &Users, taken: usize) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new()?;
    for user in taken..all.len().min(taken + MOST) {
        let (name, password) = all.get(user);
        writeln!(file, "{name}:{password}")?;
    }
    file.flush()?;
    Ok(file)
}

/// Returns the label of registrations beside the calls of `label`.
pub(super) fn label(label: &str, length: Duration) -> String {
    format!("registrations beside {label}, {} s", length.as_secs())
}
