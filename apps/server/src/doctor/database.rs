//! The check of the database of accounts.

use super::findings::{Findings, Severity};
use crate::settings::Settings;

/// Connects to the database of accounts, if the configuration names one, and looks for its table.
pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    let Some(accounts) = &settings.accounts else { return };
    let place = &accounts.place;
    match place.examine() {
        Err(error) => findings.fault(
            Severity::Error,
            "database",
            format!("{place} cannot be used: {error}"),
            "start the database, or correct [accounts]; meanwhile the users of the last copy go on",
        ),
        Ok(()) if place.is_exposed() => findings.fault(
            Severity::Warning,
            "database",
            format!("the certificate of {place} is not verified"),
            "set sslmode=verify-full in accounts.url",
        ),
        Ok(()) => findings.good("database", format!("{place} has the table of accounts")),
    }
}
