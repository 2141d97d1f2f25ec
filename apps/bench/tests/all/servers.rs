//! Every command against real servers that it starts: Barebell as this workspace has built it, or
//! as `BAREBELL_BIN` names it, and Kamailio. A few operations each check that they are supported.

use super::agreement::assert_agree;
use super::support::{BENCH, Capturing, Ended, bench_with};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Held while servers run: several at a time overload a small machine.
static TURN: Mutex<()> = Mutex::new(());

pub(crate) fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns Barebell's program, the release build first.
pub(crate) fn barebell() -> PathBuf {
    if let Some(path) = std::env::var_os("BAREBELL_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let built = ["release", "debug"].map(|kind| target.join(kind).join("barebell"));
    built
        .into_iter()
        .find(|path| path.is_file())
        .expect("no barebell: build it with `cargo build --release -p barebell`")
}

/// Returns the record of a successful command.
#[track_caller]
fn record(line: &str) -> Value {
    let line =
        format!("{line} --max-lag 10s --max-other-load 100 --settle 0 --quiet --no-report --json");
    let folder = tempfile::tempdir().unwrap();
    let ended: Ended =
        bench_with(folder.path(), &[("BAREBELL_BIN", barebell().as_os_str())], &line);
    // A missing program is reported with the command that installs it.
    assert_eq!(ended.status, 0, "{line}: {}\n{}", ended.err, ended.out);
    ended.record()
}

fn count(run: &Value, name: &str) -> u64 {
    run["counts"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {run}"))
}

/// Asserts that everything succeeded in all runs, and that their number is `runs`.
#[track_caller]
fn assert_whole(record: &Value, runs: usize) {
    let all = record["runs"].as_array().unwrap();
    assert_eq!(all.len(), runs);
    for run in all {
        let what = format!("{} {} {}", run["system"], run["load"]["operation"], run["counts"]);
        assert!(count(run, "offered") > 0, "{what}");
        assert_eq!(count(run, "succeeded"), count(run, "offered"), "{what}");
        for trouble in ["unexpected", "malformed", "late"] {
            assert_eq!(count(run, trouble), 0, "{trouble}: {what}");
        }
        let is_asked = run["load"]["authentication"].as_bool().unwrap();
        assert_eq!(count(run, "challenged") > 0, is_asked, "{what}");
    }
}

const BOTH: &str = "--sut barebell --sut kamailio --sut-workers 2";
const SHORT: &str = "--duration 400ms --warmup 0 --tail 0 --users 100";

#[test]
fn every_operation_is_compared_with_and_without_authentication() {
    let _turn = turn();
    let record = record(&format!("compare {BOTH} {SHORT} --both --bare --rate 200 --call-rate 50"));
    // Seven operations, and six with authentication: OPTIONS needs no credentials.
    assert_whole(&record, 2 * (7 + 6));
    for run in record["runs"].as_array().unwrap() {
        let watch = &run["watch"];
        assert!(watch["memory"].as_u64().unwrap() > 1_000_000, "{watch}");
        assert_eq!(watch["operations"], run["generator"]["operations"]);
    }
    let systems = record["systems"].as_array().unwrap();
    for (system, name) in systems.iter().zip(["barebell", "kamailio"]) {
        assert_eq!(system["name"], name);
        assert!(system["version"].as_str().unwrap().contains('.'), "{system}");
    }
    let findings = record["findings"].as_array().unwrap();
    let beside_bare = findings.iter().filter(|finding| {
        let name = finding["name"].as_str().unwrap();
        // A server that parses its messages costs more than the bare exchange.
        name.contains("the bare exchange") && finding["value"].as_f64().unwrap() > 0.5
    });
    assert_eq!(beside_bare.count(), 2 * (7 + 6));
}

#[test]
fn a_run_and_a_sweep_over_tcp() {
    let _turn = turn();
    let more = "--tcp --sockets user --operation register-update --rate 100";
    assert_whole(&record(&format!("run {BOTH} {SHORT} {more}")), 2);
    let more = "--tcp --operation register-update --rates 50,100";
    assert_whole(&record(&format!("sweep {BOTH} {SHORT} {more}")), 4);
}

#[test]
fn a_server_says_how_long_the_steps_of_its_work_take() {
    let _turn = turn();
    let more = "--timings --operation register-update --auth --rate 500";
    let record = record(&format!("run {BOTH} {SHORT} {more}"));
    assert_whole(&record, 2);
    for run in record["runs"].as_array().unwrap() {
        let steps = run["steps"].as_object();
        if run["system"] != "barebell" {
            assert_eq!(steps, None, "a server without timings has none");
            continue;
        }
        let steps = steps.unwrap();
        let names: Vec<&String> = steps.keys().collect();
        let expected = [
            "add-user",
            "authenticate-user",
            "find-user",
            "format-response",
            "handler",
            "parse-headers",
            "total",
        ];
        assert_eq!(names, expected);
        let time = |name: &str| steps[name]["nanoseconds"].as_u64().unwrap();
        // One message of sixteen is sampled, with two messages per registration.
        let looked_at = steps["handler"]["count"].as_u64().unwrap();
        let share = looked_at as f64 / (2 * count(run, "succeeded")) as f64;
        assert!((0.03..0.13).contains(&share), "{share}");
        // The total is of all datagrams that were answered.
        let answered = steps["total"]["count"].as_u64().unwrap();
        assert!(answered >= 2 * count(run, "succeeded"), "{answered}");
        let mean = |name: &str| time(name) as f64 / steps[name]["count"].as_f64().unwrap();
        assert!(mean("total") > mean("handler"), "{steps:?}");
        assert!(time("parse-headers") + time("add-user") < time("handler"));
        assert!(time("find-user") < time("authenticate-user"));
    }
}

#[test]
fn a_limit_and_bursts_of_registrations() {
    let _turn = turn();
    let more = "--operation register-update --auth --rate 100 --precision 40 --confirmations 1 \
                --require achieved<=150";
    let found = record(&format!("limit {BOTH} {SHORT} {more}"));
    for finding in found["findings"].as_array().unwrap() {
        let rate = finding["value"].as_f64().unwrap();
        assert!((100.0..=150.0).contains(&rate), "{finding}");
    }
    let burst = record(&format!("burst {BOTH} --auth --registrations 50 --scale 0.01 --length 2m"));
    assert_whole(&burst, 2);
    let more = "--existing 300 --calls 20 --registrations 20 --scale 0.01 --length 2m";
    let beside = record(&format!("burst {BOTH} --auth {more}"));
    let runs = beside["runs"].as_array().unwrap();
    let operations: Vec<&Value> = runs.iter().map(|run| &run["load"]["operation"]).collect();
    assert_eq!(operations, ["register", "invite", "register", "invite"]);
    assert!(runs.iter().all(|run| count(run, "succeeded") > 0), "{beside:#?}");
}

#[test]
fn parallel_users_and_the_steps_of_a_proxy() {
    let _turn = turn();
    let qos = record(&format!(
        "qos {BOTH} --auth --callers 1,10 --repeats-of-step 1 --hold 100ms --busy"
    ));
    assert_whole(&qos, 2 * 2 * 2 * 2);
    for way in ["other traffic to the server", "other traffic from the server"] {
        let findings = qos["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["name"] == way);
        let found = found.unwrap_or_else(|| panic!("no {way} in {findings:#?}"));
        assert!(found["value"].as_f64().unwrap() > 1.0, "{found}");
        assert_eq!(found["remark"], "of 100 Mbit/s");
    }
    let target = qos["systems"][0]["target"].as_str().unwrap();
    assert!(target.starts_with("udp:198.18."), "behind the link: {target}");
    let more = "--callers 5 --repeats-of-step 2 --hold 100ms --link 100M --capture --no-bye";
    let captured = record(&format!("qos {BOTH} {more}"));
    for run in captured["runs"].as_array().unwrap() {
        let offered = count(run, "offered");
        let delays: &[&str] =
            if run["load"]["operation"] == "register" { &["rrd"] } else { &["invite", "setup"] };
        for delay in delays {
            let delay = &run["captured"][*delay]["count"];
            assert_eq!(*delay, offered, "{}", run["captured"]);
        }
        assert_eq!(run["delays"]["sdd"], Value::Null, "no BYE");
    }
    // A machine that is busy with other tests may answer too late for a further step.
    let more = "--rates 20,40 --all-steps --call 200ms --middle 500ms --users 200 --warmup 0 \
                --tail 0";
    let proxy = record(&format!("proxy {BOTH} --auth {more}"));
    assert_whole(&proxy, 4);
    for run in proxy["runs"].as_array().unwrap() {
        assert_eq!(run["delays"]["rrd"]["count"], run["counts"]["offered"]);
        assert_eq!(run["delays"]["sdd"]["count"], run["counts"]["offered"]);
    }
}

#[test]
fn the_link_does_not_outlive_a_killed_measurement() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let line = "qos --sut barebell --callers 1 --hold 60s --link 100M --quiet --no-report --json";
    let mut bench = Command::new(BENCH)
        .args(line.split(' '))
        .current_dir(folder.path())
        .env("BAREBELL_BIN", barebell())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let link = PathBuf::from(format!("/run/netns/barebell-bench-{}", bench.id()));
    let wait = |is_there: bool| {
        let start = Instant::now();
        while link.exists() != is_there {
            assert!(start.elapsed() < Duration::from_secs(30), "{link:?}, expected: {is_there}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(true);
    bench.kill().unwrap();
    bench.wait().unwrap();
    wait(false);
}

/// An address that no other test uses, so that a capture can filter by it.
const OF_ITS_OWN: &str = "127.0.0.77";

#[test]
fn a_capture_shows_the_calls_of_real_servers() {
    let _turn = turn();
    for sut in ["barebell", "kamailio"] {
        let folder = tempfile::tempdir().unwrap();
        let capturing = Capturing::start(folder.path(), &format!("host {OF_ITS_OWN}"));
        let found = record(&format!(
            "run --sut {sut} --sut-workers 2 --operation invite --auth --register-first --rate 50 \
             --duration 2s --users 20 --warmup 0 --tail 0 --clock 0 --t1 5s \
             --sut-address {OF_ITS_OWN}"
        ));
        let seen = capturing.analyse(folder.path());
        let run = &found["runs"][0];
        assert_whole(&found, 1);
        // 20 users remove their bindings and register, then each caller registers before its call,
        // and the users log out.
        let (calls, registrations) = (&seen["calls"], &seen["registrations"]);
        for (count, expected) in [("attempts", 160), ("succeeded", 160), ("challenged", 160)] {
            assert_eq!(registrations[count], expected, "{sut}: {count} of registrations");
        }
        for count in ["attempts", "established", "challenged"] {
            assert_eq!(calls[count], 100, "{sut}: {count} of calls");
        }
        for method in ["REGISTER", "INVITE", "ACK", "BYE"] {
            assert_eq!(seen["methods"][method]["retransmissions"], 0, "{sut}: {method}");
        }
        for (ours, theirs) in [
            ("rrd", &registrations["delay"]),
            ("setup", &calls["setup_delay"]),
            ("sdd", &calls["sdd"]),
        ] {
            assert_agree(run, ours, theirs);
        }
    }
}
