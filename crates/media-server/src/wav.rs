//! WAV files with one channel of 16 bits.

use alloc::vec::Vec;
use core::fmt;

/// The length of the header that is written.
pub const HEADER: usize = 44;

/// The format of linear samples.
const PCM: u16 = 1;

/// The reason why bytes are not a WAV file that can be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WavError {
    /// They do not begin as a WAV file, or end early.
    NoWav,
    /// The samples have another format.
    Format {
        /// The number of the format; 1 is linear.
        format: u16,
        /// The number of channels.
        channels: u16,
        /// The sample rate in hertz.
        rate: u32,
        /// The number of bits of a sample.
        bits: u16,
    },
}

impl fmt::Display for WavError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWav => f.write_str("this is no complete WAV file"),
            Self::Format { format, channels, rate, bits } => write!(
                f,
                "the WAV file has the format {format}, {channels} channels of {rate} samples a \
                 second and {bits} bits; expected format 1 (linear), one channel of 8000 or 16000 \
                 samples a second and 16 bits (sox FILE -r 16000 -c 1 -b 16 -e signed OUT.wav)"
            ),
        }
    }
}

impl core::error::Error for WavError {}

/// Returns the sample rate, 8000 or 16000 hertz, and the samples of a WAV file.
///
/// # Errors
/// [`WavError`].
pub fn read(file: &[u8]) -> Result<(u32, Vec<i16>), WavError> {
    let mut rest = file.strip_prefix(b"RIFF").ok_or(WavError::NoWav)?;
    rest = rest.get(4..).and_then(|rest| rest.strip_prefix(b"WAVE")).ok_or(WavError::NoWav)?;
    let mut rate = None;
    while let Some((name, after)) = rest.split_first_chunk::<4>() {
        let (length, after) = after.split_first_chunk::<4>().ok_or(WavError::NoWav)?;
        let length = u32::from_le_bytes(*length) as usize;
        // Programs that write to a pipe do not know the length.
        let chunk = match name {
            b"data" => &after[..length.min(after.len())],
            _ => after.get(..length).ok_or(WavError::NoWav)?,
        };
        match name {
            b"fmt " => rate = Some(format(chunk)?),
            b"data" => {
                let rate = rate.ok_or(WavError::NoWav)?;
                let samples = chunk.chunks_exact(2);
                let samples = samples.map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
                return Ok((rate, samples.collect()));
            }
            _ => {}
        }
        // Chunks have an even length.
        rest = after.get(length + length % 2..).unwrap_or_default();
    }
    Err(WavError::NoWav)
}

/// Returns the sample rate in a chunk `fmt `.
fn format(chunk: &[u8]) -> Result<u32, WavError> {
    let short = |at: usize| Some(u16::from_le_bytes(*chunk.get(at..)?.first_chunk::<2>()?));
    let read = || {
        let rate = u32::from_le_bytes(*chunk.get(4..)?.first_chunk::<4>()?);
        Some((short(0)?, short(2)?, rate, short(14)?))
    };
    let (format, channels, rate, bits) = read().ok_or(WavError::NoWav)?;
    match (format, channels, rate, bits) {
        (PCM, 1, 8000 | 16_000, 16) => Ok(rate),
        _ => Err(WavError::Format { format, channels, rate, bits }),
    }
}

/// Returns a WAV file of `samples` at `rate` hertz.
#[must_use]
pub fn write(rate: u32, samples: &[i16]) -> Vec<u8> {
    let length = samples.len() as u32 * 2;
    let mut file = Vec::with_capacity(HEADER + samples.len() * 2);
    file.extend_from_slice(b"RIFF");
    file.extend_from_slice(&(HEADER as u32 - 8 + length).to_le_bytes());
    file.extend_from_slice(b"WAVEfmt ");
    file.extend_from_slice(&16_u32.to_le_bytes());
    for value in [PCM, 1] {
        file.extend_from_slice(&value.to_le_bytes());
    }
    for value in [rate, rate * 2] {
        file.extend_from_slice(&value.to_le_bytes());
    }
    for value in [2_u16, 16] {
        file.extend_from_slice(&value.to_le_bytes());
    }
    file.extend_from_slice(b"data");
    file.extend_from_slice(&length.to_le_bytes());
    file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    proptest! {
        #[test]
        fn a_written_file_is_read(samples: Vec<i16>, is_wide: bool) {
            let rate = if is_wide { 16_000 } else { 8000 };
            let file = write(rate, &samples);
            prop_assert_eq!(file.len(), HEADER + 2 * samples.len());
            prop_assert_eq!(read(&file), Ok((rate, samples)));
        }

        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>, changes: Vec<(u8, u8)>) {
            let _ = read(&bytes);
            let mut file = write(8000, &[1, 2, 3]);
            for (at, value) in changes {
                let at = usize::from(at) % file.len();
                file[at] = value;
            }
            let _ = read(&file);
            bytes.splice(0..0, *b"RIFF\0\0\0\0WAVE");
            let _ = read(&bytes);
        }
    }

    #[test]
    fn chunks_of_other_programs_are_skipped_and_other_formats_are_refused() {
        let mut file = write(8000, &[5, 6]);
        file.splice(12..12, *b"LIST\x03\0\0\0abc\0");
        assert_eq!(read(&file), Ok((8000, Vec::from([5, 6]))));
        let mut stereo = write(8000, &[5, 6]);
        stereo[22] = 2;
        let error = read(&stereo).expect_err("two channels").to_string();
        assert!(error.contains("2 channels of 8000 samples"), "{error}");
        assert_eq!(read(&write(8000, &[])[..40]), Err(WavError::NoWav));
    }
}
