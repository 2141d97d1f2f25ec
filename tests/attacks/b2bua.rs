//! Attacks on calls through the B2BUA: on their dialogs, on the header fields that pass from one
//! leg to the other, and on what its calls hold.

use crate::client::{Client, Login, status};
use peers::call::{End, establish, establish_described};
use peers::process::wait_until;
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::{PASSWORD, TestServer};
use sip::HeaderName;
use sip::dialog::Dialog;
use sip::digest::DigestInput;
use std::net::Ipv4Addr;
use test_support::agent::{Agent, Received, SESSION, credentials};
use test_support::ports::free_ports;

/// A host that belongs to no call.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 8);

/// A server whose calls all go through the B2BUA, with further lines of the section `calls`.
pub(crate) fn server(more: &str) -> TestServer {
    let calls = format!("[calls]\nmode = \"b2bua\"\n{more}");
    TestServer::with(&format!("{TRUSTS_NOBODY}{calls}"), &[])
}

/// A call of alice and bob.
pub(crate) fn call(exchange: &TestServer) -> [End; 2] {
    establish(exchange.agent("alice"), exchange.agent("bob")).into()
}

/// Both ends can still use their call, then end it. Nothing is left of it.
pub(crate) fn is_unharmed([alice, bob]: &mut [End; 2]) {
    alice.pass(bob, "INFO", "");
    bob.pass(alice, "INFO", "");
    alice.pass(bob, "BYE", "");
}

/// Returns the first value of `message`, asked for until a second is over.
pub(crate) fn soon<T>(mut message: impl FnMut() -> Option<T>) -> Option<T> {
    (0..10).find_map(|_| message())
}

/// Sends an INVITE to bob, with credentials once the server wants them. Returns the status of its
/// refusal before that, or `None`.
fn invite(agent: &mut Agent, dialog: &mut Dialog, fields: &str) -> Option<u16> {
    agent.send(dialog, "INVITE", fields, SESSION);
    let Some(challenged) = soon(|| agent.final_response_if_any("INVITE")) else { return Some(0) };
    if challenged.status() != Some(407) {
        return challenged.status();
    }
    let uri = dialog.request_uri().to_vec();
    let request = DigestInput { method: b"INVITE", uri: &uri, body: SESSION.as_bytes() };
    let user = agent.user.clone();
    let credentials = credentials(&challenged.message(), &user, PASSWORD, &request, b"cnonce", 1);
    agent.send(dialog, "INVITE", &format!("{credentials}{fields}"), SESSION);
    None
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The Call-ID, the own tag and the tag of the other end.
fn identifiers(end: &End) -> [String; 3] {
    let id = end.dialog.id();
    [id.call_id, id.local_tag, id.remote_tag].map(text)
}

/// The value of Replaces that names a dialog by the tags `to` and `from`.
fn replaces(call_id: &str, to: &str, from: &str) -> String {
    format!("{call_id};to-tag={to};from-tag={from}")
}

/// All dialogs but that of the last value are guessed: a part of what names the call is wrong. Only
/// bob, who is in the call, could know the last one.
#[test]
fn a_call_is_replaced_only_by_a_party_that_knows_all_of_its_dialog() {
    let exchange = server("");
    let mut ends = call(&exchange);
    let [here, there] = ends.each_ref().map(identifiers);
    let own = replaces(&here[0], &here[1], &here[2]);
    let mut carol = exchange.agent("carol");
    let values = [
        replaces(&there[0], &there[2], "guess"),
        replaces(&there[0], "guess", &there[1]),
        replaces(&there[0], &there[1], &there[2]),
        replaces("guess", &there[2], &there[1]),
        replaces(&here[0], &there[2], &there[1]),
        replaces(&there[0], &there[2], &here[1]),
        replaces(&there[0], &there[2], ""),
        replaces(&there[0], &there[2], &there[1]),
    ];
    for (number, value) in values.iter().enumerate() {
        let is_known = number + 1 == values.len();
        let mut dialog = carol.dialog(&format!("sip:alice@{DOMAIN}"));
        let fields = format!("Replaces: {value}\r\nRequire: replaces\r\n");
        carol.ask(&mut dialog, "INVITE", &fields, SESSION);
        let alice = &mut ends[0].agent;
        let refused = wait_until("the final response", || {
            if let Some(invite) = alice.request_if_any("INVITE") {
                let replaced = invite.message().value(HeaderName::Replaces).map(text);
                assert_eq!(replaced == Some(own.clone()), is_known, "{value} becomes {replaced:?}");
                let dialog = alice.dialog_with(&invite);
                alice.answer(&invite, &dialog, 481, "", "");
            }
            carol.final_response_if_any("INVITE")
        });
        assert!(refused.status() >= Some(400), "{value}: {refused}");
    }
    is_unharmed(&mut ends);
}

/// A description of encrypted media.
const SECURE: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
                      m=audio 40000 RTP/SAVP 0\r\na=rtpmap:0 PCMU/8000\r\na=crypto:1 \
                      AES_CM_128_HMAC_SHA1_80 inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj\r\n";

/// `caller` calls `callee`, a phone that takes encrypted media only, so that the call is joined.
/// Returns the dialogs of both.
fn join(caller: &mut Agent, callee: &mut Agent) -> [Dialog; 2] {
    let mut calling = caller.dialog(&callee.address_of_record());
    caller.ask(&mut calling, "INVITE", "", SESSION);
    let direct = callee.request("INVITE");
    let refused = callee.dialog_with(&direct);
    callee.answer(&direct, &refused, 488, "", "");
    callee.request("ACK");
    let invite = callee.request("INVITE");
    assert!(invite.body().contains("RTP/SAVP"), "{invite}");
    let called = callee.dialog_with(&invite);
    callee.answer(&invite, &called, 200, "", SECURE);
    let answered = caller.response("INVITE", 200);
    caller.acknowledge(&answered.dialog(), &answered);
    callee.request("ACK");
    [answered.dialog(), called]
}

/// Bob's call with alice passes the proxy alone, that with carol is joined. He transfers alice to
/// carol. Other values of Replaces than the one that bob tells do not reach carol's call.
#[test]
fn a_joined_call_is_replaced_from_a_proxied_one_by_its_full_name_only() {
    let first = free_ports(40);
    let media = format!("[media]\nrelay = \"all\"\nports = \"{first}-{}\"\n", first + 39);
    let mode = "[calls]\nmode = \"needed\"\n";
    let exchange = TestServer::with(&format!("{TRUSTS_NOBODY}{mode}{media}"), &[]);
    let (mut alice, mut bob) = establish(exchange.agent("alice"), exchange.agent("bob"));
    assert_eq!(exchange.server.counter("b2bua-calls"), 0);
    let mut carol = exchange.agent("carol");
    let [here, mut there] = join(&mut bob.agent, &mut carol);
    assert_eq!(exchange.server.counter("b2bua-calls"), 1);
    let contact = text(here.remote_target());
    let [here, own] = [&here, &there].map(|dialog| {
        let id = dialog.id();
        [id.call_id, id.local_tag, id.remote_tag].map(text)
    });
    let told = replaces(&here[0], &here[2], &here[1]);
    let escaped = told.replace('@', "%40").replace(';', "%3B").replace('=', "%3D");
    let refer_to = format!("<{contact}?Replaces={escaped}>");
    bob.agent.send(&mut bob.dialog, "REFER", &format!("Refer-To: {refer_to}\r\n"), "");
    let refer = alice.agent.request("REFER");
    assert_eq!(refer.value(HeaderName::ReferTo), refer_to, "the proxy changes nothing");
    alice.agent.answer(&refer, &alice.dialog, 202, "", "");
    bob.agent.response("REFER", 202);
    let user = format!("sip:carol@{DOMAIN}");
    for value in [
        replaces(&here[0], &here[2], "guess"),
        replaces(&here[0], "guess", &here[1]),
        replaces(&here[0], &here[1], &here[2]),
        replaces("guess", &here[2], &here[1]),
        replaces(&here[0], &here[2], &own[1]),
    ] {
        for uri in [&contact, &user] {
            let mut dialog = alice.agent.dialog(uri);
            let fields = format!("Replaces: {value}\r\nRequire: replaces\r\n");
            alice.agent.ask(&mut dialog, "INVITE", &fields, SESSION);
            let refused = wait_until("the final response", || {
                if let Some(invite) = carol.request_if_any("INVITE") {
                    let replaced = invite.message().value(HeaderName::Replaces).map(text);
                    assert_eq!(replaced.as_ref(), Some(&value), "no value is translated");
                    let dialog = carol.dialog_with(&invite);
                    carol.answer(&invite, &dialog, 481, "", "");
                }
                alice.agent.final_response_if_any("INVITE")
            });
            assert!(refused.status() >= Some(400), "{uri} {value}: {refused}");
        }
    }
    // The full name is no credential.
    let fields = format!("Replaces: {told}\r\nRequire: replaces\r\n");
    let mut stranger = Agent::stranger("bob", DOMAIN, exchange.server.address());
    let mut dialog = stranger.dialog(&contact);
    stranger.send(&mut dialog, "INVITE", &fields, SESSION);
    stranger.response("INVITE", 407);

    let mut dialog = alice.agent.dialog(&contact);
    alice.agent.ask(&mut dialog, "INVITE", &fields, SESSION);
    let invite = carol.request("INVITE");
    let expected = replaces(&own[0], &own[1], &own[2]);
    assert_eq!(invite.message().value(HeaderName::Replaces).map(text), Some(expected));
    let mut called = carol.dialog_with(&invite);
    carol.answer(&invite, &called, 200, "", SESSION);
    let answered = alice.agent.response("INVITE", 200);
    alice.agent.acknowledge(&answered.dialog(), &answered);
    carol.request("ACK");
    carol.send(&mut there, "BYE", "", "");
    carol.response("BYE", 200);
    let bye = bob.agent.request("BYE");
    let ended = bye.message().value(HeaderName::CallId).map(text);
    assert_eq!(ended.as_ref(), Some(&here[0]), "the consultation ends");
    bob.agent.answer(&bye, &bob.dialog, 200, "", "");
    carol.send(&mut called, "BYE", "", "");
    carol.response("BYE", 200);
    alice.agent.request("BYE");
}

/// Carol is in a call with bob, and asks him to replace a party of his call with alice.
#[test]
fn a_refer_names_no_foreign_call_by_a_guess() {
    let exchange = server("");
    let mut ends = call(&exchange);
    let [here, there] = ends.each_ref().map(identifiers);
    // Carol reaches bob's second phone by its contact.
    let (carol, second) = (exchange.agent("carol"), exchange.agent("bob"));
    let uri = second.contact();
    let (mut carol, mut second, _) = establish_described(carol, second, &uri, [SESSION; 2]);
    for value in [
        replaces(&there[0], &there[2], "guess"),
        replaces(&there[0], "guess", &there[1]),
        replaces(&there[0], &there[1], &there[2]),
    ] {
        let escaped = value.replace('@', "%40").replace(';', "%3B").replace('=', "%3D");
        let fields = format!("Refer-To: <sip:alice@{DOMAIN}?Replaces={escaped}>\r\n");
        carol.agent.send(&mut carol.dialog, "REFER", &fields, "");
        let refer = second.agent.request("REFER");
        let target = refer.value(HeaderName::ReferTo);
        assert!(!target.contains(&here[1]) && !target.contains(&here[2]), "{target}");
        assert!(target.contains(&escaped), "{target}");
        second.agent.answer(&refer, &second.dialog, 603, "", "");
        assert_eq!(carol.agent.final_response("REFER").status(), Some(603));
    }
    carol.pass(&mut second, "BYE", "");
    is_unharmed(&mut ends);
}

/// A stranger and a user know the dialog of one end, but no token of it. The token of another
/// dialog does not help.
#[test]
fn forged_requests_reach_no_end_of_a_joined_call() {
    let exchange = server("");
    let mut ends = call(&exchange);
    let mut carol = exchange.agent("carol");
    let mut own = carol.dialog(&format!("sip:alice@{DOMAIN}"));
    carol.ask(&mut own, "INVITE", "", SESSION);
    let invite = ends[0].agent.request("INVITE");
    let dialog = ends[0].agent.dialog_with(&invite);
    ends[0].agent.answer(&invite, &dialog, 200, "", SESSION);
    let answered = carol.response("INVITE", 200);
    let mut own = answered.dialog();
    carol.acknowledge(&own, &answered);
    let token: Vec<Vec<u8>> = own.route_set().to_vec();

    let at = |user: &str| Agent::stranger(user, DOMAIN, exchange.server.address());
    let mut forgers = [at("mallory"), at("alice")];
    for side in 0..2 {
        for routes in [Vec::new(), token.clone()] {
            for method in ["BYE", "INFO", "INVITE", "UPDATE", "REFER"] {
                for forger in &mut forgers {
                    let mut forged = ends[side].dialog.clone();
                    forged.set_routes(&routes);
                    for _ in 0..50 {
                        forged.next_cseq();
                    }
                    let fields = "Refer-To: <sip:mallory@192.0.2.1>\r\nEvent: refer\r\n\
                                  Subscription-State: active\r\n";
                    let body = if method == "INVITE" { SESSION } else { "" };
                    forger.send(&mut forged, method, fields, body);
                    let answer = forger.final_response(method);
                    assert!(answer.status() >= Some(400), "{method}: {answer}");
                    let other = &mut ends[1 - side].agent;
                    let reached = other.request_if_any(method);
                    assert!(reached.is_none(), "{method} reaches the other end: {reached:?}");
                }
            }
        }
    }
    carol.send(&mut own, "BYE", "", "");
    carol.response("BYE", 200);
    is_unharmed(&mut ends);
}

/// The lines of a message as a receiver reads them that takes each CR and LF for the end of a line,
/// without those that continue the line before.
fn lines(message: &Received) -> Vec<String> {
    let shown = message.to_string();
    let lines = shown.split(['\r', '\n']);
    lines.map(str::to_owned).filter(|line| !line.starts_with([' ', '\t'])).collect()
}

/// A header field with a line end in its value would add one on the other leg.
#[test]
fn no_header_field_is_injected_into_the_other_leg() {
    let exchange = server("");
    let (mut alice, mut bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let long = "x".repeat(30_000);
    let names: String = (0..400).map(|number| format!("X-{number}: 1\r\n")).collect();
    let hostile = [
        "Subject: a\r\n Evil: 1\r\n".to_owned(),
        "Subject: a\r\n\tEvil: 1\r\n \r\n Evil: 2\r\n".to_owned(),
        "Subject: a\rEvil: 1\r\n".to_owned(),
        "Subject: a\nEvil: 1\r\n".to_owned(),
        "Subject: a\r\r\nEvil : 1\r\n".to_owned(),
        "Reason: SIP;text=\"a\rEvil: 1\"\r\n".to_owned(),
        "Alert-Info: <http://h/%0d%0aEvil:%201>\r\n".to_owned(),
        "Referred-By: \"a\r\n Evil: 1\" <sip:a@b>\r\n".to_owned(),
        "Replaces: a;to-tag=1\r\n Evil: 1;from-tag=2\r\n".to_owned(),
        "Replaces: a\rEvil: 1;to-tag=1;from-tag=2\r\n".to_owned(),
        format!("{long}: 1\r\n"),
        format!("X: {long}\r\n"),
        names,
    ];
    let displays =
        ["\"a\r\n Evil: 1\"", "\"a\rEvil: 1\"", "\"a\nEvil: 1\"", "\"a\\\r\\\nEvil: 1\""];
    let cases = hostile.iter().map(|fields| ("", fields.as_str()));
    let cases = cases.chain(displays.into_iter().map(|display| (display, "")));
    let mut passed = 0;
    for (display, fields) in cases {
        let uri = format!("sip:bob@{DOMAIN}");
        let plain = alice.dialog(&uri);
        let [call_id, tag] = [plain.id().call_id, plain.id().local_tag].map(text);
        let local = format!("{display} <{}>", alice.address_of_record());
        let mut dialog = Dialog::new(&call_id, &local, &tag, ("<", &uri, ">"), &uri);
        if invite(&mut alice, &mut dialog, fields).is_some() {
            continue;
        }
        wait_until("the final response", || {
            if let Some(invite) = bob.request_if_any("INVITE") {
                passed += 1;
                let lines = lines(&invite);
                let injected = lines.iter().find(|line| line.trim_start().starts_with("Evil"));
                assert_eq!(injected, None, "of {display:?} {fields:?}");
                assert_eq!(lines.iter().filter(|line| line.starts_with("Call-ID:")).count(), 1);
                let dialog = bob.dialog_with(&invite);
                bob.answer(&invite, &dialog, 486, "", "");
            }
            alice.final_response_if_any("INVITE")
        });
    }
    assert!(passed >= 4, "{passed} INVITEs reach bob");
    let mut ends: [End; 2] = establish(alice, bob).into();
    // In requests within the call, whose body type and target are written anew.
    for fields in [
        "Refer-To: <sip:carol@192.0.2.7?Replaces=a%0d%0aEvil:%201%3Bto-tag%3D1%3Bfrom-tag%3D2>\r\n",
        "Refer-To: \"a\r\n Evil: 1\" <sip:carol@192.0.2.7>\r\nEvent: refer\r\n Evil: 1\r\n",
    ] {
        let [alice, bob] = &mut ends;
        alice.agent.send(&mut alice.dialog, "REFER", fields, "");
        let refer = bob.agent.request("REFER");
        assert!(!lines(&refer).iter().any(|line| line.starts_with("Evil")), "{refer}");
        bob.agent.answer(&refer, &bob.dialog, 603, "Warning: 399 h \"a\r\n Evil: 1\"\r\n", "");
        let refusal = alice.agent.final_response("REFER");
        assert!(!lines(&refusal).iter().any(|line| line.starts_with("Evil")), "{refusal}");
    }
    is_unharmed(&mut ends);
}

/// Contacts that point back to the server, to the user itself or to each other.
#[test]
fn a_call_that_is_forwarded_to_itself_ends() {
    let exchange = server("");
    let here = exchange.server.address();
    for [alice, bob] in [
        [format!("alice@{DOMAIN}"), format!("bob@{DOMAIN}")],
        [format!("bob@{DOMAIN}"), format!("alice@{DOMAIN}")],
        [format!("bob@{here}"), format!("alice@{here}")],
        [format!("x@{here}"), format!("bob@{here};maddr=127.0.0.1")],
    ] {
        let mut carol = exchange.agent("carol");
        for (user, contact) in [("alice", &alice), ("bob", &bob)] {
            let mut client = Client::udp((STRANGER, 0).into(), here);
            let fields = format!("Contact: <sip:{contact}>\r\n");
            let answer =
                client.log_in("REGISTER", &format!("sip:{DOMAIN}"), user, PASSWORD, &fields);
            let answer = answer.expect("a response");
            assert!(status(&answer).is_some(), "{answer}");
        }
        let before = exchange.server.counter("b2bua-calls");
        let mut dialog = carol.dialog(&format!("sip:alice@{DOMAIN}"));
        carol.ask(&mut dialog, "INVITE", "", SESSION);
        let refusal = carol.final_response("INVITE");
        assert!(refusal.status() >= Some(400), "{refusal}");
        let calls = exchange.server.counter("b2bua-calls") - before;
        assert!(calls <= 1, "{calls} calls of {alice} and {bob}");
        for user in ["alice", "bob"] {
            let mut client = Client::udp((STRANGER, 0).into(), here);
            let fields = "Contact: *\r\nExpires: 0\r\n";
            let uri = format!("sip:{DOMAIN}");
            client.log_in("REGISTER", &uri, user, PASSWORD, fields).expect("a response");
        }
    }
}

/// Bob's phone sends each call back to his own number. The hops of a call are counted over both
/// legs, so that the circle ends.
#[test]
fn a_phone_that_calls_back_for_each_call_makes_a_finite_circle() {
    let exchange = server("max_calls_per_source = 100\n");
    let (mut alice, mut bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let uri = format!("sip:bob@{DOMAIN}");
    let mut dialog = alice.dialog(&uri);
    alice.ask(&mut dialog, "INVITE", "", SESSION);
    let hops = |invite: &Received| -> u32 {
        invite.value(HeaderName::MaxForwards).parse().expect("a number")
    };
    let (mut left, mut rounds) = (70, 0);
    while let Some(request) = soon(|| bob.request_if_any("INVITE")) {
        assert!(hops(&request) < left, "{} of {left} hops are left", hops(&request));
        left = hops(&request);
        rounds += 1;
        let mut again = bob.dialog(&uri);
        again.set_max_forwards(left - 1);
        if invite(&mut bob, &mut again, "") == Some(483) {
            break;
        }
    }
    assert!((2..=35).contains(&rounds), "{rounds} rounds");
    assert!(exchange.server.counter("b2bua-calls") <= 36);
}

/// Calls that ring for ever at one source are bounded, and leave room for another source. They are
/// forgotten when they are cancelled.
#[test]
fn calls_that_are_never_answered_leave_room_for_another_source() {
    const SHARE: usize = 3;
    let exchange = server(&format!("max_calls_per_source = {SHARE}\n"));
    let mut bob = exchange.agent("bob");
    let mut attacker = Client::udp((STRANGER, 0).into(), exchange.server.address());
    let (uri, from) = (format!("sip:bob@{DOMAIN}"), format!("sip:alice@{DOMAIN}"));
    let first = attacker.request("INVITE", &uri, &from, "");
    let challenged = attacker.ask(&first).expect("a challenge");
    let mut login = Login::new(&challenged, "alice", PASSWORD);
    let mut ringing = Vec::new();
    let mut invites = Vec::new();
    for number in 0..2 * SHARE {
        let line = login.line("INVITE", &uri);
        let invite = attacker.request("INVITE", &uri, &from, &line);
        if number < SHARE {
            attacker.send(&invite).expect("the request is sent");
            let request = bob.request("INVITE");
            let dialog = bob.dialog_with(&request);
            bob.answer(&request, &dialog, 180, "", "");
            ringing.push((request, dialog));
            invites.push(invite);
        } else {
            let refusal = attacker.ask(&invite).expect("a response");
            assert_eq!(status(&refusal), Some(480), "call {number}: {refusal}");
        }
    }
    assert_eq!(exchange.server.counter("b2bua-share"), SHARE as u64);
    let mut ends: [End; 2] = establish(exchange.agent("carol"), bob).into();
    is_unharmed(&mut ends);
    for (invite, (request, dialog)) in invites.iter().zip(ringing) {
        let message = sip::Message::parse(invite.as_bytes()).expect("an INVITE");
        let mut cancel = Vec::new();
        message.write_cancel(b"", &mut cancel);
        attacker.send(&text(&cancel)).expect("the request is sent");
        let bob = &mut ends[1].agent;
        let cancel = bob.request("CANCEL");
        bob.answer(&cancel, &dialog, 200, "", "");
        bob.answer(&request, &dialog, 487, "", "");
    }
    let line = login.line("INVITE", &uri);
    let again = attacker.request("INVITE", &uri, &from, &line);
    attacker.send(&again).expect("the request is sent");
    let bob = &mut ends[1].agent;
    let invite = bob.request("INVITE");
    let dialog = bob.dialog_with(&invite);
    bob.answer(&invite, &dialog, 486, "", "");
    let refusal = attacker.response(&again).expect("a response");
    assert_eq!(status(&refusal), Some(486), "{refusal}");
}

/// The names that phones send are in the records of calls as text of one line, and cannot add a
/// record, or another value.
#[test]
fn names_of_a_call_forge_no_record() {
    let first = free_ports(40);
    let media = format!("[media]\nrelay = \"all\"\nports = \"{first}-{}\"\n", first + 39);
    let exchange = server(&media);
    let mut ends = call(&exchange);
    let [alice, bob] = &mut ends;
    let evil = "Reason: SIP;text=\"\\\"}\\n{\\\"call_id\\\":\\\"forged\\\"} \u{1b}[2J\"\r\n";
    alice.pass(bob, "BYE", evil);
    let path = exchange.server.data().join("calls.jsonl");
    let records = wait_until("the record of the call", || {
        let text = std::fs::read_to_string(&path).ok()?;
        text.ends_with('\n').then_some(text)
    });
    assert_eq!(records.lines().count(), 1, "{records}");
    assert_eq!(records.matches("\"call_id\":").count(), 1, "{records}");
    assert!(!records.contains('\u{1b}'), "{records}");
    let caller = format!("\"caller\":\"sip:alice@{DOMAIN}\"");
    assert!(records.contains(&caller) && records.contains("\"through\":\"b2bua\""), "{records}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o077, 0, "other users of the machine read the records");
    }
}
