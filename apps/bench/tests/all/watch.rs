//! The live page of a running command.

use crate::support::{BENCH, PeerProcess, bench, interrupt};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// Returns the response to a GET as text. Empty if the page is gone.
fn get(address: &str, path: &str) -> String {
    let mut text = String::new();
    if let Ok(mut socket) = TcpStream::connect(address) {
        let _ =
            write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let _ = socket.read_to_string(&mut text);
    }
    text
}

#[test]
fn the_page_shows_the_load_while_it_runs_and_the_report_until_it_is_interrupted() {
    let peer = PeerProcess::start("");
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(BENCH)
        .args([
            "watch",
            "--listen",
            "127.0.0.1:0",
            "run",
            "--target",
            &format!("udp:{}", peer.address),
        ])
        .args("--rate 50 --duration 3s --users 20 --no-report --max-other-load 100".split(' '))
        .args(["--max-lag", "10s", "--pid", &peer.id().to_string()])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.by_ref().find(|line| line.contains("http://")).expect("the URL of the page");
    let address = line.rsplit_once("http://").unwrap().1.trim_end_matches('/').to_owned();
    assert!(get(&address, "/").contains("live.js"));
    // A second of the load is on the page before the load ends.
    let now = loop {
        let now = get(&address, "/now");
        assert!(now.contains("x-state: running"), "the load ended without a second: {now}");
        if now.contains("operations answered") && now.contains("processors busy") {
            break now;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    assert!(now.contains("50/s offered"), "{now}");
    assert!(get(&address, "/report").starts_with("HTTP/1.1 404"));
    lines.by_ref().find(|line| line.contains("until Ctrl-C")).expect("the end of the load");
    assert!(get(&address, "/now").contains("x-state: report"));
    assert!(get(&address, "/report").contains("Verdict"));
    interrupt(&child);
    assert!(child.wait().unwrap().success());
    assert_eq!(get(&address, "/"), "");
}

#[test]
fn only_commands_with_loads_are_watched_and_the_status_is_that_of_the_command() {
    let ended = bench("watch peer");
    assert_eq!((ended.status, ended.err.contains("watch is for run")), (2, true), "{ended:?}");
    let ended = bench("watch run --no-such-flag");
    assert_eq!((ended.status, ended.err.contains("--no-such-flag")), (2, true), "{ended:?}");
    let peer = PeerProcess::start("");
    let ended = bench(&format!(
        "watch --listen 127.0.0.1:0 --no-wait run --target udp:{} --rate 50 --duration 200ms \
         --users 20 --no-report --require success<1% --max-other-load 100 --max-lag 10s",
        peer.address
    ));
    assert_eq!(ended.status, 1, "{ended:?}");
}
