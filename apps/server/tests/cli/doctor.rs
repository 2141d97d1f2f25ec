//! `barebell doctor` finds mistakes that are made on purpose.

use crate::site::{Site, show, stdout};
use net::tls::make_self_signed;
use std::fs::{File, FileTimes};
use std::net::UdpSocket;
use std::time::{Duration, SystemTime};

/// The exit status, and the findings that are no `ok`: check, severity and text.
fn findings(site: &Site, words: &str) -> (Option<i32>, Vec<(String, String, String)>) {
    let output = site.command(&format!("doctor --json {words}")).output().unwrap();
    let text = stdout(&output);
    let rows = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let faults = rows.filter(|row: &serde_json::Value| row["severity"] != "ok").map(|row| {
        assert!(row["remedy"].as_str().is_some_and(|remedy| !remedy.is_empty()), "{row}");
        let [check, severity, text] =
            ["check", "severity", "text"].map(|key| row[key].as_str().unwrap().to_owned());
        (check, severity, text)
    });
    let faults = faults.filter(|(check, ..)| check != "limits").collect();
    (output.status.code(), faults)
}

/// Asserts that there is a finding of `check` and `severity` with `text`.
fn assert_found(site: &Site, words: &str, check: &str, severity: &str, text: &str) {
    let (status, found) = findings(site, words);
    let is_it = |it: &(String, String, String)| it.0 == check && it.1 == severity;
    assert!(found.iter().any(|it| is_it(it) && it.2.contains(text)), "{text}: {found:?}");
    assert!(matches!(status, Some(1 | 3)), "{status:?}");
}

#[test]
fn a_server_without_mistakes_has_no_errors() {
    let site = Site::new();
    let config = show(&site.file("c.toml", "domains = [\"127.0.0.1\"]"));
    site.good(&format!("user add alice --password x --config {config}"));
    // The listener is the server's own.
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!("domains = [\"127.0.0.1\"]\nlisten = [\"udp:127.0.0.1:{port}\"]\n");
    let config = show(&site.file("c.toml", &text));
    let _server = site.started(&mut site.command(&format!("serve --config {config}")));
    let (status, found) = findings(&site, &format!("--config {config}"));
    assert_eq!(found, []);
    assert!(matches!(status, Some(0 | 3)), "{status:?}");
    site.good("drain --no-wait");
    assert_found(&site, &format!("--config {config}"), "server", "error", "draining");
}

#[test]
fn mistakes_made_on_purpose_are_found() {
    let site = Site::new();
    let write = |text: &str| format!("--config {}", show(&site.file("c.toml", text)));
    let found = |text: &str, check: &str, severity: &str, said: &str| {
        assert_found(&site, &write(text), check, severity, said);
    };
    const LISTEN: &str = "listen = [\"udp:127.0.0.1:0\"]\n";
    found("nonsense = 1\n", "configuration", "error", "unknown key `nonsense`");
    found(LISTEN, "server", "warning", "no server runs");
    found(LISTEN, "domains", "warning", "no domain is configured");
    let domain = "domains = [\"phones.invalid\"]\n";
    found(&format!("{domain}{LISTEN}"), "dns", "warning", "phones.invalid has no address");
    site.good(&format!("user list {}", write(LISTEN)));
    found(LISTEN, "users", "warning", "there are no users");
    site.good("user add alice@old.example --password x");
    let moved = "domains = [\"127.0.0.1\"]\n";
    found(&format!("{moved}{LISTEN}"), "users", "error", "in the domain old.example");
    let off = "[authentication]\nrequired = false\n";
    found(&format!("{LISTEN}{off}"), "users", "error", "authentication is off");
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    found(&format!("listen = [\"udp:{address}\"]\n"), "ports", "error", "cannot be used");
    found("listen = [\"udp:192.0.2.77:5060\"]\n", "ports", "error", "192.0.2.77:5060 cannot");
    let [chain, key] = ["chain.pem", "key.pem"].map(|name| site.file(name, ""));
    make_self_signed(&["example.com".to_owned()], &chain, &key).unwrap();
    std::fs::write(&key, "nonsense").unwrap();
    let [chain, key] = [chain, key].map(|file| show(&file));
    let tls = format!(
        "listen = [\"tls:127.0.0.1:0\"]\n[tls]\n\
         certificates = [{{ chain = \"{chain}\", key = \"{key}\" }}]\n"
    );
    found(&tls, "certificate", "error", "key.pem");
    // The clock has been set back since the database was written.
    let database = File::options().write(true).open(site.data().join("barebell.sqlite")).unwrap();
    let later = SystemTime::now() + Duration::from_secs(86_400);
    database.set_times(FileTimes::new().set_modified(later)).unwrap();
    found(LISTEN, "clock", "error", "it has been set back");
}
