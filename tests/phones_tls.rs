//! Softphones speak with the server over TLS, whose certificate they are told to trust, and hear
//! each other, also where only one of them does.

use peers::exchange::{Exchange, connect};
use peers::phone::Kind::{Barebell, Baresip, Linphone};
use peers::phone::{Account, Action, Event, Kind, Phone, Srtp};
use peers::transport::Transport::{self, Tls, Udp, Wss};

/// A phone of `user`, registered by `transport`.
fn phone(exchange: &Exchange, kind: Kind, user: &str, transport: Transport) -> Phone {
    // What is said of keys over TLS is worth something.
    let is_secured = matches!(transport, Tls | Wss);
    let srtp = if is_secured { Srtp::Required } else { Srtp::Optional };
    Phone::registered(kind, Account { srtp, ..exchange.account(user, transport) })
}

/// One calls the other, each hears the other's tone, and who was called hangs up.
fn talk(one: (Kind, Transport), other: (Kind, Transport)) {
    let exchange = Exchange::that_trusts_nobody();
    let mut caller = phone(&exchange, one.0, "alice", one.1);
    let mut callee = phone(&exchange, other.0, "bob", other.1);
    for (user, transport) in [("alice", one.1), ("bob", other.1)] {
        let registrations = exchange.server.registrations_of(user);
        let [registration] = &registrations[..] else { panic!("not one: {registrations:?}") };
        assert!(registration.flow.starts_with(transport.name()), "{registration:?}");
    }
    connect(&mut caller, &mut callee);
    callee.act(&Action::HangUp);
    callee.wait_for(Event::Ended);
    caller.wait_for(Event::Ended);
}

#[test]
fn ours_and_ours() {
    talk((Barebell, Tls), (Barebell, Tls));
}

#[test]
fn ours_over_websocket_and_ours() {
    talk((Barebell, Wss), (Barebell, Tls));
    talk((Barebell, Tls), (Barebell, Wss));
}

#[test]
fn ours_calls_baresip() {
    talk((Barebell, Tls), (Baresip, Tls));
}

#[test]
fn baresip_calls_ours() {
    talk((Baresip, Tls), (Barebell, Tls));
}

#[test]
fn ours_calls_linphone() {
    talk((Barebell, Tls), (Linphone, Tls));
}

#[test]
fn linphone_calls_ours() {
    talk((Linphone, Tls), (Barebell, Tls));
}

#[test]
fn one_over_tls_calls_one_that_is_not() {
    talk((Barebell, Tls), (Baresip, Udp));
}

#[test]
fn one_that_is_not_calls_one_over_tls() {
    talk((Baresip, Udp), (Barebell, Tls));
}

/// Without the certificate nobody is told a password.
#[test]
fn a_server_that_is_not_trusted_is_not_registered_with() {
    let exchange = Exchange::open();
    let account = Account { issuers: None, ..exchange.account("alice", Tls) };
    let mut phone = Phone::start(Barebell, account);
    phone.act(&Action::Register);
    phone.wait_for(Event::RegistrationFailed);
    assert_eq!(exchange.server.registrations(), []);
    assert!(phone.statuses("REGISTER").is_empty());
}
