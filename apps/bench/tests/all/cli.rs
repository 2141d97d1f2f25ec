//! The exit status and the messages of the program.

use super::support::{BENCH, Ended, PeerProcess, bench, bench_in, signal};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// A short load, with a wide limit on the lag for a busy machine.
const SHORT: &str = "--duration 500ms --warmup 0 --tail 0 --rate 100 --users 20 \
    --max-lag 10s --max-other-load 100 --quiet \
                     --no-report";

fn run(peer: &PeerProcess, more: &str) -> Ended {
    bench(&format!("run --target udp:{} {SHORT} {more}", peer.address))
}

#[test]
fn a_valid_run_whose_criteria_hold_ends_with_0() {
    let peer = PeerProcess::start("");
    let ended = run(&peer, "--require success>=100%,timed_out<=0");
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.out.contains("required success>=100%: held"), "{ended:?}");
    assert!(!ended.out.contains("NOT VALID"));
    let said = peer.finish();
    // Including the probe.
    assert!(said.contains(" 51 OPTIONS"), "{said}");
}

#[test]
fn a_criterion_that_does_not_hold_ends_with_1() {
    let peer = PeerProcess::start("--fail options:5=503");
    let ended = run(&peer, "--require success>=100%");
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.out.contains("required success>=100%: did NOT hold, seen 80"), "{ended:?}");
    assert!(ended.out.contains("10 refused"), "{ended:?}");
    // Without criteria, every operation must succeed.
    let ended = run(&peer, "");
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.out.contains("FAILED: 10 of 50 operations failed"), "{ended:?}");
    assert!(ended.out.contains("final responses: OPTIONS 200 x 40, 503 x 10"), "{ended:?}");
    assert_eq!(run(&peer, "--require success>=80%").status, 0);
}

#[test]
fn a_run_without_a_success_fails() {
    let peer = PeerProcess::start("--fail options=503");
    for more in ["", "--require success>=0%"] {
        let ended = run(&peer, more);
        assert_eq!(ended.status, 1, "{ended:?}");
        assert!(ended.out.contains("FAILED: no operation succeeded"), "{ended:?}");
        assert!(ended.out.contains("final responses: OPTIONS 503 x 50"), "{ended:?}");
    }
}

#[test]
fn a_run_that_is_not_valid_ends_with_1_and_says_why() {
    let peer = PeerProcess::start("");
    let ended = run(&peer, "--operation register-update --auth");
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.out.contains("NOT VALID: authentication was expected"), "{ended:?}");

    let asking = PeerProcess::start("--auth");
    let ended = run(&asking, "--operation register-update");
    assert_eq!(ended.status, 1, "{ended:?}");
    assert!(ended.out.contains("add --auth"), "{ended:?}");
    assert_eq!(run(&asking, "--operation register-update --auth").status, 0);
}

#[test]
fn a_rate_beyond_the_generators_own_is_not_valid() {
    let peer = PeerProcess::start("");
    let ended = bench(&format!(
        "run --target udp:{} --rate 2000000 --duration 20ms --warmup 0 --tail 0 --t1 10ms --workers 1 \
         --quiet --no-report --json",
        peer.address
    ));
    assert_eq!(ended.status, 1, "{ended:?}");
    let record = ended.record();
    let doubts = record["runs"][0]["doubts"].to_string();
    assert!(doubts.contains("against an ideal peer"), "{doubts}");
    assert!(record["runs"][0]["generator"]["ceiling"]["rate"].as_f64().unwrap() < 2_000_000.0);
}

#[test]
fn impossible_commands_end_with_2_and_advice() {
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (line, words) in [
        ("run".to_owned(), "--target udp:HOST:PORT"),
        ("run --target nonsense:1:2:3".to_owned(), "nonsense"),
        (format!("run --target udp:{nobody}"), "no SIP server answers"),
        (format!("run --target tcp:{nobody}"), "no SIP server answers"),
        (format!("run --target udp:{nobody} --rate fast"), "above 0"),
        (format!("run --target udp:{nobody} --duration 5"), "such as 30s"),
        (format!("run --target udp:{nobody} --operation dance"), "register-update"),
        (format!("run --target udp:{nobody} --require fun>3"), "fun"),
        (format!("run --target udp:{nobody} --user-file /nowhere/users"), "/nowhere/users"),
        (format!("run --target udp:{nobody} --user-pattern nameonly"), "nameonly"),
        (format!("sweep --target udp:{nobody} --rates 10..5"), "LOWEST..HIGHEST"),
        ("run --sut nonsense".to_owned(), "nonsense"),
        ("report /nowhere/record.json".to_owned(), "/nowhere/record.json"),
        ("capture /nowhere/file.pcap".to_owned(), "/nowhere/file.pcap"),
        ("peer --fail 999".to_owned(), "200 to 699"),
        ("dance".to_owned(), "--help"),
    ] {
        let ended = bench(&line);
        assert_eq!(ended.status, 2, "{line}: {ended:?}");
        assert!(ended.err.contains(words), "{line}: {}", ended.err);
    }
    let peer = PeerProcess::start("");
    let ended = run(&peer, "--sockets operation");
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("--sockets operation needs connections"), "{ended:?}");
    let refusing = PeerProcess::start("--fail register=403");
    let ended = run(&refusing, "--operation register");
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("REGISTER answered 403"), "{ended:?}");
}

#[test]
fn unwritable_outputs_are_reported_before_the_run() {
    let peer = PeerProcess::start("");
    let target = format!("--target udp:{} --quiet", peer.address);
    for (command, name) in [
        (format!("run {target}"), "r.pdf"),
        (format!("run {target}"), "/nowhere/r.json"),
        (format!("sweep {target}"), "noform"),
        (format!("limit {target}"), "/nowhere/r.html"),
        (format!("burst {target}"), "r.pdf"),
        (format!("qos {target}"), "/nowhere/r.csv"),
        (format!("proxy {target}"), "/nowhere/r.xml"),
        (format!("compare {target}"), "/nowhere/r.md"),
        ("srtp".to_owned(), "/nowhere/r.html"),
        ("report /nowhere/record.json".to_owned(), "/nowhere/r.html"),
    ] {
        let ended = bench(&format!("{command} -o {name}"));
        assert_eq!(ended.status, 2, "{command}: {ended:?}");
        assert!(ended.err.contains(name), "{command}: {ended:?}");
    }
    // No request was sent.
    let said = peer.finish();
    assert!(said.contains(" 0 OPTIONS"), "{said}");
    // Existing files are unchanged, and no new files remain.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("old.json"), "old").unwrap();
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ended =
        bench_in(folder.path(), &format!("run --target udp:{nobody} -o old.json -o new.html"));
    assert_eq!(ended.status, 2, "{ended:?}");
    assert_eq!(std::fs::read_to_string(folder.path().join("old.json")).unwrap(), "old");
    assert!(!folder.path().join("new.html").exists());
}

#[test]
fn a_full_disk_and_a_closed_pipe_are_reported() {
    let peer = PeerProcess::start("");
    let folder = tempfile::tempdir().unwrap();
    let line = format!("run --target udp:{} {SHORT}", peer.address);
    let record = bench(&format!("{line} --json")).out;
    std::fs::write(folder.path().join("r.json"), record).unwrap();
    for line in [
        line.clone(),
        format!("{line} --json"),
        "report r.json -o r.html".to_owned(),
        "peer --listen 127.0.0.1:0 --duration 1ms".to_owned(),
        "srtp --rates 2000,4000 --repeats 1 --duration 50ms --sources 20".to_owned(),
        "--help".to_owned(),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for out in [Stdio::from(full), Stdio::from(closed)] {
            let ended = Command::new(BENCH)
                .current_dir(folder.path())
                .args(line.split_whitespace())
                .stdout(out)
                .output()
                .unwrap();
            let ended = Ended::from(ended);
            assert_eq!(ended.status, 2, "{line}: {ended:?}");
            assert!(ended.err.contains("standard output cannot be written"), "{line}: {ended:?}");
        }
    }
    // With both outputs full, the exit status is the same.
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(BENCH);
    command.args(line.split_whitespace()).stdout(full()).stderr(full());
    assert_eq!(command.status().unwrap().code(), Some(2));
    // A report on a full device is an error, and the others are written.
    std::os::unix::fs::symlink("/dev/full", folder.path().join("full.json")).unwrap();
    let line = line.replace("--no-report", "-o full.json -o good.json");
    let ended = bench_in(folder.path(), &line);
    assert_eq!(ended.status, 2, "{ended:?}");
    assert!(ended.err.contains("full.json cannot be written"), "{ended:?}");
    assert!(ended.out.contains("offered") && ended.out.contains("report: good.json"), "{ended:?}");
    assert!(folder.path().join("good.json").exists());
}

#[test]
fn an_invalid_capture_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    // The header of a file without packets.
    let header =
        [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    std::fs::write(folder.path().join("good.pcap"), header).unwrap();
    std::fs::write(folder.path().join("bad.pcap"), "no capture").unwrap();
    for more in ["", " --json"] {
        let ended = bench_in(
            folder.path(),
            &format!("capture good.pcap bad.pcap nowhere.pcap good.pcap{more}"),
        );
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.contains("bad.pcap") && ended.err.contains("nowhere.pcap"), "{ended:?}");
        assert_eq!(ended.out.matches("good.pcap").count(), 2, "{ended:?}");
    }
}

#[test]
fn a_record_is_not_half_read() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("empty.json", ""), ("cut.json", "{\"format\":1,"), ("other.json", "{}")] {
        std::fs::write(folder.path().join(name), text).unwrap();
        let ended = bench_in(folder.path(), &format!("report {name}"));
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.contains(name), "{ended:?}");
    }
}

/// Returns a percentile of a delay of the first run in milliseconds.
fn millis(record: &Value, delay: &str, field: &str) -> f64 {
    let histogram = &record["runs"][0]["delays"][delay];
    histogram[field].as_f64().unwrap_or_else(|| panic!("no {delay} {field} in {record}")) / 1000.0
}

#[test]
fn a_generator_that_was_held_up_says_so() {
    let peer = PeerProcess::start("--delay responses=2ms");
    let child = under_load(&peer, "--rate 500 --duration 4s --warmup 0 --tail 0");
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_millis(600));
    signal(&child, Signal::SIGCONT);
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!(ended.status, 1, "{ended:?}");
    let record = ended.record();
    let doubts = record["runs"][0]["doubts"].to_string();
    assert!(doubts.contains("the generator was late"), "{doubts}");
    assert_eq!(record["runs"][0]["counts"]["offered"], 2000, "what was late was done all the same");
    // A stall of 600 ms in 4 s: the last hundredth was late by at least 500 ms.
    let (lag, schedule) = (
        record["runs"][0]["generator"]["lag"]["p99_us"].as_f64().unwrap() / 1000.0,
        millis(&record, "from_schedule", "p99_us"),
    );
    assert!(lag > 500.0, "{lag} ms");
    assert!(schedule > 500.0, "{schedule} ms");
    // The stall was not the server's, whose delay stays at 2 ms.
    let response = millis(&record, "response", "p50_us");
    assert!((2.0..100.0).contains(&response), "{response} ms");
}

/// Starts a run, and returns it after the first report of its load.
fn under_load(peer: &PeerProcess, more: &str) -> Child {
    started("run", peer, more)
}

/// Starts a search for the limit, and returns it after the first report of its load.
fn searching(peer: &PeerProcess, more: &str) -> Child {
    started("limit", peer, more)
}

fn started(command: &str, peer: &PeerProcess, more: &str) -> Child {
    started_under("", command, peer, more).0
}

/// As `started`, with the program started by `under`; also returns its standard error, complete at
/// the end.
fn started_under(
    under: &str,
    command: &str,
    peer: &PeerProcess,
    more: &str,
) -> (Child, JoinHandle<String>) {
    let mut program = match under {
        "" => Command::new(BENCH),
        under => {
            let mut words = under.split(' ');
            let mut program = Command::new(words.next().unwrap());
            program.args(words).arg(BENCH);
            program
        }
    };
    let mut child = program
        .args([command, "--target", &format!("udp:{}", peer.address)])
        .args("--users 20 --json --no-report".split(' '))
        .args(more.split(' '))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("/s offered") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0, "it has ended");
    }
    // The pipe is drained, so that further output does not block the program.
    let told = std::thread::spawn(move || {
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        rest
    });
    (child, told)
}

#[test]
fn a_crashed_server_is_named_and_its_measurements_kept() {
    for is_watched in [false, true] {
        let mut peer = PeerProcess::start("");
        let pid = if is_watched { format!(" --pid {}", peer.id()) } else { String::new() };
        let more = format!("--rate 100 --duration 4s --warmup 0 --drain 1s --repeats 2{pid}");
        let child = under_load(&peer, &more);
        peer.kill();
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!(ended.status, 1, "{ended:?}");
        let record = ended.record();
        assert_eq!(record["runs"].as_array().unwrap().len(), 1, "there was nobody to go on with");
        assert!(record["trouble"].as_str().unwrap().contains("has ended"), "{record}");
        let doubts = record["runs"][0]["doubts"].to_string();
        assert!(doubts.contains("stopped answering") && doubts.contains("refused"), "{doubts}");
        let down = &record["runs"][0]["down"];
        assert_eq!(down["has_ended"], is_watched, "{down}");
        let first = if is_watched { "the server died at " } else { "the server went down at " };
        assert!(doubts.starts_with(&format!("[\"{first}")), "{doubts}");
        assert!(record["runs"][0]["counts"]["succeeded"].as_u64().unwrap() > 0);
        assert_eq!(record["runs"][0]["watch"]["samples"].is_array(), is_watched);
    }
}

#[test]
fn a_run_over_passes_ends_with_the_server_and_keeps_its_measurements() {
    for is_watched in [false, true] {
        let mut peer = PeerProcess::start("");
        let folder = tempfile::tempdir().unwrap();
        let pid = if is_watched { format!(" --pid {}", peer.id()) } else { String::new() };
        // Ten passes per second, and a duration beyond an hour.
        let report = folder.path().join("dead.md");
        let more = format!(
            "--operation register --rate 200 --duration 1h --warmup 0 -o {}{pid}",
            report.display()
        );
        let (child, _told) = started_under("", "run", &peer, &more);
        peer.kill();
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!(ended.status, 1, "{ended:?}");
        let text = std::fs::read_to_string(&report).unwrap();
        let verb = if is_watched { "died" } else { "went down" };
        assert!(text.contains(&format!("the server {verb} at ")), "{text}");
        assert!(!text.contains("limited by the generator"), "{text}");
        let record = ended.record();
        let counts = &record["runs"][0]["counts"];
        // Between passes nothing is measured, so a server may end without a measured loss.
        assert!(counts["succeeded"].as_u64().unwrap() > 0, "{counts}");
        assert!(record["runs"][0]["seconds"].as_f64().unwrap() < 3000.0);
    }
}

#[test]
fn a_search_for_a_limit_finds_the_rate_at_which_the_server_dies() {
    let mut peer = PeerProcess::start("");
    let child = searching(&peer, &format!("--rate 50 --duration 4s --pid {}", peer.id()));
    peer.kill();
    let ended = Ended::from(child.wait_with_output().unwrap());
    assert_eq!(ended.status, 1, "{ended:?}");
    let record = ended.record();
    let findings = record["findings"].as_array().unwrap();
    let down = findings.iter().find(|it| it["name"] == "rate at which the server went down");
    assert_eq!(down.unwrap_or_else(|| panic!("{findings:?}"))["value"], 50.0);
    assert_eq!(record["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn a_request_to_end_ends_a_run_early_and_its_figures_are_not_valid() {
    // The tests themselves may run with SIGHUP ignored.
    let ended_by_hangup = "env --default-signal=HUP";
    for (end, under) in [
        (Signal::SIGINT, ""),
        (Signal::SIGTERM, ""),
        (Signal::SIGHUP, ended_by_hangup),
        (Signal::SIGTERM, "nohup"),
    ] {
        let outlives = under == "nohup";
        let peer = PeerProcess::start("");
        let (child, told) = started_under(under, "run", &peer, "--rate 100 --duration 10m");
        if outlives {
            // Under nohup the program must outlive its terminal.
            signal(&child, Signal::SIGHUP);
        }
        std::thread::sleep(Duration::from_secs(1));
        signal(&child, end);
        let ended = Ended::from(child.wait_with_output().unwrap());
        assert_eq!(ended.status, 1, "{end}: {ended:?}");
        let record = ended.record();
        assert!(record["runs"][0]["doubts"].to_string().contains("stopped before its end"));
        let run = &record["runs"][0];
        assert!(run["counts"]["succeeded"].as_u64().unwrap() > 0);
        // The offered rate is that over the actual time.
        let seconds = run["seconds"].as_f64().unwrap();
        let rate = run["counts"]["offered"].as_f64().unwrap() / seconds;
        assert!((90.0..110.0).contains(&rate), "{rate}/s of 100/s");
        assert!(!outlives || seconds > 0.5, "it ended with its terminal");
        assert!(told.join().unwrap().contains("those in progress are awaited"));
    }
}
