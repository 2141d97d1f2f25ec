//! The messages of mailboxes in a backup.

use super::entry::VoiceMessage;
use crate::voicemail::{Files, MAX_MESSAGES, Message};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use media_server::{RATE, wav};
use std::fs;
use std::path::Path;

/// A message of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewMessage {
    mailbox: String,
    message: Message,
    /// The WAV file.
    sound: Vec<u8>,
}

/// The message of a line.
///
/// # Errors
/// A message: its sound is no WAV file of this program.
pub(super) fn read(line: &VoiceMessage) -> Result<NewMessage, String> {
    let VoiceMessage { mailbox, id, caller, proved, at, heard, sound } = line;
    let wrong = |error: &dyn std::fmt::Display| {
        format!("the sound of message {id} of {mailbox} is no WAV file of {RATE} Hz: {error}")
    };
    let file = STANDARD.decode(sound).map_err(|error| wrong(&error))?;
    let samples = match wav::read(&file) {
        Ok((RATE, samples)) => samples,
        Ok((rate, _)) => return Err(wrong(&format_args!("it has {rate} Hz"))),
        Err(error) => return Err(wrong(&error)),
    };
    let message = Message {
        id: *id,
        caller: caller.clone(),
        proved: *proved,
        at: *at,
        samples: samples.len() as u64,
        heard: *heard,
    };
    // Bytes of the file beside its samples are not kept.
    Ok(NewMessage { mailbox: mailbox.clone(), message, sound: wav::write(RATE, &samples) })
}

/// Passes all messages in the data directory `data` to `each`, until that returns false.
///
/// # Errors
/// A message: a file cannot be read.
pub(super) fn each(data: &Path, each: &mut dyn FnMut(VoiceMessage) -> bool) -> Result<(), String> {
    let files = Files::new(data, false);
    let failed = |error: std::io::Error| format!("the mailboxes cannot be read: {error}");
    for mailbox in files.mailboxes().map_err(failed)? {
        for message in files.messages(&mailbox).map_err(failed)? {
            let sound = match fs::read(files.sound(&mailbox, message.id)) {
                Ok(sound) => sound,
                // It was deleted meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            let Message { id, caller, proved, at, heard, .. } = message;
            let sound = STANDARD.encode(sound);
            let mailbox = mailbox.clone();
            if !each(VoiceMessage { mailbox, id, caller, proved, at, heard, sound }) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The messages that are not stored yet.
///
/// # Errors
/// A message: a mailbox cannot be read, has another message with the number of one, or would have
/// too many.
pub(super) fn missing<'m>(
    data: &Path,
    messages: &'m [NewMessage],
) -> Result<Vec<&'m NewMessage>, String> {
    let files = Files::new(data, false);
    let mut missing = Vec::new();
    let mut of_mailbox: Vec<&NewMessage> = messages.iter().collect();
    of_mailbox.sort_by(|one, other| one.mailbox.cmp(&other.mailbox));
    for group in of_mailbox.chunk_by(|one, other| one.mailbox == other.mailbox) {
        let mailbox = &group[0].mailbox;
        let stored = files
            .messages(mailbox)
            .map_err(|error| format!("the mailbox {mailbox} cannot be read: {error}"))?;
        let mut count = stored.len();
        for new in group {
            let same = |it: &&Message| it.id == new.message.id;
            match stored.iter().find(same) {
                Some(it) if (it.at, it.samples) == (new.message.at, new.message.samples) => {}
                Some(it) => {
                    return Err(format!(
                        "the mailbox {mailbox} has another message with the number {}",
                        it.id
                    ));
                }
                None => {
                    count += 1;
                    missing.push(*new);
                }
            }
        }
        if count > MAX_MESSAGES {
            return Err(format!(
                "the mailbox {mailbox} would have more than {MAX_MESSAGES} messages"
            ));
        }
    }
    Ok(missing)
}

/// Messages that were stored. Dropping this deletes them again, unless they are kept.
pub(super) struct Added<'m> {
    files: Files,
    messages: Vec<&'m NewMessage>,
}

impl<'m> Added<'m> {
    /// Stores `messages`.
    ///
    /// # Errors
    /// A message: a file cannot be written. Then none is stored.
    pub(super) fn store(data: &Path, messages: &[&'m NewMessage]) -> Result<Self, String> {
        let mut added = Self { files: Files::new(data, true), messages: Vec::new() };
        for new in messages {
            added.files.put(&new.mailbox, &new.message, &new.sound).map_err(|error| {
                format!("a message of {} cannot be written: {error}", new.mailbox)
            })?;
            added.messages.push(new);
        }
        Ok(added)
    }

    /// Keeps the messages.
    pub(super) fn keep(mut self) {
        self.messages.clear();
    }
}

impl Drop for Added<'_> {
    fn drop(&mut self) {
        for new in &self.messages {
            // A file that cannot be removed is a message too many, which its user can delete.
            let _ = self.files.delete(&new.mailbox, new.message.id);
        }
    }
}
