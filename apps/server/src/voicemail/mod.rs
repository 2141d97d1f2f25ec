//! The messages of mailboxes as files: for each mailbox a folder, and for each message `ID.wav` and
//! `ID.json`. A message exists if both exist. The second one is written last, in one step, and
//! removed first.

mod folder_name;

use folder_name::{folder_of, mailbox_of};
use media_server::{MessageId, RATE, Recording, wav};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The folder of all mailboxes in the data directory.
const FOLDER: &str = "voicemail";
/// The ending of files that are not complete.
const PARTIAL: &str = "part";
/// The space of a message beside its samples: two files with their headers, in bytes.
const OVERHEAD: u64 = 1024;
/// The maximum number of messages of a mailbox, which bounds short ones.
pub(crate) const MAX_MESSAGES: usize = 1000;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Message {
    /// The number in its mailbox.
    pub(crate) id: MessageId,
    /// The address-of-record of the caller, or the URI in From.
    pub(crate) caller: String,
    /// True if the caller has authenticated.
    pub(crate) proved: bool,
    /// The time of its end, in seconds since 1970.
    pub(crate) at: u64,
    /// The number of samples.
    pub(crate) samples: u64,
    /// True if it was heard.
    pub(crate) heard: bool,
}

impl Message {
    /// The space that the message uses, in bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        space_of(self.samples)
    }

    /// The duration.
    pub(crate) const fn duration(&self) -> Duration {
        Duration::from_millis(self.samples * 1000 / RATE as u64)
    }
}

/// The space that a message with this number of samples uses, in bytes.
pub(crate) const fn space_of(samples: u64) -> u64 {
    2 * samples + OVERHEAD
}

/// The files of all mailboxes.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    root: PathBuf,
    /// True if a stored message survives a power loss.
    syncs: bool,
}

impl Files {
    /// The mailboxes in the data directory `data`.
    pub(crate) fn new(data: &Path, syncs: bool) -> Self {
        Self { root: data.join(FOLDER), syncs }
    }

    /// The names of the mailboxes with a folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn mailboxes(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().to_str().and_then(mailbox_of));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The time of the last change of a mailbox. `None` if it has no folder.
    pub(crate) fn changed(&self, mailbox: &str) -> Option<SystemTime> {
        fs::metadata(self.folder(mailbox)).and_then(|folder| folder.modified()).ok()
    }

    /// The messages of a mailbox, the oldest first. A file that is not the description of a message
    /// is left out.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(crate) fn messages(&self, mailbox: &str) -> io::Result<Vec<Message>> {
        let entries = match fs::read_dir(self.folder(mailbox)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut messages = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("json")) {
                let message = fs::read(&path).ok();
                let message = message.and_then(|it| serde_json::from_slice::<Message>(&it).ok());
                let named = path.file_stem().and_then(|id| id.to_str()?.parse::<MessageId>().ok());
                messages.extend(message.filter(|message| Some(message.id) == named));
            }
        }
        messages.sort_unstable_by_key(|message| message.id);
        Ok(messages)
    }

    /// The WAV file of a message.
    pub(crate) fn sound(&self, mailbox: &str, id: MessageId) -> PathBuf {
        self.folder(mailbox).join(format!("{id}.wav"))
    }

    /// The samples of a message.
    ///
    /// # Errors
    /// The file cannot be read, or is no WAV file of this program.
    pub(crate) fn load(&self, mailbox: &str, id: MessageId) -> io::Result<Vec<i16>> {
        let file = fs::read(self.sound(mailbox, id))?;
        let invalid = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
        match wav::read(&file) {
            Ok((RATE, samples)) => Ok(samples),
            Ok((rate, _)) => Err(invalid(format!("{rate} samples a second; expected {RATE}"))),
            Err(error) => Err(invalid(error.to_string())),
        }
    }

    /// Stores a message that ended at `now`, with the number `id`. On an error nothing is stored.
    ///
    /// # Errors
    /// The files cannot be written: the file system may be full.
    pub(crate) fn keep(
        &self,
        mailbox: &str,
        id: MessageId,
        recording: &Recording,
        now: SystemTime,
    ) -> io::Result<Message> {
        let at = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let message = Message {
            id,
            caller: recording.caller.clone(),
            proved: recording.is_proved,
            at,
            samples: recording.samples.len() as u64,
            heard: false,
        };
        self.put(mailbox, &message, &wav::write(RATE, &recording.samples))?;
        Ok(message)
    }

    /// Stores a message of a backup with its WAV file. On an error nothing is stored.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(crate) fn put(&self, mailbox: &str, message: &Message, sound: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.folder(mailbox))?;
        let file = self.sound(mailbox, message.id);
        self.write(&file, sound)?;
        self.describe(mailbox, message).inspect_err(|_| _ = fs::remove_file(&file))
    }

    /// Notes that a message was heard.
    ///
    /// # Errors
    /// The description cannot be written.
    pub(crate) fn mark_heard(&self, mailbox: &str, message: &Message) -> io::Result<()> {
        self.describe(mailbox, &Message { heard: true, ..message.clone() })
    }

    /// Deletes a message.
    ///
    /// # Errors
    /// The files cannot be removed, or there is no such message.
    pub(crate) fn delete(&self, mailbox: &str, id: MessageId) -> io::Result<()> {
        fs::remove_file(self.description(mailbox, id))?;
        fs::remove_file(self.sound(mailbox, id))
    }

    /// Removes the files of messages that were not stored completely. To be called before messages
    /// are stored.
    pub(crate) fn clean(&self, mailbox: &str) {
        for entry in fs::read_dir(self.folder(mailbox)).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_kept = match path.extension().and_then(OsStr::to_str) {
                Some("wav") => path.with_extension("json").exists(),
                Some(PARTIAL) => false,
                _ => true,
            };
            if !is_kept {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn folder(&self, mailbox: &str) -> PathBuf {
        self.root.join(folder_of(mailbox))
    }

    fn description(&self, mailbox: &str, id: MessageId) -> PathBuf {
        self.folder(mailbox).join(format!("{id}.json"))
    }

    fn describe(&self, mailbox: &str, message: &Message) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.write(&self.description(mailbox, message.id), &line)
    }

    /// Writes a file in one step.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".");
        partial.push(PARTIAL);
        let write = || {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            let mut file = options.open(&partial)?;
            file.write_all(bytes)?;
            if self.syncs {
                file.sync_all()?;
            }
            fs::rename(&partial, path)?;
            match path.parent() {
                Some(folder) if self.syncs => File::open(folder)?.sync_all(),
                _ => Ok(()),
            }
        };
        write().inspect_err(|_| _ = fs::remove_file(&partial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOB: &str = "bob@example.com";

    fn recording(samples: usize) -> Recording {
        let samples = (0..samples).map(|at| at as i16).collect();
        Recording { caller: "alice@example.com".into(), is_proved: true, samples }
    }

    #[test]
    fn stored_messages_are_listed_loaded_marked_and_deleted() {
        let data = tempfile::tempdir().expect("a folder");
        let files = Files::new(data.path(), true);
        assert_eq!(files.mailboxes().expect("names"), Vec::<String>::new());
        assert_eq!(files.messages(BOB).expect("messages"), []);
        let first = files.keep(BOB, 1, &recording(800), SystemTime::now()).expect("a message");
        let second = files.keep(BOB, 2, &recording(8000), SystemTime::now()).expect("a message");
        assert_eq!(second.duration(), Duration::from_secs(1));
        assert_eq!(files.mailboxes().expect("names"), [BOB]);
        assert_eq!(files.messages(BOB).expect("messages"), [first.clone(), second.clone()]);
        assert_eq!(files.load(BOB, 1).expect("samples"), recording(800).samples);
        files.mark_heard(BOB, &first).expect("a description");
        let heard: Vec<_> =
            files.messages(BOB).expect("messages").iter().map(|it| it.heard).collect();
        assert_eq!(heard, [true, false]);
        files.delete(BOB, 1).expect("a message");
        assert!(files.delete(BOB, 1).is_err());
        assert_eq!(files.messages(BOB).expect("messages"), [second]);
    }

    #[test]
    fn incomplete_messages_are_removed_and_not_listed() {
        let data = tempfile::tempdir().expect("a folder");
        let files = Files::new(data.path(), false);
        files.keep(BOB, 1, &recording(10), SystemTime::now()).expect("a message");
        let folder = files.folder(BOB);
        for name in ["2.wav", "3.wav.part", "4.json", "5.json.part"] {
            fs::write(folder.join(name), b"{}").expect("a file");
        }
        files.clean(BOB);
        assert_eq!(files.messages(BOB).expect("messages").len(), 1);
        let mut left: Vec<_> = fs::read_dir(&folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
            .collect();
        left.sort();
        assert_eq!(left, ["1.json", "1.wav", "4.json"]);
    }

    #[test]
    fn a_failed_write_leaves_nothing() {
        let data = tempfile::tempdir().expect("a folder");
        let files = Files::new(data.path(), false);
        // A folder in the place of the description.
        fs::create_dir_all(files.folder(BOB).join("1.json/x")).expect("a folder");
        assert!(files.keep(BOB, 1, &recording(10), SystemTime::now()).is_err());
        assert!(!files.sound(BOB, 1).exists());
        assert!(!files.folder(BOB).join("1.json.part").exists());
    }
}
