//! barebell-phone and other phones agree on keys on the path of their media. By ZRTP both ends show
//! the same short authentication string, unless a program between them answers in their place. By
//! DTLS linphone and baresip have RSA certificates.

use peers::phone::Kind::{self, Barebell, Baresip, Linphone};
use peers::phone::{Account, Action, Event, Phone, Srtp};
use peers::test_server::account;
use peers::transport::Transport::Udp;
use std::net::SocketAddr;

/// A phone of `user` without a server. Its address is that of the default route, which linphone
/// names for media in any case: keys are agreed on with no other address.
fn phone_by(kind: Kind, user: &str, srtp: Srtp) -> Phone {
    // An address for documentation (RFC 5737): only the route to it is looked up.
    let server = SocketAddr::from(([192, 0, 2, 1], 5060));
    Phone::direct(kind, Account { srtp, ..account(server, user, Udp) })
}

/// A phone with keys by ZRTP.
fn phone(kind: Kind, user: &str) -> Phone {
    phone_by(kind, user, Srtp::Zrtp)
}

/// One calls the other. Each hears the other.
fn connect(caller: &mut Phone, callee: &mut Phone) {
    caller.dial_until_it_rings(&callee.direct_uri());
    callee.wait_for(Event::Incoming);
    callee.act(&Action::Answer);
    caller.wait_for(Event::Established);
    callee.wait_for(Event::Established);
    caller.wait_until_it_hears(callee.account.tone);
    callee.wait_until_it_hears(caller.account.tone);
}

/// Both ends of a call show the same string, of four characters.
fn agree(caller: Kind, callee: Kind) {
    let (mut alice, mut bob) = (phone(caller, "alice"), phone(callee, "bob"));
    connect(&mut alice, &mut bob);
    let sas = alice.sas();
    assert_eq!((sas.len(), &sas), (4, &bob.sas()));
    alice.act(&Action::HangUp);
    alice.wait_for(Event::Ended);
    bob.wait_for(Event::Ended);
}

#[test]
fn barebell_phone_calls_linphone() {
    agree(Barebell, Linphone);
}

#[test]
fn linphone_calls_barebell_phone() {
    agree(Linphone, Barebell);
}

/// Each of the two phones has agreed on keys with the program between them, which knows both
/// conversations in clear. Their strings differ.
#[test]
fn a_man_in_the_middle_makes_the_strings_differ() {
    let (mut alice, mut bob) = (phone(Barebell, "alice"), phone(Linphone, "bob"));
    let mut mallory = [phone(Barebell, "carol"), phone(Barebell, "dave")];
    connect(&mut alice, &mut mallory[0]);
    connect(&mut mallory[1], &mut bob);
    assert_eq!((alice.sas(), bob.sas()), (mallory[0].sas(), mallory[1].sas()));
    assert_ne!(alice.sas(), bob.sas());
}

/// One calls the other, with keys by DTLS. Phones with RSA certificates are clients of the
/// handshake.
fn shake_hands(caller: Kind, callee: Kind) {
    let (mut alice, mut bob) =
        (phone_by(caller, "alice", Srtp::Dtls), phone_by(callee, "bob", Srtp::Dtls));
    connect(&mut alice, &mut bob);
    let ours = if caller == Barebell { &alice } else { &bob };
    assert!(ours.suite().is_some(), "{ours}");
    bob.act(&Action::HangUp);
    bob.wait_for(Event::Ended);
    alice.wait_for(Event::Ended);
}

#[test]
fn linphone_is_called_by_dtls() {
    shake_hands(Barebell, Linphone);
}

#[test]
fn linphone_calls_by_dtls() {
    shake_hands(Linphone, Barebell);
}

/// OpenSSL shows no other certificate than one that was asked for.
#[test]
fn baresip_is_called_by_dtls() {
    shake_hands(Barebell, Baresip);
}

#[test]
fn baresip_calls_by_dtls() {
    shake_hands(Baresip, Barebell);
}
