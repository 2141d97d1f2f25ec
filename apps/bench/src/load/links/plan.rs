//! What sockets a load is to come from, and why it cannot.

use clap::ValueEnum;
use net::tls::{Client, Server, ServerName};
use serde::{Deserialize, Serialize};
use sip::Transport;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};

/// How many sockets a load comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Sharing {
    /// One socket or connection for each thread
    #[default]
    Thread,
    /// One for each user
    User,
    /// A new connection for each operation (not UDP): measures connection rates
    Operation,
}

/// Why there is no socket.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// There is no way from here to the server.
    NoRoute(SocketAddr, io::Error),
    /// A socket could not be made.
    Socket(IpAddr, io::Error),
    /// The server took no connection.
    Connect(SocketAddr, io::Error),
    /// TLS cannot be begun.
    Tls(String),
    /// Sockets for single operations are connections.
    OperationNeedsConnections,
    /// The system allows fewer open files than there are to be sockets.
    TooMany {
        /// Sockets that were asked for.
        wanted: usize,
        /// Files that may be open.
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

/// What connections over TLS begin with.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(crate) client: Client,
    /// Who is called.
    pub(crate) name: ServerName<'static>,
    /// For those that the server opens, to where a contact says.
    pub(crate) server: Server,
}

/// What a worker's sockets are made from.
#[derive(Clone, Debug)]
pub(crate) struct LinkPlan {
    pub(crate) target: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) sharing: Sharing,
    /// Whether datagrams of one length go to the kernel as one, where there is one socket.
    pub(crate) is_segmenting: bool,
    /// Users of this worker.
    pub(crate) users: usize,
    /// The address of ours that the target is reached from.
    pub(crate) local: IpAddr,
    /// What connections over TLS begin with.
    pub(crate) tls: Option<Tls>,
}
