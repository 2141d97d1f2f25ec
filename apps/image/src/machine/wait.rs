//! Waiting for devices before there is a clock.

use super::clock::ticks;

/// Upper limit of the counter's ticks per microsecond.
const MOST_TICKS: u64 = 5000;

/// Waits at least this number of microseconds; several times as long with a slower counter.
pub fn pause(micros: u64) {
    let start = ticks();
    while ticks().wrapping_sub(start) < micros * MOST_TICKS {
        core::hint::spin_loop();
    }
}

/// Waits until `is_done` returns true. Returns false after `millis` milliseconds, or several times
/// as many.
pub fn comes_true(millis: u64, mut is_done: impl FnMut() -> bool) -> bool {
    let start = ticks();
    loop {
        if is_done() {
            return true;
        }
        if ticks().wrapping_sub(start) >= millis * 1000 * MOST_TICKS {
            return false;
        }
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_condition_or_its_timeout() {
        let mut looks = 0;
        let comes = comes_true(10_000, || {
            looks += 1;
            looks == 3
        });
        assert!(comes && looks == 3);
        assert!(!comes_true(1, || false));
        assert!(comes_true(0, || true));
    }
}
