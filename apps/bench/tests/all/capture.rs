//! What `capture` takes: several files, the standard input, an interface.

use super::support::{BENCH, Ended, bench, interrupt};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

const OPTIONS: &str = "OPTIONS sip:b SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@a>;tag=1\r\n\
    To: <sip:b@b>\r\nCall-ID: lab\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n";

/// A capture of raw IP with an OPTIONS request.
fn capture() -> Vec<u8> {
    let payload = OPTIONS.as_bytes();
    let mut ip = vec![0x45, 0];
    ip.extend((28 + payload.len() as u16).to_be_bytes());
    ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 19, 196, 19, 196]);
    ip.extend((8 + payload.len() as u16).to_be_bytes());
    ip.extend([0, 0]);
    ip.extend(payload);
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    let length = ip.len() as u32;
    for word in [0, 0, 65_535, 101, 1_700_000_000, 0, length, length] {
        bytes.extend(u32::to_le_bytes(word));
    }
    bytes.extend(ip);
    bytes
}

fn options(analysis: &Value) -> &Value {
    &analysis["methods"]["OPTIONS"]["requests"]
}

#[test]
fn a_file_that_is_no_capture_costs_no_other_its_result() {
    let folder = tempfile::tempdir().unwrap();
    let [good, bad] = ["good.pcap", "bad.pcap"].map(|name| folder.path().join(name));
    fs::write(&good, capture()).unwrap();
    fs::write(&bad, "no capture").unwrap();
    let (good, bad) = (good.display(), bad.display());
    let ended = bench(&format!("capture --json {good} {bad} {good} /nowhere.pcap"));
    assert_eq!(ended.status, 2, "{ended:?}");
    let analyses: Value = serde_json::from_str(&ended.out).unwrap();
    let [one, other] = &analyses.as_array().unwrap()[..] else { panic!("{ended:?}") };
    assert_eq!((options(one), options(other)), (&Value::from(1), &Value::from(1)));
    assert!(ended.err.contains("bad.pcap: expected a capture"), "{ended:?}");
    assert!(ended.err.contains("/nowhere.pcap"), "{ended:?}");

    let ended = bench(&format!("capture {bad} {good}"));
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.out.contains("1 SIP messages over UDP"), "{ended:?}");
    let ended = bench(&format!("capture --json {bad}"));
    assert_eq!((ended.status, ended.out.trim()), (2, "[]"), "{ended:?}");
    assert_eq!(bench(&format!("capture --json {good} {good}")).status, 0);
}

#[test]
fn the_standard_input_is_a_capture_too() {
    let mut child = Command::new(BENCH)
        .args(["capture", "--json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for piece in capture().chunks(7) {
        input.write_all(piece).unwrap();
    }
    drop(input);
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!(ended.status, 0, "{ended:?}");
    let analyses: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(*options(&analyses[0]), 1);
}

#[test]
fn an_interface_is_listened_to() {
    let mut child = Command::new(BENCH)
        .args(["capture", "--json", "--interface", "lo", "--duration", "1h"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    if line.contains("needs root") {
        assert_eq!(child.wait().unwrap().code(), Some(2));
        return;
    }
    assert!(line.contains("listening to lo"), "{line}");
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let message = OPTIONS.replace("Call-ID: lab", "Call-ID: interface");
    one.send_to(message.as_bytes(), other.local_addr().unwrap()).unwrap();
    interrupt(&child);
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{out}");
    let analyses: Value = serde_json::from_str(&out).unwrap();
    let methods = &analyses[0]["methods"]["OPTIONS"];
    // Others may use loopback at the same time.
    assert!(methods["requests"].as_u64() >= Some(1), "{methods}");
    assert_eq!(analyses[0]["facts"]["live"], true);
}

#[test]
fn an_interface_that_is_none_is_told_with_those_that_are() {
    let ended = bench("capture --interface nowhere0");
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("no interface nowhere0; there are") && ended.err.contains("lo"));
    assert_eq!(bench("capture --duration 1s x.pcap").status, 2);
    assert_eq!(bench("capture").status, 2);
}
