//! Is anybody there? An OPTIONS request before anything else, so that a wrong address is told at once
//! and not found out in a load.

use super::CommandError;
use crate::cli::target::Target;
use sip::{Message, Transport};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// How long one attempt waits, and how many there are.
const WAIT: Duration = Duration::from_millis(700);
const ATTEMPTS: usize = 4;

/// Asks the server at `target`, and returns what it calls itself, if it says so.
///
/// # Errors
/// [`CommandError::NoServer`] where no SIP message comes back.
pub(crate) fn probe(target: &Target, domain: &str) -> Result<Option<String>, CommandError> {
    let wrong = |error: io::Error| CommandError::NoServer(target.to_string(), Some(error));
    let mut buffer = [0; 65_536];
    let length = match target.transport {
        Transport::Udp => ask_by_udp(target.address, domain, &mut buffer),
        _ => ask_by_tcp(target.address, domain, &mut buffer),
    }
    .map_err(wrong)?;
    let Ok(message) = Message::parse(&buffer[..length]) else {
        return Err(CommandError::NoServer(target.to_string(), None));
    };
    let name = message.fields().find(|field| {
        field.raw_name().eq_ignore_ascii_case(b"Server")
            || field.raw_name().eq_ignore_ascii_case(b"User-Agent")
    });
    Ok(name.map(|field| String::from_utf8_lossy(field.value).into_owned()))
}

fn ask_by_udp(target: SocketAddr, domain: &str, buffer: &mut [u8]) -> io::Result<usize> {
    let any: SocketAddr =
        if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any)?;
    socket.connect(target)?;
    socket.set_read_timeout(Some(WAIT))?;
    let request = request("UDP", socket.local_addr()?, domain);
    let mut last = io::ErrorKind::TimedOut.into();
    for _ in 0..ATTEMPTS {
        socket.send(&request)?;
        match socket.recv(buffer) {
            Ok(length) => return Ok(length),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                last = error;
                // Nobody listens there, yet.
                std::thread::sleep(WAIT / 4);
            }
        }
    }
    Err(last)
}

fn ask_by_tcp(target: SocketAddr, domain: &str, buffer: &mut [u8]) -> io::Result<usize> {
    let mut stream = TcpStream::connect_timeout(&target, WAIT * ATTEMPTS as u32)?;
    stream.set_read_timeout(Some(WAIT * ATTEMPTS as u32))?;
    stream.write_all(&request("TCP", stream.local_addr()?, domain))?;
    stream.read(buffer)
}

fn request(transport: &str, local: SocketAddr, domain: &str) -> Vec<u8> {
    let id = getrandom::u64().unwrap_or_default();
    format!(
        "OPTIONS sip:{domain} SIP/2.0\r\nVia: SIP/2.0/{transport} {local};rport;branch=z9hG4bK{id:x}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:bench@{domain}>;tag={id:x}\r\nTo: <sip:{domain}>\r\n\
         Call-ID: {id:x}\r\nCSeq: 1 OPTIONS\r\nUser-Agent: barebell-bench\r\nContent-Length: 0\r\n\r\n"
    )
    .into_bytes()
}
