//! The content of a backup: read line by line, and checked before anything is stored.

use super::check;
use super::entry::{Configuration, Entry, FileName, Head, Part};
use super::voicemail::{self, NewMessage};
use crate::output::printable;
use sip::Instant;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io::{self, BufRead, Read};
use std::sync::Arc;
use store::{PanelSet, PanelToken, Replacement, StoredCall, UserServices, UserSet};

/// The maximum length of a line in bytes: of a message of ten minutes.
const MAX_LINE: u64 = 16 << 20;
/// The maximum length of a text in an error, in characters.
const MAX_TOLD: usize = 300;

/// A fault of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The number of the line, from 1.
    line: u64,
    /// The column in the line, from 1, if it is known.
    column: Option<usize>,
    text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the backup cannot be used: line {}", self.line)?;
        if let Some(column) = self.column {
            write!(f, ", column {column}")?;
        }
        let told: String = printable(&self.text).chars().take(MAX_TOLD).collect();
        write!(f, ": {told}")
    }
}

/// The content of a backup.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) head: Head,
    /// The data of the database.
    pub(super) data: Replacement,
    pub(super) configuration: Option<Configuration>,
    pub(super) certificates: BTreeMap<FileName, String>,
    pub(super) messages: Vec<NewMessage>,
}

/// Reads a backup.
///
/// # Errors
/// [`Fault`] if it is malformed, not whole, or contradicts itself.
pub(super) fn read(input: &mut dyn BufRead) -> Result<Content, Fault> {
    let mut reader = Reader::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        reader.lines += 1;
        let number = reader.lines;
        let fault = |column, text: String| Fault { line: number, column, text };
        let failed = |error: io::Error| fault(None, format!("it cannot be read: {error}"));
        let length = input.take(MAX_LINE + 1).read_until(b'\n', &mut line).map_err(failed)?;
        if length == 0 {
            return reader.end().map_err(|text| fault(None, text));
        }
        if length as u64 > MAX_LINE {
            return Err(fault(None, format!("the line has more than {MAX_LINE} bytes")));
        }
        let entry = serde_json::from_slice(&line).map_err(|error| {
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            fault(Some(error.column()).filter(|column| *column > 0), text.to_owned())
        })?;
        reader.take(entry).map_err(|text| fault(None, text))?;
    }
}

/// A backup that is being read.
#[derive(Debug, Default)]
struct Reader {
    lines: u64,
    head: Option<Head>,
    is_at_end: bool,
    users: UserSet,
    services: Vec<UserServices>,
    panel: PanelSet,
    calls: Vec<StoredCall>,
    configuration: Option<Configuration>,
    certificates: BTreeMap<FileName, String>,
    messages: Vec<NewMessage>,
    /// The users with login names, by domain and login name.
    logins: HashMap<(Arc<str>, String), String>,
    /// The names of each kind of line.
    names: HashSet<(&'static str, String)>,
    hashes: BTreeSet<[u8; 32]>,
    last_domain: Arc<str>,
}

impl Reader {
    fn take(&mut self, entry: Entry) -> Result<(), String> {
        if self.is_at_end {
            return Err("there is a line behind the end".to_owned());
        }
        if let Some(part) = entry.part() {
            let Some(head) = &self.head else {
                return Err(
                    "this is no backup: expected a line with the member `backup`".to_owned()
                );
            };
            if !head.parts.contains(&part) {
                return Err(format!("the head does not name the part {}", part.name()));
            }
        }
        match entry {
            Entry::Backup(_) if self.head.is_some() => return Err("a second head".to_owned()),
            Entry::Backup(head) => {
                check::head(&head)?;
                self.head = Some(head);
            }
            Entry::Realm(realm) => {
                check::realm(&realm)?;
                self.once("realm of", &realm.domain)?;
                self.users.realms.insert(realm.domain, realm.realm);
            }
            Entry::User(stored) => {
                check::user(&stored)?;
                self.once("user", &format!("{}@{}", stored.name, stored.domain))?;
                let user = stored.user(&mut self.last_domain);
                self.login(&user.name, &user.name)?;
                if let Some(auth) = &stored.authentication {
                    self.login(&auth.name, &user.name)?;
                }
                self.users.users.push(user);
            }
            Entry::Services(services) => {
                check::services(&services)?;
                let address = format!("{}@{}", services.name, services.domain);
                self.once("call services of", &address)?;
                self.services.push(services.into());
            }
            Entry::Account(account) => {
                check::account(&account)?;
                self.once("account", &account.name)?;
                self.panel.accounts.push(account.stored());
            }
            Entry::Token(token) => {
                check::token(&token)?;
                self.once("token", &token.name)?;
                let token = PanelToken::from(token);
                if !self.hashes.insert(token.hash) {
                    return Err(format!("the token {} is there under two names", token.name));
                }
                self.panel.tokens.push(token);
            }
            Entry::Configuration(configuration) => {
                check::configuration(&configuration)?;
                self.once("configuration", "")?;
                self.configuration = Some(configuration);
            }
            Entry::Certificate(file) => {
                check::certificate(&file)?;
                if self.certificates.insert(file.name, file.text).is_some() {
                    return Err("a file of a certificate is there twice".to_owned());
                }
            }
            Entry::Record(record) => {
                check::record(&record)?;
                self.calls.push(StoredCall {
                    ended: Instant::from_micros(record.ended),
                    parties: record.parties,
                    led_to: record.led_to,
                    number_of: record.number_of,
                    is_failed: record.failed,
                    record: record.record,
                });
            }
            Entry::Message(message) => {
                check::message(&message)?;
                self.once("message", &format!("{} of {}", message.id, message.mailbox))?;
                self.messages.push(voicemail::read(&message)?);
            }
            Entry::End(_) if self.head.is_none() => return Err("this is no backup".to_owned()),
            Entry::End(end) if end.lines + 1 != self.lines => {
                return Err(format!(
                    "the backup is not whole: it had {} lines before this one, {} are there",
                    end.lines,
                    self.lines - 1
                ));
            }
            Entry::End(_) => self.is_at_end = true,
        }
        Ok(())
    }

    /// Notes a name that may be there once.
    fn once(&mut self, kind: &'static str, name: &str) -> Result<(), String> {
        match self.names.insert((kind, name.to_owned())) {
            true => Ok(()),
            false => Err(format!("the {kind} {name} is there twice")),
        }
    }

    /// Notes that the user `owner` of the last domain logs in as `login`.
    fn login(&mut self, login: &str, owner: &str) -> Result<(), String> {
        let key = (Arc::clone(&self.last_domain), login.to_owned());
        match self.logins.insert(key, owner.to_owned()) {
            Some(other) if other != owner => {
                Err(format!("the users {other} and {owner} both log in as {login}"))
            }
            _ => Ok(()),
        }
    }

    fn end(self) -> Result<Content, String> {
        let head = match self.head {
            Some(head) if self.is_at_end => head,
            Some(_) => return Err("the backup is not whole: its end is missing".to_owned()),
            None => return Err("the backup is empty".to_owned()),
        };
        let has = |part| head.parts.contains(&part);
        let data = Replacement {
            users: has(Part::Users).then_some(self.users),
            services: has(Part::Services).then_some(self.services),
            panel: has(Part::Panel).then_some(self.panel),
            calls: self.calls,
        };
        Ok(Content {
            head,
            data,
            configuration: self.configuration,
            certificates: self.certificates,
            messages: self.messages,
        })
    }
}

#[cfg(test)]
mod tests;
