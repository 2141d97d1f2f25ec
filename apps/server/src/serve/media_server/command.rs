//! The program of the operator that is run for a new message, such as one that sends a mail.

use crate::log;
use crate::voicemail::Message;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// The maximum number of waiting runs.
const QUEUE: usize = 64;
/// The interval between two looks at the end of the program.
const INTERVAL: Duration = Duration::from_millis(50);

/// The environment variables of a run.
pub(super) struct NewMessage(Vec<(&'static str, String)>);

impl NewMessage {
    /// The variables for `message` of `mailbox`, with its WAV file at `sound`.
    pub(super) fn new(mailbox: &str, message: &Message, sound: PathBuf) -> Self {
        Self(vec![
            ("BAREBELL_MAILBOX", mailbox.to_owned()),
            ("BAREBELL_CALLER", message.caller.clone()),
            ("BAREBELL_PROVED", if message.proved { "yes" } else { "no" }.to_owned()),
            ("BAREBELL_SECONDS", message.duration().as_secs().to_string()),
            ("BAREBELL_TIME", message.at.to_string()),
            ("BAREBELL_FILE", sound.to_string_lossy().into_owned()),
        ])
    }
}

/// The runs of the program, one after the other. Without a program nothing is run.
pub(super) struct Commands(Option<SyncSender<NewMessage>>);

impl Commands {
    /// The runs of `program`, each at most for `timeout`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(program: Option<PathBuf>, timeout: Duration) -> io::Result<Self> {
        let Some(program) = program else { return Ok(Self(None)) };
        let (runs, queue) = sync_channel(QUEUE);
        // The thread ends with the last run; a run does not delay the end of the server.
        std::thread::Builder::new()
            .name("voicemail-run".to_owned())
            .spawn(move || run_all(&program, timeout, &queue))?;
        Ok(Self(Some(runs)))
    }

    /// Runs the program for a message, after the earlier ones.
    pub(super) fn run(&self, message: NewMessage) {
        if let Some(runs) = &self.0
            && runs.try_send(message).is_err()
        {
            log::error("voicemail", || {
                "media_server.command is not run for a message: too many runs wait".to_owned()
            });
        }
    }
}

fn run_all(program: &Path, timeout: Duration, queue: &Receiver<NewMessage>) {
    while let Ok(message) = queue.recv() {
        if let Err(error) = run(program, timeout, message) {
            log::error("voicemail", || {
                format!("media_server.command {}: {error}", program.display())
            });
        }
    }
}

/// Runs the program for one message.
fn run(program: &Path, timeout: Duration, NewMessage(vars): NewMessage) -> io::Result<()> {
    let mut command = Command::new(program);
    command.envs(vars).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let end = Instant::now() + timeout;
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(io::Error::other(status.to_string())),
            None if Instant::now() >= end => {
                child.kill()?;
                child.wait()?;
                let text = format!("killed after {} s", timeout.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            None => std::thread::sleep(INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn message() -> NewMessage {
        let message = Message {
            id: 7,
            caller: "sip:a@b".into(),
            proved: false,
            at: 1_700_000_000,
            samples: 24_000,
            heard: false,
        };
        NewMessage::new("bob@example.com", &message, "/x/7.wav".into())
    }

    fn program(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("a file");
        (folder, path)
    }

    #[test]
    fn the_program_gets_the_message_in_its_environment() {
        let (folder, path) = program(
            "echo \"$BAREBELL_MAILBOX $BAREBELL_CALLER $BAREBELL_PROVED $BAREBELL_SECONDS \
             $BAREBELL_TIME $BAREBELL_FILE\" > \"$(dirname \"$0\")/out\"",
        );
        run(&path, Duration::from_secs(10), message()).expect("a run");
        let out = fs::read_to_string(folder.path().join("out")).expect("a file");
        assert_eq!(out, "bob@example.com sip:a@b no 3 1700000000 /x/7.wav\n");
    }

    #[test]
    fn a_program_that_fails_or_does_not_end_is_an_error() {
        let (_folder, path) = program("exit 3");
        let error = run(&path, Duration::from_secs(10), message()).expect_err("a failure");
        assert!(error.to_string().contains('3'), "{error}");
        let (_folder, path) = program("exec sleep 60");
        let error = run(&path, Duration::from_millis(100), message()).expect_err("a timeout");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(run(&path.with_extension("no"), Duration::from_secs(1), message()).is_err());
    }
}
