//! The experiments of the source documents: a short run of two parts, against Barebell.

use super::servers::{barebell, turn};
use super::support::{bench, bench_with};
use serde_json::Value;
use std::fs;

#[test]
fn two_parts_make_their_figures_beside_those_of_the_sources() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let line = "seeds --part srtp inside --sut barebell --quiet -o figures";
    let ended = bench_with(folder.path(), &[("BAREBELL_BIN", barebell().as_os_str())], line);
    // On a busy machine a run may be not valid, which is status 1.
    assert!(ended.status < 2, "{}\n{}", ended.err, ended.out);
    let made = folder.path().join("figures");
    let read = |name: &str| {
        let path = made.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}\n{}", ended.err))
    };
    let figures: Value = serde_json::from_str(&read("seeds.json")).unwrap();
    let figure = |id: &str| {
        let figures = figures.as_array().unwrap();
        figures.iter().find(|figure| figure["id"] == id).unwrap_or_else(|| panic!("no {id}"))
    };
    let count =
        |id: &str, whose: &str| figure(id)[whose][0]["values"].as_array().map_or(0, Vec::len);

    // The handler at eight rates, beside that of the source.
    assert_eq!((count("001-F12a", "ours"), count("001-F12a", "source")), (8, 8));
    assert_eq!(figure("001-F12a")["source"][0]["values"][0]["value"], 180.0);
    // Each figure has the value of the record that it names.
    assert_eq!(figure("001-F12a")["records"][0], "inside");
    let record: Value = serde_json::from_str(&read("inside.json")).unwrap();
    let step = &record["runs"][0]["steps"]["handler"];
    let nanoseconds = step["nanoseconds"].as_f64().unwrap() / step["count"].as_f64().unwrap();
    let told = figure("001-F12a")["ours"][0]["values"][0]["value"].as_f64().unwrap();
    assert!((told - nanoseconds / 1e3).abs() < 1e-9, "{told} us, {nanoseconds} ns");
    assert_eq!(count("000-F29", "ours"), 5, "{}", figure("000-F29"));

    let costs: Value = serde_json::from_str(&read("srtp.json")).unwrap();
    let encryption = &costs["suites"]["AES_256_CM_HMAC_SHA1_80"]["encryption"];
    assert_eq!(&figure("000-F36")["ours"][0]["values"][1]["value"], encryption);
    for id in ["000-F31", "000-F32", "000-F33", "000-F34", "000-F35", "000-F36"] {
        assert_eq!(count(id, "ours"), 8, "{id}");
    }
    assert_eq!((count("002-T2-time", "ours"), count("002-T2-time", "source")), (4, 4));
    assert_eq!(count("002-F8", "ours"), 12);
    // A part that was not measured has the numbers of the source only.
    assert_eq!((count("003-T3", "ours"), count("003-T3", "source")), (0, 9));

    let page = read("seeds.html");
    assert!(page.contains("Figure 12a") && page.contains("<svg"), "{page}");
    assert!(read("seeds.md").contains("Not measured: no qos.json"), "{}", read("seeds.md"));
}

#[test]
fn parts_are_listed_and_systems_that_are_not_installed_are_named() {
    let list = bench("seeds --list --sut barebell-that-is-not-there.toml");
    assert_eq!(list.status, 0, "{}", list.err);
    assert!(list.out.contains("burst") && list.out.contains("004 Figure 20, left"), "{}", list.out);
    assert!(list.out.contains("without barebell-that-is-not-there.toml"), "{}", list.out);

    let folder = tempfile::tempdir().unwrap();
    let line = "seeds --part burst --sut absent.toml -o figures";
    let ended = bench_with(folder.path(), &[], line);
    assert!(ended.err.contains("burst is not measured"), "{}", ended.err);
    assert!(fs::read_to_string(folder.path().join("figures/seeds.md")).unwrap().contains("6,400"));
}
