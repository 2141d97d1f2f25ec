//! One request over a connection of its own.

use crate::tls::{Client, ServerName};
use crate::{Reader, Wire};
use sip::Transport;
use sip::stream::StreamItem;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// The maximum number of bytes that wait to be written.
const MAX_UNSENT: usize = 1 << 20;

/// Sends a request to `remote` by `transport`, which is a stream transport, and returns the first
/// message received. `request` creates the request from the local address. With `tls`, the
/// connection uses TLS, and the server must prove the name.
///
/// # Errors
/// No message arrives within `patience`, or the connection fails.
pub fn ask(
    transport: Transport,
    remote: SocketAddr,
    tls: Option<(&Client, ServerName<'static>)>,
    request: impl FnOnce(SocketAddr) -> Vec<u8>,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    let end = Instant::now() + patience;
    let mut socket = TcpStream::connect_timeout(&remote, patience)?;
    let is_web = matches!(transport, Transport::Ws | Transport::Wss);
    let session = tls.map(|(client, name)| match is_web {
        true => client.connect_web(name),
        false => client.connect(name),
    });
    let wire = Wire::new(session.transpose().map_err(invalid)?, MAX_UNSENT);
    let (mut wire, mut reader) = match is_web {
        true => {
            let mut nonce = [0; 16];
            getrandom::fill(&mut nonce)?;
            (wire.web_client(&remote.to_string(), nonce), Reader::web_client(nonce))
        }
        false => (wire, Reader::default()),
    };
    let mut request = Some(request(socket.local_addr()?));
    let mut chunk = [0; 16 << 10];
    loop {
        if wire.is_ready()
            && let Some(request) = request.take()
        {
            wire.push(&[&request[..]]).map_err(io::Error::other)?;
        }
        socket.write_all(wire.pending())?;
        wire.consume(wire.pending().len());
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let count = match socket.read(&mut chunk) {
            Ok(0) => {
                return Err(io::Error::other("the connection was closed without an answer"));
            }
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        };
        let plain = wire.receive(&chunk[..count]).map_err(invalid)?;
        let mut answer = None;
        let heard = |heard: StreamItem<'_>| {
            if let StreamItem::Message(bytes) = heard {
                answer.get_or_insert(bytes.to_vec());
            }
            ControlFlow::Continue(())
        };
        reader.receive(&plain, heard, |reply| wire.reply(reply)).map_err(invalid)?;
        if let Some(answer) = answer {
            return Ok(answer);
        }
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
