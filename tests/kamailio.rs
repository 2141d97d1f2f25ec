//! Kamailio in the path of a call, before or behind a server without trusted networks, with two
//! Record-Route entries, over UDP and over TLS.

use peers::call::{End, establish, establish_with};
use peers::kamailio::{Identity, Kamailio, Nat, Tls};
use peers::phone::Kind::Barebell;
use peers::phone::{Account, Action, Event, Phone};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::{PASSWORD, TestServer};
use peers::transport::Transport;
use std::net::Ipv4Addr;
use test_support::agent::{Agent, SESSION};

/// Both ends change the session and hang up within the call. One of them moves first.
fn continue_call(mover: &mut End, other: &mut End) {
    mover.pass(other, "INVITE", "");
    other.pass(mover, "INVITE", "");
    mover.agent.move_away();
    mover.pass(other, "INVITE", "");
    other.pass(mover, "UPDATE", "");
    mover.pass(other, "INFO", "");
    other.pass(mover, "INFO", "");
}

/// Alice, behind Kamailio, calls bob. Either hangs up.
fn in_front(nat: Nat) {
    let exchange = TestServer::without_trusted_sources();
    let kamailio = Kamailio::start(exchange.server.address(), nat);
    for caller_hangs_up in [true, false] {
        let mut alice = exchange.agent_by("alice", kamailio.outside);
        if nat != Nat::Ignored {
            alice.hidden_behind = Some("192.168.77.1:5060".to_owned());
        }
        let (mut alice, mut bob) = establish(alice, exchange.agent("bob"));
        assert_eq!(bob.dialog.route_set().len(), 3, "one route of the server and two of Kamailio");
        continue_call(&mut alice, &mut bob);
        match caller_hangs_up {
            true => alice.pass(&mut bob, "BYE", ""),
            false => bob.pass(&mut alice, "BYE", ""),
        };
    }
}

#[test]
fn the_caller_uses_kamailio() {
    in_front(Nat::Ignored);
}

#[test]
fn the_caller_uses_kamailio_with_a_fixed_contact() {
    in_front(Nat::ContactFixed);
}

#[test]
fn the_caller_uses_kamailio_with_a_contact_alias() {
    in_front(Nat::Aliased);
}

#[test]
fn a_user_calls_a_party_behind_kamailio() {
    let exchange = TestServer::without_trusted_sources();
    for caller_hangs_up in [true, false] {
        let nowhere = (Ipv4Addr::LOCALHOST, 9).into();
        let dave = Agent::stranger("dave", "elsewhere.test", nowhere);
        let kamailio = Kamailio::start(dave.address(), Nat::Ignored);
        let uri = format!("sip:dave@{}", kamailio.outside);
        let (mut alice, mut dave) = establish_with(exchange.agent("alice"), dave, &uri);
        assert_eq!(
            alice.dialog.route_set().len(),
            3,
            "one route of the server and two of Kamailio"
        );
        continue_call(&mut dave, &mut alice);
        continue_call(&mut alice, &mut dave);
        match caller_hangs_up {
            true => alice.pass(&mut dave, "BYE", ""),
            false => dave.pass(&mut alice, "BYE", ""),
        };
    }
}

#[test]
fn a_party_behind_kamailio_calls_a_user() {
    let exchange = TestServer::without_trusted_sources();
    let kamailio = Kamailio::start(exchange.server.address(), Nat::Ignored);
    for caller_hangs_up in [true, false] {
        let dave = Agent::stranger("dave", "elsewhere.test", kamailio.outside);
        let (mut dave, mut bob) = establish(dave, exchange.agent("bob"));
        continue_call(&mut dave, &mut bob);
        continue_call(&mut bob, &mut dave);
        match caller_hangs_up {
            true => dave.pass(&mut bob, "BYE", ""),
            false => bob.pass(&mut dave, "BYE", ""),
        };
    }
}

/// TLS between Kamailio and the server.
#[test]
fn the_caller_uses_kamailio_over_tls() {
    let (exchange, identity) = (TestServer::without_trusted_sources(), Identity::new());
    let next_hop = Some(exchange.server.certificate());
    let tls = Tls { identity: &identity, next_hop };
    let there = exchange.server.secure_address(Transport::Tls);
    let kamailio = Kamailio::start_with(there, Nat::Ignored, Some(&tls));
    for caller_hangs_up in [true, false] {
        let alice = exchange.agent_by("alice", kamailio.outside);
        let (mut alice, mut bob) = establish(alice, exchange.agent("bob"));
        assert!(
            alice.dialog.route_set().iter().any(|route| route.ends_with(b";transport=tls;lr>"))
        );
        continue_call(&mut alice, &mut bob);
        match caller_hangs_up {
            true => alice.pass(&mut bob, "BYE", ""),
            false => bob.pass(&mut alice, "BYE", ""),
        };
    }
}

/// The server connects to Kamailio over TLS and verifies its certificate.
#[test]
fn a_user_calls_a_party_behind_kamailio_over_tls() {
    let (identity, other) = (Identity::new(), Identity::new());
    let nowhere = (Ipv4Addr::LOCALHOST, 9).into();
    for (trusted, is_reached) in [(&identity, true), (&other, false)] {
        let exchange = TestServer::that_trusts_over_tls(&trusted.certificate());
        let dave = Agent::stranger("dave", "elsewhere.test", nowhere);
        let tls = Tls { identity: &identity, next_hop: None };
        let kamailio = Kamailio::start_with(dave.address(), Nat::Ignored, Some(&tls));
        let uri = format!("sip:dave@{};transport=tls", kamailio.outside);
        let mut alice = exchange.agent("alice");
        if !is_reached {
            let mut calling = alice.dialog(&uri);
            alice.ask(&mut calling, "INVITE", "", SESSION);
            alice.response("INVITE", 480);
            continue;
        }
        let (mut alice, mut dave) = establish_with(alice, dave, &uri);
        continue_call(&mut dave, &mut alice);
        continue_call(&mut alice, &mut dave);
        alice.pass(&mut dave, "BYE", "");
    }
}

#[test]
fn barebell_phone_calls_through_kamailio_over_tls() {
    let (exchange, identity) = (TestServer::without_trusted_sources(), Identity::new());
    let tls = Tls { identity: &identity, next_hop: None };
    let kamailio = Kamailio::start_with(exchange.server.address(), Nat::Aliased, Some(&tls));
    let mut alice = Phone::registered(
        Barebell,
        Account {
            proxy: Some(kamailio.outside),
            transport: Transport::Tls,
            issuers: Some(identity.certificate()),
            ..exchange.account("alice", Transport::Udp)
        },
    );
    let mut bob = exchange.phone(Barebell, "bob", Transport::Udp);
    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    bob.wait_for(Event::Incoming);
    bob.act(&Action::Answer);
    alice.wait_for(Event::Established);
    alice.wait_until_it_hears(bob.account.tone);
    bob.wait_until_it_hears(alice.account.tone);
    bob.act(&Action::HangUp);
    alice.wait_for(Event::Ended);
}

/// The account of an office at its provider, a subscriber of the provider, and its domain.
const ACCOUNT: &str = "4930111";
const SUBSCRIBER: &str = "4930456789";
const PROVIDER: &str = "provider.test";

/// The session description of a call on hold. The B2BUA passes it on: it answers a description that
/// it knows itself.
const HELD: &str = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\n\
                    t=0 0\r\nm=audio 40000 RTP/AVP 0\r\na=rtpmap:0 PCMU/8000\r\na=inactive\r\n";

/// The lines of a trunk to `provider` with an account that registers.
fn trunk(name: &str, provider: &Kamailio) -> String {
    format!(
        "[[trunks]]\nname = \"{name}\"\nhost = \"{}\"\nregister = true\nprobe_interval = false\n\
         [[trunks.accounts]]\nuser = \"{ACCOUNT}\"\npassword = \"{PASSWORD}\"\n\
         domain = \"{PROVIDER}\"\n",
        provider.outside
    )
}

/// One end puts the call on hold, and either hangs up.
fn hold_and_end(mover: &mut End, other: &mut End, mover_hangs_up: bool) {
    mover.pass_described(other, "INVITE", "", [HELD; 2]);
    match mover_hangs_up {
        true => mover.pass(other, "BYE", ""),
        false => other.pass(mover, "BYE", ""),
    };
}

/// Kamailio is the provider of an office, and its second one: it challenges the registration and
/// the calls of the account, and stays in the path. The first one is killed.
#[test]
fn kamailio_is_the_provider_of_an_office_and_another_one_takes_over() {
    let nowhere = (Ipv4Addr::LOCALHOST, 9).into();
    let mut subscriber = Agent::stranger(SUBSCRIBER, PROVIDER, nowhere);
    let start = || Kamailio::start_provider(ACCOUNT, PASSWORD, subscriber.address());
    let (first, second) = (start(), start());
    let configuration = format!(
        "{TRUSTS_NOBODY}[media]\nports = \"33100-33199\"\n{}{}\
         [numbers]\ncountry = \"49\"\n\
         [[numbers.rules]]\nname = \"out\"\nprefix = \"+49\"\nremove = \"+\"\n\
         trunks = [\"first\", \"second\"]\n\
         [[numbers.did]]\nname = \"in\"\nnumber = \"+{ACCOUNT}\"\nto = \"user:alice\"\n",
        trunk("first", &first),
        trunk("second", &second),
    );
    let office = TestServer::with(&configuration, &[]);
    for name in ["first", "second"] {
        let said = format!("trunk {name}: sip:{ACCOUNT}@{PROVIDER} is registered at udp:");
        office.server.wait_for_line(&said);
    }
    let mut alice = office.agent("alice");
    let uri = office.server.uri(&format!("+{SUBSCRIBER}"));
    // Out, with a challenge to the INVITE and a BYE of either end.
    for caller_hangs_up in [true, false] {
        let (mut here, mut there) = establish_with(alice, subscriber, &uri);
        let route = String::from_utf8_lossy(&there.dialog.route_set()[0]).into_owned();
        assert!(route.contains(&first.outside.to_string()), "Kamailio stays in the path: {route}");
        hold_and_end(&mut here, &mut there, caller_hangs_up);
        (alice, subscriber) = (here.agent, there.agent);
    }
    // In, to the contact of the registration.
    let caller = Agent::stranger(SUBSCRIBER, PROVIDER, first.outside);
    let (mut there, mut here) = establish_with(caller, alice, &format!("sip:{ACCOUNT}@{PROVIDER}"));
    hold_and_end(&mut there, &mut here, false);
    alice = here.agent;
    office.server.wait_for_history(3);
    for record in office.server.rows(&["calls", "--history", "--json"]) {
        assert_eq!(record["trunk"], "first", "{record}");
    }
    // The next call goes through the other one.
    drop(first);
    let (mut here, mut there) = establish_with(alice, subscriber, &uri);
    let route = String::from_utf8_lossy(&there.dialog.route_set()[0]).into_owned();
    assert!(route.contains(&second.outside.to_string()), "{route}");
    hold_and_end(&mut here, &mut there, true);
    let line =
        office.server.wait_for_line(&format!("trunk first: a call to {SUBSCRIBER} failed: "));
    assert!(line.ends_with("; trunk second is next"), "{line}");
    assert_eq!(office.server.counter("trunk-call-failures"), 1);
}
