//! The trunk registry beside the engine, for all threads. Its requests pass to the engine on
//! internal flows within the thread that causes them, as those of the B2BUA.

use super::counted::Named;
use super::local::Local;
use crate::log;
use crate::trunks::TrunkSettings;
use parking_lot::{Mutex, RwLock};
use sip::locate::Destination;
use sip::{Endpoint, Flow, Instant};
use sip_server::config::Network;
use sip_server::{TrunkId, TrunkMedia, TrunkTarget, Trunks};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trunk::{Counters, Event, Location, Registry, Ticket, TrunkConfig, TrunkReport, TrunkView};

/// A look-up that the registry asks for.
pub(super) type Asked = (Ticket, Destination);

/// The trunk registry of all threads. No message is passed to the engine while it is locked.
pub(crate) struct SharedTrunks {
    registry: Mutex<Registry>,
    seen: RwLock<Vec<Seen>>,
    /// The configured part of `seen`, by number.
    known: RwLock<Vec<Known>>,
    /// The time of the next timer in microseconds, to be read without the lock.
    next_timer: AtomicU64,
}

/// A trunk as the proxy sees it.
#[derive(Clone)]
struct Seen {
    view: TrunkView,
    known: Known,
}

/// The part of a trunk that only the configuration changes.
#[derive(Clone)]
struct Known {
    /// The host of the trunk.
    host: Arc<str>,
    /// The networks of its requests.
    sources: Vec<Network>,
    /// True if the names that it asserts are accepted.
    is_trusted: bool,
    /// The keys and codecs of its calls. `None`: as those of other calls.
    media: Option<Arc<TrunkMedia>>,
}

impl SharedTrunks {
    /// A registry without trunks, with the product name `product`. `secret` is kept over restarts,
    /// `seed` is new.
    pub(crate) fn new(product: &str, secret: &[u8; 32], seed: &[u8; 32]) -> Self {
        Self {
            registry: Mutex::new(Registry::new(product, secret, seed)),
            seen: RwLock::default(),
            known: RwLock::default(),
            next_timer: AtomicU64::new(u64::MAX),
        }
    }

    /// Replaces the trunks by those of `settings`, with their configurations `configs`.
    pub(super) fn configure(
        &self,
        now: Instant,
        local: &mut Local,
        settings: &[TrunkSettings],
        configs: Vec<TrunkConfig>,
    ) -> Vec<Asked> {
        let known = settings.iter().map(|trunk| Known {
            host: trunk.proxy.as_ref().unwrap_or(&trunk.host).host_text().into(),
            sources: trunk.sources.clone(),
            is_trusted: trunk.is_trusted,
            media: (trunk.media != TrunkMedia::default()).then(|| Arc::new(trunk.media.clone())),
        });
        *self.known.write() = known.collect();
        self.act(now, local, |registry| registry.configure(now, configs))
    }

    /// Passes the messages in `local.internal` that are for trunks to the registry, and its
    /// messages to the engine. Returns the look-ups that it asks for.
    pub(super) fn exchange(&self, now: Instant, local: &mut Local) -> Vec<Asked> {
        let is_for = |flow: &Flow| matches!(flow.endpoint(), Some(Endpoint::Trunk(_)));
        let messages: Vec<_> = local.internal.extract_if(.., |(flow, _)| is_for(flow)).collect();
        if messages.is_empty() {
            return Vec::new();
        }
        self.act(now, local, |registry| {
            for (flow, bytes) in messages {
                if let Some(Endpoint::Trunk(number)) = flow.endpoint() {
                    registry.receive(now, number, &flow, &bytes);
                }
            }
        })
    }

    /// Passes the answer to a look-up. Returns further look-ups.
    pub(super) fn located(
        &self,
        now: Instant,
        local: &mut Local,
        ticket: Ticket,
        locations: &[Location],
    ) -> Vec<Asked> {
        self.act(now, local, |registry| registry.located(now, ticket, locations))
    }

    /// Runs the timers that are due at `now`. Returns the look-ups that the registry asks for.
    pub(super) fn on_timer(&self, now: Instant, local: &mut Local) -> Vec<Asked> {
        match self.next_timer().is_some_and(|when| when <= now) {
            true => self.act(now, local, |registry| registry.on_timer(now)),
            false => Vec::new(),
        }
    }

    /// Takes note of the end of the connection `flow`: accounts that were registered on it register
    /// again.
    pub(super) fn closed(&self, now: Instant, local: &mut Local, flow: &Flow) -> Vec<Asked> {
        let is_of =
            |server: &Flow| (server.transport, server.remote) == (flow.transport, flow.remote);
        let is_of_trunk = self.seen.read().iter().any(|seen| seen.view.servers.iter().any(is_of));
        match is_of_trunk {
            true => self.act(now, local, |registry| registry.closed(now, flow)),
            false => Vec::new(),
        }
    }

    /// Takes note that the target of the trunk at `place` has not taken a call, with the failure in
    /// `words`: it is probed at once.
    pub(super) fn call_failed(
        &self,
        now: Instant,
        local: &mut Local,
        place: usize,
        words: &str,
    ) -> Vec<Asked> {
        let number = u8::try_from(place).ok();
        let target = number.and_then(|number| Some((number, self.target(TrunkId(number))?)));
        let Some((number, target)) = target else { return Vec::new() };
        self.act(now, local, |registry| registry.call_failed(now, number, &target.flow(), words))
    }

    /// Ends all registrations.
    pub(super) fn end(&self, now: Instant, local: &mut Local) {
        self.act(now, local, |registry| registry.end(now));
    }

    /// True while registrations end.
    pub(super) fn is_ending(&self) -> bool {
        self.registry.lock().is_ending()
    }

    /// Calls `act` with the registry, logs the changes of state, and passes the messages of the
    /// registry to the engine. Returns the look-ups that it asks for.
    fn act(&self, now: Instant, local: &mut Local, act: impl FnOnce(&mut Registry)) -> Vec<Asked> {
        let (mut asked, mut sent) = (Vec::new(), Vec::new());
        {
            let mut registry = self.registry.lock();
            act(&mut registry);
            while let Some(event) = registry.poll_event() {
                match event {
                    Event::Locate { ticket, destination } => asked.push((ticket, destination)),
                    Event::Changed(notice) if notice.is_trouble => {
                        log::warn("trunk", || notice.to_string());
                    }
                    Event::Changed(notice) => log::info("trunk", || notice.to_string()),
                    _ => {}
                }
            }
            sent.extend(std::iter::from_fn(|| registry.poll_transmit()));
            let next = registry.next_timer().map_or(u64::MAX, Instant::as_micros);
            self.next_timer.store(next, Ordering::Relaxed);
            // Under the lock, so that no older state replaces it.
            let known = self.known.read();
            let views = registry.views(now).into_iter().zip(known.iter());
            let seen = views.map(|(view, known)| Seen { view, known: known.clone() });
            *self.seen.write() = seen.collect();
        }
        for transmit in sent {
            local.worker.receive(now, &transmit.flow, &transmit.bytes, &mut local.out);
        }
        asked
    }

    /// The time of the next call of [`SharedTrunks::on_timer`].
    pub(super) fn next_timer(&self) -> Option<Instant> {
        let next = self.next_timer.load(Ordering::Relaxed);
        (next < u64::MAX).then(|| Instant::from_micros(next))
    }

    /// The state of all trunks.
    pub(super) fn reports(&self, now: Instant) -> Vec<TrunkReport> {
        self.registry.lock().reports(now)
    }

    /// The counters with their names and descriptions.
    pub(super) fn counters(&self) -> [Named; 3] {
        let Counters { failures, moves, refused } = self.registry.lock().counters();
        [
            ("trunk-failures", "Servers of trunks that failed.", failures),
            ("trunk-moves", "Changes of the server that is the target of a trunk.", moves),
            ("trunk-refused", "Registrations that a provider refused.", refused),
        ]
    }
}

impl Seen {
    /// True if `flow` comes from a server of the trunk, or from one of its networks. A trunk that
    /// is reached by TLS calls by TLS.
    fn has_source(&self, flow: &Flow) -> bool {
        let is_it = |server: &Flow| {
            server.remote.ip().to_canonical() == flow.remote.ip().to_canonical()
                && (!server.transport.is_secure() || flow.transport.is_secure())
        };
        self.view.servers.iter().any(is_it)
            || Network::any_contains(&self.known.sources, flow.remote.ip())
    }

    /// True if `flow` comes from the address and the port of a server of the trunk.
    fn is_server(&self, flow: &Flow) -> bool {
        self.has_source(flow) && self.view.servers.iter().any(|server| server.remote == flow.remote)
    }
}

impl Trunks for SharedTrunks {
    fn target(&self, trunk: TrunkId) -> Option<TrunkTarget> {
        let seen = self.seen.read();
        let Seen { view, known } = seen.get(usize::from(trunk.0))?;
        let Flow { transport, remote, local, .. } = view.target?;
        Some(TrunkTarget { transport, remote, local, name: Arc::clone(&known.host) })
    }

    fn media(&self, trunk: TrunkId) -> Option<Arc<TrunkMedia>> {
        self.seen.read().get(usize::from(trunk.0))?.known.media.clone()
    }

    fn is_trusted(&self, trunk: TrunkId) -> bool {
        let seen = self.seen.read();
        seen.get(usize::from(trunk.0)).is_some_and(|seen| seen.known.is_trusted)
    }

    fn of_request(&self, flow: &Flow, user: &[u8]) -> Option<TrunkId> {
        if flow.is_internal() {
            return None;
        }
        let seen = self.seen.read();
        let with = |fits: &dyn Fn(&Seen) -> bool| {
            let place = seen.iter().position(fits)?;
            u8::try_from(place).ok().map(TrunkId)
        };
        let has = |names: &[String]| names.iter().any(|name| name.as_bytes() == user);
        with(&|seen| has(&seen.view.contacts))
            // Of several trunks to one provider, that with the account.
            .or_else(|| with(&|seen| has(&seen.view.users) && seen.has_source(flow)))
            // Of several trunks at one address, that with the port.
            .or_else(|| with(&|seen| seen.is_server(flow)))
            .or_else(|| with(&|seen| seen.has_source(flow)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip::Transport;

    #[test]
    fn requests_are_known_by_contact_and_by_source() {
        let server = |transport, host| Flow {
            transport,
            remote: ([192, 0, 2, host], 5060).into(),
            local: ([192, 0, 2, 7], 5060).into(),
            connection: None,
        };
        let seen = |transport, name: &str, sources: &[Network]| Seen {
            view: TrunkView {
                target: None,
                servers: vec![server(transport, 1), server(transport, 2)],
                contacts: vec![format!("contact-{name}")],
                users: vec![format!("user-{name}")],
            },
            known: Known {
                host: "h".into(),
                sources: sources.to_vec(),
                is_trusted: false,
                media: None,
            },
        };
        let network = Network { address: [203, 0, 113, 0].into(), prefix: 24 };
        let trunks = SharedTrunks::new("", &[1; 32], &[2; 32]);
        *trunks.seen.write() = vec![
            seen(Transport::Tls, "a", &[]),
            seen(Transport::Udp, "b", &[]),
            seen(Transport::Udp, "c", &[network]),
            seen(Transport::Udp, "d", &[]),
        ];
        trunks.seen.write()[3].view.servers[0].remote.set_port(5070);
        let of = |transport, remote: &str, user: &str| {
            let (local, remote) = (([192, 0, 2, 7], 5060).into(), remote.parse().unwrap());
            let flow = Flow { transport, local, remote, connection: None };
            assert_eq!(trunks.of_request(&flow.internal(), user.as_bytes()), None);
            trunks.of_request(&flow, user.as_bytes()).map(|TrunkId(number)| number)
        };
        let (udp, tls) = (Transport::Udp, Transport::Tls);
        assert_eq!(of(udp, "198.51.100.9:5060", "contact-a"), Some(0), "from anywhere");
        assert_eq!(of(udp, "198.51.100.9:5060", "user-a"), None);
        assert_eq!(of(tls, "192.0.2.1:40000", "x"), Some(0));
        assert_eq!(of(udp, "192.0.2.1:5060", "x"), Some(1), "not the trunk by TLS");
        assert_eq!(of(udp, "192.0.2.2:5061", "user-c"), Some(2), "the account decides");
        assert_eq!(of(udp, "192.0.2.1:5070", "x"), Some(3), "the port decides");
        assert_eq!(of(udp, "203.0.113.77:5060", "x"), Some(2));
        assert_eq!(of(udp, "192.0.2.3:5060", "x"), None);
        assert_eq!(trunks.target(TrunkId(0)), None);
        assert_eq!(trunks.target(TrunkId(9)), None);
    }
}
