//! `media` between its own ends, through servers and to another program.

use super::servers::barebell;
use super::support::{Capturing, bench, bench_with};
use serde_json::Value;
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

/// The options of short loads. The machine of a test may be busy, so the generator's lag and
/// headroom are not judged.
const SHORT: &str = "--audio 1s --duration 2s --no-headroom \
    --max-lag 10s --max-other-load 100 --quiet --no-report --json";

/// Returns the runs of a command, after checking that all calls succeeded.
#[track_caller]
fn runs(line: &str) -> Vec<Value> {
    let ended = bench(&format!("media {line} {SHORT}"));
    assert_eq!(ended.status, 0, "{line}: {ended:?}");
    let record = ended.record();
    assert_eq!(record["kind"], "media");
    let runs = record["runs"].as_array().expect("runs").clone();
    for run in &runs {
        let counts = &run["counts"];
        assert!(counts["offered"].as_u64() > Some(0), "{line}: {counts}");
        assert_eq!(counts["succeeded"], counts["offered"], "{line}: {counts}");
        let (sound, echo) = (&run["media"]["sound"], &run["media"]["echo"]);
        assert!(sound["heard"].as_u64() > Some(0), "{line}: {sound}");
        assert_eq!((&sound["unheard"], &sound["wrong"]), (&0.into(), &0.into()), "{line}: {sound}");
        assert!(echo["received"].as_u64() > Some(50), "{line}: {echo}");
        assert!(
            run["media"]["observed"]["at"].as_array().is_some_and(|at| at.len() > 20),
            "{line}"
        );
    }
    runs
}

#[test]
fn audio_comes_back_between_own_ends_with_each_protection() {
    for run in runs("--calls 4 --codec PCMU,GSM --srtp off,sdes,sdes+plus") {
        let (sound, echo) = (&run["media"]["sound"], &run["media"]["echo"]);
        assert_eq!(sound["exact"], echo["received"], "{sound}");
        assert_eq!(echo["expected"], echo["received"], "{echo}");
        assert_eq!(run["media"]["refused"], 0);
    }
}

#[test]
fn the_faults_of_the_ends_show_in_the_figures() {
    let run = &runs("--calls 10 --fault delay=40ms --echo-fault loss=20%,duplicate=10%")[0];
    let (forward, echo) = (&run["media"]["forward"], &run["media"]["echo"]);
    assert_eq!(forward["expected"], forward["received"], "{forward}");
    assert!(forward["delay"]["min_us"].as_u64() >= Some(40_000), "{forward}");
    let count = |name: &str| echo[name].as_f64().expect("a count");
    let loss = 1.0 - count("received") / count("expected");
    assert!((0.1..0.3).contains(&loss), "{echo}");
    assert!(count("duplicates") > 20.0, "{echo}");
}

#[test]
fn codecs_that_differ_need_a_server() {
    let ended = bench("media --codecs PCMU,GSM --no-report");
    assert_eq!(ended.status, 2);
    assert!(ended.err.contains("PCMU to GSM: different codecs need a server"), "{}", ended.err);
    let ended = bench("media --codec G.729 --no-report");
    assert!(ended.err.contains("expected one of PCMU, PCMA, G.726-32"), "{}", ended.err);
}

/// SIPp as a callee that sends the audio back.
struct Sipp(Child);

impl Drop for Sipp {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a free port, and a free even port for RTP.
fn free_ports() -> (u16, u16) {
    let port = || {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.local_addr().expect("an address").port()
    };
    let rtp = std::iter::repeat_with(port).find(|port| port % 2 == 0).expect("an even port");
    (port(), rtp)
}

#[test]
fn sipp_sends_the_audio_back() {
    let (port, rtp) = free_ports();
    let child = Command::new("sipp")
        .args(["-sn", "uas", "-i", "127.0.0.1", "-p", &port.to_string(), "-rtp_echo"])
        .args(["-mi", "127.0.0.1", "-mp", &rtp.to_string(), "-nostdin"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("no sipp: apt install sip-tester");
    let _sipp = Sipp(child);
    // SIPp does not answer OPTIONS, so its start is awaited by a first call.
    let to = format!("--to sip:service@127.0.0.1:{port} --calls 2");
    let is_up = |_: &u32| bench(&format!("media {to} {SHORT}")).status == 0;
    assert!((0..5).any(|at| is_up(&at)), "SIPp does not answer");
    let run = &runs(&to)[0];
    assert!(run["media"]["forward"].is_null(), "the callee is another program");
    assert_eq!(run["media"]["sound"]["exact"], run["media"]["echo"]["received"]);
}

#[test]
fn calls_and_registrations_load_a_server_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!(
        "media --sut barebell --auth --users 40 --calls 4 --settle 0 --registrations 50 \
         --registrations-shape burst:20/1s {SHORT}"
    );
    let ended = bench_with(folder.path(), &[("BAREBELL_BIN", barebell().as_os_str())], &line);
    assert_eq!(ended.status, 0, "{ended:?}");
    let record = ended.record();
    let [calls, registrations] = &record["runs"].as_array().expect("runs")[..] else {
        panic!("two runs: {}", record["runs"])
    };
    assert_eq!(calls["media"]["sound"]["unheard"], 0);
    assert!(calls["media"]["forward"]["delay"]["count"].as_u64() > Some(100));
    assert!(calls["watch"]["total"]["cpu_user_us"].is_u64(), "the server was watched");
    for run in [calls, registrations] {
        let counts = &run["counts"];
        assert!(counts["succeeded"].as_u64() > Some(2), "{counts}");
        assert_eq!(counts["succeeded"], counts["offered"], "{counts}");
    }
    assert_eq!(registrations["load"]["operation"], "register-update");
    let arrivals = registrations["load"]["arrivals"].as_str().expect("a shape");
    assert!(arrivals.contains("burst:20/"), "{arrivals}");
    assert!(registrations["label"].as_str().expect("a label").contains("beside"));
}

#[test]
fn a_capture_shows_the_same_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    let capturing = Capturing::start(folder.path(), "host 127.0.0.83");
    // The measured time begins before the call and ends after it.
    let run = &runs("--calls 1 --from 127.0.0.83 --warmup 0 --fault jitter=10ms,loss=5%")[0];
    let seen = capturing.analyse(folder.path());
    let call = &run["media"]["observed"];
    let streams = seen["rtp"]["streams"].as_array().expect("streams");
    let lost = call["expected"].as_u64().zip(call["received"].as_u64());
    let lost = lost.map(|(expected, received)| expected - received);
    let millis = |name: &str| call[name].as_f64().expect("a figure") / 1000.0;
    let is_same = |stream: &&Value| {
        let close = |name: &str, own: f64, within: f64| {
            stream[name].as_f64().is_some_and(|theirs| (theirs - own).abs() <= within)
        };
        stream["packets"] == call["received"]
            && stream["lost"].as_u64() == lost
            // The capture leaves out packets with the marker.
            && close("mean_jitter_ms", millis("mean_jitter_us"), 0.3)
            && close("max_delta_ms", millis("max_delta_us"), 0.3)
    };
    assert!(streams.iter().any(|stream| is_same(&stream)), "{call}\n{streams:#?}");
}

#[test]
fn the_other_commands_carry_calls_with_media() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = |command: &str| {
        let common = "--sut barebell --users 40 --warmup 1s --settle 0 --no-headroom \
            --max-lag 10s --max-other-load 100 \
                      --quiet --no-report --json";
        let line = format!("{command} {common}");
        bench_with(folder.path(), &[("BAREBELL_BIN", barebell().as_os_str())], &line)
    };
    for (command, runs) in [
        ("run --operation invite --rate 4 --hold 1s --duration 2s --media pcma,srtp", 1),
        ("sweep --operation invite --rates 2,4 --hold 1s --duration 2s --media gsm", 2),
        ("proxy --rates 2,3 --call 1s --middle 2s --all-steps --media pcmu,srtp+", 2),
    ] {
        let ended = line(command);
        assert_eq!(ended.status, 0, "{command}: {ended:?}");
        let record = ended.record();
        assert_eq!(record["runs"].as_array().map(Vec::len), Some(runs), "{command}");
        for run in record["runs"].as_array().expect("runs") {
            let (counts, sound) = (&run["counts"], &run["media"]["sound"]);
            assert_eq!(counts["succeeded"], counts["offered"], "{command}: {counts}");
            assert!(sound["exact"].as_u64() > Some(50), "{command}: {sound}");
            assert_eq!(sound["unheard"], 0, "{command}: {sound}");
        }
    }
    let ended = line("run --operation register --media PCMU");
    assert!(ended.status == 2 && ended.err.contains("--media is for"), "{ended:?}");
}

#[test]
fn audio_comes_back_through_the_media_relay_of_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/barebell-relay.toml");
    let line = format!("media --sut {profile} --users 40 --calls 4 --srtp off,sdes {SHORT}");
    let ended = bench_with(folder.path(), &[("BAREBELL_BIN", barebell().as_os_str())], &line);
    assert_eq!(ended.status, 0, "{ended:?}");
    let record = ended.record();
    for run in record["runs"].as_array().expect("runs") {
        let (sound, echo) = (&run["media"]["sound"], &run["media"]["echo"]);
        assert!(sound["exact"].as_u64() > Some(100), "{sound}");
        assert_eq!((&sound["unheard"], &sound["wrong"]), (&0.into(), &0.into()), "{sound}");
        assert_eq!(echo["expected"], echo["received"], "{echo}");
    }
}

#[test]
fn a_system_that_registers_no_callees_does_not_end_the_measurement_of_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/barebell-relay.toml");
    let text = std::fs::read_to_string(profile).expect("a profile");
    let without_users = folder.path().join("strict.toml");
    // It has no users, and asks for passwords.
    let lines = text.lines().filter(|line| !line.starts_with("prepare"));
    let text = lines.collect::<Vec<_>>().join("\n");
    let text = text.replace("barebell-relay", "strict").replace("\"off\"", "\"on\"");
    std::fs::write(&without_users, text).expect("a file");
    let line = format!("media --sut {} --sut {profile}", without_users.display());
    let line = format!("{line} --users 40 --calls 4 {SHORT}");
    let ended = bench_with(folder.path(), &[("BAREBELL_BIN", barebell().as_os_str())], &line);
    assert_eq!(ended.status, 2, "{ended:?}");
    let record = ended.record();
    let systems: Vec<_> = record["runs"].as_array().expect("runs").iter().collect();
    assert!(systems.iter().all(|run| run["system"] == "barebell-relay"), "{record}");
    assert!(!systems.is_empty(), "{record}");
    let trouble = record["trouble"].as_str().expect("a text");
    assert!(trouble.starts_with("strict: ") && trouble.contains("regist"), "{trouble}");
}

#[test]
fn callers_register_before_their_calls_by_each_transport() {
    let folder = tempfile::tempdir().expect("a folder");
    for transport in ["udp", "tcp", "tls"] {
        let line = format!(
            "media --sut barebell-relay --auth --over {transport} --users 40 --calls 4 {SHORT}"
        );
        let ended = bench_with(folder.path(), &[("BAREBELL_BIN", barebell().as_os_str())], &line);
        assert_eq!(ended.status, 0, "{transport}: {ended:?}");
        let record = ended.record();
        let run = &record["runs"][0];
        let (counts, sound) = (&run["counts"], &run["media"]["sound"]);
        assert!(counts["offered"].as_u64() > Some(2), "{transport}: {counts}");
        assert_eq!(counts["succeeded"], counts["offered"], "{transport}: {counts}");
        assert_eq!(run["load"]["transport"], transport);
        assert!(sound["exact"].as_u64() > Some(100), "{transport}: {sound}");
        // A registration and a call each, though those of the end have no result.
        for delay in ["rrd", "srd"] {
            let delays = &run["delays"][delay];
            assert!(delays["count"].as_u64() > Some(2), "{transport}, {delay}: {delays}");
        }
    }
}

/// The callers have ICE and DTLS-SRTP, the callees neither.
#[test]
fn callers_as_in_browsers_talk_through_the_media_relay() {
    let folder = tempfile::tempdir().expect("a folder");
    for (transport, protection) in [("udp", "web-to-off"), ("tls", "web-to-sdes")] {
        let line = format!(
            "media --sut barebell-relay --over {transport} --srtp {protection} --users 40 \
             --calls 4 {SHORT}"
        );
        let ended = bench_with(folder.path(), &[("BAREBELL_BIN", barebell().as_os_str())], &line);
        assert_eq!(ended.status, 0, "{transport}: {ended:?}");
        let record = ended.record();
        let (counts, media) = (&record["runs"][0]["counts"], &record["runs"][0]["media"]);
        assert_eq!(counts["succeeded"], counts["offered"], "{transport}: {counts}");
        let (sound, echo) = (&media["sound"], &media["echo"]);
        assert!(sound["exact"].as_u64() > Some(100), "{transport}: {sound}");
        assert_eq!((&sound["unheard"], &sound["wrong"]), (&0.into(), &0.into()), "{sound}");
        assert_eq!(echo["expected"], echo["received"], "{transport}: {echo}");
        assert!(media["handshakes"]["count"].as_u64() > Some(2), "{transport}: {media}");
    }
}

/// Callees over WebSocket without an address are browsers for the server.
#[test]
fn ends_as_in_browsers_talk_over_websocket() {
    let folder = tempfile::tempdir().expect("a folder");
    let handshakes_of_call = [("web", 2), ("off-to-web", 1), ("sdes-to-web", 1)];
    let protections = handshakes_of_call.map(|(protection, _)| protection).join(",");
    let line = format!(
        "media --sut barebell-relay --auth --over wss --srtp {protections} --users 40 --calls 4 \
         {SHORT}"
    );
    let ended = bench_with(folder.path(), &[("BAREBELL_BIN", barebell().as_os_str())], &line);
    assert_eq!(ended.status, 0, "{ended:?}");
    let record = ended.record();
    let runs = record["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), handshakes_of_call.len());
    for (run, (protection, of_call)) in runs.iter().zip(handshakes_of_call) {
        let (counts, media) = (&run["counts"], &run["media"]);
        assert_eq!(media["protection"], protection);
        assert_eq!(counts["succeeded"], counts["offered"], "{protection}: {counts}");
        let (sound, echo) = (&media["sound"], &media["echo"]);
        assert!(sound["exact"].as_u64() > Some(100), "{protection}: {sound}");
        assert_eq!((&sound["unheard"], &sound["wrong"]), (&0.into(), &0.into()), "{protection}");
        assert_eq!(echo["expected"], echo["received"], "{protection}: {echo}");
        let (all, failed) = (&media["handshakes"]["count"], &media["handshakes_failed"]);
        // Those of the first and of the last call may be outside of the measured time.
        let least = of_call * (counts["offered"].as_u64().expect("a count") - 2);
        assert!(all.as_u64() >= Some(least) && least > 2, "{protection}: {all} of {counts}");
        assert_eq!(failed, 0, "{protection}");
    }
}

#[test]
fn protections_with_browsers_need_a_server_and_websocket() {
    for (line, reason) in [
        ("--srtp web", "--srtp web needs a server"),
        ("--srtp sdes-to-off", "--srtp sdes-to-off needs a server"),
        ("--srtp web --target udp:127.0.0.1:9 --no-probe", "need ws or wss, not udp"),
        ("--srtp off-to-web --to sip:b@a --target wss:127.0.0.1:9 --no-probe", "and no --to"),
        ("--srtp web-to-off --target ws:127.0.0.1:9 --no-probe", "over ws have to be as in"),
    ] {
        let ended = bench(&format!("media {line} --no-report --quiet"));
        assert!(ended.status == 2 && ended.err.contains(reason), "{line}: {ended:?}");
    }
}

#[test]
fn a_limit_that_is_not_passed_has_no_confirmation() {
    let ended =
        bench(&format!("media --calls 2 --limit --confirmations 2 --fault loss=100% {SHORT}"));
    let record = ended.record();
    let finding = &record["findings"][0];
    let remark = finding["remark"].as_str().expect("a remark");
    assert_eq!(finding["value"].as_f64(), Some(0.0), "{finding}");
    assert!(remark.contains("confirmed 0 times; at 1:"), "{remark}");
}

#[test]
fn audio_is_transcoded_by_other_systems() {
    // Decoded audio is found after half a second, and baresip adds some tenths on a busy machine.
    let long = SHORT.replace("--audio 1s", "--audio 3s");
    for (system, pairs) in
        [("rtpengine", ["PCMU,GSM", "PCMU,Opus"]), ("baresip", ["PCMU,G726", "PCMU,G722"])]
    {
        let [one, other] = pairs;
        let pairs = format!("--codecs PCMU,PCMU --codecs {one} --codecs {other}");
        let ended = bench(&format!(
            "media --sut {system} --auth --users 40 --calls 2 {pairs} --settle 0 {long}"
        ));
        assert_eq!(ended.status, 0, "{system}: {ended:?}");
        let record = ended.record();
        let version = record["systems"][0]["version"].as_str().expect("a version");
        assert!(version.contains(system) || version.contains("Version"), "{version}");
        for (run, is_transcoded) in
            record["runs"].as_array().expect("runs").iter().zip([false, true, true])
        {
            let (sound, label) = (&run["media"]["sound"], &run["label"]);
            assert_eq!(sound["unheard"], 0, "{system}, {label}: {sound}");
            let measure = if is_transcoded { "windows" } else { "exact" };
            assert!(sound[measure].as_u64() > Some(0), "{system}, {label}: {sound}");
            assert!(run["watch"]["total"]["cpu_user_us"].as_u64() > Some(0), "{label}");
        }
    }
}
