//! The duration of the steps of SRTP processing. Without measuring there is no overhead: the steps
//! are compiled without clock reads.

/// A step of protecting or unprotecting an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Derivation of session keys.
    Derivation,
    /// Encryption of a payload; with AES-GCM including its tag.
    Encryption,
    /// Decryption of a payload; with AES-GCM including the check of its tag.
    Decryption,
    /// Computation of the HMAC, and its comparison in a receiver.
    Authentication,
    /// Check and update of the replay window.
    Replay,
    /// Parsing or writing of headers.
    Header,
}

impl Step {
    /// All steps.
    pub const ALL: [Self; 6] = [
        Self::Derivation,
        Self::Encryption,
        Self::Decryption,
        Self::Authentication,
        Self::Replay,
        Self::Header,
    ];

    /// The name of the step in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Derivation => "derivation",
            Self::Encryption => "encryption",
            Self::Decryption => "decryption",
            Self::Authentication => "authentication",
            Self::Replay => "replay",
            Self::Header => "header",
        }
    }
}

/// The measurements of one [`Step`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// The number of executions.
    pub count: u64,
    /// The total duration in nanoseconds.
    pub nanoseconds: u64,
}

/// The measurements of all steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings([Timing; Step::ALL.len()]);

impl Timings {
    /// The measurements of a step.
    #[must_use]
    pub const fn get(&self, step: Step) -> Timing {
        self.0[step as usize]
    }
}

/// Measures steps with a clock.
#[derive(Debug)]
pub struct StepTimer<'t> {
    clock: fn() -> u64,
    timings: &'t mut Timings,
}

impl<'t> StepTimer<'t> {
    /// Adds the durations to `timings`. `clock` returns nanoseconds since an arbitrary epoch.
    pub const fn new(clock: fn() -> u64, timings: &'t mut Timings) -> Self {
        Self { clock, timings }
    }

    /// Calls `act` and measures it as one execution of a step.
    pub fn measure<T>(&mut self, step: Step, act: impl FnOnce() -> T) -> T {
        self.timings.0[step as usize].count += 1;
        self.time_more(step, act)
    }
}

/// The observer of steps.
pub(crate) trait Probe {
    /// Calls `act`, which is one execution of a step.
    fn time<T>(&mut self, step: Step, act: impl FnOnce() -> T) -> T;

    /// Calls `act`, which continues a step counted before.
    fn time_more<T>(&mut self, step: Step, act: impl FnOnce() -> T) -> T;
}

impl Probe for StepTimer<'_> {
    fn time<T>(&mut self, step: Step, act: impl FnOnce() -> T) -> T {
        self.measure(step, act)
    }

    fn time_more<T>(&mut self, step: Step, act: impl FnOnce() -> T) -> T {
        let start = (self.clock)();
        let result = act();
        let spent = (self.clock)().saturating_sub(start);
        let sum = &mut self.timings.0[step as usize].nanoseconds;
        *sum = sum.saturating_add(spent);
        result
    }
}

/// The observer that measures nothing.
impl Probe for () {
    #[inline(always)]
    fn time<T>(&mut self, _: Step, act: impl FnOnce() -> T) -> T {
        act()
    }

    #[inline(always)]
    fn time_more<T>(&mut self, _: Step, act: impl FnOnce() -> T) -> T {
        act()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Receiver, Sender, Suite, UnprotectError};
    use std::cell::Cell;
    use std::vec;

    std::thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

    /// Each read of the clock advances it by 10 ns.
    fn clock() -> u64 {
        NOW.set(NOW.get() + 10);
        NOW.get()
    }

    fn counts(timings: &Timings) -> [u64; 6] {
        Step::ALL.map(|step| timings.get(step).count)
    }

    #[test]
    fn each_packet_takes_each_step_once_with_the_same_result() {
        for suite in Suite::ALL {
            for rate in [None, Some(0)] {
                let mut policy = Policy::new(suite);
                policy.key_derivation_rate = rate;
                let key = crate::tests::key(suite);
                let sender = || Sender::new(&policy, vec![key.clone()]).unwrap();
                let receiver = || Receiver::new(&policy, vec![key.clone()]).unwrap();
                let (mut plain, mut watched) = (sender(), sender());
                let (mut sent, mut received) = (Timings::default(), Timings::default());
                let mut taker = receiver();
                for number in 0..10_u8 {
                    let mut packet = [0; 220];
                    (packet[0], packet[3]) = (0x80, number);
                    let mut expected = packet;
                    let length = plain.protect(&mut expected, 172).unwrap();
                    let mut watch = StepTimer::new(clock, &mut sent);
                    assert_eq!(watched.protect_timed(&mut packet, 172, &mut watch), Ok(length));
                    assert_eq!(packet, expected);
                    let mut again = packet;
                    let mut watch = StepTimer::new(clock, &mut received);
                    let taken = taker.unprotect_timed(&mut packet[..length], &mut watch).unwrap();
                    assert_eq!(taken.len(), 172);
                    let result = taker.unprotect_timed(&mut again[..length], &mut watch);
                    assert_eq!(result.unwrap_err(), UnprotectError::Replayed);
                }
                let codes = if suite.is_aead() { 0 } else { 10 };
                let derived = if rate.is_some() { 10 } else { 0 };
                assert_eq!(counts(&sent), [derived, 10, 0, codes, 10, 10], "{suite}");
                // A replayed packet was parsed and looked up, and nothing else.
                assert_eq!(counts(&received), [derived, 0, 10, codes, 20, 20], "{suite}");
                assert_eq!(sent.get(Step::Encryption).nanoseconds, 100);
                // Looked up, then recorded.
                assert_eq!(sent.get(Step::Replay).nanoseconds, 200);
            }
        }
    }
}
