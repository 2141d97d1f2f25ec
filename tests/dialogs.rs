//! Requests within dialogs through a server without trusted networks: moved user agents, a crashed
//! server, session refreshes (RFC 4028), subscriptions (RFC 6665).

use peers::call::{End, establish};
use peers::test_server::TestServer;
use std::thread::sleep;
use std::time::Duration;

/// Alice calls bob.
fn call(exchange: &TestServer) -> (End, End) {
    establish(exchange.agent("alice"), exchange.agent("bob"))
}

/// One end moves during the call and announces it with `method`. Then it is reached there.
fn is_reached_after_a_move(mover: &mut End, other: &mut End, method: &str) {
    mover.agent.move_away();
    mover.pass(other, method, "");
    other.pass(mover, "INFO", "");
    other.pass(mover, "INVITE", "");
    mover.pass(other, "INVITE", "");
}

#[test]
fn the_callee_moves_by_reinvite_and_the_caller_hangs_up() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = call(&exchange);
    is_reached_after_a_move(&mut bob, &mut alice, "INVITE");
    alice.pass(&mut bob, "BYE", "");
}

#[test]
fn the_caller_moves_by_update_and_the_callee_hangs_up() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = call(&exchange);
    is_reached_after_a_move(&mut alice, &mut bob, "UPDATE");
    bob.pass(&mut alice, "BYE", "");
}

#[test]
fn both_ends_move_more_than_once() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = call(&exchange);
    for method in ["INVITE", "UPDATE"] {
        is_reached_after_a_move(&mut alice, &mut bob, method);
        is_reached_after_a_move(&mut bob, &mut alice, method);
    }
    bob.pass(&mut alice, "BYE", "");
}

/// A dialog carries all the state that the server needs.
#[test]
fn a_call_continues_after_a_crash_of_the_server() {
    let mut exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = call(&exchange);
    exchange.server.crash();
    exchange.server.restart();
    alice.pass(&mut bob, "INVITE", "");
    is_reached_after_a_move(&mut bob, &mut alice, "UPDATE");
    alice.pass(&mut bob, "BYE", "");
}

/// One end refreshes the session several times. Afterwards both can send requests.
fn is_refreshed(refresher: &mut End, other: &mut End, role: &str) {
    let fields = format!("Supported: timer\r\nSession-Expires: 90;refresher={role}\r\n");
    for method in ["INVITE", "UPDATE", "UPDATE", "INVITE"] {
        sleep(Duration::from_secs(1));
        refresher.pass(other, method, &fields);
    }
    other.pass(refresher, "INFO", "");
}

#[test]
fn the_caller_refreshes_the_session() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = call(&exchange);
    is_refreshed(&mut alice, &mut bob, "uac");
    bob.pass(&mut alice, "BYE", "");
}

#[test]
fn the_callee_refreshes_the_session() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = call(&exchange);
    is_refreshed(&mut bob, &mut alice, "uac");
    alice.pass(&mut bob, "BYE", "");
}

const EVENT: &str = "Event: presence\r\n";

fn state(state: &str) -> String {
    format!("{EVENT}Subscription-State: {state}\r\n")
}

/// Alice subscribes to bob. His phone answers with this status code.
fn subscribe(exchange: &TestServer, status: u16) -> (End, End) {
    let (mut alice, mut bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let mut subscribing = alice.dialog(&bob.address_of_record());
    alice.ask(&mut subscribing, "SUBSCRIBE", &format!("{EVENT}Expires: 600\r\n"), "");
    let subscribe = bob.request("SUBSCRIBE");
    let dialog = bob.dialog_with(&subscribe);
    bob.answer(&subscribe, &dialog, status, "Expires: 600\r\n", "");
    let dialog_of_alice = alice.response("SUBSCRIBE", status).dialog();
    (End { agent: alice, dialog: dialog_of_alice }, End { agent: bob, dialog })
}

/// Refreshes an active subscription with a notification each time, and ends it.
fn refresh_and_unsubscribe(mut subscriber: End, mut notifier: End) {
    for _ in 0..3 {
        subscriber.pass(&mut notifier, "SUBSCRIBE", &format!("{EVENT}Expires: 600\r\n"));
        notifier.pass(&mut subscriber, "NOTIFY", &state("active;expires=600"));
    }
    subscriber.pass(&mut notifier, "SUBSCRIBE", &format!("{EVENT}Expires: 0\r\n"));
    notifier.pass(&mut subscriber, "NOTIFY", &state("terminated;reason=timeout"));
}

#[test]
fn a_subscription_is_refreshed_and_ended_by_the_subscriber() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = subscribe(&exchange, 200);
    bob.pass(&mut alice, "NOTIFY", &state("active;expires=600"));
    refresh_and_unsubscribe(alice, bob);
}

/// The NOTIFY may arrive before the response and then creates the dialog (RFC 6665 section 4.4.1).
#[test]
fn a_subscription_with_a_notify_before_the_response_is_refreshed() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let mut subscribing = alice.dialog(&bob.address_of_record());
    alice.ask(&mut subscribing, "SUBSCRIBE", &format!("{EVENT}Expires: 600\r\n"), "");
    let subscribe = bob.request("SUBSCRIBE");
    let mut dialog = bob.dialog_with(&subscribe);
    bob.send(&mut dialog, "NOTIFY", &state("active;expires=600"), "");
    let notify = alice.request("NOTIFY");
    let mut dialog_of_alice = alice.dialog_with(&notify);
    dialog_of_alice.raise_local_cseq(subscribing.local_cseq());
    alice.answer(&notify, &dialog_of_alice, 200, "", "");
    bob.response("NOTIFY", 200);
    bob.answer(&subscribe, &dialog, 200, "Expires: 600\r\n", "");
    alice.response("SUBSCRIBE", 200);
    let alice = End { agent: alice, dialog: dialog_of_alice };
    refresh_and_unsubscribe(alice, End { agent: bob, dialog });
}

#[test]
fn a_subscription_is_ended_by_a_moved_notifier() {
    let exchange = TestServer::without_trusted_sources();
    let (mut alice, mut bob) = subscribe(&exchange, 202);
    bob.pass(&mut alice, "NOTIFY", &state("pending;expires=600"));
    bob.agent.move_away();
    bob.pass(&mut alice, "NOTIFY", &state("active;expires=500"));
    alice.pass(&mut bob, "SUBSCRIBE", &format!("{EVENT}Expires: 600\r\n"));
    bob.pass(&mut alice, "NOTIFY", &state("terminated;reason=noresource"));
}
