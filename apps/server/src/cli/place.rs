//! The flags for the server that a command is for, and for the output.

use super::remote::RemoteFlags;
use crate::config_file::{self, LoadError};
use crate::settings::Settings;
use clap::Args;
use std::path::PathBuf;

/// The flags for the configuration and the data.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Place {
    /// Configuration file (TOML; every key is optional)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Data directory [default: /var/lib/barebell as root or with that home, else barebell in the
    /// XDG data directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) remote: RemoteFlags,
}

impl Place {
    /// The settings of a command other than `serve`.
    ///
    /// # Errors
    /// [`LoadError`] if the configuration file cannot be used, or is that of a server elsewhere.
    pub(crate) fn settings(&self) -> Result<Settings, LoadError> {
        if self.remote.is_used() {
            return Err(LoadError::Elsewhere);
        }
        let mut settings = match &self.config {
            Some(file) => config_file::load(file)?,
            None => Settings::default(),
        };
        settings.data = self.data.clone().or(settings.data);
        Ok(settings)
    }

    /// The flags that select this place, quoted for a shell.
    pub(crate) fn flags(&self) -> Vec<String> {
        [("--config", &self.config), ("--data", &self.data)]
            .into_iter()
            .filter_map(|(flag, path)| Some((flag, path.as_ref()?)))
            .flat_map(|(flag, path)| [flag.to_owned(), shell_word(&path.to_string_lossy())])
            .collect()
    }
}

/// The flags of the output.
#[derive(Debug, Args)]
pub(crate) struct ScreenFlags {
    /// Show it again every second, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print JSON, one value on each line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) place: Place,
}

/// The options of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusFlags {
    /// Show the totals alone, at once: rates need two samples, a second apart
    #[arg(long, conflicts_with = "watch")]
    pub(crate) totals: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub(crate) screen: ScreenFlags,
}

/// `text` quoted as one word for a shell.
fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_named_as_a_shell_takes_it() {
        let place = Place {
            config: Some("/etc/b.toml".into()),
            data: Some("/it's here".into()),
            remote: RemoteFlags::default(),
        };
        assert_eq!(place.flags(), ["--config", "/etc/b.toml", "--data", "'/it'\\''s here'"]);
        assert_eq!(Place::default().flags(), [""; 0]);
    }
}
