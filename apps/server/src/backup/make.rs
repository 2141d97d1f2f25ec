//! The making of a backup.

use super::entry::{
    Account, CallRecord, Configuration, End, Entry, Head, Part, Realm, StoredServices, StoredUser,
    Token, VERSION,
};
use super::stored::Stored;
use super::{blank, certificates, check, voicemail};
use net::wall_clock;
use serde::{Deserialize, Serialize};
use std::fs;
use store::User;

/// The number of records that are read at once.
const PAGE: usize = 500;

/// A line of a backup, without its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Line(pub(crate) String);

/// Returns true if `line` is a configuration with blank passwords.
pub(crate) fn has_blank_passwords(Line(line): &Line) -> bool {
    line.starts_with("{\"configuration\":")
        && matches!(serde_json::from_str(line), Ok(Entry::Configuration(it)) if it.blank)
}

/// Passes the lines of a backup of `stored` to `each`, until that returns false. `with`
/// are the parts beside the usual ones; without [`Part::Secrets`] the passwords in the
/// configuration are blank. Users that are copied from PostgreSQL are left out: that
/// database has its own backups.
///
/// # Errors
/// A message: data cannot be read, or could not be restored.
pub(crate) fn make(
    stored: &Stored<'_>,
    with: &[Part],
    each: &mut dyn FnMut(Line) -> bool,
) -> Result<(), String> {
    let mut parts = Part::USUAL.to_vec();
    parts.retain(|part| *part != Part::Users || stored.accounts.is_none());
    parts.retain(|part| *part != Part::Configuration || stored.config_file.is_some());
    parts.extend(with.iter().filter(|part| **part != Part::Secrets));
    parts.sort_unstable();
    parts.dedup();
    let mut out = Output { each, lines: 0, is_open: true };
    let program = env!("CARGO_PKG_VERSION").to_owned();
    let made = wall_clock().as_secs();
    out.put(Entry::Backup(Head { version: VERSION, program, made, parts: parts.clone() }))?;
    for part in parts {
        match part {
            Part::Users => users(stored, &mut out)?,
            Part::Services => services(stored, &mut out)?,
            Part::Panel => panel(stored, &mut out)?,
            Part::Configuration => {
                configuration(stored, with.contains(&Part::Secrets), &mut out)?;
            }
            Part::Certificates => {
                let files = certificates::stored(stored.data)?;
                files.into_iter().try_for_each(|file| out.put(Entry::Certificate(file)))?;
            }
            Part::Records => records(stored, &mut out)?,
            Part::Voicemail => {
                let mut result = Ok(());
                voicemail::each(stored.data, &mut |message| {
                    result = out.put(Entry::Message(message));
                    result.is_ok() && out.is_open
                })?;
                result?;
            }
            // They are in the configuration.
            Part::Secrets => {}
        }
    }
    let lines = out.lines;
    out.put(Entry::End(End { lines }))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The lines so far.
struct Output<'e> {
    each: &'e mut dyn FnMut(Line) -> bool,
    lines: u64,
    /// False once the receiver has ended.
    is_open: bool,
}

impl Output<'_> {
    fn put(&mut self, entry: Entry) -> Result<(), String> {
        if self.is_open {
            let line = serde_json::to_string(&entry).map_err(text)?;
            self.is_open = (self.each)(Line(line));
            self.lines += 1;
        }
        Ok(())
    }
}

fn users(stored: &Stored<'_>, out: &mut Output<'_>) -> Result<(), String> {
    for (domain, realm) in stored.storage.realms().map_err(text)? {
        out.put(Entry::Realm(Realm { domain, realm }))?;
    }
    // They are copied, so that a slow reader does not keep the database locked.
    let mut all: Vec<User> = Vec::new();
    stored
        .storage
        .users(None, &mut |user| {
            all.push(user);
            true
        })
        .map_err(text)?;
    all.iter().try_for_each(|user| {
        let user = StoredUser::from(user);
        check::user(&user).map_err(|error| {
            let (name, domain) = (user.name.escape_debug(), user.domain.escape_debug());
            format!("the user {name}@{domain} could not be restored: {error}")
        })?;
        out.put(Entry::User(user))
    })
}

fn services(stored: &Stored<'_>, out: &mut Output<'_>) -> Result<(), String> {
    let mut all = Vec::new();
    stored.storage.services(None, &mut |it| all.push(it)).map_err(text)?;
    all.iter().try_for_each(|it| {
        let services = StoredServices::from(it);
        check::services(&services).map_err(|error| {
            let (name, domain) = (services.name.escape_debug(), services.domain.escape_debug());
            format!("the call services of {name}@{domain} could not be restored: {error}")
        })?;
        out.put(Entry::Services(services))
    })
}

fn panel(stored: &Stored<'_>, out: &mut Output<'_>) -> Result<(), String> {
    let data = stored.storage;
    for account in data.panel_accounts().map_err(text)? {
        let factor = data.second_factor(&account.name).map_err(text)?;
        let name = account.name.clone();
        let account = Account::new(account, factor);
        let account = account.ok_or_else(|| format!("the second factor of {name} is damaged"))?;
        out.put(Entry::Account(account))?;
    }
    let tokens = data.panel_tokens().map_err(text)?;
    tokens.into_iter().try_for_each(|token| out.put(Entry::Token(Token::from(token))))
}

fn configuration(
    stored: &Stored<'_>,
    has_secrets: bool,
    out: &mut Output<'_>,
) -> Result<(), String> {
    let Some(file) = stored.config_file else { return Ok(()) };
    let text = fs::read_to_string(file)
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    if has_secrets {
        return out.put(Entry::Configuration(Configuration { text, blank: false }));
    }
    let blanked = blank::blank(&text).map_err(|error| {
        format!(
            "{}: {error}: mend it, or name its passwords, which takes it as it is (barebell backup \
             --with secrets)",
            file.display()
        )
    })?;
    let blank = blanked != text;
    out.put(Entry::Configuration(Configuration { text: blanked, blank }))
}

fn records(stored: &Stored<'_>, out: &mut Output<'_>) -> Result<(), String> {
    let mut last = 0;
    loop {
        let page = stored.storage.calls_after(last, PAGE).map_err(text)?;
        let Some((id, _)) = page.last() else { return Ok(()) };
        last = *id;
        for (_, call) in page {
            let record = CallRecord {
                ended: call.ended.as_micros(),
                parties: call.parties,
                led_to: call.led_to,
                number_of: call.number_of,
                failed: call.is_failed,
                record: call.record,
            };
            // A record of another version that cannot be read is left out.
            if check::record(&record).is_ok() {
                out.put(Entry::Record(record))?;
            }
        }
    }
}
