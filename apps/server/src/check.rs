//! `barebell check`: what is wrong in a configuration.

use crate::cli::CheckFlags;
use crate::config_file::LoadError;
use crate::failure::Failure;
use crate::output::Out;

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
