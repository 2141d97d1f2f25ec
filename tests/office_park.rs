//! Parked calls, and pickup of the calls of phones without Replaces: both meet at the media server.

use peers::phone::Event::{Ended, Established, Incoming};
use peers::phone::Kind::{Barebell, Baresip};
use peers::phone::{Action, Kind, Phone};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use peers::transport::Transport::{Tcp, Udp};

/// A server with the slots 701 to 709 and pickup. `time` is that of a parked call until it returns.
fn server(mode: &str, time: &str) -> TestServer {
    TestServer::with(
        &format!(
            "{TRUSTS_NOBODY}[calls]\nmode = \"{mode}\"\n[media]\nports = \"33300-33399\"\n\
             [media_server]\nenabled = true\npark = [\"70\"]\npark_time = \"{time}\"\n\
             [office]\nwatch = \"calls\"\npickup = \"**\"\n"
        ),
        &[],
    )
}

/// Alice, with a phone of this kind, and bob talk.
fn talk(exchange: &TestServer, kind: Kind) -> [Phone; 2] {
    let mut bob = exchange.phone(Barebell, "bob", Tcp);
    let mut alice = exchange.phone(kind, "alice", Udp);
    exchange.connect(&mut alice, &mut bob);
    [alice, bob]
}

/// Carol calls the slot, talks to alice, and hangs up.
fn retrieve(exchange: &TestServer, mut alice: Phone, slot: &str) {
    let mut carol = exchange.phone(Barebell, "carol", Udp);
    carol.act(&Action::Dial(exchange.server.uri(slot)));
    carol.wait_for(Established);
    alice.wait_until_it_hears(carol.account.tone);
    carol.wait_until_it_hears(alice.account.tone);
    carol.act(&Action::HangUp);
    carol.wait_for(Ended);
    alice.wait_for(Ended);
}

#[test]
fn a_call_is_parked_by_a_transfer_and_retrieved_by_its_number() {
    for mode in ["needed", "b2bua"] {
        let exchange = server(mode, "5m");
        let [alice, mut bob] = talk(&exchange, Barebell);
        bob.act(&Action::Transfer(exchange.server.uri("701")));
        bob.wait_for_status("REFER", &[202, 200]);
        exchange.server.wait_for_count("calls-parked", 1);
        retrieve(&exchange, alice, "701");
        assert_eq!(exchange.server.counter("calls-returned"), 0);
    }
}

#[test]
fn a_free_slot_is_announced_to_the_party_that_asks_and_takes_the_call() {
    let exchange = server("needed", "5m");
    let [alice, mut bob] = talk(&exchange, Barebell);
    bob.act(&Action::Consult(exchange.server.uri("700")));
    bob.wait_for(Established);
    // The first one is free: one tone.
    bob.wait_until_it_hears_part(880, 100);
    bob.act(&Action::TransferToConsulted);
    exchange.server.wait_for_count("calls-parked", 1);
    retrieve(&exchange, alice, "701");
}

#[test]
fn a_parked_call_returns_to_the_party_that_has_parked_it() {
    // Baresip follows a transfer without Referred-By.
    for (mode, kind) in [("needed", Barebell), ("needed", Baresip), ("b2bua", Baresip)] {
        let exchange = server(mode, "3s");
        let [mut alice, mut bob] = talk(&exchange, kind);
        bob.act(&Action::Transfer(exchange.server.uri("702")));
        bob.wait_for_status("REFER", &[202, 200]);
        exchange.server.wait_for_count("calls-parked", 1);
        bob.wait_for(Incoming);
        bob.act(&Action::Answer);
        bob.wait_for(Established);
        bob.wait_until_it_hears(alice.account.tone);
        alice.wait_until_it_hears(bob.account.tone);
        assert_eq!(exchange.server.counter("calls-returned"), 1);
    }
}

#[test]
fn the_call_of_a_phone_without_replaces_is_picked_up_and_parked() {
    for mode in ["needed", "b2bua"] {
        let exchange = server(mode, "5m");
        let mut alice = exchange.phone(Baresip, "alice", Udp);
        let mut bob = exchange.phone(Barebell, "bob", Udp);
        let mut carol = exchange.phone(Barebell, "carol", Tcp);
        alice.dial_until_it_rings(&exchange.server.uri("bob"));
        bob.wait_for(Incoming);
        carol.act(&Action::Dial(exchange.server.uri("**bob")));
        carol.wait_for(Established);
        bob.wait_for(Ended);
        alice.wait_until_it_hears(carol.account.tone);
        carol.wait_until_it_hears(alice.account.tone);
        // Carol parks the call, which has a leg of each party at the media server.
        carol.act(&Action::Transfer(exchange.server.uri("701")));
        carol.wait_for_status("REFER", &[202, 200]);
        exchange.server.wait_for_count("calls-parked", 1);
        carol.wait_for(Ended);
        retrieve(&exchange, alice, "701");
    }
}
