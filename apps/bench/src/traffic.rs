//! Other traffic, which keeps a link busy (row C4 of docs/sources.md).

use net::{Options, Outbox, Outgoing, Socket};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Octets of a datagram; with the headers of UDP, IP and Ethernet and what stands between frames,
/// it takes [`ON_THE_WIRE`].
const SIZE: usize = 1200;
const ON_THE_WIRE: usize = SIZE + 8 + 20 + 18 + 20;
const TICK: Duration = Duration::from_millis(1);

/// Datagrams to nobody in particular, until it is dropped.
pub(crate) struct Traffic {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Traffic {
    /// Sends `bits` a second to `to`.
    ///
    /// # Errors
    /// When there is no socket.
    pub(crate) fn start(to: SocketAddr, bits: u64) -> io::Result<Self> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = Socket::bind(SocketAddr::new(any, 0), Options::default())?;
        let ending = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ending);
        let thread = std::thread::Builder::new().name("traffic".to_owned()).spawn(move || {
            let bytes = [0; SIZE];
            let one = Outgoing { remote: Some(to), local: any, bytes: &bytes };
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
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_flows_at_the_rate_that_was_asked_for() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
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
