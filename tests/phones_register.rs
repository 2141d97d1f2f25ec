//! Softphones register with the server, refresh their registration, and remove it.

use peers::phone::{Account, Action, Event, Kind, Phone};
use peers::process::wait_until;
use peers::test_server::TestServer;
use peers::transport::Transport::{self, Tcp, Udp};

fn registers_and_logs_out(kind: Kind, transport: Transport) {
    let exchange = TestServer::open();
    let mut phone = exchange.phone(kind, "alice", transport);

    let registrations = exchange.server.registrations_of("alice");
    let [registration] = &registrations[..] else {
        panic!("not a single registration: {registrations:?}")
    };
    assert!(registration.contact.contains("@127.0.0.1:"), "{registration:?}");
    let flow = format!("{}:127.0.0.1:", transport.name());
    assert!(registration.flow.starts_with(&flow), "{registration:?}");
    assert!((1..=600).contains(&registration.expires_in), "{registration:?}");

    phone.act(&Action::Unregister);
    phone.wait_for(Event::Unregistered);
    let none = exchange.server.wait_for_registrations("alice", 0);
    assert_eq!(none, []);
}

fn refreshes_its_registration(kind: Kind) {
    let exchange = TestServer::open();
    let account = Account { expires: 12, ..exchange.account("alice", Udp) };
    let _phone = Phone::registered(kind, account);

    let mut last = exchange.server.wait_for_registrations("alice", 1).remove(0);
    assert!(last.expires_in <= 12, "{last:?}");
    wait_until("the registration to be refreshed", || {
        let found = exchange.server.wait_for_registrations("alice", 1).remove(0);
        assert_eq!(found.contact, last.contact);
        // Without a refresh the remaining time only decreases.
        let refreshed = found.expires_in > last.expires_in;
        last = found;
        refreshed.then_some(())
    });
}

fn is_rejected_with_a_wrong_password(kind: Kind) {
    let exchange = TestServer::open();
    let account = Account { password: "guess".to_owned(), ..exchange.account("alice", Udp) };
    let mut phone = Phone::start(kind, account);
    phone.act(&Action::Register);
    phone.wait_for(Event::RegistrationFailed);
    assert_eq!(exchange.server.registrations(), []);
    let statuses = phone.statuses("REGISTER");
    assert!(statuses.len() >= 2, "the phone sent no credentials: {statuses:?}");
    assert!(statuses.iter().all(|status| [401, 403].contains(status)), "{statuses:?}");
}

/// linphone and barebell-phone use the first supported algorithm, Twinkle the last. This version of
/// baresip fails unless only MD5 is offered.
#[test]
fn each_phone_uses_a_supported_algorithm() {
    let exchange = TestServer::open();
    for (kind, known) in [
        (Kind::Baresip, None),
        (Kind::Linphone, Some("SHA-256".to_owned())),
        (Kind::Twinkle, Some("MD5".to_owned())),
        (Kind::Barebell, Some("SHA-256".to_owned())),
    ] {
        let phone = exchange.phone(kind, "alice", Udp);
        assert_eq!(phone.credential_algorithms(), [known], "{phone}");
    }
}

#[test]
fn baresip_registers_and_logs_out_over_udp() {
    registers_and_logs_out(Kind::Baresip, Udp);
}

#[test]
fn baresip_registers_and_logs_out_over_tcp() {
    registers_and_logs_out(Kind::Baresip, Tcp);
}

#[test]
fn linphone_registers_and_logs_out_over_udp() {
    registers_and_logs_out(Kind::Linphone, Udp);
}

#[test]
fn linphone_registers_and_logs_out_over_tcp() {
    registers_and_logs_out(Kind::Linphone, Tcp);
}

#[test]
fn twinkle_registers_and_logs_out_over_udp() {
    registers_and_logs_out(Kind::Twinkle, Udp);
}

#[test]
fn twinkle_registers_and_logs_out_over_tcp() {
    registers_and_logs_out(Kind::Twinkle, Tcp);
}

#[test]
fn baresip_refreshes_its_registration() {
    refreshes_its_registration(Kind::Baresip);
}

#[test]
fn linphone_refreshes_its_registration() {
    refreshes_its_registration(Kind::Linphone);
}

#[test]
fn twinkle_refreshes_its_registration() {
    refreshes_its_registration(Kind::Twinkle);
}

#[test]
fn baresip_is_rejected_with_a_wrong_password() {
    is_rejected_with_a_wrong_password(Kind::Baresip);
}

#[test]
fn linphone_is_rejected_with_a_wrong_password() {
    is_rejected_with_a_wrong_password(Kind::Linphone);
}

#[test]
fn twinkle_is_rejected_with_a_wrong_password() {
    is_rejected_with_a_wrong_password(Kind::Twinkle);
}

#[test]
fn barebell_phone_registers_and_logs_out_over_udp() {
    registers_and_logs_out(Kind::Barebell, Udp);
}

#[test]
fn barebell_phone_registers_and_logs_out_over_tcp() {
    registers_and_logs_out(Kind::Barebell, Tcp);
}

#[test]
fn barebell_phone_refreshes_its_registration() {
    refreshes_its_registration(Kind::Barebell);
}

#[test]
fn barebell_phone_is_rejected_with_a_wrong_password() {
    is_rejected_with_a_wrong_password(Kind::Barebell);
}
