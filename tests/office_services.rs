//! Call services: forwards, do not disturb and groups, with scripted user agents and with phones.

use peers::call::End;
use peers::phone::Kind::{Barebell, Baresip, Linphone};
use peers::phone::{Action, Event};
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::TestServer;
use peers::transport::Transport::{Tcp, Udp};
use sip::HeaderName;
use test_support::agent::{Agent, Received, SESSION};

/// A server with this mode of calls and the group `sales` of bob and carol, called with `strategy`.
fn server(mode: &str, strategy: &str) -> TestServer {
    TestServer::with(
        &format!(
            "{TRUSTS_NOBODY}[calls]\nmode = \"{mode}\"\n[[groups]]\nname = \"sales\"\n\
             members = [\"bob\", \"carol\"]\nstrategy = \"{strategy}\"\ntimeout = \"3s\"\n"
        ),
        &[],
    )
}

/// Runs the command `barebell user` with these arguments.
fn user(exchange: &TestServer, arguments: &[&str]) {
    let said = exchange.server.run(&[&["user"][..], arguments].concat());
    assert!(said.contains(DOMAIN), "{said}");
}

/// Alice calls `name`.
fn call(alice: &mut Agent, name: &str) -> sip::dialog::Dialog {
    let mut dialog = alice.dialog(&format!("sip:{name}@{DOMAIN}"));
    alice.ask(&mut dialog, "INVITE", "", SESSION);
    dialog
}

/// The agent gets an INVITE and responds with `status`.
fn respond(agent: &mut Agent, status: u16) -> Received {
    let invite = agent.request("INVITE");
    let dialog = agent.dialog_with(&invite);
    agent.answer(&invite, &dialog, status, "", "");
    if status >= 300 {
        agent.request("ACK");
    }
    invite
}

/// Alice and `callee`, which gets the call of alice, have a call and end it.
fn answer(alice: &mut Agent, mut callee: Agent) -> Received {
    let invite = callee.request("INVITE");
    let called = callee.dialog_with(&invite);
    callee.answer(&invite, &called, 180, "", "");
    callee.answer(&invite, &called, 200, "", SESSION);
    let answered = alice.response("INVITE", 200);
    let calling = answered.dialog();
    alice.acknowledge(&calling, &answered);
    callee.request("ACK");
    let mut callee = End { agent: callee, dialog: called };
    alice.send(&mut calling.clone(), "BYE", "", "");
    let bye = callee.agent.request("BYE");
    callee.agent.answer(&bye, &callee.dialog, 200, "", "");
    alice.response("BYE", 200);
    invite
}

/// The last record of a call.
fn record(exchange: &TestServer) -> serde_json::Value {
    let rows = exchange.server.rows(&["calls", "--history", "--json"]);
    rows.into_iter().next().expect("a record")
}

#[test]
fn a_busy_user_is_forwarded() {
    for mode in ["needed", "b2bua"] {
        let exchange = server(mode, "together");
        user(&exchange, &["forward", "bob", "--busy", "carol"]);
        let [mut alice, mut bob, carol] = ["alice", "bob", "carol"].map(|it| exchange.agent(it));
        call(&mut alice, "bob");
        respond(&mut bob, 486);
        let invite = answer(&mut alice, carol);
        let diversion = invite.value(HeaderName::Diversion);
        assert!(diversion.contains("<sip:bob@barebell.test>;reason=user-busy"), "{invite}");
        assert!(invite.value(HeaderName::HistoryInfo).contains("bob@barebell.test"), "{invite}");
        assert_eq!(exchange.server.counter("forwards"), 1, "{mode}");
    }
}

#[test]
fn a_call_without_an_answer_goes_on_and_the_record_says_so() {
    for mode in ["needed", "b2bua"] {
        let exchange = TestServer::with(
            &format!("{TRUSTS_NOBODY}[calls]\nmode = \"{mode}\"\n[media]\nrelay = \"all\"\n"),
            &[],
        );
        user(&exchange, &["forward", "bob", "--no-answer", "carol", "--after", "2s"]);
        let [mut alice, mut bob, carol] = ["alice", "bob", "carol"].map(|it| exchange.agent(it));
        call(&mut alice, "bob");
        let invite = bob.request("INVITE");
        let dialog = bob.dialog_with(&invite);
        bob.answer(&invite, &dialog, 180, "", "");
        alice.response("INVITE", 180);
        let cancel = bob.request("CANCEL");
        bob.answer(&cancel, &dialog, 200, "", "");
        bob.answer(&invite, &dialog, 487, "", "");
        bob.request("ACK");
        answer(&mut alice, carol);
        exchange.server.wait_for_history(1);
        let record = record(&exchange);
        let named = (&record["forwarded_to"], &record["forward_reason"]);
        assert_eq!(named, (&"carol@barebell.test".into(), &"no-answer".into()), "{record}");
    }
}

#[test]
fn a_call_that_is_cancelled_stops_in_each_stage() {
    let exchange = server("needed", "together");
    user(&exchange, &["forward", "bob", "--busy", "carol"]);
    let [mut alice, mut bob, mut carol] = ["alice", "bob", "carol"].map(|it| exchange.agent(it));
    call(&mut alice, "bob");
    respond(&mut bob, 486);
    let invite = carol.request("INVITE");
    let dialog = carol.dialog_with(&invite);
    carol.answer(&invite, &dialog, 180, "", "");
    alice.response("INVITE", 180);
    alice.cancel();
    let cancel = carol.request("CANCEL");
    carol.answer(&cancel, &dialog, 200, "", "");
    carol.answer(&invite, &dialog, 487, "", "");
    alice.response("INVITE", 487);
}

#[test]
fn services_survive_a_crash_and_a_reload() {
    let mut exchange = server("needed", "in turn");
    user(&exchange, &["dnd", "bob", "on"]);
    exchange.server.crash();
    exchange.server.restart();
    let [mut alice, _bob] = ["alice", "bob"].map(|it| exchange.agent(it));
    call(&mut alice, "bob");
    alice.response("INVITE", 480);
    assert_eq!(exchange.server.counter("do-not-disturb"), 1);
    // Bob is the first member of the group. The call goes to the next one.
    let carol = exchange.agent("carol");
    call(&mut alice, "sales");
    answer(&mut alice, carol);
    exchange.server.reconfigure(TRUSTS_NOBODY);
    exchange.server.wait_for_line("the configuration was read again");
    call(&mut alice, "sales");
    alice.response("INVITE", 404);
    call(&mut alice, "bob");
    alice.response("INVITE", 480);
    user(&exchange, &["dnd", "bob", "off"]);
    let bob = exchange.agent("bob");
    call(&mut alice, "bob");
    answer(&mut alice, bob);
}

#[test]
fn a_loop_of_forwards_ends() {
    let exchange = server("needed", "together");
    for (name, target) in [("alice", "bob"), ("bob", "carol"), ("carol", "alice")] {
        user(&exchange, &["forward", name, "--always", target]);
    }
    let mut stranger = Agent::stranger("eve", "elsewhere.test", exchange.server.address());
    for _ in 0..5 {
        let mut dialog = stranger.dialog(&format!("sip:bob@{DOMAIN}"));
        stranger.ask(&mut dialog, "INVITE", "", SESSION);
        stranger.response("INVITE", 482);
    }
    assert_eq!(exchange.server.counter("forward-loops"), 5);
    assert_eq!(exchange.server.counter("transactions"), 0);
}

/// The redirection of a phone does not lead a stranger's call out of the house.
#[test]
fn a_stranger_is_not_redirected_elsewhere_by_the_server() {
    let exchange = server("needed", "together");
    let [mut bob, mut carol] = ["bob", "carol"].map(|it| exchange.agent(it));
    let mut stranger = Agent::stranger("eve", "elsewhere.test", exchange.server.address());
    let redirect = |stranger: &mut Agent, bob: &mut Agent, contact: &str| {
        let mut dialog = stranger.dialog(&format!("sip:bob@{DOMAIN}"));
        stranger.ask(&mut dialog, "INVITE", "", SESSION);
        let invite = bob.request("INVITE");
        let dialog = bob.dialog_with(&invite);
        bob.redirect(&invite, &dialog, contact);
        bob.request("ACK");
    };
    redirect(&mut stranger, &mut bob, "sip:900123@premium.test");
    stranger.response("INVITE", 302);
    redirect(&mut stranger, &mut bob, &format!("sip:carol@{DOMAIN}"));
    respond(&mut carol, 486);
    stranger.response("INVITE", 480);
}

#[test]
fn phones_of_a_group_ring_in_turn_and_talk() {
    let exchange = server("needed", "in turn");
    let mut alice = exchange.phone(Barebell, "alice", Tcp);
    let mut bob = exchange.phone(Baresip, "bob", Udp);
    let mut carol = exchange.phone(Linphone, "carol", Udp);
    alice.dial_until_it_rings(&exchange.server.uri("sales"));
    bob.wait_for(Event::Incoming);
    // Bob does not answer for three seconds.
    carol.wait_for(Event::Incoming);
    bob.wait_for(Event::Ended);
    carol.act(&Action::Answer);
    alice.wait_for(Event::Established);
    carol.wait_for(Event::Established);
    alice.wait_until_it_hears(carol.account.tone);
    carol.wait_until_it_hears(alice.account.tone);
    alice.act(&Action::HangUp);
    carol.wait_for(Event::Ended);
}

#[test]
fn phones_are_forwarded_on_busy_and_on_no_answer() {
    for mode in ["needed", "b2bua"] {
        let exchange = server(mode, "together");
        user(
            &exchange,
            &["forward", "bob", "--busy", "carol", "--no-answer", "carol", "--after", "2s"],
        );
        let mut alice = exchange.phone(Barebell, "alice", Tcp);
        let mut bob = exchange.phone(Baresip, "bob", Udp);
        let mut carol = exchange.phone(Barebell, "carol", Udp);
        for is_busy in [true, false] {
            alice.dial_until_it_rings(&exchange.server.uri("bob"));
            bob.wait_for(Event::Incoming);
            if is_busy {
                bob.act(&Action::Reject);
            }
            carol.wait_for(Event::Incoming);
            bob.wait_for(Event::Ended);
            carol.act(&Action::Answer);
            alice.wait_for(Event::Established);
            carol.wait_for(Event::Established);
            alice.wait_until_it_hears(carol.account.tone);
            alice.act(&Action::HangUp);
            alice.wait_for(Event::Ended);
            carol.wait_for(Event::Ended);
        }
        assert_eq!(exchange.server.counter("forwards"), 2, "{mode}");
    }
}

/// None of these phones answers by itself for such a field. They are to take the call all the same.
#[test]
fn phones_get_names_and_requests_for_an_automatic_answer_only_if_they_may() {
    const ALERT: &str = "Call-Info: <sip:intercom@barebell.test>;answer-after=0";
    const NAME: &str = "P-Asserted-Identity: \"Alice Ä.\" <sip:alice@barebell.test>";
    for kind in [Baresip, Linphone] {
        let office = "[office]\nauto_answer = [\"bob\"]\n\
                      names = [{ user = \"alice\", name = \"Alice Ä.\" }]\n";
        let exchange = TestServer::with(&format!("{TRUSTS_NOBODY}{office}"), &[]);
        let mut alice = exchange.agent("alice");
        for (name, may) in [("bob", true), ("carol", false)] {
            let mut phone = exchange.phone(kind, name, Udp);
            let mut dialog = alice.dialog(&exchange.server.uri(name));
            alice.ask(&mut dialog, "INVITE", &format!("{ALERT}\r\n"), SESSION);
            phone.wait_for(Event::Incoming);
            phone.act(&Action::Answer);
            let answer = alice.response("INVITE", 200);
            let mut dialog = answer.dialog();
            alice.acknowledge(&dialog, &answer);
            phone.wait_for(Event::Established);
            assert!(phone.has_line(NAME), "{phone}");
            assert_eq!(phone.has_line(ALERT), may, "{phone}");
            alice.send(&mut dialog, "BYE", "", "");
            phone.wait_for(Event::Ended);
        }
    }
}
