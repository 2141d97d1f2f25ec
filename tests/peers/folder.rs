//! A temporary folder that outlives a failing test, so that somebody can look into it.

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Lines of each log that are printed when a test fails.
const LINES_SHOWN: usize = 150;

/// The folder of one program. It is removed when dropped, unless the test is failing or folders
/// [are kept](is_kept): then the ends of its logs are printed and it stays.
#[derive(Debug)]
pub struct Folder {
    dir: Option<TempDir>,
    owner: String,
}

impl Folder {
    /// Makes an empty folder for the program that messages call `owner`.
    ///
    /// # Panics
    /// When it cannot be made.
    #[must_use]
    pub fn new(owner: &str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix(&format!("barebell-{owner}-"))
            .tempdir()
            .unwrap_or_else(|error| panic!("cannot make a temporary folder for {owner}: {error}"));
        Self { dir: Some(dir), owner: owner.to_owned() }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.as_ref().map_or(Path::new(""), TempDir::path)
    }

    /// The path of `name` in it.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes `text` to the file `name`, making the folders above it.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.join(name);
        let parent = path.parent().unwrap_or(self.path());
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}

/// Whether the folders of tests that succeed are kept too: `BAREBELL_KEEP` is set.
#[must_use]
pub fn is_kept() -> bool {
    std::env::var_os("BAREBELL_KEEP").is_some()
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !std::thread::panicking() && !is_kept() {
            return;
        }
        let Some(dir) = self.dir.take() else { return };
        let path = dir.keep();
        eprintln!("\n===== {}: everything is kept in {}", self.owner, path.display());
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            let log = entry.path();
            if log.extension().is_some_and(|extension| extension == "log") {
                let text = fs::read(&log).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                let skipped = text.lines().count().saturating_sub(LINES_SHOWN);
                eprintln!("----- the end of {}", log.display());
                text.lines().skip(skipped).for_each(|line| eprintln!("{line}"));
            }
        }
    }
}
