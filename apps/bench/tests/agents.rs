//! Several load machines, with real networks, processes and `ssh`.

mod lab;

use lab::{Lab, Program, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BENCH: &str = env!("CARGO_BIN_EXE_barebell-bench");
/// The machines of a lab.
const CONTROLLER: usize = 0;
const FIRST: usize = 1;
const SECOND: usize = 2;
const SERVER: usize = 3;
const PORT: u16 = 17860;

/// A lab with two machines that `ssh` reaches.
struct Two {
    lab: Lab,
    ssh: String,
}

impl Two {
    fn new() -> Self {
        let mut lab = Lab::new(4);
        let ssh = lab.reach(&[FIRST, SECOND]);
        Self { lab, ssh }
    }

    /// Starts a server that answers everything.
    fn peer(&self) -> Program {
        let mut command = self.lab.command(SERVER, BENCH);
        command.args(["peer", "--listen", &format!("{}:{PORT}", Lab::address(SERVER))]);
        let mut peer = Program::start(command.stdout(Stdio::piped()));
        let mut line = String::new();
        let output = peer.0.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert!(line.starts_with("listening"), "{line}");
        peer
    }

    /// Returns the controller command, with load from both machines.
    fn controller(&self, arguments: &str) -> Command {
        let mut command = self.lab.command(CONTROLLER, BENCH);
        command.args(arguments.split(' '));
        command.args(["--target", &format!("udp:{}:{PORT}", Lab::address(SERVER))]);
        let agents = [FIRST, SECOND].map(|index| format!("ssh:{}", Lab::address(index)));
        command.args(["--agents", &agents.join(","), "--no-report", "--domain", "lab.example"]);
        command.env("BAREBELL_SSH", &self.ssh);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Asserts that no process or file remains on the load machines.
    fn assert_nothing_is_left(&self) {
        for index in [FIRST, SECOND] {
            until("end of the agents", || self.lab.agents(index).is_empty().then_some(()));
        }
        let left: Vec<_> = fs::read_dir(self.lab.temporary()).expect("a folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

fn record(output: &Output) -> Value {
    let record: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(output)));
    match record {
        Value::Array(mut records) => records.remove(0),
        record => record,
    }
}

/// Waits until the first second of the load is reported.
fn wait_for_load(controller: &mut Child) -> impl Read + use<> {
    let mut errors = BufReader::new(controller.stderr.take().expect("a pipe"));
    let mut said = String::new();
    while !said.contains("/s answered") {
        let read = errors.read_line(&mut said).expect("text");
        assert!(read > 0, "the load did not begin: {said}");
    }
    errors
}

#[test]
fn two_machines_put_one_load_on_a_third() {
    let two = Two::new();
    let _peer = two.peer();
    for (arguments, offered) in [
        ("run --operation register --rate 400 --duration 2s --users 301 --drain 5s", 800),
        ("run --operation invite --rate 100 --duration 2s --users 40 --drain 5s --settle 0", 200),
    ] {
        let mut command = two.controller(arguments);
        let output = command
            .args(["--json", "--max-lag", "10s", "--max-other-load", "100"])
            .output()
            .expect("a run");
        let record = record(&output);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        let run = &record["runs"][0];
        assert_eq!(run["counts"]["offered"], offered, "{run}");
        assert_eq!(run["counts"]["succeeded"], offered, "{run}");
        assert_eq!(run["delays"]["response"]["count"], offered, "{run}");
        assert_eq!(run["load"]["workers"], 2);
        let shares = run["generator"]["shares"].as_array().expect("shares");
        for (share, index) in shares.iter().zip([FIRST, SECOND]) {
            assert_eq!(share["agent"], format!("ssh:{}", Lab::address(index)));
            assert_eq!(share["offered"], offered / 2, "{share}");
            assert!(share["ceiling"]["rate"].as_f64() > Some(0.0), "{share}");
        }
        let sum = |key: &str| shares.iter().map(|share| share[key].as_u64().unwrap()).sum::<u64>();
        assert_eq!(run["generator"]["operations"], sum("operations"));
        assert_eq!(run["generator"]["cpu_user_us"], sum("cpu_user_us"));
        // The seconds are sums of both at the same time: no second has the load of one alone.
        let seconds = run["series"].as_array().expect("seconds");
        let of_seconds: u64 = seconds.iter().map(|it| it["offered"].as_u64().unwrap()).sum();
        assert_eq!(of_seconds, run["generator"]["operations"], "{run}");
        let rate = offered as u64 / 2;
        let measured = seconds.iter().filter(|it| it["measured"] == true);
        assert!(measured.clone().count() >= 2, "{run}");
        assert!(measured.take(2).all(|it| it["offered"] == rate), "{run}");
        assert_eq!(record["agents"].as_array().map(Vec::len), Some(2));
    }
    two.assert_nothing_is_left();
}

/// Starts Barebell on the machine of the server, without authentication.
fn barebell(two: &Two) -> Program {
    let built = Path::new(BENCH).with_file_name("barebell");
    let program = std::env::var_os("BAREBELL_BIN").map_or(built, PathBuf::from);
    let folder = two.lab.folder.path();
    let config = folder.join("barebell.toml");
    fs::write(&config, "[limits]\ntrusted = [\"10.99.0.0/24\"]\n").expect("a file");
    let listen = format!("udp:{}:{PORT}", Lab::address(SERVER));
    let mut command = two.lab.command(SERVER, &program.display().to_string());
    command.args(["serve", "--auth", "off", "--domain", "lab.example", "--listen", &listen]);
    command.arg("--config").arg(config).arg("--data").arg(folder.join("data"));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Program::start(&mut command)
}

#[test]
fn callers_of_two_machines_call_the_callees_of_both() {
    let two = Two::new();
    let _server = barebell(&two);
    let arguments = "media --calls 8 --users 60 --audio 1s --duration 2s \
        --max-lag 10s --max-other-load 100 --settle 0 \
                     --no-probe --no-headroom --quiet --json";
    // The server may not listen yet: then no callee can register.
    let output = until("server", || {
        let words: Vec<&str> = arguments.split_ascii_whitespace().collect();
        let output = two.controller(&words.join(" ")).output().expect("a run");
        output.status.success().then_some(output)
    });
    let record = record(&output);
    let run = &record["runs"][0];
    let (counts, media) = (&run["counts"], &run["media"]);
    assert!(counts["offered"].as_u64() >= Some(8), "{counts}");
    assert_eq!(counts["succeeded"], counts["offered"], "{counts}");
    assert_eq!(media["sound"]["unheard"], 0, "{media}");
    assert!(media["held"].as_f64() > Some(4.0), "the calls of both machines: {media}");
    assert_eq!(run["delays"]["rrd"]["count"], run["delays"]["srd"]["count"], "{run}");
    // The delay one way is known of calls within a machine only.
    let (received, known) = (&media["forward"]["received"], &media["forward"]["delay"]["count"]);
    assert!(known.as_u64() > Some(0) && known.as_u64() < received.as_u64(), "{media}");
    assert_eq!(record["agents"].as_array().map(Vec::len), Some(2));
    two.assert_nothing_is_left();
}

#[test]
fn the_calls_of_a_sweep_with_media_come_from_two_machines() {
    let two = Two::new();
    let _server = barebell(&two);
    let arguments = "sweep --operation invite --register-first --rates 4,6 --hold 1s --duration 2s \
                     --media pcmu --users 60 --max-lag 10s --settle 0 --no-probe \
                     --no-headroom --quiet --json";
    let output = until("server", || {
        let words: Vec<&str> = arguments.split_ascii_whitespace().collect();
        let output = two.controller(&words.join(" ")).output().expect("a run");
        output.status.success().then_some(output)
    });
    let record = record(&output);
    let runs = record["runs"].as_array().expect("runs");
    for (run, rate) in runs.iter().zip([4, 6]) {
        let (counts, media) = (&run["counts"], &run["media"]);
        assert_eq!(counts["offered"], 2 * rate, "{run}");
        assert_eq!(counts["succeeded"], counts["offered"], "{counts}");
        assert_eq!(media["sound"]["unheard"], 0, "{media}");
        // The delay one way is known of calls within a machine only.
        let (received, known) =
            (&media["forward"]["received"], &media["forward"]["delay"]["count"]);
        assert!(known.as_u64() > Some(0) && known.as_u64() < received.as_u64(), "{media}");
    }
    assert_eq!(record["agents"].as_array().map(Vec::len), Some(2));
    two.assert_nothing_is_left();
}

#[test]
fn a_sender_here_calls_a_receiver_on_another_machine() {
    let two = Two::new();
    let _peer = two.peer();
    let mut command = two.lab.command(CONTROLLER, BENCH);
    let arguments = "qos --callers 1,20 --repeats-of-step 2 --hold 100ms \
        --max-lag 10s --max-other-load 100 --settle 0 \
                     --quiet --no-report --json --domain lab.example";
    command.args(arguments.split_ascii_whitespace());
    command.args(["--target", &format!("udp:{}:{PORT}", Lab::address(SERVER))]);
    command.args(["--receiver", &format!("ssh:{}", Lab::address(FIRST))]);
    command.env("BAREBELL_SSH", &two.ssh).stdin(Stdio::null());
    let output = command.output().expect("a run");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let record = record(&output);
    let runs = record["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2 * 2 * 2);
    for (run, callers) in runs.iter().zip([1_u64, 1, 1, 1, 20, 20, 20, 20]) {
        // Each machine registers its own users, and all calls are the sender's.
        let is_call = run["load"]["operation"] == "invite";
        let offered = if is_call { callers } else { 2 * callers };
        assert_eq!(run["counts"]["offered"], offered, "{run}");
        assert_eq!(run["counts"]["succeeded"], offered, "{run}");
        assert_eq!(run["counts"]["unexpected"], 0, "{run}");
        let shares = run["generator"]["shares"].as_array().cloned().unwrap_or_default();
        let of_receiver: Vec<u64> =
            shares.iter().map(|share| share["offered"].as_u64().expect("a count")).collect();
        assert_eq!(of_receiver, if is_call { vec![] } else { vec![callers] }, "{run}");
    }
    assert_eq!(record["agents"].as_array().map(Vec::len), Some(1));
    two.assert_nothing_is_left();
}

/// Answers requests with 200 until `ending` is set, and returns the users by source address.
fn answer(socket: &UdpSocket, ending: &AtomicBool) -> BTreeMap<String, BTreeSet<String>> {
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut buffer = [0; 65_536];
    while !ending.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let request = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let mut response = "SIP/2.0 200 OK\r\n".to_owned();
        for line in request.lines().skip(1) {
            let name = line.split(':').next().unwrap_or("").to_ascii_lowercase();
            match &name[..] {
                "via" | "v" | "from" | "f" | "call-id" | "i" | "cseq" => response += line,
                "to" | "t" => response += &format!("{line};tag=1"),
                "contact" | "m" => response += &format!("{line};expires=3600"),
                _ => continue,
            }
            response += "\r\n";
            if matches!(&name[..], "to" | "t")
                && request.starts_with("REGISTER")
                && let Some((user, _)) =
                    line.split_once("sip:").and_then(|(_, rest)| rest.split_once('@'))
            {
                users.entry(from.ip().to_string()).or_default().insert(user.to_owned());
            }
        }
        response += "Content-Length: 0\r\n\r\n";
        let _ = socket.send_to(response.as_bytes(), from);
    }
    users
}

#[test]
fn each_machine_has_users_of_its_own() {
    let two = Two::new();
    let ending = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&ending);
    let server = two.lab.spawn(SERVER, move || {
        let socket = UdpSocket::bind(("0.0.0.0", PORT)).expect("a socket");
        let wait = std::time::Duration::from_millis(50);
        socket.set_read_timeout(Some(wait)).expect("a timeout");
        answer(&socket, &stop)
    });
    let arguments =
        "run --operation register-update --rate 300 --duration 1s --users 90 --drain 5s";
    let output = two
        .controller(arguments)
        .args(["-q", "--max-lag", "10s", "--max-other-load", "100"])
        .output();
    let output = output.expect("a run");
    ending.store(true, Ordering::Relaxed);
    let users = server.join().expect("a server");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let of = |index| users.get(&Lab::address(index)).cloned().unwrap_or_default();
    let names = |range: std::ops::Range<usize>| -> BTreeSet<String> {
        range.map(|number| format!("user{number:06}")).collect()
    };
    assert_eq!(of(FIRST), names(0..44));
    assert_eq!(of(SECOND), names(44..90));
    assert_eq!(users.len(), 2, "the controller itself has registered nobody");
    two.assert_nothing_is_left();
}

#[test]
fn an_agent_that_is_killed_is_named_and_ends_the_others() {
    let two = Two::new();
    let _peer = two.peer();
    let arguments = "run --operation options --rate 200 --duration 10m --users 40";
    let mut controller = Program::start(&mut two.controller(arguments));
    let mut errors = wait_for_load(&mut controller.0);
    let agents = two.lab.agents(SECOND);
    assert_eq!(agents.len(), 1);
    kill(Pid::from_raw(agents[0]), Signal::SIGKILL).expect("the agent");
    let mut said = String::new();
    errors.read_to_string(&mut said).expect("text");
    let status = controller.0.wait().expect("an end");
    let name = format!("agent ssh:{} has ended in the middle", Lab::address(SECOND));
    assert!(said.contains(&name), "{said}");
    assert_eq!(status.code(), Some(2), "{said}");
    two.assert_nothing_is_left();
}

#[test]
fn an_interrupted_run_writes_its_results_and_cleans_up() {
    let two = Two::new();
    let _peer = two.peer();
    let arguments = "run --operation options --rate 200 --duration 10m --users 40";
    let mut controller = Program::start(two.controller(arguments).arg("--json"));
    let mut errors = wait_for_load(&mut controller.0);
    // To the whole group, as a terminal does.
    let group = Pid::from_raw(controller.0.id().cast_signed());
    nix::sys::signal::killpg(group, Signal::SIGINT).expect("the controller");
    let mut said = String::new();
    errors.read_to_string(&mut said).expect("text");
    let mut stdout = Vec::new();
    controller.0.stdout.take().expect("a pipe").read_to_end(&mut stdout).expect("text");
    let status = controller.0.wait().expect("an end");
    assert_eq!(status.code(), Some(1), "{said}");
    let output = Output { status, stdout, stderr: said.into_bytes() };
    let record = record(&output);
    let doubts = record["runs"][0]["doubts"].as_array().expect("doubts");
    assert!(doubts.iter().any(|it| it == "the run was stopped before its end"), "{doubts:?}");
    assert!(record["runs"][0]["counts"]["succeeded"].as_u64() > Some(0));
    two.assert_nothing_is_left();
}

#[test]
fn a_killed_controller_leaves_no_agents() {
    let two = Two::new();
    let _peer = two.peer();
    let arguments = "run --operation options --rate 200 --duration 10m --users 40";
    let mut controller = Program::start(&mut two.controller(arguments));
    let _errors = wait_for_load(&mut controller.0);
    controller.0.kill().expect("the controller");
    controller.0.wait().expect("an end");
    two.assert_nothing_is_left();
}

/// A machine with a script as `ssh`: this machine, with other programs first in its PATH.
struct Fake(tempfile::TempDir);

impl Fake {
    fn new(programs: &[(&str, &str)]) -> Self {
        let fake = Self(tempfile::tempdir().expect("a folder"));
        let write = |path: &Path, text: &str| {
            fs::write(path, text).expect("a file");
            fs::set_permissions(path, fs::Permissions::from_mode(0o700)).expect("a program");
        };
        fs::create_dir(fake.path("bin")).expect("a folder");
        fs::create_dir(fake.path("tmp")).expect("a folder");
        for (name, text) in programs {
            write(&fake.path("bin").join(name), &format!("#!/bin/sh\n{text}\n"));
        }
        let script = format!(
            "case \"$*\" in *nowhere*) echo no such host >&2; exit 255 ;; esac\n\
             for last; do :; done\nexport PATH={}:/usr/bin:/bin TMPDIR={} LOG={}\n\
             exec sh -c \"$last\"\n",
            fake.path("bin").display(),
            fake.path("tmp").display(),
            fake.path("log").display()
        );
        write(&fake.path("ssh"), &script);
        fake
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a controller of `agents`.
    fn run(&self, agents: &str, options: &[&str]) -> Output {
        let output = Command::new(BENCH)
            .args(["run", "--target", "udp:127.0.0.1:9", "--agents", agents, "--no-report"])
            .args(options)
            .env("BAREBELL_SSH", format!("sh {}", self.path("ssh").display()))
            .stdin(Stdio::null())
            .output();
        output.expect("a run")
    }

    /// Returns the content of `$LOG`.
    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Returns the files in the folder for temporary files.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("tmp")).expect("a folder");
        entries.map(|it| it.expect("a name").file_name().display().to_string()).collect()
    }
}

#[test]
fn machines_that_cannot_run_an_agent_are_refused_by_name() {
    let version = env!("CARGO_PKG_VERSION");
    let says_version = format!("[ \"$1\" = --version ] && echo barebell-bench {version} && exit\n");
    let other = says_version.clone()
        + "echo '{\"Hello\":{\"version\":\"0.0.1\",\"protocol\":1,\
        \"machine\":{\"host\":\"\",\"cpu\":\"\",\"cores\":1,\"memory\":0,\"system\":\"\"}}}'; cat";
    let garbage = says_version.clone() + "echo hello; exit 3";
    for (programs, expected) in [
        (vec![("uname", "echo Linux s390x")], "agent ssh:elsewhere is a Linux s390x, where this"),
        (vec![("uname", "exit 255")], "agent ssh:elsewhere is a "),
        (vec![("barebell-bench", &other[..])], "agent ssh:elsewhere has another barebell-bench"),
        (
            vec![("barebell-bench", &garbage[..])],
            "agent ssh:elsewhere does not start: exit status: 3",
        ),
        (vec![("cat", "head -c 1000")], "agent ssh:elsewhere does not start: "),
        (
            vec![("mktemp", "echo no room >&2; exit 1")],
            "agent ssh:elsewhere does not start: no room",
        ),
    ] {
        let fake = Fake::new(&programs);
        let output = fake.run("ssh:elsewhere", &[]);
        assert_eq!(output.status.code(), Some(2), "{programs:?}: {}", text(&output));
        assert!(text(&output).contains(expected), "{programs:?}: {}", text(&output));
        assert_eq!(fake.left(), [""; 0], "{programs:?}");
    }
}

#[test]
fn no_copy_stays_where_another_machine_fails() {
    let fake = Fake::new(&[]);
    let output = fake.run("ssh:nowhere,ssh:elsewhere", &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    let expected = "agent ssh:nowhere does not start: no such host";
    assert!(text(&output).contains(expected), "{}", text(&output));
    until("removed copy", || fake.left().is_empty().then_some(()));
}

#[test]
fn the_program_is_not_copied_where_it_is() {
    let theirs = format!("echo \"$@\" >> $LOG; exec {BENCH} \"$@\"");
    let fake = Fake::new(&[("barebell-bench", &theirs), ("mktemp", "echo mktemp >> $LOG; exit 1")]);
    let output = fake.run("ssh:elsewhere", &[]);
    // No server is listening: this is detected after the start of the agent.
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("no SIP server answers"), "{}", text(&output));
    assert_eq!(fake.log(), "--version\nagent\n");
}

#[test]
fn a_copy_that_is_kept_is_used_again() {
    let fake = Fake::new(&[("mktemp", "echo mktemp >> $LOG; exec /usr/bin/mktemp \"$@\"")]);
    for _ in 0..2 {
        let output = fake.run("ssh:elsewhere", &["--keep-agents"]);
        assert!(text(&output).contains("no SIP server answers"), "{}", text(&output));
        let left = fake.left();
        assert_eq!(left.len(), 1, "{left:?}");
        let name = concat!("barebell-bench-", env!("CARGO_PKG_VERSION"), "-");
        assert!(left[0].starts_with(name), "{left:?}");
    }
    assert_eq!(fake.log(), "mktemp\n");
}
