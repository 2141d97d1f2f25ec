//! Every relative link leads to a file, and to a heading of it.

use crate::page::{Page, root};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// The anchors of a page, as GitHub makes them of headings.
fn anchors(page: &Page) -> Vec<String> {
    let mut is_block = false;
    let mut anchors = Vec::new();
    for line in page.text.lines() {
        if line.starts_with("```") {
            is_block = !is_block;
        }
        let Some(heading) = line.strip_prefix('#').filter(|_| !is_block) else { continue };
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let anchor = heading.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        anchors.push(anchor.collect());
    }
    anchors
}

/// Where the link `to` on a page in `folder` leads.
fn resolve(folder: &Path, to: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(to).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

#[test]
fn links_lead_somewhere() {
    let pages: BTreeMap<PathBuf, Page> =
        Page::all().into_iter().map(|page| (page.path.clone(), page)).collect();
    let mut faults = Vec::new();
    for (path, page) in &pages {
        for link in page.text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://")
                || link.starts_with("mailto:")
                || link.contains(char::is_whitespace)
            {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => resolve(path.parent().expect("a page is in a folder"), file),
            };
            let is_there = root().join(&target).exists();
            let has_anchor = anchor.is_empty()
                || pages.get(&target).is_some_and(|page| anchors(page).iter().any(|a| a == anchor));
            if !is_there || !has_anchor {
                faults.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
