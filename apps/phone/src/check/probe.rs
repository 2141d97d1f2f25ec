//! Sends OPTIONS to a server and waits for its response (RFC 3261 section 11).

use super::date;
use crate::random::random;
use net::tls::{Client, ServerName};
use sip::{HeaderName, Message, Transport};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

/// Time limit for a response, and the number of datagrams sent in that time.
const PATIENCE: Duration = Duration::from_secs(3);
const TRIES: u32 = 3;

/// The response of a server.
pub(super) struct Answered {
    pub(super) status: u16,
    pub(super) reason: String,
    /// The server's Date.
    pub(super) date: Option<SystemTime>,
    pub(super) after: Duration,
}

/// Sends OPTIONS to the server at `remote` for its URI. `tls` is the TLS client and the server's
/// name.
///
/// # Errors
/// A description of why there is no response.
pub(super) fn options(
    transport: Transport,
    remote: SocketAddr,
    tls: Option<(&Client, ServerName<'static>)>,
    uri: &str,
) -> Result<Answered, String> {
    let begun = Instant::now();
    let bytes = match transport {
        Transport::Udp => by_datagrams(remote, uri),
        _ => {
            let request = |local| request(transport.via_name(), local, uri);
            net::ask(transport, remote, tls, request, PATIENCE)
        }
    };
    let bytes = bytes.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no answer within {} s", PATIENCE.as_secs())
        }
        io::ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
        _ => error.to_string(),
    })?;
    let message = Message::parse(&bytes).map_err(|_| "the answer is not SIP".to_owned())?;
    let status = message.status().ok_or("the answer is not SIP")?;
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let reason = String::from_utf8_lossy(line).splitn(3, ' ').nth(2).unwrap_or_default().to_owned();
    let date = message.value(HeaderName::Date).and_then(date::parse);
    Ok(Answered { status, reason, date, after: begun.elapsed() })
}

fn request(transport: &str, local: SocketAddr, uri: &str) -> Vec<u8> {
    let mut token = [0; 8];
    random(&mut token);
    let token = u64::from_le_bytes(token);
    let target = uri.split(';').next().unwrap_or(uri);
    let target =
        target.rsplit_once('@').map_or(target.to_owned(), |(_, host)| format!("sip:{host}"));
    format!(
        "OPTIONS {target} SIP/2.0\r\nVia: SIP/2.0/{transport} {local};branch=z9hG4bK{token:016x};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:check@{local}>;tag={token:x}\r\nTo: <{target}>\r\n\
         Call-ID: {token:x}@check\r\nCSeq: 1 OPTIONS\r\nAccept: application/sdp\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}

fn by_datagrams(remote: SocketAddr, uri: &str) -> io::Result<Vec<u8>> {
    let any: SocketAddr = match remote {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0_u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(remote)?;
    socket.set_read_timeout(Some(PATIENCE / TRIES))?;
    let request = request("UDP", socket.local_addr()?, uri);
    let mut answer = vec![0; sip::message::MAX_MESSAGE];
    let mut last = io::Error::from(io::ErrorKind::TimedOut);
    for _ in 0..TRIES {
        socket.send(&request)?;
        match socket.recv(&mut answer) {
            Ok(length) => {
                answer.truncate(length);
                return Ok(answer);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
