//! The paths in docs/dev/finding.md lead to files that have the named word, and each package has a
//! row.

use std::path::Path;
use std::{fs, io};

#[test]
fn each_row_leads_to_its_file_and_each_package_has_one() -> io::Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(repository.join("docs/dev/finding.md"))?;
    let rows: Vec<(&str, &str)> = page.lines().filter_map(row).collect();
    let mut faults = Vec::new();
    for &(path, word) in &rows {
        match fs::read_to_string(repository.join(path)) {
            Ok(text) if text.contains(word) => {}
            Ok(_) => faults.push(format!("{path} has no `{word}`")),
            Err(error) => faults.push(format!("{path}: {error}")),
        }
    }
    for storey in ["apps", "crates", "libs"] {
        for package in fs::read_dir(repository.join(storey))? {
            let package = format!("{storey}/{}/", package?.file_name().display());
            let is_package = repository.join(&package).join("Cargo.toml").exists();
            if is_package && !rows.iter().any(|(path, _)| path.starts_with(&package)) {
                faults.push(format!("{package} has no row"));
            }
        }
    }
    assert!(faults.is_empty(), "docs/dev/finding.md:\n{}", faults.join("\n"));
    Ok(())
}

/// The file and the word of a row of the table.
fn row(line: &str) -> Option<(&str, &str)> {
    let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").skip(1);
    let mut cell = || cells.next()?.strip_prefix('`')?.strip_suffix('`');
    Some((cell()?, cell()?))
}
