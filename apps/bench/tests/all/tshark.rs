//! Agreement with Wireshark: the streams of a capture.

use super::support::{BENCH, Ended, bench_in};
use std::collections::BTreeMap;
use std::process::Command;

/// A stream by both programs: packets, lost packets, mean and maximum delta, mean and maximum
/// jitter in milliseconds.
type Figures = [f64; 6];

/// Returns the streams of `all.pcap` in `folder` by Wireshark, by SSRC.
fn of_tshark(folder: &std::path::Path) -> BTreeMap<u64, Figures> {
    let output = Command::new("tshark")
        .args(["-r", "all.pcap", "-q", "-z", "rtp,streams", "--enable-heuristic", "rtp_udp"])
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("tshark: {error}; on Debian, apt-get install tshark"));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    // Start, end, source, port, destination, port, SSRC, payload, packets, lost, (share), then
    // minimum, mean and maximum of delta and of jitter.
    let stream = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ssrc = words.get(6)?.strip_prefix("0x")?;
        let number = |index: usize| words.get(index)?.parse::<f64>().ok();
        let figures = [number(8)?, number(9)?, number(12)?, number(13)?, number(15)?, number(16)?];
        Some((u64::from_str_radix(ssrc, 16).ok()?, figures))
    };
    text.lines().filter_map(stream).collect()
}

/// Captures loopback in a network of its own, while the program runs there. Streams of other tests
/// are not in it.
const CAPTURED: &str = "ip link set lo up
    tcpdump -i lo -n -U -B 16384 --immediate-mode -w all.pcap udp 2>told & capture=$!
    until grep -q 'listening on lo' told; do kill -0 $capture || exit 9; sleep 0.05; done
    \"$@\"; status=$?
    sleep 0.5; kill -INT $capture; wait $capture
    exit $status";

#[test]
fn wireshark_shows_the_same_streams() {
    let folder = tempfile::tempdir().unwrap();
    let line = "media --calls 4 --audio 2s --duration 2s --no-headroom --max-other-load 100 \
                --quiet --no-report --json";
    let ended: Ended = Command::new("unshare")
        .args(["--net", "sh", "-c", CAPTURED, "sh", BENCH])
        .args(line.split_whitespace())
        .current_dir(folder.path())
        .output()
        .unwrap_or_else(|error| panic!("unshare: {error}; on Debian, apt-get install util-linux"))
        .into();
    // On a busy machine the run is not valid, which is status 1; the streams are there.
    assert!(ended.status < 2, "{ended:?}");
    let seen = bench_in(folder.path(), "capture all.pcap --json").record();
    let theirs = of_tshark(folder.path());
    let mut compared = 0;
    for stream in seen["rtp"]["streams"].as_array().unwrap() {
        let ssrc = stream["ssrc"].as_u64().unwrap();
        let Some(theirs) = theirs.get(&ssrc) else { continue };
        // On a busy machine the capture may lack a packet.
        let count = |name: &str| stream[name].as_u64().unwrap();
        let faults = ["lost", "out_of_order", "duplicates", "strays", "restarts"];
        if faults.iter().any(|fault| count(fault) > 0) {
            continue;
        }
        let ours = ["packets", "lost", "mean_delta_ms", "max_delta_ms", "mean_jitter_ms"]
            .map(|name| stream[name].as_f64().unwrap());
        assert_eq!(ours[..2], theirs[..2], "packets and lost ones of {ssrc:x}");
        let maximum = stream["max_jitter_ms"].as_f64().unwrap();
        for (name, ours, theirs) in [
            ("mean delta", ours[2], theirs[2]),
            ("maximum delta", ours[3], theirs[3]),
            ("mean jitter", ours[4], theirs[4]),
            ("maximum jitter", maximum, theirs[5]),
        ] {
            // Wireshark prints microseconds.
            let allowed = 0.002 + 0.1 * theirs;
            assert!((ours - theirs).abs() <= allowed, "{ssrc:x}: {name} {ours} ms, {theirs} ms");
        }
        compared += 1;
    }
    // Four calls, with a stream in each direction.
    assert!(compared >= 4, "{compared} of 8 streams are whole and in both");
}
