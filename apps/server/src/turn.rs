//! Credentials of users for the TURN servers of the configuration.

use crate::failure::{Failure, during};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use sha1::Sha1;
use sip::Duration;
use std::path::PathBuf;
use std::time::SystemTime;

/// The longest name of a user, in octets: the USERNAME of STUN has at most 508.
const MAX_USER: usize = 256;

/// The TURN servers of phones, and the secret that they share with this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TurnSettings {
    /// The URIs of the servers.
    pub(crate) servers: Vec<String>,
    /// The file with the secret.
    pub(crate) secret_file: Option<PathBuf>,
    /// The time for which credentials are valid.
    pub(crate) lifetime: Duration,
}

impl Default for TurnSettings {
    fn default() -> Self {
        let lifetime = Duration::from_secs(24 * 60 * 60);
        Self { servers: Vec::new(), secret_file: None, lifetime }
    }
}

/// Credentials with an end, as TURN servers with a REST API take them
/// (draft-uberti-behave-turn-rest-00). The names of the fields are of that draft.
#[derive(Debug, Serialize)]
pub(crate) struct Credentials {
    /// The end in seconds since 1970, a colon, and the user.
    pub(crate) username: String,
    /// The HMAC-SHA1 of `username` by the shared secret, in base64.
    pub(crate) password: String,
    /// The lifetime in seconds.
    pub(crate) ttl: u64,
    pub(crate) uris: Vec<String>,
}

impl TurnSettings {
    /// Credentials of `user`, valid from `now` on.
    ///
    /// # Errors
    /// [`Failure`] if no server is configured, the secret cannot be read or is empty, or the name
    /// is malformed.
    pub(crate) fn credentials(&self, user: &str, now: SystemTime) -> Result<Credentials, Failure> {
        let Some(file) = &self.secret_file else {
            return Err(Failure::message(
                "no TURN server is configured: set servers and secret_file in [turn], and name the \
                 file with --config",
            ));
        };
        let is_name = |name: &str| {
            !name.is_empty()
                && name.len() <= MAX_USER
                && !name.contains(|c: char| c == ':' || c.is_control() || c.is_whitespace())
        };
        if !is_name(user) {
            return Err(Failure::message(format!(
                "`{user}` is no user; expected a name such as alice, or alice@example.org"
            )));
        }
        let reading =
            || format!("cannot read the secret of the TURN servers in {}", file.display());
        let secret = std::fs::read_to_string(file).map_err(during(reading()))?;
        let secret = secret.trim_end_matches(['\r', '\n']);
        if secret.is_empty() {
            return Err(Failure::message(format!("{}: the file is empty", reading())));
        }
        let ttl = self.lifetime.as_micros() / 1_000_000;
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let username = format!("{}:{user}", now.as_secs() + ttl);
        let password = password(secret, &username);
        Ok(Credentials { username, password, ttl, uris: self.servers.clone() })
    }
}

/// The password of a username with an end.
fn password(secret: &str, username: &str) -> String {
    let mut hmac =
        Hmac::<Sha1>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
    hmac.update(username.as_bytes());
    BASE64_STANDARD.encode(hmac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_password_is_the_hmac_of_the_username() {
        // echo -n 1433895918:alice | openssl dgst -sha1 -hmac north -binary | base64
        assert_eq!(password("north", "1433895918:alice"), "RqMvcGPYTJMGThVLSi4amT4zFtI=");
    }

    #[test]
    fn credentials_end_and_name_their_user() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "north\n").unwrap();
        let servers = vec!["turn:turn.example.org".to_owned()];
        let settings = TurnSettings {
            servers: servers.clone(),
            secret_file: Some(file.clone()),
            ..TurnSettings::default()
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_433_809_518);
        let credentials = settings.credentials("alice", now).unwrap();
        assert_eq!(credentials.username, "1433895918:alice");
        assert_eq!(credentials.password, password("north", "1433895918:alice"));
        assert_eq!((credentials.ttl, credentials.uris), (86_400, servers));
        for user in ["", "a:b", "a b", "a\n", &"a".repeat(257)] {
            assert!(settings.credentials(user, now).is_err(), "{user}");
        }
        std::fs::write(&file, "\n").unwrap();
        let error = settings.credentials("alice", now).unwrap_err().to_string();
        assert!(error.contains("the file is empty"), "{error}");
        let error = TurnSettings::default().credentials("alice", now).unwrap_err().to_string();
        assert!(error.contains("no TURN server is configured"), "{error}");
    }
}
