//! Every command against a peer, with its output.

use super::support::{PeerProcess, bench, bench_in};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The common options: short loads, and no limit on the generator's lag.
const SHORT: &str =
    "--warmup 0 --tail 0 --max-lag 10s --max-other-load 100 --quiet --no-report --json";

/// Returns the record of a successful command.
#[track_caller]
fn record(line: &str, kind: &str) -> Value {
    let ended = bench(&format!("{line} {SHORT}"));
    assert_eq!(ended.status, 0, "{line}: {ended:?}");
    let record = ended.record();
    assert_eq!(record["kind"], kind);
    assert!(!runs(&record).is_empty(), "{line}");
    for run in runs(&record) {
        assert_eq!(run["doubts"].to_string(), "[]", "{line}");
    }
    record
}

fn runs(record: &Value) -> &[Value] {
    record["runs"].as_array().unwrap()
}

fn count(run: &Value, name: &str) -> u64 {
    run["counts"][name].as_u64().unwrap_or_else(|| panic!("no {name} in {run}"))
}

/// Asserts that this number of operations was offered in a run, and that all succeeded.
#[track_caller]
fn assert_whole(run: &Value, offered: u64) {
    // With the ticks of the generator, the last operation may start after the measured time.
    assert!(count(run, "offered").abs_diff(offered) <= 1, "{offered} in {}", run["counts"]);
    assert_eq!(count(run, "succeeded"), count(run, "offered"), "{}", run["counts"]);
    for trouble in ["refused", "timed_out", "lost", "unexpected", "late", "malformed"] {
        assert_eq!(count(run, trouble), 0, "{trouble}: {}", run["counts"]);
    }
}

fn finding<'a>(record: &'a Value, name: &str) -> &'a Value {
    let findings = record["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["name"].as_str().unwrap().contains(name));
    found.unwrap_or_else(|| panic!("no '{name}' in {findings:#?}"))
}

#[test]
fn every_operation_over_udp_and_tcp_with_and_without_authentication() {
    let peer = PeerProcess::start("");
    let asking = PeerProcess::start("--auth");
    let redirecting = PeerProcess::start("--redirect");
    for (operation, delays) in [
        ("register", &["rrd"][..]),
        ("register-update", &["rrd"]),
        ("register-logout", &["rrd"]),
        ("invite", &["srd", "sdd", "sdt", "setup", "invite", "latency"]),
        ("invite-not-found", &["srd_failed"]),
        ("invite-redirect", &["srd_failed"]),
        ("options", &[]),
    ] {
        let cases = [("udp", &peer, ""), ("tcp", &peer, ""), ("udp", &asking, "--auth")];
        for (transport, peer, more) in cases {
            let peer = match (operation, more) {
                ("invite-redirect", "") => &redirecting,
                // The peer challenges only registrations and calls, and redirects without a
                // challenge.
                ("options" | "invite-redirect", _) => continue,
                _ => peer,
            };
            let line = format!(
                "run --target {transport}:{} --operation {operation} --rate 100 --duration 300ms \
                 --users 50 {more}",
                peer.address
            );
            let record = record(&line, "run");
            let [run] = runs(&record) else { panic!("{line}") };
            assert_whole(run, 30);
            let succeeded = count(run, "succeeded");
            assert_eq!(run["load"]["operation"], operation);
            assert_eq!(run["load"]["transport"], transport);
            let challenged = if more.is_empty() { 0 } else { succeeded };
            assert_eq!(count(run, "challenged"), challenged, "{line}");
            for delay in ["response", "from_schedule"].iter().chain(delays) {
                assert_eq!(run["delays"][delay]["count"], succeeded, "{delay}: {line}");
            }
            assert_eq!(run["delays"].as_object().unwrap().len(), 2 + delays.len(), "{line}");
            let completed = if operation == "invite" { succeeded } else { 0 };
            assert_eq!(count(run, "completed_calls"), completed);
        }
    }
}

#[test]
fn sockets_are_for_threads_users_or_operations() {
    let peer = PeerProcess::start("");
    for (options, sockets, connections) in [
        (format!("--target udp:{} --sockets thread --workers 2", peer.address), 2, 0),
        (format!("--target udp:{} --sockets user", peer.address), 20, 0),
        (format!("--target tcp:{} --sockets user", peer.address), 20, 0),
        (format!("--target tcp:{} --sockets operation", peer.address), 1, 30),
    ] {
        let line = format!("run {options} --rate 100 --duration 300ms --users 20");
        let record = record(&line, "run");
        let run = &runs(&record)[0];
        assert_whole(run, 30);
        assert!(count(run, "connections").abs_diff(connections) <= 1, "{line}: {run}");
        assert!(run["load"]["sockets"].as_u64().unwrap() >= sockets, "{line}: {}", run["load"]);
    }
}

#[test]
fn arrivals_come_in_every_shape() {
    let peer = PeerProcess::start("");
    for (shape, arrivals, offered) in [
        ("--shape constant", "fixed", 100),
        ("--shape ramp:100", "fixed ramp:100", 75),
        ("--shape steps:50,150", "fixed steps:50,150", 50),
        ("--shape burst:10/250ms", "fixed burst:10/250ms", 20),
        ("--arrivals poisson", "poisson", 100),
    ] {
        let line = format!(
            "run --target udp:{} --rate 200 --duration 500ms --users 20 {shape}",
            peer.address
        );
        let record = record(&line, "run");
        let run = &runs(&record)[0];
        assert_eq!(run["load"]["arrivals"], arrivals);
        if shape.contains("poisson") {
            // Four standard deviations.
            assert!((60..=140).contains(&count(run, "offered")), "{run}");
            assert_eq!(count(run, "succeeded"), count(run, "offered"));
        } else {
            assert_whole(run, offered);
        }
    }
}

#[test]
fn a_series_has_every_second_and_the_time_around_is_not_measured() {
    let peer = PeerProcess::start("");
    let ended = bench(&format!(
        "run --target udp:{} --rate 100 --duration 1s --warmup 1s --tail 500ms --users 20 --clock 0 \
         --repeats 2 --max-lag 10s --max-other-load 100 --quiet --no-report --json",
        peer.address
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let record = ended.record();
    assert_eq!(runs(&record).len(), 2);
    for run in runs(&record) {
        assert_whole(run, 100);
        let series = run["series"].as_array().unwrap();
        let of = |second: &Value| {
            (
                second["at"].as_i64().unwrap(),
                second["measured"].as_bool().unwrap(),
                second["offered"].as_u64().unwrap(),
            )
        };
        let series: Vec<_> = series.iter().take(3).map(of).collect();
        assert_eq!(series, [(-1, false, 100), (0, true, 100), (1, false, 50)]);
        assert_eq!(run["generator"]["operations"], 250);
    }
}

#[test]
fn a_process_is_watched() {
    let peer = PeerProcess::start("");
    let line = format!(
        "run --target udp:{} --operation register-update --rate 500 --duration 1s --users 50 --watch {}",
        peer.address,
        peer.id()
    );
    let record = record(&line, "run");
    let watch = &runs(&record)[0]["watch"];
    let cpu = |name: &str| watch["total"][name].as_u64().unwrap();
    assert!(cpu("cpu_user_us") + cpu("cpu_system_us") > 0, "{watch}");
    assert!(watch["memory"].as_u64().unwrap() > 100_000, "{watch}");
    assert_eq!(watch["operations"], runs(&record)[0]["generator"]["operations"]);
}

#[test]
fn a_sweep_goes_through_its_rates() {
    let peer = PeerProcess::start("");
    let line = format!(
        "sweep --target udp:{} --rates 50..150 --steps 3 --duration 300ms --users 20",
        peer.address
    );
    let record = record(&line, "sweep");
    let rates: Vec<_> =
        runs(&record).iter().map(|run| run["load"]["rate"].as_f64().unwrap()).collect();
    assert_eq!(rates, [50.0, 100.0, 150.0]);
    for (run, offered) in runs(&record).iter().zip([15, 30, 45]) {
        assert_whole(run, offered);
    }
    let highest = finding(&record, "highest rate tried")["value"].as_f64().unwrap();
    assert!((145.0..=152.0).contains(&highest), "{highest}");
}

#[test]
fn a_limit_is_found_and_confirmed() {
    let peer = PeerProcess::start("");
    // The peer has no limit, so the criterion ends the search.
    let ended = bench(&format!(
        "limit --target udp:{} --rate 100 --duration 300ms --users 20 --precision 20 \
         --confirmations 2 --require achieved<=330 {SHORT}",
        peer.address
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let record = ended.record();
    assert_eq!(record["kind"], "limit");
    let found = finding(&record, "sustainable rate of options");
    let rate = found["value"].as_f64().unwrap();
    assert!((250.0..=330.0).contains(&rate), "{found}");
    assert!(found["remark"].as_str().unwrap().starts_with("2 of 2 confirmations"), "{found}");
    let confirmations = runs(&record).iter().filter(|run| run["label"] == "confirmation");
    assert!(confirmations.filter(|run| run["load"]["rate"] == rate).count() == 2);

    // If the generator is the limit, that of the server stays unknown. In a load of one millisecond
    // no operation fails at any rate.
    let ended = bench(&format!(
        "limit --target udp:{} --rate 1000000 --duration 1ms --users 20 --precision 20 \
         --confirmations 1 {SHORT}",
        peer.address
    ));
    assert_eq!(ended.status, 3, "{ended:?}");
    assert!(ended.err.contains("was not reached: the generator"), "{}", ended.err);
    let record = ended.record();
    let ceiling = finding(&record, "ceiling of the generator with options");
    assert!(ceiling["remark"].as_str().unwrap().contains("its limit is higher"), "{ceiling}");
    let findings = record["findings"].as_array().unwrap();
    assert!(findings.iter().all(|it| !it["name"].as_str().unwrap().starts_with("sustainable")));

    // If every rate fails, there is no limit.
    let failing = PeerProcess::start("--fail options:2=503");
    let ended = bench(&format!(
        "limit --target udp:{} --rate 64 --duration 100ms --users 20 {SHORT}",
        failing.address
    ));
    assert_eq!(ended.status, 1, "{ended:?}");
    assert_eq!(finding(&ended.record(), "sustainable rate")["value"], 0.0);
}

#[test]
fn bursts_of_registrations_come_again_and_again() {
    // Every tenth registration fails, and is tried again after the wait.
    let peer = PeerProcess::start("--fail register:10=503");
    let line = format!(
        "burst --target udp:{} --registrations 20,40 --scale 0.01 --length 3m",
        peer.address
    );
    let record = record(&line, "burst");
    for (run, users) in runs(&record).iter().zip([20, 40]) {
        assert_eq!(run["load"]["users"], users);
        let (offered, refused) = (count(run, "offered"), count(run, "refused"));
        assert_eq!(count(run, "succeeded") + refused, offered);
        assert!(refused.abs_diff(offered / 10) <= 1, "{}", run["counts"]);
        // Within 1.8 s each user registers about every 0.6 s: at least once, at most five times.
        assert!((users..=users * 5).contains(&offered), "{}", run["counts"]);
    }
    assert_eq!(finding(&record, "timeouts with 20")["value"], 0.0);
    assert_eq!(finding(&record, "simultaneous registrations held")["value"], 40.0);
}

#[test]
fn parallel_users_register_and_call_at_once_on_an_idle_and_a_busy_link() {
    let peer = PeerProcess::start("--delay requests=3ms");
    let ended = bench(&format!(
        "qos --target udp:{} --callers 1,5 --repeats-of-step 2 --busy 1M --hold 50ms --quiet \
         --no-report --json",
        peer.address
    ));
    assert_eq!(ended.status, 0, "{ended:?}");
    let record = ended.record();
    assert_eq!((&record["kind"], runs(&record).len()), (&Value::from("qos"), 2 * 2 * 2 * 2));
    for run in runs(&record) {
        let users = run["load"]["users"].as_u64().unwrap();
        let offered = if run["load"]["operation"] == "register" { users } else { users / 2 };
        assert_whole(run, offered);
        assert_eq!(run["load"]["sockets"], users, "one for each");
    }
    for label in ["1 users", "5 users", "1 users, busy link", "5 users, busy link"] {
        assert_eq!(finding(&record, &format!("registrations lost, {label}"))["value"], 0.0);
        assert_eq!(finding(&record, &format!("calls lost, {label}"))["value"], 0.0);
        // Only the INVITE is relayed; it is delayed by 3 ms.
        let delay = finding(&record, &format!("invite delay, {label}"));
        assert!((3.0..100.0).contains(&delay["value"].as_f64().unwrap()), "{delay}");
    }
}

#[test]
fn parallel_users_do_not_retransmit_and_hold_their_sessions() {
    let peer = PeerProcess::start("--lose requests:5");
    let ended = bench(&format!(
        "qos --target udp:{} --callers 100 --repeats-of-step 1 --hold 200ms --quiet --no-report --json",
        peer.address
    ));
    let record = ended.record();
    for run in runs(&record) {
        let ended_late = run["load"]["operation"] == "invite";
        let counts = &run["counts"];
        // Only the end of an established session is retransmitted.
        assert!(ended_late || count(run, "retransmitted") == 0, "{counts}");
        assert!(count(run, "succeeded") < count(run, "offered"), "{counts}");
        if ended_late {
            let shortest = run["delays"]["sdt"]["min_us"].as_u64().unwrap();
            assert!(shortest >= 200_000, "{shortest} us");
        }
    }
    for name in ["registrations lost, 100 users", "calls lost, 100 users"] {
        let lost = finding(&record, name)["value"].as_f64().unwrap();
        assert!((5.0..80.0).contains(&lost), "{name}: {lost}");
    }
}

#[test]
fn a_proxy_is_taken_up_its_steps() {
    let peer = PeerProcess::start("");
    let line = format!(
        "proxy --target udp:{} --rates 20,40 --call 200ms --middle 500ms --users 100",
        peer.address
    );
    let record = record(&line, "proxy");
    let [first, second] = runs(&record) else { panic!("{record}") };
    for (run, offered) in [(first, 10), (second, 20)] {
        assert_whole(run, offered);
        for delay in ["rrd", "srd", "sdd"] {
            assert_eq!(run["delays"][delay]["count"], count(run, "offered"), "{delay}");
        }
        let held = run["delays"]["sdt"]["p50_us"].as_u64().unwrap();
        assert!((200_000..400_000).contains(&held), "{held} us");
    }
    assert_eq!(finding(&record, "calls a second")["value"], 40.0);
}

#[test]
fn the_rate_of_a_comparison_is_that_of_calls_too() {
    let peer = PeerProcess::start("");
    for (more, calls) in [("", 40.0), ("--call-rate 20", 20.0)] {
        let line = format!(
            "compare --sut one@udp:{} --operations options,invite --rate 40 --duration 500ms \
             --users 20 --settle 0 {more}",
            peer.address
        );
        let record = record(&line, "compare");
        let rates: Vec<_> =
            runs(&record).iter().map(|run| run["load"]["rate"].as_f64().unwrap()).collect();
        // Operations other than calls come first or last, depending on the configuration of the
        // server.
        assert!(rates.contains(&40.0) && rates.contains(&calls), "{more}: {rates:?}");
        let of_calls = runs(&record).iter().find(|run| run["load"]["operation"] == "invite");
        assert_eq!(of_calls.unwrap()["load"]["rate"], calls);
    }
}

#[test]
fn systems_are_compared_in_turn() {
    let (one, other) = (PeerProcess::start(""), PeerProcess::start("--delay responses=20ms"));
    let line = format!(
        "compare --sut one@udp:{},pid={} --sut other@udp:{},pid={} --operations options,register-update \
         --rate 400 --duration 300ms --users 20 --repeats 3",
        one.address,
        one.id(),
        other.address,
        other.id()
    );
    let record = record(&line, "compare");
    assert_eq!(runs(&record).len(), 2 * 2 * 3);
    let names: Vec<_> = runs(&record).iter().take(4).map(|run| run["system"].clone()).collect();
    assert_eq!(names, ["one", "other", "one", "other"], "in turn");
    for run in runs(&record) {
        assert_whole(run, 120);
    }
    let ratio = finding(&record, "response p99 of options, one being 1");
    assert_eq!(ratio["system"], "other");
    assert!(ratio["value"].as_f64().unwrap() > 1.0, "{ratio}");
    finding(&record, "CPU of register-update, one being 1");
}

#[test]
fn the_generators_own_cost_is_told_beside_the_bare_exchange_and_sipp() {
    let ended = bench(
        "cost --operation register-update --rate 300 --duration 500ms --users 20 --warmup 0 --tail 0 \
         --repeats 1 --sipp",
    );
    assert_eq!(ended.status, 0, "{ended:?}");
    let figure = |name: &str| -> f64 {
        let line = ended.out.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {}", ended.out));
        let rest = line.trim_start().strip_prefix(name).unwrap();
        rest.split_whitespace().next().unwrap().parse().unwrap()
    };
    for name in ["barebell-bench", "bare exchange of datagrams", "SIPp"] {
        assert!(figure(name) > 0.0, "{}", ended.out);
    }
}

#[test]
fn a_receiver_of_srtp_is_flooded() {
    let folder = tempfile::tempdir().unwrap();
    let flood = "srtp --rates 2000,4000 --repeats 1 --duration 200ms --sources 20 --max-lag 10s";
    let ended = bench_in(folder.path(), &format!("{flood} -o flood.html -o flood.md"));
    assert_eq!(ended.status, 0, "{ended:?}");
    for protection in ["SRTP alone", "scheme 1", "scheme 2", "scheme 3", "scheme 4"] {
        assert!(ended.out.contains(protection), "{ended:?}");
    }
    let page = fs::read_to_string(folder.path().join("flood.html")).unwrap();
    assert!(page.contains("Legitimate packets lost") && page.contains("<svg"));
    assert_eq!(fs::read_to_string(folder.path().join("flood.md")).unwrap(), ended.out);

    for (wrong, said) in [
        ("--suite AES", "expected one of AES_CM_128_HMAC_SHA1_80"),
        ("--payload 7", "expected 8 to 1300 bytes"),
        ("-o flood.csv", "ends with .html or .md"),
    ] {
        let ended = bench(&format!("{flood} {wrong}"));
        assert_eq!(ended.status, 2, "{ended:?}");
        assert!(ended.err.contains(said), "{ended:?}");
    }
}

/// Writes a record of two runs to a file.
fn written(folder: &Path) {
    let peer = PeerProcess::start("--delay responses=2ms");
    let ended = bench_in(
        folder,
        &format!(
            "run --target udp:{} --rate 100 --duration 500ms --users 20 --warmup 0 --tail 0 \
 \
                 --max-lag 10s --max-other-load 100 --repeats 2 --quiet --require success>=100% -o run.json -o run.html",
            peer.address
        ),
    );
    assert_eq!(ended.status, 0, "{ended:?}");
    assert!(ended.out.contains("report: run.json") && ended.out.contains("report: run.html"));
}

#[test]
fn a_report_has_every_form() {
    let folder = tempfile::tempdir().unwrap();
    written(folder.path());
    let line = "report run.json run.json -o r.html -o r.md -o r.csv -o r.json -o r.xml";
    let ended = bench_in(folder.path(), line);
    assert_eq!(ended.status, 0, "{ended:?}");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("run.html").starts_with("<!DOCTYPE html>"));
    assert!(read("r.html").starts_with("<!DOCTYPE html>"));
    assert!(read("r.md").starts_with("# "));
    let csv = read("r.csv");
    // A header row, and two rows for each of the two files.
    assert_eq!(csv.lines().filter(|line| !line.starts_with('#')).count(), 5, "{csv}");
    let records: Value = serde_json::from_str(&read("r.json")).unwrap();
    let once: Value = serde_json::from_str(&read("run.json")).unwrap();
    assert_eq!(records, Value::Array(vec![once.clone(), once.clone()]), "nothing is lost");
    let xml = read("r.xml");
    assert!(xml.contains("<testsuite") && xml.contains("success&gt;=100%"), "{xml}");
    // Without a given file, reports have default names.
    let peer = PeerProcess::start("");
    let line = format!(
        "run --target udp:{} --rate 50 --duration 100ms --users 20 --warmup 0 --tail 0 \
            --max-lag 10s --max-other-load 100",
        peer.address
    );
    assert_eq!(bench_in(folder.path(), &line).status, 0);
    let names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("barebell-bench-run-"))
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
}
