//! The media of a call: descriptions, datagrams and STUN messages of strangers.

use media::{Channel, MediaConfig, Negotiator, Received, ReportSeed, Security, Seed, Session};
use std::net::SocketAddr;
use std::time::Duration;
use stun::{Client, Message, TransactionId};

const HERE: ([u8; 4], u16) = ([192, 0, 2, 1], 4000);
const THERE: ([u8; 4], u16) = ([198, 51, 100, 2], 5000);
const ENCRYPTED: &str = "a packet with a new sequence number can be encrypted";

/// Pseudorandom bytes that differ on each call, so that no two keys are equal.
fn random() -> impl FnMut(&mut [u8]) {
    let mut state = 1_u64;
    move |bytes: &mut [u8]| {
        for byte in bytes {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 33) as u8;
        }
    }
}

fn negotiator(security: Security, local: ([u8; 4], u16)) -> Negotiator {
    Negotiator::new(MediaConfig { security, ..MediaConfig::default() }, local.into(), 7)
}

fn security(choice: u8) -> Security {
    [Security::Off, Security::Optional, Security::Required][usize::from(choice) % 3]
}

/// Asserts that a negotiated stream has the requested security.
fn look_at(stream: &media::Stream, security: Security) {
    let is_secure = stream.keying.is_encrypted();
    match security {
        Security::Off => assert!(!is_secure),
        Security::Optional => {}
        Security::Required => assert!(is_secure),
    }
    if let Some(agreed) = stream.keying.sdes() {
        for crypto in [&agreed.send, &agreed.receive] {
            let policy = &crypto.policy;
            assert!(policy.encrypt_rtp && policy.encrypt_rtcp && policy.authenticate_rtp);
        }
        assert_ne!(agreed.send.keys[0].bytes, agreed.receive.keys[0].bytes);
    }
    for address in [stream.remote, stream.remote_rtcp].into_iter().flatten() {
        let ip = address.ip();
        assert!(!ip.is_unspecified() && !ip.is_multicast() && address.port() != 0);
    }
    assert!((10..=60).contains(&stream.packet_time.as_millis()));
    let seed = Seed { ssrc: 1, sequence_number: 1, timestamp: 1 };
    let mut session = Session::new(stream.clone(), seed).expect("the negotiated keys are valid");
    let to = session.send(&vec![0; session.frame_samples()], &mut Vec::new());
    let to = to.expect(ENCRYPTED);
    assert!(to.is_none() || to == stream.remote);
}

/// Processes a description as an offer, and as the answer to an own one. The first byte selects the
/// required security.
///
/// # Panics
/// The result violates the requirement: an unencrypted call, an unusable key, or a mismatched
/// answer.
pub fn negotiation(bytes: &[u8]) {
    let &[choice, ref description @ ..] = bytes else { return };
    let wanted = security(choice);
    let mut numbers = random();
    let mut here = negotiator(wanted, HERE);
    here.hold(choice & 0x80 != 0);
    if let Ok((answer, stream)) = here.answer(description, &mut numbers) {
        look_at(&stream, wanted);
        let (offer, own) =
            (sdp::SessionDescription::parse(description), sdp::SessionDescription::parse(&answer));
        let (offer, own) = (
            offer.expect("the answered offer is a description"),
            own.expect("the written answer is a description"),
        );
        assert_eq!(own.media.len(), offer.media.len());
        let open: Vec<_> = own.media.iter().filter(|media| media.port != 0).collect();
        let [medium] = open[..] else { panic!("{} media are open", open.len()) };
        let keys = sdp::negotiation::usable_crypto_attributes(medium);
        assert_eq!(keys.len(), usize::from(stream.keying.is_encrypted()));
        assert!(answer.len() <= 1000 + 2 * description.len());
        if stream.keying.is_encrypted() {
            let clear = b"v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 0\r\n";
            assert!(
                here.answer(clear, &mut numbers).is_err(),
                "an unencrypted offer within a secure call is rejected"
            );
        }
    }
    let mut caller = negotiator(wanted, HERE);
    caller.offer(&mut numbers);
    if let Ok(stream) = caller.accept(description) {
        look_at(&stream, wanted);
    }
}

/// Two negotiated sessions.
fn sessions(security: Security, choice: u8) -> [Session; 2] {
    let mut numbers = random();
    let (mut here, mut there) = (negotiator(security, HERE), negotiator(security, THERE));
    let offer = here.offer(&mut numbers);
    let (answer, mut theirs) = there.answer(&offer, &mut numbers).expect("the offer is acceptable");
    let mut ours = here.accept(&answer).expect("the answer is acceptable");
    for stream in [&mut ours, &mut theirs] {
        stream.multiplexes_rtcp = choice & 0x10 == 0;
        stream.packet_time = Duration::from_millis(u64::from(choice >> 5 & 3) * 20 + 10)
            .min(Duration::from_millis(60));
    }
    let mut ends = [(ours, 1), (theirs, 2)].map(|(stream, ssrc)| {
        let seed = Seed { ssrc, sequence_number: 65_000, timestamp: u32::MAX - 1000 };
        Session::new(stream, seed).expect("the negotiated keys are valid")
    });
    for (end, number) in ends.iter_mut().zip(1..) {
        let seed = ReportSeed { random: [number; 24], time_of_day: Duration::ZERO, extended: true };
        end.start_reports(Duration::ZERO, seed);
    }
    ends
}

/// Exchanges media between two sessions while datagrams from other sources arrive. The first byte
/// selects the negotiation. Then follow events; a datagram has its length and its bytes.
///
/// # Panics
/// A packet is sent to an unknown address, a forged packet is accepted with SRTP, audio has the
/// wrong length, or a statistic is not finite.
pub fn session(bytes: &[u8]) {
    let &[choice, ref rest @ ..] = bytes else { return };
    let is_secure = choice & 1 != 0;
    let security = if is_secure { Security::Required } else { Security::Off };
    let [mut here, mut there] = sessions(security, choice);
    let peer: SocketAddr = THERE.into();
    let is_peers = |to: SocketAddr| to.ip() == peer.ip() && to.port().wrapping_sub(peer.port()) < 8;
    let (mut now, mut out, mut rest) = (Duration::from_millis(1), Vec::new(), rest);
    let mut was_damaged = false;
    while let &[event, ref more @ ..] = rest {
        rest = more;
        let channel = if event & 0x10 == 0 { Channel::Rtp } else { Channel::Rtcp };
        let port = u16::from(event >> 5);
        let from = match event & 0xf {
            1 | 3 => SocketAddr::new([203, 0, 113, 9].into(), 9),
            _ => SocketAddr::new(peer.ip(), peer.port() + port),
        };
        match event & 0xf {
            // A datagram from any source, possibly changed to resemble one of the stream.
            0..=3 => {
                let &[length, ref more @ ..] = rest else { return };
                let (datagram, more) = more.split_at(usize::from(length).min(more.len()));
                rest = more;
                let mut datagram = datagram.to_vec();
                if event & 2 != 0 && datagram.len() >= 12 {
                    datagram[0] = datagram[0] & 0x3f | 0x80;
                    if !rtp::is_rtcp(&datagram) {
                        datagram[1] &= 0x80;
                        datagram[8..12].copy_from_slice(&[0, 0, 0, 2]);
                    }
                }
                let before = here.statistics();
                let heard = here.receive_on(channel, now, from, &mut datagram);
                if is_secure {
                    assert_eq!(heard, Received::Nothing, "forged");
                    let after = here.statistics();
                    assert_eq!(
                        (after.received, after.reports_received),
                        (before.received, before.reports_received)
                    );
                }
            }
            4 | 5 => {
                // A packet sent by the other end, intact or with a flipped bit.
                let mut packet = Vec::new();
                let samples = vec![i16::from(event) * 100; there.frame_samples()];
                if there.send(&samples, &mut packet).expect(ENCRYPTED).is_some() {
                    if event & 1 != 0 {
                        let place = usize::from(rest.first().copied().unwrap_or(0)) % packet.len();
                        packet[place] ^= 1 << (event >> 5);
                        was_damaged = true;
                    }
                    here.receive_on(Channel::Rtp, now, from, &mut packet);
                }
            }
            6 => {
                let _ = there.press('5');
            }
            7 | 8 => {
                let mut played = Vec::new();
                here.play(now, &mut played);
                assert_eq!(played.len(), here.frame_samples());
            }
            9 | 10 => {
                let samples = vec![0; here.frame_samples()];
                let mut to = here.send(&samples, &mut out).expect(ENCRYPTED);
                while let Some(address) = to {
                    assert!(out.len() <= 1500);
                    assert!(is_secure || is_peers(address), "{address}");
                    let also = here.also(now);
                    assert!(also.is_none_or(is_peers), "{also:?}");
                    to = here.rest(&mut out).expect(ENCRYPTED);
                }
            }
            11 => {
                if let Some((channel, to)) = here.poll(now, &mut out).expect(ENCRYPTED) {
                    assert!(!out.is_empty() && (is_secure || is_peers(to)));
                    there.receive_on(channel, now, HERE.into(), &mut out);
                }
            }
            12 => {
                if let Some((channel, _)) = there.poll(now, &mut out).expect(ENCRYPTED) {
                    here.receive_on(channel, now, peer, &mut out);
                }
            }
            13 => {
                let ended = if port == 7 { there.bye(now, &mut out) } else { Ok(None) };
                if let Some((channel, _)) = ended.expect(ENCRYPTED) {
                    here.receive_on(channel, now, peer, &mut out);
                }
            }
            14 => now += Duration::from_millis(20),
            _ => now += Duration::from_millis(100 << (event >> 5)),
        }
        let statistics = here.statistics();
        assert!(statistics.mos.is_finite() && (0.0..=4.5).contains(&statistics.mos));
        assert!(statistics.far_loss.is_none_or(|loss| (0.0..1.0).contains(&loss)));
        assert!(!is_secure || was_damaged || statistics.strangers == 0);
    }
}

/// Parses a STUN message, and processes it as a server and as a client.
///
/// # Panics
/// A response is malformed, or much longer than the request.
pub fn stun(bytes: &[u8]) {
    let from = HERE.into();
    let mut client = Client::new(TransactionId([1; 12]), from, Duration::ZERO);
    client.poll(Duration::ZERO, &mut Vec::new());
    if client.receive(from, bytes).is_some() {
        assert_eq!(bytes[8..20], [1; 12]);
    }
    let mut out = Vec::new();
    if stun::respond_to_binding(from, bytes, &mut out) {
        let answer = Message::parse(&out).expect("the written response is a message");
        assert_eq!(answer.id.0, bytes[8..20]);
        assert!(out.len() <= bytes.len() + 24);
    }
    let Ok(message) = Message::parse(bytes) else { return };
    let total: usize = message.attributes().map(|attribute| attribute.value.len()).sum();
    assert!(total <= bytes.len());
    let _ = (message.mapped_address(), message.error());
}
