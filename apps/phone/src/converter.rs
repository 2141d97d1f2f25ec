//! Sound of one sample rate for somebody who wants another, whatever both are just now.

use media::Resampler;

/// Makes sound of one rate of sound of another. Begins anew where a rate changes, as with another
/// codec.
#[derive(Clone, Debug, Default)]
pub(crate) struct Converter(Option<((u32, u32), Resampler)>);

impl Converter {
    /// Appends to `out` what `samples`, of `from` in a second, become with `to` in a second.
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
