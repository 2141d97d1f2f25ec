//! The files of certificates in a backup.

use super::entry::{CertificateFile, FileName};
use net::tls::Identity;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// All files.
const FILES: [FileName; 4] =
    [FileName::OwnChain, FileName::OwnKey, FileName::Issued, FileName::Account];

impl FileName {
    /// The name in the data directory.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::OwnChain => "tls-chain.pem",
            Self::OwnKey => "tls-key.pem",
            Self::Issued => "tls-acme.pem",
            Self::Account => "tls-acme-account.json",
        }
    }
}

/// The files in the data directory `data`.
///
/// # Errors
/// A message: a file cannot be read.
pub(super) fn stored(data: &Path) -> Result<Vec<CertificateFile>, String> {
    let mut found = Vec::new();
    for name in FILES {
        match fs::read_to_string(data.join(name.text())) {
            Ok(text) => found.push(CertificateFile { name, text }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{} cannot be read: {error}", name.text())),
        }
    }
    Ok(found)
}

/// Files that are written beside their places, and checked. Dropping this removes them.
pub(super) struct Staged {
    data: PathBuf,
    files: Vec<FileName>,
}

impl Staged {
    /// Writes the files that differ from those in the data directory `data`.
    ///
    /// # Errors
    /// A message: a certificate and its key do not fit, or a file cannot be written.
    pub(super) fn new(data: &Path, wanted: &BTreeMap<FileName, String>) -> Result<Self, String> {
        let mut staged = Self { data: data.to_owned(), files: Vec::new() };
        for (name, text) in wanted {
            let is_same = fs::read(data.join(name.text())).is_ok_and(|it| it == text.as_bytes());
            if !is_same {
                staged.files.push(*name);
                staged.write(*name, text).map_err(|error| {
                    format!("{} cannot be written: {error}", staged.path(*name).display())
                })?;
            }
        }
        staged.check(FileName::OwnChain, FileName::OwnKey)?;
        staged.check(FileName::Issued, FileName::Issued)?;
        let account = wanted.get(&FileName::Account).map(|it| serde_json::from_str(it));
        match account {
            None | Some(Ok(serde_json::Value::Object(_))) => Ok(staged),
            Some(_) => Err(format!("{} is no object of JSON", FileName::Account.text())),
        }
    }

    /// The names of the files.
    pub(super) fn names(&self) -> Vec<String> {
        self.files.iter().map(|name| name.text().to_owned()).collect()
    }

    /// Puts the files in their places.
    ///
    /// # Errors
    /// A message: a file cannot be renamed. Others may be in their places.
    pub(super) fn put(mut self) -> Result<(), String> {
        while let Some(name) = self.files.last() {
            let from = self.path(*name);
            fs::rename(&from, self.data.join(name.text()))
                .map_err(|error| format!("{} cannot be renamed: {error}", from.display()))?;
            self.files.pop();
        }
        Ok(())
    }

    fn path(&self, name: FileName) -> PathBuf {
        self.data.join(format!("{}.restored", name.text()))
    }

    fn write(&self, name: FileName, text: &str) -> io::Result<()> {
        let path = self.path(name);
        // One that an interrupted restore has left.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }

    /// Checks that a certificate fits its key, if one of both is new.
    fn check(&self, chain: FileName, key: FileName) -> Result<(), String> {
        let is_new = |name| self.files.contains(&name);
        if !is_new(chain) && !is_new(key) {
            return Ok(());
        }
        let place = |name: FileName| match is_new(name) {
            true => self.path(name),
            false => self.data.join(name.text()),
        };
        let read = Identity::read(&place(chain), &place(key));
        read.map(drop).map_err(|error| format!("a certificate cannot be used: {error}"))
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for name in &self.files {
            let _ = fs::remove_file(self.path(*name));
        }
    }
}
