//! The two extensions of SIPp's XML: settings and parts.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Expands settings and parts in `{folder}/{name}.xml`.
///
/// # Panics
/// A file is missing or a setting has no value.
pub(super) fn expand(folder: &Path, name: &str, settings: &HashMap<String, String>) -> String {
    let parts = folder.join("parts");
    let text = expand_file(&folder.join(format!("{name}.xml")), &parts, settings);
    if let Some(left) = find_setting(&text) {
        panic!("scenario {name}: {left} has no value");
    }
    text
}

fn expand_file(file: &Path, parts: &Path, settings: &HashMap<String, String>) -> String {
    const INCLUDE: &str = "<include ";
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let text = fill(&text, settings);
    let mut expanded = String::new();
    let mut rest = text.as_str();
    while let Some((before, include)) = rest.split_once(INCLUDE) {
        let (attributes, after) = include.split_once("/>").expect("an include ends with />");
        let mut inner = settings.clone();
        let mut attributes = attributes.split('"');
        while let (Some(name), Some(value)) = (attributes.next(), attributes.next()) {
            inner.insert(name.trim().trim_end_matches('=').into(), value.replace("&lt;", "<"));
        }
        let name = inner.remove("file").expect("an include names a file");
        expanded.push_str(before);
        expanded.push_str(&expand_file(&parts.join(name), parts, &inner));
        rest = after;
    }
    expanded + rest
}

/// Replaces each `{name}` by its value.
fn fill(text: &str, settings: &HashMap<String, String>) -> String {
    settings
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

/// Finds a `{name}` without a value.
fn find_setting(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(start, _)| {
        let end = start + text[start..].find('}')?;
        let name = &text[start + 1..end];
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_name.then_some(&text[start..=end])
    })
}
