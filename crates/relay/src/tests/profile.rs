//! Profiles with feedback and without, and RTP and RTCP on one port.

use super::*;
use crate::{MuxAnswer, MuxOffer, MuxRules};
use rtp::rtcp::packet_type::{PSFB, RR, RTPFB, SDES};

const HERE: &str = "198.51.100.1";
const THERE: &str = "203.0.113.1";

fn body(host: &str, port: u16, protocol: &str, more: &str) -> String {
    sdp(host, port).replace("RTP/AVP", protocol) + more
}

/// The offer with these rules for the callee, as it arrives.
fn offer(rig: &Rig, body: &str, feedback: Option<bool>, mux: MuxRules) -> String {
    let begin = |passage: &mut Passage<'_>| {
        (passage.branch, passage.begins, passage.to_tag) = (BRANCH, true, b"");
        (passage.to.feedback, passage.to.mux) = (feedback, mux);
    };
    rig.pass(Side::Caller, Role::Offer { exchange: 1 }, body, begin).unwrap().unwrap()
}

/// The packets of one RTCP datagram, each with its header alone or with one word.
fn rtcp(kinds: &[u8]) -> Vec<u8> {
    kinds.iter().flat_map(|kind| [0x80, *kind, 0, 1, 0, 0, 0, 9]).collect()
}

/// Sends RTCP of `side`. Returns the channel that it leaves by, its destination, and the packet.
fn send(rig: &Rig, side: Side, channel: Channel, kinds: &[u8]) -> (Channel, SocketAddr, Vec<u8>) {
    let host = [HERE, THERE][side.index()];
    let port = [4000, 6000][side.index()] + u16::from(channel == Channel::Rtcp);
    let packet = rtcp(kinds);
    let mut buffer = [0; 1500];
    buffer[..packet.len()].copy_from_slice(&packet);
    let from = SocketAddr::new(host.parse().unwrap(), port);
    let now = rig.now.get();
    let relayed = rig.stream().relay(side, channel, from, &mut buffer, packet.len(), now).unwrap();
    (relayed.channel, relayed.to, buffer[..relayed.length].to_vec())
}

#[test]
fn the_profile_is_converted_for_the_callee_and_back_for_the_caller() {
    let feedback = "a=rtcp-fb:0 nack\r\na=rtcp-fb:* ccm fir\r\na=rtcp-rsize\r\n";
    for (offered, wanted, sent, keeps) in [
        ("RTP/AVPF", Some(false), "RTP/AVP", false),
        ("RTP/AVPF", Some(true), "RTP/AVPF", true),
        ("RTP/AVPF", None, "RTP/AVPF", true),
        ("RTP/AVP", Some(true), "RTP/AVPF", true),
        ("RTP/SAVPF", Some(false), "RTP/SAVP", false),
        ("RTP/SAVP", Some(true), "RTP/SAVPF", true),
        ("UDP/TLS/RTP/SAVPF", Some(false), "UDP/TLS/RTP/SAVP", false),
        ("UDP/TLS/RTP/SAVP", Some(true), "UDP/TLS/RTP/SAVPF", true),
    ] {
        let rig = Rig::new(Limits::default());
        let case = std::format!("{offered} {wanted:?}");
        let body_of = |protocol| body(HERE, 4000, protocol, feedback);
        let text = offer(&rig, &body_of(offered), wanted, MuxRules::default());
        assert!(text.contains(&std::format!(" {sent} 0 101\r\n")), "{case}: {text}");
        assert_eq!(text.contains("a=rtcp-fb"), keeps, "{case}: {text}");
        assert_eq!(text.contains("a=rtcp-rsize"), keeps, "{case}: {text}");
        let answer = rig.first_answer(&body(THERE, 6000, sent, "")).unwrap();
        assert!(answer.contains(&std::format!(" {offered} 0 101\r\n")), "{case}: {answer}");
        // A later offer of the callee gets the profile of the caller without being told.
        let role = Role::Offer { exchange: 9 };
        let text = rig.pass(Side::Callee, role, &body(THERE, 6000, sent, ""), |_| {});
        let text = text.unwrap().unwrap();
        assert!(text.contains(&std::format!(" {offered} 0 101\r\n")), "{case}: {text}");
    }
}

#[test]
fn an_end_without_feedback_gets_reports_only() {
    let rig = Rig::new(Limits::default());
    offer(&rig, &body(HERE, 4000, "RTP/AVPF", ""), Some(false), MuxRules::default());
    rig.first_answer(&body(THERE, 6000, "RTP/AVP", "")).unwrap();
    let sent = |side, kinds: &[u8]| send(&rig, side, Channel::Rtcp, kinds).2;
    assert_eq!(sent(Side::Caller, &[RR, RTPFB, SDES, PSFB]), rtcp(&[RR, SDES]));
    assert_eq!(sent(Side::Caller, &[RTPFB, RR]), rtcp(&[RR]));
    assert_eq!(sent(Side::Caller, &[PSFB]), []);
    assert_eq!(sent(Side::Callee, &[RR, RTPFB]), rtcp(&[RR, RTPFB]));
    // As long as the profiles pass, packets do.
    let rig = Rig::new(Limits::default());
    offer(&rig, &body(HERE, 4000, "RTP/AVPF", ""), None, MuxRules::default());
    rig.first_answer(&body(THERE, 6000, "RTP/AVP", "")).unwrap();
    assert_eq!(send(&rig, Side::Caller, Channel::Rtcp, &[RR, PSFB]).2, rtcp(&[RR, PSFB]));
}

/// The relay cannot read them.
#[test]
fn feedback_under_the_keys_of_the_ends_passes() {
    let key = "a=crypto:1 AES_CM_128_HMAC_SHA1_80 \
               inline:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5\r\n";
    let rig = Rig::new(Limits::default());
    offer(&rig, &body(HERE, 4000, "RTP/SAVPF", key), Some(false), MuxRules::default());
    rig.first_answer(&body(THERE, 6000, "RTP/SAVP", key)).unwrap();
    assert_eq!(send(&rig, Side::Caller, Channel::Rtcp, &[RR, PSFB]).2, rtcp(&[RR, PSFB]));
}

#[test]
fn one_port_is_offered_and_accepted_by_the_rules() {
    let rules = |offer, answer| MuxRules { offer, answer };
    let passed = rules(MuxOffer::Passed, MuxAnswer::Passed);
    let added = rules(MuxOffer::Added, MuxAnswer::Passed);
    let required = rules(MuxOffer::Required, MuxAnswer::Passed);
    let demux = rules(MuxOffer::Removed, MuxAnswer::Accepted);
    let accept = rules(MuxOffer::Passed, MuxAnswer::Accepted);
    let reject = rules(MuxOffer::Added, MuxAnswer::Rejected);
    let reports = |channel| match channel {
        true => Channel::Rtp,
        false => Channel::Rtcp,
    };
    // Offered by the caller, sent on, accepted by the callee, and by the answer as it arrives.
    for (rules, offers, sent, accepts, accepted) in [
        (passed, false, false, false, false),
        (passed, true, true, false, false),
        (passed, true, true, true, true),
        (added, false, true, true, false),
        (added, false, true, false, false),
        (added, true, true, true, true),
        (required, false, true, true, false),
        (required, true, true, true, true),
        (demux, true, false, false, true),
        (demux, false, false, false, false),
        (accept, true, true, false, true),
        (accept, false, false, false, false),
        (reject, true, true, true, false),
        // An answer that was not asked for.
        (demux, false, false, true, false),
    ] {
        let case = std::format!("{rules:?} {offers} {accepts}");
        let line = |has: bool| if has { "a=rtcp-mux\r\n" } else { "" };
        let has = |text: &str| text.contains("a=rtcp-mux\r\n");
        let rig = Rig::new(Limits::default());
        let text = offer(&rig, &body(HERE, 4000, "RTP/AVP", line(offers)), None, rules);
        assert_eq!(has(&text), sent, "{case}: {text}");
        assert_eq!(text.contains("a=rtcp:20002\r\n"), rules == required, "{case}: {text}");
        let answer = rig.first_answer(&body(THERE, 6000, "RTP/AVP", line(accepts))).unwrap();
        assert_eq!(has(&answer), accepted, "{case}: {answer}");
        assert_eq!(answer.matches("a=rtcp-mux").count(), usize::from(accepted), "{case}");
        let is_agreed = sent && accepts;
        let (channel, to, _) = send(&rig, Side::Caller, reports(accepted), &[RR]);
        let there = 6000 + u16::from(!is_agreed);
        assert_eq!((channel, to), (reports(is_agreed), place(&std::format!("{THERE}:{there}"))));
        let (channel, to, _) = send(&rig, Side::Callee, reports(is_agreed), &[RR]);
        let here = 4000 + u16::from(!accepted);
        assert_eq!((channel, to), (reports(accepted), place(&std::format!("{HERE}:{here}"))));
    }
}

#[test]
fn an_end_with_one_port_is_offered_it_again() {
    let rig = Rig::new(Limits::default());
    let added = MuxRules { offer: MuxOffer::Added, answer: MuxAnswer::Passed };
    offer(&rig, &body(HERE, 4000, "RTP/AVP", ""), None, added);
    rig.first_answer(&body(THERE, 6000, "RTP/AVP", "a=rtcp-mux\r\n")).unwrap();
    let role = Role::Offer { exchange: 2 };
    let text = rig.pass(Side::Caller, role, &body(HERE, 4000, "RTP/AVP", ""), |_| {});
    assert!(text.unwrap().unwrap().contains("a=rtcp-mux\r\n"));
    // The offer is refused: what was agreed on holds.
    let (channel, _, _) = send(&rig, Side::Callee, Channel::Rtp, &[RR]);
    assert_eq!(channel, Channel::Rtcp);
    let role = Role::Offer { exchange: 3 };
    let mux = "a=rtcp-mux\r\n";
    let text = rig.pass(Side::Callee, role, &body(THERE, 6000, "RTP/AVP", mux), |_| {});
    assert!(text.unwrap().unwrap().contains(mux));
    let role = Role::Response { exchange: 3, is_final: true };
    let answer = rig.pass(Side::Caller, role, &body(HERE, 4000, "RTP/AVP", ""), |_| {});
    assert!(!answer.unwrap().unwrap().contains("rtcp-mux"));
    let (channel, _, _) = send(&rig, Side::Callee, Channel::Rtcp, &[RR]);
    assert_eq!(channel, Channel::Rtcp);
}

/// Each of the ports has a DTLS association between the ends.
#[test]
fn the_ports_of_dtls_stay_as_the_ends_have_them() {
    let rig = Rig::new(Limits::default());
    let demux = MuxRules { offer: MuxOffer::Removed, answer: MuxAnswer::Rejected };
    let mux = "a=rtcp-mux\r\na=rtcp-mux-only\r\n";
    let dtls = "UDP/TLS/RTP/SAVPF";
    let text = offer(&rig, &body(HERE, 4000, dtls, mux), None, demux);
    assert!(text.contains(mux), "{text}");
    assert!(rig.first_answer(&body(THERE, 6000, dtls, mux)).unwrap().contains(mux));
    assert_eq!(send(&rig, Side::Caller, Channel::Rtp, &[RR]).0, Channel::Rtp);
}
