//! What is sent, and where what is heard goes.

use crate::pcm::RATE;
use crate::{pcm, warnings, wav};
use media::tone::Tone;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// How loud a tone is: 6 dB below the loudest.
const LOUDNESS: i16 = 16_000;

/// Something that sounds.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Silence,
    Tone(Tone),
    /// Played once, and then silence.
    Samples {
        samples: Vec<i16>,
        at: usize,
    },
    /// Raw samples of the standard input.
    Input,
}

impl Source {
    /// What `text` names: `silence`, `tone:HERTZ`, `-` for the standard input, or a WAV file.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(crate) fn named(text: &str) -> Result<Self, String> {
        if text == "silence" {
            return Ok(Self::Silence);
        }
        if text == "-" {
            pcm::open_input();
            return Ok(Self::Input);
        }
        if let Some(hertz) = text.strip_prefix("tone:") {
            let hertz: f64 =
                hertz.parse().ok().filter(|hertz| *hertz > 0.0 && *hertz < 4000.0).ok_or(
                    format!("{text}: expected a frequency from 1 to 3999 hertz, such as tone:1000"),
                )?;
            return Ok(Self::Tone(Tone::new(hertz, RATE, LOUDNESS)));
        }
        let samples = wav::read(Path::new(text))?;
        Ok(Self::Samples { samples, at: 0 })
    }

    /// The next `count` samples.
    pub(crate) fn next(&mut self, count: usize) -> Vec<i16> {
        let mut out = Vec::with_capacity(count);
        match self {
            Self::Silence => {}
            Self::Input => return pcm::next(count),
            Self::Tone(tone) => tone.fill(count, &mut out),
            Self::Samples { samples, at } => {
                let end = (*at + count).min(samples.len());
                out.extend_from_slice(&samples[*at..end]);
                *at = end;
            }
        }
        out.resize(count, 0);
        out
    }
}

/// What is heard, as it is written. A WAV file is whole when this is dropped.
pub(crate) struct Recording {
    writer: Writer,
}

enum Writer {
    Wav(hound::WavWriter<BufWriter<File>>),
    /// Raw samples on the standard output.
    Output,
    /// It has failed.
    Nowhere,
}

impl Recording {
    /// Where the recording goes that has `before` others before it: the first to `path`, later ones
    /// beside it with their number, as in `heard-2.wav`.
    pub(crate) fn path(path: &Path, before: u64) -> PathBuf {
        if before == 0 || is_output(path) {
            return path.to_owned();
        }
        let mut name = path.file_stem().unwrap_or_default().to_owned();
        name.push(format!("-{}", before + 1));
        if let Some(extension) = path.extension() {
            name.push(".");
            name.push(extension);
        }
        path.with_file_name(name)
    }

    /// Begins the file at `path`; `-` is the standard output.
    ///
    /// # Errors
    /// Why it cannot be written, in words.
    pub(crate) fn begin(path: &Path) -> Result<Self, String> {
        if is_output(path) {
            pcm::open_output();
            return Ok(Self { writer: Writer::Output });
        }
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: RATE,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let writer = hound::WavWriter::create(path, spec)
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        Ok(Self { writer: Writer::Wav(writer) })
    }

    /// Appends `samples`. After a failure, such as a full disk, nothing more is written.
    pub(crate) fn write(&mut self, samples: &[i16]) {
        let writer = match &mut self.writer {
            Writer::Wav(writer) => writer,
            Writer::Output => return pcm::write(samples),
            Writer::Nowhere => return,
        };
        let written = samples.iter().try_for_each(|&sample| writer.write_sample(sample));
        if let Err(error) = written {
            warnings::warn(format!("the recording ends here: {error}"));
            self.writer = Writer::Nowhere;
        }
    }
}

/// Whether a recording goes to the standard output.
pub(crate) fn is_output(path: &Path) -> bool {
    path == Path::new("-")
}

impl Drop for Recording {
    fn drop(&mut self) {
        let writer = std::mem::replace(&mut self.writer, Writer::Nowhere);
        if let Writer::Wav(writer) = writer
            && let Err(error) = writer.finalize()
        {
            warnings::warn(format!("the recording is not whole: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_can_be_played() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        let mut recording = Recording::begin(&path).unwrap();
        recording.write(&[1, -2, 3]);
        drop(recording);
        let mut source = Source::named(path.to_str().unwrap()).unwrap();
        assert_eq!(source.next(2), [1, -2]);
        assert_eq!(source.next(2), [3, 0]);
    }

    #[test]
    fn later_recordings_have_numbers() {
        let path = |before| Recording::path(Path::new("/a/b.wav"), before);
        assert_eq!([path(0), path(1)], ["/a/b.wav", "/a/b-2.wav"].map(PathBuf::from));
        assert_eq!(Recording::path(Path::new("b"), 2), PathBuf::from("b-3"));
    }

    #[test]
    fn what_cannot_be_played_says_why() {
        assert!(Source::named("tone:9000").unwrap_err().contains("3999"));
        assert!(Source::named("/no/such.wav").unwrap_err().starts_with("/no/such.wav: "));
    }
}
