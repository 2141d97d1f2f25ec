//! The server's proxy, without authentication.

use super::office::Office;
use parking_lot::RawMutex;
use sip::locate::Host;
use sip::{Flow, Instant, Transport};
use sip_server::config::{Domain, Joining, Listener, Network};
use sip_server::{Config, Event, JoinedCalls, Location, Output, Server, Worker};
use std::net::SocketAddr;
use std::sync::Arc;

pub(crate) struct Proxy {
    server: Arc<Server<RawMutex>>,
    worker: Worker<RawMutex>,
    out: Output,
}

impl Proxy {
    pub(crate) fn new(address: SocketAddr, calls: Arc<dyn JoinedCalls>) -> Self {
        Self::of(Server::new(config(address, Joining::All), &[7; 32]), calls)
    }

    /// A proxy with numbers and trunks, which sends only those calls through the B2BUA that need
    /// it.
    pub(crate) fn of_office(
        address: SocketAddr,
        calls: Arc<dyn JoinedCalls>,
        office: Arc<Office>,
    ) -> Self {
        let server = Server::new(config(address, Joining::Off), &[7; 32]);
        server.set_numbers(Arc::<Office>::clone(&office));
        server.set_trunks(office);
        Self::of(server, calls)
    }

    fn of(server: Server<RawMutex>, calls: Arc<dyn JoinedCalls>) -> Self {
        server.set_joined_calls(calls);
        let server = Arc::new(server);
        let worker = server.worker();
        Self { server, worker, out: Output::default() }
    }

    pub(crate) fn configure(&mut self, address: SocketAddr, joining: Joining) {
        self.server.configure(config(address, joining));
    }

    pub(crate) fn receive(&mut self, now: Instant, flow: &Flow, bytes: &[u8]) {
        self.worker.receive(now, flow, bytes, &mut self.out);
    }

    pub(crate) fn on_timer(&mut self, now: Instant) {
        self.worker.on_timer(now, &mut self.out);
    }

    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.worker.next_timer()
    }

    pub(crate) fn has_sent(&self) -> bool {
        !self.out.transmits.is_empty() || !self.out.events.is_empty()
    }

    /// The number of transactions.
    pub(crate) fn transactions(&self) -> usize {
        self.server.transactions()
    }

    /// Returns the messages that the proxy sends.
    pub(crate) fn sent(&mut self, now: Instant) -> Vec<(Flow, Vec<u8>)> {
        let mut sent = Vec::new();
        while self.has_sent() {
            let out = std::mem::take(&mut self.out);
            for transmit in &out.transmits {
                sent.push((transmit.flow, out.bytes[transmit.range.clone()].to_vec()));
            }
            for event in out.events {
                let Event::Locate { destination, ticket, .. } = event else { continue };
                let Host::Ip(ip) = destination.host else { panic!("a name") };
                let location = Location {
                    transport: Transport::Udp,
                    remote: SocketAddr::new(ip, destination.port.unwrap_or(5060)),
                    local: None,
                };
                self.worker.located(now, ticket, &[location], &mut self.out);
            }
        }
        sent
    }
}

fn config(address: SocketAddr, joining: Joining) -> Config {
    let mut config = Config {
        listeners: vec![Listener { transport: Transport::Udp, address }],
        domains: vec![Domain { name: address.ip().to_string(), aliases: Vec::new() }],
        joining,
        ..Config::default()
    };
    config.authentication.required = false;
    let all = Network { address: "0.0.0.0".parse().expect("an address"), prefix: 0 };
    config.limits.trusted = vec![all];
    config
}
