//! Time: the real-time clock is read once, and the processor's time stamp counter continues from
//! there, monotonic and never set. The time of day is an offset from it, which the program keeps.

use super::port;
use core::arch::x86_64::{__cpuid, _rdtsc};
use core::sync::atomic::{AtomicU64, Ordering};
use sip::Instant;

/// Frequency of the PC's timer (8254) in hertz.
const PIT_RATE: u64 = 1_193_182;

/// The processor's time stamp counter.
#[must_use]
pub fn ticks() -> u64 {
    // SAFETY: every processor with long mode has this instruction.
    unsafe { _rdtsc() }
}

/// Nanoseconds per tick, in units of 2^-32; that of 2 GHz until the rate is known.
static TICK: AtomicU64 = AtomicU64::new(1 << 31);

/// Nanoseconds from an arbitrary start, for short times.
#[must_use]
pub fn nanoseconds() -> u64 {
    ((u128::from(ticks()) * u128::from(TICK.load(Ordering::Relaxed))) >> 32) as u64
}

/// A monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Ticks of the counter per second.
    pub rate: u64,
    base: u64,
    epoch: Instant,
}

impl Clock {
    /// A clock with `rate` ticks per second that shows `epoch` now. [`nanoseconds`] uses the same
    /// rate from now on.
    #[must_use]
    pub fn new(rate: u64, epoch: Instant) -> Self {
        TICK.store(
            ((1_000_000_000_u128 << 32) / u128::from(rate.max(1))) as u64,
            Ordering::Relaxed,
        );
        Self { rate, base: ticks(), epoch }
    }

    /// The current time, for timers.
    #[must_use]
    pub fn now(&self) -> Instant {
        let passed = ticks().wrapping_sub(self.base);
        let micros = u128::from(passed) * 1_000_000 / u128::from(self.rate);
        Instant::from_micros(self.epoch.as_micros() + micros as u64)
    }
}

/// Ticks of the counter per second: as the processor or the hypervisor reports, or else as
/// measured.
#[must_use]
pub fn rate() -> u64 {
    told_rate().unwrap_or_else(measured_rate)
}

fn told_rate() -> Option<u64> {
    let leaf = |number| __cpuid(number);
    if leaf(0).eax >= 0x15 {
        let ratio = leaf(0x15);
        let rate = u64::from(ratio.ecx) * u64::from(ratio.ebx) / u64::from(ratio.eax.max(1));
        if rate != 0 {
            return Some(rate);
        }
    }
    let is_guest = leaf(1).ecx & (1 << 31) != 0;
    let has_timing = is_guest && (0x4000_0010..0x4001_0000).contains(&leaf(0x4000_0000).eax);
    let kilohertz = if has_timing { leaf(0x4000_0010).eax } else { 0 };
    (kilohertz != 0).then_some(u64::from(kilohertz) * 1000)
}

/// Measures the counter against the timer. The window with the fastest reads of the timer counts:
/// an emulated machine may stop in between.
fn measured_rate() -> u64 {
    let windows = core::array::from_fn::<_, 8, _>(|_| window());
    let best = windows.iter().min_by_key(|window| window.doubt);
    best.map_or(1_000_000_000, |window| window.ticks * PIT_RATE / window.oscillations.max(1))
}

struct Window {
    ticks: u64,
    oscillations: u64,
    /// Ticks spent on reading the timer.
    doubt: u64,
}

fn window() -> Window {
    const GATE: u16 = 0x61;
    // Channel 2 counts down from its highest value, with the speaker off.
    port::write_u8(GATE, (port::read_u8(GATE) & !0x02) | 0x01);
    port::write_u8(0x43, 0xb0);
    port::write_u8(0x42, 0xff);
    port::write_u8(0x42, 0xff);
    let (start, first, doubt) = read_timer();
    while ticks().wrapping_sub(start) < 1 << 22 {
        core::hint::spin_loop();
    }
    let (end, last, more) = read_timer();
    let oscillations = first.wrapping_sub(last);
    Window { ticks: end - start, oscillations: oscillations.into(), doubt: doubt + more }
}

/// The counter, the timer, and the ticks spent on the reading.
fn read_timer() -> (u64, u16, u64) {
    let before = ticks();
    port::write_u8(0x43, 0x80);
    let value = u16::from_le_bytes([port::read_u8(0x42), port::read_u8(0x42)]);
    let after = ticks();
    (before + (after - before) / 2, value, after - before)
}

/// The time of day of the real-time clock, taken as UTC.
#[must_use]
pub fn time_of_day() -> Instant {
    let mut fields = real_time();
    // The reading may coincide with an update: it is repeated until two are equal.
    loop {
        let again = real_time();
        if again == fields {
            break;
        }
        fields = again;
    }
    Instant::from_micros(seconds_since_epoch(&fields) * 1_000_000)
}

/// Second, minute, hour, day, month, year and status register of the clock.
type Fields = [u8; 7];

fn real_time() -> Fields {
    let register = |number: u8| {
        port::write_u8(0x70, number);
        port::read_u8(0x71)
    };
    [0, 2, 4, 7, 8, 9, 11].map(register)
}

fn seconds_since_epoch(fields: &Fields) -> u64 {
    let [second, minute, hour, day, month, year, status] = *fields;
    let is_binary = status & 4 != 0;
    let number =
        |value: u8| u64::from(if is_binary { value } else { (value >> 4) * 10 + (value & 15) });
    let mut hours = number(hour & 0x7f);
    if status & 2 == 0 {
        hours = hours % 12 + if hour & 0x80 != 0 { 12 } else { 0 };
    }
    // Years are counted from March, so that the leap day is the last one.
    let (month, year) = (number(month).max(1), 2000 + number(year));
    let (month, year) = if month > 2 { (month - 3, year) } else { (month + 9, year - 1) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5;
    let days = days + number(day).max(1) - 1 - 719_468;
    ((days * 24 + hours) * 60 + number(minute)) * 60 + number(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_the_machine_is_read_in_all_its_ways() {
        let time = 1_795_699_987;
        assert_eq!(seconds_since_epoch(&[7, 33, 13, 26, 11, 26, 0x06]), time);
        assert_eq!(seconds_since_epoch(&[0x07, 0x33, 0x13, 0x26, 0x11, 0x26, 0x02]), time);
        assert_eq!(seconds_since_epoch(&[0x07, 0x33, 0x81, 0x26, 0x11, 0x26, 0x00]), time);
        assert_eq!(seconds_since_epoch(&[0, 0, 0, 29, 2, 28, 0x06]), 1_835_395_200);
        assert_eq!(seconds_since_epoch(&[0, 0, 0x12, 1, 1, 0, 0]), 946_684_800);
    }
}
