//! Targets in the DNS, with a local name server. The program finds it in the configuration of the
//! system's resolver, of which the test has a private copy: this needs root.

use super::support::{BENCH, Ended, PeerProcess};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use test_support::dns::{A, NAPTR, SRV, naptr, serve, srv};

/// A port without a listener: tcpmux.
const CLOSED: u16 = 1;

/// Returns a local address for a name server that no other test uses.
fn name_server(number: u8) -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 64 + number, high, low)
}

/// Runs the program with the words of `line`; the resolver queries a server at `address` with these
/// records.
fn bench_by(address: Ipv4Addr, records: Vec<(&'static str, u16, Vec<u8>)>, line: &str) -> Ended {
    serve(SocketAddr::from((address, 53)), records)
        .unwrap_or_else(|error| panic!("{address}:53: {error}; this test has to run as root"));
    let folder = tempfile::tempdir().unwrap();
    let configuration = folder.path().join("resolv.conf");
    std::fs::write(&configuration, format!("nameserver {address}\n")).unwrap();
    Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\""])
        .args([configuration.as_os_str(), BENCH.as_ref()])
        .args(line.split_whitespace())
        .current_dir(folder.path())
        .output()
        .unwrap_or_else(|error| panic!("unshare: {error}; on Debian, apt-get install util-linux"))
        .into()
}

const LOAD: &str = "--rate 20 --duration 200ms --warmup 0 --tail 0 --settle 0 \
    --max-lag 10s --max-other-load 100 --quiet --no-report --json";

/// Returns the target of a successful load.
#[track_caller]
fn target_of(ended: &Ended) -> String {
    assert_eq!(ended.status, 0, "{ended:?}");
    let record = ended.record();
    assert_eq!(record["runs"][0]["counts"]["succeeded"], 4, "{ended:?}");
    record["systems"][0]["target"].as_str().unwrap().to_owned()
}

#[test]
fn the_next_server_of_the_dns_is_taken_where_the_first_does_not_answer() {
    let peer = PeerProcess::start("");
    let port = peer.address.rsplit_once(':').unwrap().1.parse().unwrap();
    // It receives, and never answers.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let records = vec![
        ("sip.example", NAPTR, naptr(1, "SIP+D2T", "_sip._tcp.sip.example")),
        ("sip.example", NAPTR, naptr(2, "SIP+D2U", "_sip._udp.sip.example")),
        ("_sip._tcp.sip.example", SRV, srv(1, CLOSED, "one.sip.example")),
        ("_sip._udp.sip.example", SRV, srv(3, port, "one.sip.example")),
        ("_sip._udp.sip.example", SRV, srv(1, CLOSED, "one.sip.example")),
        ("_sip._udp.sip.example", SRV, srv(2, silent_port, "one.sip.example")),
        ("one.sip.example", A, vec![127, 0, 0, 1]),
    ];
    let ended = bench_by(name_server(0), records, &format!("run --target sip.example {LOAD}"));
    assert_eq!(target_of(&ended), format!("udp:127.0.0.1:{port}"));
    let lines: Vec<_> = ended.err.lines().collect();
    let said = [
        ("tcp:127.0.0.1:1".to_owned(), "refused", "udp:127.0.0.1:1".to_owned()),
        ("udp:127.0.0.1:1".to_owned(), "refused", format!("udp:127.0.0.1:{silent_port}")),
        (format!("udp:127.0.0.1:{silent_port}"), "timed out", format!("udp:127.0.0.1:{port}")),
    ];
    assert_eq!(lines.len(), said.len(), "{}", ended.err);
    for (line, (failed, why, next)) in lines.iter().zip(said) {
        assert!(line.contains(&format!("at {failed}: ")) && line.contains(why), "{line}");
        assert!(line.contains(&format!("trying {next}, ")), "{line}");
    }
}

#[test]
fn where_no_server_of_the_dns_answers_each_is_named_with_its_reason() {
    let records = vec![
        ("_sip._udp.sip.example", SRV, srv(1, CLOSED, "one.sip.example")),
        ("_sip._udp.sip.example", SRV, srv(2, CLOSED + 1, "one.sip.example")),
        ("one.sip.example", A, vec![127, 0, 0, 1]),
    ];
    let line = format!("run --target udp:sip.example {LOAD}");
    let ended = bench_by(name_server(1), records, &line);
    assert_eq!((ended.status, &ended.out[..]), (2, ""), "{ended:?}");
    let last = ended.err.lines().last().unwrap();
    assert!(last.contains("no server of sip.example answers"), "{last}");
    for address in ["udp:127.0.0.1:1: ", "udp:127.0.0.1:2: "] {
        assert!(last.split(address).nth(1).is_some_and(|rest| rest.starts_with("Conn")), "{last}");
    }
}

#[test]
fn a_server_that_answers_is_taken_without_a_word() {
    let peer = PeerProcess::start("");
    let port = peer.address.rsplit_once(':').unwrap().1.parse().unwrap();
    let records = vec![
        ("_sip._udp.sip.example", SRV, srv(1, port, "one.sip.example")),
        ("_sip._udp.sip.example", SRV, srv(2, CLOSED, "one.sip.example")),
        ("one.sip.example", A, vec![127, 0, 0, 1]),
    ];
    let ended = bench_by(name_server(2), records, &format!("run --target udp:sip.example {LOAD}"));
    assert_eq!(target_of(&ended), format!("udp:127.0.0.1:{port}"));
    assert_eq!(ended.err, "");
}
