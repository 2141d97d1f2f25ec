//! Two phones on loopback.

mod processes;

use processes::{loudest, recorded};
use serde_json::json;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

const PHONE: &str = env!("CARGO_BIN_EXE_barebell-phone");

/// A phone that waits for one call. It is killed if it does not end.
struct Callee {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Callee {
    fn start(more: &[&str]) -> Self {
        let mut child = Command::new(PHONE)
            .args(["answer", "--auto", "--calls", "1", "--listen", "127.0.0.1:0", "--json"])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the phone starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let [first, _tcp] = [(); 2].map(|()| lines.next().expect("a line").expect("text"));
        let told: serde_json::Value = serde_json::from_str(&first).expect("JSON");
        let address = told["address"].as_str().expect("an address");
        let address = address.strip_prefix("udp:").expect("UDP").to_owned();
        Self { child, lines, address }
    }

    fn call(&self, more: &[&str]) -> Output {
        let uri = format!("sip:bob@{}", self.address);
        Command::new(PHONE)
            .args(["call", &uri, "--listen", "127.0.0.1:0", "--json"])
            .args(more)
            .output()
            .expect("the phone runs")
    }

    /// All its events, once it has ended.
    fn told(mut self) -> Vec<serde_json::Value> {
        let lines = self.lines.by_ref().map(|line| line.expect("text"));
        lines.map(|line| serde_json::from_str(&line).expect("JSON")).collect()
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn told(output: &Output) -> Vec<serde_json::Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn events(told: &[serde_json::Value]) -> Vec<&str> {
    let names = told.iter().filter_map(|told| told["event"].as_str());
    names.filter(|name| *name != "media").collect()
}

#[test]
fn a_tone_is_heard_both_ways_in_clear_and_encrypted() {
    for (srtp, suite) in [("off", None), ("required", Some("AES_CM_128_HMAC_SHA1_80"))] {
        let folder = tempfile::tempdir().expect("a folder");
        let [here, there] = ["a.wav", "b.wav"].map(|name| folder.path().join(name));
        let record = there.to_str().expect("text");
        let callee = Callee::start(&["--play", "tone:440", "--record", record, "--srtp", srtp]);
        let record = here.to_str().expect("text");
        let output = callee.call(&[
            "--play",
            "tone:1000",
            "--record",
            record,
            "--duration",
            "2s",
            "--srtp",
            srtp,
        ]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let caller = told(&output);
        assert_eq!(events(&caller), ["calling", "ringing", "answered", "ended"]);
        assert_eq!(caller[2]["srtp"].as_str(), suite);
        assert_eq!(events(&callee.told()), ["incoming", "answered", "ended"]);
        for (path, hertz) in [(&here, 440.0), (&there, 1000.0)] {
            // Within 1 dB of the sent level.
            let (rate, samples) = recorded(path);
            let level = loudest(hertz, rate, &samples);
            assert!((14_260.0..17_950.0).contains(&level), "{hertz} Hz at {level}");
        }
    }
}

#[test]
fn keys_of_a_handshake_carry_sound_both_ways() {
    let callee = Callee::start(&["--keys", "sdes,dtls", "--play", "tone:440"]);
    let output = callee.call(&[
        "--keys",
        "dtls",
        "--srtp",
        "required",
        "--play",
        "tone:1000",
        "--duration",
        "2s",
        "--expect",
        "tone:440",
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let caller = told(&output);
    let expected = ["calling", "ringing", "answered", "secured", "ended", "expected"];
    assert_eq!(events(&caller), expected);
    let keys = |event: &serde_json::Value| [event["keys"].clone(), event["srtp"].clone()];
    assert_eq!(keys(&caller[2]), [json!("dtls"), json!(null)]);
    assert_eq!(keys(&caller[3]), [json!("dtls"), json!("AEAD_AES_256_GCM")]);
    // The fingerprint came over signalling in clear.
    assert_eq!(caller[3]["verified_by"], json!(null));
    let there = callee.told();
    assert_eq!(events(&there), ["incoming", "answered", "secured", "ended"]);
    let ended = there.last().expect("an end");
    assert!(ended["totals"]["received"].as_u64().is_some_and(|count| count > 80), "{ended}");
    assert_eq!(ended["totals"]["refused"], 0);
}

/// A host on the path of the signalling that has not the fingerprint's certificate gets no audio.
#[test]
fn a_certificate_with_another_fingerprint_ends_the_call() {
    let callee = Callee::start(&["--keys", "dtls", "--play", "tone:440"]);
    let path = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = path.local_addr().expect("an address");
    let server: SocketAddr = callee.address.parse().expect("an address");
    std::thread::spawn(move || {
        let (mut datagram, mut caller) = ([0; 65_536], None);
        while let Ok((length, from)) = path.recv_from(&mut datagram) {
            let to = if from == server { caller } else { Some(server) };
            if from != server {
                caller = Some(from);
            }
            let name = b"a=fingerprint:sha-256 ";
            let found = datagram[..length].windows(name.len()).position(|part| part == name);
            if let Some(at) = found.filter(|_| from == server) {
                let digit = &mut datagram[at + name.len()];
                *digit = if *digit == b'0' { b'1' } else { b'0' };
            }
            let _ = to.map(|to| path.send_to(&datagram[..length], to));
        }
    });
    let output = Command::new(PHONE)
        .args(["call", &format!("sip:bob@{address}"), "--listen", "127.0.0.1:0", "--json"])
        .args(["--keys", "dtls", "--duration", "5s"])
        .output()
        .expect("the phone runs");
    assert_eq!(output.status.code(), Some(20), "{output:?}");
    let caller = told(&output);
    let ended = caller.last().expect("an end");
    let cause = ended["cause"].as_str().unwrap_or_default();
    assert!(cause.contains("fingerprint"), "{cause}");
    assert_eq!(ended["totals"]["received"], 0);
    assert_eq!(ended["totals"]["sent"], 0);
}

#[test]
fn a_call_goes_by_tcp() {
    let callee = Callee::start(&["--play", "tone:440"]);
    let uri = format!("sip:bob@{};transport=tcp", callee.address);
    let output = Command::new(PHONE)
        .args(["call", &uri, "--listen", "127.0.0.1:0", "--json", "--duration", "1s"])
        .output()
        .expect("the phone runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(events(&callee.told()), ["incoming", "answered", "ended"]);
}

#[test]
fn a_refused_call_is_reported_at_once() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    drop(socket);
    for transport in ["udp", "tcp"] {
        let uri = format!("sip:bob@{address};transport={transport}");
        let output = Command::new(PHONE)
            .args(["call", &uri, "--listen", "127.0.0.1:0"])
            .output()
            .expect("the phone runs");
        assert_eq!(output.status.code(), Some(16), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("nothing listens there"), "{said}");
    }
}

#[test]
fn an_echo_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.wav");
    let callee = Callee::start(&["--echo"]);
    let record = path.to_str().expect("text");
    let output = callee.call(&["--play", "tone:1000", "--record", record, "--duration", "2s"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (rate, samples) = recorded(&path);
    assert!(loudest(1000.0, rate, &samples) > 12_000.0);
}

#[test]
fn each_failure_has_its_exit_status() {
    // Only the status tells the caller the reason.
    let callee = Callee::start(&["--srtp", "required"]);
    assert_eq!(callee.call(&["--srtp", "off"]).status.code(), Some(17));
    let callee = Callee::start(&["--srtp", "off"]);
    assert_eq!(callee.call(&["--srtp", "required"]).status.code(), Some(17));
    for (uri, code) in [("sip:bob@nowhere.invalid", 15), ("tel:123", 15)] {
        let output = Command::new(PHONE)
            .args(["call", uri, "--listen", "127.0.0.1:0"])
            .output()
            .expect("the phone runs");
        assert_eq!(output.status.code(), Some(code), "{uri}: {output:?}");
    }
}

#[test]
fn a_contradictory_command_line_is_refused() {
    for (args, text) in [
        (&["call", "sip:a@b", "--play", "tone:0"][..], "tone:1000"),
        (&["call", "sip:a@b", "--play", "/no/such.wav"], "/no/such.wav"),
        (&["call", "sip:a@b", "--config", "/no/such.toml"], "/no/such.toml"),
        (&["call", "sip:a@b", "--record", "/no/such/a.wav"], "/no/such/a.wav"),
        (&["call"], "<URI>"),
    ] {
        let output = Command::new(PHONE).args(args).output().expect("the phone runs");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(text), "{args:?}: {said}");
    }
}

/// A phone under `control`.
struct Controlled {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    address: String,
}

impl Controlled {
    fn start() -> Self {
        let mut child = Command::new(PHONE)
            .args(["control", "--listen", "127.0.0.1:0", "--play", "tone:440"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the phone starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut phone = Self { child, lines, address: String::new() };
        let first = phone.expect("listening");
        let address = first["address"].as_str().expect("an address");
        phone.address = address.strip_prefix("udp:").expect("UDP").to_owned();
        phone
    }

    fn command(&mut self, line: &str) {
        use std::io::Write;
        let input = self.child.stdin.as_mut().expect("its input");
        writeln!(input, "{line}").expect("it reads");
    }

    /// The next event with this name; others before it are skipped.
    fn expect(&mut self, event: &str) -> serde_json::Value {
        for line in self.lines.by_ref() {
            let told: serde_json::Value = serde_json::from_str(&line.expect("text")).expect("JSON");
            if told["event"] == event {
                return told;
            }
        }
        panic!("the phone has ended before {event}");
    }

    /// Calls another phone. Returns the number of the call.
    fn call(&mut self, other: &Self) -> u64 {
        self.command(&format!(r#"{{"command":"call","uri":"sip:it@{}"}}"#, other.address));
        self.expect("done")["call"].as_u64().expect("a number")
    }
}

impl Drop for Controlled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn control_commands_are_carried_out() {
    let (mut here, mut there) = (Controlled::start(), Controlled::start());
    here.command("nonsense");
    assert!(here.expect("failed")["cause"].as_str().is_some_and(|cause| !cause.is_empty()));
    here.command(&format!(r#"{{"id":7,"command":"call","uri":"sip:bob@{}"}}"#, there.address));
    let done = here.expect("done");
    assert_eq!((&done["id"], &done["call"]), (&7.into(), &1.into()));
    assert_eq!(there.expect("incoming")["call"], 1);
    there.command(r#"{"command":"answer","call":1}"#);
    here.expect("answered");
    here.command(r#"{"command":"hold","call":1}"#);
    assert_eq!(there.expect("held")["held"], true);
    let held = here.expect("held");
    assert_eq!((&held["held"], &held["here"]), (&true.into(), &true.into()));
    here.command(r#"{"command":"state"}"#);
    assert_eq!(here.expect("state")["calls"][0]["held_here"], true);
    here.command(r#"{"command":"resume","call":1}"#);
    assert_eq!(there.expect("held")["held"], false);
    here.command(r#"{"command":"press","call":1,"keys":"1#"}"#);
    assert_eq!(there.expect("dtmf")["digit"], "1");
    assert_eq!(there.expect("dtmf")["digit"], "#");
    there.command(r#"{"command":"hang_up","call":1}"#);
    assert_eq!(here.expect("ended")["status"], 0);
    here.command(r#"{"command":"quit"}"#);
    assert_eq!(here.child.wait().expect("it ends").code(), Some(0));
}

/// Two phones in a call that the first one has placed.
#[test]
fn a_command_without_an_account_is_refused() {
    let mut here = Controlled::start();
    for command in ["register", "unregister"] {
        here.command(&format!(r#"{{"command":"{command}"}}"#));
        let cause = here.expect("failed")["cause"].to_string();
        assert!(cause.contains("there is no account"), "{cause}");
        here.command(&format!(r#"{{"command":"{command}","account":"carol@c"}}"#));
        let cause = here.expect("failed")["cause"].to_string();
        assert!(cause.contains("there is no account sip:carol@c"), "{cause}");
    }
}

fn talking(here: &mut Controlled, there: &mut Controlled) {
    let number = here.call(there);
    let incoming = there.expect("incoming");
    there.command(&format!(r#"{{"command":"answer","call":{}}}"#, incoming["call"]));
    assert_eq!(here.expect("answered")["call"], number);
}

#[test]
fn calls_are_transferred() {
    let mut phones = [(); 3].map(|()| Controlled::start());
    let [alice, bob, carol] = &mut phones;
    talking(alice, bob);
    let to = &carol.address;
    alice.command(&format!(r#"{{"command":"transfer","call":1,"to":"sip:carol@{to}"}}"#));
    assert_eq!(bob.expect("transfer_asked")["call"], 1);
    bob.command(r#"{"command":"follow","call":1}"#);
    assert_eq!(bob.expect("following")["by"], 2);
    carol.expect("incoming");
    carol.command(r#"{"command":"answer","call":1}"#);
    assert_eq!(bob.expect("answered")["call"], 2);
    assert_eq!(alice.expect("ended")["call"], 1);
    assert_eq!(bob.expect("ended")["call"], 1);

    // Bob, in a call with Carol, calls Alice and connects both.
    talking(bob, alice);
    bob.command(r#"{"command":"transfer","call":3,"with":2}"#);
    assert_eq!(alice.expect("transfer_asked")["call"], 2);
    alice.command(r#"{"command":"follow","call":2}"#);
    assert_eq!(alice.expect("answered")["call"], 3);
    let ended = [bob.expect("ended"), bob.expect("ended")].map(|ended| ended["call"].as_u64());
    assert!(ended.contains(&Some(2)) && ended.contains(&Some(3)), "{ended:?}");
    assert_eq!(carol.expect("ended")["call"], 1);
    alice.command(r#"{"command":"hang_up","call":3}"#);
    assert_eq!(carol.expect("ended")["call"], 2);
}

#[test]
fn a_failed_transfer_keeps_the_call() {
    let mut phones = [(); 2].map(|()| Controlled::start());
    let [alice, bob] = &mut phones;
    talking(alice, bob);
    alice.command(r#"{"command":"transfer","call":1,"to":"sip:carol@127.0.0.1:9"}"#);
    bob.expect("transfer_asked");
    bob.command(r#"{"command":"follow","call":1}"#);
    while alice.expect("transfer")["state"] != "failed" {}
    assert_eq!(alice.expect("held")["held"], false);
    alice.command(r#"{"command":"hang_up","call":1}"#);
    assert_eq!(alice.expect("ended")["status"], 0);
}

#[test]
fn a_message_arrives() {
    let mut phones = [(); 2].map(|()| Controlled::start());
    let [alice, bob] = &mut phones;
    let to = &bob.address;
    let line = format!(r#"{{"command":"message","to":"sip:bob@{to}","text":"Grüße"}}"#);
    alice.command(&line);
    assert_eq!(bob.expect("message")["text"], "Grüße");
    assert_eq!(alice.expect("message_sent")["cause"], serde_json::Value::Null);
}

#[test]
fn every_scheme_of_srtp_plus_carries_a_call() {
    let schemes = ["sequence", "hash", "chain", "header", "hash:trailer"];
    for scheme in schemes {
        let callee = Callee::start(&["--play", "tone:440"]);
        let output =
            callee.call(&["--srtp-plus", scheme, "--duration", "1s", "--expect", "tone:440"]);
        assert_eq!(output.status.code(), Some(0), "{scheme}: {output:?}");
        let told = told(&output);
        let answered = told.iter().find(|told| told["event"] == "answered").expect("answered");
        assert_eq!(answered["srtp_plus"].as_str(), scheme.split(':').next());
    }
}
