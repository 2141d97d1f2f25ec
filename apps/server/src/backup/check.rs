//! The rules for the values of a backup.

use super::entry::{
    Account, CallRecord, CertificateFile, Configuration, Head, Realm, StoredServices, StoredUser,
    Token, VERSION, VoiceMessage,
};
use crate::call_lines::Record;
use crate::domains;
use panel::Role;
use sip::Duration;
use sip_server::CallServices;
use users::{check_auth_name, check_name};

/// The maximum length of the name of a token, and of the version of the program, in bytes.
const MAX_NAME: usize = 64;
/// The maximum length of the configuration, and of a file of a certificate, in bytes.
const MAX_FILE: usize = 1 << 20;
/// The end of the year 9999 in seconds since 1970. Lists cannot show later times.
const MAX_TIME: u64 = 253_402_300_799;
/// The maximum number of a message. Numbers are milliseconds since 1970, or follow the last one.
const MAX_MESSAGE: u64 = MAX_TIME * 1000;

/// The result of a check: a message about the fault.
type Checked = Result<(), String>;

pub(super) fn head(head: &Head) -> Checked {
    if head.version != VERSION {
        return Err(format!(
            "the backup has version {}, this program reads version {VERSION}",
            head.version
        ));
    }
    let mut parts = head.parts.clone();
    parts.sort_unstable();
    parts.dedup();
    if parts.len() != head.parts.len() {
        return Err("a part is named twice".to_owned());
    }
    time(head.made)?;
    plain("the version of the program", &head.program)
}

fn plain(what: &str, text: &str) -> Checked {
    match (1..=MAX_NAME).contains(&text.len()) && !text.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(format!(
            "{what} is malformed: expected 1 to {MAX_NAME} bytes without control characters"
        )),
    }
}

fn domain(domain: &str) -> Checked {
    match domains::canonical(domain)? == domain {
        true => Ok(()),
        false => Err(format!("the domain `{domain}` is not in lower case")),
    }
}

/// Checks `name@domain`.
fn address(text: &str) -> Checked {
    let (name, of) = text
        .rsplit_once('@')
        .ok_or_else(|| format!("`{}` is no name@domain", text.escape_debug()))?;
    check_name(name).map_err(|error| error.to_string())?;
    domain(of)
}

pub(super) fn realm(realm: &Realm) -> Checked {
    domain(&realm.domain)?;
    domain(&realm.realm)
}

pub(super) fn user(user: &StoredUser) -> Checked {
    check_name(&user.name).map_err(|error| error.to_string())?;
    domain(&user.domain)?;
    match &user.authentication {
        Some(auth) => check_auth_name(&auth.name, &user.domain).map_err(|error| error.to_string()),
        None => Ok(()),
    }
}

pub(super) fn services(services: &StoredServices) -> Checked {
    let StoredServices { name, domain: of, always, busy, no_answer, after, unreachable, .. } =
        services;
    check_name(name).map_err(|error| error.to_string())?;
    domain(of)?;
    [always, busy, no_answer, unreachable].into_iter().flatten().try_for_each(|it| address(it))?;
    let range = CallServices::MIN_RINGING..=CallServices::MAX_RINGING;
    match after {
        Some(_) if no_answer.is_none() => {
            Err("`after` is given without `no_answer`, of which it is the time".to_owned())
        }
        Some(after) if !range.contains(&Duration::from_millis(*after)) => Err(format!(
            "`after` is out of range: expected {} to {} milliseconds",
            range.start().as_millis(),
            range.end().as_millis()
        )),
        _ => Ok(()),
    }
}

fn role(role: &str) -> Checked {
    match Role::named(role) {
        Some(_) => Ok(()),
        None => Err(format!(
            "`{}` is no role: expected one of {}",
            role.escape_debug(),
            Role::ALL.map(Role::name).join(", ")
        )),
    }
}

pub(super) fn account(account: &Account) -> Checked {
    if !panel::is_account_name(&account.name) {
        return Err(format!("`{}` is no name of an account", account.name.escape_debug()));
    }
    role(&account.role)?;
    time(account.created)?;
    match panel::is_password_hash(&account.password) {
        true => Ok(()),
        false => Err(format!(
            "the password of the account {} is no hash by Argon2id of usual cost",
            account.name
        )),
    }
}

pub(super) fn token(token: &Token) -> Checked {
    plain("the name of a token", &token.name)?;
    time(token.created)?;
    role(&token.role)
}

/// Checks a time in seconds since 1970.
fn time(time: u64) -> Checked {
    match time <= MAX_TIME {
        true => Ok(()),
        false => Err(format!("the time {time} is out of range: expected at most {MAX_TIME}")),
    }
}

pub(super) fn configuration(configuration: &Configuration) -> Checked {
    file("the configuration", &configuration.text)
}

pub(super) fn certificate(certificate: &CertificateFile) -> Checked {
    file("the file of a certificate", &certificate.text)
}

fn file(what: &str, text: &str) -> Checked {
    match text.len() <= MAX_FILE && !text.contains('\0') {
        true => Ok(()),
        false => Err(format!("{what} has more than {MAX_FILE} bytes, or a NUL")),
    }
}

/// Checks a message but for its sound.
pub(super) fn message(message: &VoiceMessage) -> Checked {
    address(&message.mailbox)?;
    time(message.at)?;
    match message.id <= MAX_MESSAGE {
        true => Ok(()),
        false => Err(format!(
            "the number {} of a message is out of range: expected at most {MAX_MESSAGE}",
            message.id
        )),
    }
}

pub(super) fn record(record: &CallRecord) -> Checked {
    time(record.ended / 1_000_000)?;
    match serde_json::from_str::<Record>(&record.record) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the record of a call cannot be read: {error}")),
    }
}
