//! The client of the control socket, used by the commands.

use super::ask::Ask;
use super::sink::Row;
use super::{Answer, Request};
use crate::data_dir::control_socket;
use crate::failure::{Failure, during};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, socket};
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The timeout for a connection, and for an answer from memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// The timeout for an answer from the database, which may be busy with a checkpoint of
/// registrations.
const DATABASE_PATIENCE: Duration = Duration::from_secs(30);
/// The timeout for an import, a backup and a restore: millions of users take a while on a slow
/// disk.
const IMPORT_PATIENCE: Duration = Duration::from_secs(120);

/// A connection to the server that uses a data directory.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    socket: PathBuf,
    /// An upper bound of all timeouts, for tests.
    most_patience: Duration,
}

impl Client {
    /// Connects to the server that uses the directory `data`. Returns `None` if no server uses it.
    ///
    /// # Errors
    /// [`Failure`] if the socket exists and cannot be reached.
    pub(crate) fn connect(data: &Path) -> Result<Option<Self>, Failure> {
        Self::connect_within(IMPORT_PATIENCE, data)
    }

    /// Like [`Client::connect`], with all timeouts limited to `most_patience`.
    pub(super) fn connect_within(
        most_patience: Duration,
        data: &Path,
    ) -> Result<Option<Self>, Failure> {
        let socket = control_socket(data);
        match connect(&socket, most_patience.min(PATIENCE)) {
            Ok(stream) => Ok(Some(Self { stream, socket, most_patience })),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(error) if is_timeout(&error) => Err(silent(&socket, most_patience.min(PATIENCE))),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(Failure::message(
                format!("{} is a file: --data names a folder", data.display()),
            )),
            Err(error) => Err(Failure::message(format!(
                "cannot open {}: {error}; run this as the owner of {}, or name another folder with \
                 --data",
                socket.display(),
                data.display()
            ))),
        }
    }

    fn send(&self, request: &Request, file: &[u8]) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let mut stream = &self.stream;
        // A server that rejects the request closes its input early. Its error is still to be read.
        let _ = stream.write_all(&line).and_then(|()| stream.write_all(file));
        Ok(())
    }
}

impl Ask for Client {
    fn ask_each<T: Row>(
        self,
        request: &Request,
        file: &[u8],
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let patience = patience(request).min(self.most_patience);
        self.stream.set_read_timeout(Some(patience))?;
        self.stream.set_write_timeout(Some(patience))?;
        self.send(request, file)?;
        for line in BufReader::with_capacity(64 * 1024, &self.stream).lines() {
            let line = line.map_err(|error| match is_timeout(&error) {
                true => silent(&self.socket, patience),
                false => during("the server does not answer")(error),
            })?;
            match serde_json::from_str(&line).map_err(during("the server's answer is invalid"))? {
                Answer::Row(row) => each(row)?,
                Answer::End => return Ok(()),
                Answer::Error(text) => return Err(Failure::Message(text)),
            }
        }
        Err(Failure::message("the server ended in the middle of its answer: is it being stopped?"))
    }
}

/// The timeout for the next line of an answer.
const fn patience(request: &Request) -> Duration {
    match request {
        Request::Status
        | Request::Registrations
        | Request::Calls
        | Request::Trunks
        | Request::Limits
        | Request::MarkTrace { .. }
        | Request::TraceMarks
        | Request::Traces
        | Request::Trace { .. }
        | Request::EndTraces
        | Request::Recent { .. }
        | Request::Why { .. }
        | Request::EndCall { .. }
        | Request::EndRegistration { .. }
        | Request::Messages { .. }
        | Request::Drain { .. } => PATIENCE,
        Request::History { .. }
        | Request::Users { .. }
        | Request::UserDomains { .. }
        | Request::FindUser { .. }
        | Request::AddUser { .. }
        | Request::ChangeServices { .. }
        | Request::Accounts
        | Request::RemoveSecondFactor { .. }
        | Request::SetPassword { .. }
        | Request::AddToken { .. }
        | Request::Tokens
        | Request::RemoveToken { .. }
        | Request::RemoveUser { .. } => DATABASE_PATIENCE,
        Request::ImportUsers { .. }
        | Request::MoveUsers { .. }
        | Request::Backup { .. }
        | Request::Restore { .. } => IMPORT_PATIENCE,
    }
}

/// Connects to `path`. Waits at most `patience` if the queue of connections is full.
fn connect(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let stream = UnixStream::from(socket(AddressFamily::Unix, SockType::Stream, flags, None)?);
    stream.set_write_timeout(Some(patience))?;
    nix::sys::socket::connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(stream)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn silent(socket: &Path, patience: Duration) -> Failure {
    Failure::message(format!(
        "the server at {} has not answered for {}: it hangs, is overloaded or waits for its disk; \
         read its log, and try again. The command may still take effect",
        socket.display(),
        humantime::format_duration(patience)
    ))
}
