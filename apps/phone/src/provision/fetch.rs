//! One HTTP request for a file of some lines, over TLS.

use super::link::Link;
use crate::outcome::Outcome;
use net::Wire;
use net::tls::{Client, ServerName, Trust};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// The time for the connection, the handshake and the answer together.
const PATIENCE: Duration = Duration::from_secs(20);
/// The maximum length of an answer in bytes.
const MAX_ANSWER: usize = 32 << 10;

/// The file at `link`. The server must have a certificate that `trust` permits. Redirects are not
/// followed.
///
/// # Errors
/// The server cannot be reached, is not trusted, or answers otherwise.
pub(super) fn fetch(link: &Link, trust: &Trust) -> Result<String, Outcome> {
    let session = match link.is_secure {
        true => {
            let client = Client::new(trust, None, false);
            let client = client.map_err(|error| Outcome::Usage(error.to_string()))?;
            let name = ServerName::try_from(link.host.clone());
            let name = name.map_err(|_| Outcome::Usage(format!("{} is no host", link.host)))?;
            let session = client.connect_web(name);
            Some(session.map_err(|error| Outcome::Failed(error.to_string()))?)
        }
        false => None,
    };
    let end = Instant::now() + PATIENCE;
    let mut socket = connect(link, end)?;
    let mut wire = Wire::new(session, MAX_ANSWER);
    // The answer to HTTP/1.0 comes in one piece.
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {}\r\nUser-Agent: barebell-phone/{}\r\nAccept: text/plain\r\n\r\n",
        link.path,
        link.authority,
        env!("CARGO_PKG_VERSION")
    );
    let mut request = Some(request.into_bytes());
    let broken = |error: &dyn std::fmt::Display| {
        Outcome::Unreachable(format!("{} does not answer: {error}", link.authority))
    };
    let mut answer = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        if wire.is_ready()
            && let Some(request) = request.take()
        {
            wire.push(&[&request[..]]).map_err(|_| broken(&"the link is too long"))?;
        }
        socket.write_all(wire.pending()).map_err(|error| broken(&error))?;
        wire.consume(wire.pending().len());
        if let Some(text) = read(&answer).map_err(|problem| problem.after(&link.authority))? {
            return Ok(text);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(broken(&"the time is over"));
        }
        socket.set_read_timeout(Some(left)).map_err(|error| broken(&error))?;
        let count = match socket.read(&mut chunk) {
            Ok(0) => return Err(broken(&"it has ended the connection early")),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(broken(&error)),
        };
        let plain = wire.receive(&chunk[..count]).map_err(|error| {
            let text = format!("{}: {error}", link.authority);
            match error.is_of_certificate() {
                true => Outcome::Untrusted(format!("{text} (--trust)")),
                false => Outcome::Unreachable(text),
            }
        })?;
        answer.extend_from_slice(&plain);
        if answer.len() > MAX_ANSWER {
            return Err(broken(&"its answer is longer than that of any phone"));
        }
        if wire.has_ended() && read(&answer).is_ok_and(|text| text.is_none()) {
            return Err(broken(&"it has ended the connection early"));
        }
    }
}

/// A connection to the first address of the host that answers.
fn connect(link: &Link, end: Instant) -> Result<TcpStream, Outcome> {
    let Link { host, port, authority, .. } = link;
    let addresses = (host.as_str(), *port).to_socket_addrs();
    let addresses = addresses
        .map_err(|error| Outcome::NotLocated(format!("{host} has no address: {error}")))?;
    let mut last = Outcome::NotLocated(format!("{host} has no address"));
    for address in addresses {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(socket) => {
                let limited = socket.set_write_timeout(Some(PATIENCE));
                limited.map_err(|error| Outcome::Failed(error.to_string()))?;
                return Ok(socket);
            }
            Err(error) => {
                last = Outcome::Unreachable(format!("{authority} cannot be reached: {error}"));
            }
        }
    }
    Err(last)
}

/// The content of an answer, once all of it is there.
fn read(answer: &[u8]) -> Result<Option<String>, Outcome> {
    let other = |text: String| Err(Outcome::Failed(text));
    let Some(length) = answer.windows(4).position(|end| end == b"\r\n\r\n") else {
        return match answer.starts_with(b"HTTP/1.") || b"HTTP/1.".starts_with(answer) {
            true => Ok(None),
            false => other("this is no answer of HTTP".to_owned()),
        };
    };
    let head = String::from_utf8_lossy(&answer[..length]);
    let (start, fields) = head.split_once("\r\n").unwrap_or((&head, ""));
    let mut words = start.split(' ');
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let status = words.next().and_then(|word| word.parse::<u16>().ok()).filter(|_| is_http);
    match status {
        Some(200) => {}
        Some(404) => {
            return Err(Outcome::NotFound(
                "the link is not valid: it was used, it has expired, or the user has another \
                 password now; make another one"
                    .to_owned(),
            ));
        }
        Some(300..=399) => {
            return other("it leads to another place, which is not followed".to_owned());
        }
        Some(status) => return other(format!("it answers {status}")),
        None => return other("this is no answer of HTTP".to_owned()),
    }
    let field = |wanted: &str| {
        let fields = fields.lines().filter_map(|line| line.split_once(':'));
        let mut found = fields.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.next().map(|(_, value)| value.trim().to_owned())
    };
    let wanted = field("content-length").and_then(|value| value.parse::<usize>().ok());
    let Some(wanted) = wanted.filter(|_| field("transfer-encoding").is_none()) else {
        return other("it answers without the length of the file".to_owned());
    };
    if wanted > MAX_ANSWER {
        return other(format!("its answer has {wanted} bytes, at most {MAX_ANSWER} are expected"));
    }
    let Some(content) = answer[length + 4..].get(..wanted) else { return Ok(None) };
    match String::from_utf8(content.to_vec()) {
        Ok(text) => Ok(Some(text)),
        Err(_) => other("its answer is no text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_whole_answer_is_awaited() {
        let answer =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-LENGTH: 5\r\n\r\nhello";
        for length in 0..answer.len() {
            assert_eq!(read(&answer[..length]), Ok(None), "{length}");
        }
        assert_eq!(read(answer), Ok(Some("hello".to_owned())));
    }

    #[test]
    fn other_answers_are_refused() {
        let moved = "HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\n\r\n";
        for (answer, code) in [
            (moved, 1),
            ("HTTP/1.1 404 Not Found\r\n\r\n", 13),
            ("HTTP/1.1 500 Oops\r\n\r\n", 1),
            ("HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", 1),
            ("HTTP/1.1 200 OK\r\n\r\nhello", 1),
            ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 1),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n", 1),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello", 1),
            ("SIP/2.0 200 OK\r\n\r\n", 1),
            ("220 mail.example ESMTP\r\n", 1),
        ] {
            assert_eq!(read(answer.as_bytes()).unwrap_err().code(), code, "{answer}");
        }
        assert!(read(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n\xff").is_err());
    }

    proptest! {
        #[test]
        fn no_answer_panics(answer in any::<Vec<u8>>(), tail in any::<Vec<u8>>()) {
            let _ = read(&answer);
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: ";
            let _ = read(&[&head[..], &answer, b"\r\n\r\n", &tail].concat());
        }
    }
}
