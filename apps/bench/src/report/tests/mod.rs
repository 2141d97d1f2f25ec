//! Tests of whole reports.

mod synthetic;

use super::*;

#[test]
fn dump() {
    let dir = std::path::Path::new("/tmp/report-out");
    fs::create_dir_all(dir).unwrap();
    for record in synthetic::all() {
        let name = format!("{:?}.html", record.kind).to_lowercase();
        write(&[record], &dir.join(name)).unwrap();
    }
    for form in ["html", "md", "csv", "xml", "json"] {
        write(&synthetic::all(), &dir.join(format!("all.{form}"))).unwrap();
    }
}
