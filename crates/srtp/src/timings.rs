//! How long the steps of protecting a packet take (row A12 of docs/sources.md). Who does not
//! measure pays nothing: the steps are then compiled without a look at any clock.

/// A step of protecting an RTP packet or of taking one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Session keys are derived.
    Derivation,
    /// A payload is encrypted; with AES-GCM its tag is made with it.
    Encryption,
    /// A payload is decrypted; with AES-GCM its tag is checked with it.
    Decryption,
    /// The code of HMAC is made, or made and compared.
    Authentication,
    /// The packet's index is looked up in the list of those before it, and noted there.
    Replay,
    /// Headers are read or written.
    Header,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 6] = [
        Self::Derivation,
        Self::Encryption,
        Self::Decryption,
        Self::Authentication,
        Self::Replay,
        Self::Header,
    ];

    /// The name that people see.
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

/// What was measured of one [`Step`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// How often it was taken.
    pub count: u64,
    /// How long it took in all, in nanoseconds.
    pub nanoseconds: u64,
}

/// What was measured of all steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings([Timing; Step::ALL.len()]);

impl Timings {
    /// What was measured of a step.
    #[must_use]
    pub const fn get(&self, step: Step) -> Timing {
        self.0[step as usize]
    }
}

/// Measures steps by a clock.
#[derive(Debug)]
pub struct Stopwatch<'t> {
    clock: fn() -> u64,
    timings: &'t mut Timings,
}

impl<'t> Stopwatch<'t> {
    /// Adds to `timings` what `clock` says, in nanoseconds since whenever.
    pub const fn new(clock: fn() -> u64, timings: &'t mut Timings) -> Self {
        Self { clock, timings }
    }

    /// Does `act`, which is a step.
    pub fn measure<T>(&mut self, step: Step, act: impl FnOnce() -> T) -> T {
        self.timings.0[step as usize].count += 1;
        self.time_more(step, act)
    }
}

/// What looks at steps, or does not.
pub(crate) trait Probe {
    /// Does `act`, which is a step.
    fn time<T>(&mut self, step: Step, act: impl FnOnce() -> T) -> T;

    /// Does `act`, which belongs to a step that was taken before.
    fn time_more<T>(&mut self, step: Step, act: impl FnOnce() -> T) -> T;
}

impl Probe for Stopwatch<'_> {
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

/// Nobody looks.
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

    /// Each look at the clock finds it 10 ns later.
    fn clock() -> u64 {
        NOW.set(NOW.get() + 10);
        NOW.get()
    }

    fn counts(timings: &Timings) -> [u64; 6] {
        Step::ALL.map(|step| timings.get(step).count)
    }

    #[test]
    fn each_packet_takes_each_step_once_and_the_same_comes_of_it() {
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
                    let mut watch = Stopwatch::new(clock, &mut sent);
                    assert_eq!(watched.protect_timed(&mut packet, 172, &mut watch), Ok(length));
                    assert_eq!(packet, expected);
                    let mut again = packet;
                    let mut watch = Stopwatch::new(clock, &mut received);
                    let taken = taker.unprotect_timed(&mut packet[..length], &mut watch).unwrap();
                    assert_eq!(taken.len(), 172);
                    let result = taker.unprotect_timed(&mut again[..length], &mut watch);
                    assert_eq!(result.unwrap_err(), UnprotectError::Replayed);
                }
                let codes = if suite.is_aead() { 0 } else { 10 };
                let derived = if rate.is_some() { 10 } else { 0 };
                assert_eq!(counts(&sent), [derived, 10, 0, codes, 10, 10], "{suite}");
                // What came again was read and looked up, and no more.
                assert_eq!(counts(&received), [derived, 0, 10, codes, 20, 20], "{suite}");
                assert_eq!(sent.get(Step::Encryption).nanoseconds, 100);
                // Looked up, then noted.
                assert_eq!(sent.get(Step::Replay).nanoseconds, 200);
            }
        }
    }
}
