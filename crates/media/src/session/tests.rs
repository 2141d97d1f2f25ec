use super::*;
use crate::ReportSeed;
use crate::error::{DigitError, SendError};
use crate::keying::DtlsPeer;
use crate::negotiation::{MediaConfig, Negotiator, Security};
use crate::tone::{Tone, amplitude_of};
use alloc::vec;
use proptest::prelude::*;
use rtp::packet::HeaderFields;
use sdp::CryptoAttribute;
use srtp::MasterKey;

const ENDS: [([u8; 4], u16); 2] = [([192, 0, 2, 1], 4000), ([192, 0, 2, 2], 5000)];

pub(super) fn address(end: usize) -> SocketAddr {
    ENDS[end].into()
}

/// Returns two sessions that have agreed.
pub(super) fn sessions(security: Security) -> [Session; 2] {
    let codecs = vec![Codec::Pcmu, Codec::Pcma];
    let media_config = MediaConfig { security, codecs, ..MediaConfig::default() };
    let mut ends =
        [0, 1].map(|end| Negotiator::new(media_config.clone(), address(end), end as u64));
    let mut state = 1_u8;
    let mut random = |bytes: &mut [u8]| {
        bytes.iter_mut().for_each(|byte| {
            state = state.wrapping_mul(5).wrapping_add(113);
            *byte = state ^ (state >> 3);
        });
    };
    let offer = ends[0].offer(&mut random);
    let (answer, theirs) = ends[1].answer(&offer, &mut random).unwrap();
    let ours = ends[0].accept(&answer).unwrap();
    let seed = |ssrc| Seed { ssrc, sequence_number: 65_530, timestamp: u32::MAX - 100 };
    [Session::new(ours, seed(1)).unwrap(), Session::new(theirs, seed(2)).unwrap()]
}

pub(super) fn at(frame: u32) -> Duration {
    Duration::from_millis(100) + FRAME * frame
}

/// One end sends a tone for a second, and the other one plays it. Returns the played samples and
/// the events.
pub(super) fn talk(sessions: &mut [Session; 2], from: usize) -> (Vec<i16>, Vec<Received>) {
    let mut tone = Tone::new(1000.0, 8000, 8000);
    let (mut played, mut heard) = (Vec::new(), Vec::new());
    for frame in 0..50 {
        let (mut samples, mut packet) = (Vec::new(), Vec::new());
        tone.fill(sessions[from].frame_samples(), &mut samples);
        let to = sessions[from].send(&samples, &mut packet).unwrap();
        assert_eq!(to, Some(address(1 - from)));
        heard.push(sessions[1 - from].receive(at(frame), address(from), &mut packet));
        sessions[1 - from].play(at(frame) + Duration::from_millis(15), &mut played);
    }
    (played, heard)
}

#[test]
fn a_tone_arrives_at_its_frequency_and_level_in_clear_and_encrypted() {
    for security in [Security::Off, Security::Required] {
        let mut sessions = sessions(security);
        for from in [0, 1] {
            let (played, heard) = talk(&mut sessions, from);
            let level = amplitude_of(1000.0, 8000, &played[1600..]);
            assert!((level - 8000.0).abs() < 400.0, "{level}");
            assert_eq!(heard[0], Received::First(address(from)));
            let statistics = sessions[1 - from].statistics();
            assert_eq!((statistics.received, statistics.lost()), (49, 0));
            assert!(statistics.mos > 4.3, "{statistics:?}");
        }
        assert_eq!(sessions[0].statistics().sent, 50);
    }
}

#[test]
fn digits_are_heard_once_each() {
    let mut sessions = sessions(Security::Optional);
    "12#".chars().for_each(|digit| sessions[0].press(digit).unwrap());
    assert_eq!(sessions[0].press('x'), Err(DigitError::Unknown('x')));
    let (_, heard) = talk(&mut sessions, 0);
    let digits: Vec<char> = heard
        .iter()
        .filter_map(|heard| match heard {
            Received::Digit(digit) => Some(*digit),
            _ => None,
        })
        .collect();
    assert_eq!(digits, ['1', '2', '#']);
}

#[test]
fn strangers_are_not_heard() {
    let stranger: SocketAddr = ([203, 0, 113, 9], 9).into();
    let mut clear = sessions(Security::Off);
    talk(&mut clear, 0);
    let mut packet = Vec::new();
    clear[0].send(&[0; 160], &mut packet).unwrap();
    assert_eq!(clear[1].receive(at(51), stranger, &mut packet), Received::Nothing);
    assert_eq!(clear[1].statistics().strangers, 1);

    let mut secured = sessions(Security::Required);
    talk(&mut secured, 0);
    let mut forged = HeaderFields { ssrc: 1, sequence_number: 50, ..HeaderFields::default() }
        .to_bytes()
        .to_vec();
    forged.resize(172, 0);
    assert_eq!(secured[1].receive(at(51), address(0), &mut forged), Received::Nothing);
    assert_eq!(secured[1].statistics().refused, 1);
}

#[test]
fn a_stranger_who_comes_first_does_not_keep_the_stream() {
    let mut sessions = sessions(Security::Off);
    let mut packet = Vec::new();
    sessions[0].send(&[0; 160], &mut packet).unwrap();
    let stranger: SocketAddr = ([203, 0, 113, 9], 9).into();
    assert_eq!(sessions[1].receive(at(0), stranger, &mut packet), Received::First(stranger));
    let to = sessions[1].send(&[0; 160], &mut packet).unwrap();
    assert_eq!(to, Some(address(0)), "nobody is sent our sound by a forged datagram");
    let (played, _) = talk(&mut sessions, 0);
    assert!(amplitude_of(1000.0, 8000, &played[1600..]) > 7000.0);
    assert_eq!(sessions[1].send(&[0; 160], &mut packet).unwrap(), Some(address(0)));
}

#[test]
fn new_keys_are_used_from_the_next_packet_on_and_old_ones_kept() {
    let mut sessions = sessions(Security::Required);
    talk(&mut sessions, 0);
    let same = sessions[0].stream().clone();
    sessions[0].renew(same).unwrap();
    let (played, _) = talk(&mut sessions, 0);
    assert!(amplitude_of(1000.0, 8000, &played[1600..]) > 7000.0, "counters went on");
}

#[test]
fn a_peer_that_is_silent_is_heard_as_noise_and_nothing_of_it_is_missing() {
    let mut sessions = sessions(Security::Off);
    talk(&mut sessions, 0);
    let ours = sessions[0].stream().noise;
    assert_eq!(ours, Some(13));
    let before = sessions[1].statistics().missing;
    let fields = HeaderFields {
        payload_type: 13,
        marker: false,
        sequence_number: sessions[0].sequence_number,
        timestamp: sessions[0].timestamp,
        ssrc: 1,
    };
    let mut packet = vec![0; 100];
    let length = fields.write(&[40], &mut packet).unwrap();
    sessions[1].receive(at(50), address(0), &mut packet[..length]);
    let mut played = Vec::new();
    for frame in 50..150 {
        sessions[1].play(at(frame) + Duration::from_millis(15), &mut played);
    }
    let frame = &played[played.len() - 160..];
    let highest = frame.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
    assert!((400..700).contains(&highest), "{highest}");
    assert_eq!(sessions[1].statistics().missing, before);
    for number in 150..200 {
        let mut samples = Vec::new();
        Tone::new(1000.0, 8000, 8000).fill(160, &mut samples);
        sessions[0].timestamp = fields.timestamp.wrapping_add(160 * (number - 50));
        sessions[0].sequence_number =
            fields.sequence_number.wrapping_add((1 + number - 150) as u16);
        sessions[0].send(&samples, &mut packet).unwrap();
        sessions[1].receive(at(number), address(0), &mut packet);
        sessions[1].play(at(number) + Duration::from_millis(15), &mut played);
    }
    let level = amplitude_of(1000.0, 8000, &played[played.len() - 1600..]);
    assert!((level - 8000.0).abs() < 400.0, "sound comes back: {level}");
}

#[test]
fn every_codec_carries_a_tone() {
    for &codec in Codec::ALL {
        let media_config = MediaConfig {
            security: Security::Off,
            codecs: vec![codec],
            offers_all_codecs: true,
            ..MediaConfig::default()
        };
        let mut ends =
            [0, 1].map(|end| Negotiator::new(media_config.clone(), address(end), end as u64));
        let offer = ends[0].offer(&mut |_: &mut [u8]| {});
        let (answer, theirs) = ends[1].answer(&offer, &mut |_: &mut [u8]| {}).unwrap();
        let ours = ends[0].accept(&answer).unwrap();
        let seed = |ssrc| Seed { ssrc, sequence_number: 1, timestamp: 1 };
        let mut sessions =
            [Session::new(ours, seed(1)).unwrap(), Session::new(theirs, seed(2)).unwrap()];
        let mut tone = Tone::new(440.0, codec.sample_rate(), 8000);
        let (mut played, mut packet) = (Vec::new(), Vec::new());
        for frame in 0..100 {
            let mut samples = Vec::new();
            tone.fill(sessions[0].frame_samples(), &mut samples);
            sessions[0].send(&samples, &mut packet).unwrap();
            sessions[1].receive(at(frame), address(0), &mut packet);
            sessions[1].play(at(frame) + Duration::from_millis(15), &mut played);
        }
        assert_eq!(played.len(), 2 * codec.sample_rate() as usize, "{codec:?}");
        let steady = &played[played.len() / 2..];
        let level = amplitude_of(440.0, codec.sample_rate(), steady);
        assert!((level / 8000.0 - 1.0).abs() < 0.15, "{codec:?} {level}");
        let statistics = sessions[1].statistics();
        assert_eq!(statistics.lost(), 0, "{codec:?}");
        assert!(statistics.mos > 3.0, "{codec:?} {statistics:?}");
        sessions[0].press('5').unwrap();
        let mut digits = 0;
        for frame in 100..120 {
            sessions[0].send(&vec![0; codec.frame_samples()], &mut packet).unwrap();
            digits += u32::from(
                sessions[1].receive(at(frame), address(0), &mut packet) == Received::Digit('5'),
            );
        }
        assert_eq!(digits, 1, "{codec:?}");
    }
}

#[test]
fn what_is_lost_is_concealed_and_counted() {
    let mut sessions = sessions(Security::Off);
    let (mut played, mut packet) = (Vec::new(), Vec::new());
    let mut tone = Tone::new(1000.0, 8000, 8000);
    for frame in 0..100 {
        let mut samples = Vec::new();
        tone.fill(160, &mut samples);
        sessions[0].send(&samples, &mut packet).unwrap();
        if frame % 10 != 9 {
            sessions[1].receive(at(frame), address(0), &mut packet);
        }
        sessions[1].play(at(frame) + Duration::from_millis(15), &mut played);
    }
    let statistics = sessions[1].statistics();
    assert_eq!(statistics.lost(), 9, "{statistics:?}");
    assert!(statistics.missing >= 9 && statistics.mos < 4.0, "{statistics:?}");
    assert_eq!(played.len(), 16_000);
    let level = amplitude_of(1000.0, 8000, &played[1600..]);
    assert!((level - 8000.0).abs() < 400.0, "{level}");
}

/// Returns the packets of a second of a tone that `session` sends, each with its number of samples.
fn packets_of(session: &mut Session, drains: bool) -> Vec<(u32, usize)> {
    let (mut packets, mut packet, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    let mut tone = Tone::new(1000.0, 8000, 8000);
    for _ in 0..50 {
        samples.clear();
        tone.fill(session.frame_samples(), &mut samples);
        let mut to = session.send(&samples, &mut packet).unwrap();
        while to.is_some() {
            let read = Packet::parse(&packet).unwrap();
            packets.push((read.header.timestamp(), read.payload.len()));
            to = if drains { session.rest(&mut packet).unwrap() } else { None };
        }
    }
    packets
}

#[test]
fn packets_hold_what_the_other_end_wants() {
    for (millis, count) in [(10, 100), (20, 50), (30, 33), (40, 25), (60, 16)] {
        let [mut session, _] = sessions(Security::Off);
        session.stream.packet_time = Duration::from_millis(millis);
        let packets = packets_of(&mut session, true);
        assert_eq!(packets.len(), count, "{millis}");
        let samples = millis as usize * 8;
        assert!(packets.iter().all(|packet| packet.1 == samples), "{millis}");
        for pair in packets.windows(2) {
            assert_eq!(pair[1].0.wrapping_sub(pair[0].0), samples as u32, "{millis}");
        }
    }
    // An owner that takes only one packet loses no audio, and no audio accumulates.
    let [mut session, _] = sessions(Security::Off);
    session.stream.packet_time = Duration::from_millis(10);
    let packets = packets_of(&mut session, false);
    assert_eq!(packets.len(), 50);
    assert!(packets[1..].iter().all(|packet| packet.1 == 160), "{packets:?}");
    assert!(session.outgoing.len() <= 160);
}

#[test]
fn packets_of_any_length_are_played_whole() {
    for millis in [10_u64, 20, 30, 40, 60] {
        let mut ends = sessions(Security::Off);
        ends[0].stream.packet_time = Duration::from_millis(millis);
        let mut tone = Tone::new(1000.0, 8000, 8000);
        let (mut played, mut packet) = (Vec::new(), Vec::new());
        for frame in 0..150 {
            let mut samples = Vec::new();
            tone.fill(160, &mut samples);
            let mut to = ends[0].send(&samples, &mut packet).unwrap();
            while to.is_some() {
                ends[1].receive(at(frame), address(0), &mut packet);
                to = ends[0].rest(&mut packet).unwrap();
            }
            ends[1].play(at(frame) + Duration::from_millis(15), &mut played);
        }
        assert_eq!(played.len(), 150 * 160);
        let level = amplitude_of(1000.0, 8000, &played[8000..]);
        assert!((level - 8000.0).abs() < 400.0, "{millis} ms: {level}");
        // A concealed packet would not be in phase with the tone.
        let counts = ends[1].buffer.counts();
        assert!(counts.discarded <= 2 && counts.late <= 2, "{millis} ms: {counts:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_peer_that_changes_its_packet_time_is_heard_whole(
        times in proptest::collection::vec((prop::sample::select(vec![10_u64, 20, 30, 40, 60]), 1_u32..40), 1..12),
        codec in prop::sample::select(vec![Codec::Pcmu, Codec::G722]),
    ) {
        let mut ends = sessions(Security::Required);
        for end in &mut ends {
            let stream = Stream { codec, ..end.stream.clone() };
            prop_assert!(end.renew(stream).is_ok());
        }
        let rate = codec.sample_rate();
        let mut tone = Tone::new(1000.0, rate, 8000);
        let (mut played, mut packet, mut sent, mut frame) = (Vec::new(), Vec::new(), 0, 0);
        // The longest packets come first, so that the delay is sufficient for all.
        for (millis, frames) in [(60, 60)].into_iter().chain(times).chain([(20, 50)]) {
            let packet_time = Duration::from_millis(millis);
            let renewed = Stream { packet_time, ..ends[0].stream.clone() };
            prop_assert!(ends[0].renew(renewed).is_ok());
            for _ in 0..frames {
                let mut samples = Vec::new();
                tone.fill(codec.frame_samples(), &mut samples);
                let mut to = ends[0].send(&samples, &mut packet).unwrap();
                while to.is_some() {
                    sent += 1;
                    ends[1].receive(at(frame), address(0), &mut packet);
                    to = ends[0].rest(&mut packet).unwrap();
                }
                ends[1].play(at(frame) + Duration::from_millis(15), &mut played);
                frame += 1;
            }
        }
        let statistics = ends[1].statistics();
        prop_assert_eq!((statistics.received + 1, statistics.lost()), (sent, 0));
        let counts = ends[1].buffer.counts();
        prop_assert_eq!((counts.late, counts.missing), (0, 0), "{:?}", counts);
        // Playout in steps of 20 ms may need a little more delay than the longest packet.
        prop_assert!(counts.stretched <= 2 && counts.discarded == 0, "{:?}", counts);
        prop_assert_eq!(played.len() as u32, frame * rate / 50);
        let level = amplitude_of(1000.0, rate, &played[played.len() - rate as usize / 2..]);
        prop_assert!((level - 8000.0).abs() < 400.0, "{}", level);
    }
}

#[test]
fn each_direction_keeps_its_counters_as_long_as_its_key() {
    let mut ends = sessions(Security::Required);
    // Beyond the wrap of the sequence numbers, so that the counters differ from the initial ones.
    talk(&mut ends, 0);
    talk(&mut ends, 1);
    let [first, second] = sessions(Security::Required);
    let mut other = first.stream().clone();
    let keys = |session: &Session| session.stream().keying.sdes().unwrap().clone();
    let bytes = |byte: u8| {
        let policy = keys(&first).receive.policy;
        let length = policy.suite.key_length() + policy.suite.salt_length();
        CryptoAttribute::new(1, policy, &[byte; 64][..length]).unwrap()
    };
    // The other end has a new key, and the local key is the old one.
    let mut agreed = keys(&ends[0]);
    agreed.receive = bytes(5);
    other.keying = Keying::Sdes(agreed);
    ends[0].renew(other).unwrap();
    let mut agreed = keys(&ends[1]);
    agreed.send = bytes(5);
    let mut other = second.stream().clone();
    other.keying = Keying::Sdes(agreed);
    ends[1].renew(other).unwrap();
    for from in [0, 1] {
        talk(&mut ends, from);
        assert_eq!(ends[1 - from].statistics().refused, 0, "{from}");
    }
}

#[test]
fn a_packet_that_cannot_be_encrypted_is_an_error_and_counted() {
    let mut ends = sessions(Security::Required);
    talk(&mut ends, 0);
    let sent = ends[0].statistics().sent;
    // The same sequence number again would use a key stream twice.
    ends[0].sequence_number = ends[0].sequence_number.wrapping_sub(1);
    let mut packet = Vec::new();
    let reused = SendError::Protect(srtp::ProtectError::IndexReused);
    assert_eq!(ends[0].send(&[0; 160], &mut packet), Err(reused));
    assert_eq!((ends[0].statistics().sent, ends[0].statistics().unsent), (sent, 1));
    ends[0].sequence_number = ends[0].sequence_number.wrapping_add(1);
    assert_eq!(ends[0].send(&[0; 160], &mut packet), Ok(Some(address(1))));
}

#[test]
fn a_call_becomes_secure_and_never_plain_again() {
    let mut plain = sessions(Security::Off);
    let secured = sessions(Security::Required);
    talk(&mut plain, 0);
    for (end, secured) in plain.iter_mut().zip(&secured) {
        let before = end.stream().clone();
        end.renew(secured.stream().clone()).unwrap();
        assert_eq!(end.renew(before), Err(SessionError::InClear));
        assert!(end.stream().keying.is_encrypted());
    }
    let (played, _) = talk(&mut plain, 0);
    assert!(amplitude_of(1000.0, 8000, &played[1600..]) > 7000.0);
    assert_eq!(plain[1].statistics().refused, 0);
}

#[test]
fn a_stream_with_an_unusable_key_changes_nothing() {
    let mut ends = sessions(Security::Required);
    let mut stream = ends[0].stream().clone();
    let Keying::Sdes(agreed) = &mut stream.keying else { panic!("in clear") };
    agreed.receive.keys[0].bytes.truncate(3);
    let suite = Suite::AesCm128HmacSha1_80;
    let unusable = SessionError::Keys(srtp::PolicyError::KeyLength { suite, length: 3 });
    let seed = Seed { ssrc: 1, sequence_number: 1, timestamp: 1 };
    assert_eq!(Session::new(stream.clone(), seed).err(), Some(unusable));
    assert_eq!(ends[0].renew(stream), Err(unusable));
    assert!(talk(&mut ends, 1).0.len() > 1000);
    assert_eq!(ends[0].statistics().refused, 0);
}

/// The answer to the local offer names both codecs.
fn sessions_of_two_codecs() -> [Session; 2] {
    let mut sessions = sessions(Security::Off);
    sessions[1].stream.others = vec![(Codec::Pcma, 8, 8)];
    sessions
}

#[test]
fn every_codec_of_an_answer_is_heard_and_then_sent() {
    let mut sessions = sessions_of_two_codecs();
    talk(&mut sessions, 0);
    let mut other = sessions[0].stream.clone();
    (other.codec, other.send_type, other.receive_type) = (Codec::Pcma, 8, 8);
    sessions[0].renew(other).unwrap();
    let (played, _) = talk(&mut sessions, 0);
    assert!(amplitude_of(1000.0, 8000, &played[1600..]) > 7000.0);
    let statistics = sessions[1].statistics();
    assert_eq!((statistics.unknown, statistics.lost()), (0, 0));
    assert_eq!(sessions[1].stream().codec, Codec::Pcma);
    let (played, _) = talk(&mut sessions, 1);
    assert!(amplitude_of(1000.0, 8000, &played[1600..]) > 7000.0);
    assert_eq!(sessions[1].stream().others, [(Codec::Pcmu, 0, 0)]);
}

#[test]
fn packets_of_a_type_that_was_not_agreed_on_are_counted() {
    let mut sessions = sessions(Security::Off);
    let mut other = sessions[0].stream.clone();
    (other.codec, other.send_type) = (Codec::Pcma, 99);
    sessions[0].renew(other).unwrap();
    talk(&mut sessions, 0);
    let statistics = sessions[1].statistics();
    assert_eq!((statistics.received, statistics.unknown), (0, 50));
}

#[test]
fn a_hold_is_no_delta() {
    let mut sessions = sessions(Security::Off);
    talk(&mut sessions, 0);
    let stream = sessions[1].stream.clone();
    sessions[1].renew(Stream { receives: false, ..stream.clone() }).unwrap();
    sessions[1].renew(stream).unwrap();
    let mut packet = Vec::new();
    for frame in 100..103 {
        sessions[0].send(&[0; 160], &mut packet).unwrap();
        sessions[1].receive(at(frame), address(0), &mut packet);
    }
    assert_eq!(sessions[1].statistics().max_delta, FRAME);
}

/// Nothing is sent or played between the agreement and the keys: not even a packet in clear.
#[test]
fn a_stream_that_awaits_keys_is_silent() {
    let mut ends = sessions(Security::Off);
    let [mut clear, _] = sessions(Security::Off);
    let peer = DtlsPeer { fingerprints: vec![], tls_id: None, is_client: true };
    for end in &mut ends {
        end.renew(Stream { keying: Keying::Dtls(peer.clone()), ..end.stream.clone() }).unwrap();
        assert!(end.awaits_keys() && end.suite().is_none());
        end.start_reports(
            Duration::ZERO,
            ReportSeed { random: [1; 24], time_of_day: Duration::ZERO, extended: false },
        );
    }
    let mut packet = Vec::new();
    for frame in 0..500 {
        assert_eq!(ends[0].send(&[1000; 160], &mut packet), Ok(None));
        assert_eq!(ends[0].rest(&mut packet), Ok(None));
        assert_eq!(ends[0].also(at(frame)), None);
        assert_eq!(ends[0].poll(at(frame), &mut packet), Ok(None));
        clear.send(&[1000; 160], &mut packet).unwrap().unwrap();
        assert_eq!(ends[1].receive(at(frame), address(0), &mut packet), Received::Nothing);
    }
    assert_eq!(ends[1].statistics().received, 0);
    let suite = Suite::AeadAes128Gcm;
    let key = |byte| MasterKey::new(suite, &[byte; 28]).unwrap();
    ends[0].set_keys(suite, key(1), key(2)).unwrap();
    ends[1].set_keys(suite, key(2), key(1)).unwrap();
    for from in [0, 1] {
        let (_, heard) = talk(&mut ends, from);
        assert_eq!(heard[0], Received::First(address(from)));
    }
    assert_eq!(ends[0].suite(), Some(suite));
    // A later agreement leaves the keys in use, and cannot end the encryption.
    let keyed = ends[0].stream.clone();
    ends[0].renew(keyed.clone()).unwrap();
    assert!(!ends[0].awaits_keys());
    let clear = Stream { keying: Keying::None, ..keyed };
    assert_eq!(ends[0].renew(clear), Err(SessionError::InClear));
}
