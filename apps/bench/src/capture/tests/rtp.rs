//! RTP streams with known losses, order, times and jitter.

use super::build::{Capture, Fields, START, address, message};
use crate::capture::track::RtpStream;

pub(super) const FROM: &str = "10.0.0.1:4000";
pub(super) const TO: &str = "10.0.0.2:6000";

pub(super) fn rtp(payload_type: u8, sequence: u16, timestamp: u32) -> Vec<u8> {
    let mut bytes = vec![0x80, payload_type];
    bytes.extend(sequence.to_be_bytes());
    bytes.extend(timestamp.to_be_bytes());
    bytes.extend(0xdead_beef_u32.to_be_bytes());
    bytes.extend([0xff; 160]);
    bytes
}

/// Returns packets of G.711, each with its sequence number, at these microseconds.
fn g711(packets: &[(u16, u64)]) -> Capture {
    let mut capture = Capture::default();
    for &(sequence, micros) in packets {
        let timestamp = 160 * u32::from(sequence.wrapping_sub(packets[0].0));
        capture.udp(micros, FROM, TO, &rtp(0, sequence, timestamp));
    }
    capture
}

pub(super) fn only_stream(capture: &Capture) -> RtpStream {
    let streams = capture.analyse().rtp.streams;
    let [stream] = &streams[..] else { panic!("{streams:?}") };
    stream.clone()
}

#[track_caller]
pub(super) fn assert_ms(value: Option<f64>, expected: f64) {
    let value = value.unwrap();
    assert!((value - expected).abs() < 1e-6, "{value} ms is not {expected} ms");
}

#[test]
fn a_steady_stream_has_no_jitter() {
    // The sequence numbers wrap.
    let packets: Vec<_> =
        (0..51u16).map(|index| (index.wrapping_sub(16), 20_000 * u64::from(index))).collect();
    let stream = only_stream(&g711(&packets));
    assert_eq!((stream.source, stream.destination), (address(FROM), address(TO)));
    assert_eq!((stream.ssrc, stream.payload_types.as_slice()), (0xdead_beef, &[0][..]));
    assert_eq!(stream.encodings, ["PCMU"]);
    assert_eq!((stream.packets, stream.expected, stream.lost), (51, 51, 0));
    assert_eq!((stream.out_of_order, stream.duplicates, stream.restarts), (0, 0, 0));
    assert_ms(stream.max_delta_ms, 20.0);
    assert_ms(stream.mean_delta_ms, 20.0);
    assert_ms(stream.max_jitter_ms, 0.0);
    // 200 bytes of IP every 20 ms (204 in the published measurement, with a longer RTP header).
    assert_ms(stream.kbit_per_s, 80.0);
    assert_eq!(stream.started_us, START / 1_000);
    assert_eq!(stream.ended_us, START / 1_000 + 1_000_000);
}

#[test]
fn jitter_is_that_of_rfc_3550() {
    // Packets 2 and 3 come 4 ms late and 1 ms early: |D| is 0, 4, 5, 1 ms.
    let stream = only_stream(&g711(&[(1, 0), (2, 20_000), (3, 44_000), (4, 59_000), (5, 80_000)]));
    // J += (|D| - J) / 16: 0, 0.25, 0.546875, 0.5751953125 ms.
    assert_ms(stream.max_jitter_ms, 0.575_195_312_5);
    assert_ms(stream.mean_jitter_ms, 0.343_017_578_125);
    assert_ms(stream.max_delta_ms, 24.0);
    assert_ms(stream.mean_delta_ms, 20.0);
}

#[test]
fn losses_copies_and_disorder_are_counted() {
    let stream = only_stream(&g711(&[
        (65_534, 0),
        (65_535, 20_000),
        (0, 40_000),
        // 1 is lost, 3 overtakes 2, 3 comes twice, 4 to 6 are lost.
        (3, 80_000),
        (2, 81_000),
        (3, 82_000),
        (7, 180_000),
    ]));
    assert_eq!((stream.packets, stream.expected, stream.lost), (7, 10, 4));
    assert_eq!((stream.out_of_order, stream.duplicates), (1, 1));
    assert_ms(stream.max_delta_ms, 98.0);
}

#[test]
fn pauses_are_no_delta() {
    let mut capture = Capture::default();
    for (payload_type, sequence, timestamp, micros) in [
        (8, 1, 0, 0),
        (8, 2, 160, 20_000),
        // Comfort noise, the pause, and the talk spurt after it with the marker.
        (13, 3, 320, 41_000),
        (0x80 | 8, 4, 8000, 1_000_000),
        (8, 5, 8160, 1_021_000),
    ] {
        capture.udp(micros, FROM, TO, &rtp(payload_type, sequence, timestamp));
    }
    let stream = only_stream(&capture);
    assert_eq!(stream.payload_types, [8, 13]);
    assert_ms(stream.max_delta_ms, 21.0);
    assert_ms(stream.mean_delta_ms, 20.5);
    assert_eq!(stream.p999_delta_ms, None, "there are too few");
}

#[test]
fn a_long_stream_has_a_percentile() {
    let mut packets: Vec<_> = (0..2002).map(|index| (index, 20_000 * u64::from(index))).collect();
    packets[1000].1 += 9_000;
    let stream = only_stream(&g711(&packets));
    assert_ms(stream.max_delta_ms, 29.0);
    // The late packet is one in two thousand.
    assert_ms(stream.p999_delta_ms, 20.095);
}

#[test]
fn a_few_packets_are_no_stream_unless_a_session_description_says_so() {
    let dynamic = |sequence: u16| rtp(97, sequence, 960 * u32::from(sequence));
    let mut capture = Capture::default();
    for sequence in 0..3 {
        capture.udp(1_000 + 20_000 * u64::from(sequence), FROM, TO, &dynamic(sequence));
    }
    let rtp = capture.analyse().rtp;
    assert_eq!((rtp.streams.len(), rtp.unrecognised), (0, 3));

    let mut described = Capture::default();
    let sdp = "v=0\r\nc=IN IP4 192.0.2.1\r\nm=video 0 RTP/AVP 31\r\nm=audio 6000 RTP/AVP 0 97\r\n\
        c=IN IP4 10.0.0.2\r\na=rtpmap:97 opus/48000/2\r\n";
    let fields = Fields { call_id: "x", branches: &["1"], cseq: "1 INVITE", to_tag: "" };
    described.udp(0, "10.0.0.2:5060", "10.0.0.1:5060", &message("INVITE sip:a", fields, sdp));
    described.packets.extend(capture.packets);
    let stream = only_stream(&described);
    assert_eq!(stream.call_id.as_deref(), Some("x"));
    assert_eq!(stream.encodings, ["opus"]);
    assert_eq!((stream.packets, stream.lost), (3, 0));
    // 960 units at 48,000 Hz are 20 ms.
    assert_ms(stream.max_jitter_ms, 0.0);
}

#[test]
fn rtcp_and_chance_are_no_streams() {
    let mut capture = Capture::default();
    for index in 0..20u16 {
        let micros = 1_000 * u64::from(index);
        capture.udp(micros, FROM, TO, &[0x80, 200, 0, 1, 1, 2, 3, 4]);
        // Datagrams that look like version 2, with random numbers.
        capture.udp(micros + 1, FROM, "10.0.0.2:53", &rtp(0, index.wrapping_mul(7919), 0));
    }
    let analysis = capture.analyse();
    assert_eq!(analysis.rtp.streams.len(), 0);
    assert_eq!((analysis.rtp.rtcp, analysis.rtp.unrecognised), (20, 20));
}

#[test]
fn events_do_not_disturb_the_jitter_of_speech() {
    let sdp = "v=0\r\nc=IN IP4 10.0.0.2\r\nm=audio 6000 RTP/AVP 0 101\r\n\
        a=rtpmap:101 telephone-event/8000\r\n";
    let fields = Fields { call_id: "x", branches: &["1"], cseq: "1 INVITE", to_tag: "" };
    let mut capture = Capture::default();
    capture.udp(0, "10.0.0.2:5060", "10.0.0.1:5060", &message("INVITE sip:a", fields, sdp));
    for (payload_type, sequence, timestamp) in
        [(0, 1, 160), (0, 2, 320), (101, 3, 480), (101, 4, 480), (101, 5, 480), (0, 6, 960)]
    {
        let micros = 20_000 * u64::from(sequence);
        capture.udp(micros, FROM, TO, &rtp(payload_type, sequence, timestamp));
    }
    let stream = only_stream(&capture);
    assert_eq!(stream.encodings, ["PCMU", "telephone-event"]);
    assert_ms(stream.max_jitter_ms, 0.0);
    assert_ms(stream.max_delta_ms, 20.0);
}

/// Returns ten seconds in which every 50th packet is lost, every 37th is overtaken by the next, and
/// every 41st is duplicated, all with up to 6 ms of delay.
fn disturbed() -> Capture {
    let mut packets = Vec::new();
    for index in (0..500u16).filter(|index| index % 50 != 10) {
        let late = if index % 37 == 5 { 30_000 } else { 0 };
        let micros = 20_000 * u64::from(index) + u64::from(index) * 7_919 % 6_000 + late;
        packets.push((index.wrapping_sub(200), micros));
        if index % 41 == 7 {
            packets.push((index.wrapping_sub(200), micros + 500));
        }
    }
    packets.sort_by_key(|&(_, micros)| micros);
    let mut capture = Capture::default();
    for (sequence, micros) in packets {
        let timestamp = 160 * u32::from(sequence.wrapping_add(200));
        capture.udp(micros, FROM, TO, &rtp(0, sequence, timestamp));
    }
    capture
}

#[test]
fn a_disturbed_stream_has_the_figures_of_tshark() {
    // tshark 4.0.17, --enable-heuristic rtp_udp -q -z rtp,streams: 503 packets, -3 lost (copies
    // taken off), maximum and mean delta and maximum and mean jitter as below.
    let stream = only_stream(&disturbed());
    assert_eq!((stream.packets, stream.expected, stream.lost), (503, 500, 10));
    assert_eq!((stream.out_of_order, stream.duplicates, stream.restarts), (14, 13, 0));
    let micros = |value: Option<f64>| (value.unwrap() * 1_000.0).round() as u64;
    assert_eq!(micros(stream.max_delta_ms), 43_838);
    assert_eq!(micros(stream.mean_delta_ms), 19_889);
    assert_eq!(micros(stream.max_jitter_ms), 6_606);
    assert_eq!(micros(stream.mean_jitter_ms), 3_938);
}

#[test]
fn quality_is_that_of_the_e_model() {
    let of = |payload_type: u8, every: u16| {
        let mut capture = Capture::default();
        for index in (0..1000u16).filter(|index| index % every != 1) {
            let packet = rtp(payload_type, index, 160 * u32::from(index));
            capture.udp(20_000 * u64::from(index), FROM, TO, &packet);
        }
        only_stream(&capture)
    };
    // R = 93.2 - Ie - (95 - Ie) P / (P + Bpl), P in percent: G.711 has Ie 0 and Bpl 25.1, G.729A 11
    // and 19.
    for (payload_type, every, rating, mos) in [
        (0, 1000, 93.2 - 95.0 * 0.1 / 25.2, 4.40),
        (8, 10, 93.2 - 95.0 * 10.0 / 35.1, 3.41),
        (18, 10, 93.2 - 11.0 - 84.0 * 10.0 / 29.0, 2.75),
    ] {
        let stream = of(payload_type, every);
        assert!((stream.rating.unwrap() - rating).abs() < 1e-9, "{stream:?}");
        assert!((stream.mos.unwrap() - mos).abs() < 0.01, "{stream:?}");
    }
    // G.722 has no values.
    assert_eq!((of(9, 10).rating, of(9, 10).mos), (None, None));
}

#[test]
fn jitter_makes_the_quality_worse() {
    let packets: Vec<_> = (0..500u16)
        .map(|index| (index, 20_000 * u64::from(index) + u64::from(index % 2) * 300_000))
        .collect();
    let mut packets = packets;
    packets.sort_by_key(|&(_, micros)| micros);
    let stream = only_stream(&g711(&packets));
    assert_eq!(stream.lost, 0);
    assert!(stream.mean_jitter_ms.unwrap() > 100.0);
    assert!(stream.mos.unwrap() < 3.9, "{stream:?}");
}
