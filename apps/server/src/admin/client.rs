//! The commands' half.

use super::{Answer, Request};
use crate::data_dir::control_socket;
use crate::failure::{Failure, during};
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long the server may take for the next line of its answer. An import of millions of users
/// ends with a commit that takes a while on a slow disk.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to the server that uses a data directory.
#[derive(Debug)]
pub(crate) struct Client(UnixStream);

impl Client {
    /// Connects to the server that uses the directory `data`. `None`: no server does.
    ///
    /// # Errors
    /// When there may be a server and it cannot be reached.
    pub(crate) fn connect(data: &Path) -> Result<Option<Self>, Failure> {
        let socket = control_socket(data);
        match UnixStream::connect(&socket) {
            Ok(stream) => Ok(Some(Self(stream))),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(Failure::said(format!(
                "cannot talk to the server at {}: {error}; run this as the user that the server \
                 runs as, or name another directory with --data",
                socket.display()
            ))),
        }
    }

    /// Asks for something that has one row.
    ///
    /// # Errors
    /// What the server says, or that it says nothing.
    pub(crate) fn ask<T: DeserializeOwned>(self, request: &Request) -> Result<T, Failure> {
        self.ask_with(request, &[])
    }

    /// Like [`Client::ask`], with a file after the request.
    ///
    /// # Errors
    /// As for [`Client::ask`].
    pub(crate) fn ask_with<T: DeserializeOwned>(
        self,
        request: &Request,
        file: &[u8],
    ) -> Result<T, Failure> {
        let mut row = None;
        self.exchange(request, file, &mut |found| {
            row = Some(found);
            Ok(())
        })?;
        row.ok_or_else(|| Failure::said("the server's answer has nothing in it"))
    }

    /// Asks for something that has any number of rows.
    ///
    /// # Errors
    /// What the server says, that it says nothing, or what `each` returns.
    pub(crate) fn list<T: DeserializeOwned>(
        self,
        request: &Request,
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.exchange(request, &[], each)
    }

    fn exchange<T: DeserializeOwned>(
        self,
        request: &Request,
        file: &[u8],
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.0.set_read_timeout(Some(PATIENCE))?;
        self.0.set_write_timeout(Some(PATIENCE))?;
        self.send(request, file)?;
        for line in BufReader::with_capacity(64 * 1024, &self.0).lines() {
            let line = line.map_err(during("the server does not answer"))?;
            match serde_json::from_str(&line).map_err(during("the server's answer is strange"))? {
                Answer::Row(row) => each(row)?,
                Answer::End => return Ok(()),
                Answer::Error(text) => return Err(Failure::Said(text)),
            }
        }
        Err(Failure::said("the server ended in the middle of its answer: is it being stopped?"))
    }

    fn send(&self, request: &Request, file: &[u8]) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let mut stream = &self.0;
        // A server that refuses the request closes its half early; its reason is still to be read.
        let _ = stream.write_all(&line).and_then(|()| stream.write_all(file));
        Ok(())
    }
}
