//! Calls are held and resumed by either side, through a server without trusted networks.

use peers::pair::hold_and_resume;
use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Action, Event};
use peers::test_server::TestServer;
use peers::transport::Transport::{self, Tcp, Udp};

/// Alice calls bob, and both hold the call, one after the other.
fn both_hold(from: (Kind, Transport), to: (Kind, Transport)) {
    let exchange = TestServer::without_trusted_sources();
    let mut bob = exchange.phone(to.0, "bob", to.1);
    let mut alice = exchange.phone(from.0, "alice", from.1);
    exchange.connect(&mut alice, &mut bob);

    hold_and_resume(&mut alice, &mut bob);
    hold_and_resume(&mut bob, &mut alice);

    alice.act(&Action::HangUp);
    alice.wait_for(Event::Ended);
    bob.wait_for(Event::Ended);
}

#[test]
fn baresip_and_linphone_hold_and_resume() {
    both_hold((Baresip, Udp), (Linphone, Udp));
}

#[test]
fn linphone_and_twinkle_hold_and_resume() {
    both_hold((Linphone, Tcp), (Twinkle, Udp));
}

#[test]
fn twinkle_and_baresip_hold_and_resume() {
    both_hold((Twinkle, Udp), (Baresip, Tcp));
}

#[test]
fn barebell_phone_and_baresip_hold_and_resume() {
    both_hold((Barebell, Tcp), (Baresip, Udp));
}

#[test]
fn barebell_phone_and_linphone_hold_and_resume() {
    both_hold((Barebell, Tcp), (Linphone, Udp));
}

#[test]
fn barebell_phone_and_twinkle_hold_and_resume() {
    both_hold((Barebell, Tcp), (Twinkle, Udp));
}
