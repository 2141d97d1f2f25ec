//! The listening sockets, and the class of service of their packets.

use crate::failure::{Failure, during};
use crate::listen::Listen;
use crate::log;
use net::{RECEIVE_BUFFER, Socket};
use sip::Transport;
use sip_server::config::{Advertised, Config, Listener};
use std::net::TcpListener;

/// The class of service of signalling in the IP header: CS3 (RFC 4594 section 3.1). Accepted
/// connections have that of their listener.
pub(super) const SIGNALLING: u8 = 24 << 2;

/// The bound sockets.
pub(super) struct Bound {
    /// For each UDP address, a socket for each worker.
    pub(super) sockets: Vec<Vec<Socket>>,
    /// The listening sockets of stream transports.
    pub(super) listeners: Vec<(Transport, TcpListener)>,
    /// The addresses of all of them, with the ports that the system has chosen.
    pub(super) listens: Vec<Listen>,
}

/// Binds all of `listens`, for the number of `workers`.
///
/// # Errors
/// [`Failure`] if one of the addresses cannot be bound.
pub(super) fn bind(listens: &[Listen], workers: usize) -> Result<Bound, Failure> {
    let mut bound = Bound { sockets: Vec::new(), listeners: Vec::new(), listens: Vec::new() };
    for listen in listens {
        let address = match listen.transport.is_stream() {
            false => {
                let group =
                    Socket::bind_group(listen.address, workers).map_err(cannot_listen(listen))?;
                let is_ipv4 = listen.address.is_ipv4();
                group.iter().for_each(|socket| net::set_class(socket, is_ipv4, SIGNALLING));
                if let Some(text) = group.first().and_then(|socket| small_buffer(listen, socket)) {
                    log::warn("receive-buffer", || text);
                }
                let address = group.first().map_or(listen.address, Socket::address);
                bound.sockets.push(group);
                address
            }
            true => {
                let listener = net::listen(listen.address).map_err(cannot_listen(listen))?;
                net::set_class(&listener, listen.address.is_ipv4(), SIGNALLING);
                let address = listener.local_addr()?;
                bound.listeners.push((listen.transport, listener));
                address
            }
        };
        bound.listens.push(Listen { address, ..listen.clone() });
    }
    Ok(bound)
}

/// Returns a warning if the system gives `socket` a smaller receive buffer than requested.
fn small_buffer(listen: &Listen, socket: &Socket) -> Option<String> {
    let bytes = socket.receive_buffer().ok().filter(|&bytes| bytes < RECEIVE_BUFFER)?;
    Some(format!(
        "{listen} has a receive buffer of {} KiB, not {} KiB, so that the system drops datagrams \
         of a large burst: set net.core.rmem_max to {RECEIVE_BUFFER} (sysctl)",
        bytes >> 10,
        RECEIVE_BUFFER >> 10
    ))
}

/// Sets the listeners in `config`. Advertised host names are resolved.
///
/// # Errors
/// [`Failure`] if an advertised name cannot be resolved.
pub(super) fn set_listeners(config: &mut Config, listens: &[Listen]) -> Result<(), Failure> {
    let listener =
        |listen: &Listen| Listener { transport: listen.transport, address: listen.address };
    config.listeners = listens.iter().map(listener).collect();
    config.advertised.clear();
    for listen in listens {
        if let Some(address) = listen.advertised()? {
            config.advertised.push(Advertised { listener: listener(listen), address });
        }
    }
    Ok(())
}

fn cannot_listen(listen: &Listen) -> impl FnOnce(std::io::Error) -> Failure + use<> {
    let listen = listen.clone();
    move |error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Failure::message(format!(
            "cannot listen on {listen}: another program does; stop it, or choose another address \
             with --listen"
        )),
        std::io::ErrorKind::PermissionDenied => Failure::message(format!(
            "cannot listen on {listen}: ports below 1024 are for root, or for a program with \
             CAP_NET_BIND_SERVICE"
        )),
        std::io::ErrorKind::AddrNotAvailable => Failure::message(format!(
            "cannot listen on {listen}: no interface of this machine has that address"
        )),
        _ => during(format!("cannot listen on {listen}"))(error),
    }
}
