//! The records of calls in the database.

use crate::calls::{invite, serve_with};
use crate::media::{Phone, call, hang_up, pass};
use crate::phone::{PATIENCE, request};
use crate::site::{Site, show};
use serde_json::Value;
use std::thread;
use std::time::{Duration, Instant};

/// The records that fit `words`, the latest first.
fn history(site: &Site, words: &str) -> Vec<Value> {
    let list = site.good(&format!("calls --history --json {words}"));
    list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until there are `count` records.
fn await_records(site: &Site, count: usize) -> Vec<Value> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let found = history(site, "");
        if found.len() >= count {
            assert_eq!(found.len(), count);
            return found;
        }
        assert!(Instant::now() < give_up, "{count} records are expected: {found:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Refuses the call `number` of `caller`.
fn refused(server: &str, [caller, callee]: [&Phone; 2], number: u32) {
    invite(server, caller, number);
    let received = loop {
        let received = callee.receive();
        if received.starts_with("INVITE ") {
            break received;
        }
    };
    callee.respond(server, &received, "486 Busy Here", "Content-Length: 0\r\n");
}

#[test]
fn calls_that_have_ended_are_searched_also_after_kill_9_and_on_a_stopped_server() {
    let site = Site::new();
    assert_eq!(site.good("calls --history"), "no call is recorded that fits\n");
    let (server, address) = serve_with(&site, 100, "");
    assert_eq!(history(&site, "").len(), 0);
    let ([caller, callee], ports, within) = call(&address);
    pass(&caller.rtp, ports[0], &callee.rtp);
    hang_up(&address, [&caller, &callee], within);
    await_records(&site, 1);
    refused(&address, [&caller, &callee], 2001);
    let records = await_records(&site, 2);
    assert_eq!((&records[0]["status"], &records[1]["status"]), (&486.into(), &Value::Null));
    assert_eq!(records[1]["through"], "proxy");
    assert_eq!(records[1]["streams"][0]["from_caller"]["keying"], "none");
    let numbers = |words: &str| -> Vec<String> {
        let found = history(&site, words);
        found.iter().map(|it| it["call_id"].as_str().unwrap().to_owned()).collect()
    };
    let check = |site: &Site| {
        for (words, expected) in [
            ("--failed", &["2001"][..]),
            ("--limit 1", &["2001"]),
            ("--user bob", &["2001", "2000"]),
            ("--user bob@Example.com --failed", &["2001"]),
            ("--user alice", &[]),
            ("--since 1h", &["2001", "2000"]),
            ("--until 1h", &[]),
            ("--since 2000-01-01 --until 2001-01-01", &[]),
        ] {
            assert_eq!(numbers(words), expected, "{words}");
        }
        let table = site.good("calls --history");
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("time (UTC)  ") && lines.len() == 3, "{table}");
        assert!(lines[1].contains("  bob@example.com  ") && lines[1].contains("486 Busy Here"));
        assert!(lines[2].contains("by caller"), "{table}");
    };
    check(&site);
    // SIGKILL.
    drop(server);
    check(&site);
    let (_server, _) = serve_with(&site, 100, "");
    check(&site);
    assert_eq!(site.command("calls --user bob").output().unwrap().status.code(), Some(2));
}

#[test]
fn older_files_are_imported_once_and_records_are_limited() {
    let site = Site::new();
    let page = include_str!("../../../../docs/running.md");
    let line = page.lines().find(|line| line.starts_with("{\"call_id\":")).unwrap();
    // A line of an earlier version.
    let line = line.replace("\"through\":\"proxy\",", "").replace("\"keying\":\"none\",", "");
    let numbered = |number: u32| line.replace("a84b4c76e66710", &number.to_string()) + "\n";
    site.good("user add bob --password x");
    let path = site.data().join("calls.jsonl");
    std::fs::write(site.data().join("calls.jsonl.1"), numbered(1)).unwrap();
    std::fs::write(&path, numbered(2) + "no record\n" + &numbered(3)).unwrap();
    let (server, _) = serve_with(&site, 50, "history = \"10000d\"\nhistory_calls = 2");
    let records = await_records(&site, 2);
    assert_eq!(records[0]["call_id"], "3@192.0.2.7");
    assert_eq!(
        (&records[0]["through"], records[1]["ended_by"].as_str()),
        (&"proxy".into(), Some("caller"))
    );
    server.terminate();
    let (server, _) = serve_with(&site, 50, "history = \"10000d\"");
    assert_eq!(await_records(&site, 2).len(), 2);
    server.terminate();
    // A file without records adds none to the database.
    let other = Site::new();
    let (_server, address) = serve_with(&other, 50, "records = false");
    let ([caller, callee], _, within) = call(&address);
    hang_up(&address, [&caller, &callee], within);
    assert_eq!(history(&other, "").len(), 0);
    let bad = show(&site.file("bad.toml", "[media]\nhistory = true\n"));
    assert!(site.bad(&format!("check --config {bad}")).is_empty());
}

#[test]
fn a_call_that_reaches_no_phone_has_one_record() {
    let site = Site::new();
    let more = "[calls]\nmode = \"b2bua\"\nmax_calls = 1";
    let (_server, address) = serve_with(&site, 50, more);
    let ([caller, _callee], _, _) = call(&address);
    // The B2BUA has another call.
    invite(&address, &caller, 3000);
    let full = &await_records(&site, 1)[0];
    assert_eq!((&full["status"], &full["through"]), (&503.into(), &"b2bua".into()));
    assert_eq!((&full["call_id"], &full["callee_call_id"]), (&"3000".into(), &Value::Null));
    assert_eq!((&full["ended_by"], &full["streams"]), (&"server".into(), &Value::Array(vec![])));
    assert_eq!(full["callee_address"], Value::Null);
    // The proxy knows no such user.
    let from = caller.sip.local_addr().unwrap();
    let unknown = request("INVITE", "sip:carol@example.com", "UDP", from, 3001, "");
    caller.sip.send_to(unknown.as_bytes(), &address).unwrap();
    caller.sip.send_to(unknown.as_bytes(), &address).unwrap();
    let found = await_records(&site, 2);
    assert_eq!((&found[0]["status"], &found[0]["ended_by"]), (&404.into(), &"server".into()));
    assert_eq!(found[0]["through"], "proxy");
    assert!(site.good("calls --history --failed").contains("404 Not Found"));
}
