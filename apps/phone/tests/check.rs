//! The results of `check`, with and without faults.

mod processes;

use processes::registrar::{self, PASSWORD};
use processes::{PHONE, Running, event, said, told};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::thread;
use stun::turn::{Credentials, attribute_type as turn_at};
use stun::{Class, Message, TransactionId, Writer, attribute_type as at};

fn check(proxy: &str, password: &str, listen: &str) -> Output {
    Command::new(PHONE)
        .args(["check", "--json", "--account", "alice@example.org", "--proxy", proxy])
        .args(["--listen", listen].iter().filter(|_| !listen.is_empty()))
        .env("BAREBELL_PHONE_PASSWORD", password)
        .stdin(Stdio::null())
        .output()
        .expect("the phone runs")
}

/// The result for `what`.
fn found(output: &Output, what: &str) -> serde_json::Value {
    let told = told(&output.stdout);
    let found = told.iter().find(|told| told["event"] == "check" && told["what"] == what);
    found.unwrap_or_else(|| panic!("{what}: {told:?}")).clone()
}

#[test]
fn working_parts_are_listed_without_the_password() {
    let server = registrar::start("").to_string();
    let output = check(&server, PASSWORD, "127.0.0.1:0");
    for what in ["configuration", "interfaces", "port", "DNS", "OPTIONS over UDP", "registration"] {
        let found = found(&output, what);
        assert_eq!((&found["works"], &found["advice"]), (&true.into(), &().into()), "{found}");
    }
    assert!(
        found(&output, "OPTIONS over UDP")["found"].as_str().is_some_and(|t| t.contains("200 OK"))
    );
    // TCP, which is not preferred, has no listener there.
    assert_eq!(found(&output, "OPTIONS over TCP")["works"], true);
    // The status is 0 if everything works: a machine without a default route fails.
    let all = told(&output.stdout).iter().all(|told| told["works"] != false);
    assert_eq!(output.status.code(), Some(if all { 0 } else { 1 }), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains(PASSWORD));
}

#[test]
fn a_server_over_tcp_answers_too() {
    let server = Running::start(&["control"]);
    let output = check(&format!("{};transport=tcp", server.address), "", "127.0.0.1:0");
    assert_eq!(found(&output, "OPTIONS over TCP")["works"], true, "{output:?}");
    // It is a phone and does not accept registrations.
    assert_eq!(found(&output, "registration")["works"], false, "{output:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn failing_parts_have_advice_and_a_status() {
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let listen = taken.local_addr().expect("an address").to_string();
    let old = registrar::start("Sat, 13 Nov 2010 23:29:00 GMT").to_string();
    let output = check(&old, "wrong", &listen);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    for (what, words) in [
        ("port", "cannot listen on"),
        ("clock", "ahead of the server's"),
        ("registration", "password"),
    ] {
        let found = found(&output, what);
        assert_eq!(found["works"], false, "{found}");
        assert!(found["found"].as_str().is_some_and(|text| text.contains(words)), "{found}");
        assert!(found["advice"].as_str().is_some_and(|text| !text.is_empty()), "{found}");
    }
    let last = said(&output);
    let last = last.lines().find(|line| line.contains("checks failed: ")).expect("a last line");
    assert!(last.contains("port: ") && last.contains("; registration: "), "{last}");
    let nobody = UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let output = check(&nobody.expect("an address").to_string(), "", "127.0.0.1:0");
    let found = found(&output, "OPTIONS over UDP");
    assert!(
        found["found"].as_str().is_some_and(|text| text.contains("nothing listens")),
        "{found}"
    );
    assert!(said(&output).contains("barebell-phone: "), "{output:?}");
    event(&told(&output.stdout), "check");
}

#[test]
fn the_default_port_in_use_is_no_failure() {
    // Another program on the machine may have the port already.
    let _taken = UdpSocket::bind("[::]:5060");
    let server = registrar::start("").to_string();
    let output = check(&server, PASSWORD, "");
    let found = found(&output, "port");
    assert_eq!(found["works"], true, "{found}");
    let text = found["found"].as_str().expect("a finding");
    assert!(text.contains("`call` uses another port"), "{text}");
    assert!(said(&output).lines().all(|line| !line.contains("port: ")), "{output:?}");
}

/// The addresses in the responses of the TURN server, and in forged ones.
const GENUINE: &str = "203.0.113.2:50000";
const FORGED: &str = "198.51.100.66:6666";

/// A success of `id` with this relayed address, signed by `key` if there is one.
fn allocated(request: &Message<'_>, id: TransactionId, at: &str, key: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(Class::Success, request.method, id, &mut out);
    let relayed: SocketAddr = at.parse().expect("an address");
    writer.xor_address(turn_at::XOR_RELAYED_ADDRESS, relayed).expect("it fits");
    writer.attribute(turn_at::LIFETIME, &600_u32.to_be_bytes()).expect("it fits");
    if let Some(key) = key {
        writer.integrity(key).expect("it fits");
    }
    writer.fingerprint().expect("it fits");
    out
}

/// Forged successes come before each response of the server: from its own address, unsigned or with
/// another key or transaction, and from another port with the right key.
#[test]
fn forged_responses_of_a_turn_server_are_not_believed() {
    const REALM: &[u8] = b"example.org";
    let [server, stranger] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port"));
    let address = server.local_addr().expect("an address");
    let key = Credentials { user: "alice".into(), password: "secret".into() }.key(REALM);
    thread::spawn(move || {
        let mut buffer = [0; 2000];
        while let Ok((length, from)) = server.recv_from(&mut buffer) {
            let Ok(request) = Message::parse(&buffer[..length]) else { continue };
            let (id, other) = (request.id, TransactionId([0x66; 12]));
            let _ = stranger.send_to(&allocated(&request, id, FORGED, Some(&key)), from);
            for forged in [
                allocated(&request, id, FORGED, None),
                allocated(&request, id, FORGED, Some(b"another key")),
                allocated(&request, other, FORGED, Some(&key)),
            ] {
                let _ = server.send_to(&forged, from);
            }
            let response = if request.value(at::USERNAME).is_some() {
                allocated(&request, id, GENUINE, Some(&key))
            } else {
                let mut out = Vec::new();
                let mut writer = Writer::new(Class::Error, request.method, id, &mut out);
                writer.error(401, "Unauthorized").expect("it fits");
                writer.attribute(at::REALM, REALM).expect("it fits");
                writer.attribute(at::NONCE, b"nonce").expect("it fits");
                out
            };
            let _ = server.send_to(&response, from);
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("password");
    std::fs::write(&file, "secret\n").expect("a file");
    let output = Command::new(PHONE)
        .args(["check", "--json", "--listen", "127.0.0.1:0"])
        .args(["--turn", &format!("turn:{address}"), "--turn-user", "alice"])
        .arg("--turn-password-file")
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .expect("the phone runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("{address} relays at {GENUINE}")), "{text}");
    assert!(!text.contains(FORGED), "{text}");
}
