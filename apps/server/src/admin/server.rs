//! The server of the control socket: a thread that accepts, and one thread for each client.

use super::desk::Desk;
use super::sink::{Row, Sink};
use super::{Answer, commands};
use crate::data_dir::control_socket;
use crate::log;
use serde::Serialize;
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The maximum number of concurrent clients. Further ones are rejected with a message.
pub(super) const MAX_CLIENTS: usize = 16;
/// The maximum length of a request line, in bytes.
const MAX_REQUEST: u64 = 64 * 1024;
/// The timeout of reads from and writes to a client.
const PATIENCE: Duration = Duration::from_secs(10);

/// The running server. Dropping it ends it and removes the socket. Threads finish the requests in
/// progress.
#[derive(Debug)]
pub(crate) struct Server {
    socket: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on the socket in the data directory `data`, which the caller has locked, and has
    /// requests answered at `desk`.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub(crate) fn start(data: &Path, desk: Arc<dyn Desk>) -> io::Result<Self> {
        let socket = control_socket(data);
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
        let ending = Arc::new(AtomicBool::new(false));
        let is_ending = Arc::clone(&ending);
        let reception = Arc::new(Reception { desk, clients: AtomicUsize::new(0) });
        let thread = thread::Builder::new()
            .name("admin".to_owned())
            .spawn(move || accept(&listener, &reception, &is_ending))?;
        Ok(Self { socket, ending, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // Wakes the thread, which blocks in `accept`.
        let woken = UnixStream::connect(&self.socket).is_ok();
        let _ = std::fs::remove_file(&self.socket);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &UnixListener, reception: &Arc<Reception>, ending: &AtomicBool) {
    for stream in listener.incoming() {
        if ending.load(Ordering::SeqCst) {
            return;
        }
        let result = stream.and_then(|stream| reception.receive(stream));
        if let Err(error) = result {
            log::warn("admin", || format!("a command cannot be received: {error}"));
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// The state shared by the threads.
struct Reception {
    desk: Arc<dyn Desk>,
    /// The number of clients in progress.
    clients: AtomicUsize,
}

impl Reception {
    /// Starts a thread for `stream`, unless there are too many.
    fn receive(self: &Arc<Self>, stream: UnixStream) -> io::Result<()> {
        if self.clients.load(Ordering::SeqCst) >= MAX_CLIENTS {
            return Answers::new(&stream).error(&format!(
                "{MAX_CLIENTS} commands are being answered already: try again in a moment"
            ));
        }
        self.clients.fetch_add(1, Ordering::SeqCst);
        let reception = Arc::clone(self);
        let started = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            reception.serve(&stream);
            reception.clients.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            self.clients.fetch_sub(1, Ordering::SeqCst);
        }
        started.map(drop)
    }

    fn serve(&self, stream: &UnixStream) {
        // A client that ends early, as in `barebell registrations | head`, is not an error.
        match self.serve_one(stream).map_err(|error| (error.kind(), error)) {
            Err((io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset, _)) | Ok(()) => {}
            Err((_, error)) => {
                log::warn("admin", || format!("a command could not be answered: {error}"));
            }
        }
    }

    fn serve_one(&self, stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut input = BufReader::with_capacity(256 * 1024, stream);
        let mut line = Vec::new();
        input.by_ref().take(MAX_REQUEST).read_until(b'\n', &mut line)?;
        let mut answers = Answers::new(stream);
        let request = match serde_json::from_slice(&line) {
            Ok(request) => request,
            Err(error) => {
                return answers.error(&format!(
                    "the server does not know this request ({error}): it runs version {}, is this \
                     command of another version?",
                    env!("CARGO_PKG_VERSION")
                ));
            }
        };
        commands::answer(&*self.desk, &request, &mut input, &mut answers)
    }
}

/// The output to a client.
struct Answers<'s>(BufWriter<&'s UnixStream>);

impl<'s> Answers<'s> {
    fn new(stream: &'s UnixStream) -> Self {
        Self(BufWriter::with_capacity(64 * 1024, stream))
    }

    fn line<T: Serialize>(&mut self, answer: &Answer<T>) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, answer)?;
        self.0.write_all(b"\n")
    }
}

impl Sink for Answers<'_> {
    type Error = io::Error;

    fn row<R: Row>(&mut self, row: R) -> io::Result<()> {
        self.line(&Answer::Row(row))
    }

    fn end(&mut self) -> io::Result<()> {
        self.line(&Answer::<()>::End)?;
        self.0.flush()
    }

    fn error(&mut self, text: &str) -> io::Result<()> {
        self.line(&Answer::<()>::Error(text.to_owned()))?;
        self.0.flush()
    }
}
