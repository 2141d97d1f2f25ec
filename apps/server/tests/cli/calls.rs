//! Relayed calls: their list, their records, and their end by command.

use crate::media::{Phone, call, hang_up, pass};
use crate::ng::NgClient;
use crate::phone::{PATIENCE, found, register, request, serve, status};
use crate::site::{Server, Site, free_range, show, stderr, stdout};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use test_support::ports::free_ports;

/// The list without a call.
const NO_CALL: &str = "no call stands that is relayed or passes the B2BUA\n";

/// Starts a server that relays all calls with this number of ports.
pub(crate) fn serve_with(site: &Site, ports: u16, more: &str) -> (Server, String) {
    serve_with_range(site, &free_range(ports).1, more)
}

/// Starts a server that relays all calls with these ports.
pub(crate) fn serve_with_range(site: &Site, ports: &str, more: &str) -> (Server, String) {
    let text = format!("[media]\nrelay = \"all\"\nports = \"{ports}\"\n{more}");
    let config = show(&site.file("c.toml", &text));
    let (server, [address, _]) = serve(site, &format!("--config {config}"));
    (server, address)
}

/// The records in the file at `path`, as soon as there are `count`.
pub(crate) fn records(path: &Path, count: usize) -> Vec<Value> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let text = std::fs::read_to_string(path).unwrap();
        if text.lines().count() >= count && text.ends_with('\n') {
            let records: Vec<Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!(records.len(), count, "{text}");
            return records;
        }
        assert!(Instant::now() < give_up, "{count} records are expected: {text}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The calls that stand.
pub(crate) fn standing(site: &Site) -> Vec<Value> {
    let list = site.good("calls --json");
    list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Sends an INVITE with this number.
pub(crate) fn invite(server: &str, caller: &Phone, number: u32) {
    let from = caller.sip.local_addr().unwrap();
    let more = format!("Contact: <sip:alice@{from}>\r\n{}", caller.description());
    let invite = request("INVITE", "sip:bob@example.com", "UDP", from, number, &more);
    caller.sip.send_to(invite.as_bytes(), server).unwrap();
}

#[test]
fn a_call_is_listed_and_ended_by_its_identifier() {
    let site = Site::new();
    let (_server, address) = serve_with(&site, 100, "");
    assert_eq!(site.good("calls"), NO_CALL);
    let ([caller, callee], ports, _) = call(&address);
    for _ in 0..5 {
        pass(&caller.rtp, ports[0], &callee.rtp);
    }
    let calls = standing(&site);
    let [one] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((&one["caller"], &one["call_id"]), (&"sip:bob@example.com".into(), &"2000".into()));
    assert!(one["duration"].as_f64().is_some_and(|seconds| seconds < 600.0), "{one}");
    let [from_caller, from_callee] =
        ["from_caller", "from_callee"].map(|at| &one["streams"][0][at]);
    assert_eq!((&from_caller["packets"], &from_callee["packets"]), (&5.into(), &0.into()));
    assert_eq!(from_caller["codec"], "PCMU/8000");
    assert_eq!((&from_callee["loss"], &from_callee["mos"]), (&Value::Null, &Value::Null));
    let now = status(&site);
    assert_eq!((&now["calls"], &now["draining"]), (&1.into(), &false.into()));
    assert_eq!(now["counters"]["media-received"], 5);
    assert_eq!(now["counters"]["media-sent"], 5);
    let id = one["id"].as_str().unwrap();
    assert!(site.good("calls").contains(&format!("{id}  sip:bob@example.com  ")));
    assert!(site.bad("calls end 0").contains("there is no call 0"));
    let ended = site.good(&format!("calls end {id}"));
    assert_eq!(ended, "ended the call of sip:bob@example.com to sip:bob@example.com\n");
    for phone in [&caller, &callee] {
        let bye = phone.receive_bye();
        assert!(found(&bye, "Reason: ")[0].contains("Ended by the operator"), "{bye}");
        phone.respond(&address, &bye, "200 OK", "Content-Length: 0\r\n");
    }
    assert_eq!(standing(&site).len(), 0);
    let record = &records(&site.data().join("calls.jsonl"), 1)[0];
    assert_eq!(record["ended_by"], "server");
    assert!(record["reason"].as_str().unwrap().starts_with("Q.850;cause=16"));
}

#[test]
fn a_stopped_server_has_no_calls() {
    let site = Site::new();
    assert_eq!(site.good("calls"), NO_CALL);
    assert!(site.bad("calls end 0").contains("no server runs"));
    site.good("user list");
    assert_eq!(site.good("calls --json"), "");
    assert!(site.bad("calls end 0").contains("no server runs"));
    assert!(site.bad("drain").contains("no server runs"));
}

#[test]
fn each_call_has_one_record_in_the_file() {
    let site = Site::new();
    let path = site.data().join("../calls");
    let more = format!("records = \"{}\"", show(&path));
    let (server, address) = serve_with(&site, 100, &more);
    let ([caller, callee], ports, within) = call(&address);
    pass(&caller.rtp, ports[0], &callee.rtp);
    hang_up(&address, [&caller, &callee], within);
    let record = &records(&path, 1)[0];
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!((&record["ended_by"], &record["status"]), (&"caller".into(), &Value::Null));
    assert_eq!(record["reason"], "Q.850;cause=16");
    let time = |name: &str| humantime::parse_rfc3339(record[name].as_str().unwrap()).unwrap();
    assert!(time("created") <= time("answered") && time("answered") <= time("ended"));
    assert!(record["streams"][0]["from_caller"]["packets"].as_u64() >= Some(1));
    // The callee refuses a call, with a phrase that imitates a line.
    invite(&address, &caller, 2001);
    let received = loop {
        let received = callee.receive();
        if received.starts_with("INVITE ") {
            break received;
        }
    };
    callee.respond(&address, &received, "486 Busy\u{9b}\u{7f}", "Content-Length: 0\r\n");
    let record = &records(&path, 2)[1];
    assert_eq!((&record["status"], &record["answered"]), (&486.into(), &Value::Null));
    assert_eq!(record["phrase"], "Busy\\u{9b}\\u{7f}");
    // A call that stands when the server is stopped.
    let _standing = call(&address);
    server.terminate();
    let record = &records(&path, 3)[2];
    assert_eq!((&record["ended_by"], &record["reason"]), (&"server".into(), &Value::Null));
    assert!(!site.data().join("calls.jsonl").exists());
}

#[test]
fn records_can_be_turned_off_and_a_bad_path_is_an_error() {
    let site = Site::new();
    let (server, _) = serve_with(&site, 100, "records = false");
    assert!(!site.data().join("calls.jsonl").exists());
    server.terminate();
    let config = show(&site.file("bad.toml", "[media]\nrecords = \"/dev/null\"\n"));
    let error = site.bad(&format!("serve --listen udp:127.0.0.1:0 --config {config}"));
    assert!(error.contains("call records /dev/null") && error.contains("no regular"), "{error}");
}

#[test]
fn a_draining_server_refuses_new_calls_only() {
    let site = Site::new();
    let (_server, address) = serve_with(&site, 100, "");
    let ([caller, callee], ports, within) = call(&address);
    let drained = site.good("drain --no-wait");
    assert!(drained.starts_with("new calls are refused; 1 calls (relayed, "), "{drained}");
    let now = status(&site);
    assert_eq!((&now["calls"], &now["draining"]), (&1.into(), &true.into()));
    let output = site.command("status").output().unwrap();
    assert_eq!(output.status.code(), Some(3), "for monitoring");
    assert!(stdout(&output).contains("\nnot ready     draining: "), "{}", stdout(&output));
    let other = Phone::new();
    invite(&address, &other, 2001);
    assert!(other.receive().starts_with("SIP/2.0 503 "));
    register(&other.sip, &address, "sip:bob@127.0.0.1:9");
    pass(&caller.rtp, ports[0], &callee.rtp);
    hang_up(&address, [&caller, &callee], within);
    assert_eq!(site.good("drain --cancel"), "new calls are accepted again\n");
    assert_eq!(status(&site)["draining"], false);
    let drained = site.good("drain");
    assert!(drained.ends_with("\nthe last call has ended\n"), "{drained}");
}

#[test]
fn drain_waits_for_the_end_of_the_last_call() {
    let site = Site::new();
    let (_server, address) = serve_with(&site, 50, "");
    let ([caller, callee], _, within) = call(&address);
    let error = site.bad("drain --timeout 1s");
    assert!(error.contains("1 calls still stand"), "{error}");
    assert_eq!(status(&site)["draining"], true, "it goes on after the time");
    // An interrupted command leaves the draining on.
    let start = || site.command("drain").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut interrupted = start().unwrap();
    interrupted.kill().unwrap();
    interrupted.wait().unwrap();
    assert_eq!(status(&site)["draining"], true);
    // The end of the draining ends the command.
    let await_start = |child: &mut Child| {
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("new calls are refused; 1 calls "), "{line}");
    };
    let mut cancelled = start().unwrap();
    await_start(&mut cancelled);
    site.good("drain --cancel");
    let output = cancelled.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("new calls are accepted"), "{}", stderr(&output));
    let mut waiting = start().unwrap();
    await_start(&mut waiting);
    assert!(waiting.try_wait().unwrap().is_none());
    hang_up(&address, [&caller, &callee], within);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "0 calls stand\nthe last call has ended\n");
}

/// Answers the INVITE that `callee` has received, and acknowledges the answer to `caller`.
fn answer(server: &str, [caller, callee]: [&Phone; 2]) {
    let contact = format!("sip:bob@{}", callee.sip.local_addr().unwrap());
    let more = format!("Contact: <{contact}>\r\n{}", callee.description());
    callee.respond(server, &callee.receive(), "200 OK", &more);
    let answer = caller.receive();
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
    let uri = found(&answer, "Contact: ")[0].trim_matches(['<', '>']).to_owned();
    let mut routes = found(&answer, "Record-Route: ");
    routes.reverse();
    let routes: String = routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
    let to = format!("To: {}\r\n", found(&answer, "To: ")[0]);
    let from = caller.sip.local_addr().unwrap();
    let more = routes + &to + "Content-Length: 0\r\n";
    let ack = request("ACK", &uri, "UDP", from, 2000, &more)
        .replace("To: <sip:bob@example.com>\r\n", "")
        .replace("branch=z9hG4bK2000", "branch=z9hG4bK4000");
    caller.sip.send_to(ack.as_bytes(), server).unwrap();
}

#[test]
fn a_call_of_the_b2bua_that_is_not_relayed_is_counted_listed_and_ended() {
    let site = Site::new();
    let text = "[media]\nrelay = \"off\"\n[calls]\nmode = \"b2bua\"\nmax_calls = 1\n";
    let config = show(&site.file("c.toml", text));
    let (_server, [address, _]) = serve(&site, &format!("--config {config}"));
    let [caller, callee] = [Phone::new(), Phone::new()];
    let contact = format!("sip:bob@{}", callee.sip.local_addr().unwrap());
    register(&callee.sip, &address, &contact);
    invite(&address, &caller, 2000);
    answer(&address, [&caller, &callee]);
    let calls = standing(&site);
    let [one] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((&one["callee"], &one["call_id"]), (&"sip:bob@example.com".into(), &"2000".into()));
    assert!(one["callee_call_id"].is_string() && one["duration"].is_number(), "{one}");
    assert_eq!(status(&site)["calls"], 1);
    let drained = site.good("drain --no-wait");
    assert!(drained.starts_with("new calls are refused; 1 calls (relayed, "), "{drained}");
    site.good("drain --cancel");
    // The B2BUA has as many calls as it may have.
    invite(&address, &caller, 2001);
    let refused = caller.receive();
    assert!(refused.starts_with("SIP/2.0 503 "), "{refused}");
    assert_eq!(found(&refused, "Retry-After: "), ["5"]);
    assert_eq!(status(&site)["counters"]["b2bua-limit"], 1);
    assert!(site.good("status").contains("\nwarning: 1 call was refused at calls.max_calls "));
    let id = one["id"].as_str().unwrap();
    let ended = site.good(&format!("calls end {id}"));
    assert_eq!(ended, "ended the call of sip:bob@example.com to sip:bob@example.com\n");
    for phone in [&caller, &callee] {
        let bye = phone.receive_bye();
        assert!(found(&bye, "Reason: ")[0].contains("Ended by the operator"), "{bye}");
        phone.respond(&address, &bye, "200 OK", "Content-Length: 0\r\n");
    }
    assert_eq!((site.good("calls").as_str(), &status(&site)["calls"]), (NO_CALL, &0.into()));
}

#[test]
fn calls_of_an_ng_client_are_listed_ended_and_recorded() {
    let site = Site::new();
    let ((_, ports), ng) = (free_range(16), format!("127.0.0.1:{}", free_ports(1)));
    let text = format!(
        "[media]\nrelay = \"off\"\nports = \"{ports}\"\nng = \"{ng}\"\n\
         ng_clients = [\"127.0.0.1\"]\n"
    );
    let config = show(&site.file("c.toml", &text));
    let (_server, _) = serve(&site, &format!("--config {config}"));
    let client = NgClient::new();
    let sdp = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
               m=audio 4000 RTP/AVP 0\r\n";
    for (cookie, call_id) in [(10, "one"), (20, "two")] {
        let offer = [("call-id", call_id), ("command", "offer"), ("from-tag", "a"), ("sdp", sdp)];
        assert!(client.ask(&ng, cookie, &offer).contains("m=audio "));
        let answer = [
            ("call-id", call_id),
            ("command", "answer"),
            ("from-tag", "a"),
            ("sdp", sdp),
            ("to-tag", "b"),
        ];
        assert!(client.ask(&ng, cookie + 1, &answer).contains("m=audio "));
    }
    let calls = standing(&site);
    let ids = calls.iter().map(|call| (call["call_id"].as_str(), call["id"].as_str()));
    let ids: Vec<_> = ids.map(|(call_id, id)| (call_id.unwrap(), id.unwrap())).collect();
    let [("one", first), ("two", second)] = ids[..] else { panic!("{calls:?}") };
    assert!(site.good("calls").contains(&format!("{second}  -       -       0s")));
    assert_eq!(status(&site)["calls"], 2);
    assert_eq!(site.good(&format!("calls end {first}")), "ended the call of - to -\n");
    assert_eq!(standing(&site).len(), 1);
    let delete = [("call-id", "two"), ("command", "delete"), ("from-tag", "b"), ("to-tag", "a")];
    assert!(client.ask(&ng, 30, &delete).contains("6:result2:ok"));
    assert_eq!(site.good("calls"), NO_CALL);
    let records = records(&site.data().join("calls.jsonl"), 2);
    let ends = records.iter().map(|record| (&record["call_id"], &record["ended_by"]));
    let ends: Vec<_> = ends.map(|(call_id, by)| (call_id.as_str(), by.as_str())).collect();
    assert_eq!(ends, [(Some("one"), Some("server")), (Some("two"), Some("callee"))]);
    assert!(records[0]["reason"].as_str().unwrap().contains("Ended by the operator"));
    assert_eq!(records[1]["streams"][0]["from_caller"]["codec"], "PCMU/8000");
}
