//! `barebell check`: what is wrong in a configuration.

use crate::certificates::TlsSettings;
use crate::cli::CheckFlags;
use crate::config_file::LoadError;
use crate::failure::Failure;
use crate::output::Out;
use crate::settings::Settings;

/// Reads the files of TLS, where it is listened to. A certificate that the server makes itself is
/// not made for a look.
fn certificates(settings: &Settings, out: &mut Out) -> Result<(), Failure> {
    let data = settings.data()?;
    let makes_one = settings.tls.certificates.is_empty() && !TlsSettings::has_own(&data);
    if makes_one && settings.listens().iter().any(|listen| listen.transport.is_secure()) {
        return out.line("makes a certificate for TLS itself when it starts");
    }
    match settings.open_tls(&data, None)? {
        Some(tls) => out.line(&tls.remark()),
        None => Ok(()),
    }
}

/// Checks the configuration and says what it finds. Warnings are about the machine as it is now.
///
/// # Errors
/// When the configuration cannot be used.
pub(crate) fn run(flags: &CheckFlags, out: &mut Out) -> Result<(), Failure> {
    if flags.place.config.is_none() {
        out.line("no --config FILE is given: these are the defaults")?;
    }
    let settings = match flags.place.settings() {
        Ok(settings) => settings,
        Err(LoadError::Bad(bad)) => {
            out.line(&bad.to_string())?;
            return Err(Failure::Found);
        }
        Err(error) => return Err(error.into()),
    };
    let engine = settings.engine_config();
    let listens = settings.listens();
    for domain in &engine.domains {
        let aliases = domain.aliases.join(", ");
        let also = if aliases.is_empty() { String::new() } else { format!(" (also: {aliases})") };
        out.line(&format!("serves {}{also}", domain.name))?;
    }
    for listen in &listens {
        out.line(&format!("listens on {listen}"))?;
    }
    out.line(&format!("keeps its data in {}", settings.data()?.display()))?;
    if let Err(failure) = certificates(&settings, out) {
        out.line(&failure.to_string())?;
        return Err(Failure::Found);
    }
    for listen in &listens {
        if let Err(error) = listen.try_out() {
            out.line(&format!(
                "warning: {listen} cannot be used now ({error}); if that is not the server itself, \
                 already running, end what uses it or choose another address"
            ))?;
        }
    }
    if !engine.authentication.required {
        out.line("warning: authentication is off: anybody can register and call as any user")?;
    }
    out.line("the configuration has no mistakes")
}
