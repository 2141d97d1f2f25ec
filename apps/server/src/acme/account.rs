//! The account with an ACME issuer, created once and stored in the data directory.

use super::AcmeSettings;
use super::http::Http;
use crate::failure::{Failure, during};
use crate::log;
use instant_acme::{Account, AccountCredentials, NewAccount};
use serde::{Deserialize, Serialize};
use std::fs::{OpenOptions, read, remove_file, rename};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A stored account: the directory URL of its issuer, and the contact addresses.
#[derive(Deserialize, Serialize)]
struct Kept {
    directory: String,
    contacts: Vec<String>,
    credentials: AccountCredentials,
}

fn file(data: &Path) -> PathBuf {
    data.join("tls-acme-account.json")
}

impl AcmeSettings {
    /// The account stored in the directory `data`, or a new one.
    pub(super) async fn account(&self, data: &Path) -> Result<Account, Failure> {
        let file = file(data);
        let builder = Account::builder_with_http(Box::new(Http::new(self.issuers.as_deref())?));
        let contacts: Vec<String> =
            self.contacts.iter().map(|contact| format!("mailto:{contact}")).collect();
        let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
        if let Some(kept) = self.kept(&file)? {
            let account = builder.from_credentials(kept.credentials).await?;
            if kept.contacts != self.contacts {
                account.update_contacts(&contacts).await?;
                if let Some(kept) = self.kept(&file)? {
                    self.keep(&file, kept.credentials)?;
                }
            }
            return Ok(account);
        }
        let new = NewAccount {
            contact: &contacts,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let (account, credentials) = builder.create(&new, self.directory.clone(), None).await?;
        log::info("acme", || format!("there is an account now, {}", account.id()));
        self.keep(&file, credentials)?;
        Ok(account)
    }

    /// The account in `file`, if it belongs to the configured issuer.
    fn kept(&self, file: &Path) -> Result<Option<Kept>, Failure> {
        let bytes = match read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(during(file.display()))?,
        };
        let kept: Option<Kept> = serde_json::from_slice(&bytes).ok();
        Ok(kept.filter(|kept| kept.directory == self.directory))
    }

    fn keep(&self, file: &Path, credentials: AccountCredentials) -> Result<(), Failure> {
        let (directory, contacts) = (self.directory.clone(), self.contacts.clone());
        let kept = Kept { directory, contacts, credentials };
        let fresh = write_fresh(file, &serde_json::to_vec(&kept)?)?;
        rename(fresh, file).map_err(during(file.display()))
    }
}

/// Deletes the account stored in the directory `data`.
pub(super) fn forget(data: &Path) {
    // If the deletion fails, the next attempt fails as before.
    let _ = remove_file(file(data));
}

/// Writes `bytes`, readable by this user only, to a temporary file that is to replace `file`.
/// Returns its path.
pub(super) fn write_fresh(file: &Path, bytes: &[u8]) -> Result<PathBuf, Failure> {
    let fresh = file.with_extension("new");
    let write = || {
        let mut opened = OpenOptions::new();
        let mut opened = opened.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        opened.write_all(bytes)?;
        opened.sync_all()
    };
    write().map_err(during::<io::Error>(fresh.display()))?;
    Ok(fresh)
}
