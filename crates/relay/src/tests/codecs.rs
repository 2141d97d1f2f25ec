//! The codecs in offers and answers.

use super::{BRANCH, Rig};
use crate::{Codec, CodecRules, Keying, Limits, Passage, RelayError, Role, Side};
use std::format;
use std::string::String;
use std::vec::Vec;

/// The codecs that the relay adds in these tests.
pub(super) const ADDED: &[Codec] = &[Codec::Pcma, Codec::G722, Codec::Gsm, Codec::G726];

/// A description with these payload types and lines.
pub(super) fn described(host: &str, port: u16, formats: &str, lines: &[&str]) -> String {
    let lines: String = lines.iter().map(|line| format!("a={line}\r\n")).collect();
    format!(
        "v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP {formats}\r\n{lines}"
    )
}

pub(super) fn caller(formats: &str, lines: &[&str]) -> String {
    described("198.51.100.1", 4000, formats, lines)
}

pub(super) fn callee(formats: &str, lines: &[&str]) -> String {
    described("203.0.113.1", 6000, formats, lines)
}

/// The payload types and the attributes of the audio medium.
fn medium(text: &str) -> (&str, Vec<&str>) {
    let start = text.find("m=audio ").unwrap();
    let mut lines = text[start..].lines();
    let formats = lines.next().unwrap().splitn(4, ' ').nth(3).unwrap_or_default();
    (formats, lines.filter_map(|line| line.strip_prefix("a=")).collect())
}

impl Rig {
    pub(super) fn offer(&self, body: &str, transcode: &'static [Codec]) -> String {
        self.offer_by(body, |passage| passage.to.codecs.transcode = transcode)
    }

    fn offer_by(&self, body: &str, change: impl FnOnce(&mut Passage<'_>)) -> String {
        let begin = |passage: &mut Passage<'_>| {
            (passage.branch, passage.begins, passage.to_tag) = (BRANCH, true, b"");
            change(passage);
        };
        self.pass(Side::Caller, Role::Offer { exchange: 1 }, body, begin).unwrap().unwrap()
    }

    /// Passes an offer and an answer within the dialog. Returns both as they arrive.
    pub(super) fn exchange(&self, by: Side, offer: &str, answer: &str) -> [String; 2] {
        let offer = self.pass(by, Role::Offer { exchange: 9 }, offer, |_| {}).unwrap().unwrap();
        let role = Role::Response { exchange: 9, is_final: true };
        let answer = self.pass(by.other(), role, answer, |_| {}).unwrap().unwrap();
        [offer, answer]
    }
}

#[test]
fn codecs_are_added_behind_those_of_the_offerer() {
    let rig = Rig::new(Limits::default());
    let own = ["rtpmap:101 telephone-event/8000", "rtpmap:96 x/8000", "ptime:30"];
    let offer = rig.offer(&caller("0 96 9 101", &own), ADDED);
    let (formats, lines) = medium(&offer);
    assert_eq!(formats, "0 96 9 101 8 3 97");
    let added = ["rtpmap:8 PCMA/8000", "rtpmap:3 GSM/8000", "rtpmap:97 G726-32/8000"];
    assert_eq!(lines, [&own[..], &added].concat());
    // The same offer gets the same numbers, and one that uses them others.
    assert_eq!(medium(&rig.offer(&caller("0 96 9 101", &own), ADDED)).0, "0 96 9 101 8 3 97");
    let other = ["rtpmap:97 x/8000", "rtpmap:3 y/8000"];
    assert_eq!(medium(&rig.offer(&caller("0 97 9 3", &other), ADDED)).0, "0 97 9 3 8 96 98");
}

#[test]
fn a_shared_codec_passes_and_added_ones_leave_the_answer() {
    let rig = Rig::new(Limits::default());
    rig.offer(&caller("0 101", &["rtpmap:101 telephone-event/8000"]), ADDED);
    let lines = ["rtpmap:0 PCMU/8000", "rtpmap:8 PCMA/8000", "fmtp:8 x", "ptime:20"];
    let answer = rig.first_answer(&callee("0 8 3 101", &lines)).unwrap();
    let left = ["rtpmap:0 PCMU/8000", "ptime:20"];
    assert_eq!(medium(&answer), ("0 101", left.to_vec()));
    assert!(rig.stream().summary()[0].converted_to.is_none());
    // Packets of the others do not pass.
    rig.send(Side::Caller, "198.51.100.1:4000", &super::rtp(1)).unwrap();
    let mut packet = super::rtp(1);
    rig.send(Side::Callee, "203.0.113.1:6000", &packet).unwrap();
    packet[1] = 8;
    let sent = rig.send(Side::Callee, "203.0.113.1:6000", &packet);
    assert_eq!(sent, Err(crate::Drop::PayloadType(8)));
    assert_eq!(crate::Calls::conversions(&rig.relay), 0);
}

#[test]
fn an_added_codec_is_answered_by_one_of_the_offerer() {
    for (offered, answered, expected, converted) in [
        ("3 0 101", "8 101", "3 101", ["PCMA/8000", "GSM/8000"]),
        // PCMU is a codec of both, but not the first of the answer.
        ("18 0 101", "8 0 101", "0 101", ["PCMA/8000", "PCMU/8000"]),
        ("18 3 101", "9 8", "3", ["G722/8000", "GSM/8000"]),
        ("0 13 101", "8 13", "0 13", ["PCMA/8000", "PCMU/8000"]),
        // The bandwidth of the answer.
        ("0 9", "8", "0", ["PCMA/8000", "PCMU/8000"]),
    ] {
        let rig = Rig::new(Limits::default());
        let event = ["rtpmap:101 telephone-event/8000"];
        rig.offer(&caller(offered, &event), ADDED);
        let lines = [&event[..], &["ptime:40", "sendonly"]].concat();
        let answer = rig.first_answer(&callee(answered, &lines)).unwrap();
        let (formats, lines) = medium(&answer);
        let streams = rig.stream().summary();
        assert_eq!(formats, expected, "{answer}");
        assert!(lines.contains(&"sendonly") && !lines.contains(&"ptime:40"), "{answer}");
        let to = streams.each_ref().map(|it| it.converted_to.as_deref().unwrap());
        assert_eq!(to, converted);
        assert_eq!(crate::Calls::conversions(&rig.relay), 1);
    }
}

#[test]
fn an_offer_without_a_codec_of_the_relay_gets_none() {
    let rig = Rig::new(Limits::default());
    let offer = rig.offer(&caller("18 4", &[]), ADDED);
    assert_eq!(medium(&offer), ("18 4", Vec::new()));
    // Codecs of a media type other than audio, and of T.38.
    let body = caller("0", &[]).replace("m=audio", "m=video");
    assert!(rig.offer(&body, ADDED).contains("RTP/AVP 0\r\n"));
    let fax = "v=0\r\nc=IN IP4 198.51.100.1\r\nm=audio 4000 RTP/AVP 0\r\n\
        m=image 4002 udptl t38\r\na=T38FaxVersion:0\r\n";
    let offer = rig.offer(fax, ADDED);
    assert!(offer.ends_with("udptl t38\r\na=T38FaxVersion:0\r\n"), "{offer}");
}

#[test]
fn keys_of_the_ends_are_not_converted() {
    let rig = Rig::new(Limits::default());
    let key = "crypto:1 AES_CM_128_HMAC_SHA1_80 inline:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let secure = caller("0", &[key]).replace("RTP/AVP", "RTP/SAVP");
    assert_eq!(medium(&rig.offer(&secure, ADDED)).0, "0");
    // The relay ends them.
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Clear;
    assert_eq!(medium(&rig.offer(&secure, ADDED)).0, "0 8 9 3 96");
}

#[test]
fn conversions_are_limited_for_an_owner_and_in_all() {
    for limits in [
        Limits { conversions: 1, ..Limits::default() },
        Limits { conversions_of_owner: 1, ..Limits::default() },
    ] {
        let rig = Rig::new(limits);
        assert_eq!(medium(&rig.offer(&caller("0", &[]), ADDED)).0, "0 8 9 3 96");
        let other = |passage: &mut Passage<'_>| {
            (passage.call_id, passage.to.codecs.transcode) = (b"other", ADDED);
        };
        assert_eq!(medium(&rig.offer_by(&caller("0", &[]), other)).0, "0");
        assert_eq!(crate::Calls::conversions_refused(&rig.relay), 1);
        // The end of the call is that of its conversion.
        crate::Calls::end_all(&rig.relay, b"c", crate::Selection::All);
        assert_eq!(crate::Calls::conversions(&rig.relay), 0);
        assert_eq!(medium(&rig.offer_by(&caller("0", &[]), other)).0, "0 8 9 3 96");
    }
}

#[test]
fn later_offers_of_both_sides_get_the_codecs_of_the_other_one() {
    let rig = Rig::new(Limits::default());
    let event = ["rtpmap:101 telephone-event/8000"];
    rig.offer(&caller("3 101", &event), &[Codec::Pcma]);
    rig.first_answer(&callee("8 101", &event)).unwrap();
    // The callee holds the call. Its offer names its own codec.
    let hold = [&event[..], &["sendonly"]].concat();
    let [offer, answer] =
        rig.exchange(Side::Callee, &callee("8 101", &hold), &caller("3 101", &["recvonly"]));
    assert_eq!(medium(&offer).0, "8 101 3");
    assert_eq!(medium(&answer).0, "8");
    // Both agree on a codec: nothing is converted.
    let [offer, answer] = rig.exchange(Side::Callee, &callee("8 0", &[]), &caller("0", &[]));
    assert_eq!([medium(&offer).0, medium(&answer).0], ["8 0 3", "0"]);
    let [here, there] = rig.stream().summary();
    assert_eq!((here.converted_to, there.converted_to), (None, None));
    // The caller is back at its first codec.
    let [offer, answer] = rig.exchange(Side::Caller, &caller("3", &[]), &callee("8", &[]));
    assert_eq!([medium(&offer).0, medium(&answer).0], ["3 8 0", "3"]);
    // A refused offer changes nothing.
    rig.pass(Side::Caller, Role::Offer { exchange: 20 }, &caller("0", &[]), |_| {}).unwrap();
    assert_eq!(rig.stream().summary()[0].converted_to.as_deref(), Some("PCMA/8000"));
}

#[test]
fn a_converted_call_becomes_a_fax_and_back() {
    let rig = Rig::new(Limits::default());
    rig.offer(&caller("3", &[]), &[Codec::Pcma]);
    rig.first_answer(&callee("8", &[])).unwrap();
    let fax = |text: String| {
        let start = text.find("m=").unwrap();
        let port = text[start..].split(' ').nth(1).unwrap();
        format!("{}m=image {port} udptl t38\r\n", &text[..start])
    };
    let sent = [caller("3", &[]), callee("8", &[])].map(fax);
    let [offer, answer] = rig.exchange(Side::Callee, &sent[1], &sent[0]);
    assert!([&offer, &answer].iter().all(|text| text.ends_with(" udptl t38\r\n")), "{offer}");
    assert_eq!(crate::Calls::conversions(&rig.relay), 0);
    // Datagrams of UDPTL, one of which looks like a short packet of RTP.
    for datagram in [&[0, 1, 2, 3][..], &[0x80, 3, 1]] {
        let (_, passed) = rig.send(Side::Caller, "198.51.100.1:4000", datagram).unwrap();
        assert_eq!(passed, datagram);
    }
    let [offer, answer] = rig.exchange(Side::Callee, &callee("8", &[]), &caller("3", &[]));
    assert_eq!([medium(&offer).0, medium(&answer).0], ["8 3", "8"]);
}

#[test]
fn codecs_are_stripped_and_masked() {
    let offer = |change: &dyn Fn(&mut CodecRules<'_>)| {
        let rig = Rig::new(Limits::default());
        let lines = ["rtpmap:101 telephone-event/8000", "fmtp:18 annexb=no"];
        let offer = rig.offer_by(&caller("0 8 18 101", &lines), |passage| {
            change(&mut passage.to.codecs);
        });
        (rig, offer)
    };
    let (_, text) = offer(&|rules| rules.strip = &["g729", "PCMU"]);
    assert_eq!(medium(&text), ("8 101", ["rtpmap:101 telephone-event/8000"].to_vec()));
    let (_, text) = offer(&|rules| (rules.strip, rules.except) = (&["all"], &["pcma"]));
    assert_eq!(medium(&text).0, "8 101");
    let (_, text) = offer(&|rules| rules.strip = &["all"]);
    assert_eq!(medium(&text).0, "0 8 18 101");
    // A masked codec is one of the offerer, a stripped one is not.
    let (rig, text) = offer(&|rules| {
        (rules.mask, rules.transcode) = (&["all"], &[Codec::G722]);
    });
    assert_eq!(medium(&text).0, "101 9");
    assert_eq!(medium(&rig.first_answer(&callee("9 101", &[])).unwrap()).0, "0");
    let (rig, text) = offer(&|rules| {
        (rules.mask, rules.strip, rules.transcode) = (&["PCMA"], &["PCMU", "G729"], &[Codec::G722]);
    });
    assert_eq!(medium(&text).0, "101 9");
    assert_eq!(medium(&rig.first_answer(&callee("9", &[])).unwrap()).0, "8");
}

#[cfg(feature = "opus")]
#[test]
fn events_get_the_clock_rate_of_each_codec() {
    let rig = Rig::new(Limits::default());
    let event = ["rtpmap:101 telephone-event/8000"];
    let offer = rig.offer(&caller("0 101", &event), &[Codec::Opus]);
    let (formats, lines) = medium(&offer);
    assert_eq!(formats, "0 101 96 97");
    assert_eq!(lines[1], "rtpmap:96 opus/48000/2");
    assert_eq!(lines[3..], ["rtpmap:97 telephone-event/48000", "fmtp:97 0-15"]);
    let answered = ["rtpmap:96 opus/48000/2", "rtpmap:97 telephone-event/48000"];
    let answer = rig.first_answer(&callee("96 97", &answered)).unwrap();
    let expected = ["rtpmap:0 PCMU/8000", "rtpmap:101 telephone-event/8000", "fmtp:101 0-15"];
    assert_eq!(medium(&answer), ("0 101", expected.to_vec()));
}

#[test]
fn an_answer_with_codecs_that_were_not_offered_passes() -> Result<(), RelayError> {
    let rig = Rig::new(Limits::default());
    rig.offer(&caller("0", &[]), &[Codec::Pcma]);
    assert_eq!(medium(&rig.first_answer(&callee("9", &[]))?).0, "9");
    Ok(())
}
