//! Detection of the other phone's tone in a recording that may still be written.

use media::tone::amplitude_of;
use std::fs;
use std::path::Path;

/// The length of a window. Jitter buffers insert and drop samples, which shifts the phase of a
/// tone.
const WINDOW_MS: u32 = 40;
/// The least amplitude of a tone, and its least share of the energy of a window.
const LEAST: f64 = 100.0;
const SHARE: f64 = 0.7;
/// The length of a WAV header that is still zero, and what it will then contain: linphone writes it
/// at the end.
const EMPTY_HEADER: usize = 44;
const EMPTY_FORMAT: Format = Format { channels: 1, rate: 8000 };

#[derive(Clone, Copy)]
struct Format {
    channels: usize,
    rate: u32,
}

/// Returns for how many milliseconds a recording has a tone of `hertz` and no other sound; 0 if
/// there is no recording.
pub(super) fn tone_ms(path: &Path, hertz: u16) -> u32 {
    let bytes = fs::read(path).unwrap_or_default();
    let Some((format, data)) = read(&bytes) else { return 0 };
    let frames = data.chunks_exact(2 * format.channels);
    let samples: Vec<i16> = frames.map(|frame| i16::from_le_bytes([frame[0], frame[1]])).collect();
    let window = (format.rate * WINDOW_MS / 1000).max(1) as usize;
    let has_tone = |window: &&[i16]| {
        let amplitude = amplitude_of(f64::from(hertz), format.rate, window);
        let energy = window.iter().map(|&sample| f64::from(sample).powi(2)).sum::<f64>();
        let energy = energy / window.len() as f64;
        amplitude > LEAST && amplitude * amplitude / 2.0 > SHARE * energy
    };
    WINDOW_MS * samples.chunks_exact(window).filter(has_tone).count() as u32
}

/// Returns the format and the samples of a WAV file with samples of 16 bits. Sizes in its header
/// are not used: they are written at the end.
fn read(bytes: &[u8]) -> Option<(Format, &[u8])> {
    let number = |at: usize, size: usize| {
        let field = bytes.get(at..at + size)?;
        Some(field.iter().rev().fold(0_u32, |value, &byte| value << 8 | u32::from(byte)))
    };
    if bytes.get(..EMPTY_HEADER)?.iter().all(|&byte| byte == 0) {
        return Some((EMPTY_FORMAT, &bytes[EMPTY_HEADER..]));
    }
    let (mut at, mut format) = (12, None);
    loop {
        match bytes.get(at..at + 4)? {
            b"fmt " => {
                format = Some((number(at + 10, 2)?, number(at + 12, 4)?, number(at + 22, 2)?));
            }
            b"data" => break,
            _ => {}
        }
        at = at.checked_add(8)?.checked_add(usize::try_from(number(at + 4, 4)?).ok()?)?;
    }
    let (channels, rate, bits) = format?;
    let is_known = bits == 16 && (1..=2).contains(&channels);
    is_known.then_some((Format { channels: channels as usize, rate }, bytes.get(at + 8..)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds::softphone::tone_file;

    #[test]
    fn a_tone_is_heard_in_whole_files_and_in_those_without_a_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("heard.wav");
        let mut bytes = tone_file(600);
        bytes.truncate(EMPTY_HEADER + 2 * 8000);
        for is_begun in [false, true] {
            if is_begun {
                bytes[..EMPTY_HEADER].fill(0);
            }
            fs::write(&path, &bytes).unwrap();
            assert_eq!([600, 1000].map(|hertz| tone_ms(&path, hertz)), [1000, 0]);
        }
        assert_eq!(tone_ms(&folder.path().join("absent"), 600), 0);
        for length in 0..=EMPTY_HEADER {
            fs::write(&path, &tone_file(600)[..length]).unwrap();
            assert_eq!(tone_ms(&path, 600), 0, "{length} bytes");
        }
    }
}
