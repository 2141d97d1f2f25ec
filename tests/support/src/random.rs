//! Reproducible pseudorandom numbers.

use std::time::Duration;

/// A pseudorandom number generator (SplitMix64). Not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the generator with a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound` - 1, or 0 if `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.number() % bound }
    }

    /// True with a probability of `per_mille` / 1000.
    pub const fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A duration of at least `from` and less than `to`.
    pub fn duration(&mut self, from: Duration, to: Duration) -> Duration {
        let width = to.saturating_sub(from).as_micros() as u64;
        from + Duration::from_micros(self.below(width))
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// `choices` is empty.
    pub fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            [random.number(), random.number(), random.below(7)]
        };
        assert_eq!(numbers(1), numbers(1));
        assert_ne!(numbers(1), numbers(2));
    }

    #[test]
    fn probabilities_are_approximately_correct() {
        let mut random = Random::new(5);
        let hits = (0..10_000).filter(|_| random.chance(200)).count();
        assert!((1800..2200).contains(&hits), "{hits}");
        assert_eq!((0..1000).filter(|_| random.chance(0)).count(), 0);
    }
}
