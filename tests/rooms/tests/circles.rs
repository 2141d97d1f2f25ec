//! No files and no folders of a crate import each other in a circle.

use rooms::{Tree, circles};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io, iter};

/// The root files of all crates and programs.
fn roots(repository: &Path) -> io::Result<Vec<String>> {
    let mut roots = Vec::new();
    for storey in ["apps", "crates", "libs"] {
        let Ok(packages) = fs::read_dir(repository.join(storey)) else { continue };
        for package in packages {
            let name = package?.file_name().display().to_string();
            let files = ["lib.rs", "main.rs"].map(|file| format!("{storey}/{name}/src/{file}"));
            roots.extend(files.into_iter().filter(|file| repository.join(file).exists()));
        }
    }
    roots.sort();
    Ok(roots)
}

/// The circle of the given members in `place`, in one line, and the imports that tie it.
fn describe(
    place: &str,
    circle: &BTreeSet<String>,
    edges: &BTreeMap<String, BTreeSet<String>>,
) -> (String, Vec<String>) {
    let members: Vec<&str> = circle.iter().map(String::as_str).collect();
    let to = |from| edges[from].iter().filter(|to| circle.contains(*to));
    let ties = circle.iter().flat_map(|from| to(from).map(move |to| format!("{from} -> {to}")));
    (format!("{place}: {}", members.join(" ")), ties.collect())
}

#[test]
fn no_files_or_folders_import_each_other_in_a_circle() -> io::Result<()> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let roots = roots(&repository)?;
    assert!(roots.len() > 10, "crates are not found: {roots:?}");
    let mut found = BTreeMap::new();
    for root in roots {
        let tree = Tree::read(&repository.join(&root))?;
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (inside, edges) in iter::once((String::new(), tree.files())).chain(tree.folders()) {
            let place = format!("{folder}/{inside}");
            let place = place.trim_end_matches('/');
            found.extend(circles(&edges).iter().map(|circle| describe(place, circle, &edges)));
        }
    }
    assert!(found.is_empty(), "circles, and the imports that tie them:\n{found:#?}");
    Ok(())
}
