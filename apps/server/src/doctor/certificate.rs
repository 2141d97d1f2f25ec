//! The check of the certificates.

use super::findings::{Findings, Severity};
use crate::admin::Condition;
use crate::settings::Settings;
use net::tls::ServerName;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The time before the end of a certificate at which a warning begins.
const NOTICE: Duration = Duration::from_secs(14 * 86_400);

/// Checks the first certificate, and that each served domain has one.
pub(super) fn check(
    settings: &Settings,
    data: &Path,
    condition: Option<&Condition>,
    findings: &mut Findings,
) {
    let until = match condition {
        Some(Condition::Running(status)) => status.certificate_until,
        _ if settings.tls.makes_one(data) => None,
        _ => match settings.open_tls(data, None) {
            Ok(tls) => tls
                .and_then(|tls| tls.valid_until)
                .and_then(|until| until.duration_since(SystemTime::UNIX_EPOCH).ok())
                .map(|until| until.as_secs()),
            Err(failure) => {
                let remedy = "correct tls.certificates, or leave it out for a self-signed one";
                findings.fault(Severity::Error, "certificate", failure.to_string(), remedy);
                return;
            }
        },
    };
    let Some(until) = until else {
        return findings.good("certificate", "none is in use yet");
    };
    let shown = SystemTime::UNIX_EPOCH + Duration::from_secs(until);
    let shown = humantime::format_rfc3339_seconds(shown);
    let remedy = "renew it: let its ACME client reload the server, or use [acme]";
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    if until < now.as_secs() {
        let text = format!("it has been invalid since {shown}");
        findings.fault(Severity::Error, "certificate", text, remedy);
    } else if until < (now + NOTICE).as_secs() {
        findings.fault(Severity::Warning, "certificate", format!("it ends {shown}"), remedy);
    } else {
        names(settings, data, findings);
        findings.good_unless_found("certificate", format!("it is valid until {shown}"));
    }
}

/// The served domains that no certificate is for: phones end TLS connections to them.
fn names(settings: &Settings, data: &Path, findings: &mut Findings) {
    if settings.tls.makes_one(data) {
        return;
    }
    let Ok(Some(tls)) = settings.open_tls(data, None) else { return };
    for domain in &settings.engine.domains {
        let Ok(name) = ServerName::try_from(domain.name.as_str()) else { continue };
        if tls.certificates.iter().any(|it| it.identity.is_for(&name)) {
            continue;
        }
        let remedy = match &tls.own {
            Some(chain) => format!("remove {}, and restart: another one is made", chain.display()),
            None => format!("get one that is for {name}, or use [acme]", name = domain.name),
        };
        findings.fault(
            Severity::Warning,
            "certificate",
            format!("no certificate is for {}: phones reject TLS connections to it", domain.name),
            remedy,
        );
    }
}
