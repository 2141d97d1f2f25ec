//! Agreement with other instruments: SIPp with the same server, and a capture of the same messages.

use super::support::{BENCH, Capturing, Ended, PeerProcess, bench};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

const SCENARIO: &str = include_str!("../../profiles/sipp-register.xml");
/// The delay of each response of the peer, in milliseconds.
const DELAY: f64 = 20.0;

/// Returns the response times measured by SIPp, in milliseconds.
fn sipp(folder: &Path, target: &str, count: u32, rate: u32) -> Vec<f64> {
    // Measures the time from the sending of the request to its response.
    let timed = SCENARIO
        .replace("<send retrans=\"500\">", "<send retrans=\"500\" start_rtd=\"1\">")
        .replace("<recv response=\"200\">", "<recv response=\"200\" rtd=\"1\">");
    assert!(timed.contains("start_rtd") && timed.contains(" rtd="), "{timed}");
    std::fs::write(folder.join("register.xml"), timed).unwrap();
    let users: String = (0..20).map(|user| format!("user{user:06}\n")).collect();
    std::fs::write(folder.join("users.csv"), format!("SEQUENTIAL\n{users}")).unwrap();
    let output = Command::new("sipp")
        .arg(target)
        .args(["-i", "127.0.0.1", "-sf", "register.xml", "-inf", "users.csv", "-nostdin"])
        .args(["-r", &rate.to_string(), "-m", &count.to_string(), "-timeout", "60s", "-trace_rtt"])
        .args(["-rtt_freq", "1"])
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("sipp: {error}; on Debian, apt-get install sip-tester"));
    assert!(output.status.success(), "{output:?}");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let table = entries.into_iter().find(|path| path.to_string_lossy().ends_with("_rtt.csv"));
    let table = std::fs::read_to_string(table.expect("sipp writes response times")).unwrap();
    // Columns: date; response time in ms; name.
    let times = table.lines().skip(1).map(|line| {
        let second = line.split(';').nth(1).unwrap_or_else(|| panic!("{line}"));
        second.trim().parse().unwrap_or_else(|_| panic!("{line}"))
    });
    times.collect()
}

#[test]
fn sipp_sees_the_same_delay() {
    let peer = PeerProcess::start(&format!("--delay register/200={DELAY}ms"));
    let folder = tempfile::tempdir().unwrap();
    let mut theirs = sipp(folder.path(), &peer.address, 100, 100);
    assert_eq!(theirs.len(), 100);
    theirs.sort_by(f64::total_cmp);
    let theirs = theirs[theirs.len() / 2];
    let ended = bench(&format!(
        "run --target udp:{} --operation register-update --rate 100 --duration 1s --users 20 --warmup 0 \
         --tail 0 --clock 0 --max-lag 10s --max-other-load 100 --quiet --no-report --json",
        peer.address
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let record = ended.record();
    let ours = record["runs"][0]["delays"]["rrd"]["p50_us"].as_f64().unwrap() / 1000.0;
    // SIPp checks its clock every few milliseconds, and includes its own processing time.
    assert!((ours - theirs).abs() <= 6.0, "ours {ours} ms, SIPp's {theirs} ms");
    assert!((DELAY..DELAY + 5.0).contains(&ours), "{ours} ms");
}

/// Returns a run of 100 operations of 20 users, and the analysis of its capture.
fn captured(operation: &str, rules: &str) -> (Value, Value) {
    let folder = tempfile::tempdir().unwrap();
    let peer = PeerProcess::start(rules);
    let port = peer.address.rsplit_once(':').unwrap().1;
    let capturing = Capturing::start(folder.path(), &format!("port {port}"));
    let output = Command::new(BENCH)
        .args(["run", "--target", &format!("udp:{}", peer.address), "--operation"])
        .args(operation.split_whitespace())
        .args(
            "--rate 100 --duration 1s --users 20 --warmup 0 --tail 0 --clock 0 --t1 5s".split(' '),
        )
        .args("--max-lag 10s --max-other-load 100 --quiet --no-report --json".split(' '))
        .output()
        .unwrap();
    let ended = Ended::from(output);
    assert_eq!(ended.status, 0, "{ended:?}");
    (ended.record()["runs"][0].clone(), capturing.analyse(folder.path()))
}

/// Asserts that the median of the run equals that of the capture, within 1 ms and 5 %.
#[track_caller]
pub(crate) fn assert_agree(run: &Value, delay: &str, captured: &Value) {
    let ours = run["delays"][delay]["p50_us"].as_f64().unwrap();
    let theirs = captured["p50_us"].as_f64().unwrap();
    assert!((ours - theirs).abs() <= 1000.0 + 0.05 * theirs, "{delay}: {ours} us, {theirs} us");
}

#[test]
fn a_capture_shows_the_same_registrations() {
    for (rules, more, trips) in
        [("--delay responses=10ms", "", 1), ("--auth --delay responses=10ms", "--auth", 2)]
    {
        let (run, seen) = captured(&format!("register-update {more}"), rules);
        let counts = &run["counts"];
        assert_eq!((&counts["succeeded"], &counts["retransmitted"]), (&100.into(), &0.into()));
        // The 20 users remove their bindings and register before the load, and log out after it.
        let registrations = &seen["registrations"];
        assert_eq!(registrations["attempts"], 160, "{more}");
        assert_eq!(registrations["succeeded"], 160, "{more}");
        assert_eq!(registrations["challenged"], 160 * (trips - 1));
        assert_eq!(seen["methods"]["REGISTER"]["requests"], 160 * trips);
        assert_eq!(seen["responses"]["200 REGISTER"]["responses"], 160);
        assert_eq!(counts["sent"], 100 * trips);
        assert_eq!(counts["received"], 100 * trips);
        assert_agree(&run, "rrd", &registrations["delay"]);
    }
}

#[test]
fn a_server_that_is_not_to_be_asked_is_not_asked() {
    for (more, questions) in [("", true), ("--no-probe", false)] {
        let (_, seen) = captured(&format!("register-update {more}"), "--delay responses=1ms");
        assert_eq!(seen["methods"]["OPTIONS"].is_object(), questions, "{}", seen["methods"]);
    }
}

#[test]
fn a_nonce_is_used_again_where_that_is_asked_for() {
    let (run, seen) = captured("register-update --auth --reuse-nonces", "--auth");
    let counts = &run["counts"];
    assert_eq!((&counts["succeeded"], &counts["challenged"]), (&100.into(), &0.into()));
    assert_eq!((&counts["reused"], &counts["sent"]), (&100.into(), &100.into()));
    assert_eq!(run["doubts"].as_array().map_or(0, Vec::len), 0, "{}", run["doubts"]);
    // Each of the 20 users is challenged once.
    assert_eq!(seen["responses"]["401 REGISTER"]["responses"], 20);
    assert_eq!(seen["methods"]["REGISTER"]["requests"], 160 + 20);
}

#[test]
fn a_capture_shows_the_same_calls() {
    let (run, seen) = captured("invite", "--delay responses=10ms");
    let counts = &run["counts"];
    assert_eq!((&counts["succeeded"], &counts["retransmitted"]), (&100.into(), &0.into()));
    let calls = &seen["calls"];
    assert_eq!((&calls["attempts"], &calls["established"]), (&100.into(), &100.into()));
    // Each request is on both hops.
    for method in ["INVITE", "ACK", "BYE"] {
        assert_eq!(seen["methods"][method]["requests"], 200, "{method}: {}", seen["methods"]);
        assert_eq!(seen["methods"][method]["retransmissions"], 0);
    }
    for response in ["180 INVITE", "200 INVITE", "200 BYE"] {
        assert_eq!(seen["responses"][response]["responses"], 200, "{}", seen["responses"]);
    }
    // Six messages of a call on two hops; three registrations of each user before and after, and
    // the probe.
    assert_eq!(seen["sip"]["udp"], 100 * 12 + 20 * 6 + 2);
    assert_eq!(counts["sent"].as_u64().unwrap() + counts["received"].as_u64().unwrap(), 1200);
    for (ours, theirs) in
        [("invite", "invite_delay"), ("setup", "setup_delay"), ("srd", "srd"), ("sdd", "sdd")]
    {
        assert_agree(&run, ours, &calls[theirs]);
    }
}

/// A process that is killed at the end of the test.
struct Uas(std::process::Child);

impl Drop for Uas {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts SIPp's own UAS, which is no registrar and does not support OPTIONS, at an address of its
/// own.
fn sipp_uas(address: &str, port: u16) -> Uas {
    let child = Command::new("sipp")
        .args(["-sn", "uas", "-i", address, "-p", &port.to_string(), "-nostdin"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let child = child.map(Uas);
    let uas = child
        .unwrap_or_else(|error| panic!("sipp: {error}; on Debian, apt-get install sip-tester"));
    // It is ready when its port is in use.
    for _ in 0..1000 {
        if std::net::UdpSocket::bind((address, port)).is_err() {
            return uas;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("sipp does not listen on {address}:{port}");
}

#[test]
fn the_user_agent_server_of_sipp_is_called_without_a_registrar() {
    let address = "127.0.0.79";
    let port = std::net::UdpSocket::bind((address, 0)).unwrap().local_addr().unwrap().port();
    let _uas = sipp_uas(address, port);
    let ended = bench(&format!(
        "run --to sip:service@{address}:{port} --rate 50 --duration 1s --hold 100ms --warmup 0 --tail 0 \
         --settle 0 --max-lag 10s --max-other-load 100 --users 10 --quiet --no-report --json"
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let record = ended.record();
    let run = &record["runs"][0];
    assert_eq!(run["load"]["operation"], "invite");
    let counts = &run["counts"];
    for name in ["offered", "succeeded", "completed_calls"] {
        assert!(counts[name].as_u64().unwrap().abs_diff(50) <= 1, "{name}: {counts}");
    }
    assert_eq!(counts["unexpected"], 0, "{counts}");
    assert_eq!(counts["finals"]["REGISTER"], Value::Null, "{counts}");
}

#[test]
fn options_that_do_not_fit_a_command_are_refused() {
    for (line, why) in [
        ("run --to sip:a@127.0.0.1 --operation register", "needs a server"),
        ("qos --to sip:a@127.0.0.1", "run, sweep, limit and media"),
        ("run --to tel:+4930", "expected a SIP URI"),
        ("sweep --target udp:127.0.0.1:1 --rate 5", "not --rate but --rates"),
        ("qos --target udp:127.0.0.1:1 --rate 5", "not --rate but --callers"),
        ("qos --target udp:127.0.0.1:1 --link 1M", "--link is for servers that are started"),
        ("qos --target udp:127.0.0.1:1 --busy", "--busy needs a value"),
    ] {
        let ended = bench(line);
        assert!(ended.status == 2 && ended.err.contains(why), "{line}: {ended:?}");
    }
}
