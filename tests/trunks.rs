//! Calls of an office through a provider, which is a second server, and from it. Another trunk of
//! the office is silent.

use peers::office::{ACCOUNT, ALICE, HOST, Office, PROVIDER, SESSION, SUBSCRIBER};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use test_support::agent::Agent;

#[test]
fn a_call_goes_out_after_a_silent_trunk_and_is_recorded() {
    let office = Office::start();
    let (mut alice, mut subscriber) = (office.user(ALICE), office.subscriber());
    let uri = office.office.uri(&format!("+{SUBSCRIBER}"));
    let mut here = alice.dialog(&uri);
    alice.ask(&mut here, "INVITE", "", SESSION);
    let invite = subscriber.request("INVITE");
    let from = invite.value(sip::HeaderName::From);
    assert!(from.starts_with(&format!("<sip:{ACCOUNT}@{PROVIDER}>;tag=")), "{from}");
    assert!(!invite.to_string().contains(ALICE), "{invite}");
    let there = subscriber.dialog_with(&invite);
    subscriber.answer(&invite, &there, 200, "", SESSION);
    let answer = alice.final_response("INVITE");
    assert_eq!(answer.status(), Some(200), "{answer}");
    let mut here = answer.dialog();
    alice.acknowledge(&here, &answer);
    subscriber.request("ACK");
    alice.send(&mut here, "BYE", "", "");
    let bye = subscriber.request("BYE");
    subscriber.answer(&bye, &there, 200, "", "");
    assert_eq!(alice.final_response("BYE").status(), Some(200));
    let said = format!("trunk silent: a call to {SUBSCRIBER} failed: no response; trunk uplink is");
    office.office.wait_for_line(&said);
    assert_eq!(office.office.counter("trunk-call-failures"), 1);
    let records = office.office.data().join("calls.jsonl");
    let records = peers::process::wait_until("the record of the call", || {
        let text = std::fs::read_to_string(&records).ok()?;
        text.contains("\"trunk\":\"uplink\"").then_some(text)
    });
    assert!(records.contains("\"trunk\":\"silent\""), "{records}");
    assert!(records.contains(&format!("\"caller\":\"sip:{ALICE}@")), "{records}");
}

#[test]
fn a_busy_callee_is_not_called_again_and_rights_end_at_the_plan() {
    let office = Office::start();
    let (mut alice, mut subscriber) = (office.user(ALICE), office.subscriber());
    let mut here = alice.dialog(&office.office.uri(&format!("+{SUBSCRIBER}")));
    alice.ask(&mut here, "INVITE", "", SESSION);
    let invite = subscriber.request("INVITE");
    let there = subscriber.dialog_with(&invite);
    subscriber.answer(&invite, &there, 486, "", "");
    subscriber.request("ACK");
    assert_eq!(alice.final_response("INVITE").status(), Some(486));
    assert!(subscriber.request_if_any("INVITE").is_none());
    // A premium number.
    let mut here = alice.dialog(&office.office.uri("+49900123456"));
    alice.ask(&mut here, "INVITE", "", SESSION);
    assert_eq!(alice.final_response("INVITE").status(), Some(403));
    let line = office.office.wait_for_line("is refused: ");
    assert!(line.contains("Germany") && line.contains("premium"), "{line}");
    // The address of the provider, which would take the call for one of the office.
    let direct = format!("sip:{SUBSCRIBER}@{HOST}:{}", office.port);
    let mut here = alice.dialog(&direct);
    alice.ask(&mut here, "INVITE", "", SESSION);
    assert_eq!(alice.final_response("INVITE").status(), Some(480));
    // A stranger, also with the name of a user.
    for domain in ["elsewhere.test", peers::server::DOMAIN] {
        let mut stranger = Agent::stranger(ALICE, domain, office.office.address());
        let mut there = stranger.dialog(&office.office.uri(&format!("+{SUBSCRIBER}")));
        let asserted = format!("P-Asserted-Identity: <sip:{ALICE}@{}>\r\n", peers::server::DOMAIN);
        stranger.send(&mut there, "INVITE", &asserted, SESSION);
        let status = stranger.final_response("INVITE").status();
        assert!(matches!(status, Some(403 | 407)), "{domain}: {status:?}");
    }
    assert!(subscriber.request_if_any("INVITE").is_none());
}

#[test]
fn a_call_comes_in_from_the_trunk_to_the_numbers_of_the_office_alone() {
    let office = Office::start();
    let (mut alice, mut subscriber) = (office.user(ALICE), office.subscriber());
    let uri = office.office.uri(&format!("+{ACCOUNT}"));
    let mut there = subscriber.dialog(&uri);
    subscriber.ask(&mut there, "INVITE", "", SESSION);
    let invite = alice.request("INVITE");
    let here = alice.dialog_with(&invite);
    alice.answer(&invite, &here, 200, "", SESSION);
    let answer = subscriber.final_response("INVITE");
    assert_eq!(answer.status(), Some(200), "{answer}");
    let mut there = answer.dialog();
    subscriber.acknowledge(&there, &answer);
    alice.request("ACK");
    subscriber.send(&mut there, "BYE", "", "");
    let bye = alice.request("BYE");
    alice.answer(&bye, &here, 200, "", "");
    assert_eq!(subscriber.final_response("BYE").status(), Some(200));
    // Another number of the office, and a user by name.
    for name in ["+4930999", "bob"] {
        let mut there = subscriber.dialog(&office.office.uri(name));
        subscriber.ask(&mut there, "INVITE", "", SESSION);
        assert_eq!(subscriber.final_response("INVITE").status(), Some(404), "{name}");
    }
    let mut stranger = Agent::stranger(SUBSCRIBER, PROVIDER, office.office.address());
    let mut there = stranger.dialog(&uri);
    stranger.send(&mut there, "INVITE", "", SESSION);
    // It reaches the user as any stranger does, and not as a call of the trunk.
    let invite = alice.request("INVITE");
    let here = alice.dialog_with(&invite);
    alice.answer(&invite, &here, 486, "", "");
    alice.request("ACK");
    assert_eq!(stranger.final_response("INVITE").status(), Some(486));
    drop(office.provider);
}

/// The calls and minutes of a trunk.
fn used(office: &Office, account: &str) -> Option<(Option<u64>, Option<u64>)> {
    let rows = office.office.rows(&["limits", "--json"]);
    let row = rows.into_iter().find(|row| row["account"] == account)?;
    Some((row["calls"].as_u64(), row["minutes"].as_u64()))
}

#[test]
fn a_call_of_a_trunk_that_is_picked_up_counts_for_the_trunk() {
    let services = "[media_server]\nenabled = true\n\
                    [office]\nwatch = \"calls\"\npickup = \"**\"\n";
    let office = Office::with("", "", services);
    let (mut alice, mut bob) = (office.user(ALICE), office.user("bob"));
    let mut subscriber = office.subscriber();
    let mut there = subscriber.dialog(&office.office.uri(&format!("+{ACCOUNT}")));
    // The provider would take an INVITE past the trunk.
    subscriber.ask(&mut there, "INVITE", "Supported: replaces\r\n", SESSION);
    let invite = alice.request("INVITE");
    let here = alice.dialog_with(&invite);
    alice.answer(&invite, &here, 180, "", "");
    subscriber.response("INVITE", 180);
    let mut picked_up = bob.dialog(&office.office.uri(&format!("**{ALICE}")));
    bob.ask(&mut picked_up, "INVITE", "", SESSION);
    let cancel = alice.request("CANCEL");
    alice.answer(&cancel, &here, 200, "", "");
    alice.answer(&invite, &here, 487, "", "");
    for (agent, is_caller) in [(&mut bob, false), (&mut subscriber, true)] {
        let answer = agent.final_response("INVITE");
        assert_eq!(answer.status(), Some(200), "{answer}");
        let dialog = answer.dialog();
        agent.acknowledge(&dialog, &answer);
        if is_caller {
            there = dialog;
        }
    }
    assert_eq!(used(&office, "trunk uplink"), Some((Some(1), Some(1))));
    subscriber.send(&mut there, "BYE", "", "");
    assert_eq!(subscriber.final_response("BYE").status(), Some(200));
    bob.request("BYE");
    assert_eq!(used(&office, "trunk uplink"), Some((Some(0), Some(1))));
}

/// The value of `name` in the document of a NOTIFY.
fn told<'d>(document: &'d str, name: &str) -> &'d str {
    let (_, rest) = document.split_once(&format!("{name}=\"")).expect("it is told");
    rest.split('"').next().expect("it ends")
}

#[test]
fn the_pickup_key_of_a_phone_takes_over_a_call_of_a_trunk() {
    let services = "[media_server]\nenabled = true\n[office]\nwatch = \"calls\"\n";
    // Phones differ in the place that they send the INVITE to, and in the end that they name.
    for is_to_caller in [true, false] {
        let office = Office::with("", "", services);
        let (mut alice, mut bob) = (office.user(ALICE), office.user("bob"));
        let mut subscriber = office.subscriber();
        let mut lamp = bob.dialog(&office.office.uri(ALICE));
        bob.ask(&mut lamp, "SUBSCRIBE", "Event: dialog\r\nExpires: 600\r\n", "");
        let lamp = bob.response("SUBSCRIBE", 200).dialog();
        let mut there = subscriber.dialog(&office.office.uri(&format!("+{ACCOUNT}")));
        subscriber.ask(&mut there, "INVITE", "Supported: replaces\r\n", SESSION);
        let invite = alice.request("INVITE");
        let here = alice.dialog_with(&invite);
        alice.answer(&invite, &here, 180, "", "");
        let document = loop {
            let notify = bob.request("NOTIFY");
            bob.answer(&notify, &lamp, 200, "", "");
            if notify.body().contains("<state>early</state>") {
                break notify.body();
            }
        };
        let [call_id, local, remote] =
            ["call-id", "local-tag", "remote-tag"].map(|name| told(&document, name));
        let (_, caller) = document.split_once("<remote>").expect("the caller is told");
        let own = office.office.uri(ALICE);
        let (uri, to_tag, from_tag) = match is_to_caller {
            true => (told(caller, "target uri"), remote, local),
            false => (own.as_str(), local, remote),
        };
        let replaces =
            format!("Replaces: {call_id};to-tag={to_tag};from-tag={from_tag};early-only\r\n");
        let mut picked_up = bob.dialog(uri);
        bob.ask(&mut picked_up, "INVITE", &format!("{replaces}Require: replaces\r\n"), SESSION);
        let cancel = alice.request("CANCEL");
        alice.answer(&cancel, &here, 200, "", "");
        alice.answer(&invite, &here, 487, "", "");
        for (agent, is_caller) in [(&mut bob, false), (&mut subscriber, true)] {
            let answer = agent.final_response("INVITE");
            assert_eq!(answer.status(), Some(200), "{answer}");
            let dialog = answer.dialog();
            agent.acknowledge(&dialog, &answer);
            if is_caller {
                there = dialog;
            }
        }
        assert_eq!(used(&office, "trunk uplink"), Some((Some(1), Some(1))));
        subscriber.send(&mut there, "BYE", "", "");
        assert_eq!(subscriber.final_response("BYE").status(), Some(200));
        bob.request("BYE");
        assert_eq!(used(&office, "trunk uplink"), Some((Some(0), Some(1))));
    }
}

/// The hook of an operator: it refuses calls to numbers that end in 99, leads others
/// past the first trunk, and gives no answer to those that end in 77. Returns its URL, and the
/// contents of its requests.
fn hook() -> (String, Receiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a socket can be bound");
    let url = format!("http://{}/route", listener.local_addr().expect("the socket is bound"));
    let (seen, requests) = mpsc::channel();
    thread::spawn(move || {
        let mut silent = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.expect("a connection");
            let mut received = Vec::new();
            let content = loop {
                let mut part = [0; 4096];
                let length = connection.read(&mut part).expect("a request");
                received.extend_from_slice(&part[..length]);
                let text = String::from_utf8_lossy(&received).into_owned();
                if length == 0 {
                    break String::new();
                }
                if let Some((_, content)) = text.split_once("\r\n\r\n")
                    && content.ends_with('}')
                {
                    break content.to_owned();
                }
            };
            let answer = match &content {
                it if it.contains("99\",\"class\"") => {
                    "{\"action\":\"refuse\",\"status\":603,\"reason\":\"no credit\"}"
                }
                it if it.contains("77\",\"class\"") => "",
                it if it.contains("\"out\"") => "{\"action\":\"allow\",\"trunks\":[\"uplink\"]}",
                _ => "{\"action\":\"allow\"}",
            };
            let _ = seen.send(content);
            if answer.is_empty() {
                silent.push(connection);
                continue;
            }
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: ";
            let _ = write!(connection, "{head}{}\r\n\r\n{answer}", answer.len());
        }
    });
    (url, requests)
}

#[test]
fn a_hook_decides_on_calls_to_and_from_trunks_but_not_on_emergency_calls() {
    let (url, requests) = hook();
    let office = Office::with(
        "",
        "",
        &format!("[numbers.hook]\nurl = \"{url}\"\ntimeout = \"1s\"\nfallback = \"refuse\"\n"),
    );
    let (mut alice, mut subscriber) = (office.user(ALICE), office.subscriber());
    let call = |alice: &mut Agent, number: &str| {
        let mut here = alice.dialog(&office.office.uri(number));
        alice.ask(&mut here, "INVITE", "", SESSION);
        alice.final_response("INVITE")
    };
    // It goes past the silent trunk, which is the first one of the plan.
    let mut here = alice.dialog(&office.office.uri(&format!("+{SUBSCRIBER}")));
    alice.ask(&mut here, "INVITE", "", SESSION);
    let invite = subscriber.request("INVITE");
    let there = subscriber.dialog_with(&invite);
    subscriber.answer(&invite, &there, 486, "", "");
    subscriber.request("ACK");
    assert_eq!(alice.final_response("INVITE").status(), Some(486));
    let asked = requests.recv().expect("a request of the hook");
    for part in [
        "\"direction\":\"out\"",
        "\"user\":\"alice@barebell.test\"",
        &format!("\"number\":\"{SUBSCRIBER}\",\"class\":\"national\""),
        "\"trunks\":[\"silent\",\"uplink\"]",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    assert_eq!(office.office.counter("trunk-call-failures"), 0, "486 is final");
    // A refusal, and a silent hook.
    let refused = call(&mut alice, "+4930999");
    assert_eq!(refused.status(), Some(603), "{refused}");
    assert!(refused.to_string().contains("text=\"no credit\""), "{refused}");
    office.office.wait_for_line("it is refused with 603: no credit");
    assert_eq!(call(&mut alice, "+4930777").status(), Some(480));
    office.office.wait_for_line("it is refused without a decision");
    assert_eq!(office.office.counter("calls-undecided"), 1);
    assert_eq!(office.office.counter("hook-refused"), 1);
    assert_eq!(requests.try_iter().count(), 2);
    // An emergency call, which the provider does not know.
    assert_ne!(call(&mut alice, "112").status(), Some(480));
    assert_eq!(requests.try_iter().count(), 0);
    // A call that comes in.
    let mut there = subscriber.dialog(&office.office.uri(&format!("+{ACCOUNT}")));
    subscriber.ask(&mut there, "INVITE", "", SESSION);
    let invite = alice.request("INVITE");
    let here = alice.dialog_with(&invite);
    alice.answer(&invite, &here, 486, "", "");
    alice.request("ACK");
    assert_eq!(subscriber.final_response("INVITE").status(), Some(486));
    let asked = requests.recv().expect("a request of the hook");
    assert!(asked.contains("\"in\"") && asked.contains("\"trunks\":[\"uplink\"]"), "{asked}");
}
