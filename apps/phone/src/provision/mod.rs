//! `barebell-phone provision`: the settings of an account by a link of a server.

mod fetch;
mod link;
mod settings;

use crate::cli::ProvisionArgs;
use crate::config;
use crate::outcome::Outcome;
use crate::terminal;
use link::Link;
use net::tls::Trust;
use settings::Settings;
use std::io::{self, BufRead, Read};
use std::path::PathBuf;

/// The maximum length of a link in bytes.
const MAX_LINK: u64 = 2048;

/// Fetches the settings of an account by a link, and writes them to the configuration file.
///
/// # Errors
/// The link is not valid, the server does not answer as expected, or the file cannot be used. The
/// file is unchanged then.
pub(crate) fn run(args: &ProvisionArgs) -> Result<Outcome, Outcome> {
    let text = match &*args.link {
        "-" => first_line().map_err(Outcome::Usage)?,
        link => link.to_owned(),
    };
    let link: Link = text.parse().map_err(Outcome::Usage)?;
    let path = args.config.clone().or_else(config::default_path);
    let path = path.ok_or_else(|| Outcome::Usage("name a file with --config".to_owned()))?;
    // The link holds once, so that the file is checked before.
    let settings = Settings::open(&path).map_err(Outcome::Usage)?;
    let trust = args.trust.as_deref().map(str::parse::<Trust>).transpose();
    let trust = trust.map_err(|problem| Outcome::Usage(format!("--trust: {problem}")))?;
    let trust = trust.or_else(|| settings.trust()).unwrap_or_default();
    let text = fetch::fetch(&link, &trust)?;
    let account = settings::read(&text).map_err(|problem| {
        Outcome::Failed(format!(
            "the answer of {} has no settings of this phone: {problem}; {} is unchanged",
            link.authority,
            path.display()
        ))
    })?;
    let uri = account.uri.clone();
    let named = named(args.trust.as_deref(), &trust);
    let former = settings.add(&account, named.as_deref()).map_err(|problem| {
        Outcome::Failed(format!("{problem}; the link is used up: make another one"))
    })?;
    if let Some(former) = former {
        terminal::print_result(&format!("the former settings are in {}", former.display()));
    }
    let path = path.display();
    for line in [
        format!("the settings of {uri} are in {path}"),
        format!("to be called: barebell-phone answer --config {path}"),
        format!("to call:      barebell-phone call NAME --config {path}"),
    ] {
        terminal::print_result(&line);
    }
    Ok(Outcome::Done)
}

/// The trust of the command line, as it is written to the file: a file by its whole path.
fn named(given: Option<&str>, trust: &Trust) -> Option<String> {
    match (given?, trust) {
        (_, Trust::Issuers(file)) => {
            let whole: PathBuf = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            Some(whole.display().to_string())
        }
        (given, _) => Some(given.to_owned()),
    }
}

/// The first line of the standard input.
fn first_line() -> Result<String, String> {
    let mut line = String::new();
    let mut input = io::stdin().lock().take(MAX_LINK);
    let read = input.read_line(&mut line);
    read.map_err(|error| format!("cannot read the link: {error}"))?;
    Ok(line.trim().to_owned())
}
