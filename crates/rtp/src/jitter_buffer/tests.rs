//! The jitter buffer over simulated networks.

use super::*;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;
use test_support::Random;

const FRAME: Duration = Duration::from_millis(20);

/// A packet in transit: its number and its arrival time.
type Way = (u32, Duration);

/// A stream of 20 ms packets. `delay` returns the delay of each packet in milliseconds, or `None`
/// for a lost one.
fn network(count: u32, mut delay: impl FnMut(u32) -> Option<f64>) -> Vec<Way> {
    let ways = (0..count).filter_map(|number| {
        let delay = delay(number)?;
        Some((
            number,
            Duration::from_secs(10) + FRAME * number + Duration::from_secs_f64(delay / 1e3),
        ))
    });
    let mut ways: Vec<_> = ways.collect();
    ways.sort_by_key(|way| way.1);
    ways
}

/// Plays a stream through a buffer. Returns the counters and the mean time from sending to playout,
/// less the transit time of the fastest packet, in milliseconds.
fn simulate(ways: &[Way]) -> (Counts, f64) {
    let mut buffer = JitterBuffer::new(Config::new(8000));
    let mut ways = ways.iter().peekable();
    let mut now = Duration::from_secs(10) + Duration::from_millis(7);
    let mut delays = Vec::new();
    let mut last = None;
    loop {
        while let Some(&&(number, arrival)) = ways.peek()
            && arrival <= now
        {
            buffer.insert(number.wrapping_mul(160).wrapping_sub(5000), arrival, number);
            ways.next();
        }
        if let Playout::Frame(number) = buffer.play(now) {
            assert!(last.is_none_or(|last| number > last), "{number} after {last:?}");
            last = Some(number);
            delays.push((now - Duration::from_secs(10) - FRAME * number).as_secs_f64() * 1e3);
        }
        now += FRAME;
        if ways.peek().is_none() && buffer.is_empty() {
            let mean = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
            return (buffer.counts(), mean);
        }
    }
}

#[test]
fn a_stream_without_jitter_has_little_delay() {
    let (counts, delay) = simulate(&network(1000, |_| Some(5.0)));
    assert_eq!((counts.played, counts.late, counts.missing), (1000, 0, 0));
    assert!(delay < 50.0, "{delay}");
}

#[test]
fn lost_packets_are_missing_once() {
    let (counts, _) = simulate(&network(1000, |number| (number % 10 != 3).then_some(5.0)));
    assert_eq!((counts.played, counts.late), (900, 0));
    assert!((98..=100).contains(&counts.missing), "{counts:?}");
}

#[test]
fn the_delay_follows_the_jitter() {
    let mut random = Random::new(1);
    let (calm, little) = simulate(&network(5000, |_| Some(random.below(5) as f64)));
    let (rough, more) = simulate(&network(5000, |_| Some(random.below(100) as f64)));
    assert!(calm.late * 100 < 5000, "{calm:?}");
    assert!(rough.late * 100 < 3 * 5000, "{rough:?}");
    assert!(little < 40.0 && (80.0..160.0).contains(&more), "{little} {more}");
    // First rough, then calm: the delay decreases again.
    let (_, both) = simulate(&network(10_000, |number| {
        Some(random.below(if number < 2000 { 100 } else { 5 }) as f64)
    }));
    assert!(both < more - 30.0, "{both}, {more}");
}

#[test]
fn clock_drift_is_followed() {
    // A sender clock that is 200 ppm slow or fast, for ten minutes: 120 ms.
    for drift in [0.004, -0.004] {
        let (counts, _) =
            simulate(&network(30_000, |number| Some(200.0 + drift * f64::from(number))));
        assert!(counts.late < 30, "{drift}: {counts:?}");
        assert!(counts.played > 29_950, "{drift}: {counts:?}");
    }
}

#[test]
fn silence_between_talkspurts_keeps_the_order() {
    let line = network(3000, |number| (number % 500 < 200).then_some(f64::from(number % 7)));
    let (counts, _) = simulate(&line);
    assert!(counts.played >= 1195 && counts.late <= 5, "{counts:?}");
}

#[test]
fn a_restarted_stream_is_played() {
    let mut buffer = JitterBuffer::new(Config::new(8000));
    let mut now = Duration::from_secs(5);
    let mut played = 0;
    for number in 0..200 {
        let timestamp = if number < 100 { number * 160 } else { 3_000_000_000 + number * 160 };
        assert_ne!(buffer.insert(timestamp, now, number), InsertResult::Late);
        played += u32::from(matches!(buffer.play(now), Playout::Frame(_)));
        now += FRAME;
    }
    assert!(played > 180, "{played}");
}

#[test]
fn duplicates_are_counted() {
    let mut buffer = JitterBuffer::new(Config::new(8000));
    assert_eq!(buffer.insert(0, FRAME, 'a'), InsertResult::Buffered);
    assert_eq!(buffer.insert(0, FRAME, 'b'), InsertResult::Duplicate);
    assert_eq!(buffer.play(FRAME * 10), Playout::Frame('a'));
    assert_eq!(buffer.insert(0, FRAME * 10, 'c'), InsertResult::Late);
    assert_eq!(buffer.counts(), Counts { played: 1, late: 1, duplicate: 1, ..Counts::default() });
}

#[test]
fn timestamps_off_the_grid_are_played() {
    // One step of 159 instead of 160, while the playout clock leaves little time.
    let mut buffer = JitterBuffer::new(Config::new(8000));
    let mut timestamp = 0;
    let mut played = 0;
    for number in 0..500_u32 {
        let arrival = FRAME * number;
        assert_eq!(buffer.insert(timestamp, arrival, number), InsertResult::Buffered, "{number}");
        timestamp += if number == 1 { 159 } else { 160 };
        let out = buffer.play(arrival + Duration::from_millis(12));
        played += u32::from(matches!(out, Playout::Frame(_)));
    }
    assert!(played > 495, "{played}");
}

#[test]
fn a_stray_packet_does_not_reset_the_stream() {
    let mut buffer = JitterBuffer::new(Config::new(8000));
    let mut played = 0;
    for number in 0..500_u32 {
        let arrival = FRAME * number;
        buffer.insert(100_000 + number * 160, arrival, number);
        if number % 20 == 7 {
            assert_eq!(
                buffer.insert(50_000 + number, arrival, number),
                InsertResult::Discontinuity
            );
        }
        played += u32::from(matches!(
            buffer.play(arrival + Duration::from_millis(12)),
            Playout::Frame(_)
        ));
    }
    assert!(played > 495, "{played}");
}

#[test]
fn limits_without_room_are_accepted() {
    for (minimum, maximum) in [(10, 5), (33, 33), (0, 0), (500, 1)] {
        let span = |millis: u64| Duration::from_micros(millis * 1000 + 333);
        let config =
            Config { minimum: span(minimum), maximum: span(maximum), ..Config::new(11_025) };
        let mut buffer = JitterBuffer::new(config);
        for number in 0..100_u32 {
            buffer.insert(number * 221, FRAME * number, ());
            assert_ne!(buffer.insert(number * 221, FRAME * number, ()), InsertResult::Buffered);
            buffer.play(FRAME * number);
        }
    }
}

proptest! {
    #[test]
    fn any_input_keeps_order_and_bounded_memory(
        packets in proptest::collection::vec((any::<u32>(), 0u64..100, any::<bool>()), 0..500),
    ) {
        let mut buffer = JitterBuffer::new(Config::new(8000));
        let mut now = Duration::ZERO;
        let mut timestamp = 0u32;
        for (step, millis, near) in packets {
            timestamp = timestamp.wrapping_add(if near { step % 1000 } else { step });
            buffer.insert(timestamp, now, ());
            now += Duration::from_millis(millis);
            buffer.play(now);
            prop_assert!(buffer.len() <= 28);
        }
    }

    #[test]
    fn packets_of_any_duration_keep_order_and_bounded_memory(
        packets in proptest::collection::vec((any::<u32>(), 0u32..5000, 0u64..100), 0..500),
    ) {
        let mut buffer = JitterBuffer::new(Config::new(8000));
        let (mut now, mut timestamp, mut last) = (Duration::ZERO, 0_u32, None);
        for (number, (units, step, millis)) in packets.into_iter().enumerate() {
            timestamp = timestamp.wrapping_add(step);
            buffer.insert_lasting(if units % 4 == 0 { units } else { units % 1000 }, timestamp, now, number);
            now += Duration::from_millis(millis);
            if let Playout::Frame(number) = buffer.play(now) {
                prop_assert!(last.is_none_or(|last| number > last));
                last = Some(number);
            }
            prop_assert!(buffer.len() <= MAX_PACKETS);
        }
    }

    #[test]
    fn packets_of_mixed_durations_are_played_whole_and_without_a_gap(
        durations in proptest::collection::vec(prop::sample::select(vec![10_u32, 20, 30, 40, 60]), 200),
        jitter in 0_u64..8,
    ) {
        let (outputs, counts) = play_mixed(&durations, jitter);
        prop_assert_eq!((counts.played, counts.late), (200, 0), "{:?}", counts);
        // The delay is found within the first packets of each duration.
        let gaps = outputs.iter().skip(50).filter(|played| !**played).count();
        prop_assert_eq!(gaps, 0, "{:?}", counts);
    }

    #[test]
    fn a_change_of_the_packet_duration_costs_at_most_one_short_gap(
        before in prop::sample::select(vec![10_u32, 20, 30, 40, 60]),
        after in prop::sample::select(vec![10_u32, 20, 30, 40, 60]),
    ) {
        let durations = [[before; 100], [after; 100]].concat();
        let (outputs, counts) = play_mixed(&durations, 0);
        prop_assert_eq!(counts.late, 0);
        let gaps = outputs.iter().filter(|played| !**played).count() as u32;
        // A packet is sent when it is full: the first longer one comes later by the difference.
        prop_assert!(gaps <= after.saturating_sub(before).div_ceil(10), "{:?}", counts);
        // The delay that shorter packets do not need is given up.
        prop_assert!(counts.discarded <= u64::from(before.saturating_sub(after) / 10), "{:?}", counts);
        prop_assert_eq!(counts.played + counts.discarded, 200);
    }
}

/// Plays packets of these durations in milliseconds, each sent when it is full and delayed by less
/// than `jitter` milliseconds. Returns true for each played packet and false for each concealed
/// frame, and the counters.
fn play_mixed(durations: &[u32], jitter: u64) -> (Vec<bool>, Counts) {
    let mut random = Random::new(3);
    let mut buffer = JitterBuffer::new(Config::new(8000));
    let mut end = Duration::from_secs(10);
    let mut timestamp = u32::MAX - 3000;
    let packets: Vec<_> = durations
        .iter()
        .map(|&millis| {
            end += Duration::from_millis(millis.into());
            let sent = timestamp;
            timestamp = timestamp.wrapping_add(millis * 8);
            (end + Duration::from_millis(random.below(jitter.max(1))), sent, millis)
        })
        .collect();
    let (mut now, mut outputs) = (Duration::from_millis(10_007), Vec::new());
    let mut waiting = packets.iter().peekable();
    while waiting.peek().is_some() || !buffer.is_empty() {
        while let Some(&(arrival, sent, millis)) = waiting.next_if(|packet| packet.0 <= now) {
            buffer.insert_lasting(millis * 8, sent, arrival, millis);
        }
        let millis = match buffer.play(now) {
            Playout::Empty => 10,
            Playout::Frame(millis) => {
                outputs.push(true);
                millis
            }
            Playout::Missing { units } | Playout::Held { units } => {
                outputs.push(false);
                units / 8
            }
        };
        now += Duration::from_millis(millis.into());
    }
    (outputs, buffer.counts())
}

#[test]
fn the_packet_after_a_missing_one_can_be_inspected() {
    let mut buffer = JitterBuffer::new(Config { minimum: 3 * FRAME, ..Config::new(8000) });
    let at = |number: u32| Duration::from_secs(10) + FRAME * number;
    let mut missing = None;
    for number in 0..60 {
        if number != 30 {
            buffer.insert(number * 160, at(number), number);
        }
        if buffer.play(at(number) + FRAME / 2) == (Playout::Missing { units: 160 }) {
            missing = missing.or(Some(buffer.upcoming().copied()));
        }
    }
    assert_eq!(missing, Some(Some(31)));
}
