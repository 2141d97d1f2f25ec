//! The server registers at trunks: at a second server over UDP and TLS, and at Kamailio.

use peers::kamailio::Kamailio;
use peers::process::wait_until;
use peers::server::{DOMAIN, ServerProcess};
use peers::test_server::{PASSWORD, TestServer};
use peers::transport::Transport;
use serde_json::Value;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// A section of a trunk with the accounts of `users`, at the server at `address`.
fn trunk(name: &str, address: SocketAddr, transport: &str, users: &[&str]) -> String {
    let accounts = users.iter().map(|user| {
        format!(
            "[[trunks.accounts]]\nuser = \"{user}\"\npassword = \"{PASSWORD}\"\n\
             domain = \"{DOMAIN}\"\n"
        )
    });
    format!(
        "[[trunks]]\nname = \"{name}\"\nhost = \"{address}\"\ntransport = \"{transport}\"\n\
         register = true\nexpires = \"60s\"\nprobe_interval = \"10s\"\n{}",
        accounts.collect::<String>()
    )
}

/// The state of the trunk `name` by `barebell trunks`.
fn state(server: &ServerProcess, name: &str) -> Value {
    let trunks = server.rows(&["trunks", "--json"]);
    let found = trunks.into_iter().find(|trunk| trunk["name"] == name);
    found.unwrap_or_else(|| panic!("no trunk {name}"))
}

/// Waits until all accounts of the trunk `name` are in `wanted`, and returns the state.
fn wait_for(server: &ServerProcess, name: &str, wanted: &str) -> Value {
    wait_until(&format!("the accounts of {name} are {wanted}"), || {
        let state = state(server, name);
        let accounts = state["accounts"].as_array().expect("a list");
        accounts.iter().all(|account| account["state"] == wanted).then_some(state)
    })
}

/// Waits until the time at which the first server of the trunk `name`, if it has failed, is asked
/// again.
fn wait_for_retry(server: &ServerProcess, name: &str) {
    if let Some(wait) = state(server, name)["servers"][0]["retry_in"].as_u64() {
        thread::sleep(Duration::from_secs(wait));
    }
}

#[test]
fn accounts_register_at_a_second_server_which_dies_and_comes_back() {
    let mut provider = TestServer::without_trusted_sources();
    let address = provider.server.address();
    let configuration = trunk("provider", address, "udp", &["alice", "bob"]);
    let office = TestServer::with(&configuration, &[]);
    let state = wait_for(&office.server, "provider", "registered");
    assert_eq!(state["usable"], true, "{state}");
    assert_eq!(state["target"], format!("udp:{address}"), "{state}");
    let [alice] = &provider.server.wait_for_registrations("alice", 1)[..] else { unreachable!() };
    let [bob] = &provider.server.wait_for_registrations("bob", 1)[..] else { unreachable!() };
    // Contacts of their own, at the address of the office.
    let office_address = office.server.address().to_string();
    assert!(alice.contact.contains(&office_address), "{alice:?}");
    assert_ne!(alice.contact, bob.contact);
    assert!(!alice.contact.contains("alice"), "{alice:?}");
    office.server.wait_for_line("sip:alice@barebell.test is registered at udp:");

    provider.server.crash();
    office.server.wait_for_line("has failed: ");
    office.server.wait_for_line("no server works; calls through the trunk fail");
    let state = wait_until("the trunk is not usable", || {
        Some(self::state(&office.server, "provider")).filter(|state| state["usable"] == false)
    });
    let reason = state["servers"][0]["reason"].as_str().expect("a reason");
    assert!(reason.ends_with("(to OPTIONS)") || reason.ends_with("(to REGISTER)"), "{state}");
    assert!(office.server.counter("trunk-failures") >= 1);

    provider.server.restart();
    wait_for_retry(&office.server, "provider");
    office.server.wait_for_line("works again");
    let state = wait_for(&office.server, "provider", "registered");
    assert_eq!(state["usable"], true, "{state}");
    let [again] = &provider.server.wait_for_registrations("alice", 1)[..] else { unreachable!() };
    assert_eq!(again.contact, alice.contact);
}

#[test]
fn a_restart_keeps_the_contacts_and_a_stop_ends_the_registrations() {
    let provider = TestServer::without_trusted_sources();
    let configuration = trunk("provider", provider.server.address(), "udp", &["alice"]);
    let mut office = TestServer::with(&configuration, &[]);
    let [before] = &provider.server.wait_for_registrations("alice", 1)[..] else { unreachable!() };
    office.server.stop();
    let _ = provider.server.wait_for_registrations("alice", 0);
    office.server.restart();
    let [after] = &provider.server.wait_for_registrations("alice", 1)[..] else { unreachable!() };
    assert_eq!(after.contact, before.contact);
    // A reload keeps the registration of an unchanged trunk, and ends that of a removed one.
    let more = trunk("second", provider.server.address(), "udp", &["bob"]);
    office.server.reconfigure(&format!("{configuration}{more}"));
    let _ = provider.server.wait_for_registrations("bob", 1);
    let lines = office.server.log();
    let registered = "sip:alice@barebell.test is registered";
    assert_eq!(lines.matches(registered).count(), 2, "one for each start: {lines}");
    office.server.reconfigure(&more);
    let _ = provider.server.wait_for_registrations("alice", 0);
    assert_eq!(provider.server.registrations_of("bob").len(), 1);
}

#[test]
fn a_wrong_password_is_told_and_not_repeated() {
    let provider = TestServer::without_trusted_sources();
    let configuration = trunk("provider", provider.server.address(), "udp", &["alice"]);
    let configuration = configuration.replace(&format!("\"{PASSWORD}\""), "\"wrong\"");
    let office = TestServer::with(&configuration, &[]);
    let state = wait_for(&office.server, "provider", "not registered");
    let account = &state["accounts"][0];
    let reason = account["reason"].as_str().expect("a reason");
    assert!(reason.starts_with("the user name or the password is wrong"), "{state}");
    assert!(account["retry_in"].as_u64().is_some_and(|wait| wait > 1000), "{state}");
    assert_eq!(state["servers"][0]["state"], "works", "{state}");
    assert_eq!(provider.server.registrations_of("alice"), []);
}

#[test]
fn accounts_register_over_tls_and_again_after_a_lost_connection() {
    let mut provider = TestServer::without_trusted_sources();
    let address = provider.server.secure_address(Transport::Tls);
    let certificate = provider.server.certificate();
    let configuration = format!(
        "[tls]\ntrust = \"{}\"\n{}",
        certificate.display(),
        trunk("provider", address, "tls", &["alice"])
    );
    let office = TestServer::with(&configuration, &[]);
    let state = wait_for(&office.server, "provider", "registered");
    assert_eq!(state["target"], format!("tls:{address}"), "{state}");
    let [alice] = &provider.server.wait_for_registrations("alice", 1)[..] else { unreachable!() };
    assert!(alice.flow.starts_with("tls:"), "{alice:?}");
    provider.server.stop();
    provider.server.restart();
    wait_for_retry(&office.server, "provider");
    // The binding ended with its connection.
    let _ = provider.server.wait_for_registrations("alice", 1);
    let _ = wait_for(&office.server, "provider", "registered");
}

#[test]
fn an_untrusted_certificate_is_refused() {
    let provider = TestServer::without_trusted_sources();
    let address = provider.server.secure_address(Transport::Tls);
    let office = TestServer::with(&trunk("provider", address, "tls", &["alice"]), &[]);
    office.server.wait_for_line("has failed: not reachable");
    assert_eq!(provider.server.registrations_of("alice"), []);
    assert_eq!(state(&office.server, "provider")["usable"], false);
}

#[test]
fn accounts_register_at_kamailio() {
    let kamailio = Kamailio::start_registrar(PASSWORD);
    let configuration = trunk("provider", kamailio.outside, "udp", &["49301", "49302"]);
    let office = TestServer::with(&configuration, &[]);
    let state = wait_for(&office.server, "provider", "registered");
    assert_eq!(state["usable"], true, "{state}");
    drop(kamailio);
    office.server.wait_for_line("has failed: ");
}
