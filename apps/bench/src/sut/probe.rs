//! A probe of the server: an OPTIONS request before the load, so that a wrong address is reported
//! at once.

use super::options;
use crate::target::Target;
use net::tls::{Client, ServerName, Trust};
use sip::{Message, Transport};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use std::{fmt, io};

/// The timeout of an attempt, and the number of attempts.
const WAIT: Duration = Duration::from_millis(700);
const ATTEMPTS: usize = 4;

/// The address has no SIP server.
#[derive(Debug)]
pub(crate) struct NoServer {
    target: String,
    /// `None` if the answer is not SIP.
    error: Option<io::Error>,
}

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = &self.target;
        match &self.error {
            None => write!(f, "{target} answers, but not with a SIP message"),
            Some(error) => {
                write!(f, "no SIP server answers an OPTIONS request at {target}: {error}")
            }
        }
    }
}

impl std::error::Error for NoServer {}

/// Sends OPTIONS to the server at `target`, and returns the name that it reports, if any.
///
/// # Errors
/// [`NoServer`] if no SIP message comes back.
pub(crate) fn probe(target: &Target, domain: &str) -> Result<Option<String>, NoServer> {
    let wrong = |error: io::Error| NoServer { target: target.to_string(), error: Some(error) };
    let answer = match target.transport {
        Transport::Udp => ask_by_udp(target.address, domain),
        transport => ask_by_connection(transport, target.address, domain),
    };
    let answer = answer.map_err(wrong)?;
    let Ok(message) = Message::parse(&answer) else {
        return Err(NoServer { target: target.to_string(), error: None });
    };
    let name = message.fields().find(|field| {
        field.raw_name().eq_ignore_ascii_case(b"Server")
            || field.raw_name().eq_ignore_ascii_case(b"User-Agent")
    });
    Ok(name.map(|field| String::from_utf8_lossy(field.value).into_owned()))
}

fn ask_by_udp(target: SocketAddr, domain: &str) -> io::Result<Vec<u8>> {
    let any: SocketAddr =
        if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    socket.set_read_timeout(Some(WAIT))?;
    let request = options("UDP", socket.local_addr()?, domain);
    let mut buffer = vec![0; 65_536];
    let mut last = io::ErrorKind::TimedOut.into();
    for _ in 0..ATTEMPTS {
        socket.send(&request)?;
        match socket.recv(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(buffer);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                last = error;
                // The port has no listener yet.
                std::thread::sleep(WAIT / 4);
            }
        }
    }
    Err(last)
}

fn ask_by_connection(
    transport: Transport,
    target: SocketAddr,
    domain: &str,
) -> io::Result<Vec<u8>> {
    let client = transport.is_secure().then(|| Client::new(&Trust::Any, None, true));
    let client = client.transpose().map_err(io::Error::other)?;
    let name = ServerName::try_from(domain.to_owned()).unwrap_or(target.ip().into());
    let tls = client.as_ref().map(|client| (client, name));
    let request = |local| options(transport.via_name(), local, domain);
    net::ask(transport, target, tls, request, WAIT * ATTEMPTS as u32)
}
