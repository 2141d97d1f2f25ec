//! Call services: forwards, do not disturb, groups and redirections by phones.

use crate::bench::{ALICE, Bench, UDP, config, line, udp, values};
use barebell_sip_server::{CallServices, Config, Group, Strategy};
use sip::{Duration, HeaderName};

/// A server with a phone of each of bob, carol and dave. Bob has two: `bob` and `bob2`.
fn house(config: Config) -> Bench {
    let mut bench = Bench::with_config_and_bob(config, &[("bob", "1"), ("bob2", "1")]);
    for (number, user) in ["carol", "dave"].into_iter().enumerate() {
        add(&mut bench, user, 40 + number);
    }
    bench
}

/// Registers a phone of `user` at an address that ends in `number`.
fn add(bench: &mut Bench, user: &'static str, number: usize) {
    let address = format!("192.0.2.{number}:5060");
    bench.end(user, udp(&address));
    let contact = format!("<sip:{user}@{address}>");
    assert_eq!(bench.register(user, user, &contact), [format!("{user} 200")]);
}

fn to(user: &str) -> Option<String> {
    Some(format!("{user}@example.com"))
}

fn set(bench: &Bench, user: &str, services: CallServices) {
    bench.server.set_call_services(format!("{user}@example.com").as_bytes(), services);
}

fn with(set: impl FnOnce(&mut CallServices)) -> CallServices {
    let mut services = CallServices::default();
    set(&mut services);
    services
}

fn group(members: &[&str], strategy: Strategy, fallback: Option<&str>) -> Config {
    let group = Group {
        name: "sales@example.com".into(),
        members: members.iter().map(|name| format!("{name}@example.com")).collect(),
        strategy,
        timeout: Duration::from_secs(15),
        fallback: fallback.and_then(to),
        forwards: false,
    };
    Config { groups: vec![group], ..config() }
}

fn call(bench: &mut Bench, user: &str) -> Vec<String> {
    let uri = format!("sip:{user}@example.com");
    let invite = bench.request("INVITE", &uri, "alice", "alice", &uri);
    bench.receive("alice", &invite)
}

/// Both phones of bob have got their CANCEL and end the call.
fn end_cancelled(bench: &mut Bench, ends: &[&str]) {
    for end in ends {
        assert_eq!(bench.respond(end, "CANCEL", 200, ""), Vec::<String>::new());
        assert_eq!(bench.answer(end, 487), [format!("{end} ACK")]);
    }
}

#[test]
fn all_calls_are_forwarded_at_once() {
    let mut bench = house(config());
    set(&bench, "bob", with(|it| it.always = to("carol")));
    assert_eq!(bench.call("INVITE"), ["alice 100", "alice 181", "carol INVITE"]);
    let invite = bench.last("carol", "INVITE");
    assert!(invite.starts_with("INVITE sip:carol@192.0.2.40:5060 SIP/2.0\r\n"), "{invite}");
    assert_eq!(line(&invite, "To"), "To: <sip:bob@example.com>");
    assert_eq!(
        values(&invite, HeaderName::Diversion),
        ["<sip:bob@example.com>;reason=unconditional;counter=1"]
    );
    assert_eq!(
        values(&invite, HeaderName::HistoryInfo),
        ["<sip:bob@example.com>;index=1", "<sip:carol@example.com;cause=302>;index=1.1;mp=1"]
    );
    assert_eq!(bench.answer("carol", 200), ["alice 200"]);
    assert_eq!(bench.counter("forwards"), 1);
    bench.rest();
    // Only calls are forwarded.
    assert_eq!(bench.call("MESSAGE").len(), 2, "both phones of bob");
    set(&bench, "bob", CallServices::default());
    assert_eq!(bench.call("INVITE"), ["alice 100", "bob INVITE", "bob2 INVITE"]);
}

#[test]
fn a_busy_user_is_forwarded_when_all_phones_have_answered() {
    let mut bench = house(config());
    set(&bench, "bob", with(|it| it.busy = to("carol")));
    assert_eq!(bench.call("INVITE"), ["alice 100", "bob INVITE", "bob2 INVITE"]);
    assert_eq!(bench.answer("bob", 486), ["bob ACK"]);
    assert_eq!(bench.answer("bob2", 486), ["bob2 ACK", "alice 181", "carol INVITE"]);
    let invite = bench.last("carol", "INVITE");
    assert!(line(&invite, "Diversion").contains("user-busy"), "{invite}");
    // The best response of both is returned.
    assert_eq!(bench.answer("carol", 480), ["carol ACK", "alice 486"]);
    assert_eq!(bench.follow("ACK"), Vec::<String>::new());
    bench.rest();
    // 600 ends the ringing of the other phone.
    bench.call("INVITE");
    assert_eq!(bench.answer("bob2", 180), ["alice 180"]);
    assert_eq!(bench.answer("bob", 600), ["bob ACK", "bob2 CANCEL"]);
    bench.respond("bob2", "CANCEL", 200, "");
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK", "alice 181", "carol INVITE"]);
    assert_eq!(bench.answer("carol", 200), ["alice 200"]);
    bench.rest();
    // A rejection is the wish of the user.
    bench.call("INVITE");
    bench.answer("bob2", 180);
    assert_eq!(bench.answer("bob", 603), ["bob ACK", "bob2 CANCEL"]);
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK", "alice 603"]);
    bench.rest();
}

/// Bob does not answer within ten seconds.
fn no_answer() -> Bench {
    let mut bench = house(config());
    let services = with(|it| {
        it.no_answer = to("carol");
        it.no_answer_after = Duration::from_secs(10);
    });
    set(&bench, "bob", services);
    bench.call("INVITE");
    assert_eq!(bench.answer("bob", 180), ["alice 180"]);
    assert_eq!(bench.answer("bob2", 180), ["alice 180"]);
    bench
}

#[test]
fn a_call_without_an_answer_goes_on() {
    let mut bench = no_answer();
    assert_eq!(
        bench.wait(10_000),
        ["10000 bob CANCEL", "10000 bob2 CANCEL", "10000 alice 181", "10000 carol INVITE"]
    );
    end_cancelled(&mut bench, &["bob", "bob2"]);
    assert_eq!(bench.answer("carol", 180), ["alice 180"]);
    assert_eq!(bench.answer("carol", 200), ["alice 200"]);
    bench.rest();
    // Carol has no forward: after a failure the callers hear of a call without an answer.
    let mut bench = no_answer();
    bench.wait(10_000);
    end_cancelled(&mut bench, &["bob", "bob2"]);
    assert_eq!(bench.answer("carol", 404), ["carol ACK", "alice 480"]);
    bench.rest();
    // Bob is faster.
    let mut bench = no_answer();
    assert_eq!(bench.wait(9_999), Vec::<String>::new());
    assert_eq!(bench.answer("bob", 200), ["alice 200", "bob2 CANCEL"]);
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK"]);
    assert!(bench.wait(20_000).iter().all(|note| !note.contains("carol")), "the call is answered");
    bench.rest();
}

#[test]
fn a_call_is_cancelled_in_each_stage() {
    let mut bench = no_answer();
    assert_eq!(bench.follow("CANCEL"), ["alice 200", "bob CANCEL", "bob2 CANCEL"]);
    assert_eq!(bench.answer("bob", 487), ["bob ACK"]);
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK", "alice 487"]);
    bench.rest();
    // The phones of bob have not ended yet.
    let mut bench = no_answer();
    bench.wait(10_000);
    assert_eq!(bench.answer("carol", 180), ["alice 180"]);
    assert_eq!(bench.follow("CANCEL"), ["alice 200", "carol CANCEL"]);
    assert_eq!(bench.answer("carol", 487), ["carol ACK"]);
    assert_eq!(bench.answer("bob", 487), ["bob ACK"]);
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK", "alice 487"]);
    bench.rest();
}

#[test]
fn a_phone_that_answers_while_the_call_goes_on_gets_it() {
    let mut bench = no_answer();
    bench.wait(10_000);
    assert_eq!(bench.answer("carol", 180), ["alice 180"]);
    // The 200 has crossed the CANCEL.
    assert_eq!(bench.answer("bob", 200), ["alice 200", "carol CANCEL"]);
    assert_eq!(bench.respond("bob", "CANCEL", 200, ""), Vec::<String>::new());
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK"]);
    assert_eq!(bench.answer("carol", 487), ["carol ACK"]);
    bench.rest();
}

#[test]
fn a_late_failure_of_an_earlier_stage_does_not_end_the_call() {
    for status in [404, 408, 486, 503, 603] {
        let mut bench = no_answer();
        bench.wait(10_000);
        assert_eq!(bench.answer("carol", 180), ["alice 180"]);
        assert_eq!(bench.answer("bob", status), ["bob ACK"], "{status}");
        assert_eq!(bench.answer("bob2", 487), ["bob2 ACK"]);
        assert_eq!(bench.answer("carol", 200), ["alice 200"]);
        bench.rest();
    }
}

#[test]
fn a_user_without_a_phone_is_forwarded() {
    let mut bench = house(config());
    set(&bench, "erin", with(|it| it.unreachable = to("carol")));
    bench
        .server
        .add_user(b"erin@example.com", sip::digest::Ha1Set::new(b"erin", b"example.com", b"x"));
    assert_eq!(call(&mut bench, "erin"), ["alice 100", "alice 181", "carol INVITE"]);
    assert_eq!(bench.answer("carol", 200), ["alice 200"]);
    bench.rest();
    // No phone of bob responds, not even with a 100.
    set(&bench, "bob", with(|it| it.unreachable = to("carol")));
    bench.call("INVITE");
    let noted = bench.wait(32_000);
    assert_eq!(noted[noted.len() - 2..], ["32000 alice 181", "32000 carol INVITE"]);
    assert_eq!(bench.answer("carol", 486), ["carol ACK", "alice 486"]);
    bench.rest();
}

#[test]
fn do_not_disturb_keeps_calls_from_the_phones() {
    let mut bench = house(config());
    set(&bench, "bob", with(|it| it.do_not_disturb = true));
    assert_eq!(bench.call("INVITE"), ["alice 480"]);
    assert_eq!(bench.counter("do-not-disturb"), 1);
    assert_eq!(bench.call("MESSAGE").len(), 2, "only calls disturb");
    // A call that replaces one of bob is no new one.
    let uri = "sip:bob@example.com";
    let invite = bench.request("INVITE", uri, "alice", "alice", uri);
    let replaces = "\r\nReplaces: c;to-tag=1;from-tag=2\r\nContent-Length";
    let invite = invite.replacen("\r\nContent-Length", replaces, 1);
    assert_eq!(bench.receive("alice", &invite), ["alice 100", "bob INVITE", "bob2 INVITE"]);
    bench.rest();
    let services = with(|it| {
        it.do_not_disturb = true;
        it.busy = to("carol");
    });
    set(&bench, "bob", services);
    assert_eq!(bench.call("INVITE"), ["alice 100", "alice 181", "carol INVITE"]);
    assert!(line(&bench.last("carol", "INVITE"), "Diversion").contains("do-not-disturb"));
    bench.answer("carol", 486);
    bench.rest();
}

#[test]
fn the_members_of_a_group_ring_in_turn() {
    let mut bench = house(group(&["carol", "erin", "bob"], Strategy::InTurn, Some("dave")));
    assert_eq!(call(&mut bench, "sales"), ["alice 100", "carol INVITE"]);
    let invite = bench.last("carol", "INVITE");
    assert!(values(&invite, HeaderName::Diversion).is_empty(), "{invite}");
    assert_eq!(bench.answer("carol", 180), ["alice 180"]);
    assert_eq!(bench.wait(15_000), ["15000 carol CANCEL", "15000 bob INVITE", "15000 bob2 INVITE"]);
    end_cancelled(&mut bench, &["carol"]);
    // The rejection of a member is no rejection of the group.
    assert_eq!(bench.answer("bob2", 180), ["alice 180"]);
    assert_eq!(bench.answer("bob", 603), ["bob ACK", "bob2 CANCEL"]);
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK", "alice 181", "dave INVITE"]);
    assert!(line(&bench.last("dave", "INVITE"), "Diversion").contains("sip:sales@example.com"));
    assert_eq!(bench.answer("dave", 200), ["alice 200"]);
    bench.rest();
    assert_eq!(call(&mut bench, "sales"), ["alice 100", "carol INVITE"]);
    assert_eq!(bench.answer("carol", 200), ["alice 200"]);
    bench.rest();
    // A group takes calls only.
    let uri = "sip:sales@example.com";
    let message = bench.request("MESSAGE", uri, "alice", "alice", uri);
    assert_eq!(bench.receive("alice", &message), ["alice 480"]);
}

#[test]
fn a_round_robin_begins_with_the_next_member() {
    let mut bench = house(group(&["carol", "dave"], Strategy::RoundRobin, None));
    for first in ["carol", "dave", "carol"] {
        assert_eq!(call(&mut bench, "sales"), ["alice 100".into(), format!("{first} INVITE")]);
        bench.answer(first, 200);
        bench.rest();
    }
}

#[test]
fn the_members_of_a_group_ring_together() {
    let mut bench = house(group(&["bob", "carol", "erin"], Strategy::Together, None));
    let rings = ["alice 100", "bob INVITE", "bob2 INVITE", "carol INVITE"];
    assert_eq!(call(&mut bench, "sales"), rings);
    for end in ["bob", "bob2", "carol"] {
        assert_eq!(bench.answer(end, 180), ["alice 180"]);
    }
    // One member does not want the call. The other one may answer it.
    assert_eq!(bench.answer("bob", 603), ["bob ACK", "bob2 CANCEL"]);
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK"]);
    assert_eq!(bench.answer("carol", 200), ["alice 200"]);
    bench.rest();
    call(&mut bench, "sales");
    for end in ["bob", "bob2", "carol"] {
        bench.answer(end, 180);
    }
    assert_eq!(bench.wait(15_000), ["15000 bob CANCEL", "15000 bob2 CANCEL", "15000 carol CANCEL"]);
    assert_eq!(bench.answer("bob", 487), ["bob ACK"]);
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK"]);
    assert_eq!(bench.answer("carol", 487), ["carol ACK", "alice 480"]);
    bench.rest();
}

#[test]
fn a_redirection_to_a_user_is_followed() {
    let mut bench = house(config());
    let redirect = |bench: &mut Bench, end: &str, contact: &str| {
        bench.respond(end, "INVITE", 302, &format!("Contact: {contact}\r\n"))
    };
    bench.call("INVITE");
    assert_eq!(bench.answer("bob2", 180), ["alice 180"]);
    let contact = "<sip:dave@example.com>;q=0.5, <sip:carol@example.com>";
    assert_eq!(
        redirect(&mut bench, "bob", contact),
        ["bob ACK", "bob2 CANCEL", "alice 181", "carol INVITE"]
    );
    assert!(line(&bench.last("carol", "INVITE"), "Diversion").contains("deflection"));
    assert_eq!(bench.answer("bob2", 487), ["bob2 ACK"]);
    // Carol sends it back.
    let noted = redirect(&mut bench, "carol", "<sip:bob@example.com>");
    assert_eq!(noted, ["carol ACK", "alice 480"]);
    assert_eq!(bench.counter("forward-loops"), 1);
    bench.rest();
    // A phone that is to replace a call of its own cannot send it elsewhere.
    let uri = "sip:bob@example.com";
    let invite = bench.request("INVITE", uri, "alice", "alice", uri);
    let replaces = "\r\nReplaces: c;to-tag=1;from-tag=2\r\nContent-Length";
    bench.receive("alice", &invite.replacen("\r\nContent-Length", replaces, 1));
    bench.answer("bob2", 481);
    let noted = redirect(&mut bench, "bob", "<sip:carol@example.com>");
    assert_eq!(noted, ["bob ACK", "alice 302"]);
    bench.rest();
    // Another place is for the caller to decide about.
    for elsewhere in ["<sip:bob@other.example>", "<tel:+4930>", "<sip:bob@192.0.2.77>", "junk"] {
        bench.call("INVITE");
        assert_eq!(redirect(&mut bench, "bob", elsewhere), ["bob ACK"]);
        assert_eq!(bench.answer("bob2", 486), ["bob2 ACK", "alice 302"], "{elsewhere}");
        bench.rest();
    }
}

#[test]
fn a_phone_of_a_group_does_not_redirect_its_calls() {
    let mut bench = house(group(&["carol", "dave"], Strategy::InTurn, None));
    call(&mut bench, "sales");
    let noted = bench.respond("carol", "INVITE", 302, "Contact: <sip:bob@example.com>\r\n");
    assert_eq!(noted, ["carol ACK", "dave INVITE"]);
    bench.answer("dave", 200);
    bench.rest();
}

#[test]
fn an_unreachable_forward_leads_on_to_that_of_its_target() {
    let mut bench = house(config());
    set(&bench, "bob", with(|it| it.always = to("erin")));
    assert_eq!(bench.call("INVITE"), ["alice 404"], "no user erin");
    set(&bench, "bob", with(|it| it.always = to("carol")));
    set(&bench, "carol", with(|it| it.always = to("bob")));
    assert_eq!(bench.call("INVITE"), ["alice 482"]);
    assert_eq!(bench.counter("forward-loops"), 1);
    set(&bench, "carol", with(|it| it.busy = to("dave")));
    assert_eq!(bench.call("INVITE"), ["alice 100", "alice 181", "carol INVITE"]);
    // The caller hears once that the call is forwarded.
    assert_eq!(bench.answer("carol", 486), ["carol ACK", "dave INVITE"]);
    assert_eq!(
        values(&bench.last("dave", "INVITE"), HeaderName::Diversion),
        [
            "<sip:carol@example.com>;reason=user-busy;counter=1",
            "<sip:bob@example.com>;reason=unconditional;counter=1"
        ]
    );
    assert_eq!(bench.answer("dave", 486), ["dave ACK", "alice 486"]);
    bench.rest();
}

#[test]
fn the_caller_that_disconnects_ends_the_call() {
    use crate::bench::tcp;
    let mut bench = house(config());
    bench.end("alice", tcp(ALICE, 7));
    set(&bench, "bob", with(|it| it.busy = to("carol")));
    bench.call("INVITE");
    bench.answer("bob", 180);
    bench.answer("bob2", 486);
    assert_eq!(bench.disconnect("alice"), ["bob CANCEL"]);
    assert_eq!(bench.answer("bob", 486)[..1], ["bob ACK"]);
    assert!(bench.sent.iter().all(|sent| sent.to != "carol"), "{UDP}");
    bench.rest();
}
