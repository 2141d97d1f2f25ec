//! The account with an issuer, which is made once and kept in the data directory.

use super::AcmeSettings;
use super::http::Http;
use crate::failure::{Failure, during};
use instant_acme::{Account, AccountCredentials, NewAccount};
use serde::{Deserialize, Serialize};
use std::fs::{OpenOptions, read, remove_file, rename};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An account and what it was made with: with anything else, another one is wanted.
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
    /// The account that is kept in the directory `data`, or a new one.
    pub(super) async fn account(&self, data: &Path) -> Result<Account, Failure> {
        let file = file(data);
        let builder = Account::builder_with_http(Box::new(Http::new(self.issuers.as_deref())?));
        if let Some(kept) = self.kept(&file) {
            return Ok(builder.from_credentials(kept.credentials).await?);
        }
        let contacts: Vec<String> =
            self.contacts.iter().map(|contact| format!("mailto:{contact}")).collect();
        let contacts: Vec<&str> = contacts.iter().map(String::as_str).collect();
        let new = NewAccount {
            contact: &contacts,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let (account, credentials) = builder.create(&new, self.directory.clone(), None).await?;
        let kept = Kept {
            directory: self.directory.clone(),
            contacts: self.contacts.clone(),
            credentials,
        };
        write_private(&file, &serde_json::to_vec(&kept)?)?;
        Ok(account)
    }

    /// What is in `file`, if it is what is wanted.
    fn kept(&self, file: &Path) -> Option<Kept> {
        let kept: Kept = serde_json::from_slice(&read(file).ok()?).ok()?;
        (kept.directory == self.directory && kept.contacts == self.contacts).then_some(kept)
    }
}

/// Forgets the account that is kept in the directory `data`.
pub(super) fn forget(data: &Path) {
    // It is made anew the next time, or fails as it did.
    let _ = remove_file(file(data));
}

/// Replaces `file` as a whole by `bytes`, which are for this user alone.
pub(super) fn write_private(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let fresh = file.with_extension("new");
    let write = || {
        let mut opened = OpenOptions::new();
        let mut opened = opened.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        opened.write_all(bytes)?;
        opened.sync_all()?;
        rename(&fresh, file)
    };
    write().map_err(during::<io::Error>(format_args!("{} cannot be written", file.display())))
}
