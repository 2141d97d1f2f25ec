//! Traces of calls.

use crate::calls::serve_with;
use crate::media::{Phone, call, hang_up};
use crate::phone::{found, register, request};
use crate::site::{Site, show};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

/// The messages of a traced call.
fn messages(site: &Site, call: &str) -> Vec<Value> {
    let list = site.good(&format!("trace --call {call} --json"));
    list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn starts(messages: &[Value]) -> Vec<String> {
    let text = |it: &Value| it["message"].as_str().unwrap().lines().next().unwrap().to_owned();
    messages.iter().map(text).collect()
}

#[test]
fn the_calls_of_a_marked_user_are_shown_as_a_ladder_and_as_a_file() {
    let site = Site::new();
    assert!(site.bad("trace").contains("no server runs"));
    let (_server, address) = serve_with(&site, 100, "");
    assert!(site.good("trace").starts_with("nothing is marked"));
    let (phones, _, within) = call(&address);
    hang_up(&address, [&phones[0], &phones[1]], within);
    let marked = site.good("trace --user bob --for 10m");
    assert!(marked.starts_with("calls of bob are traced until 20"), "{marked}");
    assert!(site.good("trace").contains("no marked call has been traced yet"));
    let ([caller, callee], _, within) = call(&address);
    hang_up(&address, [&caller, &callee], within);
    let listed = site.good("trace");
    assert!(listed.contains("traced: user bob, until ") && listed.contains("  2000\n"), "{listed}");
    let messages = messages(&site, "2000");
    let starts = starts(&messages);
    assert!(starts[0].starts_with("INVITE sip:bob@example.com"), "{starts:?}");
    assert!(starts.iter().any(|start| start == "SIP/2.0 200 OK"), "{starts:?}");
    assert_eq!(messages[0]["to"], address);
    let ladder = site.good("trace --call 2000");
    let from = caller.sip.local_addr().unwrap();
    let heading = ladder.lines().next().unwrap();
    assert!(heading.starts_with("20") && heading.ends_with("Z 2000"), "{ladder}");
    let first = ladder.lines().nth(1).unwrap();
    assert!(first.trim_start().starts_with(&format!("udp:{from} ")), "{ladder}");
    assert!(ladder.contains("INVITE + ----") && ladder.contains("200 OK (INVITE) +"), "{ladder}");
    let path = site.data().join("../call.pcapng");
    site.good(&format!("trace --call 2000 --pcapng {}", show(&path)));
    let file = std::fs::read(&path).unwrap();
    assert_eq!(file[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(site.good("trace --end").starts_with("ended all traces, of 1 calls"));
    assert!(site.good("trace").starts_with("nothing is marked"));
    let marked = site.good("trace --call 2000");
    assert!(marked.contains("no message of call 2000 has been traced yet"), "{marked}");
}

#[test]
fn messages_of_the_last_minutes_are_shown_without_a_mark() {
    let site = Site::new();
    let (_server, address) = serve_with(&site, 100, "");
    let nothing = site.good("trace alice");
    assert!(nothing.starts_with("no message of alice is among those"), "{nothing}");
    let ([caller, callee], _, within) = call(&address);
    hang_up(&address, [&caller, &callee], within);
    let ladder = site.good("trace 2000");
    for part in ["Z 2000\n", "INVITE + ----", "200 OK (INVITE) +", "BYE", "  w"] {
        assert!(ladder.contains(part), "{part}: {ladder}");
    }
    let from = caller.sip.local_addr().unwrap();
    let of = |target: &str| -> Vec<Value> {
        let list = site.good(&format!("trace {target} --json"));
        list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let of_call = starts(&of("2000"));
    assert!(of_call[0].starts_with("INVITE sip:bob@example.com"), "{of_call:?}");
    assert!(starts(&of(&from.to_string())).starts_with(&of_call), "{of_call:?}");
    let of_user = starts(&of("bob@example.com"));
    assert!(of_user.iter().any(|start| start.starts_with("REGISTER ")), "{of_user:?}");
    assert!(of_user.len() > of_call.len());
    assert_eq!(of("2000 --last 5").len(), of_call.len());
    assert!(of("2000 --last 0s").is_empty());
    let path = site.data().join("../call.pcapng");
    let written = site.good(&format!("trace 2000 --pcapng {}", show(&path)));
    assert!(written.starts_with(&format!("{} messages are in ", of_call.len())), "{written}");
}

#[test]
fn without_memory_no_message_is_kept() {
    let site = Site::new();
    let (_server, address) = serve_with(&site, 100, "[trace]\nmemory = 0");
    call(&address);
    assert!(site.good("trace 2000").starts_with("no message of 2000 is among"));
}

#[test]
fn both_legs_of_a_call_through_the_b2bua_are_found_without_a_mark() {
    let site = Site::new();
    let (_server, address) = serve_with(&site, 100, "[calls]\nmode = \"b2bua\"");
    let [caller, callee] = [Phone::new(), Phone::new()];
    let contact = format!("sip:bob@{}", callee.sip.local_addr().unwrap());
    register(&callee.sip, &address, &contact);
    let from = caller.sip.local_addr().unwrap();
    let more = format!("Contact: <sip:alice@{from}>\r\nContent-Length: 0\r\n");
    let invite = request("INVITE", "sip:bob@example.com", "UDP", from, 2000, &more);
    caller.sip.send_to(invite.as_bytes(), &address).unwrap();
    let second = callee.receive();
    let other = found(&second, "Call-ID: ")[0].clone();
    callee.respond(&address, &second, "486 Busy Here", "Content-Length: 0\r\n");
    assert!(caller.receive().starts_with("SIP/2.0 486 "));
    let ladder = site.good("trace 2000");
    assert!(ladder.lines().next().unwrap().ends_with(&format!("Z 2000, {other}")), "{ladder}");
    for part in [" a |", " b |", "486 Busy Here"] {
        assert!(ladder.contains(part), "{part}: {ladder}");
    }
    let same = site.good(&format!("trace {other} --json"));
    assert_eq!(same.lines().count(), site.good("trace 2000 --json").lines().count());
    let why = site.good("why 2000");
    assert!(why.contains(": 486 Busy Here"), "{why}");
    let why = site.good(&format!("why {other}"));
    let answer = format!("this is the response of udp:{}", callee.sip.local_addr().unwrap());
    assert!(why.contains(&answer), "{why}");
}

#[test]
fn both_legs_of_a_call_through_the_b2bua_are_in_one_trace_and_its_record_says_so() {
    let site = Site::new();
    let (_server, address) = serve_with(&site, 100, "[calls]\nmode = \"b2bua\"");
    let [caller, callee] = [Phone::new(), Phone::new()];
    let contact = format!("sip:bob@{}", callee.sip.local_addr().unwrap());
    register(&callee.sip, &address, &contact);
    site.good("trace --user bob@example.com");
    let from = caller.sip.local_addr().unwrap();
    let credentials = "Authorization: Digest username=\"bob\", response=\"SECRET\"\r\n";
    let key = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 \
               inline:SECRETSECRETSECRETSECRETSECRETSECRETSECR\r\n";
    let body = caller.description().split("\r\n\r\n").nth(1).unwrap().to_owned() + "\r\n" + key;
    let more = format!(
        "Contact: <sip:alice@{from}>\r\n{credentials}Content-Type: application/sdp\r\n\
         Content-Length: {}\r\n\r\n{}",
        body.len(),
        body.trim_end()
    );
    let invite = request("INVITE", "sip:bob@example.com", "UDP", from, 2000, &more);
    caller.sip.send_to(invite.as_bytes(), &address).unwrap();
    let second = callee.receive();
    let other = found(&second, "Call-ID: ")[0].clone();
    assert_ne!(other, "2000");
    callee.respond(&address, &second, "486 Busy Here", "Content-Length: 0\r\n");
    let refused = caller.receive();
    assert!(refused.starts_with("SIP/2.0 486 "), "{refused}");
    let found = messages(&site, "2000");
    assert_eq!(found, messages(&site, &other));
    let legs: Vec<u64> = found.iter().map(|it| it["leg"].as_u64().unwrap()).collect();
    assert!(legs.contains(&1) && legs.contains(&2), "{legs:?}");
    let all = site.good("trace --call 2000 --json");
    assert!(!all.contains("SECRET") && all.contains("response=xxxxxxxx"), "{all}");
    let ladder = site.good("trace --call 2000");
    for part in [" a |", " b |", "INVITE +", "486 Busy Here"] {
        assert!(ladder.contains(part), "{part}: {ladder}");
    }
    let record = loop {
        let list = site.good("calls --history --json");
        if let Some(line) = list.lines().next() {
            break serde_json::from_str::<Value>(line).unwrap();
        }
    };
    assert_eq!((&record["through"], &record["call_id"]), (&"b2bua".into(), &"2000".into()));
    assert_eq!(record["callee_call_id"], other);
    assert_eq!(record["status"], 486);
}
