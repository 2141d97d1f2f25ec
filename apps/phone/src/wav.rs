//! WAV files of the usual formats, as mono samples of 16 bits.

use hound::{SampleFormat, WavReader};
use std::io::Read;
use std::path::Path;

/// The accepted sample rates in hertz.
const RATES: std::ops::RangeInclusive<u32> = 4000..=192_000;

/// The sample rate in hertz and the samples of the file at `path`. Channels are mixed down.
///
/// # Errors
/// A description of the fault.
pub(crate) fn read(path: &Path) -> Result<(u32, Vec<i16>), String> {
    let wrong = |text: String| format!("{}: {text}", path.display());
    let mut reader = WavReader::open(path).map_err(|error| wrong(error.to_string()))?;
    let spec = reader.spec();
    let is_known = matches!(spec.channels, 1 | 2)
        && RATES.contains(&spec.sample_rate)
        && matches!(
            (spec.sample_format, spec.bits_per_sample),
            (SampleFormat::Int, 8 | 16 | 24) | (SampleFormat::Float, 32)
        );
    if !is_known {
        return Err(wrong(format!(
            "expected one or two channels of {} to {} samples a second with 8, 16 or 24 bits; it has {} channels, \
             {} samples, {} bits (sox FILE -r 16000 -c 1 -b 16 OUT.wav)",
            RATES.start(),
            RATES.end(),
            spec.channels,
            spec.sample_rate,
            spec.bits_per_sample
        )));
    }
    let samples = samples(&mut reader).map_err(|error| wrong(error.to_string()))?;
    let channels = usize::from(spec.channels);
    let mixed = samples.chunks_exact(channels).map(|together| {
        let sum: i32 = together.iter().map(|&sample| i32::from(sample)).sum();
        (sum / i32::from(spec.channels)) as i16
    });
    Ok((spec.sample_rate, mixed.collect()))
}

/// All samples, converted to 16 bits.
fn samples<R: Read>(reader: &mut WavReader<R>) -> Result<Vec<i16>, hound::Error> {
    let spec = reader.spec();
    if spec.sample_format == SampleFormat::Float {
        let samples = reader.samples::<f32>();
        return samples.map(|sample| sample.map(|sample| (sample * 32_767.0) as i16)).collect();
    }
    let bits = u32::from(spec.bits_per_sample);
    let of_16_bits = |sample: i32| match bits {
        8 => (sample << 8) as i16,
        bits => (sample >> (bits - 16)) as i16,
    };
    reader.samples::<i32>().map(|sample| sample.map(of_16_bits)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hound::{WavSpec, WavWriter};
    use media::tone::{Tone, amplitude_of};

    fn file(rate: u32, channels: u16, bits: u16, format: SampleFormat) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let spec =
            WavSpec { channels, sample_rate: rate, bits_per_sample: bits, sample_format: format };
        let mut writer = WavWriter::create(file.path(), spec).unwrap();
        let mut tone = Vec::new();
        Tone::new(1000.0, rate, 16_000).fill(rate as usize, &mut tone);
        for sample in tone {
            for _ in 0..channels {
                match (format, bits) {
                    (SampleFormat::Float, _) => {
                        writer.write_sample(f32::from(sample) / 32_768.0).unwrap();
                    }
                    (_, 8) => writer.write_sample(i32::from(sample >> 8)).unwrap(),
                    _ => writer.write_sample(i32::from(sample) << (bits - 16)).unwrap(),
                }
            }
        }
        writer.finalize().unwrap();
        file
    }

    #[test]
    fn files_of_every_kind_sound_alike() {
        for rate in [8000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000] {
            for channels in [1, 2] {
                for (bits, format) in [
                    (8, SampleFormat::Int),
                    (16, SampleFormat::Int),
                    (24, SampleFormat::Int),
                    (32, SampleFormat::Float),
                ] {
                    let (own, samples) = read(file(rate, channels, bits, format).path()).unwrap();
                    assert_eq!((own, samples.len()), (rate, rate as usize));
                    let level = amplitude_of(1000.0, rate, &samples);
                    // The lower 8 of the 16 bits are missing.
                    assert!((level - 16_000.0).abs() < 300.0, "{rate} {channels} {bits}: {level}");
                }
            }
        }
    }

    #[test]
    fn unplayable_sources_are_refused_with_the_reason() {
        let error = read(file(8000, 2, 32, SampleFormat::Int).path()).unwrap_err();
        assert!(error.contains("it has 2 channels, 8000 samples, 32 bits"), "{error}");
        let error = read(file(1000, 1, 16, SampleFormat::Int).path()).unwrap_err();
        assert!(error.contains("1000 samples"), "{error}");
    }
}
