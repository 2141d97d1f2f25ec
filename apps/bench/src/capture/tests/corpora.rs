//! Captures of other programs. The expected figures are those of tshark 4.0.17.

use super::build::{Capture, Fields, message};
use crate::capture::{Analysis, CaptureError, Reading, analyse};
use std::path::Path;
use test_support::pcap::datagrams;
use test_support::{corpora, files};

/// Returns `None` if the corpora are absent.
fn analysed(file: &str) -> Option<Analysis> {
    Some(analyse(&corpora()?.join("pcap").join(file), Reading::default()).unwrap())
}

#[test]
fn every_capture_is_read() {
    let Some(root) = corpora() else { return };
    let mut captures = 0;
    for path in files(&root.join("pcap")) {
        let is_capture =
            |path: &Path| path.extension().is_some_and(|one| one == "pcap" || one == "pcapng");
        match analyse(&path, Reading::default()) {
            Ok(analysis) => {
                captures += 1;
                assert!(analysis.packets.packets > 0, "{path:?}");
            }
            Err(CaptureError::NoCapture(_)) => assert!(!is_capture(&path), "{path:?}"),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(captures > 60, "the corpora hold only {captures} captures");
}

/// Asserts the counts of requests with retransmissions, and of responses, as `tshark -q -z sip,stat
/// -r FILE` shows them.
#[track_caller]
fn assert_messages(analysis: &Analysis, requests: &[(&str, u64)], statuses: &[(&str, u64)]) {
    let counted = analysis.methods.iter();
    let counted = counted.map(|(name, one)| (name.as_str(), one.requests + one.retransmissions));
    assert_eq!(counted.filter(|(_, count)| *count > 0).collect::<Vec<_>>(), requests);
    for &(status, expected) in statuses {
        let of_status = |name: &&String| name.starts_with(status);
        let names = analysis.responses.keys().filter(of_status);
        let count = |name| {
            let counts = analysis.responses[name];
            counts.responses + counts.retransmissions
        };
        assert_eq!(names.map(count).sum::<u64>(), expected, "{status}");
    }
    let total: u64 = statuses.iter().map(|(_, count)| count).sum();
    let sent: u64 = requests.iter().map(|(_, count)| count).sum();
    assert_eq!(analysis.sip.udp + analysis.sip.tcp, total + sent);
}

#[test]
fn messages_of_a_user_agent_are_those_that_tshark_counts() {
    // tshark -q -z sip,stat -r sngrep/aaa.pcap, which counts 408 of CANCEL and INVITE together.
    let Some(analysis) = analysed("sngrep/aaa.pcap") else { return };
    assert_messages(
        &analysis,
        &[("ACK", 7), ("CANCEL", 11), ("INVITE", 11), ("REGISTER", 18)],
        &[
            ("100", 7),
            ("183", 1),
            ("200", 3),
            ("401", 14),
            ("403", 3),
            ("407", 3),
            ("408", 2),
            ("480", 1),
        ],
    );
    // tshark -Y 'sip.resend == 1' -r sngrep/aaa.pcap shows 4 INVITE.
    assert_eq!(analysis.methods["INVITE"].retransmissions, 4);
}

#[test]
fn messages_of_a_back_to_back_user_agent_are_those_that_tshark_counts() {
    // tshark -q -z sip,stat -r sipnab/b2bua-asterisk.pcapng
    let Some(analysis) = analysed("sipnab/b2bua-asterisk.pcapng") else { return };
    assert_messages(
        &analysis,
        &[("ACK", 6), ("BYE", 2), ("INVITE", 7), ("PUBLISH", 3), ("REGISTER", 4), ("SUBSCRIBE", 9)],
        &[("100", 3), ("180", 2), ("200", 9), ("401", 7), ("404", 1), ("480", 1), ("489", 6)],
    );
}

#[test]
fn messages_over_tcp_are_those_that_tshark_counts() {
    // tshark -q -z sip,stat -r suricata/sip-tcp-method__sip-tcp.pcap
    let Some(analysis) = analysed("suricata/sip-tcp-method__sip-tcp.pcap") else { return };
    assert_messages(&analysis, &[("REGISTER", 1)], &[("200", 1)]);
    assert_eq!(analysis.sip.tcp, 2);
    // tshark -Y sip: 0.000155 and 0.000349 s.
    let one = &analysis.registrations.list[0];
    assert_eq!(one.final_us.unwrap() - one.register_us, 194);
}

#[test]
fn times_of_a_call_through_a_proxy_are_those_of_tshark() {
    // tshark -Y sip -r sipnab/sip-proxy.pcap
    let Some(analysis) = analysed("sipnab/sip-proxy.pcap") else { return };
    let started = analysis.started_us.unwrap();
    let times = &analysis.calls.list[0].times;
    let since = |time: Option<u64>| time.unwrap() - started;
    assert_eq!(since(times.inv1_us), 0);
    assert_eq!(since(times.inv2_us), 36_248);
    assert_eq!(since(times.rng_us), 95_776);
    assert_eq!(since(times.sdp_ok1_us), 708_086);
    assert_eq!(since(times.sdp_ok2_us), 725_139);
    assert_eq!(since(times.ack_us), 747_151);
    assert_eq!(since(times.bye_us), 2_957_262);
    assert_eq!(since(times.bye_ok_us), 2_970_123);
}

/// A line of `tshark --enable-heuristic rtp_udp -q -z rtp,streams -r FILE`: SSRC, packets, lost,
/// maximum and mean delta, maximum and mean jitter in milliseconds.
type Line = (u32, u64, u64, f64, f64, f64, f64);

#[track_caller]
fn assert_streams(file: &str, lines: &[Line]) {
    let Some(analysis) = analysed(file) else { return };
    assert_eq!(analysis.rtp.streams.len(), lines.len());
    for &(ssrc, packets, lost, max_delta, mean_delta, max_jitter, mean_jitter) in lines {
        let near = |value: Option<f64>, expected: f64| (value.unwrap() - expected).abs() < 0.000_6;
        let is_line = |stream: &&crate::capture::track::RtpStream| {
            (stream.ssrc, stream.packets, stream.lost) == (ssrc, packets, lost)
                && near(stream.max_delta_ms, max_delta)
                && near(stream.mean_delta_ms, mean_delta)
                && near(stream.max_jitter_ms, max_jitter)
                && near(stream.mean_jitter_ms, mean_jitter)
        };
        let streams = &analysis.rtp.streams;
        assert_eq!(streams.iter().filter(is_line).count(), 1, "{file} {ssrc:08x}: {streams:?}");
    }
}

#[test]
fn rtp_streams_are_those_of_tshark() {
    assert_streams("sngrep/aaa.pcap", &[(0x3796_cb71, 9, 0, 69.947, 20.328, 7.799, 5.646)]);
    assert_streams("sipp/g711a.pcap", &[(0xdee0_ee8f, 236, 0, 34.829, 29.998, 0.829, 0.350)]);
    // Opus, with the clock rate of the session description.
    assert_streams(
        "sipnab/invite-opus-bye.pcap",
        &[
            (0x0eef_0001, 152, 0, 20.133, 19.868, 1.249, 0.144),
            (0x0eef_0001, 152, 0, 20.139, 19.868, 1.248, 0.147),
        ],
    );
    assert_streams(
        "asterisk-testsuite/channels/pjsip/rtp_ptime/non-transcode/sipp/40msalaw.pcap",
        &[(0xd500_ca81, 826, 0, 40.751, 39.999, 0.191, 0.100)],
    );
    assert_streams(
        "rtpproxy/extractaudio/call1_g722_srtp.a.rtp",
        &[(0x920b_9750, 1168, 0, 21.468, 19.999, 0.516, 0.270)],
    );
}

#[test]
fn the_longest_delta_and_jitter_are_those_of_tshark_where_there_are_pauses() {
    // Comfort noise: tshark weights the means by all packets, so only the maxima agree.
    let Some(analysis) = analysed("sipnab/rtp-protocol.pcap") else { return };
    let figures: Vec<_> = analysis
        .rtp
        .streams
        .iter()
        .map(|stream| {
            let thousandths = |value: Option<f64>| (value.unwrap() * 1_000.0).round() as u64;
            (stream.packets, thousandths(stream.max_delta_ms), thousandths(stream.max_jitter_ms))
        })
        .collect();
    assert_eq!(figures, [(47, 24_232, 556), (201, 24_777, 3_293)]);
}

#[test]
fn packets_of_a_call_are_authentic_under_its_keys() {
    // rtpproxy decrypts these recordings with the keys in its files; the description is made here.
    let Some(root) = corpora() else { return };
    let mut capture = Capture::default();
    let keys =
        ["UHXu88YuDj8guQxhCqEeue0CSr+JcQ/Uii4NdaS5", "UBFc5R7tK5f91V8j1da++z3h/3H2yS5WaN819nJd"];
    let ends = [("10.0.0.1:5060", "10.0.0.1:4000"), ("10.0.0.2:5060", "10.0.0.2:6000")];
    for (index, (first, key)) in ["INVITE sip:b", "200"].into_iter().zip(keys).enumerate() {
        let (address, port) = ends[index].1.split_once(':').unwrap();
        let sdp = format!(
            "v=0\r\nc=IN IP4 {address}\r\nm=audio {port} RTP/SAVP 9\r\n\
             a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{key}\r\n"
        );
        let fields = Fields { call_id: "c", branches: &["1"], cseq: "1 INVITE", to_tag: "" };
        capture.udp(index as u64, ends[index].0, ends[1 - index].0, &message(first, fields, &sdp));
    }
    for (index, name) in ["a", "o"].into_iter().enumerate() {
        let file =
            root.join("pcap/rtpproxy/extractaudio").join(format!("call1_g722_srtp.{name}.rtp"));
        for (time, datagram) in datagrams(&file) {
            let micros = 10 + time.as_micros() as u64 % 1_000_000_000;
            capture.udp(micros, ends[index].1, ends[1 - index].1, &datagram);
        }
    }
    let streams = capture.analyse().rtp.streams;
    let [one, other] = &streams[..] else { panic!("{streams:?}") };
    for (stream, packets) in [(one, [1168, 1172]), (other, [1168, 1172])] {
        let srtp = stream.srtp.as_ref().unwrap();
        assert!(packets.contains(&srtp.authentic), "{stream:?}");
        assert_eq!((srtp.not_authentic, srtp.unchecked, stream.lost), (0, 0, 0));
        assert_eq!(
            (stream.packets, &stream.encodings[..]),
            (srtp.authentic, &["G722".to_owned()][..])
        );
    }
}
