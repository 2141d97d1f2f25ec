//! Scenario files, run by SIPp and by `scenario`, against each other and against the same servers.

use super::servers::{barebell, turn};
use super::support::{BENCH, Ended, bench_in, bench_with, interrupt};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The scenario files of these tests.
const FILES: [(&str, &str); 4] = [
    ("call.xml", include_str!("../../profiles/sipp-call.xml")),
    ("answer.xml", include_str!("../../profiles/sipp-answer.xml")),
    ("register.xml", include_str!("../scenarios/register.xml")),
    ("play.xml", include_str!("../scenarios/play.xml")),
];

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program in the background, killed at the end.
struct Background(Child);

impl Background {
    fn start(program: &str, folder: &Path, line: &str) -> Self {
        let child = Command::new(program)
            .args(line.split_whitespace())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Self(child.unwrap_or_else(|error| {
            panic!("{program}: {error}; on Debian, apt-get install sip-tester")
        }))
    }

    /// Waits for its end.
    fn ended(mut self) -> Ended {
        let child = std::mem::replace(&mut self.0, Command::new("true").spawn().unwrap());
        child.wait_with_output().unwrap().into()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a program has bound the UDP port.
fn wait_for(port: u16) {
    let start = Instant::now();
    while UdpSocket::bind(("127.0.0.1", port)).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(30), "no program is at port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a program accepts connections at the port.
fn wait_for_listener(port: u16) {
    let start = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(start.elapsed() < Duration::from_secs(30), "no program is at port {port}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs SIPp, and returns its status and the last counts of its messages by column.
fn sipp(folder: &Path, port: u16, line: &str) -> (i32, Vec<(String, u64)>) {
    let line = format!(
        "127.0.0.1:{port} -i 127.0.0.1 -nostdin -timeout 60s -trace_counts -f 1 -m 20 -r 50 -d 200 {line}"
    );
    let ended = Background::start("sipp", folder, &line).ended();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let file = files.into_iter().find(|path| path.to_string_lossy().ends_with("_counts.csv"));
    let file = file.unwrap_or_else(|| panic!("SIPp has written no counts: {ended:?}"));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(file).unwrap();
    let mut lines = text.lines();
    let names = lines.next().unwrap().split(';');
    let values = lines.next_back().unwrap().split(';');
    let counts = names
        .zip(values)
        .filter_map(|(name, value)| Some((name.to_owned(), value.trim().parse().ok()?)));
    (ended.status, counts.collect())
}

/// Runs `scenario`, and returns its status and its figures.
fn ours(folder: &Path, line: &str) -> (i32, Value) {
    let line = format!("scenario {line} --pause 200ms --json --quiet");
    let ended = bench_with(folder, &[("BAREBELL_BIN", barebell().as_os_str())], &line);
    let figures = serde_json::from_str(&ended.out);
    (ended.status, figures.unwrap_or_else(|error| panic!("{error}: {ended:?}")))
}

/// Asserts that the messages of each step that SIPp has counted are those of `figures`.
#[track_caller]
fn assert_same(theirs: &[(String, u64)], figures: &Value) {
    let steps = figures["counts"]["steps"].as_array().unwrap();
    let mut compared = 0;
    for (name, count) in theirs {
        // Columns such as 0_INVITE_Sent, 3_200_Recv, 3_200_Unexp.
        let Some((step, rest)) = name.split_once('_') else { continue };
        let Ok(step) = step.parse::<usize>() else { continue };
        let key = match rest.rsplit('_').next().unwrap_or_default() {
            "Sent" | "Recv" => "count",
            "Unexp" => "unexpected",
            _ => continue,
        };
        compared += 1;
        assert_eq!(steps[step][key].as_u64(), Some(*count), "{name}: {theirs:?}\n{figures:#}");
    }
    assert!(compared >= 5, "{theirs:?}");
}

/// Writes the users of a server, and the fields of their registrations.
fn write_users(folder: &Path) {
    let users: String = (0..20).map(|user| format!("user{user}:secret{user}\n")).collect();
    std::fs::write(folder.join("users"), &users).unwrap();
    let line =
        |user| format!("user{user};[authentication username=user{user} password=secret{user}]\n");
    let fields: String = (0..20).map(line).collect();
    std::fs::write(folder.join("users.csv"), format!("SEQUENTIAL\n{fields}")).unwrap();
}

/// Barebell with the users of users.csv, at a port of its own.
struct Server {
    program: Background,
    port: u16,
}

impl Server {
    fn start(folder: &Path) -> Self {
        write_users(folder);
        let text =
            "[authentication]\nalgorithms = [\"MD5\"]\n[limits]\ntrusted = [\"127.0.0.0/8\"]\n";
        std::fs::write(folder.join("barebell.toml"), text).unwrap();
        let program = barebell().display().to_string();
        let import = "user import --domain bench.example --data data users";
        let ended = Background::start(&program, folder, import).ended();
        assert_eq!(ended.status, 0, "{ended:?}");
        let port = free_port();
        let line = format!(
            "serve --config barebell.toml --data data --domain bench.example --auth on --listen \
             udp:127.0.0.1:{port} --workers 1"
        );
        let program = Background::start(&program, folder, &line);
        wait_for(port);
        Self { program, port }
    }
}

#[test]
fn sipp_and_ours_have_the_same_counts_at_sipp_s_uas() {
    let _turn = turn();
    let (folder, port) = (folder(), free_port());
    let uas = format!("-sn uas -i 127.0.0.1 -p {port} -nostdin");
    let _uas = Background::start("sipp", folder.path(), &uas);
    wait_for(port);
    let (status, theirs) = sipp(folder.path(), port, "-sf call.xml");
    assert_eq!(status, 0, "{theirs:?}");
    let line = format!("call.xml --target udp:127.0.0.1:{port} --calls 20 --rate 50");
    let (status, figures) = ours(folder.path(), &line);
    assert_eq!(status, 0, "{figures:#}");
    assert_eq!(figures["counts"]["succeeded"], 20);
    assert_same(&theirs, &figures);
    // Three workers make the same calls.
    let (status, figures) = ours(folder.path(), &format!("{line} --workers 3"));
    assert_eq!(status, 0, "{figures:#}");
    assert_same(&theirs, &figures);
    assert_eq!(figures["counts"]["call_length"]["count"], 20);
    // The same scenario is refused with line and column once it has an unknown attribute.
    let path = folder.path().join("call.xml");
    let text = std::fs::read_to_string(&path).unwrap().replace("rrs=\"true\"", "colour=\"red\"");
    std::fs::write(path, text).unwrap();
    let ended = bench_in(folder.path(), &format!("scenario {line}"));
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("call.xml, line 28, column 3: the attribute colour"), "{ended:?}");
}

#[test]
fn a_digest_registration_from_a_file_has_the_same_counts_at_barebell() {
    let _turn = turn();
    let folder = folder();
    let server = Server::start(folder.path());
    let line = "-sf register.xml -inf users.csv -key domain bench.example";
    let (status, theirs) = sipp(folder.path(), server.port, line);
    assert_eq!(status, 0, "{theirs:?}");
    let line = format!(
        "register.xml --target udp:127.0.0.1:{} --calls 20 --rate 50 --inf users.csv --key domain \
         bench.example",
        server.port
    );
    let (status, figures) = ours(folder.path(), &line);
    assert_eq!(status, 0, "{figures:#}");
    assert_eq!(figures["counts"]["steps"][3]["count"], 20, "each is challenged: {figures:#}");
    assert_eq!(figures["counts"]["response_times"]["register"]["count"], 20);
    assert_same(&theirs, &figures);
    // With wrong passwords the second REGISTER is refused.
    let text = std::fs::read_to_string(folder.path().join("users.csv")).unwrap();
    std::fs::write(folder.path().join("users.csv"), text.replace("secret", "wrong")).unwrap();
    let (status, figures) = ours(folder.path(), &line);
    assert_eq!(status, 1, "{figures:#}");
    assert_eq!(figures["counts"]["causes"]["unexpected_message"], 20);
    drop(server.program);
}

#[test]
fn a_started_server_takes_registrations_over_each_kind_of_transport() {
    let _turn = turn();
    let folder = folder();
    write_users(folder.path());
    for (sut, over) in [("barebell", "udp"), ("barebell", "tls"), ("kamailio", "tcp")] {
        let line = format!(
            "register.xml --sut {sut} --over {over} --auth --user-file users --sut-workers 2 \
             --calls 20 --rate 50 --inf users.csv --key domain bench.example"
        );
        let (status, figures) = ours(folder.path(), &line);
        assert_eq!(status, 0, "{figures:#}");
        assert_eq!(figures["counts"]["succeeded"], 20);
        assert_eq!(figures["counts"]["steps"][3]["count"], 20, "each is challenged: {figures:#}");
        let target = figures["system"]["target"].as_str().unwrap();
        assert!(target.starts_with(&format!("{over}:127.0.0.1:")), "{target}");
    }
}

#[test]
fn calls_to_an_absent_user_fail_with_the_same_counts() {
    let _turn = turn();
    let folder = folder();
    let server = Server::start(folder.path());
    let line = "-sf call.xml -s nobody";
    let (status, theirs) = sipp(folder.path(), server.port, line);
    assert_eq!(status, 1, "{theirs:?}");
    let line = format!(
        "call.xml --to sip:nobody@127.0.0.1:{} --calls 20 --rate 50 -o report.json -o report.md",
        server.port
    );
    let (status, figures) = ours(folder.path(), &line);
    assert_eq!((status, &figures["counts"]["failed"]), (1, &20.into()), "{figures:#}");
    assert_same(&theirs, &figures);
    let read = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&read).unwrap(), figures);
    let page = std::fs::read_to_string(folder.path().join("report.md")).unwrap();
    assert!(page.contains("failed, unexpected message"), "{page}");
}

#[test]
fn sipp_calls_our_callee() {
    let _turn = turn();
    let (folder, port) = (folder(), free_port());
    let line =
        format!("scenario answer.xml --listen udp:127.0.0.1:{port} --calls 20 --json --quiet");
    let callee = Background::start(BENCH, folder.path(), &line);
    wait_for(port);
    let (status, theirs) = sipp(folder.path(), port, "-sn uac");
    assert_eq!(status, 0, "{theirs:?}");
    let ended = callee.ended();
    assert_eq!(ended.status, 0, "{ended:?}");
    let figures: Value = serde_json::from_str(&ended.out).unwrap();
    let counts: Vec<_> = figures["counts"]["steps"].as_array().unwrap().iter().collect();
    assert!(counts.iter().all(|step| step["count"] == 20), "{figures:#}");
}

#[test]
fn several_workers_wait_for_calls_at_one_port() {
    let _turn = turn();
    for transport in ["udp", "tcp"] {
        let (folder, port) = (folder(), free_port());
        let address = format!("{transport}:127.0.0.1:{port}");
        let line =
            format!("scenario answer.xml --listen {address} --workers 3 --calls 60 --json --quiet");
        let callee = Background::start(BENCH, folder.path(), &line);
        if transport == "udp" {
            wait_for(port);
        } else {
            wait_for_listener(port);
        }
        let line = format!("call.xml --target {address} --workers 4 --calls 60 --recv-timeout 20s");
        let (status, figures) = ours(folder.path(), &line);
        assert_eq!(status, 0, "{transport}: {figures:#}");
        let ended = callee.ended();
        assert_eq!(ended.status, 0, "{transport}: {ended:?}");
        let figures: Value = serde_json::from_str(&ended.out).unwrap();
        // A source has one worker, and each of the sources 15 calls.
        let counts = &figures["counts"];
        assert_eq!(
            (&counts["succeeded"], &counts["held_back"]),
            (&60.into(), &0.into()),
            "{transport}"
        );
    }
}

#[test]
fn a_worker_without_calls_leaves_those_of_others_to_them() {
    let _turn = turn();
    let (folder, port) = (folder(), free_port());
    // The calls of the workers end at different times.
    let pause = r#"<pause distribution="uniform" min="0" max="3000"/>"#;
    let call = FILES[0].1.replace("<pause/>", pause);
    std::fs::write(folder.path().join("call.xml"), call).unwrap();
    let address = format!("udp:127.0.0.1:{port}");
    let line =
        format!("scenario answer.xml --listen {address} --workers 8 --calls 20 --json --quiet");
    let callee = Background::start(BENCH, folder.path(), &line);
    wait_for(port);
    let line = format!(
        "call.xml --target {address} --workers 20 --calls 20 --rate 100 --recv-timeout 20s"
    );
    let (status, figures) = ours(folder.path(), &line);
    assert_eq!(status, 0, "{figures:#}");
    let ended = callee.ended();
    assert_eq!(ended.status, 0, "{ended:?}");
    let figures: Value = serde_json::from_str(&ended.out).unwrap();
    let counts = &figures["counts"];
    assert_eq!((&counts["succeeded"], &counts["held_back"]), (&20.into(), &0.into()));
}

#[test]
fn ours_call_each_other_over_connections_with_audio_that_comes_back() {
    let _turn = turn();
    for transport in ["tcp", "tls", "ws", "wss"] {
        calls_with_audio(transport);
    }
}

/// Two calls of ours to ours, with audio and digits.
#[track_caller]
fn calls_with_audio(transport: &str) {
    let (folder, port) = (folder(), free_port());
    std::fs::write(folder.path().join("tone.ul"), vec![0xff; 4000]).unwrap();
    let address = format!("{transport}:127.0.0.1:{port}");
    let line = format!("scenario answer.xml --listen {address} --rtp-echo --json --quiet");
    let callee = Background::start(BENCH, folder.path(), &line);
    wait_for_listener(port);
    let line = format!("play.xml --target {address} --calls 2 --recv-timeout 20s");
    let (status, figures) = ours(folder.path(), &line);
    assert_eq!(status, 0, "{figures:#}");
    // Two calls, each with two times 25 packets of audio, and seven for each digit.
    let media = &figures["media"];
    assert_eq!((&media["sent"], &media["received"]), (&128.into(), &128.into()), "{media}");
    interrupt(&callee.0);
    let ended = callee.ended();
    assert_eq!(ended.status, 0, "{ended:?}");
    let figures: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(figures["media"]["echoed"], 128, "{figures:#}");
    assert_eq!(figures["counts"]["succeeded"], 2, "{figures:#}");
}
