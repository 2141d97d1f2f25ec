//! Background traffic that loads a link.

use crate::link::Link;
use net::{Options, Outbox, Outgoing, Socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The payload of a datagram in octets; with the headers of UDP, IP and Ethernet and the gap
/// between frames, it takes [`ON_THE_WIRE`].
const SIZE: usize = 1200;
const ON_THE_WIRE: usize = SIZE + 8 + 20 + 18 + 20;
const TICK: Duration = Duration::from_millis(1);

/// Datagrams in one direction. Dropping it ends them.
pub(crate) struct Traffic {
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    begun: Instant,
    arrived: Arc<AtomicU64>,
}

impl Traffic {
    /// Sends at `bits` per second to `to`.
    ///
    /// # Errors
    /// The socket cannot be opened.
    pub(crate) fn start(to: SocketAddr, bits: u64) -> io::Result<Self> {
        Self::send(sender(to)?, to, bits)
    }

    /// Sends at `bits` per second over `link` in each direction, and counts received datagrams.
    ///
    /// # Errors
    /// A socket cannot be opened.
    pub(crate) fn both_ways(link: &Link, bits: u64) -> io::Result<[Self; 2]> {
        let receiver = |address: Ipv4Addr| UdpSocket::bind((address, 0));
        let near = receiver(link.near)?;
        let far = Link::inside(&link.name, || receiver(link.far))?;
        let (to_near, to_far) = (near.local_addr()?, far.local_addr()?);
        let back = Link::inside(&link.name, || sender(to_near))?;
        let there = Self::send(sender(to_far)?, to_far, bits)?.counted_by(far)?;
        Ok([there, Self::send(back, to_near, bits)?.counted_by(near)?])
    }

    fn send(socket: Socket, to: SocketAddr, bits: u64) -> io::Result<Self> {
        let local = socket.address().ip();
        let ending = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name("traffic".to_owned()).spawn(move || {
            let bytes = [0; SIZE];
            let one = Outgoing { remote: Some(to), local, bytes: &bytes };
            let rate = bits as f64 / 8.0 / ON_THE_WIRE as f64;
            let mut outbox = Outbox::default();
            let begun = Instant::now();
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                let due = (begun.elapsed().as_secs_f64() * rate) as u64;
                let missing = due.saturating_sub(sent) as usize;
                outbox.send(&socket, std::iter::repeat_n(one, missing), |_| {});
                sent = due;
                std::thread::sleep(TICK);
            }
        })?;
        let (threads, begun) = (vec![thread], Instant::now());
        Ok(Self { ending, threads, begun, arrived: Arc::default() })
    }

    /// Counts the datagrams that `socket` receives.
    fn counted_by(mut self, socket: UdpSocket) -> io::Result<Self> {
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let (stop, arrived) = (Arc::clone(&self.ending), Arc::clone(&self.arrived));
        let count = move || {
            let mut buffer = [0; SIZE];
            while !stop.load(Ordering::Relaxed) {
                arrived.fetch_add(u64::from(socket.recv(&mut buffer).is_ok()), Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().name("sink".to_owned()).spawn(count)?;
        self.threads.push(thread);
        Ok(self)
    }

    /// Returns the received bits per second, as of the wire, if they are counted.
    pub(crate) fn arrived(&self) -> f64 {
        let bits = self.arrived.load(Ordering::Relaxed) * ON_THE_WIRE as u64 * 8;
        bits as f64 / self.begun.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// Returns a socket for the address family of `to`.
fn sender(to: SocketAddr) -> io::Result<Socket> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    Socket::bind(SocketAddr::new(any, 0), Options::default())
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_flows_at_the_rate_that_was_asked_for() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let begun = Instant::now();
        let traffic = Traffic::start(socket.local_addr().unwrap(), 10_000_000).unwrap();
        let mut buffer = [0; 2000];
        for _ in 0..200 {
            assert_eq!(socket.recv(&mut buffer).unwrap(), SIZE);
        }
        // 200 datagrams at 10 Mbit/s take 202 ms; never less.
        assert!(begun.elapsed() > Duration::from_millis(190));
        drop(traffic);
    }
}
