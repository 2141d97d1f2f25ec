//! Every counter of `barebell status` is described.

use crate::page::Page;
use crate::stage::play;

const SCRIPT: &str = r#"
printf '[media]\nng = "127.0.0.1:2223"\nng_clients = ["127.0.0.1"]\n' > ng.toml
barebell serve --config ng.toml --listen udp:127.0.0.1:5060 2>/dev/null &
until barebell status --json >/dev/null; do sleep 0.1; done
barebell status --json
"#;

#[test]
fn counters_are_described() {
    let output = play(SCRIPT);
    let printed = String::from_utf8(output.stdout).unwrap();
    let status: serde_json::Value = serde_json::from_str(&printed)
        .unwrap_or_else(|error| panic!("{error}: {printed}{:?}", output.stderr));
    let counters = status["counters"].as_object().unwrap();
    let page = Page::read("docs/running.md");
    let spans = page.spans();
    let unknown: Vec<&String> =
        counters.keys().filter(|name| !spans.iter().any(|(_, span)| span == name)).collect();
    assert!(unknown.is_empty() && counters.len() > 30, "not in running.md: {unknown:?}");
}
