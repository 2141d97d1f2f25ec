//! Keep-alives to the phones that are reached on the flow of their REGISTER: a thread sends them,
//! in parts of the registrations that follow one another over the interval.
//!
//! A phone on TCP or TLS gets OPTIONS, and one on WebSocket a ping, if nothing has come on its
//! connection for an interval. If nothing comes until the next keep-alive either, the connection is
//! closed, and the bindings on it end.

use super::hub::Hub;
use super::local::{CarryOut, Engine, Local};
use crate::failure::Failure;
use crate::keep_alive::KeepAliveSettings;
use crate::log;
use sip::{Duration, Instant, Transport};
use sip_server::config::KeepAlive;
use sip_server::{Connection, Flow};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time;

/// The turns of each second, over which the keep-alives are spread.
const TURNS: u32 = 20;

/// The running thread. Dropping it ends the thread.
pub(super) struct KeepAliveThread {
    ending: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl KeepAliveThread {
    /// Starts the thread, if keep-alives are sent.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn start(
        settings: KeepAliveSettings,
        hub: &Arc<Hub>,
    ) -> Result<Option<Self>, Failure> {
        let Some(kind) = settings.kind else { return Ok(None) };
        let (ending, ended) = channel();
        let rounds = Rounds {
            hub: Arc::clone(hub),
            local: Local::new(0, &hub.engine),
            kind,
            interval: settings.interval.into(),
            at_once: (settings.rate / TURNS).max(1) as usize,
            visits: vec![None; Engine::PARTS],
            ended,
        };
        let thread = std::thread::Builder::new().name("keepalive".to_owned());
        let thread = Some(thread.spawn(move || rounds.run())?);
        Ok(Some(Self { ending: Some(ending), thread }))
    }
}

impl Drop for KeepAliveThread {
    fn drop(&mut self) {
        drop(self.ending.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The rounds through all registrations.
struct Rounds {
    hub: Arc<Hub>,
    local: Local,
    /// The keep-alive of phones on UDP.
    kind: KeepAlive,
    interval: Duration,
    /// The number of keep-alives in one turn.
    at_once: usize,
    /// The time of the last visit to each part of the registrations.
    visits: Vec<Option<Instant>>,
    /// Ends with the owner of the thread.
    ended: Receiver<()>,
}

/// The treatment of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Treatment {
    /// It is in use.
    Leave,
    /// It gets a keep-alive.
    Probe,
    /// It has got one, and nothing has come since.
    Close,
}

/// The treatment of a connection on which nothing has come for `silence`. The keep-alive before was
/// due `since_last` ago.
fn treatment(silence: Duration, since_last: Option<Duration>, interval: Duration) -> Treatment {
    match since_last {
        _ if silence < interval => Treatment::Leave,
        // It was silent for an interval then already.
        Some(since_last) if silence >= since_last + interval => Treatment::Close,
        _ => Treatment::Probe,
    }
}

impl Rounds {
    fn run(mut self) {
        loop {
            let began = self.hub.clock.now();
            for part in 0..Engine::PARTS {
                let share = self.interval.as_micros() * part as u64 / Engine::PARTS as u64;
                let due = began + Duration::from_micros(share);
                if self.has_ended(due.since(self.hub.clock.now())) || self.visit(part) {
                    return;
                }
            }
            let left = (began + self.interval).since(self.hub.clock.now());
            if self.has_ended(left) {
                return;
            }
            if left == Duration::ZERO {
                log::warn("keepalive", || {
                    "keep-alives are later than registrar.keepalive_interval: there are more phones \
                     than registrar.keepalive_rate permits"
                        .to_owned()
                });
            }
        }
    }

    /// Waits for `time`. Returns true if the thread is to end.
    fn has_ended(&self, time: Duration) -> bool {
        let time = time::Duration::from_micros(time.as_micros());
        self.ended.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }

    /// Sends the keep-alives of one part. Returns true if the thread is to end.
    fn visit(&mut self, part: usize) -> bool {
        let now = self.hub.clock.now();
        let mut phones: Vec<(Flow, Box<[u8]>)> = Vec::new();
        let mut connections: HashSet<Connection> = HashSet::new();
        self.hub.engine.for_each_binding_of(part, now, &mut |binding| {
            let is_first = binding.flow.connection.is_none_or(|it| connections.insert(it));
            if binding.flow_bound && !binding.flow.is_internal() && is_first {
                phones.push((binding.flow, binding.contact.into()));
            }
        });
        let since_last = self.visits[part].replace(now).map(|last| now.since(last));
        for phones in phones.chunks(self.at_once) {
            for (flow, contact) in phones {
                self.attend(flow, contact, since_last);
            }
            self.hub.carry_out(&mut self.local);
            let turn = Duration::from_micros(1_000_000 / u64::from(TURNS));
            if self.has_ended(turn) {
                return true;
            }
        }
        false
    }

    /// Sends a keep-alive on `flow`, or closes its connection.
    fn attend(&mut self, flow: &Flow, contact: &[u8], since_last: Option<Duration>) {
        let now = self.hub.clock.now();
        let kind = match flow.connection {
            None => self.kind,
            Some(connection) => {
                let silence = self.hub.connections.silence(connection, now);
                let treatment =
                    silence.map(|silence| treatment(silence, since_last, self.interval));
                match treatment {
                    None | Some(Treatment::Leave) => return,
                    Some(Treatment::Probe)
                        if matches!(flow.transport, Transport::Ws | Transport::Wss) =>
                    {
                        let failed = &mut self.local.failed;
                        return self.hub.connections.ping(connection, now, failed);
                    }
                    Some(Treatment::Probe) => KeepAlive::Options,
                    Some(Treatment::Close) => {
                        let failed = &mut self.local.failed;
                        return self.hub.connections.end_silent(connection, failed);
                    }
                }
            }
        };
        let Local { worker, out, .. } = &mut self.local;
        worker.keep_alive(now, flow, contact, kind, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_closed_only_after_an_unanswered_keep_alive() {
        let of = |silence, since_last: Option<u64>| {
            let since_last = since_last.map(Duration::from_secs);
            treatment(Duration::from_secs(silence), since_last, Duration::from_secs(30))
        };
        assert_eq!(of(29, Some(30)), Treatment::Leave);
        assert_eq!(of(30, Some(30)), Treatment::Probe);
        assert_eq!(of(59, Some(30)), Treatment::Probe, "it was in use at the last visit");
        assert_eq!(of(60, Some(30)), Treatment::Close);
        assert_eq!(of(3600, None), Treatment::Probe, "there was no visit");
        assert_eq!(of(89, Some(60)), Treatment::Probe, "the last round was late");
        assert_eq!(of(90, Some(60)), Treatment::Close);
    }
}
