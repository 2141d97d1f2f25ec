//! Two softphones of one user ring at the same time.

use peers::phone::Kind::{Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Action, Event};
use peers::test_server::TestServer;
use peers::transport::Transport::{Tcp, Udp};

#[test]
fn one_phone_answers_and_the_other_stops_ringing() {
    let exchange = TestServer::open();
    let mut desk = exchange.phone(Linphone, "bob", Udp);
    let mut pocket = exchange.phone(Baresip, "bob", Tcp);
    let mut alice = exchange.phone(Twinkle, "alice", Udp);
    assert_eq!(exchange.server.registrations_of("bob").len(), 2);

    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    desk.wait_for(Event::Incoming);
    pocket.wait_for(Event::Incoming);
    desk.act(&Action::Answer);
    desk.wait_for(Event::Established);
    alice.wait_for(Event::Established);
    pocket.wait_for(Event::Ended);
    pocket.wait_for_status("INVITE", &[487]);

    alice.wait_until_it_hears(desk.account.tone);
    desk.wait_until_it_hears(alice.account.tone);
    desk.act(&Action::HangUp);
    alice.wait_for(Event::Ended);
}

#[test]
fn one_phone_is_busy_and_the_other_answers() {
    let exchange = TestServer::open();
    let mut desk = exchange.phone(Baresip, "bob", Udp);
    let mut pocket = exchange.phone(Linphone, "bob", Tcp);
    let mut alice = exchange.phone(Baresip, "alice", Tcp);

    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    desk.wait_for(Event::Incoming);
    pocket.wait_for(Event::Incoming);
    desk.act(&Action::Reject);
    desk.wait_for(Event::Ended);
    assert!(!alice.has_seen(Event::Ended) && !pocket.has_seen(Event::Ended));
    pocket.act(&Action::Answer);
    alice.wait_for(Event::Established);
    alice.wait_until_it_hears(pocket.account.tone);
    alice.act(&Action::HangUp);
    pocket.wait_for(Event::Ended);
}

#[test]
fn the_caller_cancels_and_both_phones_stop_ringing() {
    let exchange = TestServer::open();
    let mut desk = exchange.phone(Linphone, "bob", Tcp);
    let mut pocket = exchange.phone(Twinkle, "bob", Udp);
    let mut alice = exchange.phone(Baresip, "alice", Udp);

    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    desk.wait_for(Event::Incoming);
    pocket.wait_for(Event::Incoming);
    alice.act(&Action::HangUp);
    desk.wait_for(Event::Ended);
    pocket.wait_for(Event::Ended);
    desk.wait_for_status("INVITE", &[487]);
    pocket.wait_for_status("INVITE", &[487]);
}

#[test]
fn an_automatic_answer_takes_the_call() {
    let exchange = TestServer::open();
    let mut desk = exchange.phone(Twinkle, "bob", Tcp);
    let mut pocket = exchange.phone(Baresip, "bob", Udp);
    let mut alice = exchange.phone(Linphone, "alice", Udp);
    desk.act(&Action::AutoAnswer(true));

    alice.act(&Action::Dial(exchange.server.uri("bob")));
    alice.wait_for(Event::Established);
    desk.wait_for(Event::Established);
    pocket.wait_for(Event::Ended);
    alice.act(&Action::HangUp);
    desk.wait_for(Event::Ended);
}

#[test]
fn barebell_phone_answers_automatically_and_the_other_stops_ringing() {
    let exchange = TestServer::open();
    let mut desk = exchange.phone(Barebell, "bob", Tcp);
    let mut pocket = exchange.phone(Linphone, "bob", Udp);
    let mut alice = exchange.phone(Baresip, "alice", Udp);
    desk.act(&Action::AutoAnswer(true));

    alice.act(&Action::Dial(exchange.server.uri("bob")));
    alice.wait_for(Event::Established);
    desk.wait_for(Event::Established);
    pocket.wait_for(Event::Ended);
    desk.wait_until_it_hears(alice.account.tone);
    alice.act(&Action::HangUp);
    desk.wait_for(Event::Ended);
}

#[test]
fn the_other_answers_and_barebell_phone_stops_ringing() {
    let exchange = TestServer::open();
    let mut desk = exchange.phone(Barebell, "bob", Udp);
    let mut pocket = exchange.phone(Baresip, "bob", Tcp);
    let mut alice = exchange.phone(Barebell, "alice", Udp);

    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    desk.wait_for(Event::Incoming);
    pocket.wait_for(Event::Incoming);
    pocket.act(&Action::Answer);
    alice.wait_for(Event::Established);
    desk.wait_for(Event::Ended);
    desk.wait_for_status("INVITE", &[487]);
    alice.wait_until_it_hears(pocket.account.tone);
    alice.act(&Action::HangUp);
    pocket.wait_for(Event::Ended);
}
