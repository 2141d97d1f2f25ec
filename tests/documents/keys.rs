//! Every key of the configuration in the documents is accepted by `barebell check`.

use crate::page::Page;
use peers::process::built;
use std::collections::BTreeMap;
use std::process::Command;

/// What `barebell check` says of a file with `text`.
fn check(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("barebell.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(built("barebell", "BAREBELL_BIN"));
    command.arg("check").arg("--config").arg(file).arg("--data").arg(folder.path().join("data"));
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// The keys that there are below `section`, at the top where it is empty.
fn known(section: &str) -> Vec<String> {
    let head = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
    let said = check(&format!("{head}no_such_key = 1\n"));
    let (_, keys) = said.split_once("expected one of: ").unwrap_or_else(|| panic!("{said}"));
    keys.trim().split(", ").map(str::to_owned).collect()
}

#[test]
fn examples_are_accepted() {
    for page in ["docs/configuration.md", "docs/running.md", "README.md"].map(Page::read) {
        for block in page.blocks().iter().filter(|block| block.language == "toml") {
            let said = check(&block.lines.join("\n"));
            // Files that examples name are not there.
            let wrong = said
                .lines()
                .find(|line| line.contains("barebell.toml:") && !line.contains(": cannot read /"));
            assert_eq!(wrong, None, "{}:{}: {said}", page.path.display(), block.line);
            assert!(said.contains("keeps its data in"), "{said}");
        }
    }
}

#[test]
fn keys_that_are_named_exist() {
    let top = known("");
    let sections: Vec<&String> = top
        .iter()
        .filter(|name| check(&format!("[{name}]\nno_such_key = 1\n")).contains("in ["))
        .collect();
    assert!(sections.len() > 5, "{sections:?}");
    let keys: BTreeMap<&str, Vec<String>> =
        sections.iter().map(|name| (name.as_str(), known(name))).collect();
    let mut faults = Vec::new();
    for page in Page::all() {
        for (line, span) in page.spans() {
            let Some((section, key)) = span.split_once('.') else { continue };
            let key = key.split([' ', '=']).next().unwrap_or(key);
            let is_key =
                key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b.is_ascii_digit());
            if let Some(known) = keys.get(section).filter(|_| is_key && !key.is_empty())
                && !known.iter().any(|known| known == key)
                && !["rs", "c", "toml", "md", "jsonl"].contains(&key)
            {
                faults.push(format!("{}:{line}: {span}", page.path.display()));
            }
        }
        if page.path.ends_with("configuration.md") {
            // The keys that headings name.
            for heading in page.text.lines().filter(|line| line.starts_with("## ")) {
                for name in heading.split('`').skip(1).step_by(2) {
                    let name = name.rsplit('.').next().unwrap_or(name);
                    let is_known = top.iter().chain(keys.values().flatten()).any(|key| key == name);
                    if !is_known {
                        faults.push(format!("{}: {heading}: {name}", page.path.display()));
                    }
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
