//! The tables in `docs/conformance.md` match those of the tests.

use crate::{rfc4475, rfc5118, torture};
use std::path::PathBuf;

/// Returns `document` with `table` between the lines `<!-- name -->` and `<!-- end name -->`.
fn with_table(document: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end {name} -->"));
    let (before, rest) = document.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
    [before, &begin, table, &end, after].concat()
}

#[test]
fn the_tables_in_the_documentation_are_those_of_the_tests() {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/conformance.md"));
    let document = std::fs::read_to_string(&path).unwrap();
    let renewed = with_table(&document, "RFC 4475", &torture::table(rfc4475::CASES));
    let renewed = with_table(&renewed, "RFC 5118", &torture::table(rfc5118::CASES));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(&path, &renewed).unwrap();
    }
    assert!(renewed == document, "docs/conformance.md is behind: run the test with UPDATE_DOCS=1");
}
