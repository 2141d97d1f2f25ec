//! Payload types that change during a call: an offer applies when it is answered.

use super::build::{Capture, Fields, message};
use super::rtp::{assert_ms, only_stream, rtp};
use crate::capture::track::RtpStream;

const ALICE: &str = "10.0.0.1:5060";
const BOB: &str = "10.0.0.2:5060";
/// The receiving addresses of the media.
const MEDIA: (&str, &str) = ("10.0.0.1:4000", "10.0.0.2:6000");

const OPUS: &str = "96 opus/48000/2";
const WIDE: &str = "97 AMR-WB/16000";

fn sdp(address: &str, port: u16, map: &str) -> String {
    let (number, _) = map.split_once(' ').unwrap();
    format!("v=0\r\nc=IN IP4 {address}\r\nm=audio {port} RTP/AVP {number}\r\na=rtpmap:{map}\r\n")
}

/// A call between Alice and Bob, both with the same payload types.
#[derive(Default)]
struct Talk {
    capture: Capture,
    /// The time of the last packet of media.
    micros: u64,
    messages: u64,
    /// The number of earlier calls.
    calls: u64,
    number: u16,
    timestamp: u32,
}

impl Talk {
    fn say(&mut self, by_alice: bool, first: &str, cseq: &str, map: Option<&str>) {
        let (from, to) = if by_alice { (ALICE, BOB) } else { (BOB, ALICE) };
        let (address, port) = if by_alice { ("10.0.0.1", 4000) } else { ("10.0.0.2", 6000) };
        let sdp = map.map(|map| sdp(address, port, map)).unwrap_or_default();
        let branch = if first.starts_with("ACK") { "ack" } else { cseq };
        let to_tag = if first.contains("INVITE") && cseq.starts_with("1 ") { "" } else { "b" };
        let call_id = &format!("c{}", self.calls);
        let fields = Fields {
            call_id,
            branches: &[&format!("{call_id}{}", branch.replace(' ', ""))],
            cseq,
            to_tag,
        };
        self.messages += 1;
        self.capture.udp(self.micros + self.messages, from, to, &message(first, fields, &sdp));
    }

    /// Adds an INVITE, and its response with this status.
    fn invite(&mut self, number: u32, map: &str, status: &str) {
        let cseq = format!("{number} INVITE");
        self.say(true, "INVITE sip:bob@b", &cseq, Some(map));
        self.say(false, status, &cseq, (status == "200").then_some(map));
        let ack = format!("{number} ACK");
        self.say(true, "ACK sip:bob@b", &ack, None);
    }

    /// Adds fifty packets from Bob to Alice, 20 ms each.
    fn media(&mut self, payload_type: u8, clock: u32) {
        for _ in 0..50 {
            self.micros += 20_000;
            self.number += 1;
            self.timestamp += clock / 50;
            let packet = rtp(payload_type, self.number, self.timestamp);
            self.capture.udp(self.micros, MEDIA.1, MEDIA.0, &packet);
        }
    }

    #[track_caller]
    fn assert(&self, encodings: &[&str]) -> RtpStream {
        let stream = only_stream(&self.capture);
        assert_eq!(stream.encodings, encodings);
        assert_eq!((stream.lost, stream.restarts), (0, 0));
        stream
    }
}

#[test]
fn the_next_call_has_a_stream_of_its_own_with_the_same_ssrc_and_ports() {
    for is_early in [false, true] {
        let mut talk = Talk::default();
        talk.invite(1, OPUS, "200");
        talk.media(96, 48_000);
        // The next call begins 99 s later, with other numbers.
        talk.micros += 99_000_000;
        (talk.number, talk.timestamp, talk.calls) = (40_000, 7, 1);
        if is_early {
            talk.say(true, "INVITE sip:bob@b", "1 INVITE", Some(OPUS));
            talk.media(96, 48_000);
            talk.say(false, "200", "1 INVITE", Some(OPUS));
            talk.say(true, "ACK sip:bob@b", "1 ACK", None);
        } else {
            talk.invite(1, OPUS, "200");
        }
        talk.media(96, 48_000);
        let streams = talk.capture.analyse().rtp.streams;
        let [first, second] = &streams[..] else { panic!("{streams:?}") };
        let call_ids = [first, second].map(|stream| stream.call_id.as_deref());
        assert_eq!(call_ids, [Some("c0"), Some("c1")], "early: {is_early}");
        let packets = if is_early { 100 } else { 50 };
        assert_eq!((first.packets, second.packets), (50, packets));
        for stream in [first, second] {
            assert!(stream.max_delta_ms.unwrap() < 21.0, "{stream:?}");
            assert_eq!((stream.lost, stream.restarts), (0, 0));
        }
    }
}

#[test]
fn a_new_description_of_the_same_call_makes_no_new_stream() {
    let mut talk = Talk::default();
    talk.invite(1, OPUS, "200");
    talk.media(96, 48_000);
    // On hold for a while: the timestamps advance with the time, the numbers with the packets.
    talk.micros += 60_000_000;
    talk.timestamp += 60 * 48_000;
    talk.invite(2, OPUS, "200");
    talk.media(96, 48_000);
    talk.assert(&["opus"]);
}

#[test]
fn a_new_map_holds_from_its_answer_on() {
    let mut talk = Talk::default();
    talk.invite(1, OPUS, "200");
    talk.media(96, 48_000);
    talk.invite(2, WIDE, "200");
    talk.media(97, 16_000);
    assert_ms(talk.assert(&["opus", "AMR-WB"]).max_jitter_ms, 0.0);
}

#[test]
fn a_number_can_change_its_meaning() {
    let mut talk = Talk::default();
    talk.invite(1, OPUS, "200");
    talk.media(96, 48_000);
    // Until the answer, the payload type keeps its meaning.
    talk.say(true, "INVITE sip:bob@b", "2 INVITE", Some("96 AMR-WB/16000"));
    talk.media(96, 48_000);
    talk.say(false, "200", "2 INVITE", Some("96 AMR-WB/16000"));
    talk.media(96, 16_000);
    assert_ms(talk.assert(&["opus", "AMR-WB"]).max_jitter_ms, 0.0);
}

#[test]
fn an_offer_that_is_refused_changes_nothing() {
    let mut talk = Talk::default();
    talk.invite(1, OPUS, "200");
    talk.media(96, 48_000);
    talk.invite(2, "96 AMR-WB/16000", "488");
    talk.media(96, 48_000);
    assert_ms(talk.assert(&["opus"]).max_jitter_ms, 0.0);
}

#[test]
fn offers_come_in_responses_too() {
    let mut talk = Talk::default();
    talk.invite(1, OPUS, "200");
    talk.say(true, "INVITE sip:bob@b", "2 INVITE", None);
    talk.say(false, "200", "2 INVITE", Some(WIDE));
    talk.say(true, "ACK sip:bob@b", "2 ACK", Some(WIDE));
    talk.media(97, 16_000);
    talk.say(false, "UPDATE sip:alice@a", "7 UPDATE", Some(OPUS));
    talk.say(true, "200", "7 UPDATE", Some(OPUS));
    talk.media(96, 48_000);
    assert_ms(talk.assert(&["AMR-WB", "opus"]).max_jitter_ms, 0.0);
}

#[test]
fn packets_under_way_have_the_map_before() {
    let mut talk = Talk::default();
    talk.invite(1, OPUS, "200");
    talk.media(96, 48_000);
    talk.invite(2, WIDE, "200");
    talk.media(96, 48_000);
    assert_ms(talk.assert(&["opus"]).max_jitter_ms, 0.0);
}

#[test]
fn a_description_is_found_in_a_body_of_several_parts() {
    let mut capture = Capture::default();
    let fields = Fields { call_id: "c", branches: &["1"], cseq: "1 INVITE", to_tag: "" };
    let body = format!(
        "--x\r\nContent-Type: application/isup\r\n\r\n\u{1}\u{2}\r\n--x\r\nContent-Type: application/sdp\r\n\r\n{}\r\n--x--\r\n",
        sdp("10.0.0.1", 4000, WIDE)
    );
    let whole = message("INVITE sip:bob@b", fields, &body);
    let whole = String::from_utf8(whole).unwrap();
    let whole = whole.replace(
        "Content-Type: application/sdp\r\nContent-Length",
        "Content-Type: multipart/mixed;boundary=x\r\nContent-Length",
    );
    capture.udp(0, ALICE, BOB, whole.as_bytes());
    for index in 0..50u16 {
        let packet = rtp(97, index, 320 * u32::from(index));
        capture.udp(20_000 * u64::from(index) + 1, MEDIA.1, MEDIA.0, &packet);
    }
    let stream = only_stream(&capture);
    assert_eq!(
        (stream.call_id.as_deref(), &stream.encodings[..]),
        (Some("c"), &["AMR-WB".to_owned()][..])
    );
    assert_ms(stream.max_jitter_ms, 0.0);
    assert!(capture.analyse().calls.list[0].flow[0].sdp);
}
