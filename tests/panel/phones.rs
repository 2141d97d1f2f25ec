//! Links for phones at the real server: a phone registers with the settings that it fetches.

use crate::rig::Rig;
use peers::server::DOMAIN;
use test_support::agent::Agent;

/// The path of the link on a page.
fn link(rig: &Rig, page: &str) -> String {
    let url = page.split("<code>").nth(1).and_then(|rest| rest.split('<').next());
    let url = url.unwrap_or_else(|| panic!("no link: {page}"));
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
    assert!(page.contains("<svg"), "{page}");
    let path = link(&rig, &page);
    assert!(rig.get(&user, &session).body.contains("not fetched yet"));
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
