//! The findings of `barebell doctor`.

use serde::Serialize;

/// The importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Severity {
    Ok,
    Warning,
    Error,
}

/// The result of one check.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Finding {
    /// The subject, one word.
    pub(super) check: &'static str,
    pub(super) severity: Severity,
    pub(super) text: String,
    /// The remedy, if there is a fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

/// The findings so far.
#[derive(Default)]
pub(super) struct Findings(pub(super) Vec<Finding>);

impl Findings {
    pub(super) fn good(&mut self, check: &'static str, text: impl Into<String>) {
        let (severity, text) = (Severity::Ok, text.into());
        self.0.push(Finding { check, severity, text, remedy: None });
    }

    pub(super) fn fault(
        &mut self,
        severity: Severity,
        check: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let (text, remedy) = (text.into(), Some(remedy.into()));
        self.0.push(Finding { check, severity, text, remedy });
    }

    pub(super) fn has(&self, severity: Severity) -> bool {
        self.0.iter().any(|finding| finding.severity == severity)
    }

    /// Adds `text` as a good finding if `check` has no other one.
    pub(super) fn good_unless_found(&mut self, check: &'static str, text: impl Into<String>) {
        if !self.0.iter().any(|finding| finding.check == check) {
            self.good(check, text);
        }
    }
}
