//! The restoring of a backup: all of it or nothing.

use super::blank::blank;
use super::certificates::Staged;
use super::content::{self, Content};
use super::entry::Part;
use super::report::Report;
use super::stored::Stored;
use super::voicemail::{self, Added};
use panel::Role;
use std::collections::BTreeSet;
use std::fs;
use std::io::BufRead;
use store::{PanelData, Replaced};

/// The parts to restore, and if it is a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The parts; empty for all that the backup has.
    pub(crate) parts: Vec<Part>,
    /// True to compute the effect only.
    pub(crate) is_trial: bool,
}

/// Restores the backup in `input` in `stored`. `apply` is called after the database has changed,
/// with true if users were replaced. The configuration is compared only: a command writes it to a
/// file.
///
/// # Errors
/// A message: the backup cannot be used, would remove the last administrator, or the storage fails.
/// Then nothing is changed.
pub(crate) fn restore(
    stored: &Stored<'_>,
    input: &mut dyn BufRead,
    wish: &Wish,
    apply: &dyn Fn(&Replaced, bool) -> Result<(), store::Error>,
) -> Result<Report, String> {
    let text = |error: store::Error| error.to_string();
    let mut content = content::read(input).map_err(|fault| fault.to_string())?;
    select(&mut content, &wish.parts)?;
    let has = |part| content.head.parts.contains(&part);
    if has(Part::Users)
        && let Some(place) = &stored.accounts
    {
        return Err(format!(
            "the users are those of {place}, which has its own backups: leave the users out \
             (--part services --part panel)"
        ));
    }
    check_administrators(stored.storage, &content)?;
    let staged = Staged::new(stored.data, &content.certificates)?;
    let missing = voicemail::missing(stored.data, &content.messages)?;
    let mut report = Report {
        dry_run: wish.is_trial,
        made: content.head.made,
        messages: has(Part::Voicemail).then_some(missing.len() as u64),
        certificates: has(Part::Certificates).then(|| staged.names()),
        ..Report::default()
    };
    let added = match wish.is_trial {
        true => None,
        false => Some(Added::store(stored.data, &missing)?),
    };
    let replaced = stored.storage.replace(&content.data, wish.is_trial).map_err(text)?;
    if let Some(added) = added {
        added.keep();
        let applied = apply(&replaced, has(Part::Users)).map_err(text);
        let later = staged.put().and(applied);
        report.notes.extend(later.err().map(|error| format!("the data are restored, but {error}")));
    }
    report.users = has(Part::Users).then(|| replaced.users.into());
    report.services = has(Part::Services).then(|| replaced.services.into());
    report.accounts = has(Part::Panel).then(|| replaced.accounts.into());
    report.tokens = has(Part::Panel).then(|| replaced.tokens.into());
    report.records = has(Part::Records).then_some(replaced.calls);
    if !replaced.unknown.is_empty() {
        let unknown = replaced.unknown.join(", ");
        report.notes.push(format!("call services of users that do not exist: {unknown}"));
    }
    let unserved = unserved(stored, &content);
    if !unserved.is_empty() {
        report.notes.push(format!(
            "the server does not serve {}: users of it cannot log in",
            unserved.join(", ")
        ));
    }
    compare_configuration(stored, &content, &mut report);
    if report.certificates.as_ref().is_some_and(|files| !files.is_empty()) {
        let note = "the certificates are used after the next reload or start of the server";
        report.notes.push(note.to_owned());
    }
    Ok(report)
}

/// Leaves the named parts of a backup.
fn select(content: &mut Content, parts: &[Part]) -> Result<(), String> {
    if parts.is_empty() {
        return Ok(());
    }
    let head = &mut content.head.parts;
    if let Some(part) = parts.iter().find(|part| !head.contains(part)) {
        let there: Vec<_> = head.iter().map(|part| part.name()).collect();
        return Err(format!("the backup has no {}; it has: {}", part.name(), there.join(", ")));
    }
    head.retain(|part| parts.contains(part));
    let has = |part| parts.contains(&part);
    let data = &mut content.data;
    data.users = data.users.take().filter(|_| has(Part::Users));
    data.services = data.services.take().filter(|_| has(Part::Services));
    data.panel = data.panel.take().filter(|_| has(Part::Panel));
    content.configuration = content.configuration.take().filter(|_| has(Part::Configuration));
    if !has(Part::Records) {
        data.calls.clear();
    }
    if !has(Part::Certificates) {
        content.certificates.clear();
    }
    if !has(Part::Voicemail) {
        content.messages.clear();
    }
    Ok(())
}

/// Refuses accounts without an administrator, if there is one now.
fn check_administrators(data: &dyn PanelData, content: &Content) -> Result<(), String> {
    let Some(panel) = &content.data.panel else { return Ok(()) };
    let administrator = Role::Administrator.name();
    let stored = data.panel_accounts().map_err(|error| error.to_string())?;
    let is_one_left = panel.accounts.iter().any(|(account, _)| account.role == administrator);
    match is_one_left || stored.iter().all(|account| account.role != administrator) {
        true => Ok(()),
        false => {
            Err("the backup has no administrator of the panel, and would remove the last one: \
                      leave the part panel out"
                .to_owned())
        }
    }
}

/// The domains of users of a backup that the server does not serve.
fn unserved(stored: &Stored<'_>, content: &Content) -> Vec<String> {
    let users = content.data.users.iter().flat_map(|set| &set.users);
    let domains: BTreeSet<&str> = users.map(|user| &*user.domain).collect();
    let is_served = |domain: &&str| stored.served.iter().any(|it| it == domain);
    domains.into_iter().filter(|it| !is_served(it)).map(str::to_owned).collect()
}

/// Compares the configuration in the backup with that of the server.
fn compare_configuration(stored: &Stored<'_>, content: &Content, report: &mut Report) {
    let Some(configuration) = &content.configuration else { return };
    let present = stored.config_file.and_then(|file| fs::read_to_string(file).ok());
    let present = match configuration.blank {
        true => present.and_then(|text| blank(&text).ok()),
        false => present,
    };
    let is_same = present.as_ref() == Some(&configuration.text);
    report.same_configuration = Some(is_same);
    if !is_same {
        report.notes.push(
            "the configuration in the backup differs from that of the server, which stays: \
             `barebell restore --configuration NEW-FILE` writes it to a file"
                .to_owned(),
        );
        if configuration.blank {
            let note = "the passwords in the configuration of the backup are blank";
            report.notes.push(note.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
