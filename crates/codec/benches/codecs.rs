//! The cost of encoding, decoding and concealing 20 ms of audio, by codec: `cargo bench -p
//! barebell-codec --all-features`.

use barebell_codec::{Codec, Decoder, Encoder, Resampler};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The number of frames in a run, and of runs. The fastest run counts.
const FRAMES: usize = 500;
const RUNS: usize = 7;

/// Microseconds per frame.
fn measure(mut run: impl FnMut()) -> f64 {
    let time = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    let best = (0..RUNS).map(time).min().unwrap_or(Duration::ZERO);
    best.as_secs_f64() * 1e6 / FRAMES as f64
}

/// A signal like a voice: harmonics of a gliding pitch with varying level, and some noise.
fn voice(rate: u32) -> Vec<i16> {
    let (mut phase, mut noise) = (0.0_f64, 1_u32);
    let sample = |place: usize| {
        let time = place as f64 / f64::from(rate);
        phase += (150.0 + 50.0 * (5.0 * time).sin()) * std::f64::consts::TAU / f64::from(rate);
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let harmonics: f64 = (1..20).map(|n| (f64::from(n) * phase).sin() / f64::from(n)).sum();
        let noise = f64::from(noise >> 16) / 65_536.0 - 0.5;
        (4000.0 * (0.2 + (4.0 * time).sin().abs()) * (harmonics + 0.3 * noise)) as i16
    };
    (0..FRAMES * rate as usize / 50).map(sample).collect()
}

fn main() {
    println!(
        "{:<14} {:>8} {:>8} {:>8}   microseconds for 20 ms",
        "", "encode", "decode", "conceal"
    );
    for &codec in Codec::ALL {
        let samples = voice(codec.sample_rate());
        let frames = || samples.chunks(codec.frame_samples());
        let mut encoder = Encoder::new(codec);
        let mut payload = Vec::new();
        let encoding = measure(|| {
            for frame in frames() {
                payload.clear();
                encoder.encode(frame, &mut payload);
                black_box(&payload);
            }
        });
        let mut encoder = Encoder::new(codec);
        let encode = |frame: &[i16]| {
            let mut payload = Vec::new();
            encoder.encode(frame, &mut payload);
            payload
        };
        let payloads: Vec<Vec<u8>> = frames().map(encode).collect();
        let mut decoder = Decoder::new(codec);
        let mut heard = Vec::new();
        let decoding = measure(|| {
            for payload in &payloads {
                heard.clear();
                decoder.decode(payload, &mut heard);
                black_box(&heard);
            }
        });
        // Every second frame is lost. The remainder of the time is the cost of concealment.
        let half = measure(|| {
            for (number, payload) in payloads.iter().enumerate() {
                heard.clear();
                match number % 2 {
                    0 => decoder.decode(payload, &mut heard),
                    _ => decoder.conceal(&mut heard),
                }
                black_box(&heard);
            }
        });
        let concealing = (2.0 * half - decoding).max(0.0);
        println!("{:<14} {encoding:>8.1} {decoding:>8.1} {concealing:>8.1}", codec.name());
    }
    for (from, to) in [(8000, 16_000), (16_000, 8000), (8000, 48_000), (48_000, 8000)] {
        let samples = voice(from);
        let mut resampler = Resampler::new(from, to);
        let mut out = Vec::new();
        let cost = measure(|| {
            for frame in samples.chunks(from as usize / 50) {
                out.clear();
                resampler.resample(frame, &mut out);
                black_box(&out);
            }
        });
        println!("{from} to {to}: {cost:.1}");
    }
}
