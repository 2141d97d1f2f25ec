//! `barebell trace`.

use crate::access::Access;
use crate::admin::Request;
use crate::admin::ask::Ask;
use crate::calls::running;
use crate::cli::TraceFlags;
use crate::failure::{Failure, during};
use crate::history::user;
use crate::output::{Out, note, printable};
use crate::remote::Remote;
use crate::screens::aligned;
use crate::trace::{FoundRow, Mark, Target, Traced, Traffic, ladder, pcapng};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sip::{HeaderName, Message};
use std::collections::{BTreeMap, HashMap};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A message in JSON.
#[derive(Serialize, Deserialize)]
struct Line {
    time: String,
    transport: String,
    from: String,
    to: String,
    worker: usize,
    /// The number of the call, from 1 on.
    call: usize,
    /// The number of the leg, from 1 on.
    leg: usize,
    message: String,
    /// The number of further bytes that were not kept.
    missing: usize,
}

/// A call with its messages in JSON.
#[derive(Serialize, Deserialize)]
struct CallTrace {
    /// The time of the first message.
    begun: String,
    /// The Call-IDs of the legs.
    call_ids: Vec<String>,
    ladder: String,
    messages: Vec<Line>,
}

/// Shows messages of the last minutes, marks calls, shows a traced one, lists them, or ends all
/// traces.
///
/// # Errors
/// [`Failure`] if no server runs, it cannot be accessed, or the file cannot be written.
pub(crate) fn run(flags: &TraceFlags, out: &mut Out) -> Result<(), Failure> {
    let server = || running(&flags.place);
    match flags {
        TraceFlags { target: Some(target), place, .. } if place.remote.is_used() => {
            elsewhere(target, flags, out)
        }
        TraceFlags { target: Some(target), .. } => recent(server()?, target, flags, out),
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

/// Shows the messages of the last minutes of `target`.
fn recent(server: Access, target: &str, flags: &TraceFlags, out: &mut Out) -> Result<(), Failure> {
    let since = flags.last.and_then(|last| SystemTime::now().checked_sub(last));
    let since = since.and_then(|since| since.duration_since(UNIX_EPOCH).ok());
    let since = since.map_or(0, |since| since.as_micros() as u64);
    let request = Request::Recent { target: target.to_owned(), user: user(target), since };
    let mut messages = Vec::new();
    let mut left_out = 0;
    for row in rows(server, &request)? {
        match row {
            FoundRow::LeftOut(number) => left_out = number,
            FoundRow::Message(message) => messages.push(message),
        }
    }
    if left_out > 0 {
        note(&format!("{left_out} older messages are left out: --last selects a shorter time"));
    }
    match messages.is_empty() && !flags.json {
        true => out.line(&none(target)),
        false => show(&messages, flags, out),
    }
}

/// Shows the messages of the last minutes of `target` at a server elsewhere.
fn elsewhere(target: &str, flags: &TraceFlags, out: &mut Out) -> Result<(), Failure> {
    if flags.last.is_some() || flags.pcapng.is_some() {
        return Err(Failure::message(
            "--last and --pcapng are not possible with --server: the HTTP API has all messages of \
             the last minutes as text",
        ));
    }
    let path = format!("/traces/{}", panel::encoded(target));
    let calls: Vec<CallTrace> = Remote::of(&flags.place)?.list_of(&path)?;
    if flags.json {
        return calls.iter().flat_map(|call| &call.messages).try_for_each(|line| out.json(line));
    }
    if calls.is_empty() {
        return out.line(&none(target));
    }
    for (number, call) in calls.iter().enumerate() {
        if number > 0 {
            out.text("\n")?;
        }
        out.line(&printable(&titled(&call.begun, &call.call_ids)))?;
        call.ladder.lines().try_for_each(|line| out.line(&printable(line)))?;
    }
    Ok(())
}

/// The text if there is no message of `target`.
fn none(target: &str) -> String {
    format!("no message of {} is among those of the last minutes", printable(target))
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

/// Shows messages of calls.
fn show(messages: &[Traffic], flags: &TraceFlags, out: &mut Out) -> Result<(), Failure> {
    if let Some(path) = &flags.pcapng {
        write(path, &pcapng::pcapng(messages))?;
        return out.line(&format!("{} messages are in {}", messages.len(), path.display()));
    }
    if !flags.json {
        return ladders(messages, out);
    }
    messages.iter().try_for_each(|message| out.json(&line(message)))
}

fn line(message: &Traffic) -> Line {
    let [local, remote] = [message.local, message.remote].map(|end| end.to_string());
    let (from, to) = if message.is_sent { (local, remote) } else { (remote, local) };
    Line {
        time: time(message.at),
        transport: message.transport.clone(),
        from,
        to,
        worker: message.worker,
        call: message.call + 1,
        leg: message.leg + 1,
        message: String::from_utf8_lossy(&message.bytes).into_owned(),
        missing: message.missing,
    }
}

/// The messages of each call, in the order of their first messages.
fn by_call(messages: &[Traffic]) -> Vec<Vec<Traffic>> {
    let mut calls: Vec<Vec<Traffic>> = Vec::new();
    let mut places = HashMap::new();
    for message in messages {
        let place = *places.entry(message.call).or_insert(calls.len());
        match calls.get_mut(place) {
            Some(call) => call.push(message.clone()),
            None => calls.push(vec![message.clone()]),
        }
    }
    calls
}

/// The calls of `messages` in JSON, each with its ladder.
pub(crate) fn calls(messages: &[Traffic]) -> Vec<Value> {
    let row = |call: &Vec<Traffic>| CallTrace {
        begun: time(call.first().map_or(0, |message| message.at)),
        call_ids: call_ids(call),
        ladder: ladder::ladder(call),
        messages: call.iter().map(line).collect(),
    };
    by_call(messages)
        .iter()
        .map(|call| serde_json::to_value(row(call)).unwrap_or_default())
        .collect()
}

/// Shows a ladder of each call.
fn ladders(messages: &[Traffic], out: &mut Out) -> Result<(), Failure> {
    for (number, call) in by_call(messages).iter().enumerate() {
        if number > 0 {
            out.text("\n")?;
        }
        out.line(&heading(call))?;
        out.text(&ladder::ladder(call))?;
    }
    Ok(())
}

/// The Call-IDs of the legs of a call.
fn call_ids(call: &[Traffic]) -> Vec<String> {
    let mut legs: BTreeMap<usize, String> = BTreeMap::new();
    for message in call {
        let parsed = Message::parse(&message.bytes).ok();
        let id = parsed.as_ref().and_then(|it| it.value(HeaderName::CallId));
        if let Some(id) = id {
            legs.entry(message.leg).or_insert_with(|| printable(&String::from_utf8_lossy(id)));
        }
    }
    legs.into_values().collect()
}

/// The time of the first message of a call, and the Call-IDs of its legs.
fn heading(call: &[Traffic]) -> String {
    let begun = call.first().map_or(0, |message| message.at);
    titled(&time(begun), &call_ids(call))
}

fn titled(begun: &str, call_ids: &[String]) -> String {
    let ids = call_ids.join(", ");
    format!("{begun} {}", if ids.is_empty() { "no SIP message" } else { &ids })
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
            true => "nothing is marked; `barebell trace --user NAME` marks the calls of a user",
            false => "no marked call has been traced yet",
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
pub(crate) fn time(micros: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_micros(micros)).to_string()
}
