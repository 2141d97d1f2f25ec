use super::*;
use core::f64::consts::TAU;

/// A sine with an amplitude of 10,000.
pub(crate) fn tone(frequency: f64, sample_rate: u32, seconds: f64) -> Vec<i16> {
    let step = TAU * frequency / f64::from(sample_rate);
    let count = (seconds * f64::from(sample_rate)) as u32;
    (0..count).map(|place| (1e4 * libm::sin(step * f64::from(place))).round() as i16).collect()
}

/// A signal like a voice: the pitch glides between 100 and 200 Hz, with three syllables per second.
pub(crate) fn voice(sample_rate: u32, seconds: f64) -> Vec<i16> {
    let count = (seconds * f64::from(sample_rate)) as u32;
    let mut phase = 0.0;
    let sample = |place| {
        let time = f64::from(place) / f64::from(sample_rate);
        phase += TAU * (150.0 + 50.0 * libm::sin(TAU * 0.9 * time)) / f64::from(sample_rate);
        let harmonic = |number: i32| {
            libm::sin(f64::from(number) * phase + f64::from(number * number)) / f64::from(number)
        };
        let loudness = 0.2 + libm::fabs(libm::sin(TAU * 1.5 * time));
        (4000.0 * loudness * (1..=12).map(harmonic).sum::<f64>()) as i16
    };
    (0..count).map(sample).collect()
}

pub(crate) fn amplitude_of(frequency: f64, sample_rate: u32, samples: &[i16]) -> f64 {
    let step = TAU * frequency / f64::from(sample_rate);
    let (mut real, mut imaginary) = (0.0, 0.0);
    for (place, &sample) in samples.iter().enumerate() {
        let angle = step * place as f64;
        real += f64::from(sample) * libm::cos(angle);
        imaginary += f64::from(sample) * libm::sin(angle);
    }
    2.0 * libm::hypot(real, imaginary) / samples.len() as f64
}

pub(crate) fn decibels(ratio: f64) -> f64 {
    20.0 * libm::log10(ratio.max(1e-9))
}

/// Pseudorandom bytes, reproducible by `seed`.
pub(crate) fn noise(seed: u32) -> impl FnMut() -> u8 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }
}

/// Encodes and decodes `samples` in packets of 20 ms.
fn round_trip(codec: Codec, samples: &[i16]) -> Vec<i16> {
    let (mut encoder, mut decoder) = (Encoder::new(codec), Decoder::new(codec));
    let mut back = Vec::new();
    for frame in samples.chunks(codec.frame_samples()) {
        let mut payload = Vec::new();
        encoder.encode(frame, &mut payload);
        decoder.decode(&payload, &mut back);
    }
    back
}

#[test]
fn a_tone_keeps_its_frequency_and_level() {
    for &codec in Codec::ALL {
        let rate = codec.sample_rate();
        // A codec that does not preserve the waveform is less exact, and removes frequencies above
        // speech.
        let (shares, tolerance) = match codec.name() {
            "opus" => ([0.025, 0.05, 0.1, 0.25], 1.5),
            _ => ([0.1, 0.25, 0.6, 0.8], 1.0),
        };
        for share in shares {
            let frequency = f64::from(rate) / 2.0 * share;
            let back = round_trip(codec, &tone(frequency, rate, 1.0));
            assert_eq!(back.len(), rate as usize);
            let steady = &back[rate as usize / 2..];
            let level = decibels(amplitude_of(frequency, rate, steady) / 10_000.0);
            assert!(level.abs() < tolerance, "{codec:?} at {frequency}: {level} dB");
        }
    }
}

#[test]
fn g711_returns_samples_within_a_quantizer_step() {
    for codec in [Codec::Pcmu, Codec::Pcma] {
        let samples: Vec<i16> = (i16::MIN..=i16::MAX).step_by(7).collect();
        const DELAY: usize = 30;
        let back = round_trip(codec, &samples);
        assert_eq!(back.len(), samples.len());
        for (&sample, &decoded) in samples.iter().zip(&back[DELAY..]) {
            let error = (i32::from(sample) - i32::from(decoded)).abs();
            let step = 16 + i32::from(sample).abs() / 16;
            assert!(error <= step, "{codec:?} {sample} {decoded}");
        }
    }
}

#[test]
fn the_bands_of_g722_are_recombined() {
    let tones = [(500.0, 4), (1800.0, 4), (4200.0, 16), (6100.0, 16)];
    let tones = tones.map(|(frequency, part)| (tone(frequency, 16_000, 1.0), part));
    let samples: Vec<i16> = (0..16_000)
        .map(|place| tones.iter().map(|(tone, part)| tone[place] / part).sum())
        .collect();
    let back = round_trip(Codec::G722, &samples);
    const DELAY: usize = 22 + 60;
    let (mut signal, mut noise) = (0.0, 0.0);
    for (&sample, &decoded) in samples[4000..].iter().zip(&back[4000 + DELAY..]) {
        signal += f64::from(sample).powi(2);
        noise += f64::from(i32::from(sample) - i32::from(decoded)).powi(2);
    }
    let ratio = 10.0 * libm::log10(signal / noise);
    assert!(ratio > 20.0, "{ratio} dB");
}

#[test]
fn comfort_noise_lasts_until_the_next_audio() {
    for &codec in Codec::ALL {
        let mut decoder = Decoder::new(codec);
        let (mut payload, mut out) = (Vec::new(), Vec::new());
        let mut encoder = Encoder::new(codec);
        encoder.encode(&tone(500.0, codec.sample_rate(), 0.02), &mut payload);
        decoder.decode(&payload, &mut out);
        assert!(!decoder.is_silent());
        decoder.decode_comfort_noise(&[40], &mut out);
        for _ in 0..100 {
            assert!(decoder.is_silent());
            out.clear();
            decoder.conceal(&mut out);
        }
        let highest = out.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
        assert_eq!(out.len(), codec.frame_samples());
        assert!((400..700).contains(&highest), "{codec:?} {highest}");
        decoder.decode(&payload, &mut out);
        assert!(!decoder.is_silent());
    }
}

#[test]
fn names_select_codecs() {
    for &codec in Codec::ALL {
        let named = Codec::from_encoding_name(&codec.name().to_lowercase(), codec.clock_rate());
        assert_eq!(named, Some(codec));
    }
    assert_eq!(Codec::from_encoding_name("PCMU", 16_000), None);
    assert_eq!(Codec::from_encoding_name("G722", 16_000), None);
}

#[test]
fn payloads_yield_at_most_max_samples() {
    let mut random = noise(1);
    for &codec in Codec::ALL {
        let mut decoder = Decoder::new(codec);
        for length in (0..200).chain([480, 960, 1500]) {
            for fixed in [None, Some(0), Some(0xff), Some(0x55)] {
                let payload: Vec<u8> =
                    (0..length).map(|_| fixed.unwrap_or_else(&mut random)).collect();
                let mut out = Vec::new();
                decoder.decode(&payload, &mut out);
                assert!(out.len() <= codec.max_samples(length), "{codec:?} {length} {}", out.len());
            }
        }
    }
}
