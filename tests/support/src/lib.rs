//! What the tests of several crates share.

pub mod agent;
pub mod dns;
pub mod fuzz;
pub mod network;
pub mod pcap;
pub mod ports;
mod random;
pub mod rig;

pub use random::Random;

use std::path::{Path, PathBuf};

/// The folder of public test corpora: `BAREBELL_CORPORA`, or `../shared/corpora` beside the
/// repository. `None`, with a line on standard error, where it is absent; under `CI=true` absence
/// is a failure.
///
/// # Panics
/// Under `CI=true`, when the folder is absent.
pub fn corpora() -> Option<PathBuf> {
    let root = std::env::var_os("BAREBELL_CORPORA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpora")),
        PathBuf::from,
    );
    if root.is_dir() {
        return Some(root);
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "the test corpora are not at {}: set BAREBELL_CORPORA to their folder",
        root.display()
    );
    eprintln!("SKIPPED: the test corpora are not at {}: set BAREBELL_CORPORA", root.display());
    None
}

/// Every file in `folder` and the folders in it, in the order of their names.
///
/// # Panics
/// Where a folder cannot be read.
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
