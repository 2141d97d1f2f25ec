//! Lamps, message counts and pickup: scripted user agents and phones at a server with a notifier.

use peers::call::establish;
use peers::phone::Kind::{Barebell, Baresip, Linphone};
use peers::phone::{Account, Action, Event, Kind, Phone};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::{PASSWORD, TestServer};
use peers::transport::Transport::{Tcp, Udp};
use sip::HeaderName;
use sip::dialog::Dialog;
use test_support::agent::{Agent, Received, SESSION};

/// A server without trusted networks, with the keys `office` of `[office]`, and calls of this mode.
fn server(office: &str, mode: &str) -> TestServer {
    let calls = format!("[calls]\nmode = \"{mode}\"\n");
    TestServer::with(&format!("{TRUSTS_NOBODY}[office]\n{office}{calls}"), &[])
}

const CALLS: &str = "watch = \"calls\"\npickup = \"**\"\n";

/// A subscriber.
struct Watcher {
    agent: Agent,
    dialog: Dialog,
}

impl Watcher {
    /// `agent` subscribes to `event` of the user `of`.
    fn new(mut agent: Agent, event: &str, of: &str) -> Self {
        let mut dialog = agent.dialog(&format!("sip:{of}@barebell.test"));
        agent.ask(&mut dialog, "SUBSCRIBE", &lines(event, 600), "");
        let accepted = agent.response("SUBSCRIBE", 200);
        let mut watcher = Self { agent, dialog: accepted.dialog() };
        let first = watcher.notify();
        assert!(first.value(HeaderName::SubscriptionState).starts_with("active;expires="));
        watcher
    }

    /// The next NOTIFY, which is answered.
    fn notify(&mut self) -> Received {
        let notify = self.agent.request("NOTIFY");
        self.agent.answer(&notify, &self.dialog, 200, "", "");
        notify
    }

    /// Waits for a NOTIFY with `text`. Returns its body.
    fn wait_for(&mut self, text: &str) -> String {
        loop {
            let body = self.notify().body();
            if body.contains(text) {
                return body;
            }
        }
    }
}

fn lines(event: &str, expires: u32) -> String {
    format!("Event: {event}\r\nExpires: {expires}\r\n")
}

/// The status of the response to a SUBSCRIBE of `agent`.
fn status_of(agent: &mut Agent, event: &str, of: &str) -> Option<u16> {
    let mut dialog = agent.dialog(&format!("sip:{of}@barebell.test"));
    agent.ask(&mut dialog, "SUBSCRIBE", &lines(event, 600), "");
    agent.final_response("SUBSCRIBE").status()
}

fn lamp_follows_a_call(mode: &str) {
    let exchange = server(CALLS, mode);
    let mut carol = Watcher::new(exchange.agent("carol"), "dialog", "bob");
    let (alice, bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let (mut alice, mut bob) = establish(alice, bob);
    let body = carol.wait_for("<state>confirmed</state>");
    assert!(body.contains("entity=\"sip:bob@barebell.test\""), "{body}");
    assert!(body.contains("direction=\"recipient\""), "{body}");
    assert!(body.contains("<identity>sip:alice@barebell.test</identity>"), "{body}");
    alice.pass(&mut bob, "BYE", "");
    let body = carol.wait_for("<state>terminated</state>");
    assert_eq!(body.matches("<dialog id=").count(), 1, "{body}");
}

#[test]
fn a_lamp_is_lit_while_a_call_stands() {
    lamp_follows_a_call("proxy");
}

#[test]
fn a_lamp_is_lit_while_a_call_through_the_b2bua_stands() {
    lamp_follows_a_call("b2bua");
}

#[test]
fn a_lamp_blinks_while_a_phone_rings_and_is_out_after_a_refusal() {
    let exchange = server("watch = \"state\"\n", "needed");
    let mut carol = Watcher::new(exchange.agent("carol"), "dialog", "bob");
    let (mut alice, mut bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let mut calling = alice.dialog("sip:bob@barebell.test");
    alice.ask(&mut calling, "INVITE", "", SESSION);
    let invite = bob.request("INVITE");
    let called = bob.dialog_with(&invite);
    bob.answer(&invite, &called, 180, "", "");
    let body = carol.wait_for("<state>early</state>");
    assert!(!body.contains("call-id") && !body.contains("alice"), "only the state: {body}");
    bob.answer(&invite, &called, 486, "", "");
    alice.response("INVITE", 486);
    carol.wait_for("<state>terminated</state>");
}

#[test]
fn messages_light_the_lamp_of_their_user() {
    let exchange = server("", "needed");
    let mut alice = Watcher::new(exchange.agent("alice"), "message-summary", "alice");
    let set = ["messages", "alice", "--new", "2", "--old", "1", "--json"];
    let counts = exchange.server.rows(&set);
    assert_eq!((&counts[0]["new"], &counts[0]["old"]), (&2.into(), &1.into()));
    let body = alice.wait_for("Messages-Waiting: yes");
    assert!(body.contains("Voice-Message: 2/1 (0/0)"), "{body}");
    let shown = exchange.server.rows(&["messages", "alice@barebell.test", "--json"]);
    assert_eq!(shown, counts);
    let Watcher { mut agent, mut dialog } = alice;
    agent.ask(&mut dialog, "SUBSCRIBE", &lines("message-summary", 0), "");
    assert_eq!(agent.final_response("SUBSCRIBE").status(), Some(200));
    let last = agent.request("NOTIFY");
    assert_eq!(last.value(HeaderName::SubscriptionState), "terminated;reason=timeout");
    agent.answer(&last, &dialog, 200, "", "");
    exchange.server.wait_for_count("notifications", 3);
    assert_eq!(exchange.server.counter("subscriptions"), 0);
}

#[test]
fn baresip_subscribes_to_its_messages_and_is_told_a_change() {
    let exchange = server("", "needed");
    let account = Account { options: "mwi".into(), ..exchange.account("alice", Udp) };
    let _alice = Phone::registered(Baresip, account);
    exchange.server.wait_for_count("subscriptions", 1);
    exchange.server.wait_for_count("notifications", 1);
    let _ = exchange.server.rows(&["messages", "alice", "--new", "1", "--old", "0", "--json"]);
    exchange.server.wait_for_count("notifications", 2);
    assert_eq!(exchange.server.counter("subscriptions-lost"), 0);
}

#[test]
fn barebell_phone_subscribes_to_its_messages() {
    let exchange = server("", "needed");
    let account = Account { options: "--messages".into(), ..exchange.account("alice", Udp) };
    let _alice = Phone::registered(Barebell, account);
    exchange.server.wait_for_count("notifications", 1);
    let _ = exchange.server.rows(&["messages", "alice", "--new", "1", "--old", "0", "--json"]);
    exchange.server.wait_for_count("notifications", 2);
    assert_eq!(exchange.server.counter("subscriptions"), 1);
    assert_eq!(exchange.server.counter("subscriptions-lost"), 0);
}

#[test]
fn a_user_has_a_limited_number_of_subscriptions() {
    let exchange = server(CALLS, "needed");
    let mut carol = exchange.agent("carol");
    for expected in (0..101).map(|count| if count < 100 { 200 } else { 480 }) {
        assert_eq!(status_of(&mut carol, "dialog", "bob"), Some(expected));
        carol.read_all();
    }
    assert_eq!(status_of(&mut exchange.agent("alice"), "dialog", "bob"), Some(200));
    assert_eq!(exchange.server.counter("subscriptions-limit"), 1);
}

/// The names of one source, on one socket, have one share. Each name has to be proved.
#[test]
fn a_source_that_changes_its_name_has_one_share_of_subscriptions() {
    let keys = format!("{CALLS}max_subscriptions_per_source = 5\n");
    let exchange = server(&keys, "needed");
    let mut many = exchange.agent("carol");
    for (at, name) in (0..8).zip(["alice", "bob", "carol"].into_iter().cycle()) {
        many.user = name.to_owned();
        let expected = if at < 5 { 200 } else { 480 };
        assert_eq!(status_of(&mut many, "dialog", "bob"), Some(expected), "{at}: {name}");
        many.read_all();
    }
    assert_eq!(exchange.server.counter("subscriptions"), 5);
    assert_eq!(exchange.server.counter("subscriptions-limit"), 3);
    // A name without its password gets no subscription.
    let mut stranger = Agent::stranger("eve", "barebell.test", exchange.server.address());
    for name in ["alice", "bob", "nobody"] {
        stranger.user = name.to_owned();
        let mut dialog = stranger.dialog("sip:bob@barebell.test");
        stranger.send(&mut dialog, "SUBSCRIBE", &lines("dialog", 600), "");
        assert_eq!(stranger.final_response("SUBSCRIBE").status(), Some(407), "{name}");
    }
}

#[test]
fn a_phone_without_a_subscription_is_told_if_the_operator_wants_it() {
    let exchange = server("messages = \"all\"\n", "needed");
    let mut alice = exchange.agent("alice");
    let _ = exchange.server.rows(&["messages", "alice", "--new", "1", "--old", "0", "--json"]);
    let notify = alice.request("NOTIFY");
    assert_eq!(notify.value(HeaderName::Event), "message-summary");
    assert!(notify.body().starts_with("Messages-Waiting: yes\r\n"), "{notify}");
}

#[test]
fn without_the_right_nothing_is_told() {
    let exchange = server("watch = \"state\"\n", "needed");
    let _bob = exchange.agent("bob");
    let mut carol = exchange.agent("carol");
    assert_eq!(status_of(&mut carol, "message-summary", "bob"), Some(403), "another mailbox");
    assert_eq!(status_of(&mut carol, "dialog", "nobody"), Some(404));
    assert_eq!(status_of(&mut carol, "dialog", "bob"), Some(200));
    let mut stranger = Agent::stranger("eve", "elsewhere.example", exchange.server.address());
    for event in ["dialog", "message-summary"] {
        let mut dialog = stranger.dialog("sip:bob@barebell.test");
        stranger.send(&mut dialog, "SUBSCRIBE", &lines(event, 600), "");
        assert_eq!(stranger.final_response("SUBSCRIBE").status(), Some(405));
    }
    assert_eq!(exchange.server.counter("watching-denied"), 1);
}

#[test]
fn a_refresh_proves_the_user_anew_and_a_stranger_cannot_end_a_subscription() {
    let exchange = server(CALLS, "needed");
    let carol = Watcher::new(exchange.agent("carol"), "dialog", "bob");
    let Watcher { mut agent, mut dialog } = carol;
    agent.send(&mut dialog, "SUBSCRIBE", &lines("dialog", 0), "");
    assert_eq!(agent.final_response("SUBSCRIBE").status(), Some(407), "no credentials");
    let mut forged = Agent::stranger("carol", "barebell.test", exchange.server.address());
    forged.send(&mut dialog, "SUBSCRIBE", &lines("dialog", 0), "");
    assert_eq!(forged.final_response("SUBSCRIBE").status(), Some(407));
    assert_eq!(exchange.server.counter("subscriptions"), 1);
    // A password that was replaced proves nothing.
    let mut thief = Agent::new("alice", PASSWORD, "barebell.test", exchange.server.address());
    let mut other = dialog.clone();
    thief.ask(&mut other, "SUBSCRIBE", &lines("dialog", 0), "");
    assert_eq!(thief.final_response("SUBSCRIBE").status(), Some(403), "another user");
    agent.ask(&mut dialog, "SUBSCRIBE", &lines("dialog", 600), "");
    assert_eq!(agent.final_response("SUBSCRIBE").status(), Some(200));
}

#[test]
fn the_end_of_the_server_ends_subscriptions_so_that_phones_begin_them_anew() {
    let mut exchange = server(CALLS, "needed");
    let mut carol = Watcher::new(exchange.agent("carol"), "dialog", "bob");
    // A signal ends a server that has not started as a whole.
    exchange.server.wait_for_line("there are 3 users");
    let stopping = std::thread::spawn(move || {
        exchange.server.stop();
        exchange
    });
    let last = carol.notify();
    assert_eq!(
        last.value(HeaderName::SubscriptionState),
        "terminated;reason=probation;retry-after=5"
    );
    drop(stopping.join().expect("the server stops"));
}

/// Alice calls bob, and his phone rings. Carol dials the code of a pickup, and talks to alice.
fn picks_up(mode: &str, caller: Kind, picker: Kind) {
    let exchange = server(CALLS, mode);
    let mut alice = exchange.phone(caller, "alice", Tcp);
    let mut bob = exchange.phone(Barebell, "bob", Udp);
    let mut carol = exchange.phone(picker, "carol", Udp);
    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    bob.wait_for(Event::Incoming);
    carol.act(&Action::Dial(exchange.server.uri("**bob")));
    carol.wait_for(Event::Established);
    bob.wait_for(Event::Ended);
    alice.wait_until_it_hears(carol.account.tone);
    carol.wait_until_it_hears(alice.account.tone);
    carol.act(&Action::HangUp);
    carol.wait_for(Event::Ended);
}

#[test]
fn a_ringing_call_is_picked_up() {
    picks_up("proxy", Barebell, Barebell);
}

#[test]
fn a_ringing_call_through_the_b2bua_is_picked_up() {
    picks_up("b2bua", Barebell, Barebell);
}

#[test]
fn linphone_picks_up_a_call() {
    picks_up("needed", Barebell, Linphone);
}

#[test]
fn without_a_ringing_call_or_the_right_there_is_no_pickup() {
    for (office, expected) in [(CALLS, 481), ("watch = \"state\"\n", 404)] {
        let exchange = server(office, "needed");
        let _bob = exchange.agent("bob");
        let mut carol = exchange.agent("carol");
        let mut dialog = carol.dialog("sip:**bob@barebell.test");
        carol.ask(&mut dialog, "INVITE", "", SESSION);
        assert_eq!(carol.final_response("INVITE").status(), Some(expected), "{office}");
    }
}
