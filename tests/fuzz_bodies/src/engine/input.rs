//! Fuzz bytes as a source of decisions.

/// The remaining input. At its end every decision is zero.
pub(super) struct Input<'b>(pub(super) &'b [u8]);

impl<'b> Input<'b> {
    pub(super) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&byte, rest)) => {
                self.0 = rest;
                byte
            }
            None => 0,
        }
    }

    /// True with a probability of `of_256` / 256.
    pub(super) fn chance(&mut self, of_256: u8) -> bool {
        let byte = self.byte();
        byte != 0 && byte <= of_256
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound.max(1)
    }

    pub(super) fn number(&mut self) -> usize {
        usize::from(self.byte()) << 8 | usize::from(self.byte())
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub(super) fn bytes(&mut self, length: usize) -> &'b [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}
