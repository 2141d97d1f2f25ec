//! Support code shared by the tests of several crates.

pub mod agent;
pub mod dns;
pub mod flow;
pub mod hostile;
pub mod network;
pub mod pcap;
pub mod ports;
mod random;
pub mod rig;

pub use random::Random;

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The folder of public test corpora: `BAREBELL_CORPORA`, or `../shared/corpora` beside the
/// repository.
///
/// Returns `None` if it is missing, in which case the test is skipped. The skipped test is reported
/// on standard error, even if libtest captures output, and in the file `BAREBELL_NOT_RUN`, which
/// `./test` summarizes.
///
/// # Panics
/// The folder is missing and `CI=true`.
#[must_use]
pub fn corpora() -> Option<PathBuf> {
    let root = std::env::var_os("BAREBELL_CORPORA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpora")),
        PathBuf::from,
    );
    if root.is_dir() {
        return Some(root);
    }
    let reason = format!("no test corpora in {}, set BAREBELL_CORPORA", root.display());
    skip(&reason);
    None
}

/// Reports that the present test is not run for this `reason`, as [`corpora`] does.
///
/// # Panics
/// `CI=true`.
pub fn skip(reason: &str) {
    let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!is_ci, "a test cannot be run: {reason}");
    let thread = std::thread::current();
    let test = format!(
        "{} {}",
        std::env::var("CARGO_PKG_NAME").unwrap_or_default(),
        thread.name().unwrap_or_default()
    );
    // `eprintln!` would be captured by libtest.
    let reported = writeln!(std::io::stderr(), "not run: {test}: {reason}");
    reported.expect("standard error can be written");
    if let Some(list) = std::env::var_os("BAREBELL_NOT_RUN") {
        let list = OpenOptions::new().append(true).create(true).open(list);
        list.and_then(|mut list| writeln!(list, "{test}: {reason}"))
            .expect("the file BAREBELL_NOT_RUN can be written");
    }
}

/// All files in `folder` and its subfolders, in the order of their names.
///
/// # Panics
/// A folder cannot be read.
#[must_use]
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap_or_else(|error| panic!("{folder:?}: {error}")).path())
        .collect();
    paths.sort();
    let within = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    paths.into_iter().flat_map(within).collect()
}
