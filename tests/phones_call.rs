//! Softphones call one another through the server.

use peers::exchange::Exchange;
use peers::phone::Kind::{Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Account, Action, Event, Kind, Phone};
use peers::transport::Transport::{self, Tcp, Udp};
use std::net::TcpStream;

/// Which side of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Caller,
    Callee,
}

/// Alice, with the phone `from`, calls bob, with the phone `to`: he answers, each hears the other's
/// tone, one of them hangs up.
fn talk(from: (Kind, Transport), to: (Kind, Transport), hangs_up: Side) {
    let exchange = Exchange::open();
    let mut bob = exchange.phone(to.0, "bob", to.1);
    let mut alice = exchange.phone(from.0, "alice", from.1);
    talk_and_hang_up(&exchange, &mut alice, &mut bob, hangs_up);
}

fn talk_and_hang_up(exchange: &Exchange, alice: &mut Phone, bob: &mut Phone, hangs_up: Side) {
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
    let exchange = Exchange::open();
    let mut bob = exchange.phone(to.0, "bob", to.1);
    let mut alice = exchange.phone(from.0, "alice", from.1);
    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    bob.wait_for(Event::Incoming);
    bob.act(&Action::Reject);
    alice.wait_for(Event::Ended);
    alice.wait_for_status("INVITE", &[486, 603]);
}

fn gives_up(from: (Kind, Transport), to: (Kind, Transport)) {
    let exchange = Exchange::open();
    let mut bob = exchange.phone(to.0, "bob", to.1);
    let mut alice = exchange.phone(from.0, "alice", from.1);
    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    bob.wait_for(Event::Incoming);
    alice.act(&Action::HangUp);
    bob.wait_for(Event::Ended);
    bob.wait_for_status("INVITE", &[487]);
    bob.wait_for_status("CANCEL", &[200]);
}

/// A call to nobody, and one to somebody who is not registered.
fn is_told_why(kind: Kind, transport: Transport) {
    let exchange = Exchange::open();
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

/// Over one transport only: linphone spells `Record-route`, Twinkle knows only `Record-Route`, so
/// that its ACK goes to linphone past the server.
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
fn baresip_gives_up() {
    gives_up((Baresip, Udp), (Twinkle, Tcp));
}

#[test]
fn linphone_gives_up() {
    gives_up((Linphone, Tcp), (Baresip, Udp));
}

#[test]
fn twinkle_gives_up() {
    gives_up((Twinkle, Udp), (Linphone, Udp));
}

#[test]
fn baresip_is_told_why_it_cannot_call() {
    is_told_why(Baresip, Udp);
}

#[test]
fn linphone_is_told_why_it_cannot_call() {
    is_told_why(Linphone, Udp);
}

#[test]
fn twinkle_is_told_why_it_cannot_call() {
    is_told_why(Twinkle, Tcp);
}

#[test]
fn ours_rejects_baresip() {
    is_rejected((Baresip, Udp), (Barebell, Tcp));
}

#[test]
fn baresip_rejects_ours() {
    is_rejected((Barebell, Udp), (Baresip, Udp));
}

#[test]
fn ours_gives_up_calling_baresip() {
    gives_up((Barebell, Udp), (Baresip, Udp));
}

#[test]
fn baresip_gives_up_calling_ours() {
    gives_up((Baresip, Udp), (Barebell, Tcp));
}

#[test]
fn ours_rejects_linphone() {
    is_rejected((Linphone, Udp), (Barebell, Tcp));
}

#[test]
fn linphone_rejects_ours() {
    is_rejected((Barebell, Udp), (Linphone, Udp));
}

#[test]
fn ours_gives_up_calling_linphone() {
    gives_up((Barebell, Udp), (Linphone, Udp));
}

#[test]
fn linphone_gives_up_calling_ours() {
    gives_up((Linphone, Udp), (Barebell, Tcp));
}

#[test]
fn ours_rejects_twinkle() {
    is_rejected((Twinkle, Udp), (Barebell, Tcp));
}

#[test]
fn twinkle_rejects_ours() {
    is_rejected((Barebell, Udp), (Twinkle, Udp));
}

#[test]
fn ours_gives_up_calling_twinkle() {
    gives_up((Barebell, Udp), (Twinkle, Udp));
}

#[test]
fn twinkle_gives_up_calling_ours() {
    gives_up((Twinkle, Udp), (Barebell, Tcp));
}

#[test]
fn ours_is_told_why_it_cannot_call() {
    is_told_why(Barebell, Udp);
}

/// As behind a NAT: nothing can connect to the phone, so it is reached over its own connection.
#[test]
fn a_phone_that_takes_no_connections_is_called() {
    let exchange = Exchange::open();
    let account = Account { listens: false, ..exchange.account("bob", Tcp) };
    let mut bob = Phone::registered(Linphone, account);
    let mut alice = exchange.phone(Baresip, "alice", Udp);

    let contact = exchange.server.wait_for_registrations("bob", 1).remove(0).contact;
    let port = contact.split_once("@127.0.0.1:").and_then(|(_, rest)| {
        rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
    });
    let port: u16 = port.unwrap_or_else(|| panic!("no port in {contact}"));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "bob takes connections at {contact}");

    talk_and_hang_up(&exchange, &mut alice, &mut bob, Side::Caller);
}

#[test]
fn a_phone_is_called_after_the_server_has_crashed() {
    let mut exchange = Exchange::open();
    let mut bob = exchange.phone(Linphone, "bob", Udp);
    let mut alice = exchange.phone(Baresip, "alice", Udp);
    exchange.server.crash();
    exchange.server.restart();
    talk_and_hang_up(&exchange, &mut alice, &mut bob, Side::Callee);
}
