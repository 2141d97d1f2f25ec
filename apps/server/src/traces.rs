//! `barebell trace`.

use crate::access::Access;
use crate::admin::Request;
use crate::admin::ask::Ask;
use crate::calls::running;
use crate::cli::TraceFlags;
use crate::failure::{Failure, during};
use crate::history::user;
use crate::output::{Out, printable};
use crate::screens::aligned;
use crate::trace::{Mark, Target, Traced, Traffic, ladder, pcapng};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// A message in JSON.
#[derive(Serialize)]
struct Line {
    time: String,
    transport: String,
    from: String,
    to: String,
    /// The number of the leg, from 1 on.
    leg: usize,
    message: String,
}

/// Marks calls, shows a traced one, lists them, or ends all traces.
///
/// # Errors
/// [`Failure`] if no server runs, it cannot be accessed, or the file cannot be written.
pub(crate) fn run(flags: &TraceFlags, out: &mut Out) -> Result<(), Failure> {
    let server = || running(&flags.place);
    match flags {
        TraceFlags { end: true, .. } => {
            let ended: Vec<Traced> = rows(server()?, &Request::EndTraces)?;
            out.line(&format!("ended all traces, of {} calls", ended.len()))
        }
        TraceFlags { user: Some(name), .. } => {
            let mark = mark(server()?, Target::User(user(name)), flags)?;
            out.line(&format!("calls of {} are traced {}", printable(name), until(&mark)))
        }
        TraceFlags { call: Some(call), .. } => {
            let messages: Vec<Traffic> = rows(server()?, &Request::Trace { call: call.clone() })?;
            if !messages.is_empty() {
                return show(&messages, flags, out);
            }
            let mark = mark(server()?, Target::Call(call.clone()), flags)?;
            out.line(&format!(
                "no message of call {} has been traced yet; from now on they are, {}",
                printable(call),
                until(&mark)
            ))
        }
        _ => list(flags, out),
    }
}

fn mark(server: Access, target: Target, flags: &TraceFlags) -> Result<Mark, Failure> {
    server.ask(&Request::MarkTrace {
        target,
        seconds: flags.time.as_secs(),
        has_secrets: flags.secrets,
    })
}

fn rows<T: crate::admin::sink::Row>(server: Access, request: &Request) -> Result<Vec<T>, Failure> {
    let mut rows = Vec::new();
    server.list(request, &mut |row| {
        rows.push(row);
        Ok(())
    })?;
    Ok(rows)
}

/// Shows the messages of a call.
fn show(messages: &[Traffic], flags: &TraceFlags, out: &mut Out) -> Result<(), Failure> {
    if let Some(path) = &flags.pcapng {
        write(path, &pcapng::pcapng(messages))?;
        return out.line(&format!("{} messages are in {}", messages.len(), path.display()));
    }
    if !flags.json {
        return out.text(&ladder::ladder(messages));
    }
    messages.iter().try_for_each(|message| {
        let [local, remote] = [message.local, message.remote].map(|end| end.to_string());
        let (from, to) = if message.is_sent { (local, remote) } else { (remote, local) };
        out.json(&Line {
            time: time(message.at),
            transport: message.transport.clone(),
            from,
            to,
            leg: message.leg + 1,
            message: String::from_utf8_lossy(&message.bytes).into_owned(),
        })
    })
}

/// Writes a file for its owner only.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(bytes));
    written.map_err(during(&format!("cannot write {}", path.display())))
}

/// Lists the marks and the traced calls.
fn list(flags: &TraceFlags, out: &mut Out) -> Result<(), Failure> {
    let marks: Vec<Mark> = rows(running(&flags.place)?, &Request::TraceMarks)?;
    let calls: Vec<Traced> = rows(running(&flags.place)?, &Request::Traces)?;
    if flags.json {
        return calls.iter().try_for_each(|call| out.json(call));
    }
    for mark in &marks {
        let target = match &mark.target {
            Target::Call(call) => format!("call {}", printable(call)),
            Target::User(user) => format!("user {}", printable(user)),
        };
        let secrets = if mark.has_secrets { ", with credentials and keys" } else { "" };
        out.line(&format!("traced: {target}, {}{secrets}", until(mark)))?;
    }
    if calls.is_empty() {
        return out.line(match marks.is_empty() {
            true => "nothing is traced; `barebell trace --user NAME` traces the calls of a user",
            false => "no call has been traced yet",
        });
    }
    let head = ["time (UTC)", "caller", "callee", "messages", "call"].map(str::to_owned);
    let cells = calls.iter().map(|call| {
        let [caller, callee] = call.parties.each_ref().map(|party| printable(party));
        let id = call.call_ids.first().map(|id| printable(id)).unwrap_or_default();
        let omitted = match call.omitted {
            0 => String::new(),
            omitted => format!(" ({omitted} more)"),
        };
        let begun = time(call.begun).chars().take(19).collect::<String>().replace('T', " ");
        [begun, caller, callee, format!("{}{omitted}", call.messages), id]
    });
    out.text(&aligned(std::iter::once(head).chain(cells)))
}

fn until(mark: &Mark) -> String {
    format!("until {}", time(mark.until))
}

/// A time of day in microseconds, in UTC (RFC 3339).
fn time(micros: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_micros(micros)).to_string()
}
