//! `barebell turn`: prints credentials of a user for the TURN servers of the configuration.

use crate::cli::TurnFlags;
use crate::failure::Failure;
use crate::output::Out;
use crate::turn::Credentials;
use std::time::SystemTime;

/// Prints credentials of a user.
///
/// # Errors
/// As of [`TurnSettings::credentials`](crate::turn::TurnSettings::credentials), or the
/// configuration cannot be used.
pub(crate) fn run(flags: &TurnFlags, out: &mut Out) -> Result<(), Failure> {
    let TurnFlags { user, json, place } = flags;
    let settings = place.settings()?.turn;
    let credentials = settings.credentials(user, SystemTime::now())?;
    if *json {
        return out.json(&credentials);
    }
    let Credentials { username, password, ttl, uris } = credentials;
    for uri in uris {
        out.line(&format!("server    {uri}"))?;
    }
    out.line(&format!("user      {username}"))?;
    out.line(&format!("password  {password}"))?;
    let lifetime = humantime::format_duration(std::time::Duration::from_secs(ttl));
    out.line(&format!("valid for {lifetime}"))
}
