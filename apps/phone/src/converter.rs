//! Sample rate conversion between two rates that can change at any time.

use media::Resampler;

/// Converts between sample rates. It starts again if a rate changes, for example with another
/// codec.
#[derive(Clone, Debug, Default)]
pub(crate) struct Converter(Option<((u32, u32), Resampler)>);

impl Converter {
    /// Converts `samples` from rate `from` to rate `to`, both in hertz, and appends the result to
    /// `out`.
    pub(crate) fn convert(&mut self, from: u32, to: u32, samples: &[i16], out: &mut Vec<i16>) {
        let rates = (from, to);
        let known = self.0.take().filter(|(known, _)| *known == rates);
        let (_, resampler) =
            self.0.insert(known.unwrap_or_else(|| (rates, Resampler::new(from, to))));
        resampler.resample(samples, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_may_change() {
        let mut converter = Converter::default();
        for (from, to) in [(8000, 16_000), (8000, 16_000), (16_000, 8000), (8000, 8000)] {
            let mut out = Vec::new();
            converter.convert(from, to, &vec![0; from as usize / 50], &mut out);
            assert_eq!(out.len(), to as usize / 50);
        }
    }
}
