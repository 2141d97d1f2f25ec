//! The configuration of sockets, and their errors.

use clap::ValueEnum;
use net::tls::{Client, Server, ServerName};
use serde::{Deserialize, Serialize};
use sip::Transport;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The number of sockets of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Sharing {
    /// One socket or connection per thread
    #[default]
    Thread,
    /// One per user
    User,
    /// A new connection per operation (not UDP): measures connection rates
    Operation,
}

/// An error of opening sockets.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// There is no route to the server.
    NoRoute(SocketAddr, io::Error),
    /// A socket cannot be created.
    Socket(IpAddr, io::Error),
    /// The connection to the server failed.
    Connect(SocketAddr, io::Error),
    /// The TLS configuration failed.
    Tls(String),
    /// Sockets per operation need a transport with connections.
    OperationNeedsConnections,
    /// The limit of open files is too low.
    TooMany {
        /// The number of sockets requested.
        wanted: usize,
        /// The limit of open files.
        allowed: u64,
    },
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoute(target, error) => write!(f, "no way to {target}: {error}"),
            Self::Socket(address, error) => write!(f, "no socket on {address}: {error}"),
            Self::Connect(target, error) => {
                write!(f, "no connection to {target}: {error}; is the server running?")
            }
            Self::Tls(text) => write!(f, "no TLS: {text}"),
            Self::OperationNeedsConnections => f.write_str(
                "--sockets operation needs connections, not UDP; there take thread or user",
            ),
            Self::TooMany { wanted, allowed } => write!(
                f,
                "{wanted} sockets are wanted and {allowed} open files allowed; raise it with \
                 'ulimit -n' or take fewer users"
            ),
        }
    }
}

impl std::error::Error for LinkError {}

/// The TLS configuration of connections.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) client: Client,
    /// The expected server name.
    pub(crate) name: ServerName<'static>,
    /// The server side, for connections that the server opens to a contact.
    pub(crate) server: Server,
}

/// The configuration of a worker's sockets.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    pub(crate) target: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) sharing: Sharing,
    /// True if datagrams of one length go to the kernel together, where there is one socket.
    pub(crate) is_segmenting: bool,
    /// The number of users of this worker.
    pub(crate) users: usize,
    /// The local address for the route to the target.
    pub(crate) local: IpAddr,
    /// The TLS configuration.
    pub(crate) tls: Option<Tls>,
}
