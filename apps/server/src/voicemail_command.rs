//! `barebell voicemail`: the messages of mailboxes, listed, exported and deleted. A running server
//! notices a change of the files within some seconds.

use crate::cli::{Place, VoicemailCommand};
use crate::failure::{Failure, during};
use crate::output::{Out, printable};
use crate::voicemail::{Files, Message};
use media_server::MessageId;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A message in the list.
#[derive(Serialize)]
struct Row<'m> {
    mailbox: &'m str,
    #[serde(flatten)]
    message: &'m Message,
}

/// Runs `command`.
///
/// # Errors
/// [`Failure`] if the command fails.
pub(crate) fn run(command: &VoicemailCommand, out: &mut Out) -> Result<(), Failure> {
    match command {
        VoicemailCommand::List { user, json, place } => {
            list(&files(place)?, user.as_deref(), *json, out)
        }
        VoicemailCommand::Export { user, id, file, place } => {
            export(&files(place)?, user, *id, file, out)
        }
        VoicemailCommand::Delete { user, id, all, place } => {
            delete(&files(place)?, user, *id, *all, out)
        }
    }
}

fn files(place: &Place) -> Result<Files, Failure> {
    Ok(Files::new(&place.settings()?.data()?, false))
}

fn mailboxes(files: &Files) -> Result<Vec<String>, Failure> {
    files.mailboxes().map_err(during("cannot read the mailboxes"))
}

fn messages(files: &Files, mailbox: &str) -> Result<Vec<Message>, Failure> {
    files.messages(mailbox).map_err(during(format!("cannot read the mailbox {mailbox}")))
}

/// The mailbox of `user`, with or without its domain.
fn mailbox(files: &Files, user: &str) -> Result<String, Failure> {
    let is_it =
        |name: &String| name == user || name.rsplit_once('@').is_some_and(|it| it.0 == user);
    let mut found: Vec<String> = mailboxes(files)?.into_iter().filter(is_it).collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            Err(Failure::message(format!("{user} has no messages: see `barebell voicemail list`")))
        }
        _ => Err(Failure::message(format!(
            "{user} is a user of several domains: expected one of {}",
            found.join(", ")
        ))),
    }
}

fn list(files: &Files, user: Option<&str>, json: bool, out: &mut Out) -> Result<(), Failure> {
    let names = match user {
        Some(user) => vec![mailbox(files, user)?],
        None => mailboxes(files)?,
    };
    for name in names {
        for message in messages(files, &name)? {
            if json {
                out.json(&Row { mailbox: &name, message: &message })?;
                continue;
            }
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(message.at);
            let at = humantime::format_rfc3339_seconds(at);
            let state = if message.heard { "old" } else { "new" };
            let seconds = message.duration().as_secs();
            let claim = if message.proved { "" } else { " (not authenticated)" };
            out.line(&format!(
                "{name}  {}  {at}  {state}  {seconds} s  {}{claim}",
                message.id,
                printable(&message.caller)
            ))?;
        }
    }
    Ok(())
}

fn export(
    files: &Files,
    user: &str,
    id: MessageId,
    file: &Path,
    out: &mut Out,
) -> Result<(), Failure> {
    let name = mailbox(files, user)?;
    known(files, &name, id)?;
    let written = fs::copy(files.sound(&name, id), file);
    written.map_err(during(format!("cannot write {}", file.display())))?;
    out.line(&format!("wrote message {id} of {name} to {}", file.display()))
}

fn delete(
    files: &Files,
    user: &str,
    id: Option<MessageId>,
    all: bool,
    out: &mut Out,
) -> Result<(), Failure> {
    let name = mailbox(files, user)?;
    let ids: Vec<MessageId> = match id {
        Some(id) => vec![known(files, &name, id)?],
        None if all => messages(files, &name)?.iter().map(|message| message.id).collect(),
        None => {
            return Err(Failure::message(
                "expected the number of a message, as in `barebell voicemail list`, or --all",
            ));
        }
    };
    for id in &ids {
        let deleted = files.delete(&name, *id);
        deleted.map_err(during(format!("cannot delete message {id} of {name}")))?;
    }
    out.line(&format!("deleted {} of {name}", ids.len()))
}

/// `id`, if the mailbox has such a message.
fn known(files: &Files, mailbox: &str, id: MessageId) -> Result<MessageId, Failure> {
    match messages(files, mailbox)?.iter().any(|message| message.id == id) {
        true => Ok(id),
        false => Err(Failure::message(format!(
            "{mailbox} has no message {id}: see `barebell voicemail list`"
        ))),
    }
}
