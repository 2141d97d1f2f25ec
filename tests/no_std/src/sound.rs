//! Codecs, and a media session.

use alloc::vec::Vec;
use codec::{Codec, Decoder, Encoder, Resampler};
use media::{MediaConfig, Negotiator};

/// For every codec: encodes a tone, conceals a lost packet, and resamples the output.
pub(crate) fn speak() -> Option<()> {
    for &codec in Codec::ALL {
        let rate = codec.sample_rate();
        let tone = media::tone::Tone::new(440.0, rate, 8000);
        let (mut samples, mut payload, mut heard) = (Vec::new(), Vec::new(), Vec::new());
        tone.clone().fill(codec.frame_samples(), &mut samples);
        Encoder::new(codec).encode(&samples, &mut payload);
        let mut decoder = Decoder::new(codec);
        decoder.decode(&payload, &mut heard);
        decoder.conceal(&mut heard);
        decoder.decode_comfort_noise(&[60], &mut heard);
        let mut out = Vec::new();
        Resampler::new(rate, 48_000).resample(&heard, &mut out);
        (heard.len() == 3 * codec.frame_samples() && out.len() == 2880).then_some(())?;
    }
    Some(())
}

/// Runs an offer/answer exchange.
pub(crate) fn offer() -> Option<()> {
    let end = |port: u16| Negotiator::new(MediaConfig::default(), ([192, 0, 2, 1], port).into(), 1);
    let (mut caller, mut callee) = (end(4000), end(4002));
    // No two keys are equal.
    let mut last = 0;
    let mut random = |bytes: &mut [u8]| {
        last += 1;
        bytes.fill(last);
    };
    let offer = caller.offer(&mut random);
    let (answer, theirs) = callee.answer(&offer, &mut random).ok()?;
    let ours = caller.accept(&answer).ok()?;
    (ours.codec == theirs.codec && ours.keying.is_encrypted()).then_some(())
}
