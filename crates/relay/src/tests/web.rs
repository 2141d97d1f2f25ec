//! Legs of browsers: descriptions, checks, keys and consent.

use super::*;
use crate::{Way, WebFault};
use ice::CONSENT;
use ice::stun::{BINDING, Class, Message, TransactionId, Writer, attribute_type as at};
use sdp::dtls::{Fingerprint, HashFunction};
use srtp::{MasterKey, Suite};
use std::format;

const SUITE: Suite = Suite::AeadAes128Gcm;
const BROWSER: &str = "198.51.100.77:40000";
const PHONE: &str = "203.0.113.1:6000";

fn fingerprint(byte: u8) -> Fingerprint {
    Fingerprint { hash: HashFunction::Sha256, bytes: [byte].repeat(32) }
}

/// The description of a browser, with this user fragment and the fingerprint of this byte.
fn browser(ufrag: &str, byte: u8, setup: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\na=group:BUNDLE 0\r\n\
         a=extmap-allow-mixed\r\na=msid-semantic: WMS x\r\n\
         m=audio 9 UDP/TLS/RTP/SAVPF 111 0 110\r\nc=IN IP4 0.0.0.0\r\na=rtcp:9 IN IP4 0.0.0.0\r\n\
         a=ice-ufrag:{ufrag}\r\na=ice-pwd:abcdefghijklmnopqrstuv\r\na=ice-options:trickle\r\n\
         a=fingerprint:{}\r\na=setup:{setup}\r\na=mid:0\r\n\
         a=extmap:1 urn:ietf:params:rtp-hdrext:ssrc-audio-level\r\na=sendrecv\r\na=msid:x y\r\n\
         a=rtcp-mux\r\na=rtcp-rsize\r\na=rtpmap:111 opus/48000/2\r\na=rtpmap:0 PCMU/8000\r\n\
         a=rtcp-fb:111 transport-cc\r\na=rtpmap:110 telephone-event/48000\r\na=ssrc:7 cname:z\r\n",
        fingerprint(byte)
    )
}

/// The value of the first attribute of this name.
fn value<'a>(description: &'a str, name: &str) -> &'a str {
    let start = format!("a={name}:");
    let line = description.lines().find_map(|line| line.strip_prefix(&start));
    line.unwrap_or_else(|| panic!("{name} in {description}"))
}

/// A check with the credentials that the relay has described.
fn check(description: &str, theirs: &str, password: Option<&str>, nominates: bool) -> Vec<u8> {
    let (ufrag, described) = (value(description, "ice-ufrag"), value(description, "ice-pwd"));
    let mut out = Vec::new();
    let mut writer = Writer::new(Class::Request, BINDING, TransactionId([9; 12]), &mut out);
    writer.attribute(at::USERNAME, format!("{ufrag}:{theirs}").as_bytes()).unwrap();
    writer.attribute(at::PRIORITY, &9_u32.to_be_bytes()).unwrap();
    writer.attribute(at::ICE_CONTROLLING, &[1; 8]).unwrap();
    if nominates {
        writer.attribute(at::USE_CANDIDATE, &[]).unwrap();
    }
    writer.integrity(password.unwrap_or(described).as_bytes()).unwrap();
    writer.fingerprint().unwrap();
    out
}

fn keys(byte: u8) -> MasterKey {
    MasterKey::new(SUITE, &[byte; 28]).unwrap()
}

/// A rig with a call of a browser with a phone in clear, and the description that the browser got.
fn answered() -> (Rig, String) {
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Clear;
    let offer = rig.first_offer(&browser("brow", 1, "actpass"));
    assert!(offer.contains("m=audio 20002 RTP/AVP 111 0 110\r\n"), "{offer}");
    let removed = ["ice-", "fingerprint", "setup", "extmap", "msid", "ssrc", "rtcp-", "mid:"];
    for name in removed {
        assert!(!offer.contains(&format!("a={name}")), "{name} in {offer}");
    }
    let answer = rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    (rig, answer)
}

#[test]
fn a_browser_gets_a_candidate_a_fingerprint_and_the_role_of_the_client() {
    let (_, answer) = answered();
    assert!(answer.contains("m=audio 20000 UDP/TLS/RTP/SAVPF 0 101\r\n"), "{answer}");
    assert!(answer.contains("a=ice-lite\r\nm=audio"), "{answer}");
    assert!(answer.contains("a=rtcp-mux\r\n"), "{answer}");
    assert_eq!(value(&answer, "setup"), "passive");
    assert_eq!(value(&answer, "mid"), "0");
    assert_eq!(value(&answer, "fingerprint"), format!("{}", fingerprint(0xfe)));
    assert!(value(&answer, "candidate").ends_with(" 192.0.2.1 20000 typ host"), "{answer}");
}

#[test]
fn a_browser_is_offered_ice_and_a_handshake() {
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Dtls;
    let offer = rig.first_offer(&sdp("198.51.100.1", 4000));
    assert!(offer.contains("m=audio 20002 UDP/TLS/RTP/SAVPF 0 101\r\n"), "{offer}");
    assert_eq!((value(&offer, "setup"), offer.matches("a=rtcp-mux").count()), ("actpass", 1));
    // A check may come before the answer.
    let found = rig.send(Side::Callee, BROWSER, &check(&offer, "brow", None, true));
    assert!(found.is_ok(), "{found:?}");
    let answer = rig.first_answer(&browser("brow", 1, "active")).unwrap();
    assert!(answer.contains("m=audio 20000 RTP/AVP 111 0 110\r\n"), "{answer}");
    assert!(!answer.contains("a=rtcp-mux"), "{answer}");
    let peer = rig.stream().dtls_peer(Side::Callee).unwrap();
    assert_eq!(peer.fingerprints, [fingerprint(1)]);
    assert_eq!(rig.stream().dtls_peer(Side::Caller), None);
}

#[test]
fn nothing_passes_before_the_keys_or_from_other_addresses() {
    let (rig, answer) = answered();
    let stream = rig.stream();
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(1)), Err(Drop::NoKeys));
    assert_eq!(rig.send(Side::Caller, BROWSER, &rtp(1)), Err(Drop::NoKeys));
    // Neither a handshake nor a check with a wrong password is taken.
    let hello = [22, 254, 253, 0];
    assert!(rig.send(Side::Caller, BROWSER, &hello).is_err());
    let forged = check(&answer, "brow", Some("abcdefghijklmnopqrstuv"), true);
    let mut buffer = [0; 1500];
    buffer[..forged.len()].copy_from_slice(&forged);
    let from = place(BROWSER);
    let now = rig.now.get();
    let relayed =
        stream.relay(Side::Caller, Channel::Rtp, from, &mut buffer, forged.len(), now).unwrap();
    assert_eq!((relayed.to, relayed.way), (from, Way::Back));
    assert!(relayed.length <= forged.len());
    assert_eq!(Message::parse(&buffer[..relayed.length]).unwrap().class, Class::Error);
    assert!(rig.send(Side::Caller, BROWSER, &hello).is_err());
    // An authentic check opens the way of the handshake.
    let authentic = check(&answer, "brow", None, true);
    let (to, response) = rig.send(Side::Caller, BROWSER, &authentic).unwrap();
    assert_eq!(to, from);
    assert_eq!(Message::parse(&response).unwrap().class, Class::Success);
    buffer[..4].copy_from_slice(&hello);
    let relayed = stream.relay(Side::Caller, Channel::Rtp, from, &mut buffer, 4, now).unwrap();
    assert_eq!((relayed.way, relayed.length), (Way::Handshake, 4));
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(2)), Err(Drop::NoKeys));
    stream.set_keys(Side::Caller, SUITE, keys(1), keys(2)).unwrap();
    // The phone's packet is encrypted for the browser, and the browser's decrypted for the phone.
    let (to, mut packet) = rig.send(Side::Callee, PHONE, &rtp(3)).unwrap();
    assert_eq!(to, from);
    let policy = srtp::Policy::new(SUITE);
    let mut receiver = srtp::Receiver::new(&policy, [keys(1)].into()).unwrap();
    assert_eq!(receiver.unprotect(&mut packet).unwrap(), &rtp(3)[..]);
    let mut sender = srtp::Sender::new(&policy, [keys(2)].into()).unwrap();
    let mut packet = [0; 300];
    packet[..172].copy_from_slice(&rtp(4));
    let length = sender.protect(&mut packet, 172).unwrap();
    let (to, plain) = rig.send(Side::Caller, BROWSER, &packet[..length]).unwrap();
    assert_eq!((to, plain), (place(PHONE), rtp(4)));
    assert!(rig.send(Side::Caller, BROWSER, &rtp(5)).is_err());
    assert_eq!(rig.send(Side::Caller, "198.51.100.78:40000", &packet[..length]), Err(Drop::Source));
}

/// The keys and the selected address survive other credentials; the encryption cannot be ended.
#[test]
fn a_restart_of_ice_keeps_the_keys_and_security_is_not_lowered() {
    let (rig, answer) = answered();
    rig.send(Side::Caller, BROWSER, &check(&answer, "brow", None, true)).unwrap();
    let stream = rig.stream();
    stream.set_keys(Side::Caller, SUITE, keys(1), keys(2)).unwrap();
    let role = Role::Offer { exchange: 2 };
    rig.pass(Side::Caller, role, &browser("anew", 1, "actpass"), |_| {}).unwrap();
    let role = Role::Response { exchange: 2, is_final: true };
    let restarted = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {});
    let restarted = restarted.unwrap().unwrap();
    assert_ne!(value(&restarted, "ice-ufrag"), value(&answer, "ice-ufrag"));
    assert!(rig.send(Side::Callee, PHONE, &rtp(1)).is_ok());
    let moved = "198.51.100.79:50000";
    rig.send(Side::Caller, moved, &check(&restarted, "anew", None, true)).unwrap();
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(2)).unwrap().0, place(moved));
    for (text, error) in [
        (sdp("198.51.100.1", 4000), RelayError::Handshake),
        (browser("anew", 1, "passive"), RelayError::Handshake),
        (browser("anew", 1, "actpass").replace("fingerprint", "print"), RelayError::Handshake),
    ] {
        let role = Role::Offer { exchange: 3 };
        assert_eq!(rig.pass(Side::Caller, role, &text, |_| {}), Err(error), "{text}");
    }
    // Another certificate asks for another handshake; until then the keys stay.
    let before = stream.dtls_peer(Side::Caller).unwrap();
    exchange(&rig, 4, &browser("anew", 2, "actpass"), &sdp("203.0.113.1", 6000));
    assert!(!stream.dtls_peer(Side::Caller).unwrap().is_same(&before));
    assert!(rig.send(Side::Callee, PHONE, &rtp(3)).is_ok());
}

/// The browser takes its offer back. The next offer to it, which is refused as well, has the
/// credentials that it knows.
#[test]
fn a_refused_restart_of_ice_changes_nothing() {
    let (rig, answer) = answered();
    let known = check(&answer, "brow", None, true);
    rig.send(Side::Caller, BROWSER, &known).unwrap();
    let before = rig.stream().dtls_peer(Side::Caller);
    for ufrag in ["anew", "more"] {
        let role = Role::Offer { exchange: 2 };
        rig.pass(Side::Caller, role, &browser(ufrag, 2, "actpass"), |_| {}).unwrap();
    }
    let role = Role::Offer { exchange: 3 };
    let offer = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    for name in ["ice-ufrag", "ice-pwd"] {
        assert_eq!(value(&offer, name), value(&answer, name));
    }
    assert_eq!(rig.stream().dtls_peer(Side::Caller), before);
    let (_, response) = rig.send(Side::Caller, BROWSER, &known).unwrap();
    assert_eq!(Message::parse(&response).unwrap().class, Class::Success);
    // An offer without a restart, and one with a restart that is answered.
    for (exchange, ufrag, is_restart) in [(4, "brow", false), (5, "anew", true)] {
        let role = Role::Offer { exchange };
        rig.pass(Side::Caller, role, &browser(ufrag, 1, "actpass"), |_| {}).unwrap();
        let role = Role::Response { exchange, is_final: true };
        let later = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {});
        let later = later.unwrap().unwrap();
        assert_eq!(value(&later, "ice-ufrag") != value(&answer, "ice-ufrag"), is_restart);
    }
}

/// The page restarts ICE while the phone offers, too. The phone accepts: the answer is that to the
/// offer of the page.
#[test]
fn a_restart_of_ice_is_answered_though_another_offer_crosses_it() {
    let (rig, answer) = answered();
    rig.send(Side::Caller, BROWSER, &check(&answer, "brow", None, true)).unwrap();
    rig.stream().set_keys(Side::Caller, SUITE, keys(1), keys(2)).unwrap();
    let role = Role::Offer { exchange: 2 };
    rig.pass(Side::Caller, role, &browser("anew", 1, "actpass"), |_| {}).unwrap();
    // The page refuses it (491).
    let role = Role::Offer { exchange: 7 };
    let crossing = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {});
    let crossing = crossing.unwrap().unwrap();
    assert_eq!(value(&crossing, "ice-ufrag"), value(&answer, "ice-ufrag"));
    let role = Role::Response { exchange: 2, is_final: true };
    let restarted = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {});
    let restarted = restarted.unwrap().unwrap();
    assert_ne!(value(&restarted, "ice-ufrag"), value(&answer, "ice-ufrag"));
    assert!(restarted.contains(" UDP/TLS/RTP/SAVPF 0 101\r\n"), "{restarted}");
    assert_eq!(restarted.matches("a=rtcp-mux\r\n").count(), 1, "{restarted}");
    assert_eq!(value(&restarted, "setup"), "passive");
    let moved = "198.51.100.79:50000";
    rig.send(Side::Caller, moved, &check(&restarted, "anew", None, true)).unwrap();
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(1)).unwrap().0, place(moved));
}

/// Each end refuses the offer of the other one (491). Each then makes its offer again.
#[test]
fn offers_that_cross_and_are_refused_change_nothing() {
    let (rig, answer) = answered();
    let known = check(&answer, "brow", None, true);
    rig.send(Side::Caller, BROWSER, &known).unwrap();
    rig.stream().set_keys(Side::Caller, SUITE, keys(1), keys(2)).unwrap();
    let restart = browser("anew", 1, "actpass");
    rig.pass(Side::Caller, Role::Offer { exchange: 2 }, &restart, |_| {}).unwrap();
    let hold = sdp("203.0.113.1", 6000) + "a=sendonly\r\n";
    rig.pass(Side::Callee, Role::Offer { exchange: 7 }, &hold, |_| {}).unwrap();
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(1)).unwrap().0, place(BROWSER));
    rig.send(Side::Caller, BROWSER, &known).unwrap();
    let role = Role::Offer { exchange: 8 };
    let offer = rig.pass(Side::Callee, role, &hold, |_| {}).unwrap().unwrap();
    assert_eq!(value(&offer, "ice-ufrag"), value(&answer, "ice-ufrag"));
    let role = Role::Response { exchange: 8, is_final: true };
    let held =
        rig.pass(Side::Caller, role, &browser("brow", 1, "active"), |_| {}).unwrap().unwrap();
    assert!(held.contains(" RTP/AVP 111 0 110\r\n") && !held.contains("mux"), "{held}");
    rig.send(Side::Caller, BROWSER, &known).unwrap();
    rig.pass(Side::Caller, Role::Offer { exchange: 3 }, &restart, |_| {}).unwrap();
    let role = Role::Response { exchange: 3, is_final: true };
    let restarted = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {});
    let restarted = restarted.unwrap().unwrap();
    rig.send(Side::Caller, BROWSER, &check(&restarted, "anew", None, true)).unwrap();
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(2)).unwrap().0, place(BROWSER));
}

/// The page finds further candidates after it has nominated one. It checks from them, and may name
/// them in another offer: only a nomination moves the media.
#[test]
fn a_late_candidate_does_not_undo_the_nominated_pair() {
    let (rig, answer) = answered();
    let known = check(&answer, "brow", None, true);
    rig.send(Side::Caller, BROWSER, &known).unwrap();
    rig.stream().set_keys(Side::Caller, SUITE, keys(1), keys(2)).unwrap();
    let late = "198.51.100.88:40001";
    rig.send(Side::Caller, late, &check(&answer, "brow", None, false)).unwrap();
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(1)).unwrap().0, place(BROWSER));
    let named = "a=candidate:7 1 udp 2122260223 198.51.100.88 40001 typ host\r\n";
    let offer = browser("brow", 1, "actpass") + named;
    let role = Role::Offer { exchange: 2 };
    let passed = rig.pass(Side::Caller, role, &offer, |_| {}).unwrap().unwrap();
    assert!(!passed.contains("candidate"), "{passed}");
    let role = Role::Response { exchange: 2, is_final: true };
    let again = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    for name in ["ice-ufrag", "ice-pwd"] {
        assert_eq!(value(&again, name), value(&answer, name));
    }
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(2)).unwrap().0, place(BROWSER));
    // Packets from both addresses are taken, and do not move the media.
    let mut sender = srtp::Sender::new(&srtp::Policy::new(SUITE), [keys(2)].into()).unwrap();
    for (number, from) in [(1, late), (2, BROWSER)] {
        let mut packet = [0; 300];
        packet[..172].copy_from_slice(&rtp(number));
        let length = sender.protect(&mut packet, 172).unwrap();
        assert!(rig.send(Side::Caller, from, &packet[..length]).is_ok());
        assert_eq!(rig.send(Side::Callee, PHONE, &rtp(10 + number)).unwrap().0, place(BROWSER));
    }
    rig.send(Side::Caller, late, &check(&answer, "brow", None, true)).unwrap();
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(20)).unwrap().0, place(late));
}

/// The offer is in the response of the browser, as in calls without an offer.
#[test]
fn a_browser_offers_in_its_response() {
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Dtls;
    let permits = |_: SocketAddr| true;
    let mut end = End::new(place("203.0.113.1:5060"), RELAY.into(), &permits);
    end.keying = Keying::Dtls;
    let begun = rig.relay.begin(&Passage {
        call_id: b"c",
        branch: BRANCH,
        from_tag: b"caller",
        to_tag: b"",
        from: End::new(place("198.51.100.1:5060"), RELAY.into(), &permits),
        to: end,
        role: Role::Offer { exchange: 1 },
        side: Side::Caller,
        begins: true,
        parties: [b"", b""],
        owner: 7,
        now: Duration::ZERO,
    });
    assert_eq!(begun, Ok(()));
    let role = Role::Response { exchange: 1, is_final: true };
    let answer_in = |passage: &mut Passage<'_>| {
        (passage.branch, passage.to.keying) = (BRANCH, Keying::Clear);
    };
    let offer = rig.pass(Side::Callee, role, &browser("brow", 1, "actpass"), answer_in);
    let offer = offer.unwrap().unwrap();
    assert!(offer.contains(" RTP/AVP 111 0 110\r\n"), "{offer}");
    assert!(!offer.contains("fingerprint"), "{offer}");
    rig.relay.confirm(b"c", b"b", b"callee", Duration::ZERO);
    let role = Role::Acknowledgement { exchange: 1 };
    let answer = rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |_| {});
    let answer = answer.unwrap().unwrap();
    assert!(answer.contains(" UDP/TLS/RTP/SAVPF 0 101\r\n"), "{answer}");
    assert_eq!(value(&answer, "setup"), "passive");
    assert_eq!(rig.send(Side::Caller, "198.51.100.1:4000", &rtp(1)), Err(Drop::NoKeys));
    rig.send(Side::Callee, BROWSER, &check(&answer, "brow", None, true)).unwrap();
    rig.stream().set_keys(Side::Callee, SUITE, keys(1), keys(2)).unwrap();
    let (to, _) = rig.send(Side::Caller, "198.51.100.1:4000", &rtp(2)).unwrap();
    assert_eq!(to, place(BROWSER));
}

/// A phone transfers its leg to a browser. Nothing of the browser's own passes to the other end.
#[test]
fn a_leg_becomes_that_of_a_browser() {
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Clear;
    rig.first_offer(&sdp("198.51.100.1", 4000));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    assert!(rig.send(Side::Callee, PHONE, &rtp(1)).is_ok());
    let role = Role::Offer { exchange: 2 };
    let offer = rig.pass(Side::Caller, role, &browser("brow", 1, "actpass"), |_| {});
    let offer = offer.unwrap().unwrap();
    assert!(offer.contains(" RTP/AVP 111 0 110\r\n"), "{offer}");
    for name in ["fingerprint", "setup", "extmap", "mid", "rtcp-mux"] {
        assert!(!offer.contains(&format!("a={name}")), "{name} in {offer}");
    }
    let role = Role::Response { exchange: 2, is_final: true };
    let answer = rig.pass(Side::Callee, role, &sdp("203.0.113.1", 6000), |_| {}).unwrap().unwrap();
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(2)), Err(Drop::NoKeys));
    rig.send(Side::Caller, BROWSER, &check(&answer, "brow", None, true)).unwrap();
    rig.stream().set_keys(Side::Caller, SUITE, keys(1), keys(2)).unwrap();
    assert_eq!(rig.send(Side::Callee, PHONE, &rtp(3)).unwrap().0, place(BROWSER));
}

/// The answer rejects the video of the page in the terms of its offer, also when it is repeated.
#[test]
fn a_rejected_video_has_the_protocol_and_the_name_of_the_offer() {
    let video = "m=video 9 UDP/TLS/RTP/SAVPF 96\r\nc=IN IP4 0.0.0.0\r\na=rtcp-mux\r\n\
        a=ice-ufrag:brow\r\na=ice-pwd:abcdefghijklmnopqrstuv\r\na=setup:actpass\r\na=mid:1\r\n";
    let mark = format!("a=fingerprint:{}\r\n", fingerprint(1));
    let offered = [browser("brow", 1, "actpass"), video.into(), mark].concat();
    let answered = [sdp("203.0.113.1", 6000), "m=video 0 RTP/AVP 96\r\n".into()].concat();
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Clear;
    rig.first_offer(&offered);
    let answer = rig.first_answer(&answered).unwrap();
    let rejected = "m=video 0 UDP/TLS/RTP/SAVPF 96\r\na=mid:1\r\n";
    assert!(answer.ends_with(rejected), "{answer}");
    let again = offered.replace("m=video 9", "m=video 0");
    for (exchange, offer) in [(2, &again), (3, &offered)] {
        let role = Role::Offer { exchange };
        rig.pass(Side::Caller, role, offer, |_| {}).unwrap();
        let role = Role::Response { exchange, is_final: true };
        let answer = rig.pass(Side::Callee, role, &answered, |_| {}).unwrap().unwrap();
        assert!(answer.ends_with(rejected), "{answer}");
    }
}

#[test]
fn the_port_of_rtcp_takes_nothing_of_a_browser() {
    let (rig, answer) = answered();
    let mut buffer = [0; 1500];
    let authentic = check(&answer, "brow", None, true);
    buffer[..authentic.len()].copy_from_slice(&authentic);
    let (from, length, now) = (place(BROWSER), authentic.len(), rig.now.get());
    let stream = rig.stream();
    let relayed = stream.relay(Side::Caller, Channel::Rtcp, from, &mut buffer, length, now);
    assert_eq!(relayed, Err(Drop::Source));
}

#[test]
fn a_call_ends_without_consent_or_keys() {
    for fault in [WebFault::Consent, WebFault::Keys] {
        let (rig, answer) = answered();
        rig.send(Side::Caller, BROWSER, &check(&answer, "brow", None, true)).unwrap();
        rig.stream().set_keys(Side::Caller, SUITE, keys(1), keys(2)).unwrap();
        assert!(rig.send(Side::Callee, PHONE, &rtp(1)).is_ok());
        let expire = |now| (0..16).flat_map(|_| rig.relay.expire(now)).collect::<Vec<_>>();
        let end = CONSENT + Duration::from_millis(1);
        let now = match fault {
            WebFault::Consent => end,
            WebFault::Keys => Duration::from_secs(1),
        };
        assert!(expire(Duration::from_secs(1)).is_empty());
        if fault == WebFault::Keys {
            rig.stream().refuse_keys(Side::Caller);
        } else {
            rig.now.set(end);
            assert_eq!(rig.send(Side::Callee, PHONE, &rtp(2)), Err(Drop::NoDestination));
        }
        let ended = expire(now);
        assert_eq!(ended.len(), 1, "{fault:?}");
        assert_eq!(ended[0].web_fault, Some(fault));
        let words = if fault == WebFault::Consent { "checks of the browser" } else { "by DTLS" };
        assert!(ended[0].fault().ends_with(words), "{}", ended[0].fault());
    }
}

#[test]
fn a_host_without_handshakes_has_no_legs_of_browsers() {
    let mut rig = Rig::new(Limits::default());
    rig.relay.host_mut().fingerprint = None;
    assert!(!rig.relay.takes_browsers());
    rig.keying = Keying::Dtls;
    let begin = |passage: &mut Passage<'_>| {
        (passage.branch, passage.begins, passage.to_tag) = (BRANCH, true, b"");
    };
    let role = Role::Offer { exchange: 1 };
    let offered = rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), begin);
    assert_eq!(offered, Err(RelayError::Handshake));
    assert_eq!(rig.relay.count(), 0);
}
