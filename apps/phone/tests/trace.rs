//! The output of `--trace` and `--pcap`, and the secrets that it never contains.

mod processes;

use processes::registrar::{self, PASSWORD};
use processes::{PHONE, Running, said};
use std::path::Path;
use std::process::{Command, Stdio};

/// The IP packets of a pcapng file.
fn packets(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).expect("a capture");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((word(0), word(8)), (0x0a0d_0d0a, 0x1a2b_3c4d));
    let mut packets = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let length = word(at + 4) as usize;
        assert_eq!(word(at + length - 4) as usize, length, "a block has its length at both ends");
        match word(at) {
            1 => assert_eq!(word(at + 8) & 0xffff, 101, "raw IP"),
            6 => packets.push(bytes[at + 28..][..word(at + 20) as usize].to_vec()),
            _ => {}
        }
        at += length;
    }
    packets
}

/// Returns true if the Internet checksum over `bytes` is right.
fn is_summed(bytes: &[u8]) -> bool {
    let words = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let sum: u32 = words.sum();
    (sum & 0xffff) + (sum >> 16) == 0xffff
}

#[test]
fn messages_and_packets_are_in_the_file_and_no_secrets() {
    let server = registrar::start("").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.pcapng");
    let script = folder.path().join("script.toml");
    let text = "steps = [
{ register = true },
{ dial = \"sip:bob@example.org\", until = \"placed\" },
{ wait = \"300ms\" }]";
    std::fs::write(&script, text).expect("a script");
    let output = Command::new(PHONE)
        .arg("run")
        .arg(&script)
        .args(["--account", "alice@example.org", "--proxy", &server, "--trace", "--pcap"])
        .arg(&file)
        .args(["--listen", "127.0.0.1:0"])
        .env("BAREBELL_PHONE_PASSWORD", PASSWORD)
        .stdin(Stdio::null())
        .output()
        .expect("the phone runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let shown = said(&output);
    assert!(shown.contains("sent to udp:") && shown.contains("received from udp:"), "{shown}");
    assert!(shown.contains("REGISTER sip:") && shown.contains("response=\"...\""), "{shown}");
    assert!(shown.contains("INVITE sip:") && shown.contains("inline:..."), "{shown}");
    assert!(!shown.contains(PASSWORD), "{shown}");
    let packets = packets(&file);
    let all = packets.concat();
    let text = String::from_utf8_lossy(&all);
    assert!(text.contains("response=\"...\"") && text.contains("inline:AAAA"), "{text}");
    assert!(!text.contains(PASSWORD));
    for packet in &packets {
        assert_eq!(packet[0], 0x45);
        assert!(is_summed(&packet[..20]));
        let length = u16::from_be_bytes([packet[2], packet[3]]);
        assert_eq!(usize::from(length), packet.len());
        let segment = (length - 20).to_be_bytes();
        let pseudo = [&packet[12..20], &[0, packet[9]], &segment, &packet[20..]].concat();
        assert!(is_summed(&pseudo));
    }
}

#[test]
fn a_call_is_in_the_file_with_its_sound_by_both_transports() {
    let folder = tempfile::tempdir().expect("a folder");
    for (transport, number) in [("udp", 17), ("tcp", 6)] {
        let callee = Running::answer(&["--play", "tone:440"]);
        let file = folder.path().join(transport);
        let uri = format!("{};transport={transport}", callee.uri());
        let name = file.to_str().expect("text");
        let args = ["call", &uri, "--listen", "127.0.0.1:0", "--duration", "500ms", "--pcap", name];
        let output = processes::phone(&args);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let packets = packets(&file);
        let begin = |packet: &Vec<u8>| if packet[9] == 6 { 40 } else { 28 };
        let invite = packets.iter().find(|packet| packet[begin(packet)..].starts_with(b"INVITE"));
        assert_eq!(invite.expect("an INVITE")[9], number);
        let byes = packets.iter().filter(|packet| packet[begin(packet)..].starts_with(b"BYE "));
        assert_eq!(byes.count(), 1);
        // Up to twenty-five packets in each direction.
        let port = |packet: &Vec<u8>, at| u16::from_be_bytes([packet[at], packet[at + 1]]);
        let is_rtp = |packet: &&Vec<u8>| packet[9] == 17 && packet[28] >> 6 == 2;
        let sound: Vec<u16> =
            packets.iter().filter(is_rtp).map(|packet| port(packet, 20)).collect();
        let first = sound[0];
        assert!(sound.iter().filter(|port| **port == first).count() > 10, "{sound:?}");
        assert!(sound.iter().filter(|port| **port != first).count() > 10, "{sound:?}");
    }
}

#[test]
fn an_unwritable_capture_is_reported_before_the_call() {
    let output = processes::phone(&["call", "sip:a@b", "--pcap", "/no/such/folder/a"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(said(&output).contains("/no/such/folder/a"), "{output:?}");
}
