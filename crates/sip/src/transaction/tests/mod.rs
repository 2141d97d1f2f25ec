use alloc::vec::Vec;

use super::*;

mod any_order;
mod client;
mod server;

const TIMERS: Timers = Timers {
    t1: Duration::from_millis(500),
    t2: Duration::from_secs(4),
    t4: Duration::from_secs(5),
};
const START: Instant = Instant::from_micros(1_000_000_000);

fn at(millis: u64) -> Instant {
    START + Duration::from_millis(millis)
}

/// The fired timers with their times in milliseconds from [`START`], until no timer is left.
fn schedule(
    mut next_timer: impl FnMut() -> Option<Instant>,
    mut poll: impl FnMut(Instant) -> TimerAction,
) -> Vec<(u64, TimerAction)> {
    let mut fired = Vec::new();
    while let Some(now) = next_timer() {
        assert_eq!(poll(now - Duration::from_micros(1)), TimerAction::None);
        fired.push((now.since(START).as_millis(), poll(now)));
        assert_eq!(poll(now), TimerAction::None);
    }
    fired
}

fn retransmissions(millis: &[u64], end: (u64, TimerAction)) -> Vec<(u64, TimerAction)> {
    millis.iter().map(|&millis| (millis, TimerAction::Retransmit)).chain([end]).collect()
}

#[test]
fn default_timers_match_the_rfc() {
    assert_eq!(Timers::default(), TIMERS);
}

#[test]
fn durations_match_table_4_and_rfc_6026() {
    let slow = Timers { t1: Duration::from_secs(2), ..TIMERS };
    for (timer, unreliable, reliable, slow_unreliable) in [
        (Timer::A, Some(500), None, Some(2_000)),
        (Timer::B, Some(32_000), Some(32_000), Some(128_000)),
        (Timer::D, Some(32_000), Some(0), Some(128_000)),
        (Timer::E, Some(500), None, Some(2_000)),
        (Timer::F, Some(32_000), Some(32_000), Some(128_000)),
        (Timer::G, Some(500), None, Some(2_000)),
        (Timer::H, Some(32_000), Some(32_000), Some(128_000)),
        (Timer::I, Some(5_000), Some(0), Some(5_000)),
        (Timer::J, Some(32_000), Some(0), Some(128_000)),
        (Timer::K, Some(5_000), Some(0), Some(5_000)),
        (Timer::L, Some(32_000), Some(32_000), Some(128_000)),
        (Timer::M, Some(32_000), Some(32_000), Some(128_000)),
    ] {
        let millis = |timers, reliable| timer.span(timers, reliable).map(Duration::as_millis);
        assert_eq!(millis(&TIMERS, false), unreliable, "{timer:?}");
        assert_eq!(millis(&TIMERS, true), reliable, "{timer:?}");
        assert_eq!(millis(&slow, false), slow_unreliable, "{timer:?}");
    }
    let quick = Timers { t1: Duration::from_millis(10), ..TIMERS };
    assert_eq!(Timer::D.span(&quick, false), Some(Duration::from_secs(32)));
}

#[test]
fn a_transaction_is_small() {
    assert!(size_of::<ClientTransaction>() <= 32);
    assert!(size_of::<ServerTransaction>() <= 32);
}
