//! Answers of servers to the fetch of settings, and the file that they must not damage.

mod processes;

use processes::{PHONE, said};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const BEFORE: &str = "# mine\n[[account]]\nuri = \"alice@example.org\"\npassword = \"old\"\n";
const GIVEN: &str = "[[account]]\nuri = \"sip:alice@example.org\"\npassword = \"new\"\n\
                     proxy = \"192.0.2.1:5060\"\ntransport = \"udp\"\n";

/// Fetches a link of a server that sends `answer`. Returns the request, too.
fn fetch(config: &Path, answer: &[u8]) -> (Output, String) {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let link = format!("http://{}/panel/phone/secret/phone.toml", server.local_addr().unwrap());
    let mut phone = Command::new(PHONE);
    phone.args(["provision", "-", "--config"]).arg(config);
    let mut phone = phone
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the phone runs");
    let mut input = phone.stdin.take().expect("a pipe");
    writeln!(input, "{link}").expect("the phone reads");
    let (mut socket, _) = server.accept().expect("a connection");
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte).expect("a request");
        request.extend(byte);
    }
    // The phone may close the connection before it has read all.
    let _ = socket.write_all(answer);
    drop(socket);
    let output = phone.wait_with_output().expect("the phone ends");
    (output, String::from_utf8(request).expect("the request is text"))
}

fn response(head: &str, content: &str) -> Vec<u8> {
    format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{content}", content.len()).into()
}

#[test]
fn the_account_of_a_link_replaces_the_former_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("phone.toml");
    std::fs::write(&config, BEFORE).expect("a file");
    let (output, request) = fetch(&config, &response("200 OK", GIVEN));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(request.starts_with("GET /panel/phone/secret/phone.toml HTTP/1.0\r\n"), "{request}");
    let text = std::fs::read_to_string(&config).expect("the file");
    assert!(text.starts_with("# mine\n") && text.contains("\"new\"") && !text.contains("\"old\""));
    let shown = String::from_utf8(output.stdout).expect("the output is text");
    assert!(
        shown.contains("sip:alice@example.org are in") && !shown.contains("\"new\""),
        "{shown}"
    );
}

#[test]
fn other_answers_leave_the_settings_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("phone.toml");
    std::fs::write(&config, BEFORE).expect("a file");
    let trap = TcpListener::bind("127.0.0.1:0").expect("a port");
    trap.set_nonblocking(true).expect("a mode");
    let place = trap.local_addr().unwrap();
    let moved = response(&format!("302 Found\r\nLocation: http://{place}/"), GIVEN);
    let whole = response("200 OK", GIVEN);
    let long = response("200 OK", &"x".repeat(100_000));
    let endless: Vec<u8> =
        b"HTTP/1.1 200 OK\r\nX: ".iter().copied().chain([b'x'; 100_000]).collect();
    let command = response("200 OK", &format!("{GIVEN}password_command = \"touch {place}\"\n"));
    for (answer, code, text) in [
        (moved, 1, "another place"),
        (response("404 Not Found", ""), 13, "not valid"),
        (response("200 OK", "<html>"), 1, "no settings of this phone"),
        (response("200 OK", ""), 1, "no settings of this phone"),
        (command, 1, "no settings of this phone"),
        (whole[..whole.len() - 1].to_vec(), 16, "early"),
        (Vec::new(), 16, "early"),
        (long, 1, "100000 bytes"),
        (endless, 16, "longer than"),
        (b"SIP/2.0 200 OK\r\n\r\n".to_vec(), 1, "no answer of HTTP"),
    ] {
        let (output, _) = fetch(&config, &answer);
        assert_eq!(output.status.code(), Some(code), "{text}: {output:?}");
        assert!(said(&output).contains(text), "{text}: {output:?}");
        assert_eq!(std::fs::read_to_string(&config).expect("the file"), BEFORE);
    }
    assert!(trap.accept().is_err(), "the phone has followed the redirect");
    let files = std::fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(files, 1, "no other file is left");
}

#[test]
fn a_call_without_an_account_names_the_file_that_provision_writes() {
    let home = tempfile::tempdir().expect("a folder");
    let config = home.path().join(".config/barebell/phone.toml");
    std::fs::create_dir_all(config.parent().expect("a folder")).expect("the folder");
    std::fs::write(&config, BEFORE).expect("a file");
    let call = |more: &[&str]| {
        let mut phone = Command::new(PHONE);
        // No program listens there.
        phone.args(["call", "sip:bob@127.0.0.1:9", "--listen", "127.0.0.1:0"]).args(more);
        phone.env("HOME", home.path()).env_remove("XDG_CONFIG_HOME");
        said(&phone.output().expect("the phone runs"))
    };
    let named = format!("no account is used; --config {}", config.display());
    assert!(call(&[]).contains(&named));
    assert!(!call(&["--config", config.to_str().expect("text")]).contains(&named));
}
