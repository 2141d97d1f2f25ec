//! Monitoring by HTTP: the metrics agree with the requests that were sent, the rules and the
//! dashboard name metrics that exist, and clients cannot exceed the limits of the listener.

use peers::call::{establish, establish_described};
use peers::folder::Folder;
use peers::process::{Program, built, run, wait_until};
use peers::server::DOMAIN;
use peers::test_server::TestServer;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use test_support::agent::SESSION;
use test_support::ports::free_ports;

const BAREBELL: Program = Program { name: "barebell", packages: "(none: build it)" };
const PROMTOOL: Program = Program { name: "promtool", packages: "prometheus" };
const OPENSSL: Program = Program { name: "openssl", packages: "openssl" };

/// The time limit of waiting for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that serves HTTP at an address of loopback.
struct Rig {
    exchange: TestServer,
    address: SocketAddr,
}

impl Rig {
    fn new(more: &str) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_ports(1)));
        let settings = format!("[http]\nlisten = \"{address}\"\n{more}");
        Self { exchange: TestServer::with(&settings, &[]), address }
    }

    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).expect("the server listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time limit can be set");
        socket
    }

    /// The response to `text`, until the connection ends. Empty if it ends without one.
    fn ask(&self, text: &str) -> String {
        let mut socket = self.connect();
        // A server that refuses the connection may have closed it.
        let _ = socket.write_all(text.as_bytes());
        rest(&mut socket)
    }

    fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {DOMAIN}\r\nConnection: close\r\n\r\n"))
    }

    /// The samples: name and labels, and value.
    fn metrics(&self) -> BTreeMap<String, f64> {
        samples(&content(&self.get("/metrics")))
    }
}

/// The bytes until the connection ends.
fn rest(socket: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A connection that is closed with unread input is reset.
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8(answer).expect("the response is text")
}

fn content(response: &str) -> String {
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    response.split_once("\r\n\r\n").expect("the head ends").1.to_owned()
}

fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        })
        .collect()
}

fn monitoring(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/monitoring").join(name)
}

#[test]
fn metrics_agree_with_the_requests_that_were_sent() {
    let rig = Rig::new("");
    let (mut alice, mut bob) = establish(rig.exchange.agent("alice"), rig.exchange.agent("bob"));
    let standing = rig.metrics();
    assert_eq!(standing["barebell_registered_users"], 2.0);
    assert_eq!(standing["barebell_bindings"], 2.0);
    assert_eq!(standing["barebell_users"], 3.0);
    alice.pass(&mut bob, "BYE", "");
    // A call to a user that is not registered fails.
    let mut dialog = bob.agent.dialog(&format!("sip:carol@{DOMAIN}"));
    bob.agent.ask(&mut dialog, "INVITE", "", "");
    let refusal = bob.agent.response("INVITE", 480);
    assert_eq!(refusal.status(), Some(480));
    let metrics = rig.metrics();
    for (name, value) in [
        ("barebell_sip_requests_total{method=\"REGISTER\"}", 4.0),
        ("barebell_sip_responses_total{method=\"REGISTER\",code=\"401\"}", 2.0),
        ("barebell_sip_responses_total{method=\"REGISTER\",code=\"200\"}", 2.0),
        ("barebell_registers_total", 2.0),
        ("barebell_registration_request_delay_seconds_count", 2.0),
        ("barebell_registration_request_delay_seconds_bucket{le=\"+Inf\"}", 2.0),
        ("barebell_sip_responses_total{method=\"INVITE\",code=\"180\"}", 1.0),
        ("barebell_sip_responses_total{method=\"INVITE\",code=\"200\"}", 1.0),
        ("barebell_sip_responses_total{method=\"INVITE\",code=\"480\"}", 1.0),
        ("barebell_sip_responses_total{method=\"BYE\",code=\"200\"}", 1.0),
        ("barebell_session_attempts_total{result=\"established\"}", 1.0),
        ("barebell_session_attempts_total{result=\"declined\"}", 1.0),
        ("barebell_session_request_delay_seconds_count{result=\"success\"}", 1.0),
        ("barebell_session_disconnect_delay_seconds_count", 1.0),
        ("barebell_answered_total", 1.0),
        ("barebell_connections{transport=\"tcp\"}", 0.0),
        ("barebell_ready", 1.0),
        ("barebell_draining", 0.0),
    ] {
        assert_eq!(metrics.get(name), Some(&value), "{name}");
    }
    assert!(metrics["process_cpu_seconds_total"] > 0.0);
    assert!(metrics["process_resident_memory_bytes"] > 1e6);
    assert!(metrics["barebell_certificate_expiry_timestamp_seconds"] > 1.7e9);
    // The same list serves `barebell status`.
    let status = &rig.exchange.server.rows(&["status", "--json"])[0];
    let counters = status["counters"].as_object().expect("status has counters");
    for name in counters.keys() {
        let exported = format!("barebell_{}_total", name.replace('-', "_"));
        assert!(metrics.contains_key(&exported), "{exported}");
    }
    assert_eq!(status["problems"], serde_json::json!([]));
}

/// The port of audio in the session description `text`.
fn audio_port(text: &str) -> u16 {
    let port = text.split("m=audio ").nth(1).and_then(|rest| rest.split(' ').next());
    port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("no audio in {text}"))
}

/// Sends packets of silence from `socket` to `port`, without those that `is_lost` selects.
fn send_audio(socket: &UdpSocket, port: u16, is_lost: fn(u16) -> bool) {
    for number in (0..50).filter(|number| !is_lost(*number)) {
        let mut packet = [0xff; 172];
        packet[..4].copy_from_slice(&[0x80, 0, 0, number as u8]);
        packet[4..8].copy_from_slice(&(u32::from(number) * 160).to_be_bytes());
        packet[8..12].copy_from_slice(&[1, 2, 3, 4]);
        socket.send_to(&packet, (Ipv4Addr::LOCALHOST, port)).expect("it can be sent");
    }
}

#[test]
fn relayed_calls_have_duration_and_quality() {
    let rig = Rig::new("[media]\nrelay = \"all\"\n");
    let sockets = [(); 2].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket"));
    let bodies = sockets.each_ref().map(|socket| {
        let port = socket.local_addr().expect("the socket is bound").port();
        SESSION.replace("40000", &port.to_string())
    });
    let exchange = &rig.exchange;
    let (mut alice, mut bob, received) = establish_described(
        exchange.agent("alice"),
        exchange.agent("bob"),
        &format!("sip:bob@{DOMAIN}"),
        [&bodies[0], &bodies[1]],
    );
    assert_eq!(rig.metrics()["barebell_calls{path=\"relay\"}"], 1.0);
    // The callee's port is in the offer that the other end received, and the other way round.
    send_audio(&sockets[0], audio_port(&received[1]), |_| false);
    send_audio(&sockets[1], audio_port(&received[0]), |number| number % 5 == 1);
    wait_until("the packets are relayed", || {
        (rig.metrics()["barebell_media_received_total"] >= 90.0).then_some(())
    });
    alice.pass(&mut bob, "BYE", "");
    let metrics = rig.metrics();
    for (name, value) in [
        ("barebell_calls{path=\"relay\"}", 0.0),
        ("barebell_call_duration_seconds_count", 1.0),
        ("barebell_media_loss_ratio_bucket{le=\"0\"}", 1.0),
        ("barebell_media_loss_ratio_bucket{le=\"0.1\"}", 1.0),
        ("barebell_media_loss_ratio_bucket{le=\"+Inf\"}", 2.0),
        ("barebell_media_jitter_seconds_count", 2.0),
        ("barebell_media_opinion_score_count", 2.0),
    ] {
        assert_eq!(metrics.get(name), Some(&value), "{name}");
    }
}

#[test]
fn promtool_accepts_metrics_and_rules() {
    let rig = Rig::new("");
    drop(establish(rig.exchange.agent("alice"), rig.exchange.agent("bob")));
    let folder = Folder::new("metrics");
    folder.write("metrics", &content(&rig.get("/metrics")));
    let mut command = Command::new("sh");
    command.args(["-c", "promtool check metrics < \"$0\""]).arg(folder.join("metrics"));
    assert_eq!(run(PROMTOOL, command), "");
    let mut command = PROMTOOL.command();
    command.args(["check", "rules"]).arg(monitoring("barebell.rules.yml"));
    assert!(run(PROMTOOL, command).contains("SUCCESS"));
    let mut command = PROMTOOL.command();
    command.args(["test", "rules"]).arg(monitoring("barebell.rules.test.yml"));
    assert!(run(PROMTOOL, command).contains("SUCCESS"));
    let mut command = PROMTOOL.command();
    command.args(["check", "config"]).arg(monitoring("prometheus.yml"));
    assert!(run(PROMTOOL, command).contains("SUCCESS"));
}

/// The names of metrics in `text`, without those that the rules record.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    words
        .filter(|word| word.starts_with("barebell_") || word.starts_with("process_"))
        .filter(|word| !word.contains(':'))
        .collect()
}

#[test]
fn rules_and_dashboard_name_exported_metrics_only() {
    let rig = Rig::new("");
    let text = content(&rig.get("/metrics"));
    let families: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let is_exported = |name: &str| {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().any(|ending| {
            name.strip_suffix(ending).is_some_and(|name| families.get(name) == Some(&"histogram"))
        });
        of_histogram || families.get(name).is_some_and(|kind| *kind != "histogram")
    };
    for file in ["barebell.rules.yml", "barebell.rules.test.yml", "barebell.dashboard.json"] {
        let text = std::fs::read_to_string(monitoring(file)).expect("the file can be read");
        let names = named(&text);
        assert!(names.len() > 3, "{file}: {names:?}");
        let unknown: Vec<_> = names.into_iter().filter(|name| !is_exported(name)).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
    let dashboard = std::fs::read_to_string(monitoring("barebell.dashboard.json"));
    let dashboard: serde_json::Value =
        serde_json::from_str(&dashboard.expect("the file can be read")).expect("it is JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 20));
}

#[test]
fn a_draining_server_lives_but_is_not_ready() {
    let rig = Rig::new("");
    assert_eq!(content(&rig.get("/healthz")), "ok\n");
    assert_eq!(content(&rig.get("/readyz")), "ready\n");
    let mut drain = Command::new(built("barebell", "BAREBELL_BIN"));
    drain.args(["drain", "--no-wait", "--data"]).arg(rig.exchange.server.data());
    assert!(run(BAREBELL, drain).starts_with("new calls are refused"));
    let answer = rig.get("/readyz");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\ndraining: new calls are refused\n"), "{answer}");
    assert_eq!(content(&rig.get("/healthz")), "ok\n");
    assert_eq!(rig.metrics()["barebell_ready"], 0.0);
}

#[test]
fn other_addresses_than_loopback_have_tls() {
    let port = free_ports(1);
    let settings = format!("[http]\nlisten = \"0.0.0.0:{port}\"\n");
    let exchange = TestServer::with(&settings, &[]);
    let ask = r#"printf 'GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' |
        "$0" s_client -quiet -connect "localhost:$1" -CAfile "$2" -verify_return_error \
        -verify_hostname localhost"#;
    let mut command = Command::new("sh");
    command.args(["-c", ask, OPENSSL.name, &port.to_string()]).arg(exchange.server.certificate());
    assert_eq!(content(&run(OPENSSL, command)), "ok\n");
    // Plain HTTP gets an alert of TLS, no page.
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the server listens");
    socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it can be sent");
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|part| part == b"HTTP"), "{answer:?}");
    exchange.server.wait_for_count("http-failures", 1);
}

#[test]
fn other_clients_methods_hosts_and_contents_are_refused() {
    let rig = Rig::new("");
    for (request, status) in [
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", "405"),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde", "413"),
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        ("GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "404"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = rig.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
    }
    let head = rig.ask("HEAD /healthz HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    let rig = Rig::new("clients = [\"192.0.2.0/24\"]\n");
    assert_eq!(rig.get("/healthz"), "");
    rig.exchange.server.wait_for_count("http-refused", 1);
}

#[test]
fn slow_many_and_large_requests_are_bounded() {
    let rig = Rig::new("");
    let large = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(40_000));
    let answer = rig.ask(&large);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: x\r\n".repeat(100));
    let answer = rig.ask(&many);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // One source has sixteen connections, which may be slow.
    let mut slow: Vec<TcpStream> = (0..16).map(|_| rig.connect()).collect();
    for socket in &mut slow {
        socket.write_all(b"GET /healthz HTTP/1.1\r\nHost: ").expect("it can be sent");
    }
    wait_until("a further connection is refused", || rig.get("/healthz").is_empty().then_some(()));
    rig.exchange.server.wait_for_count("http-refused", 1);
    // The server ends them without a complete request.
    for socket in &mut slow {
        let answer = rest(socket);
        assert!(!answer.contains("200"), "{answer}");
    }
    wait_until("connections are accepted again", || {
        rig.get("/healthz").starts_with("HTTP/1.1 200 ").then_some(())
    });
}
