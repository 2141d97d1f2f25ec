//! The sources of sent sound, and the recording of received sound.

use crate::converter::Converter;
use crate::{pcm, warnings, wav};
use media::Marks;
use media::tone::Tone;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Amplitude of a tone: 6 dB below full scale.
const LOUDNESS: i16 = 16_000;
/// Upper limit of a tone's frequency, exclusive, in hertz: no codec here carries more.
pub(crate) const MAX_HERTZ: f64 = 8000.0;

/// A sound source that delivers any sample rate.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    origin: Origin,
    converter: Converter,
    /// Generated samples that are not taken yet, and their rate in hertz.
    ready: Vec<i16>,
    rate: u32,
}

#[derive(Clone, Debug)]
enum Origin {
    Silence,
    Tone {
        hertz: f64,
        /// The generator for the rate requested last. `None` if that rate cannot carry the
        /// frequency.
        tone: Option<Tone>,
    },
    /// Marks that are recognized again in received sound.
    Marks(Box<Marks>),
    /// Played once, then followed by silence.
    File {
        samples: Arc<[i16]>,
        rate: u32,
        at: usize,
    },
    /// Raw samples from the standard input.
    Input,
}

impl Source {
    /// The source that `text` names: `silence`, `tone:HERTZ`, `marks`, `-` for the standard input,
    /// or a WAV file.
    ///
    /// # Errors
    /// A description of the fault in `text` or in the file.
    pub(crate) fn named(text: &str) -> Result<Self, String> {
        let origin = if text == "silence" {
            Origin::Silence
        } else if text == "marks" {
            Origin::Marks(Box::default())
        } else if text == "-" {
            pcm::open_input();
            Origin::Input
        } else if let Some(hertz) = text.strip_prefix("tone:") {
            let hertz = hertz_of(hertz).ok_or(format!(
                "{text}: expected a frequency from 1 to {} hertz, such as tone:1000",
                MAX_HERTZ - 1.0
            ))?;
            Origin::Tone { hertz, tone: None }
        } else {
            let (rate, samples) = wav::read(Path::new(text))?;
            Origin::File { samples: samples.into(), rate, at: 0 }
        };
        Ok(Self { origin, converter: Converter::default(), ready: Vec::new(), rate: 0 })
    }

    /// The next `count` samples at `rate` hertz. Frequencies that this rate cannot carry are
    /// filtered out.
    pub(crate) fn next(&mut self, rate: u32, count: usize) -> Vec<i16> {
        if rate != self.rate {
            self.rate = rate;
            self.ready.clear();
            if let Origin::Tone { hertz, tone } = &mut self.origin {
                let is_carried = *hertz < f64::from(rate) / 2.0;
                *tone = is_carried.then(|| Tone::new(*hertz, rate, LOUDNESS));
            }
        }
        while self.ready.len() < count {
            let (ready, converter) = (&mut self.ready, &mut self.converter);
            let missing = count - ready.len();
            match &mut self.origin {
                Origin::Silence | Origin::Tone { tone: None, .. } => ready.resize(count, 0),
                Origin::Tone { tone: Some(tone), .. } => tone.fill(missing, ready),
                Origin::Marks(marks) => marks.fill(rate, missing, ready),
                Origin::Input => {
                    let own = pcm::rate();
                    let samples = pcm::next(own as usize / 100);
                    converter.convert(own, rate, &samples, ready);
                }
                Origin::File { samples, rate: own, at } => {
                    let end = (*at + *own as usize / 100).min(samples.len());
                    let mut piece = samples[*at..end].to_vec();
                    *at = end;
                    // Silence behind the end flushes the filter.
                    piece.resize(*own as usize / 100, 0);
                    converter.convert(*own, rate, &piece, ready);
                }
            }
        }
        self.ready.drain(..count).collect()
    }

    /// Passes received `samples` to the marks: as many as the last call of `next` returned, at the
    /// same rate.
    pub(crate) fn hear(&mut self, samples: &[i16]) {
        if let Origin::Marks(marks) = &mut self.origin {
            marks.hear(samples);
        }
    }

    /// The round-trip time of the marks sent; see [`Marks::round_trip`].
    pub(crate) fn round_trip(&self) -> Option<Duration> {
        match &self.origin {
            Origin::Marks(marks) => marks.round_trip(),
            _ => None,
        }
    }
}

/// Parses the frequency of a tone in hertz. `None` if it is not from 1 to below [`MAX_HERTZ`].
pub(crate) fn hertz_of(text: &str) -> Option<f64> {
    text.parse().ok().filter(|hertz| (1.0..MAX_HERTZ).contains(hertz))
}

/// The recording of received sound. A WAV file is complete when this value is dropped.
pub(crate) struct Recording {
    writer: Writer,
    converter: Converter,
}

enum Writer {
    /// An empty file. The first samples determine its rate. It is removed if no samples are
    /// written.
    New(BufWriter<File>, PathBuf),
    Wav {
        wav: hound::WavWriter<BufWriter<File>>,
        rate: u32,
    },
    /// Raw samples to the standard output.
    Output,
    /// Writing has failed.
    Nowhere,
}

impl Recording {
    /// The path of a recording that `before` others precede: the first is `path`, later ones have
    /// their number in the name, as in `heard-2.wav`.
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

    /// Checks in advance that a recording at `path` can be written. No new file is left.
    ///
    /// # Errors
    /// A description of why the file cannot be written.
    pub(crate) fn check(path: &Path) -> Result<(), String> {
        match path.metadata() {
            _ if is_output(path) => Ok(()),
            Ok(found) if found.is_file() || found.is_dir() => open(path).map(drop),
            // The reader of a pipe would read its end.
            Ok(_) => Ok(()),
            Err(_) => Self::begin(path).map(drop),
        }
    }

    /// Opens the recording at `path`; `-` is the standard output.
    ///
    /// # Errors
    /// A description of why the file cannot be written.
    pub(crate) fn begin(path: &Path) -> Result<Self, String> {
        let writer = if is_output(path) {
            pcm::open_output();
            Writer::Output
        } else {
            Writer::New(BufWriter::new(open(path)?), path.to_owned())
        };
        Ok(Self { writer, converter: Converter::default() })
    }

    /// Appends `samples` at `rate` hertz. After a failure, such as a full disk, nothing more is
    /// written.
    pub(crate) fn write(&mut self, rate: u32, samples: &[i16]) {
        if let Err(error) = self.append(rate, samples) {
            warnings::warn(format!("the recording ends here: {error}"));
            self.writer = Writer::Nowhere;
        }
    }

    fn append(&mut self, rate: u32, samples: &[i16]) -> hound::Result<()> {
        self.start(rate)?;
        let mut out = Vec::new();
        match &mut self.writer {
            Writer::Wav { wav, rate: own } => {
                self.converter.convert(rate, *own, samples, &mut out);
                out.iter().try_for_each(|&sample| wav.write_sample(sample))
            }
            Writer::Output => {
                self.converter.convert(rate, pcm::rate(), samples, &mut out);
                pcm::write(&out);
                Ok(())
            }
            Writer::New(..) | Writer::Nowhere => Ok(()),
        }
    }

    /// Sets the rate of an empty file and writes its WAV header.
    fn start(&mut self, rate: u32) -> hound::Result<()> {
        let writer = std::mem::replace(&mut self.writer, Writer::Nowhere);
        self.writer = match writer {
            Writer::New(file, _) => {
                if file.get_ref().metadata()?.is_file() {
                    file.get_ref().set_len(0)?;
                }
                let spec = hound::WavSpec {
                    channels: 1,
                    sample_rate: rate,
                    bits_per_sample: 16,
                    sample_format: hound::SampleFormat::Int,
                };
                Writer::Wav { wav: hound::WavWriter::new(file, spec)?, rate }
            }
            other => other,
        };
        Ok(())
    }

    fn finish(&mut self) -> hound::Result<()> {
        match std::mem::replace(&mut self.writer, Writer::Nowhere) {
            Writer::Wav { wav, .. } => wav.finalize(),
            Writer::New(_, path) => {
                let is_empty = |data: &std::fs::Metadata| data.is_file() && data.len() == 0;
                match path.metadata().is_ok_and(|data| is_empty(&data)) {
                    true => Ok(std::fs::remove_file(path)?),
                    false => Ok(()),
                }
            }
            Writer::Output | Writer::Nowhere => Ok(()),
        }
    }
}

/// Opens the file of a recording. The recording of an earlier call stays until there are new
/// samples.
fn open(path: &Path) -> Result<File, String> {
    let file = File::options().write(true).create(true).truncate(false).open(path);
    file.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// Returns true if the recording goes to the standard output.
pub(crate) fn is_output(path: &Path) -> bool {
    path == Path::new("-")
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            warnings::warn(format!("the recording is not whole: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::tone::amplitude_of;

    #[test]
    fn recordings_can_be_played() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        let mut recording = Recording::begin(&path).unwrap();
        recording.write(16_000, &[1, -2, 3]);
        drop(recording);
        let mut source = Source::named(path.to_str().unwrap()).unwrap();
        assert_eq!(source.next(16_000, 2), [1, -2]);
        assert_eq!(source.next(16_000, 2), [3, 0]);
    }

    #[test]
    fn a_recording_has_the_rate_of_its_first_audio() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        let mut recording = Recording::begin(&path).unwrap();
        for rate in [16_000, 8000] {
            recording.write(rate, &vec![0; rate as usize]);
        }
        drop(recording);
        let length = || {
            let reader = hound::WavReader::open(&path).unwrap();
            (reader.spec().sample_rate, reader.len())
        };
        assert_eq!(length(), (16_000, 32_000));
        // A call without received sound leaves the existing recording.
        drop(Recording::begin(&path).unwrap());
        assert_eq!(length(), (16_000, 32_000));
        let mut recording = Recording::begin(&path).unwrap();
        recording.write(8000, &[0; 80]);
        drop(recording);
        assert_eq!(length(), (8000, 80));
    }

    #[test]
    fn a_recording_without_audio_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        drop(Recording::begin(&path).unwrap());
        assert!(!path.exists());
        assert!(Recording::begin(Path::new("/no/such/folder/a.wav")).is_err());
    }

    #[test]
    fn a_recording_is_checked_in_advance_and_leaves_files_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        assert_eq!((Recording::check(&path), path.exists()), (Ok(()), false));
        for content in ["", "old"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(Recording::check(&path), Ok(()));
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        for wrong in [folder.path(), Path::new("/no/such/folder/a.wav")] {
            let error = Recording::check(wrong).unwrap_err();
            assert!(error.contains(&*wrong.to_string_lossy()), "{error}");
        }
    }

    /// Plays `source` for a second at `rate` and returns the amplitude of `hertz` in it.
    fn level(source: &mut Source, rate: u32, hertz: f64) -> f64 {
        let mut heard = Vec::new();
        (0..50).for_each(|_| heard.extend(source.next(rate, rate as usize / 50)));
        amplitude_of(hertz, rate, &heard[rate as usize / 10..][..rate as usize / 2])
    }

    #[test]
    fn a_tone_sounds_where_the_rate_carries_it() {
        let mut source = Source::named("tone:5000").unwrap();
        assert!(level(&mut source, 16_000, 5000.0) > 15_900.0);
        // The rate cannot carry it: it would alias to 3000 Hz.
        assert!(level(&mut source, 8000, 3000.0) < 1.0);
        assert!(level(&mut source, 16_000, 5000.0) > 15_900.0);
    }

    #[test]
    fn a_file_of_any_rate_sounds_at_any() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        for own in [8000, 11_025, 44_100, 48_000] {
            let mut recording = Recording::begin(&path).unwrap();
            let mut samples = Vec::new();
            Tone::new(1000.0, own, 16_000).fill(own as usize, &mut samples);
            recording.write(own, &samples);
            drop(recording);
            for rate in [8000, 16_000] {
                let mut source = Source::named(path.to_str().unwrap()).unwrap();
                let level = level(&mut source, rate, 1000.0);
                assert!((level - 16_000.0).abs() < 300.0, "{own} to {rate}: {level}");
                // The file ends, silence follows.
                let end = source.next(rate, rate as usize);
                assert_eq!(end[rate as usize / 2], 0);
            }
        }
    }

    #[test]
    fn tones_above_the_codec_are_not_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wav");
        let mut recording = Recording::begin(&path).unwrap();
        let mut samples = Vec::new();
        // Without a filter it would alias to 1000 Hz.
        Tone::new(9000.0, 48_000, 16_000).fill(48_000, &mut samples);
        recording.write(48_000, &samples);
        drop(recording);
        let mut source = Source::named(path.to_str().unwrap()).unwrap();
        assert!(level(&mut source, 8000, 1000.0) < 50.0);
    }

    #[test]
    fn later_recordings_have_numbers() {
        let path = |before| Recording::path(Path::new("/a/b.wav"), before);
        assert_eq!([path(0), path(1)], ["/a/b.wav", "/a/b-2.wav"].map(PathBuf::from));
        assert_eq!(Recording::path(Path::new("b"), 2), PathBuf::from("b-3"));
    }

    #[test]
    fn unplayable_sources_are_refused_with_the_reason() {
        assert!(Source::named("tone:9000").unwrap_err().contains("7999"));
        assert!(Source::named("/no/such.wav").unwrap_err().starts_with("/no/such.wav: "));
    }
}
