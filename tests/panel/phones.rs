//! Links for phones at the real server: a phone registers with the settings that it fetches.

use crate::rig::Rig;
use peers::process::{Process, Program, built};
use peers::server::DOMAIN;
use peers::test_server::PASSWORD;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use test_support::agent::Agent;

const PHONE: Program = Program { name: "barebell-phone", packages: "(none: build it)" };

/// The path of the link on a page.
fn link(rig: &Rig, page: &str) -> String {
    let mut parts = page.split("<code>").flat_map(|rest| rest.split(['<', '\'']));
    let url =
        parts.find(|part| part.starts_with("http")).unwrap_or_else(|| panic!("no link: {page}"));
    let root = format!("http://{}", rig.address);
    url.strip_prefix(&root).unwrap_or_else(|| panic!("{url}")).to_owned()
}

#[test]
fn a_phone_registers_with_the_settings_of_a_link() {
    let rig = Rig::new("");
    let session = rig.set_up();
    let server = &rig.exchange.server;
    let former = rig.exchange.agent("bob");
    let user = format!("/panel/users/bob@{DOMAIN}");
    let form = "kind=barebell-phone&transport=udp";
    let page = rig.post_form(&format!("{user}/phone"), &session, form).body;
    assert!(page.contains("barebell-phone provision"), "{page}");
    let path = link(&rig, &page);
    assert!(rig.get(&user, &session).body.contains("not fetched yet"));
    // A request without content for the phone leaves the link valid.
    let head = rig.request("HEAD", &path, "", "");
    assert_eq!((head.status, head.field("allow")), (405, "GET"), "{head:?}");
    let file = rig.get(&path, "").body;
    let password = file.lines().find_map(|line| line.strip_prefix("password = \""));
    let password = password.unwrap_or_else(|| panic!("{file}")).trim_end_matches('"');
    // The phone with the former password is logged out.
    let _ = server.wait_for_registrations("bob", 0);
    let mut bob = Agent::new("bob", password, DOMAIN, server.address());
    bob.register();
    let page = rig.get(&user, &session).body;
    assert!(page.contains("fetched, registered"), "{page}");
    let page = rig.get("/panel/access", &session).body;
    assert!(page.contains(&format!("phone link of bob@{DOMAIN}")), "{page}");
    assert!(!page.contains(password), "a password is recorded");
    drop(former);
}

/// The answer of the API as JSON.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn barebell_phone_fetches_a_link_over_tls_registers_and_is_called() {
    let rig = Rig::secure("[media]\nrelay = \"all\"\n");
    let (server, token) = (&rig.exchange.server, rig.token("operator"));
    let wish = "{\"kind\":\"barebell-phone\",\"transport\":\"udp\",\"server\":\"127.0.0.1\"}";
    let links = "/users/alice/phone-links";
    let link = json(&rig.api(&token, "POST", links, wish).body)["url"].clone();
    let link = link.as_str().expect("a link").to_owned();
    assert!(link.starts_with("https://127.0.0.1:"), "{link}");
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("new").join("phone.toml");
    let phone = || Command::new(built(PHONE.name, "BAREBELL_PHONE_BIN"));
    let provision = |trust: &[&str]| {
        let mut provision = phone();
        provision.args(["provision", &link, "--config"]).arg(&config).args(trust);
        provision.output().expect("the phone runs")
    };
    // The certificate of the server has no issuer that the system trusts.
    let output = provision(&[]);
    assert_eq!(output.status.code(), Some(22), "{output:?}");
    assert!(!config.exists());
    let certificate = server.certificate().display().to_string();
    let output = provision(&["--trust", &certificate]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = fs::read_to_string(&config).expect("the settings");
    assert!(text.contains(&certificate) && text.contains(&format!("sip:alice@{DOMAIN}")), "{text}");
    let mode = fs::metadata(&config).expect("the settings").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let mut alice = phone();
    alice.args(["answer", "--auto", "--listen", "127.0.0.1:0", "--play", "tone:440"]);
    alice.arg("--config").arg(&config);
    let _alice = Process::start(PHONE, alice, &folder.path().join("alice.log"));
    let _ = server.wait_for_registrations("alice", 1);
    let mut bob = phone();
    let (account, proxy) = (format!("bob@{DOMAIN}"), server.address().to_string());
    bob.args([
        "call",
        "alice",
        "--account",
        &account,
        "--proxy",
        &proxy,
        "--listen",
        "127.0.0.1:0",
    ]);
    bob.args(["--play", "tone:620", "--expect", "tone:440", "--duration", "2s"]);
    bob.env("BAREBELL_PHONE_PASSWORD", PASSWORD);
    let output = bob.output().expect("the phone runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    server.wait_for_history(1);
    let state = json(&rig.api(&token, "GET", links, "").body)["items"][0]["state"].clone();
    assert_eq!(state, "heard");
}
