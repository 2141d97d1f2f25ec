//! The security of the connection: `sslmode` and `sslrootcert` of the URI.

use super::error::AccountsError;
use net::tls::{Client, Trust};
use rustls::ClientConfig;
use std::path::PathBuf;
use tokio_postgres::config::SslMode;

/// The security of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Security {
    /// No TLS.
    Off,
    /// TLS if the server has it, with any certificate. An attacker can prevent it.
    #[default]
    Preferred,
    /// TLS with any certificate. An attacker can take the place of the server.
    Encrypted,
    /// TLS with a certificate that contains the name of the host, by an issuer in this file or by
    /// one that the system trusts.
    Verified(Option<PathBuf>),
}

impl Security {
    /// Separates the parameters `sslmode` and `sslrootcert` from the URI `url`, because the library
    /// knows neither `verify-full` nor `sslrootcert`.
    ///
    /// # Errors
    /// [`AccountsError`] if a parameter is malformed, or without effect.
    pub(super) fn separate(url: &str) -> Result<(String, Self), AccountsError> {
        let Some((before, query)) = url.split_once('?') else {
            return Ok((url.to_owned(), Self::default()));
        };
        let (mut mode, mut issuers, mut others) = (None, None, Vec::new());
        for parameter in query.split('&') {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => issuers = Some(value),
                _ => others.push(parameter),
            }
        }
        let security = match mode.unwrap_or("prefer") {
            "disable" => Self::Off,
            "prefer" => Self::Preferred,
            "require" => Self::Encrypted,
            "verify-full" => {
                let file = issuers.filter(|file| *file != "system");
                let path = |file: &str| {
                    String::from_utf8_lossy(&sip::uri::unescape(file.as_bytes()))
                        .into_owned()
                        .into()
                };
                return Ok((rejoin(before, &others), Self::Verified(file.map(path))));
            }
            mode => return Err(AccountsError::SslMode(mode.to_owned())),
        };
        match issuers {
            Some(_) => Err(AccountsError::UnusedIssuers),
            None => Ok((rejoin(before, &others), security)),
        }
    }

    /// The use of TLS by the library.
    pub(super) const fn mode(&self) -> SslMode {
        match self {
            Self::Off => SslMode::Disable,
            Self::Preferred => SslMode::Prefer,
            Self::Encrypted | Self::Verified(_) => SslMode::Require,
        }
    }

    /// The configuration of TLS.
    ///
    /// # Errors
    /// [`AccountsError`] if the file of issuers cannot be used.
    pub(super) fn config(&self) -> Result<ClientConfig, AccountsError> {
        let trust = match self {
            Self::Off | Self::Preferred | Self::Encrypted => Trust::Any,
            Self::Verified(None) => Trust::System,
            Self::Verified(Some(file)) => Trust::Issuers(file.clone()),
        };
        let client = Client::new(&trust, None, false).map_err(AccountsError::Issuers)?;
        Ok(client.config_of_hosts())
    }
}

/// The URI with the parameters `others`.
fn rejoin(before: &str, others: &[&str]) -> String {
    let question = if others.is_empty() { "" } else { "?" };
    format!("{before}{question}{}", others.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_and_the_issuers_are_separated_from_the_uri() {
        let of = |query: &str| Security::separate(&format!("postgresql://db/sip{query}")).unwrap();
        let rest = |query: &str| format!("postgresql://db/sip{query}");
        assert_eq!(of(""), (rest(""), Security::Preferred));
        assert_eq!(of("?sslmode=disable"), (rest(""), Security::Off));
        assert_eq!(
            of("?connect_timeout=3&sslmode=require&user=a"),
            (rest("?connect_timeout=3&user=a"), Security::Encrypted)
        );
        let verified = Security::Verified(None);
        assert_eq!(of("?sslmode=verify-full"), (rest(""), verified.clone()));
        assert_eq!(of("?sslrootcert=system&sslmode=verify-full").1, verified);
        assert_eq!(
            of("?sslmode=verify-full&sslrootcert=/etc/db%20ca.pem").1,
            Security::Verified(Some("/etc/db ca.pem".into()))
        );
    }

    #[test]
    fn parameters_without_effect_are_refused() {
        let of = |query: &str| Security::separate(&format!("postgresql://db/sip?{query}"));
        for mode in ["verify-ca", "allow", "", "Require"] {
            let error = of(&format!("sslmode={mode}")).unwrap_err();
            assert!(matches!(&error, AccountsError::SslMode(it) if it == mode), "{error}");
        }
        for mode in ["disable", "prefer", "require"] {
            let error = of(&format!("sslmode={mode}&sslrootcert=/ca.pem")).unwrap_err();
            assert!(matches!(error, AccountsError::UnusedIssuers), "{error}");
        }
        assert!(matches!(of("sslrootcert=/ca.pem"), Err(AccountsError::UnusedIssuers)));
    }

    #[test]
    fn a_file_without_issuers_is_named() {
        let security = Security::Verified(Some("/nothing/ca.pem".into()));
        let error = security.config().unwrap_err().to_string();
        assert!(error.contains("/nothing/ca.pem"), "{error}");
    }
}
