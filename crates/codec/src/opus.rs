//! Opus for speech (RFC 6716, RFC 7587), one channel with 16,000 or 8000 samples per second.

use alloc::vec::Vec;
use core::fmt;
use opus_pure::{Application, MAX_PACKET_BYTES, OpusDecoder, OpusEncoder};

/// Wideband, which covers speech and equals the band of G.722. The RTP clock of Opus is always 48
/// kHz.
pub(crate) const SAMPLE_RATE: u32 = 16_000;
/// The samples of a packet of 120 ms, the maximum.
pub(crate) const MAX_SAMPLES: usize = SAMPLE_RATE as usize * 120 / 1000;
/// The same in units of 48 kHz.
const MAX_UNITS: u32 = 48_000 * 120 / 1000;
/// The format parameters (RFC 7587 section 6.1).
pub(crate) const PARAMETERS: &str = "maxplaybackrate=16000;useinbandfec=1";
/// The sample rate for sound of telephones, with half of the band.
pub(crate) const NARROW_RATE: u32 = 8000;
/// Bits per second. Wideband speech is good from 20,000 on; the rest is for redundant copies of
/// frames.
const BIT_RATE: i32 = 24_000;
/// The complexity of the encoder. A higher value takes twice the time for little gain.
const COMPLEXITY: i32 = 5;
/// The same at [`NARROW_RATE`], where a higher value takes up to twice the time for no gain.
const NARROW_COMPLEXITY: i32 = 1;
/// The expected loss in percent, from which the encoder derives the bit rate of redundant copies.
const EXPECTED_LOSS: i32 = 5;

/// The duration of a packet in units of 48 kHz (RFC 6716 section 3.1). `None` if its first bytes
/// are malformed.
pub(crate) fn units(packet: &[u8]) -> Option<u32> {
    let (&first, rest) = packet.split_first()?;
    let frame = match (first >> 3, first >> 3 & 3) {
        (..12, size) => [480, 960, 1920, 2880][usize::from(size)],
        (12..16, size) => [480, 960][usize::from(size & 1)],
        (_, size) => 120 << size,
    };
    let count = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(rest.first()? & 0x3f),
    };
    Some(frame * count).filter(|&units| units <= MAX_UNITS)
}

pub(crate) struct Encoder(OpusEncoder);

impl Encoder {
    pub(crate) fn new(sample_rate: u32) -> Self {
        let encoder = OpusEncoder::new(sample_rate as i32, 1, Application::Voip);
        let mut encoder = encoder.expect("Opus supports one channel at 8 and at 16 kHz");
        encoder.bitrate_bps = BIT_RATE;
        let is_narrow = sample_rate == NARROW_RATE;
        encoder.complexity = if is_narrow { NARROW_COMPLEXITY } else { COMPLEXITY };
        encoder.use_inband_fec = true;
        encoder.packet_loss_perc = EXPECTED_LOSS;
        Self(encoder)
    }

    /// Encodes a frame of 2.5, 5, 10, 20, 40, 60, 80, 100 or 120 ms. Other lengths yield nothing.
    pub(crate) fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + MAX_PACKET_BYTES, 0);
        let length = self.0.encode_s16(samples, samples.len(), &mut out[start..]).unwrap_or(0);
        out.truncate(start + length);
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("opus::Encoder")
    }
}

pub(crate) struct Decoder {
    decoder: OpusDecoder,
    /// The samples of 20 ms.
    frame: usize,
}

impl Decoder {
    pub(crate) fn new(sample_rate: u32) -> Self {
        let decoder = OpusDecoder::new(sample_rate as i32, 1);
        Self {
            decoder: decoder.expect("Opus supports one channel at 8 and at 16 kHz"),
            frame: sample_rate as usize / 50,
        }
    }

    /// Decodes a packet. A malformed packet is concealed.
    pub(crate) fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        // 120 ms.
        let most = 6 * self.frame;
        let decode = |decoder: &mut OpusDecoder, samples: &mut [i16]| {
            decoder.decode_s16(payload, most, samples)
        };
        // The library treats an empty packet as a lost one of any length.
        if payload.is_empty() || !self.append(most, out, decode) {
            self.conceal(self.frame, out);
        }
    }

    /// Conceals `count` samples, in frames of 10 or 20 ms: at most 20 ms.
    pub(crate) fn conceal(&mut self, count: usize, out: &mut Vec<i16>) {
        let half = self.frame / 2;
        let frame = if count > half { self.frame } else { half };
        let start = out.len();
        self.append(frame, out, |decoder, samples| decoder.decode_s16(&[], frame, samples));
        out.resize(start + frame, 0);
    }

    /// Decodes the lost packet before `next` from the redundant copy in it, or conceals it.
    pub(crate) fn recover(&mut self, next: &[u8], out: &mut Vec<i16>) {
        let frame = self.frame;
        let decode = |decoder: &mut OpusDecoder, samples: &mut [i16]| {
            decoder.decode_fec_s16(next, frame, samples)
        };
        if next.is_empty() || !self.append(frame, out, decode) {
            self.conceal(frame, out);
        }
    }

    /// Appends the output of `decode`, at most `most` samples. Returns false if it fails.
    fn append(
        &mut self,
        most: usize,
        out: &mut Vec<i16>,
        decode: impl FnOnce(&mut OpusDecoder, &mut [i16]) -> opus_pure::Result<usize>,
    ) -> bool {
        let start = out.len();
        out.resize(start + most, 0);
        let made = decode(&mut self.decoder, &mut out[start..]);
        out.truncate(start + made.as_ref().map_or(0, |&made| made.min(most)));
        made.is_ok()
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("opus::Decoder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{amplitude_of, noise, tone, voice};

    const FRAME: usize = SAMPLE_RATE as usize / 50;

    fn packets(samples: &[i16]) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::new(SAMPLE_RATE);
        let encode = |frame: &[i16]| {
            let mut packet = Vec::new();
            encoder.encode(frame, &mut packet);
            packet
        };
        samples.chunks(FRAME).map(encode).collect()
    }

    #[test]
    fn recovery_from_the_next_packet_is_closer_than_concealment() {
        let packets = packets(&voice(SAMPLE_RATE, 2.0));
        let [mut whole, mut by_copy, mut concealed] = [(); 3].map(|()| Decoder::new(SAMPLE_RATE));
        let (mut copied, mut guessed) = (0.0, 0.0);
        for (number, packet) in packets.iter().enumerate().take(95) {
            let [mut right, mut copy, mut guess] = [(); 3].map(|()| Vec::new());
            whole.decode(packet, &mut right);
            if number % 6 == 5 {
                by_copy.recover(&packets[number + 1], &mut copy);
                concealed.conceal(FRAME, &mut guess);
                let error = |made: &[i16]| -> f64 {
                    let pairs = right.iter().zip(made);
                    pairs.map(|(&right, &made)| (f64::from(right) - f64::from(made)).powi(2)).sum()
                };
                copied += error(&copy);
                guessed += error(&guess);
            } else {
                by_copy.decode(packet, &mut copy);
                concealed.decode(packet, &mut guess);
            }
            assert_eq!([right.len(), copy.len(), guess.len()], [FRAME; 3]);
        }
        assert!(copied < 0.5 * guessed, "{copied} {guessed}");
    }

    /// The mean difference of the levels of bands of 250 Hz up to 3400 Hz, in dB, where the bands
    /// have sound. The Opus codec does not preserve the waveform, but the spectrum.
    fn spectral_difference(rate: u32, sent: &[i16], received: &[i16]) -> f64 {
        // 32 ms.
        let window = rate as usize * 32 / 1000;
        let level = |samples: &[i16], band: u32| {
            let tones = (0..4).map(|part| f64::from(250 * band) + 62.5 * f64::from(part));
            let power = tones.map(|tone| amplitude_of(tone, rate, samples).powi(2)).sum::<f64>();
            10.0 * libm::log10(power + 1.0)
        };
        // The delay of the encoder and the decoder.
        let delay = rate as usize * 51 / 8000;
        let (mut sum, mut count) = (0.0, 0.0);
        for (sent, received) in
            sent.chunks_exact(window).zip(received[delay..].chunks_exact(window))
        {
            for band in 1..14 {
                let [sent, received] = [sent, received].map(|samples| level(samples, band));
                if sent > 30.0 {
                    sum += (sent - received).abs();
                    count += 1.0;
                }
            }
        }
        assert!(count > 100.0);
        sum / count
    }

    #[test]
    fn a_narrow_band_keeps_its_spectrum_better_at_its_own_rate() {
        let difference = |rate: u32| {
            let (mut encoder, mut decoder) = (Encoder::new(rate), Decoder::new(rate));
            let (sent, mut received) = (voice(rate, 4.0), Vec::new());
            for frame in sent.chunks(rate as usize / 50) {
                let mut packet = Vec::new();
                encoder.encode(frame, &mut packet);
                decoder.decode(&packet, &mut received);
            }
            spectral_difference(rate, &sent, &received)
        };
        let (narrow, wide) = (difference(NARROW_RATE), difference(SAMPLE_RATE));
        assert!(narrow < wide && wide < 2.5, "{narrow} dB, {wide} dB");
    }

    #[test]
    fn arbitrary_packets_do_not_break_the_decoder() {
        let mut random = noise(7);
        let good = packets(&tone(300.0, SAMPLE_RATE, 1.0));
        let mut decoder = Decoder::new(SAMPLE_RATE);
        let mut samples = [0; MAX_SAMPLES];
        let mut check = |packet: &[u8]| {
            let mut out = Vec::new();
            let is_valid = !packet.is_empty()
                && decoder.decoder.decode_s16(packet, MAX_SAMPLES, &mut samples).is_ok();
            decoder.decode(packet, &mut out);
            if is_valid {
                assert_eq!(units(packet), Some(out.len() as u32 * 3), "{packet:?}");
            }
            decoder.recover(packet, &mut out);
            decoder.conceal(FRAME, &mut out);
            assert!(out.len() <= MAX_SAMPLES + 2 * FRAME, "{}", out.len());
        };
        for length in 0..400 {
            let packet: Vec<u8> = (0..length).map(|_| random()).collect();
            check(&packet);
        }
        for configuration in 0..=255 {
            for length in [1, 2, 3, 10, 60] {
                let mut packet: Vec<u8> = (0..length).map(|_| random()).collect();
                packet[0] = configuration;
                check(&packet);
            }
        }
        for packet in &good[..20] {
            for length in 0..packet.len() {
                check(&packet[..length]);
                let mut damaged = packet.clone();
                damaged[length] ^= 1 << (random() & 7);
                check(&damaged);
            }
        }
        let mut out = Vec::new();
        good.iter().for_each(|packet| decoder.decode(packet, &mut out));
        let level = amplitude_of(300.0, SAMPLE_RATE, &out[out.len() / 2..]);
        assert!(level > 8000.0, "valid packets are decoded afterwards: {level}");
    }
}
