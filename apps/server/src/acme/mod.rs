//! A certificate from an ACME issuer (RFC 8555): the settings, the certificate file, and the time
//! of its renewal.

mod account;
mod http;
mod order;

pub(crate) use order::obtain;

use net::tls::{Identity, ServerName};
use std::fmt;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The directory URL of Let's Encrypt, the default issuer, which is free of charge and generally
/// trusted.
pub(crate) const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The port to which an issuer connects to validate a TLS-ALPN challenge (RFC 8737 section 3).
pub(crate) const PORT: u16 = 443;

/// The settings of ACME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcmeSettings {
    /// The domains of the certificate.
    pub(crate) domains: Vec<String>,
    /// The mail addresses that the issuer may contact.
    pub(crate) contacts: Vec<String>,
    /// The directory URL of the issuer.
    pub(crate) directory: String,
    /// The certificates that are trusted for the HTTPS server of the issuer, instead of those of
    /// the system.
    pub(crate) issuers: Option<PathBuf>,
}

impl fmt::Display for AcmeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a certificate for {} from {}", self.domains.join(", "), self.directory)
    }
}

/// The file in the directory `data` with the issued certificate, its chain and its key. It is one
/// file, so that it is replaced atomically.
pub(crate) fn issued(data: &Path) -> PathBuf {
    data.join("tls-acme.pem")
}

impl AcmeSettings {
    /// The time to order a certificate, by the file in the directory `data`: after two thirds of
    /// the validity period, or at once if there is no certificate for these settings.
    pub(crate) fn due(&self, data: &Path) -> SystemTime {
        self.renewal(&issued(data)).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// The time to renew the certificate in `file`.
    ///
    /// # Errors
    /// A message, if the certificate does not match the settings.
    fn renewal(&self, file: &Path) -> Result<SystemTime, String> {
        let text = read_to_string(file).map_err(|error| error.to_string())?;
        if !text.starts_with(&self.first_line()) {
            return Err("it is not from this issuer".to_owned());
        }
        let identity = Identity::read(file, file).map_err(|error| error.to_string())?;
        for domain in &self.domains {
            let name = ServerName::try_from(&**domain).map_err(|error| error.to_string())?;
            if !identity.is_for(&name) {
                return Err(format!("it is not for {domain}"));
            }
        }
        let valid = identity.validity().ok_or("it has no validity")?;
        let time = valid.end.duration_since(valid.start);
        let time = time.map_err(|_| "it ends before it begins".to_owned())?;
        Ok(valid.start + time * 2 / 3)
    }

    /// Checks that the new certificate in `file` matches the settings and is not yet due for
    /// renewal.
    ///
    /// # Errors
    /// A message with the reason.
    fn judge(&self, file: &Path) -> Result<(), String> {
        match self.renewal(file)?.duration_since(SystemTime::now()) {
            Ok(left) if !left.is_zero() => Ok(()),
            _ => Err("two thirds of its time are over already: check the clock".to_owned()),
        }
    }

    /// The first line of the certificate file, which names the issuer. The rest is PEM.
    fn first_line(&self) -> String {
        format!("From {}\n", self.directory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::tls::make_self_signed;

    #[test]
    fn missing_and_foreign_certificates_are_ordered_at_once_and_others_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let of = |domains: &[&str]| AcmeSettings {
            domains: domains.iter().map(ToString::to_string).collect(),
            contacts: Vec::new(),
            directory: LETS_ENCRYPT.to_owned(),
            issuers: None,
        };
        let wanted = of(&["sip.example.com"]);
        let at_once = SystemTime::UNIX_EPOCH;
        assert_eq!(wanted.due(folder.path()), at_once);
        let [chain, key] = ["chain", "key"].map(|name| folder.path().join(name));
        make_self_signed(&["sip.example.com".to_owned()], &chain, &key).unwrap();
        let read = |file| read_to_string(file).unwrap();
        let text = wanted.first_line() + &read(&key) + &read(&chain);
        std::fs::write(issued(folder.path()), text).unwrap();
        let valid = Identity::read(&chain, &key).unwrap().validity().unwrap();
        let left = valid.end.duration_since(wanted.due(folder.path())).unwrap();
        let all = valid.end.duration_since(valid.start).unwrap();
        assert_eq!(left.as_secs(), (all / 3).as_secs());
        assert_eq!(of(&["sip.example.com", "example.com"]).due(folder.path()), at_once);
        let directory = "https://acme-staging-v02.api.letsencrypt.org/directory".to_owned();
        let elsewhere = AcmeSettings { directory, ..wanted };
        assert_eq!(elsewhere.due(folder.path()), at_once);
    }
}
