//! Forwards out of the house: to a mailbox and through a trunk; and the frauds by them.

use peers::office::{ACCOUNT, ALICE, Office, SESSION, SUBSCRIBER};
use peers::phone::Event::{Ended, Established};
use peers::phone::Kind::Barebell;
use peers::phone::{Action, Phone};
use peers::server::{DOMAIN, ServerProcess, TRUSTS_NOBODY};
use peers::test_server::TestServer;
use peers::transport::Transport::Tcp;
use sip::HeaderName;
use sip::dialog::Dialog;
use test_support::agent::{Agent, Received};

/// Runs the command `barebell user forward` with these arguments.
fn forward(server: &ServerProcess, arguments: &[&str]) {
    let said = server.run(&[&["user", "forward"][..], arguments].concat());
    assert!(said.contains(DOMAIN), "{said}");
}

/// A call that `callee` has answered. Returns the dialogs of both ends.
fn answer(caller: &mut Agent, callee: &mut Agent, invite: &Received) -> [Dialog; 2] {
    let there = callee.dialog_with(invite);
    callee.answer(invite, &there, 200, "", SESSION);
    let answered = caller.final_response("INVITE");
    assert_eq!(answered.status(), Some(200), "{answered}");
    let here = answered.dialog();
    caller.acknowledge(&here, &answered);
    callee.request("ACK");
    [here, there]
}

/// The status of the final response to a call of `caller` to `name` of the office.
fn refused(office: &Office, caller: &mut Agent, name: &str) -> Option<u16> {
    let mut here = caller.dialog(&office.office.uri(name));
    caller.ask(&mut here, "INVITE", "", SESSION);
    caller.final_response("INVITE").status()
}

/// Alice speaks until the mailbox has a message of her.
fn leave_message(exchange: &TestServer, alice: &mut Phone) {
    alice.wait_for(Established);
    alice.wait_until_it_hears_part(1000, 200);
    std::thread::sleep(std::time::Duration::from_secs(4));
    alice.act(&Action::HangUp);
    alice.wait_for(Ended);
    let line = exchange.server.wait_for_line("mailbox bob@barebell.test has a new message");
    assert!(!line.contains("not authenticated"), "{line}");
    let rows = exchange.server.rows(&["voicemail", "list", "--json"]);
    assert_eq!(rows.len(), 1, "{rows:?}");
    let message = (&rows[0]["caller"], &rows[0]["proved"]);
    assert_eq!(message, (&"alice@barebell.test".into(), &true.into()), "{rows:?}");
    exchange.server.run(&["voicemail", "delete", "bob", "--all"]);
}

#[test]
fn a_busy_user_and_one_that_does_not_answer_forward_to_their_mailbox() {
    for mode in ["needed", "b2bua"] {
        let exchange = TestServer::with(
            &format!(
                "{TRUSTS_NOBODY}[calls]\nmode = \"{mode}\"\n[media]\nports = \"33200-33299\"\n\
                 [media_server]\nenabled = true\nmailboxes = [\"*\"]\n"
            ),
            &[],
        );
        let arguments = ["bob", "--busy", "voicemail", "--no-answer", "voicemail", "--after", "2s"];
        forward(&exchange.server, &arguments);
        let mut bob = exchange.agent("bob");
        let mut alice = exchange.phone(Barebell, ALICE, Tcp);
        for is_busy in [true, false] {
            alice.act(&Action::Dial(exchange.server.uri("bob")));
            let invite = bob.request("INVITE");
            let dialog = bob.dialog_with(&invite);
            if is_busy {
                bob.answer(&invite, &dialog, 486, "", "");
            } else {
                bob.answer(&invite, &dialog, 180, "", "");
                let cancel = bob.request("CANCEL");
                bob.answer(&cancel, &dialog, 200, "", "");
                bob.answer(&invite, &dialog, 487, "", "");
            }
            bob.request("ACK");
            leave_message(&exchange, &mut alice);
        }
        assert_eq!(exchange.server.counter("forwards"), 2, "{mode}");
    }
}

/// The user that may call within the office only, and the number of bob for the provider.
const RIGHTS: &str = "rights = [{ users = \"alice\", classes = [\"internal\"] }]\n";
const BOB: &str = "[[numbers.did]]\nnumber = \"+4930222\"\nto = \"user:bob\"\n";

#[test]
fn a_forward_through_a_trunk_has_the_rights_of_the_user_that_forwards() {
    for mode in ["needed", "b2bua"] {
        let office = Office::with(&format!("[calls]\nmode = \"{mode}\"\n"), RIGHTS, "");
        let (mut alice, mut bob) = (office.user(ALICE), office.user("bob"));
        let mut subscriber = office.subscriber();
        let number = format!("+{SUBSCRIBER}");
        assert_eq!(refused(&office, &mut alice, &number), Some(403), "no right of her own");
        for option in ["--always", "--busy"] {
            forward(&office.office, &["bob", option, &number]);
            let mut here = alice.dialog(&office.office.uri("bob"));
            alice.ask(&mut here, "INVITE", "", SESSION);
            if option == "--busy" {
                let invite = bob.request("INVITE");
                let dialog = bob.dialog_with(&invite);
                bob.answer(&invite, &dialog, 486, "", "");
                bob.request("ACK");
            }
            let invite = subscriber.request("INVITE");
            assert!(invite.value(HeaderName::From).contains(ACCOUNT), "{invite}");
            let [mut here, there] = answer(&mut alice, &mut subscriber, &invite);
            alice.send(&mut here, "BYE", "", "");
            let bye = subscriber.request("BYE");
            subscriber.answer(&bye, &there, 200, "", "");
            assert_eq!(alice.final_response("BYE").status(), Some(200));
            forward(&office.office, &["bob", "--off", &option[2..]]);
        }
        // The forward of alice has her rights, whichever the caller has.
        forward(&office.office, &[ALICE, "--always", &number]);
        assert_eq!(refused(&office, &mut bob, ALICE), Some(404), "{mode}");
        let line = office.office.wait_for_line("for alice@barebell.test, which forwards");
        assert!(line.contains("national"), "{line}");
        assert!(subscriber.request_if_any("INVITE").is_none());
    }
}

#[test]
fn a_forward_to_a_premium_number_is_refused_to_every_caller() {
    let office = Office::with("", "", BOB);
    let (mut alice, mut subscriber) = (office.user(ALICE), office.subscriber());
    forward(&office.office, &["bob", "--always", "+49900123456"]);
    assert_eq!(refused(&office, &mut alice, "bob"), Some(404));
    let mut stranger = Agent::stranger("eve", "elsewhere.test", office.office.address());
    assert_eq!(refused(&office, &mut stranger, "bob"), Some(404));
    // The provider has the call of a customer.
    assert_eq!(refused(&office, &mut subscriber, "+4930222"), Some(404));
    let line = office.office.wait_for_line("which forwards");
    assert!(line.contains("premium") && line.contains("+49900123456"), "{line}");
    assert_eq!(office.office.counter("numbers-refused"), 3);
    assert_eq!(office.provider.counter("invites"), 1, "that of the customer alone");
}

#[test]
fn the_call_of_a_customer_goes_on_to_the_mobile_phone_of_a_user() {
    let office = Office::with("", "", BOB);
    let mut subscriber = office.subscriber();
    forward(&office.office, &["bob", "--always", &format!("+{SUBSCRIBER}")]);
    let mut mobile = office.subscriber();
    let mut here = subscriber.dialog(&office.office.uri("+4930222"));
    subscriber.ask(&mut here, "INVITE", "", SESSION);
    let invite = mobile.request("INVITE");
    let [mut here, there] = answer(&mut subscriber, &mut mobile, &invite);
    subscriber.send(&mut here, "BYE", "", "");
    let bye = mobile.request("BYE");
    mobile.answer(&bye, &there, 200, "", "");
    assert_eq!(subscriber.final_response("BYE").status(), Some(200));
}

#[test]
fn strangers_have_limits_of_their_own_on_the_trunk_that_a_user_forwards_to() {
    let limits = "limits = [{ users = \"*\", calls = 1, minutes = 9 }]\n";
    let office = Office::with("", limits, "");
    let mut subscriber = office.subscriber();
    forward(&office.office, &["bob", "--always", &format!("+{SUBSCRIBER}")]);
    let mut eve = Agent::stranger("eve", "elsewhere.test", office.office.address());
    let mut here = eve.dialog(&office.office.uri("bob"));
    eve.ask(&mut here, "INVITE", "", SESSION);
    let invite = subscriber.request("INVITE");
    let _call = answer(&mut eve, &mut subscriber, &invite);
    // One source has one call at once, and the place of bob is not taken.
    assert_eq!(refused(&office, &mut eve, "bob"), Some(403));
    office.office.wait_for_line("stranger 127.0.0.1: 1 of at most 1 calls at once");
    let used = |name: &str| {
        let rows = office.office.rows(&["limits", "--json"]);
        let row = rows.into_iter().find(|row| row["account"] == name);
        row.map(|row| (row["calls"].as_u64(), row["minutes"].as_u64()))
    };
    assert_eq!(used("stranger 127.0.0.1"), Some((Some(1), Some(1))));
    assert_eq!(used("strangers"), Some((Some(1), Some(1))));
    assert_eq!(used("user bob@barebell.test"), None);
    let mut alice = office.user(ALICE);
    let mut here = alice.dialog(&office.office.uri("bob"));
    alice.ask(&mut here, "INVITE", "", SESSION);
    let invite = subscriber.request("INVITE");
    let _second = answer(&mut alice, &mut subscriber, &invite);
    // Bob has one call now, and strangers cannot add to it.
    assert_eq!(refused(&office, &mut alice, "bob"), Some(403));
    office.office.wait_for_line("user bob@barebell.test: 1 of at most 1 calls at once");
}

#[test]
fn a_transfer_to_a_number_needs_the_right_of_the_party_that_is_transferred() {
    for mode in ["needed", "b2bua"] {
        let office = Office::with(&format!("[calls]\nmode = \"{mode}\"\n"), RIGHTS, BOB);
        let (mut alice, mut bob) = (office.user(ALICE), office.user("bob"));
        let mut subscriber = office.subscriber();
        let mut here = bob.dialog(&office.office.uri(ALICE));
        bob.ask(&mut here, "INVITE", "", SESSION);
        let invite = alice.request("INVITE");
        let [mut here, there] = answer(&mut bob, &mut alice, &invite);
        let number = office.office.uri(&format!("+{SUBSCRIBER}"));
        bob.send(&mut here, "REFER", &format!("Refer-To: <{number}>\r\n"), "");
        let refer = alice.request("REFER");
        alice.answer(&refer, &there, 202, "", "");
        assert_eq!(bob.final_response("REFER").status(), Some(202));
        // She does as she is told, as a phone does.
        let mut third = alice.dialog(&number);
        let referred = format!("Referred-By: <sip:bob@{DOMAIN}>\r\n");
        alice.ask(&mut third, "INVITE", &referred, SESSION);
        assert_eq!(alice.final_response("INVITE").status(), Some(403), "{mode}");
        assert!(subscriber.request_if_any("INVITE").is_none());
    }
}

#[test]
fn a_provider_cannot_transfer_a_user_to_a_number() {
    let office = Office::start();
    let (mut alice, mut subscriber) = (office.user(ALICE), office.subscriber());
    let mut here = subscriber.dialog(&office.office.uri(&format!("+{ACCOUNT}")));
    subscriber.ask(&mut here, "INVITE", "", SESSION);
    let invite = alice.request("INVITE");
    let [mut here, _there] = answer(&mut subscriber, &mut alice, &invite);
    let number = office.office.uri("+49900123456");
    subscriber.send(&mut here, "REFER", &format!("Refer-To: <{number}>\r\n"), "");
    assert_eq!(subscriber.final_response("REFER").status(), Some(403));
    assert!(alice.request_if_any("REFER").is_none());
}
