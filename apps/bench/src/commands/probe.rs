//! A probe of the server: an OPTIONS request before the load, so that a wrong address is reported
//! at once.

use super::error::CommandError;
use crate::cli::load::LoadArgs;
use crate::cli::target::Target;
use crate::console::complain;
use crate::measure::MeasureError;
use crate::sut::options;
use net::tls::{Client, ServerName, Trust};
use sip::{Message, Transport};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The timeout of an attempt, and the number of attempts.
const WAIT: Duration = Duration::from_millis(700);
const ATTEMPTS: usize = 4;

/// Sends OPTIONS to the server at `target`, and returns the name that it reports, if any.
///
/// # Errors
/// [`CommandError::NoServer`] if no SIP message comes back.
pub(crate) fn probe(target: &Target, domain: &str) -> Result<Option<String>, CommandError> {
    let wrong = |error: io::Error| CommandError::NoServer(target.to_string(), Some(error));
    let answer = match target.transport {
        Transport::Udp => ask_by_udp(target.address, domain),
        transport => ask_by_connection(transport, target.address, domain),
    };
    let answer = answer.map_err(wrong)?;
    let Ok(message) = Message::parse(&answer) else {
        return Err(CommandError::NoServer(target.to_string(), None));
    };
    let name = message.fields().find(|field| {
        field.raw_name().eq_ignore_ascii_case(b"Server")
            || field.raw_name().eq_ignore_ascii_case(b"User-Agent")
    });
    Ok(name.map(|field| String::from_utf8_lossy(field.value).into_owned()))
}

/// Resolves the target of `load`, if the DNS lists several servers for it, to the first that
/// answers, in the order of the DNS (RFC 3263 section 4.3). Without a probe (`--no-probe`) it is
/// the first.
///
/// # Errors
/// [`CommandError::NoServers`] if no server answers, and [`MeasureError::Stopped`] if `ending` is
/// set.
pub(super) fn settle(load: &mut LoadArgs, ending: &AtomicBool) -> Result<(), CommandError> {
    let Some(mut target) = load.target.take_if(|target| !target.others.is_empty()) else {
        return Ok(());
    };
    let mut others = std::mem::take(&mut target.others).into_iter();
    let mut failures = Vec::new();
    if !load.detail.no_probe {
        while let Err(error) = probe(&target, load.domain_at(&target)) {
            if ending.load(Ordering::Relaxed) {
                return Err(MeasureError::Stopped.into());
            }
            let Some(next) = others.next() else {
                failures.push(error.to_string());
                return Err(CommandError::NoServers(target.host, failures));
            };
            (target.transport, target.address) = (next.transport, next.address);
            complain(format_args!(
                "{error}; trying {target}, the next that {} leads to",
                target.host
            ));
            failures.push(error.to_string());
        }
    }
    load.target = Some(target);
    Ok(())
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
    let client = transport.is_secure().then(|| Client::new(&Trust::Anybody, None, true));
    let client = client.transpose().map_err(io::Error::other)?;
    let name = ServerName::try_from(domain.to_owned()).unwrap_or(target.ip().into());
    let tls = client.as_ref().map(|client| (client, name));
    let request = |local| options(transport.via_name(), local, domain);
    net::ask(transport, target, tls, request, WAIT * ATTEMPTS as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;
    use sip::locate::Target as Location;

    /// Returns the result of `settle` for a target that the DNS resolves to these places, and the
    /// target after it.
    fn settled(places: &[(Transport, SocketAddr)], more: &str) -> (Result<(), String>, String) {
        let words = ["barebell-bench", "run", "--target", "127.0.0.1"];
        let cli = Cli::try_parse_from(words.into_iter().chain(more.split_whitespace())).unwrap();
        let Command::Run(mut run) = cli.command else { panic!("a run") };
        let mut places = places.iter().map(|&(transport, address)| Location { transport, address });
        let Location { transport, address } = places.next().unwrap();
        let (host, others) = ("sip.example".to_owned(), places.collect());
        run.load.target = Some(Target { transport, address, host, others });
        let result = settle(&mut run.load, &AtomicBool::new(false));
        let target = run.load.target.map(|target| target.to_string()).unwrap_or_default();
        (result.map_err(|error| error.to_string()), target)
    }

    /// Starts a server that answers any datagram with `answer`.
    fn answering(answer: &'static str) -> SocketAddr {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 2000];
            while let Ok((_, from)) = socket.recv_from(&mut buffer) {
                socket.send_to(answer.as_bytes(), from).unwrap();
            }
        });
        address
    }

    #[test]
    fn the_first_server_that_answers_is_the_target() {
        let closed: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let other = answering("no SIP");
        let good = answering("SIP/2.0 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        let (udp, tcp) = (Transport::Udp, Transport::Tcp);
        let places = [(udp, closed), (tcp, closed), (udp, other), (udp, good), (udp, closed)];
        let (result, target) = settled(&places, "");
        assert_eq!((result, target), (Ok(()), format!("udp:{good}")));
        let (result, _) = settled(&places[..3], "");
        let error = result.unwrap_err();
        for why in
            ["udp:127.0.0.1:1: Conn", "tcp:127.0.0.1:1: Conn", &format!("udp:{other} answers")]
        {
            assert!(error.contains(why), "{why}: {error}");
        }
        // Without a probe there is no failover, and a single server is probed later.
        assert_eq!(settled(&places, "--no-probe"), (Ok(()), "udp:127.0.0.1:1".to_owned()));
        assert_eq!(settled(&places[..1], ""), (Ok(()), "udp:127.0.0.1:1".to_owned()));
    }
}
