//! The thread that sends the SIP messages of the last minutes to Homer. It reads them where
//! `barebell trace` does, so that no worker does more for it.

use super::hub::Hub;
use crate::log;
use crate::settings::TraceSettings;
use crate::trace::hep::HepFeed;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The time between two readings.
const PERIOD: Duration = Duration::from_millis(100);

/// The time after which the name is looked up again while messages cannot be sent.
const AGAIN: Duration = Duration::from_secs(30);

/// The running thread. Dropping it sends the last messages and ends it.
pub(super) struct HepThread {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HepThread {
    /// Starts the thread, if `settings` name a Homer.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(settings: &TraceSettings, hub: &Arc<Hub>) -> io::Result<Option<Self>> {
        let Some(place) = settings.hep.clone() else { return Ok(None) };
        let (ending, hub) = (Arc::<AtomicBool>::default(), Arc::clone(hub));
        let (is_ending, agent) = (Arc::clone(&ending), settings.hep_id);
        let run = move || {
            if let Err(error) = net::give_way() {
                log::warn("turns", || format!("HEP has the priority of messages: {error}"));
            }
            let mut homer = Homer { place, socket: None, asked: None };
            let mut feed = HepFeed::new(agent);
            loop {
                // Read before the last turn, so that nothing is left.
                let is_last = is_ending.load(Ordering::SeqCst);
                turn(&hub, &mut feed, &mut homer);
                if is_last {
                    break;
                }
                thread::park_timeout(PERIOD);
            }
        };
        let thread = thread::Builder::new().name("hep".to_owned()).spawn(run)?;
        Ok(Some(Self { ending, thread: Some(thread) }))
    }
}

impl Drop for HepThread {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Sends the messages that are new.
fn turn(hub: &Hub, feed: &mut HepFeed, homer: &mut Homer) {
    let counters = &hub.hep;
    let lost = feed.read(&hub.trace.recent, |datagram| {
        let counter = if homer.send(datagram) { &counters.sent } else { &counters.lost };
        counter.fetch_add(1, Ordering::Relaxed);
    });
    if lost > 0 {
        counters.lost.fetch_add(lost, Ordering::Relaxed);
        log::warn("hep", || {
            format!("{lost} messages were not sent to Homer in time: enlarge trace.memory")
        });
    }
}

/// The receiver of the datagrams.
struct Homer {
    /// Its host and port.
    place: String,
    socket: Option<UdpSocket>,
    /// The time of the last look-up.
    asked: Option<Instant>,
}

impl Homer {
    /// Sends a datagram. Returns false if that is not possible.
    fn send(&mut self, datagram: &[u8]) -> bool {
        if self.socket.is_none() && self.asked.is_none_or(|asked| asked.elapsed() >= AGAIN) {
            self.asked = Some(Instant::now());
            self.socket =
                connect(&self.place).inspect_err(|error| self.warn("is not reachable", error)).ok();
        }
        let Some(socket) = &self.socket else { return false };
        match socket.send(datagram) {
            Ok(_) => true,
            // An ICMP error for an earlier datagram.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.warn("refuses messages", &error);
                false
            }
            Err(error) => {
                self.warn("cannot be sent to", &error);
                self.socket = None;
                false
            }
        }
    }

    fn warn(&self, text: &str, error: &io::Error) {
        log::warn("hep", || format!("{}, which trace.hep names, {text}: {error}", self.place));
    }
}

/// A socket for the first address of `place`.
fn connect(place: &str) -> io::Result<UdpSocket> {
    let address = place.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::other("the name has no address"))?;
    let socket = match address {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    }?;
    socket.connect(address)?;
    Ok(socket)
}
