//! A temporary folder that is kept after a failed test.

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The number of log lines printed after a failure.
const LINES_SHOWN: usize = 150;

/// The folder of one program. It is removed on drop, unless the test fails or folders [are
/// kept](is_kept). Then the ends of its logs are printed.
#[derive(Debug)]
pub struct Folder {
    dir: Option<TempDir>,
    owner: String,
}

impl Folder {
    /// Creates an empty folder for the program called `owner` in messages.
    ///
    /// # Panics
    /// The folder cannot be created.
    #[must_use]
    pub fn new(owner: &str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix(&format!("barebell-{owner}-"))
            .tempdir()
            .unwrap_or_else(|error| {
                panic!("cannot create a temporary folder for {owner}: {error}")
            });
        Self { dir: Some(dir), owner: owner.to_owned() }
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.as_ref().map_or(Path::new(""), TempDir::path)
    }

    /// The path of `name` in the folder.
    #[must_use]
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Writes `text` to the file `name`, and creates its parent folders.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.join(name);
        let parent = path.parent().unwrap_or(self.path());
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    }
}

/// Returns true if folders of successful tests are kept: `BAREBELL_KEEP` is set.
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
