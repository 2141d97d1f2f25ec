//! The server's half: a thread that accepts, and one for each client.

use super::{Answer, Control, Registration, Request, UserRemoved, UserRow, UsersStored};
use crate::accounts::{self, Stored};
use crate::data_dir::control_socket;
use crate::domains;
use crate::log;
use crate::storage::Storage;
use serde::Serialize;
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Clients served at a time; further ones are told to come back.
pub(super) const MAX_CLIENTS: usize = 16;
/// Longest request line, in bytes.
const MAX_REQUEST: u64 = 64 * 1024;
/// How long a client may keep the server waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// The running administration. Dropping it ends it and removes the socket; clients being served
/// are finished by their threads.
#[derive(Debug)]
pub(crate) struct Server {
    socket: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on the socket in the data directory of `storage`, whose lock keeps other servers
    /// away.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub(crate) fn start(storage: Arc<Storage>, control: Arc<dyn Control>) -> io::Result<Self> {
        let socket = control_socket(storage.path());
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
        let ending = Arc::new(AtomicBool::new(false));
        let is_ending = Arc::clone(&ending);
        let desk = Arc::new(Desk { storage, control, clients: AtomicUsize::new(0) });
        let thread = thread::spawn(move || accept(&listener, &desk, &is_ending));
        Ok(Self { socket, ending, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        // Wakes the thread, which waits in `accept`.
        let woken = UnixStream::connect(&self.socket).is_ok();
        let _ = std::fs::remove_file(&self.socket);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &UnixListener, desk: &Arc<Desk>, ending: &AtomicBool) {
    for stream in listener.incoming() {
        if ending.load(Ordering::SeqCst) {
            return;
        }
        let result = stream.and_then(|stream| desk.receive(stream));
        if let Err(error) = result {
            log::warn("admin", || format!("a command cannot be received: {error}"));
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// What clients are served from.
struct Desk {
    storage: Arc<Storage>,
    control: Arc<dyn Control>,
    clients: AtomicUsize,
}

impl Desk {
    /// Gives `stream` a thread of its own, if there are not too many.
    fn receive(self: &Arc<Self>, stream: UnixStream) -> io::Result<()> {
        if self.clients.load(Ordering::SeqCst) >= MAX_CLIENTS {
            return Answers::new(&stream).error(&format!(
                "{MAX_CLIENTS} commands are being answered already: try again in a moment"
            ));
        }
        self.clients.fetch_add(1, Ordering::SeqCst);
        let desk = Arc::clone(self);
        let started = thread::Builder::new().name("admin".to_owned()).spawn(move || {
            desk.serve(&stream);
            desk.clients.fetch_sub(1, Ordering::SeqCst);
        });
        if started.is_err() {
            self.clients.fetch_sub(1, Ordering::SeqCst);
        }
        started.map(drop)
    }

    fn serve(&self, stream: &UnixStream) {
        // A client that ended early, as `barebell registrations | head` does, is no event.
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
        match self.answer(request, &mut input, &mut answers) {
            Ok(()) => answers.end(),
            Err(Refusal::Client(error)) => Err(error),
            Err(Refusal::Request(text)) => answers.error(&text),
        }
    }

    fn answer(
        &self,
        request: Request,
        input: &mut dyn BufRead,
        answers: &mut Answers<'_>,
    ) -> Result<(), Refusal> {
        match request {
            Request::Status => answers.row(&self.control.status())?,
            Request::Registrations => {
                let mut result = Ok(());
                self.control.registrations(&mut |registration: Registration| {
                    result = answers.row(&registration);
                    result.is_ok()
                });
                result?;
            }
            Request::Users { domain } => {
                let mut result = Ok(());
                self.storage.users(domain.as_deref(), &mut |user| {
                    result = answers.row(&UserRow::from(user));
                    result.is_ok()
                })?;
                result?;
            }
            Request::AddUser { name, domain, password, auth_name } => {
                let identity =
                    accounts::identify(&name, domain.as_deref(), &self.control.domains())?;
                let stored =
                    accounts::add(&self.storage, &identity, &password, auth_name.as_deref())?;
                let uri = Some(identity.uri());
                answers.row(&self.take_effect(&stored, uri, identity.domain))?;
            }
            Request::ImportUsers { domain, length } => {
                let mut input = BufReader::new(Exactly { input, left: length });
                let domains = self.control.domains();
                let domain = accounts::domain("the file", domain.as_deref(), &domains)?;
                let stored = accounts::import(&self.storage, &domain, &mut input)?;
                answers.row(&self.take_effect(&stored, None, domain))?;
            }
            Request::RemoveUser { name, domain } => {
                let identity =
                    accounts::identify(&name, domain.as_deref(), &self.control.domains())?;
                accounts::remove(&self.storage, &identity)?;
                self.control.user_removed(&identity.name, &identity.domain);
                answers.row(&UserRemoved { uri: identity.uri() })?;
            }
        }
        Ok(())
    }

    fn take_effect(&self, stored: &Stored, uri: Option<String>, domain: String) -> UsersStored {
        self.control.users_added(&stored.users);
        let served = domains::find(&self.control.domains(), &domain).is_some();
        let (added, changed) = (stored.change.added, stored.change.changed);
        UsersStored { added, changed, uri, domain, served }
    }
}

/// The next `left` bytes of `input`, which are an error if there are fewer.
struct Exactly<'i> {
    input: &'i mut dyn BufRead,
    left: u64,
}

impl Read for Exactly<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.take(self.left).read(buffer)?;
        self.left -= read as u64;
        if read == 0 && self.left > 0 && !buffer.is_empty() {
            let text = format!("the command ended {} bytes early", self.left);
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
        }
        Ok(read)
    }
}

/// Why a request was not fulfilled.
enum Refusal {
    /// The client does not take the answer.
    Client(io::Error),
    /// It cannot be done.
    Request(String),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Client(error)
    }
}

impl From<accounts::Error> for Refusal {
    fn from(error: accounts::Error) -> Self {
        Self::Request(error.to_string())
    }
}

impl From<crate::storage::Error> for Refusal {
    fn from(error: crate::storage::Error) -> Self {
        Self::Request(error.to_string())
    }
}

/// The lines that go to a client.
struct Answers<'s>(BufWriter<&'s UnixStream>);

impl<'s> Answers<'s> {
    fn new(stream: &'s UnixStream) -> Self {
        Self(BufWriter::with_capacity(64 * 1024, stream))
    }

    fn row(&mut self, row: &impl Serialize) -> io::Result<()> {
        self.line(&Answer::Row(row))
    }

    fn end(mut self) -> io::Result<()> {
        self.line(&Answer::<()>::End)?;
        self.0.flush()
    }

    fn error(mut self, text: &str) -> io::Result<()> {
        self.line(&Answer::<()>::Error(text.to_owned()))?;
        self.0.flush()
    }

    fn line<T: Serialize>(&mut self, answer: &Answer<T>) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, answer)?;
        self.0.write_all(b"\n")
    }
}
