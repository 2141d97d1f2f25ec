//! The commands for a server elsewhere have the output and the exit status of those on its machine.

use crate::phone::{PATIENCE, receive, register, request, serve};
use crate::site::{Server, Site, show, stderr, stdout};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;
use test_support::ports::free_ports;

/// A server with the HTTP API over TLS.
struct Elsewhere {
    site: Site,
    config: String,
    url: String,
    /// The SIP address of the server.
    address: String,
    _server: Server,
}

impl Elsewhere {
    fn new() -> Self {
        let site = Site::new();
        let port = free_ports(2);
        let config = site.file(
            "c.toml",
            &format!(
                "domains = [\"example.com\"]\nlisten = [\"udp:127.0.0.1:{}\"]\n\
                 [http]\nlisten = \"0.0.0.0:{port}\"\n[panel]\nenabled = true\n\
                 [media]\nrelay = \"all\"\n[numbers]\n[[numbers.rules]]\nname = \"desk\"\n\
                 number = \"8\"\nto = \"user:bob\"\n",
                port + 1
            ),
        );
        let (server, [address, _]) = serve(&site, &format!("--config {}", show(&config)));
        let (url, config) = (format!("https://localhost:{port}"), show(&config));
        Self { site, config, url, address, _server: server }
    }

    /// The file with a new token.
    fn token(&self, role: &str) -> String {
        let token = self.site.good(&format!("token add {role} --role {role}"));
        show(&self.site.file(role, &token))
    }

    /// Runs a command from elsewhere, with the token in a file.
    fn ask(&self, token: &str, words: &str) -> Output {
        let chain = show(&self.site.data().join("tls-chain.pem"));
        let flags = ["--server", &self.url, "--token-file", token, "--ca", &chain];
        command().args(flags).args(words.split_whitespace()).output().unwrap()
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_barebell"));
    command.stdin(Stdio::null());
    command
}

/// Sends an INVITE for a user that does not exist, and awaits the refusal.
fn call(phone: &UdpSocket, server: &str, number: u32) {
    let from = phone.local_addr().unwrap();
    let more = format!("Contact: <sip:bob@{from}>\r\nContent-Length: 0\r\n");
    let uri = "sip:nobody@example.com";
    phone.send_to(request("INVITE", uri, "UDP", from, number, &more).as_bytes(), server).unwrap();
    while receive(phone).starts_with("SIP/2.0 1") {}
}

#[test]
fn commands_have_the_same_output_elsewhere() {
    let elsewhere = Elsewhere::new();
    let site = &elsewhere.site;
    let token = elsewhere.token("administrator");
    let users: String = (0..1203).map(|it| format!("u{it}<n{it}>:secret\n")).collect();
    let file = show(&site.file("users", &users));
    site.good(&format!("user import {file} --domain example.com"));
    site.good("user add bob --password secret --domain example.com");
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    let contact = format!("sip:bob@{}", phone.local_addr().unwrap());
    register(&phone, &elsewhere.address, &contact);
    for number in 0..3 {
        call(&phone, &elsewhere.address, 2000 + number);
    }
    while site.good("calls --history --json").lines().count() < 3 {
        thread::sleep(Duration::from_millis(20));
    }
    for words in [
        "user list",
        "user list --json",
        "user list --domain example.com",
        "user list --domain example.org",
        "calls",
        "calls --json",
        "calls --history",
        "calls --history --json --limit 2",
        "calls --history --failed --since 1h",
        "calls --history --user nobody --since 2099-01-01",
        "trunks",
        "why bob",
        "why bob --json",
        "why carol",
        "trace bob",
        "trace bob --json",
        "trace carol",
        "user remove nobody",
        "calls end 7",
        "registrations end nobody",
    ] {
        let here = site.command(words).output().unwrap();
        let there = elsewhere.ask(&token, words);
        assert_eq!(stdout(&there), stdout(&here), "{words}");
        assert_eq!(stderr(&there), stderr(&here), "{words}");
        assert_eq!(there.status, here.status, "{words}");
    }
    for words in ["check", "route 8 --from u1", "route 7 --stranger"] {
        let here = site.command(&format!("{words} --config {}", elsewhere.config));
        let here = { here }.output().unwrap();
        let there = elsewhere.ask(&token, words);
        assert_eq!(stdout(&there), stdout(&here), "{words}");
        assert_eq!(there.status, here.status, "{words}: {}", stderr(&there));
    }
    let row = |output: &Output| -> Value { serde_json::from_slice(&output.stdout).unwrap() };
    let words = "route 8 --from u1 --json";
    let here = site.command(&format!("{words} --config {}", elsewhere.config)).output().unwrap();
    assert_eq!(row(&elsewhere.ask(&token, words)), row(&here));
    let status = elsewhere.ask(&token, "status --totals --json");
    assert!(status.status.success(), "{}", stderr(&status));
    let status = row(&status);
    assert_eq!((&status["running"], &status["users"]), (&true.into(), &1204.into()));
    let checks = |output: &Output| -> Vec<String> {
        let text = stdout(output);
        let lines = text.lines().filter(|line| !line.starts_with("  "));
        lines.map(|line| line.split(':').next().unwrap().to_owned()).collect()
    };
    let here = site.command(&format!("doctor --config {}", elsewhere.config)).output().unwrap();
    let there = elsewhere.ask(&token, "doctor");
    assert_eq!(checks(&there), checks(&here), "{}", stderr(&there));
    assert_eq!(there.status, here.status);
}

#[test]
fn commands_change_the_server_elsewhere() {
    let elsewhere = Elsewhere::new();
    let token = elsewhere.token("operator");
    let good = |words: &str| {
        let output = elsewhere.ask(&token, words);
        assert!(output.status.success(), "{words}: {}", stderr(&output));
        stdout(&output)
    };
    assert_eq!(good("user add bob --password x"), "added sip:bob@example.com\n");
    assert_eq!(good("user add al@example.com --password x"), "added sip:al@example.com\n");
    let again = "sip:bob@example.com has this password already: its registrations stay\n";
    assert_eq!(good("user add bob --password x"), again);
    let changed = "changed the password of sip:bob@example.com\n";
    assert_eq!(good("user add bob --password y"), changed);
    let forward = "sip:bob@example.com: no answer after 9 s to al@example.com\n";
    assert_eq!(good("user forward bob --no-answer al --after 9s"), forward);
    assert_eq!(good("user forward bob"), forward);
    assert!(good("user dnd bob on").contains("do not disturb"));
    let user = elsewhere.site.good("user list");
    assert!(user.contains("bob@example.com (do not disturb, no answer after 9 s"), "{user}");
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let contact = format!("sip:bob@{}", phone.local_addr().unwrap());
    register(&phone, &elsewhere.address, &contact);
    let ended = format!("ended the registration of bob@example.com at {contact}\n");
    assert_eq!(good(&format!("registrations end bob {contact}")), ended);
    assert_eq!(elsewhere.site.good("registrations"), "no user is registered\n");
    assert_eq!(good("user remove bob"), "removed sip:bob@example.com\n");
    assert_eq!(elsewhere.site.good("user list"), "al@example.com\n");
}

#[test]
fn commands_elsewhere_fail_in_words() {
    let elsewhere = Elsewhere::new();
    let (reader, wrong) = (elsewhere.token("reader"), elsewhere.site.file("wrong", "x\n"));
    let bad = |output: Output| {
        assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
        assert_eq!(stdout(&output), "");
        stderr(&output)
    };
    let (wrong, empty) = (show(&wrong), show(&elsewhere.site.file("empty", "\n")));
    for (token, words, text) in [
        (&wrong, "user list", "the token is wrong, or was removed"),
        (&empty, "user list", "has no token on its first line"),
        (&reader, "user add bob --password x", "a token with the role operator"),
        (&reader, "limits", "does not have the use of limits"),
        (&reader, "drain --no-wait", "does not have draining"),
        (&reader, "token list", "does not have tokens"),
        (&reader, "account list", "does not have accounts"),
        (&reader, "messages bob", "does not have message counts"),
        (&reader, "trace --user bob", "does not have marked calls"),
        (&reader, "trace bob --last 1", "--last and --pcapng are not possible"),
        (&reader, "user add bob --password x --auth-name 7", "authentication names"),
        (&reader, "user list --data /x", "only one of them is possible"),
        (&reader, "voicemail list", "run it on the machine of the server"),
        (&reader, "turn bob", "run it on the machine of the server"),
        (&reader, "serve", "run it on the machine of the server"),
        (&reader, "doctor --stun 127.0.0.1", "--ntp and --stun ask from this machine"),
    ] {
        let error = bad(elsewhere.ask(token, words));
        assert!(error.starts_with("error: ") && error.contains(text), "{words}: {error}");
    }
    let url = &*elsewhere.url;
    let token = std::fs::read_to_string(&reader).unwrap();
    // The certificate is not one of a trusted issuer.
    let mut untrusted = command();
    untrusted.args(["--server", url, "user", "list"]).env("BAREBELL_TOKEN", token.trim());
    let error = bad(untrusted.output().unwrap());
    assert!(error.contains("cannot ask https://localhost"), "{error}");
    assert!(error.contains("(--ca names trusted certificates)"), "{error}");
    let chain = show(&elsewhere.site.data().join("tls-chain.pem"));
    let trusted = untrusted.args(["--ca", &chain]).output().unwrap();
    assert!(trusted.status.success(), "{}", stderr(&trusted));
    let error = bad(command().args(["--server", url, "user", "list"]).output().unwrap());
    assert!(error.contains("there is no token: set BAREBELL_TOKEN"), "{error}");
    let error = bad(command().args(["user", "list", "--ca", &chain]).output().unwrap());
    assert!(error.contains("--token-file and --ca need --server"), "{error}");
}

/// The error of a command, if its server sends `answer`.
fn error_after(answer: &str) -> String {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let mut asking = command();
    asking.args(["--server", &url, "calls"]).env("BAREBELL_TOKEN", "x");
    let asking = asking.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut socket, _) = server.accept().unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    assert!(head.starts_with(b"GET /api/v1/calls HTTP/1.1\r\n"));
    socket.write_all(answer.as_bytes()).unwrap();
    drop(socket);
    let output = asking.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    stderr(&output)
}

#[test]
fn other_servers_and_their_redirects_are_refused() {
    let trap = TcpListener::bind("127.0.0.1:0").unwrap();
    trap.set_nonblocking(true).unwrap();
    let response = |head: &str, body: &str| {
        format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let moved =
        response(&format!("302 Found\r\nLocation: http://{}/", trap.local_addr().unwrap()), "");
    assert!(error_after(&moved).contains("no HTTP API of Barebell: it answers 302"));
    assert!(trap.accept().is_err(), "the token went to another server");
    assert!(error_after(&response("200 OK", "<html>")).contains("it answers 200"));
    assert!(error_after(&response("200 OK", "{}")).contains("without a list"));
    let rows = response("200 OK", "{\"items\":[{\"id\":7}]}");
    assert!(error_after(&rows).contains("answers otherwise than this version"));
    let error = error_after(&response("422 No", "{\"error\":\"a\\u001b[2J\"}"));
    assert_eq!(error, "error: a\\u{1b}[2J\n");
    assert!(error_after("SIP/2.0 200 OK\r\n\r\n").contains("cannot ask http://127.0.0.1"));
}
