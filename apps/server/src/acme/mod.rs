//! A certificate from an issuer that speaks ACME (RFC 8555): what the operator decided, what was
//! issued, and when it is to be renewed.

mod account;
mod http;
mod order;

pub(crate) use order::obtain;

use net::tls::{Identity, ServerName};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Where an issuer is asked that is free of charge, and that everybody trusts.
pub(crate) const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Where an issuer calls to see a proof (RFC 8737 section 3).
pub(crate) const PORT: u16 = 443;

/// Which certificate is wanted, and of whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AcmeSettings {
    /// The domains that it is for, all of them.
    pub(crate) domains: Vec<String>,
    /// Whom the issuer may write to: addresses of mail.
    pub(crate) contacts: Vec<String>,
    /// Where the issuer is asked.
    pub(crate) directory: String,
    /// Who has signed the certificate of that place, if not one of whom the system trusts.
    pub(crate) issuers: Option<PathBuf>,
}

impl fmt::Display for AcmeSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a certificate for {} from {}", self.domains.join(", "), self.directory)
    }
}

/// The file in the directory `data` with the certificate that was issued, those that it was signed
/// by, and its key. It is one file, so that it is replaced as a whole.
pub(crate) fn issued(data: &Path) -> PathBuf {
    data.join("tls-acme.pem")
}

impl AcmeSettings {
    /// When to ask for a certificate, as things are in the directory `data`: once two thirds of the
    /// time are over of the one that was issued; at once where there is none, or not for all
    /// domains.
    pub(crate) fn due(&self, data: &Path) -> SystemTime {
        let file = issued(data);
        let identity = Identity::read(&file, &file).ok();
        identity.and_then(|identity| self.renewal(&identity)).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// When `identity` is to be renewed; `None` where it is not what is wanted.
    fn renewal(&self, identity: &Identity) -> Option<SystemTime> {
        let is_for =
            |name: &String| ServerName::try_from(&**name).is_ok_and(|name| identity.is_for(&name));
        if !self.domains.iter().all(is_for) {
            return None;
        }
        let valid = identity.validity()?;
        let time = valid.end.duration_since(valid.start).ok()?;
        Some(valid.start + time * 2 / 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use net::tls::make_self_signed;

    #[test]
    fn what_is_missing_or_for_others_is_asked_for_at_once_and_all_else_in_time() {
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
        let read = |file| std::fs::read_to_string(file).unwrap();
        std::fs::write(issued(folder.path()), read(&key) + &read(&chain)).unwrap();
        let valid = Identity::read(&chain, &key).unwrap().validity().unwrap();
        let left = valid.end.duration_since(wanted.due(folder.path())).unwrap();
        let all = valid.end.duration_since(valid.start).unwrap();
        assert_eq!(left.as_secs(), (all / 3).as_secs());
        assert_eq!(of(&["sip.example.com", "example.com"]).due(folder.path()), at_once);
    }
}
