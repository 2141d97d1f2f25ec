//! Legs of phones with a DTLS handshake and without ICE, and ZRTP.

use super::*;
use crate::{Way, WebFault};
use sdp::dtls::{Fingerprint, HashFunction};
use srtp::{MasterKey, Suite};
use std::format;
use std::string::ToString;

const SUITE: Suite = Suite::AeadAes128Gcm;
const CALLING: &str = "198.51.100.1:4000";
const CALLED: &str = "203.0.113.1:6000";
const HELLO: [u8; 4] = [22, 254, 253, 0];

fn fingerprint(byte: u8) -> Fingerprint {
    Fingerprint { hash: HashFunction::Sha256, bytes: [byte].repeat(32) }
}

/// The description of a phone under `protocol`, with the attributes of a handshake in the session,
/// as baresip has them.
fn phone(place: &str, protocol: &str, byte: u8, setup: &str) -> String {
    let (host, port) = place.split_once(':').unwrap();
    format!(
        "v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\n\
         a=fingerprint:{}\r\na=setup:{setup}\r\n\
         m=audio {port} {protocol} 0 101\r\na=rtpmap:101 telephone-event/8000\r\n",
        fingerprint(byte)
    )
}

/// The values of the attributes of this name.
fn values<'a>(description: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!("a={name}:");
    description.lines().filter_map(|line| line.strip_prefix(&start)).collect()
}

fn keys(byte: u8) -> MasterKey {
    MasterKey::new(SUITE, &[byte; 28]).unwrap()
}

/// The way of a datagram of a handshake, from there.
fn shake(rig: &Rig, side: Side, from: &str, channel: Channel) -> Result<Way, Drop> {
    let mut buffer = [0; 100];
    buffer[..HELLO.len()].copy_from_slice(&HELLO);
    let (stream, now) = (rig.stream(), rig.now.get());
    let relayed = stream.relay(side, channel, place(from), &mut buffer, HELLO.len(), now);
    relayed.map(|relayed| relayed.way)
}

/// Sets the keys of the leg of `side`. Its packets are decrypted, and those to it encrypted.
fn talk(rig: &Rig, side: Side, from: &str, other: &str) {
    assert_eq!(rig.send(side.other(), other, &rtp(1)), Err(Drop::NoKeys));
    rig.stream().set_keys(side, SUITE, keys(1), keys(2)).unwrap();
    let policy = srtp::Policy::new(SUITE);
    let (to, mut packet) = rig.send(side.other(), other, &rtp(2)).unwrap();
    assert_eq!(to, place(from));
    let mut receiver = srtp::Receiver::new(&policy, [keys(1)].into()).unwrap();
    assert_eq!(receiver.unprotect(&mut packet).unwrap(), &rtp(2)[..]);
    let mut sender = srtp::Sender::new(&policy, [keys(2)].into()).unwrap();
    let mut packet = [0; 300];
    packet[..172].copy_from_slice(&rtp(3));
    let length = sender.protect(&mut packet, 172).unwrap();
    assert_eq!(rig.send(side, from, &packet[..length]).unwrap(), (place(other), rtp(3)));
    assert!(rig.send(side, from, &rtp(4)).is_err());
}

#[test]
fn a_phone_with_a_handshake_calls_one_in_clear() {
    for (setup, answered, is_client) in
        [("actpass", "passive", false), ("active", "passive", false), ("passive", "active", true)]
    {
        let mut rig = Rig::new(Limits::default());
        rig.keying = Keying::Clear;
        let offer = rig.first_offer(&phone(CALLING, "UDP/TLS/RTP/SAVPF", 1, setup));
        assert!(offer.contains("m=audio 20002 RTP/AVP 0 101\r\n"), "{offer}");
        for name in ["fingerprint", "setup", "ice-lite", "ice-ufrag"] {
            assert!(!offer.contains(&format!("a={name}")), "{name} in {offer}");
        }
        let answer = rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
        assert!(answer.contains("m=audio 20000 UDP/TLS/RTP/SAVPF 0 101\r\n"), "{answer}");
        assert_eq!(values(&answer, "setup"), [answered]);
        assert_eq!(values(&answer, "fingerprint"), [fingerprint(0xfe).to_string()]);
        assert!(!answer.contains("a=ice"), "{answer}");
        let peer = rig.stream().dtls_peer(Side::Caller).unwrap();
        assert_eq!((peer.is_client, &peer.fingerprints[..]), (is_client, &[fingerprint(1)][..]));
        assert_eq!(rig.stream().handshake_destination(Side::Caller), Some(place(CALLING)));
        // Its host may begin a handshake from any port, other hosts from none.
        assert_eq!(shake(&rig, Side::Caller, CALLING, Channel::Rtp), Ok(Way::Handshake));
        let moved = "198.51.100.1:4444";
        assert_eq!(shake(&rig, Side::Caller, moved, Channel::Rtp), Ok(Way::Handshake));
        let stranger = "198.51.100.2:4000";
        assert_eq!(shake(&rig, Side::Caller, stranger, Channel::Rtp), Err(Drop::Source));
        assert_eq!(shake(&rig, Side::Caller, CALLING, Channel::Rtcp), Err(Drop::Source));
        talk(&rig, Side::Caller, CALLING, CALLED);
    }
}

/// The phone has no other encryption, and gets no other offer.
#[test]
fn a_phone_with_a_handshake_alone_is_offered_it_without_ice() {
    for (answered, setup, is_client) in [
        ("UDP/TLS/RTP/SAVP", "active", false),
        ("UDP/TLS/RTP/SAVP", "passive", true),
        ("UDP/TLS/RTP/SAVPF", "active", false),
    ] {
        let mut rig = Rig::new(Limits::default());
        rig.keying = Keying::Handshake;
        let offer = rig.first_offer(&sdp("198.51.100.1", 4000));
        assert!(offer.contains("m=audio 20002 UDP/TLS/RTP/SAVP 0 101\r\n"), "{offer}");
        assert_eq!(values(&offer, "setup"), ["actpass"]);
        assert_eq!(values(&offer, "fingerprint"), [fingerprint(0xfe).to_string()]);
        assert!(offer.contains("a=rtcp-mux\r\n"), "{offer}");
        assert!(!offer.contains("a=ice") && !offer.contains("a=crypto"), "{offer}");
        let answer = rig.first_answer(&phone(CALLED, answered, 2, setup)).unwrap();
        assert!(answer.contains("m=audio 20000 RTP/AVP 0 101\r\n"), "{answer}");
        assert!(!answer.contains("fingerprint") && !answer.contains("mux"), "{answer}");
        let peer = rig.stream().dtls_peer(Side::Callee).unwrap();
        assert_eq!((peer.is_client, &peer.fingerprints[..]), (is_client, &[fingerprint(2)][..]));
        assert_eq!(shake(&rig, Side::Callee, CALLED, Channel::Rtp), Ok(Way::Handshake));
        talk(&rig, Side::Callee, CALLED, CALLING);
        // A later offer has the profile of the phone.
        let role = Role::Offer { exchange: 2 };
        let later = rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |_| {});
        let later = later.unwrap().unwrap();
        assert!(later.contains(&format!(" {answered} 0 101\r\n")), "{later}");
    }
    // An answer in clear, or one without a fingerprint, lowers nothing.
    for answered in [
        sdp("203.0.113.1", 6000),
        phone(CALLED, "UDP/TLS/RTP/SAVP", 2, "active").replace("fingerprint", "print"),
    ] {
        let mut rig = Rig::new(Limits::default());
        rig.keying = Keying::Handshake;
        rig.first_offer(&sdp("198.51.100.1", 4000));
        assert_eq!(rig.first_answer(&answered), Err(RelayError::Handshake), "{answered}");
    }
}

#[test]
fn a_callee_chooses_between_keys_of_the_signalling_and_a_handshake() {
    for (keying, protocol) in [(Keying::Required, "RTP/SAVP"), (Keying::Optional, "RTP/AVP")] {
        for (setup, is_client) in [("active", false), ("passive", true)] {
            let mut rig = Rig::new(Limits::default());
            rig.keying = keying;
            let offer = rig.first_offer(&sdp("198.51.100.1", 4000));
            assert!(offer.contains(&format!("m=audio 20002 {protocol} 0 101\r\n")), "{offer}");
            assert_eq!(values(&offer, "setup"), ["actpass"]);
            assert_eq!(
                (values(&offer, "crypto").len(), values(&offer, "fingerprint").len()),
                (2, 1)
            );
            let answer = rig.first_answer(&phone(CALLED, protocol, 2, setup)).unwrap();
            assert!(answer.contains("m=audio 20000 RTP/AVP 0 101\r\n"), "{answer}");
            assert!(!answer.contains("a=fingerprint") && !answer.contains("a=setup"), "{answer}");
            let peer = rig.stream().dtls_peer(Side::Callee).unwrap();
            assert_eq!(peer.is_client, is_client);
            talk(&rig, Side::Callee, CALLED, CALLING);
            // Later offers have the handshake alone, and keep the association and its role.
            let role = Role::Offer { exchange: 2 };
            let offer = rig.pass(Side::Caller, role, &sdp("198.51.100.1", 4000), |_| {});
            let offer = offer.unwrap().unwrap();
            assert!(offer.contains(" UDP/TLS/RTP/SAVP 0 101\r\n"), "{offer}");
            assert_eq!((values(&offer, "crypto").len(), values(&offer, "setup").len()), (0, 1));
            let role = Role::Response { exchange: 2, is_final: true };
            let answer = phone(CALLED, "UDP/TLS/RTP/SAVP", 2, setup);
            rig.pass(Side::Callee, role, &answer, |_| {}).unwrap().unwrap();
            assert!(rig.stream().dtls_peer(Side::Callee).unwrap().is_same(&peer));
            assert!(rig.send(Side::Caller, CALLING, &rtp(9)).is_ok());
        }
        // Neither is refused if keys are required.
        let mut rig = Rig::new(Limits::default());
        rig.keying = keying;
        rig.first_offer(&sdp("198.51.100.1", 4000));
        let answered = rig.first_answer(&sdp("203.0.113.1", 6000));
        assert_eq!(answered.is_err(), keying == Keying::Required);
    }
}

#[test]
fn the_security_of_a_phone_with_a_handshake_is_not_lowered() {
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Clear;
    rig.first_offer(&phone(CALLING, "UDP/TLS/RTP/SAVP", 1, "active"));
    rig.first_answer(&sdp("203.0.113.1", 6000)).unwrap();
    talk(&rig, Side::Caller, CALLING, CALLED);
    let peer = rig.stream().dtls_peer(Side::Caller);
    for offer in [
        sdp("198.51.100.1", 4000),
        phone(CALLING, "UDP/TLS/RTP/SAVP", 1, "passive"),
        phone(CALLING, "UDP/TLS/RTP/SAVP", 1, "holdconn"),
        phone(CALLING, "UDP/TLS/RTP/SAVP", 1, "active").replace("fingerprint", "print"),
    ] {
        let offered = rig.pass(Side::Caller, Role::Offer { exchange: 2 }, &offer, |_| {});
        assert_eq!(offered, Err(RelayError::Handshake), "{offer}");
    }
    assert_eq!(rig.stream().dtls_peer(Side::Caller), peer);
    assert!(rig.send(Side::Callee, CALLED, &rtp(8)).is_ok());
    // Another certificate asks for another handshake.
    let anew = phone(CALLING, "UDP/TLS/RTP/SAVP", 3, "active");
    exchange(&rig, 3, &anew, &sdp("203.0.113.1", 6000));
    assert!(!rig.stream().dtls_peer(Side::Caller).unwrap().is_same(&peer.unwrap()));
    // A handshake that fails ends the call.
    rig.stream().refuse_keys(Side::Caller);
    let ended: Vec<_> = (0..16).flat_map(|_| rig.relay.expire(Duration::from_secs(1))).collect();
    assert_eq!(ended[0].web_fault, Some(WebFault::Keys));
}

/// A message of ZRTP passes where the relay has no keys, and tells the address of its sender.
#[test]
fn zrtp_passes_between_phones_without_other_keys() {
    const MESSAGE: &[u8] = b"\x10\0\0\x01ZRTP\0\0\0\x07hello";
    let with_hash = |host: &str, port| sdp(host, port) + "a=zrtp-hash:1.10 00ff\r\n";
    let rig = Rig::new(Limits::default());
    let offer = rig.first_offer(&with_hash("198.51.100.1", 4000));
    assert_eq!(values(&offer, "zrtp-hash"), ["1.10 00ff"]);
    rig.first_answer(&with_hash("203.0.113.1", 6000)).unwrap();
    let moved = "198.51.100.1:4444";
    let sent = rig.send(Side::Caller, moved, MESSAGE);
    assert_eq!(sent, Ok((place(CALLED), MESSAGE.to_vec())));
    assert_eq!(rig.send(Side::Callee, CALLED, MESSAGE).unwrap().0, place(moved));
    assert!(rig.send(Side::Callee, "198.51.100.9:1", MESSAGE).is_err());
    // Keys that end at the relay leave no other ones.
    let mut rig = Rig::new(Limits::default());
    rig.keying = Keying::Required;
    let offer = rig.first_offer(&with_hash("198.51.100.1", 4000));
    assert!(!offer.contains("zrtp"), "{offer}");
}
