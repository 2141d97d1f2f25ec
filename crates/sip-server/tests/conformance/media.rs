//! Session descriptions of calls whose media are relayed.

use crate::rig::{ALICE, BOB, Draft, Rig, Sent, closed_config, open_config, tcp, udp};
use barebell_sip_server::Config;
use barebell_sip_server::config::{MediaKeys, Relaying};
use barebell_sip_server::relay::sdp::dtls::{Fingerprint, HashFunction};
use barebell_sip_server::relay::{Calls, Host, Limits, NoPort, Ports, Relay, Stream};
use parking_lot::RawMutex;
use sip::{Duration, HeaderName, Transport};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

/// A time of the relay, in a test that does not depend on it.
const NOW: std::time::Duration = std::time::Duration::ZERO;

/// The external address of alice behind a NAT.
pub(crate) const NAT: &str = "198.51.100.200:40123";

/// A host that numbers ports and has none after 20 streams. It has a certificate for handshakes.
struct Numbered(AtomicU16, Fingerprint);

struct Pair([u16; 2]);

impl Ports for Pair {
    fn rtp(&self) -> [u16; 2] {
        self.0
    }
}

impl Host<RawMutex> for Numbered {
    type Ports = Pair;

    fn open(&self, _: &Arc<Stream<RawMutex>>, _: [IpAddr; 2]) -> Result<Pair, NoPort> {
        let number = self.0.fetch_add(1, Ordering::Relaxed);
        if number >= 20 {
            return Err(NoPort);
        }
        Ok(Pair([20_000 + 4 * number, 20_002 + 4 * number]))
    }

    fn is_own(&self, place: SocketAddr) -> bool {
        (20_000..20_080).contains(&place.port()) && place.ip() == IpAddr::from([203, 0, 113, 1])
    }

    fn fingerprint(&self) -> Option<&Fingerprint> {
        Some(&self.1)
    }

    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// A server with a relay, and bob registered at `contact` from his address.
pub(crate) fn server(config: Config, contact: &str) -> (Rig, Arc<dyn Calls>) {
    let fingerprint = Fingerprint { hash: HashFunction::Sha256, bytes: vec![0xfe; 32] };
    let host = Numbered(AtomicU16::new(0), fingerprint);
    let relay = Arc::new(Relay::<RawMutex, _>::new(host, Limits::default()));
    let mut rig = Rig::relaying(config, Arc::<Relay<RawMutex, Numbered>>::clone(&relay));
    rig.register("bob", &udp(BOB), contact);
    (rig, relay)
}

pub(crate) fn sdp(host: &str) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0\r\n"
    )
}

pub(crate) fn offer(host: &str) -> Draft {
    Draft::invite("sip:bob@example.com")
        .and("Content-Type", "application/sdp")
        .with_body(&sdp(host))
}

/// `response`, which has no body, with the session description `body`.
fn with_body(response: &[u8], body: &str) -> Vec<u8> {
    let head = response.strip_suffix(b"Content-Length: 0\r\n\r\n").expect("no body");
    let fields = format!("Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n", body.len());
    [head, fields.as_bytes(), body.as_bytes()].concat()
}

/// Bob's response to `forwarded` with a session description.
pub(crate) fn answer(rig: &mut Rig, forwarded: &Sent, status: u16) -> Sent {
    let response = forwarded.answer(status, "bob", "Contact: <sip:bob@x>\r\n");
    let response = with_body(&response, &sdp("198.51.100.20"));
    let reaction = rig.receive(&forwarded.flow, &response);
    let passed = reaction.responses().next().expect("a response");
    passed.clone()
}

pub(crate) fn body(sent: &Sent) -> String {
    let message = sent.message();
    assert_eq!(message.framing_fault(), None);
    assert_eq!(sent.values(HeaderName::ContentLength), [message.body().len().to_string()]);
    String::from_utf8(message.body().to_vec()).unwrap()
}

#[test]
fn both_ends_of_a_call_through_a_nat_get_the_address_of_the_relay() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    let forwarded = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    let offered = body(&forwarded);
    assert!(offered.contains("c=IN IP4 203.0.113.1\r\n"), "{offered}");
    assert!(offered.contains("m=audio 20002 ") && !offered.contains("192.168"), "{offered}");
    for status in [183, 200, 200] {
        let answered = body(&answer(&mut rig, &forwarded, status));
        assert!(answered.contains("m=audio 20000 "), "{answered}");
        assert!(!answered.contains("198.51.100.20"), "{answered}");
    }
    let [call] = &relay.reports()[..] else { panic!("{:?}", relay.reports()) };
    assert!(call.answered.is_some());
    assert_eq!(
        call.ends.each_ref().map(|end| end.signalling),
        [NAT.parse().unwrap(), BOB.parse().unwrap()]
    );
    // An offer within the dialog keeps the ports.
    let call_id = forwarded.value(HeaderName::CallId);
    let within = |method: &str, cseq| {
        let draft = offer("192.168.1.5").with_method(method).with_uri("sip:bob@198.51.100.20:5060");
        draft.with("Call-ID", &call_id).with("To", "<sip:bob@example.com>;tag=bob").with_cseq(cseq)
    };
    let again = rig.send(&udp(NAT), &within("INVITE", 2)).forwarded().clone();
    assert!(body(&again).contains("m=audio 20002 "));
    assert!(body(&answer(&mut rig, &again, 200)).contains("m=audio 20000 "));
    let bye = rig.send(&udp(NAT), &within("BYE", 3).with_body("").without("Content-Type"));
    let bye = bye.forwarded().clone();
    assert_eq!(relay.count(), 1);
    rig.receive(&bye.flow, &bye.answer(200, "bob", ""));
    assert_eq!(relay.count(), 0);
}

/// The number of calls that are over by the limits of the relay after so many hours.
fn expired(relay: &Arc<dyn Calls>, rig: &Rig, hours: u64) -> usize {
    let now = std::time::Duration::from_micros(rig.now.as_micros());
    let then = now + std::time::Duration::from_secs(hours * 3600);
    (0..16).map(|_| relay.expire(then).len()).sum()
}

#[test]
fn an_answered_request_within_the_dialog_keeps_a_call_on_hold() {
    for (method, status, is_kept) in
        [("UPDATE", 200, true), ("OPTIONS", 200, true), ("INFO", 481, false)]
    {
        let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
        let held = format!("{}a=inactive\r\n", sdp("192.168.1.5"));
        let first = offer("192.168.1.5").with_body(&held);
        let forwarded = rig.send(&udp(NAT), &first).forwarded().clone();
        answer(&mut rig, &forwarded, 200);
        let call_id = forwarded.value(HeaderName::CallId);
        rig.wait(Duration::from_secs(3 * 3600));
        // The refresh of a session timer has no description (RFC 4028 section 7.4).
        let within = Draft::new(method, &format!("sip:bob@{BOB}")).with("Call-ID", &call_id);
        let within = within.with("To", "<sip:bob@example.com>;tag=bob").with_cseq(2);
        let within = within.with("From", "<sip:alice@example.com>;tag=alice-tag");
        let passed = rig.send(&udp(NAT), &within).forwarded().clone();
        rig.receive(&passed.flow, &passed.answer(status, "bob", ""));
        assert_eq!(expired(&relay, &rig, 2) == 0, is_kept, "{method}");
        assert_eq!(relay.count(), usize::from(is_kept), "{method}");
    }
}

#[test]
fn calls_of_ends_that_reach_each_other_pass_unless_all_are_relayed() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    let forwarded = rig.send(&udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
    assert_eq!((body(&forwarded), relay.count()), (sdp("198.51.100.10"), 0));
    let config = Config { relaying: Relaying::All, ..open_config() };
    let (mut rig, relay) = server(config, &format!("<sip:bob@{BOB}>"));
    let forwarded = rig.send(&udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
    assert_ne!((body(&forwarded), relay.count()), (sdp("198.51.100.10"), 0));
    let config = Config { relaying: Relaying::Off, ..open_config() };
    let (mut rig, relay) = server(config, &format!("<sip:bob@{BOB}>"));
    let forwarded = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    assert_eq!((body(&forwarded), relay.count()), (sdp("192.168.1.5"), 0));
}

#[test]
fn a_callee_behind_a_nat_needs_the_relay() {
    let (mut rig, relay) = server(open_config(), "<sip:bob@10.1.2.3:5060>");
    let forwarded = rig.send(&udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
    assert!(body(&forwarded).contains("c=IN IP4 203.0.113.1\r\n"));
    assert_eq!(relay.count(), 1);
}

#[test]
fn failed_and_cancelled_calls_leave_no_ports() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    for status in [486, 603, 408, 480] {
        let forwarded = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
        assert_eq!(relay.count(), 1);
        rig.receive(&forwarded.flow, &forwarded.answer(status, "bob", ""));
        assert_eq!(relay.count(), 0, "{status}");
    }
    let forwarded = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    rig.receive(&forwarded.flow, &forwarded.answer(180, "bob", ""));
    rig.receive(&forwarded.flow, &forwarded.answer(487, "bob", ""));
    assert_eq!(relay.count(), 0);
}

#[test]
fn a_branch_without_a_final_response_leaves_no_ports() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded();
    assert_eq!(relay.count(), 1);
    rig.wait(Duration::from_secs(40));
    assert_eq!(relay.count(), 0, "the callee sends no response");
    let forwarded = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    rig.undeliverable(&forwarded.flow, &forwarded.bytes);
    assert_eq!(relay.count(), 0, "the callee is unreachable");
    // The other phone answers, and this one responds neither to INVITE nor to CANCEL.
    rig.register("bob", &udp("198.51.100.21:5060"), "<sip:bob@198.51.100.21:5060>");
    let reaction = rig.send(&udp(NAT), &offer("192.168.1.5"));
    let branches: Vec<Sent> = reaction.requests().cloned().collect();
    let [one, other] = &branches[..] else { panic!("{reaction:#?}") };
    rig.receive(&one.flow, &one.answer(180, "bob", ""));
    answer(&mut rig, other, 200);
    assert_eq!(relay.count(), 2);
    rig.wait(Duration::from_secs(40));
    assert_eq!(relay.count(), 1, "the call that was answered");
    let phone = tcp("198.51.100.22:40000", 7);
    rig.register("carol", &phone, "<sip:carol@198.51.100.22:40000;transport=tcp>");
    let draft = offer("192.168.1.5").with_uri("sip:carol@example.com");
    rig.send(&udp(NAT), &draft.with("To", "<sip:carol@example.com>")).forwarded();
    assert_eq!(relay.count(), 2);
    rig.end(&phone);
    assert_eq!(relay.count(), 1, "the connection of the callee has ended");
}

#[test]
fn each_branch_of_a_fork_has_ports_of_its_own() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    rig.register("bob", &udp("198.51.100.21:5060"), "<sip:bob@198.51.100.21:5060>");
    let reaction = rig.send(&udp(NAT), &offer("192.168.1.5"));
    let branches: Vec<Sent> = reaction.requests().cloned().collect();
    let [one, other] = &branches[..] else { panic!("{reaction:#?}") };
    assert!(body(one).contains("m=audio 20002 ") && body(other).contains("m=audio 20006 "));
    assert!(body(&answer(&mut rig, one, 183)).contains("m=audio 20000 "));
    let answered = rig.receive(&other.flow, &other.answer(486, "other", ""));
    assert!(answered.requests().all(|sent| sent.value(HeaderName::CSeq).ends_with("ACK")));
    assert_eq!(relay.count(), 1);
}

/// A proxy of bob forks the call. Both phones answer early, and the one that answers has no other
/// description (RFC 3262 section 5).
#[test]
fn the_media_go_to_the_callee_that_answers_after_early_answers_of_two() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    let forwarded = rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded().clone();
    let announced = || relay.reports()[0].streams[0][1].announced;
    let at = |host: &str| Some(format!("{host}:4000").parse().unwrap());
    for (tag, host) in [("one", "198.51.100.20"), ("two", "198.51.100.21")] {
        let early = with_body(&forwarded.answer(183, tag, "Contact: <sip:bob@x>\r\n"), &sdp(host));
        rig.receive(&forwarded.flow, &early);
        assert_eq!(announced(), at(host));
    }
    rig.receive(&forwarded.flow, &forwarded.answer(200, "one", "Contact: <sip:bob@x>\r\n"));
    assert_eq!(announced(), at("198.51.100.20"));
    assert_eq!(rig.count("relay-refused"), 0);
}

#[test]
fn an_offer_in_the_response_is_relayed_as_well() {
    let (mut rig, relay) = server(open_config(), "<sip:bob@10.1.2.3:5060>");
    let draft = Draft::invite("sip:bob@example.com");
    let forwarded = rig.send(&udp(ALICE), &draft).forwarded().clone();
    assert_eq!(relay.count(), 1);
    assert!(body(&answer(&mut rig, &forwarded, 200)).contains("m=audio 20000 "));
    let ack = offer("198.51.100.10").with_method("ACK").with_uri("sip:bob@10.1.2.3:5060");
    let ack = ack.with("Call-ID", &forwarded.value(HeaderName::CallId));
    let ack = ack.with("To", "<sip:bob@example.com>;tag=bob");
    let ack = rig.send(&udp(ALICE), &ack).forwarded().clone();
    assert!(body(&ack).contains("m=audio 20002 "), "{}", body(&ack));
}

#[test]
fn a_call_without_a_free_port_is_refused() {
    let (mut rig, _) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    for _ in 0..20 {
        rig.send(&udp(NAT), &offer("192.168.1.5")).forwarded();
    }
    let reaction = rig.send(&udp(NAT), &offer("192.168.1.5"));
    let refused = reaction.responses().next().expect("a response").status();
    assert!(matches!(refused, 480 | 503), "{refused}");
    for counter in ["relay-refused", "relay-limited"] {
        assert_eq!(rig.count(counter), 1, "{counter}");
    }
}

#[test]
fn a_refused_description_is_counted_by_its_reason() {
    let config =
        Config { relaying: Relaying::All, media_keys: MediaKeys::Required, ..open_config() };
    let (mut rig, _) = server(config, &format!("<sip:bob@{BOB}>"));
    let own_port = sdp("203.0.113.1").replace("m=audio 4000 ", "m=audio 20040 ");
    // The key is one byte short.
    let key = format!("inline:{}", "A".repeat(39));
    let keys = sdp("192.168.1.5").replace("RTP/AVP", "RTP/SAVP")
        + &format!("a=crypto:1 AES_CM_128_HMAC_SHA1_80 {key}\r\n");
    let tls = barebell_sip_server::Flow { transport: Transport::Tls, ..tcp(NAT, 4) };
    for (description, flow, counter) in
        [(own_port, udp(NAT), "relay-own-ports"), (keys, tls, "relay-keys")]
    {
        let invite = Draft::invite("sip:bob@example.com")
            .and("Content-Type", "application/sdp")
            .with_body(&description);
        let reaction = rig.send(&flow, &invite);
        assert_eq!(reaction.responses().last().map(Sent::status), Some(488), "{counter}");
        assert_eq!(rig.count(counter), 1, "{counter}");
    }
    assert_eq!((rig.count("relay-refused"), rig.count("relay-limited")), (2, 0));
}

#[test]
fn a_body_that_is_no_description_passes() {
    let (mut rig, relay) = server(open_config(), "<sip:bob@10.1.2.3:5060>");
    let draft = offer("198.51.100.10").with_body("not a description");
    let forwarded = rig.send(&udp(ALICE), &draft).forwarded().clone();
    assert_eq!((body(&forwarded), relay.count()), ("not a description".into(), 0));
}

#[test]
fn a_part_of_a_multipart_body_is_rewritten_alone() {
    let (mut rig, _) = server(closed_config(), "<sip:bob@10.1.2.3:5060>");
    let part = "--b\r\nContent-Type: application/sdp\r\n\r\n";
    let text = format!("{part}{}\r\n--b--\r\n", sdp("198.51.100.10"));
    let draft = Draft::invite("sip:bob@example.com")
        .and("Content-Type", "multipart/mixed;boundary=b")
        .with_body(&text);
    let reaction = rig.send_as("alice", &udp(ALICE), &draft);
    let written = body(reaction.forwarded());
    assert!(written.starts_with(part) && written.ends_with("\r\n--b--\r\n"), "{written}");
    assert!(written.contains("m=audio 20002 ") && !written.contains("198.51.100.10"));
}

pub(crate) const CRYPTO: &str =
    "a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";

pub(crate) fn secure(host: &str) -> String {
    sdp(host).replace("RTP/AVP", "RTP/SAVP") + CRYPTO
}

/// The description of a phone with DTLS-SRTP and without ICE.
pub(crate) fn with_handshake(host: &str) -> String {
    let fingerprint = Fingerprint { hash: HashFunction::Sha256, bytes: vec![1; 32] };
    let handshake = format!("a=fingerprint:{fingerprint}\r\na=setup:actpass\r\n");
    sdp(host).replace("RTP/AVP", "UDP/TLS/RTP/SAVP") + &handshake
}

/// Twinkle answers 400 to a profile that it does not know. To another offer that is an error.
#[test]
fn a_callee_that_does_not_know_the_profile_of_a_handshake_gets_an_offer_without_it() {
    let invite = |sent: &&Sent| sent.value(HeaderName::CSeq).ends_with("INVITE");
    for (text, is_offered_again) in
        [(with_handshake("198.51.100.10"), true), (sdp("198.51.100.10"), false)]
    {
        let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
        let first = rig.send(&udp(ALICE), &offer("198.51.100.10").with_body(&text));
        let first = first.forwarded().clone();
        let reaction = rig.receive(&first.flow, &first.answer(400, "bob", ""));
        let second = reaction.requests().find(invite).cloned();
        assert_eq!(second.is_some(), is_offered_again, "{text}");
        let Some(second) = second else {
            assert_eq!(reaction.responses().next().map(Sent::status), Some(400));
            continue;
        };
        let offered = body(&second);
        assert!(offered.contains(" RTP/AVP 0\r\n") && !offered.contains("print"), "{offered}");
        let answered = body(&answer(&mut rig, &second, 200));
        assert!(answered.contains(" UDP/TLS/RTP/SAVP 0\r\n"), "{answered}");
        assert_eq!(relay.count(), 1);
    }
}

#[test]
fn a_callee_that_refuses_the_keys_gets_an_offer_without_them() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    let draft = offer("198.51.100.10").with_body(&secure("198.51.100.10"));
    let first = rig.send(&udp(ALICE), &draft).forwarded().clone();
    assert_eq!(body(&first), secure("198.51.100.10"));
    let reaction = rig.receive(&first.flow, &first.answer(488, "bob", ""));
    let invite = |sent: &&Sent| sent.value(HeaderName::CSeq).ends_with("INVITE");
    let second = reaction.requests().find(invite).expect("another offer").clone();
    let offered = body(&second);
    assert!(offered.contains(" RTP/AVP 0\r\n") && !offered.contains("crypto"), "{offered}");
    let answered = body(&answer(&mut rig, &second, 200));
    assert!(answered.contains(" RTP/SAVP 0\r\n"), "{answered}");
    assert!(answered.contains("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"), "{answered}");
    assert_eq!(relay.count(), 1);
}

#[test]
fn a_callee_that_demands_keys_gets_those_of_the_relay_and_refuses_once() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    let first = rig.send(&udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
    let reaction = rig.receive(&first.flow, &first.answer(488, "bob", ""));
    let invite = |sent: &&Sent| sent.value(HeaderName::CSeq).ends_with("INVITE");
    let second = reaction.requests().find(invite).expect("another offer").clone();
    assert!(body(&second).contains(" RTP/SAVP 0\r\n") && body(&second).contains("a=crypto:1 "));
    let refused = rig.receive(&second.flow, &second.answer(488, "bob", ""));
    assert_eq!(refused.responses().next().map(Sent::status), Some(488));
    assert_eq!((refused.requests().filter(invite).count(), relay.count()), (0, 0));
}

#[test]
fn keys_pass_or_are_required_as_configured() {
    let config = Config { media_keys: MediaKeys::Passed, ..open_config() };
    let (mut rig, _) = server(config, &format!("<sip:bob@{BOB}>"));
    let first = rig.send(&udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
    let refused = rig.receive(&first.flow, &first.answer(488, "bob", ""));
    assert_eq!(refused.responses().next().map(Sent::status), Some(488));
    let config = Config { media_keys: MediaKeys::Required, ..open_config() };
    let (mut rig, relay) = server(config, &format!("<sip:bob@{BOB}>"));
    let first = rig.send(&udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
    let offered = body(&first);
    assert!(offered.contains(" RTP/AVP 0\r\n") && offered.contains("a=crypto:1 "), "{offered}");
    let over_tls = barebell_sip_server::Flow { transport: Transport::Tls, ..tcp(ALICE, 4) };
    let reaction = rig.send(&over_tls, &offer("198.51.100.10"));
    assert_eq!(reaction.responses().next().map(Sent::status), Some(488));
    assert_eq!(relay.count(), 1);
}

/// A refresh of bob is answered with two keys (RFC 4568 section 5.1.2 allows one), or the answer
/// names the relay.
#[test]
fn an_answer_that_the_relay_refuses_reaches_the_caller_without_media_and_keys() {
    let more = CRYPTO.replace("crypto:1", "crypto:2");
    let two_keys = secure("198.51.100.20") + &more;
    let own_port = sdp("203.0.113.1").replace("m=audio 4000 ", "m=audio 20040 ");
    for (described, counter) in [(two_keys, "relay-keys"), (own_port, "relay-own-ports")] {
        let config =
            Config { relaying: Relaying::All, media_keys: MediaKeys::Offered, ..open_config() };
        let (mut rig, relay) = server(config, &format!("<sip:bob@{BOB}>"));
        let forwarded = rig.send(&udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
        assert!(body(&forwarded).contains("a=crypto:2 "), "{}", body(&forwarded));
        let response = forwarded.answer(200, "bob", "Contact: <sip:bob@x>\r\n");
        let passed = rig.receive(&forwarded.flow, &with_body(&response, &described));
        let passed = passed.responses().next().expect("a response").clone();
        let text = body(&passed);
        assert_eq!(passed.status(), 200);
        assert!(text.contains("m=audio 0 RTP/AVP 0\r\n") && !text.contains("crypto"), "{text}");
        assert!(text.contains("c=IN IP4 203.0.113.1\r\n"), "{text}");
        assert_eq!((rig.count(counter), relay.count()), (1, 1));
    }
}

#[test]
fn a_call_that_the_server_ends_gets_a_bye_to_each_end() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    let draft = offer("192.168.1.5").with("Contact", "<sip:alice@192.168.1.5:5060>");
    let forwarded = rig.send(&udp(NAT), &draft).forwarded().clone();
    let routes: String = forwarded
        .message()
        .values(HeaderName::RecordRoute)
        .map(|value| format!("Record-Route: {}\r\n", crate::rig::text(value)))
        .collect();
    let fields = format!("{routes}Contact: <sip:bob@{BOB}>\r\n");
    rig.receive(&forwarded.flow, &forwarded.answer(200, "bob", &fields)).response();
    let call_id = forwarded.value(HeaderName::CallId);
    let ended = relay.end_dialog(call_id.as_bytes(), [b"bob", b"alice-tag"], NOW).expect("a call");
    let reaction = rig.hang_up(&ended, "SIP;cause=408;text=\"Media Timeout\"");
    let byes: Vec<&Sent> = reaction.requests().collect();
    let [to_bob, to_alice] = byes[..] else { panic!("{reaction:#?}") };
    for (bye, remote, target, from) in [
        (to_bob, BOB, "sip:bob@198.51.100.20:5060", "alice-tag"),
        (to_alice, NAT, "sip:alice@192.168.1.5:5060", "bob"),
    ] {
        assert_eq!(
            (bye.flow.remote.to_string(), bye.request_uri()),
            (remote.into(), target.into())
        );
        assert!(bye.value(HeaderName::From).ends_with(&format!("tag={from}")), "{bye:?}");
        assert_eq!(bye.value(HeaderName::CSeq), "1000001 BYE");
        assert_eq!(bye.values(HeaderName::Route), Vec::<String>::new());
        assert!(bye.value(HeaderName::Reason).starts_with("SIP;cause=408"));
    }
}

#[test]
fn a_callee_that_takes_the_second_offer_for_a_merged_request_has_refused_the_first() {
    let (mut rig, relay) = server(open_config(), &format!("<sip:bob@{BOB}>"));
    let first = rig.send(&udp(ALICE), &offer("198.51.100.10")).forwarded().clone();
    let reaction = rig.receive(&first.flow, &first.answer(488, "bob", ""));
    let invite = |sent: &&Sent| sent.value(HeaderName::CSeq).ends_with("INVITE");
    let second = reaction.requests().find(invite).expect("another offer").clone();
    let refused = rig.receive(&second.flow, &second.answer(482, "bob", ""));
    assert_eq!(refused.responses().next().map(Sent::status), Some(488));
    assert_eq!(relay.count(), 0);
}
