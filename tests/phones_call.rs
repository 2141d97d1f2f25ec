//! Softphones call one another through the server.

use peers::phone::Kind::{Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Account, Action, Event, Kind, Phone};
use peers::test_server::TestServer;
use peers::transport::Transport::{self, Tcp, Udp};
use std::net::TcpStream;

/// A side of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Caller,
    Callee,
}

/// Alice with the phone `from` calls bob with the phone `to`. He answers, each hears the other's
/// tone, and one of them hangs up.
fn talk(from: (Kind, Transport), to: (Kind, Transport), hangs_up: Side) {
    let exchange = TestServer::open();
    let mut bob = exchange.phone(to.0, "bob", to.1);
    let mut alice = exchange.phone(from.0, "alice", from.1);
    talk_and_hang_up(&exchange, &mut alice, &mut bob, hangs_up);
}

fn talk_and_hang_up(exchange: &TestServer, alice: &mut Phone, bob: &mut Phone, hangs_up: Side) {
    exchange.connect(alice, bob);
    assert!(!alice.has_seen(Event::Ended) && !bob.has_seen(Event::Ended));

    match hangs_up {
        Side::Caller => alice.act(&Action::HangUp),
        Side::Callee => bob.act(&Action::HangUp),
    }
    alice.wait_for(Event::Ended);
    bob.wait_for(Event::Ended);
}

fn is_rejected(from: (Kind, Transport), to: (Kind, Transport)) {
    let exchange = TestServer::open();
    let mut bob = exchange.phone(to.0, "bob", to.1);
    let mut alice = exchange.phone(from.0, "alice", from.1);
    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    bob.wait_for(Event::Incoming);
    bob.act(&Action::Reject);
    alice.wait_for(Event::Ended);
    alice.wait_for_status("INVITE", &[486, 603]);
}

fn cancels(from: (Kind, Transport), to: (Kind, Transport)) {
    let exchange = TestServer::open();
    let mut bob = exchange.phone(to.0, "bob", to.1);
    let mut alice = exchange.phone(from.0, "alice", from.1);
    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    bob.wait_for(Event::Incoming);
    alice.act(&Action::HangUp);
    bob.wait_for(Event::Ended);
    bob.wait_for_status("INVITE", &[487]);
    bob.wait_for_status("CANCEL", &[200]);
}

/// Calls a user that does not exist, and one that is not registered.
fn receives_the_reason(kind: Kind, transport: Transport) {
    let exchange = TestServer::open();
    let mut alice = exchange.phone(kind, "alice", transport);
    for (callee, status) in [("nobody", 404), ("carol", 480)] {
        alice.act(&Action::Dial(exchange.server.uri(callee)));
        alice.wait_for(Event::Ended);
        alice.wait_for_status("INVITE", &[status]);
    }
}

#[test]
fn baresip_calls_linphone() {
    talk((Baresip, Udp), (Linphone, Udp), Side::Caller);
}

#[test]
fn baresip_calls_twinkle() {
    talk((Baresip, Tcp), (Twinkle, Udp), Side::Callee);
}

#[test]
fn linphone_calls_baresip() {
    talk((Linphone, Udp), (Baresip, Tcp), Side::Callee);
}

#[test]
fn linphone_calls_twinkle() {
    talk((Linphone, Tcp), (Twinkle, Tcp), Side::Caller);
}

#[test]
fn twinkle_calls_baresip() {
    talk((Twinkle, Tcp), (Baresip, Udp), Side::Callee);
}

/// Only over one transport: linphone writes `Record-route`, but Twinkle only accepts
/// `Record-Route`, so its ACK bypasses the server.
#[test]
fn twinkle_calls_linphone() {
    talk((Twinkle, Udp), (Linphone, Udp), Side::Caller);
}

#[test]
fn baresip_rejects() {
    is_rejected((Linphone, Udp), (Baresip, Udp));
}

#[test]
fn linphone_rejects() {
    is_rejected((Twinkle, Udp), (Linphone, Tcp));
}

#[test]
fn twinkle_rejects() {
    is_rejected((Baresip, Tcp), (Twinkle, Udp));
}

#[test]
fn baresip_cancels() {
    cancels((Baresip, Udp), (Twinkle, Tcp));
}

#[test]
fn linphone_cancels() {
    cancels((Linphone, Tcp), (Baresip, Udp));
}

#[test]
fn twinkle_cancels() {
    cancels((Twinkle, Udp), (Linphone, Udp));
}

#[test]
fn baresip_receives_the_reason_of_a_failed_call() {
    receives_the_reason(Baresip, Udp);
}

#[test]
fn linphone_receives_the_reason_of_a_failed_call() {
    receives_the_reason(Linphone, Udp);
}

#[test]
fn twinkle_receives_the_reason_of_a_failed_call() {
    receives_the_reason(Twinkle, Tcp);
}

#[test]
fn barebell_phone_rejects_baresip() {
    is_rejected((Baresip, Udp), (Barebell, Tcp));
}

#[test]
fn baresip_rejects_barebell_phone() {
    is_rejected((Barebell, Udp), (Baresip, Udp));
}

#[test]
fn barebell_phone_cancels_a_call_to_baresip() {
    cancels((Barebell, Udp), (Baresip, Udp));
}

#[test]
fn baresip_cancels_a_call_to_barebell_phone() {
    cancels((Baresip, Udp), (Barebell, Tcp));
}

#[test]
fn barebell_phone_rejects_linphone() {
    is_rejected((Linphone, Udp), (Barebell, Tcp));
}

#[test]
fn linphone_rejects_barebell_phone() {
    is_rejected((Barebell, Udp), (Linphone, Udp));
}

#[test]
fn barebell_phone_cancels_a_call_to_linphone() {
    cancels((Barebell, Udp), (Linphone, Udp));
}

#[test]
fn linphone_cancels_a_call_to_barebell_phone() {
    cancels((Linphone, Udp), (Barebell, Tcp));
}

#[test]
fn barebell_phone_rejects_twinkle() {
    is_rejected((Twinkle, Udp), (Barebell, Tcp));
}

#[test]
fn twinkle_rejects_barebell_phone() {
    is_rejected((Barebell, Udp), (Twinkle, Udp));
}

#[test]
fn barebell_phone_cancels_a_call_to_twinkle() {
    cancels((Barebell, Udp), (Twinkle, Udp));
}

#[test]
fn twinkle_cancels_a_call_to_barebell_phone() {
    cancels((Twinkle, Udp), (Barebell, Tcp));
}

#[test]
fn barebell_phone_receives_the_reason_of_a_failed_call() {
    receives_the_reason(Barebell, Udp);
}

/// As behind a NAT: no connection to the phone is possible, so it is reached over its own.
#[test]
fn a_phone_without_a_listening_port_is_called() {
    let exchange = TestServer::open();
    let account = Account { listens: false, ..exchange.account("bob", Tcp) };
    let mut bob = Phone::registered(Linphone, account);
    let mut alice = exchange.phone(Baresip, "alice", Udp);

    let contact = exchange.server.wait_for_registrations("bob", 1).remove(0).contact;
    let port = contact.split_once("@127.0.0.1:").and_then(|(_, rest)| {
        rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
    });
    let port: u16 = port.unwrap_or_else(|| panic!("no port in {contact}"));
    assert!(
        TcpStream::connect(("127.0.0.1", port)).is_err(),
        "bob accepts connections at {contact}"
    );

    talk_and_hang_up(&exchange, &mut alice, &mut bob, Side::Caller);
}

#[test]
fn a_phone_is_called_after_the_server_has_crashed() {
    let mut exchange = TestServer::open();
    let mut bob = exchange.phone(Linphone, "bob", Udp);
    let mut alice = exchange.phone(Baresip, "alice", Udp);
    exchange.server.crash();
    exchange.server.restart();
    talk_and_hang_up(&exchange, &mut alice, &mut bob, Side::Callee);
}
