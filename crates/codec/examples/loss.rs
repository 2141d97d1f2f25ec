//! Encodes a tone with each codec, loses every tenth packet, and prints the levels before and
//! after:
//!
//! ```sh
//! cargo run -p barebell-codec --example loss
//! ```

use barebell_codec::{Codec, Decoder, Encoder};
use std::f64::consts::TAU;

/// Returns the level of the last half of `samples`, relative to full scale, in decibels.
fn level(samples: &[i16]) -> f64 {
    let steady = &samples[samples.len() / 2..];
    let power: f64 = steady.iter().map(|&sample| f64::from(sample).powi(2)).sum();
    10.0 * (power / steady.len() as f64).log10() - 20.0 * f64::from(i16::MAX).log10()
}

fn main() {
    for &codec in Codec::ALL {
        let step = TAU * 440.0 / f64::from(codec.sample_rate());
        let tone = |place| (8000.0 * (step * f64::from(place)).sin()) as i16;
        let samples: Vec<i16> = (0..codec.sample_rate()).map(tone).collect();

        let (mut encoder, mut decoder) = (Encoder::new(codec), Decoder::new(codec));
        let (mut bytes, mut played) = (0, Vec::new());
        for (number, frame) in samples.chunks(codec.frame_samples()).enumerate() {
            let mut payload = Vec::new();
            encoder.encode(frame, &mut payload);
            bytes += payload.len();
            match number % 10 {
                9 => decoder.conceal(&mut played),
                _ => decoder.decode(&payload, &mut played),
            }
        }
        let (before, after) = (level(&samples), level(&played));
        println!("{:12} {} bit/s, {before:.1} dBFS, {after:.1} dBFS", codec.name(), 8 * bytes);
        assert_eq!(played.len(), samples.len());
        assert!((before - after).abs() < 2.0, "the losses are concealed");
    }
}
