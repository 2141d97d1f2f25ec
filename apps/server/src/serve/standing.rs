//! The file of the B2BUA's answered calls. If the server is killed, its next start ends them at
//! both ends. A thread of its own writes it, and the file of the use of trunks.

use super::trunk_use;
use crate::failure::Failure;
use crate::log;
use b2bua::{Event, Transmit};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sip::{Connection, Flow, Transport};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// The name of the file in the data directory.
const NAME: &str = "standing-calls";

/// The maximum number of changes that wait to be written. Further ones are lost: the end of such a
/// call is then left to its phones.
const MAX_WAITING: usize = 16_384;

/// The file is written anew when it has more bytes than this beyond those of the calls that stand.
const MAX_PAST: usize = 4 << 20;

/// The writer of the file.
pub(crate) struct StandingCalls {
    /// `None` stands for the end.
    queue: SyncSender<Option<Event>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A line of the file: an answered call, or without requests the end of one.
#[derive(Serialize, Deserialize)]
struct Line {
    call: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    byes: Vec<Bye>,
}

/// A request that ends a call at one end.
#[derive(Serialize, Deserialize)]
struct Bye {
    transport: String,
    /// The number of its connection, which is one of an internal flow.
    connection: NonZeroU64,
    local: SocketAddr,
    remote: SocketAddr,
    message: String,
}

impl Bye {
    /// `None` for a message without a connection, which no internal flow is.
    fn new(transmit: &Transmit) -> Option<Self> {
        let Transmit { flow, bytes } = transmit;
        Some(Self {
            transport: flow.transport.uri_name().to_owned(),
            connection: flow.connection?.0,
            local: flow.local,
            remote: flow.remote,
            message: String::from_utf8_lossy(bytes).into_owned(),
        })
    }

    fn transmit(self) -> Option<Transmit> {
        let flow = Flow {
            transport: Transport::parse(self.transport.as_bytes())?,
            local: self.local,
            remote: self.remote,
            connection: Some(Connection(self.connection)),
        };
        Some(Transmit { flow, bytes: self.message.into_bytes() }).filter(|it| it.flow.is_internal())
    }
}

impl StandingCalls {
    /// Opens the file in the directory `data`, and starts the thread. Returns the requests that end
    /// the calls of a server that was killed.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub(crate) fn open(data: &Path) -> Result<(Self, Vec<Transmit>), Failure> {
        let path = data.join(NAME);
        let cannot =
            |error: io::Error| Failure::message(format!("cannot open {}: {error}", path.display()));
        let lost = read(&path).map_err(cannot)?;
        let file = begin(&path).map_err(cannot)?;
        let (queue, waiting) = sync_channel(MAX_WAITING);
        let thread = std::thread::Builder::new().name("standing".to_owned());
        let standing = BTreeMap::new();
        let use_path = trunk_use::path(data);
        let mut written = Written { path, file, length: 0, standing, size: 0, use_path };
        let thread = thread.spawn(move || written.write_all(&waiting))?;
        Ok((Self { queue, thread: Mutex::new(Some(thread)) }, lost))
    }

    /// Has `event` written. It does not wait.
    pub(crate) fn push(&self, event: Event) {
        if self.queue.try_send(Some(event)).is_err() {
            log::warn("b2bua", || "too many changes of calls wait to be written".to_owned());
        }
    }

    /// Waits until all changes are written, and ends the thread.
    pub(crate) fn finish(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        if self.queue.send(None).is_ok() {
            let _ = thread.join();
        }
    }
}

/// Reads the requests that end the calls of the file.
fn read(path: &Path) -> io::Result<Vec<Transmit>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut standing = BTreeMap::new();
    for line in BufReader::new(file).split(b'\n') {
        // The last line may be cut.
        let Ok(Line { call, byes }) = serde_json::from_slice::<Line>(&line?) else { continue };
        match byes.is_empty() {
            true => standing.remove(&call),
            false => standing.insert(call, byes),
        };
    }
    Ok(standing.into_values().flatten().filter_map(Bye::transmit).collect())
}

fn begin(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(path)
}

/// The file as it is written.
struct Written {
    path: PathBuf,
    file: File,
    length: usize,
    /// The lines of the calls that stand, and their bytes.
    standing: BTreeMap<u64, Vec<u8>>,
    size: usize,
    /// The file of the use of trunks.
    use_path: PathBuf,
}

impl Written {
    fn write_all(&mut self, waiting: &Receiver<Option<Event>>) {
        while let Ok(Some(event)) = waiting.recv() {
            if let Event::Use { minutes } = &event {
                if let Err(error) = trunk_use::write(&self.use_path, minutes) {
                    let path = self.use_path.display();
                    log::error("limits", || {
                        format!("the use of trunks cannot be written to {path}: {error}")
                    });
                }
            } else if let Err(error) = self.write(&event) {
                log::error("b2bua", || {
                    format!(
                        "an answered call cannot be written to {}: {error}",
                        self.path.display()
                    )
                });
            }
        }
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let line = match event {
            Event::Answered { call, byes } => {
                Line { call: *call, byes: byes.iter().filter_map(Bye::new).collect() }
            }
            Event::Ended { call } => Line { call: *call, byes: Vec::new() },
            _ => return Ok(()),
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        if line.byes.is_empty() {
            self.size -= self.standing.remove(&line.call).map_or(0, |line| line.len());
        } else {
            self.size += text.len();
            self.standing.insert(line.call, text.clone());
        }
        self.length += text.len();
        if self.length > self.size + MAX_PAST {
            return self.write_anew();
        }
        self.file.write_all(&text)
    }

    /// Replaces the file by one with the calls that stand.
    fn write_anew(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut file = begin(&new)?;
        for line in self.standing.values() {
            file.write_all(line)?;
        }
        fs::rename(&new, &self.path)?;
        (self.file, self.length) = (file, self.size);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bye(host: u8, text: &str) -> Transmit {
        let flow = Flow {
            transport: Transport::Tls,
            local: ([192, 0, 2, 1], 5061).into(),
            remote: ([192, 0, 2, host], 5061).into(),
            connection: None,
        };
        Transmit { flow: flow.internal(), bytes: text.as_bytes().to_vec() }
    }

    fn answered(call: u64) -> Event {
        Event::Answered { call, byes: Box::new([bye(7, "BYE a\r\n"), bye(8, "BYE b\r\n")]) }
    }

    #[test]
    fn the_calls_that_have_not_ended_are_read_back_once() {
        let folder = tempfile::tempdir().unwrap();
        let (calls, lost) = StandingCalls::open(folder.path()).unwrap();
        assert_eq!(lost, []);
        calls.push(answered(1));
        calls.push(answered(2));
        calls.push(Event::Ended { call: 1 });
        calls.finish();
        // A crash has cut the last line.
        let path = folder.path().join(NAME);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"call\":3,\"byes\":[{\"is_sec").unwrap();
        let (calls, lost) = StandingCalls::open(folder.path()).unwrap();
        assert_eq!(lost, [bye(7, "BYE a\r\n"), bye(8, "BYE b\r\n")]);
        calls.finish();
        let (calls, lost) = StandingCalls::open(folder.path()).unwrap();
        assert_eq!(lost, []);
        calls.finish();
    }

    #[test]
    fn the_file_does_not_grow_with_calls_that_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (calls, _) = StandingCalls::open(folder.path()).unwrap();
        calls.push(answered(0));
        for call in 1..30_000 {
            let queue = &calls.queue;
            queue.send(Some(answered(call))).unwrap();
            queue.send(Some(Event::Ended { call })).unwrap();
        }
        calls.finish();
        let path = folder.path().join(NAME);
        assert!(fs::metadata(&path).unwrap().len() < MAX_PAST as u64 + 1000);
        let (calls, lost) = StandingCalls::open(folder.path()).unwrap();
        assert_eq!(lost.len(), 2);
        calls.finish();
    }
}
