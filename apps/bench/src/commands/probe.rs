//! The choice between the servers that the DNS lists for a host.

use super::error::CommandError;
use crate::cli::load::LoadArgs;
use crate::console::complain;
use crate::measure::MeasureError;
use crate::sut::probe;
use std::sync::atomic::{AtomicBool, Ordering};

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
            complain(format_args!("{error}; trying {target}, the next server of {}", target.host));
            failures.push(error.to_string());
        }
    }
    load.target = Some(target);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use crate::target::Target;
    use clap::Parser as _;
    use sip::Transport;
    use sip::locate::Target as Location;
    use std::net::{SocketAddr, UdpSocket};

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
