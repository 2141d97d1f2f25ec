//! The socket of the NG protocol, and its thread.

use super::surroundings::Surroundings;
use super::{Counts, Front};
use crate::failure::{Failure, during};
use crate::log;
use crate::ng::NgSettings;
use crate::serve::local::Engine;
use crate::serve::media::{Expiry, Media, Relay, since_epoch};
use net::{Clock, MAX_DATAGRAM, wall_clock};
use parking_lot::Mutex;
use relay::{Bandwidth, CallReport, Calls, Limits, Refusals, Selection};
use sip::Instant;
use sip_server::{CallRecord, Party};
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest wait for a datagram: calls that are over end, and the thread, within this time.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Keeps the record of a call that has ended.
pub(in crate::serve) type Keep = dyn Fn(Box<CallRecord>) + Send + Sync;

/// The listener of the NG protocol.
pub(in crate::serve) struct Ng {
    socket: UdpSocket,
    relay: Relay,
    front: Mutex<Front>,
}

impl Ng {
    /// Binds the socket, if `settings` have an address. The calls use ports of `media`.
    ///
    /// # Errors
    /// [`Failure`] if the address cannot be bound.
    pub(in crate::serve) fn open(
        settings: &NgSettings,
        media: Media,
        limits: Limits,
    ) -> Result<Option<Arc<Self>>, Failure> {
        let Some(address) = settings.listen else { return Ok(None) };
        let bind = || {
            let socket = UdpSocket::bind(address)?;
            socket.set_read_timeout(Some(LONGEST_WAIT))?;
            Ok::<_, std::io::Error>(socket)
        };
        let socket = bind().map_err(|error| {
            Failure::message(format!("cannot listen on {address} (media.ng): {error}"))
        })?;
        // A client speaks for many sources.
        let bandwidth = Bandwidth { owner: limits.bandwidth.all, ..limits.bandwidth };
        let (calls_of_owner, conversions_of_owner) = (limits.calls, limits.conversions);
        let limits = Limits { calls_of_owner, conversions_of_owner, bandwidth, ..limits };
        log::info("start", || format!("listens for the NG protocol on {address}"));
        let (relay, front) = (Relay::new(media, limits), Front::new(settings.clone()).into());
        Ok(Some(Arc::new(Self { socket, relay, front })))
    }

    /// The calls that stand.
    pub(in crate::serve) fn reports(&self) -> Vec<CallReport> {
        self.relay.reports()
    }

    /// The number of calls.
    pub(in crate::serve) fn count(&self) -> usize {
        self.relay.count()
    }

    /// Ends the relay of a call at `now`. Returns its record. The proxy is not told.
    pub(in crate::serve) fn end(
        &self,
        call: &CallReport,
        now: Instant,
        reason: &str,
    ) -> Option<Box<CallRecord>> {
        let ended = self.relay.end_all(&call.call_id, Selection::Branch(&call.branch)).pop()?;
        let record = CallRecord::new(ended, Party::Server, now, 0);
        Some(Box::new(record.with_reason(Some(reason.as_bytes()))))
    }

    /// The refusals because of limits.
    pub(in crate::serve) fn refusals(&self) -> Refusals {
        self.relay.refusals()
    }

    /// The counters with their names and descriptions.
    pub(in crate::serve) fn counters(&self) -> [(&'static str, &'static str, u64); 6] {
        let front = self.front.lock();
        let Counts { requests, repeated, refused, dropped, flags } = front.counts();
        let ignored = flags.iter().map(|(_, count)| count).sum::<u64>() + flags.others();
        [
            ("ng-requests", "Requests of NG clients.", *requests),
            ("ng-repeated", "NG requests that came again, and got the same answer.", *repeated),
            ("ng-refused", "NG requests answered with an error.", *refused),
            ("ng-dropped", "Datagrams of others than NG clients, or without a request.", *dropped),
            (
                "ng-calls-limit",
                "NG offers refused because too many calls are relayed.",
                self.relay.refusals().calls,
            ),
            ("ng-ignored-flags", "Flags of NG requests without an effect here.", ignored),
        ]
    }

    fn serve(&self, engine: &Engine, clock: Clock, keep: &Keep, ending: &AtomicBool) {
        let (mut buffer, mut response) = (vec![0; MAX_DATAGRAM], Vec::new());
        let mut expiry = Expiry::new(clock.now());
        while !ending.load(Ordering::SeqCst) {
            match self.socket.recv_from(&mut buffer) {
                Ok((length, source)) => {
                    let datagram = &buffer[..length];
                    if self.receive(engine, clock, keep, (source, datagram), &mut response)
                        && let Err(error) = self.socket.send_to(&response, source)
                    {
                        log::warn("ng", || format!("cannot answer {source}: {error}"));
                    }
                }
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                // An ICMP error of an earlier answer.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
                Err(error) => {
                    log::error("ng", || format!("cannot receive requests: {error}"));
                    std::thread::sleep(LONGEST_WAIT);
                }
            }
            for call in expiry.end_calls(&self.relay, clock.now()) {
                log::info("media", || {
                    let call_id = String::from_utf8_lossy(&call.call_id).into_owned();
                    let fault = call.fault();
                    format!("the relay of call {call_id} of an NG client ends: it {fault}")
                });
                if call.is_last {
                    keep(Box::new(CallRecord::of_expired(call, clock.now(), 0)));
                }
            }
        }
    }

    fn receive(
        &self,
        engine: &Engine,
        clock: Clock,
        keep: &Keep,
        (source, datagram): (SocketAddr, &[u8]),
        response: &mut Vec<u8>,
    ) -> bool {
        let surroundings = Surroundings {
            calls: &self.relay,
            local: &|host| net::source_for(SocketAddr::new(host, 9)),
            permits: &|origin, place| engine.may_send_media(origin, place),
            ended: &|call, by| keep(Box::new(CallRecord::new(call, by, clock.now(), 0))),
            now: since_epoch(clock.now()),
            wall: Duration::from_micros(wall_clock().as_micros()),
        };
        self.front.lock().receive(&surroundings, source, datagram, response)
    }
}

/// The running thread. Dropping it ends the thread.
pub(in crate::serve) struct NgThread {
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NgThread {
    /// Serves `ng`. The records of its calls go to `keep`.
    ///
    /// # Errors
    /// [`Failure`] if the system gives no thread.
    pub(in crate::serve) fn start(
        ng: &Arc<Ng>,
        engine: &Arc<Engine>,
        clock: Clock,
        keep: Box<Keep>,
    ) -> Result<Self, Failure> {
        let ending = Arc::new(AtomicBool::new(false));
        let is_ending = Arc::clone(&ending);
        let (ng, engine) = (Arc::clone(ng), Arc::clone(engine));
        let thread = std::thread::Builder::new()
            .name("ng".to_owned())
            .spawn(move || ng.serve(&engine, clock, &keep, &is_ending))
            .map_err(during("cannot start the thread of media.ng"))?;
        Ok(Self { ending, thread: Some(thread) })
    }
}

impl Drop for NgThread {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
