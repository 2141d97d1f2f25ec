//! Softphones with the server over TLS and a trusted certificate, on one side or both, with audio
//! in both directions.

use peers::phone::Kind::{Barebell, Baresip, Linphone};
use peers::phone::{Account, Action, Event, Kind, Phone, Srtp};
use peers::test_server::{TestServer, connect};
use peers::transport::Transport::{self, Tls, Udp, Wss};

/// A phone of `user`, registered over `transport`.
fn phone(exchange: &TestServer, kind: Kind, user: &str, transport: Transport) -> Phone {
    // TLS protects the SDES keys.
    let is_secured = matches!(transport, Tls | Wss);
    let srtp = if is_secured { Srtp::Required } else { Srtp::Optional };
    Phone::registered(kind, Account { srtp, ..exchange.account(user, transport) })
}

/// One calls the other, each hears the other's tone, and the callee hangs up.
fn talk(one: (Kind, Transport), other: (Kind, Transport)) {
    let exchange = TestServer::without_trusted_sources();
    let mut caller = phone(&exchange, one.0, "alice", one.1);
    let mut callee = phone(&exchange, other.0, "bob", other.1);
    for (user, transport) in [("alice", one.1), ("bob", other.1)] {
        let registrations = exchange.server.registrations_of(user);
        let [registration] = &registrations[..] else {
            panic!("not a single registration: {registrations:?}")
        };
        assert!(registration.flow.starts_with(transport.name()), "{registration:?}");
    }
    connect(&mut caller, &mut callee);
    callee.act(&Action::HangUp);
    callee.wait_for(Event::Ended);
    caller.wait_for(Event::Ended);
}

#[test]
fn two_barebell_phones() {
    talk((Barebell, Tls), (Barebell, Tls));
}

#[test]
fn barebell_phone_over_websocket_and_tls() {
    talk((Barebell, Wss), (Barebell, Tls));
    talk((Barebell, Tls), (Barebell, Wss));
}

#[test]
fn barebell_phone_calls_baresip() {
    talk((Barebell, Tls), (Baresip, Tls));
}

#[test]
fn baresip_calls_barebell_phone() {
    talk((Baresip, Tls), (Barebell, Tls));
}

#[test]
fn barebell_phone_calls_linphone() {
    talk((Barebell, Tls), (Linphone, Tls));
}

#[test]
fn linphone_calls_barebell_phone() {
    talk((Linphone, Tls), (Barebell, Tls));
}

#[test]
fn a_phone_over_tls_calls_one_over_tcp_or_udp() {
    talk((Barebell, Tls), (Baresip, Udp));
}

#[test]
fn a_phone_over_tcp_or_udp_calls_one_over_tls() {
    talk((Baresip, Udp), (Barebell, Tls));
}

/// Without a trusted certificate no password is sent.
#[test]
fn an_untrusted_server_gets_no_registration() {
    let exchange = TestServer::open();
    let account = Account { issuers: None, ..exchange.account("alice", Tls) };
    let mut phone = Phone::start(Barebell, account);
    phone.act(&Action::Register);
    phone.wait_for(Event::RegistrationFailed);
    assert_eq!(exchange.server.registrations(), []);
    assert!(phone.statuses("REGISTER").is_empty());
}
