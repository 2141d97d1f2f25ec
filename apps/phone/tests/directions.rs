//! Outgoing calls: address families, From, ringing time, and the look-ups before them.

mod processes;

use processes::{PHONE, event, phone, said, told};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_call_uses_ipv6_by_default() {
    let mut callee = Command::new(PHONE)
        .args(["answer", "--auto", "--calls", "1", "--listen", "[::1]:0", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the phone starts");
    let mut line = String::new();
    let mut output = BufReader::new(callee.stdout.take().expect("its output"));
    output.read_line(&mut line).expect("it listens");
    let listening: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let address = listening["address"].as_str().and_then(|at| at.strip_prefix("udp:"));
    let uri = format!("sip:bob@{}", address.expect("an address"));
    let output = phone(&["call", &uri, "--duration", "1s", "--json", "--play", "tone:1000"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(event(&told(&output.stdout), "ended")["totals"]["received"].as_u64() > Some(10));
    assert!(callee.wait().expect("it ends").success());
}

/// The INVITE of `call` with these flags, and the output of the unanswered call.
fn invite(more: &[&str]) -> (String, std::process::Output) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let uri = format!("sip:bob@{}", socket.local_addr().expect("an address"));
    let child = Command::new(PHONE)
        .args([&["call", &uri][..], more].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the phone starts");
    let mut datagram = [0; 4096];
    let length = socket.recv(&mut datagram).expect("an INVITE");
    let invite = String::from_utf8_lossy(&datagram[..length]).into_owned();
    (invite, child.wait_with_output().expect("it ends"))
}

#[test]
fn ring_timeout_and_from_are_applied() {
    let from = ["--from", "carol@example.org", "--ring-timeout", "1s", "--quiet"];
    let (invite, output) = invite(&from);
    assert!(invite.contains("From: <sip:carol@example.org>;tag="), "{invite}");
    assert!(invite.contains("Contact: <sip:carol@127.0.0.1:"), "{invite}");
    assert_eq!(output.status.code(), Some(12), "{output:?}");
    // Only the reason for the end.
    assert_eq!(said(&output).lines().count(), 1, "{output:?}");
}

#[test]
fn files_are_opened_before_the_call_and_a_failed_call_leaves_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("no/such/file");
    let wrong = wrong.to_str().expect("text");
    for flag in ["--junit", "--trust", "--pcap"] {
        let output = phone(&["call", "sip:a@192.0.2.1", flag, wrong]);
        assert_eq!(output.status.code(), Some(2), "{flag}: {output:?}");
        assert!(said(&output).contains(wrong), "{flag}: {output:?}");
    }
    let closed = UdpSocket::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let record = folder.path().join("a.wav");
    let path = record.to_str().expect("text");
    let output = phone(&["call", &format!("sip:a@{closed}"), "--record", path]);
    assert_eq!(output.status.code(), Some(16), "{output:?}");
    assert!(!record.exists());
}

#[test]
fn a_missing_route_has_a_status_of_its_own() {
    let output = phone(&["call", "sip:a@[::1]:9", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(23), "{output:?}");
    assert!(said(&output).contains("no route"), "{output:?}");
}
