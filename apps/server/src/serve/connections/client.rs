//! The client of a connection from a proxy.

use parking_lot::Mutex;
use sip_server::Source;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

/// The client of a connection from a proxy, as far as it is known.
pub(super) struct Proxied {
    pub(super) client: Mutex<SocketAddr>,
    /// True while a PROXY protocol header may still arrive, ahead of all other input.
    pub(super) is_greeting: AtomicBool,
    /// True if the client has changed and is to be counted.
    pub(super) is_news: AtomicBool,
    /// The source for which the connection is counted.
    pub(super) counted: Mutex<Source>,
}

/// The bytes received before the client was known.
#[derive(Debug, Default)]
pub(super) struct Greeting {
    pub(super) header: Vec<u8>,
    /// The bytes after the header, still to be read.
    pub(super) rest: Vec<u8>,
}

impl Proxied {
    pub(super) fn new(proxy: SocketAddr) -> Self {
        Self {
            client: Mutex::new(proxy),
            is_greeting: AtomicBool::new(true),
            is_news: AtomicBool::new(false),
            counted: Mutex::new(Source::of(proxy.ip())),
        }
    }

    pub(super) fn client(&self) -> SocketAddr {
        *self.client.lock()
    }

    /// Sets the client address. Without a `port`, the port of the proxy is kept.
    pub(super) fn note(&self, address: IpAddr, port: Option<u16>) {
        let mut client = self.client.lock();
        *client = SocketAddr::new(address, port.unwrap_or(client.port()));
        self.is_news.store(true, Ordering::Relaxed);
    }
}
