//! The modules of one crate, and their imports.

use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The modules of one crate.
pub struct Tree {
    /// By path within the crate: the root is the empty path.
    modules: BTreeMap<Vec<String>, Module>,
}

struct Module {
    /// The file, relative to the folder of the root.
    file: PathBuf,
    source: Source,
}

impl Tree {
    /// Reads the modules from the `root` file, `lib.rs` or `main.rs`, downwards.
    ///
    /// # Errors
    ///
    /// A file of a declared module cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let folder = root.parent().unwrap_or(Path::new(""));
        let mut tree = Self { modules: BTreeMap::new() };
        tree.add(folder, root.strip_prefix(folder).unwrap_or(root), Vec::new())?;
        Ok(tree)
    }

    fn add(&mut self, folder: &Path, file: &Path, path: Vec<String>) -> io::Result<()> {
        let source = Source::parse(&fs::read_to_string(folder.join(file))?);
        let inside: PathBuf = path.iter().collect();
        for name in &source.modules {
            let files = [format!("{name}.rs"), format!("{name}/mod.rs")];
            let mut files = files.iter().map(|file| inside.join(file));
            // A module with a `path` attribute has another file.
            if let Some(file) = files.find(|file| folder.join(file).exists()) {
                let mut path = path.clone();
                path.push(name.clone());
                self.add(folder, &file, path)?;
            }
        }
        self.modules.insert(path, Module { file: file.to_owned(), source });
        Ok(())
    }

    /// The imports between files: from a file to the files with the names that it imports.
    #[must_use]
    pub fn files(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in self.imports() {
            let name = |path: &[String]| self.modules[path].file.display().to_string();
            edges.entry(name(from)).or_default().insert(name(&to));
        }
        edges
    }

    /// For each module with submodules: the imports between these, each with all below it. The file
    /// of the module itself is one of them, under the name of the file.
    #[must_use]
    pub fn folders(&self) -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
        let mut folders: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (from, to) in self.imports() {
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            let parent = &from[..common];
            let own = || self.modules[parent].file.file_name().unwrap_or_default();
            let child = |path: &[String]| {
                path.get(common).cloned().unwrap_or_else(|| own().display().to_string())
            };
            let edges = folders.entry(parent.join("/")).or_default();
            edges.entry(child(from)).or_default().insert(child(&to));
        }
        folders
    }

    /// The pairs of a module and another one that it imports from.
    fn imports(&self) -> Vec<(&[String], Vec<String>)> {
        let mut imports = Vec::new();
        for (from, Module { source, .. }) in &self.modules {
            let mut targets = BTreeSet::new();
            for import in &source.uses {
                // A name that is only passed on is not a dependency of this file.
                if !import.is_public || source.names.contains(&import.name) {
                    let target = self.resolve(from, &import.path, 0);
                    // A module is imported for the paths that begin with it.
                    targets.extend(target.filter(|target| !target.is_module));
                }
            }
            for path in &source.paths {
                targets.extend(self.resolve(from, path, 0));
            }
            let targets: BTreeSet<Vec<String>> = targets.into_iter().map(|t| t.module).collect();
            let targets = targets.into_iter().filter(|target| target != from);
            imports.extend(targets.map(|target| (from.as_slice(), target)));
        }
        imports
    }

    /// The module with the item at `path`, as named in the module `from`. `None` if it is in
    /// another crate.
    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<Target> {
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.to_vec(),
            "super" => from.split_last()?.1.to_vec(),
            _ => {
                rest = path;
                from.to_vec()
            }
        };
        let is_relative = rest.len() == path.len();
        for (index, name) in rest.iter().enumerate() {
            if name == "super" {
                at.pop();
                continue;
            }
            let mut below = at.clone();
            below.push(name.clone());
            if self.modules.contains_key(&below) {
                at = below;
                continue;
            }
            let source = &self.modules.get(&at)?.source;
            let passed_on =
                source.uses.iter().find(|u| u.name == *name && name != "*" && depth < 8);
            let passed_on = passed_on.filter(|u| at != from || u.path != path);
            return match passed_on {
                Some(passed_on) => {
                    let mut path = passed_on.path.clone();
                    path.extend_from_slice(&rest[index + 1..]);
                    self.resolve(&at, &path, depth + 1)
                }
                // The first name of a relative path is another crate's, or an item of the file.
                None if is_relative && index == 0 => None,
                None => Some(Target { module: at, is_module: false }),
            };
        }
        Some(Target { module: at, is_module: true })
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    module: Vec<String>,
    /// True if the path names the module, not an item in it.
    is_module: bool,
}
