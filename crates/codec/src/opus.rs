//! Opus for speech (RFC 6716, RFC 7587), of one channel with 16,000 samples a second.

use alloc::vec::Vec;
use core::fmt;
use opus_pure::{Application, MAX_PACKET_BYTES, OpusDecoder, OpusEncoder};

/// Wideband, as far as speech reaches, and what G.722 has too. Opus' clock runs at 48 kHz whatever
/// the samples do.
pub(crate) const SAMPLE_RATE: u32 = 16_000;
/// A packet holds 120 ms at most.
pub(crate) const MAX_SAMPLES: usize = SAMPLE_RATE as usize * 120 / 1000;
/// What we send and can use: RFC 7587 section 6.1.
pub(crate) const PARAMETERS: &str =
    "maxplaybackrate=16000;sprop-maxcapturerate=16000;stereo=0;useinbandfec=1";
/// 20 ms, which is what is sent and what is concealed.
const FRAME: usize = SAMPLE_RATE as usize / 50;
/// Bits in a second: wideband speech is good from 20,000 on, and some go to the copies of frames
/// that may be lost.
const BIT_RATE: i32 = 24_000;
/// How much the encoder tries: with more, a frame takes twice the time and sounds nearly the same.
const COMPLEXITY: i32 = 5;
/// The loss that the encoder reckons with, in per cent: by this it decides what the copies may
/// cost.
const EXPECTED_LOSS: i32 = 5;

pub(crate) struct Encoder(OpusEncoder);

impl Default for Encoder {
    fn default() -> Self {
        let encoder = OpusEncoder::new(SAMPLE_RATE as i32, 1, Application::Voip);
        let mut encoder = encoder.expect("16 kHz and one channel are Opus'");
        encoder.bitrate_bps = BIT_RATE;
        encoder.complexity = COMPLEXITY;
        encoder.use_inband_fec = true;
        encoder.packet_loss_perc = EXPECTED_LOSS;
        Self(encoder)
    }
}

impl Encoder {
    /// Nothing comes of samples that are no frame of Opus: 2.5, 5, 10, 20, 40, 60, 80, 100 or 120
    /// ms.
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

pub(crate) struct Decoder(OpusDecoder);

impl Default for Decoder {
    fn default() -> Self {
        let decoder = OpusDecoder::new(SAMPLE_RATE as i32, 1);
        Self(decoder.expect("16 kHz and one channel are Opus'"))
    }
}

impl Decoder {
    /// A packet that is none is lost.
    pub(crate) fn decode(&mut self, payload: &[u8], out: &mut Vec<i16>) {
        let decode = |decoder: &mut OpusDecoder, samples: &mut [i16]| {
            decoder.decode_s16(payload, MAX_SAMPLES, samples)
        };
        // To the library an empty packet is a lost one, of whatever length it is told.
        if payload.is_empty() || !self.append(MAX_SAMPLES, out, decode) {
            self.conceal(out);
        }
    }

    pub(crate) fn conceal(&mut self, out: &mut Vec<i16>) {
        self.append(FRAME, out, |decoder, samples| decoder.decode_s16(&[], FRAME, samples));
    }

    /// What was lost before `next`, of the copy in it; concealed where there is none.
    pub(crate) fn recover(&mut self, next: &[u8], out: &mut Vec<i16>) {
        let decode = |decoder: &mut OpusDecoder, samples: &mut [i16]| {
            decoder.decode_fec_s16(next, FRAME, samples)
        };
        if next.is_empty() || !self.append(FRAME, out, decode) {
            self.conceal(out);
        }
    }

    /// Appends what `decode` makes, of `most` samples at most. False where it fails.
    fn append(
        &mut self,
        most: usize,
        out: &mut Vec<i16>,
        decode: impl FnOnce(&mut OpusDecoder, &mut [i16]) -> opus_pure::Result<usize>,
    ) -> bool {
        let start = out.len();
        out.resize(start + most, 0);
        let made = decode(&mut self.0, &mut out[start..]);
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

    fn packets(samples: &[i16]) -> Vec<Vec<u8>> {
        let mut encoder = Encoder::default();
        let encode = |frame: &[i16]| {
            let mut packet = Vec::new();
            encoder.encode(frame, &mut packet);
            packet
        };
        samples.chunks(FRAME).map(encode).collect()
    }

    #[test]
    fn what_is_lost_is_nearer_by_the_copy_in_the_next_packet_than_concealed() {
        let packets = packets(&voice(SAMPLE_RATE, 2.0));
        let [mut whole, mut by_copy, mut concealed] = [(); 3].map(|()| Decoder::default());
        let (mut copied, mut guessed) = (0.0, 0.0);
        for (number, packet) in packets.iter().enumerate().take(95) {
            let [mut right, mut copy, mut guess] = [(); 3].map(|()| Vec::new());
            whole.decode(packet, &mut right);
            if number % 6 == 5 {
                by_copy.recover(&packets[number + 1], &mut copy);
                concealed.conceal(&mut guess);
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

    #[test]
    fn no_packet_of_strangers_brings_a_decoder_down() {
        let mut random = noise(7);
        let good = packets(&tone(300.0, SAMPLE_RATE, 1.0));
        let mut decoder = Decoder::default();
        let mut check = |packet: &[u8]| {
            let mut out = Vec::new();
            decoder.decode(packet, &mut out);
            decoder.recover(packet, &mut out);
            decoder.conceal(&mut out);
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
        assert!(level > 8000.0, "good packets are heard after all that: {level}");
    }
}
