use super::*;
use crate::negotiation::{Negotiator, Security, Wishes};
use crate::tone::{Tone, amplitude_of};
use alloc::vec;

const ENDS: [([u8; 4], u16); 2] = [([192, 0, 2, 1], 4000), ([192, 0, 2, 2], 5000)];

fn address(end: usize) -> SocketAddr {
    ENDS[end].into()
}

/// Two sessions that have agreed.
fn sessions(security: Security) -> [Session; 2] {
    let codecs = vec![Codec::Pcmu, Codec::Pcma];
    let wishes = Wishes { security, codecs, ..Wishes::default() };
    let mut ends = [0, 1].map(|end| Negotiator::new(wishes.clone(), address(end), end as u64));
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

fn at(frame: u32) -> Duration {
    Duration::from_millis(100) + FRAME * frame
}

/// One end sends a tone for a second, and the other plays it: what was played, and what was heard.
fn talk(sessions: &mut [Session; 2], from: usize) -> (Vec<i16>, Vec<Heard>) {
    let mut tone = Tone::new(1000.0, 8000, 8000);
    let (mut played, mut heard) = (Vec::new(), Vec::new());
    for frame in 0..50 {
        let (mut samples, mut packet) = (Vec::new(), Vec::new());
        tone.fill(sessions[from].frame_samples(), &mut samples);
        let to = sessions[from].send(&samples, &mut packet);
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
            assert_eq!(heard[0], Heard::First(address(from)));
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
    assert!("12#".chars().all(|digit| sessions[0].press(digit)));
    assert!(!sessions[0].press('x'));
    let (_, heard) = talk(&mut sessions, 0);
    let digits: Vec<char> = heard
        .iter()
        .filter_map(|heard| match heard {
            Heard::Digit(digit) => Some(*digit),
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
    clear[0].send(&[0; 160], &mut packet);
    assert_eq!(clear[1].receive(at(51), stranger, &mut packet), Heard::Nothing);
    assert_eq!(clear[1].statistics().strangers, 1);

    let mut secured = sessions(Security::Required);
    talk(&mut secured, 0);
    let mut forged =
        Fields { ssrc: 1, sequence_number: 50, ..Fields::default() }.to_bytes().to_vec();
    forged.resize(172, 0);
    assert_eq!(secured[1].receive(at(51), address(0), &mut forged), Heard::Nothing);
    assert_eq!(secured[1].statistics().refused, 1);
}

#[test]
fn a_stranger_who_comes_first_does_not_keep_the_stream() {
    let mut sessions = sessions(Security::Off);
    let mut packet = Vec::new();
    sessions[0].send(&[0; 160], &mut packet);
    let stranger: SocketAddr = ([203, 0, 113, 9], 9).into();
    assert_eq!(sessions[1].receive(at(0), stranger, &mut packet), Heard::First(stranger));
    let to = sessions[1].send(&[0; 160], &mut packet);
    assert_eq!(to, Some(address(0)), "nobody is sent our sound by a forged datagram");
    let (played, _) = talk(&mut sessions, 0);
    assert!(amplitude_of(1000.0, 8000, &played[1600..]) > 7000.0);
    assert_eq!(sessions[1].send(&[0; 160], &mut packet), Some(address(0)));
}

#[test]
fn new_keys_are_used_from_the_next_packet_on_and_old_ones_kept() {
    let mut sessions = sessions(Security::Required);
    talk(&mut sessions, 0);
    let same = sessions[0].stream().clone();
    assert!(sessions[0].renew(same));
    let (played, _) = talk(&mut sessions, 0);
    assert!(amplitude_of(1000.0, 8000, &played[1600..]) > 7000.0, "counters went on");
}

#[test]
fn what_is_lost_is_concealed_and_counted() {
    let mut sessions = sessions(Security::Off);
    let (mut played, mut packet) = (Vec::new(), Vec::new());
    let mut tone = Tone::new(1000.0, 8000, 8000);
    for frame in 0..100 {
        let mut samples = Vec::new();
        tone.fill(160, &mut samples);
        sessions[0].send(&samples, &mut packet);
        if frame % 10 != 9 {
            sessions[1].receive(at(frame), address(0), &mut packet);
        }
        sessions[1].play(at(frame) + Duration::from_millis(15), &mut played);
    }
    let statistics = sessions[1].statistics();
    assert_eq!(statistics.lost(), 9, "{statistics:?}");
    assert!(statistics.missing >= 9 && statistics.mos < 4.0, "{statistics:?}");
    assert_eq!(played.len(), 16_000);
}
