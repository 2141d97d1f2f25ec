//! barebell-phone and other phones call one another: directly, through the server, and through
//! Kamailio.

use peers::pair::{CallPath, Pair};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Action, Event};
use peers::test_server::TestServer;
use peers::transport::Transport::Udp;

/// One call in each direction. Each hears the other, and either hangs up.
fn talks(other: Kind, way: CallPath) {
    for (from, to) in [(Barebell, other), (other, Barebell)] {
        let mut pair = Pair::new(from, to, way);
        pair.connect();
        pair.hear();
        pair.end(from == Barebell);
    }
}

#[test]
fn baresip_directly() {
    talks(Baresip, CallPath::Direct);
}

#[test]
fn linphone_directly() {
    talks(Linphone, CallPath::Direct);
}

#[test]
fn twinkle_directly() {
    talks(Twinkle, CallPath::Direct);
}

#[test]
fn baresip_through_the_server() {
    talks(Baresip, CallPath::Server);
}

#[test]
fn linphone_through_the_server() {
    talks(Linphone, CallPath::Server);
}

#[test]
fn twinkle_through_the_server() {
    talks(Twinkle, CallPath::Server);
}

#[test]
fn baresip_through_kamailio() {
    talks(Baresip, CallPath::Kamailio);
}

/// The server answers 302, and the call bypasses it.
fn follows_a_redirect(other: Kind) {
    let exchange = TestServer::that_redirects();
    let mut bob = exchange.phone(other, "bob", Udp);
    let mut alice = exchange.phone(Barebell, "alice", Udp);
    exchange.connect(&mut alice, &mut bob);
    assert!(alice.statuses("INVITE").contains(&302), "{:?}", alice.statuses("INVITE"));
    alice.act(&Action::HangUp);
    alice.wait_for(Event::Ended);
    bob.wait_for(Event::Ended);
}

#[test]
fn barebell_phone_follows_a_redirect_to_baresip() {
    follows_a_redirect(Baresip);
}

#[test]
fn barebell_phone_follows_a_redirect_to_linphone() {
    follows_a_redirect(Linphone);
}

#[test]
fn barebell_phone_follows_a_redirect_to_twinkle() {
    follows_a_redirect(Twinkle);
}
