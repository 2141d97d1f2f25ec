//! The sounds of the operator: the WAV files of a folder.

use crate::log;
use media_server::{Sounds, wav};
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The maximum size of a file, and of all of them, in bytes.
const LARGEST: [u64; 2] = [32 << 20, 256 << 20];

/// Reads the WAV files in `folder`. A file that cannot be used is logged, and left out.
pub(super) fn read(folder: Option<&Path>) -> Sounds {
    let mut sounds = Sounds::default();
    let Some(folder) = folder else { return sounds };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            log::error("media-server", || {
                format!("media_server.sounds: {} cannot be read: {error}", folder.display())
            });
            return sounds;
        }
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension() == Some(OsStr::new("wav")));
    paths.sort_unstable();
    let mut left = LARGEST[1];
    for path in paths {
        let Some(name) = path.file_stem().and_then(OsStr::to_str) else { continue };
        match read_file(&path, &mut left) {
            Ok((rate, samples)) => sounds.add(name, rate, &samples),
            Err(error) => log::error("media-server", || {
                format!("the sound {} is left out: {error}", path.display())
            }),
        }
    }
    sounds
}

/// Returns the sample rate and the samples of the file at `path`, and takes its size from `left`.
fn read_file(path: &Path, left: &mut u64) -> Result<(u32, Vec<i16>), String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if size > LARGEST[0] {
        return Err(format!("it has {size} bytes; expected at most {}", LARGEST[0]));
    }
    *left = left.checked_sub(size).ok_or_else(|| {
        format!("the sounds before it use the {} MiB of all sounds", LARGEST[1] >> 20)
    })?;
    let file = fs::read(path).map_err(|error| error.to_string())?;
    wav::read(&file).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usable_files_become_sounds_by_their_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("greeting.wav"), wav::write(16_000, &[0; 1600])).expect("a file");
        fs::write(at("broken.wav"), b"RIFF").expect("a file");
        fs::write(at("notes.txt"), b"text").expect("a file");
        let sounds = read(Some(folder.path()));
        assert_eq!(sounds.iter().collect::<Vec<_>>(), [("greeting", 800)]);
        assert_eq!(read(None).iter().count(), 0);
        assert_eq!(read(Some(&at("missing"))).iter().count(), 0);
    }
}
