//! The file with the secrets that ZRTP retains between calls.

use crate::random::random;
use crate::saved;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use zrtp::{Cache, Update, Zid};

/// The file: a line with the ZID of this phone, then the lines of the cache. Only the owner can
/// read it.
#[derive(Clone, Debug)]
pub(crate) struct Secrets(PathBuf);

impl Secrets {
    /// The file at the default path: `barebell/zrtp` in the folder of data. It is created with a
    /// new ZID if it does not exist.
    ///
    /// # Errors
    /// A description of the failure.
    pub(crate) fn open() -> Result<Self, String> {
        let folder =
            |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = folder("XDG_DATA_HOME")
            .or_else(|| Some(folder("HOME")?.join(".local/share")))
            .ok_or("no place for the secrets of ZRTP: set HOME or XDG_DATA_HOME")?;
        Self::open_at(&folder.join("barebell").join("zrtp"))
    }

    fn open_at(path: &Path) -> Result<Self, String> {
        let secrets = Self(path.to_owned());
        if !path.exists() {
            let mut zid = [0; 12];
            random(&mut zid);
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            folder.map_or(Ok(()), std::fs::create_dir_all).map_err(|it| secrets.unwritten(&it))?;
            secrets.write(Zid(zid), &Cache::default())?;
        }
        secrets.read()?;
        Ok(secrets)
    }

    /// The ZID of this phone, and the secrets that have not expired.
    ///
    /// # Errors
    /// A description of the failure.
    pub(crate) fn read(&self) -> Result<(Zid, Cache), String> {
        let Self(path) = self;
        let place = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the secrets of ZRTP in {place}: {error}"))?;
        let (zid, lines) = text.split_once('\n').unwrap_or((&text, ""));
        let damaged = |reason: String| {
            format!(
                "{place}: {reason}. Without the file all calls are new, and their SAS unverified"
            )
        };
        let zid = zid.parse::<Zid>().map_err(|error| damaged(error.to_string()))?;
        let mut cache = lines.parse::<Cache>().map_err(|error| damaged(error.to_string()))?;
        cache.expire(now());
        Ok((zid, cache))
    }

    /// Stores the secrets of a call.
    ///
    /// # Errors
    /// A description of the failure; the file is unchanged then.
    pub(crate) fn store(&self, update: Update) -> Result<(), String> {
        let (zid, mut cache) = self.read()?;
        cache.store(update, now());
        self.write(zid, &cache)
    }

    fn write(&self, zid: Zid, cache: &Cache) -> Result<(), String> {
        let text = format!("{zid}\n{cache}");
        saved::replace(&self.0, text.as_bytes()).map_err(|error| self.unwritten(&error))
    }

    fn unwritten(&self, error: &io::Error) -> String {
        format!("cannot write the secrets of ZRTP to {}: {error}", self.0.display())
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_zid_stays_and_only_the_owner_can_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/zrtp");
        let (zid, cache) = Secrets::open_at(&path).and_then(|it| it.read()).expect("it is made");
        assert!(cache.is_empty());
        let again = Secrets::open_at(&path).and_then(|it| it.read()).expect("it is there");
        assert_eq!(again.0, zid);
        let mode = path.metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::write(&path, format!("{zid}\nx\n")).expect("it is written");
        let error = Secrets::open_at(&path).expect_err("a line is damaged");
        assert!(error.contains("line 1 of the ZRTP cache") && error.contains("zrtp"), "{error}");
    }
}
