//! Every source file, folder and module that a page names exists.

use crate::page::{Page, root};
use std::path::Path;

/// The folders with sources.
const FOLDERS: [&str; 6] = ["apps", "crates", "fuzz", "libs", "packaging", "tests"];

/// Appends the files and folders below `folder`, each as a path from the root of the repository.
fn collect(folder: &Path, paths: &mut Vec<String>) {
    for entry in folder.read_dir().expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        let relative = path.strip_prefix(root()).expect("a path in the repository");
        paths.push(relative.to_str().expect("a name in UTF-8").to_owned());
        if path.is_dir() {
            collect(&path, paths);
        }
    }
}

/// Returns true if `span` names a source file, or a path from the root of the repository.
fn is_path(span: &str) -> bool {
    let is_below = |folder| span.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    !span.contains(char::is_whitespace)
        && (span.ends_with(".rs") || FOLDERS.into_iter().any(is_below))
}

/// Returns true if `name` is a path, or the end of one that begins at a folder. One `*` stands for
/// any text.
fn is_there(paths: &[String], name: &str) -> bool {
    let name = name.trim_end_matches('/');
    let (start, end) = name.split_once('*').unwrap_or(("", name));
    let mut ends = paths.iter().filter_map(|path| Some((path, path.strip_suffix(end)?)));
    if name.contains('*') {
        return ends.any(|(_, before)| before.starts_with(start));
    }
    ends.any(|(_, before)| before.is_empty() || before.ends_with('/'))
}

/// Returns the path from the folder of sources of a crate to the module that `span` begins with,
/// such as `sip/src/uri` for `sip::uri`. `None` if it is no module of a crate in `paths`.
fn module(paths: &[String], span: &str) -> Option<String> {
    let (name, rest) = span.split_once("::")?;
    let module = rest.split("::").next()?;
    let is_module =
        module.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let sources = format!("{}/src", name.replace('_', "-"));
    (is_module && is_there(paths, &sources)).then(|| format!("{sources}/{module}"))
}

#[test]
fn named_sources_exist() {
    let mut paths = Vec::new();
    for folder in FOLDERS {
        let path = root().join(folder);
        if path.exists() {
            paths.push(folder.to_owned());
            collect(&path, &mut paths);
        }
    }
    let mut faults = Vec::new();
    for page in Page::all() {
        for (line, span) in page.spans() {
            let is_fault = match module(&paths, span) {
                Some(module) => {
                    !is_there(&paths, &module) && !is_there(&paths, &format!("{module}.rs"))
                }
                None => is_path(span) && !is_there(&paths, span),
            };
            if is_fault {
                faults.push(format!("{}:{line}: {span}", page.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn names_are_ends_of_paths() {
    let paths = ["crates/sip-ua/src", "crates/sip/src/uri.rs", "tests/phones_call.rs"];
    let paths = paths.map(str::to_owned);
    for name in ["uri.rs", "src/uri.rs", "crates/sip/src/uri.rs", "tests/phones_*.rs"] {
        assert!(is_path(name) && is_there(&paths, name), "{name}");
    }
    for name in ["ri.rs", "sip/uri.rs", "tests/sipp_*.rs"] {
        assert!(!is_there(&paths, name), "{name}");
    }
    assert_eq!(module(&paths, "sip_ua::call::x").as_deref(), Some("sip-ua/src/call"));
    assert_eq!(module(&paths, "sip_ua::Agent"), None);
    assert_eq!(module(&paths, "std::sync"), None);
    for name in ["docs/running.md", "cargo test crates/sip", "sip::uri", "tests"] {
        assert!(!is_path(name), "{name}");
    }
}
