//! The inputs of `capture`: several files, the standard input, an interface.

use super::support::{BENCH, Ended, bench, interrupt};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{Command, Stdio};

const OPTIONS: &str = "OPTIONS sip:b SIP/2.0\r\nVia: SIP/2.0/UDP h;branch=z9hG4bK1\r\nFrom: <sip:a@a>;tag=1\r\n\
    To: <sip:b@b>\r\nCall-ID: lab\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n";

/// Returns a raw IP capture of these datagrams, 10 ms apart; true if 10.0.0.1 sent it to 10.0.0.2,
/// else the reverse.
fn capture_of(datagrams: &[(bool, String)]) -> Vec<u8> {
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    for word in [0, 0, 65_535, 101] {
        bytes.extend(u32::to_le_bytes(word));
    }
    for (number, (forwards, text)) in (0..).zip(datagrams) {
        let ends = if *forwards { [1, 2] } else { [2, 1] };
        let mut ip = vec![0x45, 0];
        ip.extend((28 + text.len() as u16).to_be_bytes());
        ip.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, ends[0], 10, 0, 0, ends[1]]);
        ip.extend([19, 196, 19, 196]);
        ip.extend((8 + text.len() as u16).to_be_bytes());
        ip.extend([0, 0]);
        ip.extend(text.as_bytes());
        let length = ip.len() as u32;
        for word in [1_700_000_000, 10_000 * number, length, length] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend(ip);
    }
    bytes
}

/// Returns a capture with an OPTIONS request.
fn capture() -> Vec<u8> {
    capture_of(&[(true, OPTIONS.to_owned())])
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
    // Other programs may use loopback at the same time.
    assert!(methods["requests"].as_u64() >= Some(1), "{methods}");
    assert_eq!(analyses[0]["facts"]["live"], true);
}

#[test]
fn an_unknown_interface_is_refused_with_the_existing_ones() {
    let ended = bench("capture --interface nowhere0");
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("no interface nowhere0; there are") && ended.err.contains("lo"));
    assert_eq!(bench("capture --duration 1s x.pcap").status, 2);
    assert_eq!(bench("capture").status, 2);
}

#[test]
fn a_report_has_the_ladder_of_each_call() {
    let message = |first: &str, cseq: &str| {
        let rest = OPTIONS.split_once("\r\n").unwrap().1;
        let rest = rest.replace("1 OPTIONS", cseq).replace("lab", "<b>&call");
        format!("{first}\r\n{}", rest.replace("z9hG4bK1", &cseq.replace(' ', "")))
    };
    let invite = message("INVITE sip:b SIP/2.0", "1 INVITE");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("call.pcap");
    let messages = [
        (true, invite.clone()),
        (true, invite),
        (false, message("SIP/2.0 180 Ringing", "1 INVITE")),
        (false, message("SIP/2.0 200 OK", "1 INVITE")),
        (true, message("ACK sip:b SIP/2.0", "1 ACK")),
    ];
    fs::write(&file, capture_of(&messages)).unwrap();
    let report = |name: &str| {
        let path = folder.path().join(name);
        let ended = bench(&format!("capture {} -o {}", file.display(), path.display()));
        assert_eq!(ended.status, 0, "{ended:?}");
        fs::read_to_string(path).unwrap()
    };

    let page = report("call.html");
    let (_, ladder) = page.split_once("<svg").unwrap();
    let (ladder, _) = ladder.split_once("</svg>").unwrap();
    assert_eq!(ladder.matches("class=\"party\"").count(), 2, "{ladder}");
    assert_eq!(ladder.matches("<polygon").count(), 5, "{ladder}");
    let said: Vec<_> = ladder.split("class=\"what\"").skip(1).collect();
    let said: Vec<_> = said
        .iter()
        .map(|text| &text[text.find('>').unwrap() + 1..text.find('<').unwrap()])
        .collect();
    assert_eq!(said, ["INVITE", "INVITE (again)", "180 INVITE", "200 INVITE", "ACK"]);
    assert_eq!(ladder.matches("message again").count(), 1, "{ladder}");
    assert!(ladder.contains("0.030000"), "{ladder}");
    // Content of a capture must not become markup of the page.
    assert!(page.contains("&lt;b&gt;&amp;call") && !page.contains("<b>"), "{page}");

    let text = report("call.md");
    assert!(text.contains("10.0.0.1:5060") && text.contains("180 INVITE|"), "{text}");
    let ended = bench(&format!("capture {} -o report.pdf", file.display()));
    assert!(ended.status == 2 && ended.err.contains(".html or .md"), "{ended:?}");
}
