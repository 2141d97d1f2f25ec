//! The command `turn`.

use crate::site::{Site, show};

#[test]
fn turn_prints_credentials_of_the_configured_servers() {
    let site = Site::new();
    let secret = show(&site.file("turn.secret", "north\n"));
    let config = format!("[turn]\nservers = [\"turn:192.0.2.1\"]\nsecret_file = \"{secret}\"\n");
    let config = show(&site.file("c.toml", &config));
    let output = site.good(&format!("turn alice@example.org --config {config}"));
    let lines: Vec<&str> = output.lines().collect();
    let [server, user, password, "valid for 1day"] = lines[..] else { panic!("{output}") };
    assert_eq!(server, "server    turn:192.0.2.1");
    assert!(user.starts_with("user      ") && user.ends_with(":alice@example.org"), "{user}");
    assert!(password.starts_with("password  ") && password.len() == 38, "{password}");
    let json = site.good(&format!("turn alice --json --config {config}"));
    for part in [":alice\"", "\"password\":\"", "\"ttl\":86400", "\"uris\":[\"turn:192.0.2.1\"]"] {
        assert!(json.contains(part), "{part} in {json}");
    }
    let error = site.bad("turn alice");
    assert!(error.starts_with("error: no TURN server is configured: set servers"), "{error}");
}
