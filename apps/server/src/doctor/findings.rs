//! The findings of `barebell doctor`.

use crate::failure::Failure;
use crate::output::{Out, printable};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The exit status if there are warnings, and no errors.
const WARNED: u8 = 3;

/// The importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Severity {
    Ok,
    Warning,
    Error,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Finding {
    /// The subject, one word.
    pub(super) check: Cow<'static, str>,
    pub(super) severity: Severity,
    pub(super) text: String,
    /// The remedy, if there is a fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// The findings so far.
#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn good(&mut self, check: &'static str, text: impl Into<String>) {
        let (severity, check, text) = (Severity::Ok, check.into(), text.into());
        self.0.push(Finding { check, severity, text, remedy: None });
    }

    pub(super) fn fault(
        &mut self,
        severity: Severity,
        check: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let (check, text, remedy) = (check.into(), text.into(), Some(remedy.into()));
        self.0.push(Finding { check, severity, text, remedy });
    }

    /// Prints the findings.
    ///
    /// # Errors
    /// [`Failure`] with the exit status of the worst one.
    pub(super) fn show(&self, is_json: bool, out: &mut Out) -> Result<(), Failure> {
        for finding in &self.0 {
            if is_json {
                out.json(finding)?;
                continue;
            }
            let Finding { check, severity, text, remedy } = finding;
            let mark = match severity {
                Severity::Ok => "ok     ",
                Severity::Warning => "warning",
                Severity::Error => "ERROR  ",
            };
            let remedy = remedy.as_ref().map(|remedy| format!("\n         -> {remedy}"));
            let text = format!("{mark}  {check}: {text}{}", remedy.unwrap_or_default());
            text.lines().try_for_each(|line| out.line(&printable(line)))?;
        }
        match (self.has(Severity::Error), self.has(Severity::Warning)) {
            (true, _) => Err(Failure::Found),
            (false, true) => Err(Failure::State(WARNED)),
            (false, false) => Ok(()),
        }
    }

    fn has(&self, severity: Severity) -> bool {
        self.0.iter().any(|finding| finding.severity == severity)
    }

    /// Adds `text` as a good finding if `check` has no other one.
    pub(super) fn good_unless_found(&mut self, check: &'static str, text: impl Into<String>) {
        if !self.0.iter().any(|finding| finding.check == check) {
            self.good(check, text);
        }
    }
}
