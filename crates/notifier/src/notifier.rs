//! The engine: its inputs, its outputs, and the tables of subscriptions.

use crate::config::Config;
use crate::dialog_info::CallState;
use crate::subscription::{Package, Reason, Subscription};
use crate::summary::Messages;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use hashbrown::HashMap;
use sip::message::{Response, reason_phrase};
use sip::{Flow, Instant, Message, Method, Source};
use sip_ua::{TimerQueue, Tokens, Transmit};

/// The key of a subscription: a keyed hash of the Call-ID and the local tag.
pub(crate) type Key = u64;

/// Counts of a [`Notifier`] since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Subscriptions that were accepted.
    pub accepted: u64,
    /// Subscriptions that were refused because of a limit.
    pub over_limit: u64,
    /// NOTIFYs that were sent.
    pub notified: u64,
    /// Subscriptions that ended because a NOTIFY was refused, or had no response.
    pub lost: u64,
}

/// The states of a user.
#[derive(Debug, Default)]
pub(crate) struct User {
    pub(crate) messages: Option<Messages>,
    pub(crate) calls: Vec<CallState>,
    pub(crate) subscriptions: Vec<Key>,
}

/// A notifier. See the [crate] for its use.
pub struct Notifier {
    pub(crate) config: Config,
    pub(crate) tokens: Tokens,
    pub(crate) subscriptions: HashMap<Key, Subscription>,
    pub(crate) users: HashMap<Box<str>, User>,
    /// The number of subscriptions of each subscriber.
    pub(crate) subscribers: HashMap<Box<str>, usize>,
    /// The number of subscriptions of each source.
    pub(crate) sources: HashMap<Source, usize>,
    /// The subscriptions of the NOTIFYs that are not answered, by their branches.
    pub(crate) branches: HashMap<u64, Key>,
    timers: TimerQueue<Key>,
    transmits: VecDeque<Transmit>,
    pub(crate) counters: Counters,
}

impl Notifier {
    /// Returns a notifier without subscriptions. All unpredictable values are derived from
    /// `secret`, which has to be random.
    #[must_use]
    pub fn new(config: Config, secret: &[u8; 32]) -> Self {
        Self {
            config,
            tokens: Tokens::new(secret),
            subscriptions: HashMap::default(),
            users: HashMap::default(),
            subscribers: HashMap::default(),
            sources: HashMap::default(),
            branches: HashMap::default(),
            timers: TimerQueue::default(),
            transmits: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Processes a message that came on `flow`. A message on a flow that is not internal is
    /// ignored: it has passed no proxy.
    pub fn receive(&mut self, now: Instant, flow: &Flow, bytes: &[u8]) {
        let Some(message) = Message::parse(bytes).ok().filter(|_| flow.is_internal()) else {
            return;
        };
        match message.method() {
            None => self.on_response(&message, now),
            Some(Method::Subscribe) => self.on_subscribe(&message, flow, now),
            Some(Method::Ack) => {}
            // Its request is answered.
            Some(Method::Cancel) => self.respond(&message, flow, 481, b"", b""),
            Some(_) => self.respond(&message, flow, 405, b"", b"Allow: SUBSCRIBE\r\n"),
        }
    }

    /// Returns the next message to send, if any.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.transmits.pop_front()
    }

    /// Returns the time of the next call to [`Notifier::on_timer`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Processes the timers that are due at `now`: expiries, delayed changes, and NOTIFYs
    /// without a response.
    pub fn on_timer(&mut self, now: Instant) {
        for key in self.timers.take_due(now) {
            let Some(subscription) = self.subscriptions.get_mut(&key) else { continue };
            subscription.queued = None;
            if subscription.expires <= now {
                self.end(key, Reason::Timeout, now);
            } else if subscription.sent.is_some_and(|sent| sent.until <= now) {
                self.counters.lost += 1;
                self.remove(key);
            } else {
                self.notify_if_due(key, now);
            }
        }
    }

    /// Sets the numbers of messages of `user`, which is `name@domain`, and tells a change.
    pub fn set_messages(&mut self, now: Instant, user: &str, messages: Messages) {
        let state = self.users.entry(user.into()).or_default();
        if state.messages.replace(messages) == Some(messages) {
            return;
        }
        let is_told = self.tell(user, Package::MessageSummary, now);
        if !is_told && let Some(flow) = self.config.unsolicited {
            self.notify_unasked(user, messages, &flow);
        }
    }

    /// Returns the numbers of messages of `user`, as far as they are set.
    #[must_use]
    pub fn messages(&self, user: &str) -> Option<Messages> {
        self.users.get(user)?.messages
    }

    /// Sets the calls of `user`, which is `name@domain`, and tells a change. A call that is not
    /// among them has ended.
    pub fn set_dialogs(&mut self, now: Instant, user: &str, calls: Vec<CallState>) {
        match self.users.get_mut(user) {
            Some(state) if state.calls == calls => return,
            Some(state) => state.calls = calls,
            None if calls.is_empty() => return,
            None => self.users.entry(user.into()).or_default().calls = calls,
        }
        self.tell(user, Package::Dialog, now);
        self.forget_if_empty(user);
    }

    /// Ends all subscriptions for `reason`.
    pub fn end_all(&mut self, now: Instant, reason: Reason) {
        self.end_those(now, reason, |_| true);
    }

    /// Ends the subscriptions to the calls of users for `reason`: the rights to them have changed.
    pub fn end_dialogs(&mut self, now: Instant, reason: Reason) {
        self.end_those(now, reason, |it| it.package == Package::Dialog);
    }

    /// Ends the subscriptions of `user` and to its states, which are forgotten: the user is
    /// removed.
    pub fn remove_user(&mut self, now: Instant, user: &str) {
        self.end_those(now, Reason::NoResource, |it| [&*it.user, &*it.subscriber].contains(&user));
        self.users.remove(user);
    }

    fn end_those(&mut self, now: Instant, reason: Reason, is: impl Fn(&Subscription) -> bool) {
        let found = self.subscriptions.iter().filter(|(_, it)| is(it));
        let mut keys: Vec<Key> = found.map(|(key, _)| *key).collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| self.end(key, reason, now));
    }

    /// Changes the configuration, for requests and NOTIFYs from now on.
    pub const fn configure(&mut self, config: Config) {
        self.config = config;
    }

    /// Returns the number of subscriptions.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.subscriptions.len()
    }

    /// Returns the number of entries in tables other than those of users with a state, which is
    /// zero without a subscription.
    #[must_use]
    pub fn remains(&self) -> usize {
        self.subscriptions.len()
            + self.subscribers.len()
            + self.sources.len()
            + self.branches.len()
            + usize::from(self.timers.next().is_some())
    }

    /// Returns the counts since the creation.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Removes a subscription without a NOTIFY.
    pub(crate) fn remove(&mut self, key: Key) {
        let Some(subscription) = self.subscriptions.remove(&key) else { return };
        self.timers.set(key, subscription.queued, None);
        if let Some(sent) = subscription.sent {
            self.branches.remove(&sent.branch);
        }
        count_down(&mut self.sources, &subscription.source());
        count_down(&mut self.subscribers, &subscription.subscriber);
        if let Some(user) = self.users.get_mut(&*subscription.user) {
            user.subscriptions.retain(|it| *it != key);
        }
        self.forget_if_empty(&subscription.user);
    }

    /// Forgets a user without a state and a subscription.
    fn forget_if_empty(&mut self, user: &str) {
        let is_empty = |user: &User| {
            user.messages.is_none() && user.calls.is_empty() && user.subscriptions.is_empty()
        };
        if self.users.get(user).is_some_and(is_empty) {
            self.users.remove(user);
        }
    }

    /// Sets the timer of a subscription.
    pub(crate) fn settle(&mut self, key: Key) {
        if let Some(subscription) = self.subscriptions.get_mut(&key) {
            let next = Some(subscription.next_timer());
            self.timers.set(key, subscription.queued, next);
            subscription.queued = next;
        }
    }

    pub(crate) fn send(&mut self, flow: Flow, bytes: Vec<u8>) {
        self.transmits.push_back(Transmit { flow, bytes });
    }

    /// Answers `request`, which came on `flow`.
    pub(crate) fn respond(
        &mut self,
        request: &Message<'_>,
        flow: &Flow,
        status: u16,
        tag: &[u8],
        lines: &[u8],
    ) {
        let mut stateless = Vec::new();
        let to_tag = if tag.is_empty() {
            let call_id = request.value(sip::HeaderName::CallId).unwrap_or_default();
            let hash = self.tokens.hash(&[b"refused", call_id]);
            sip::Encode::encode(&sip_ua::Token(hash), &mut stateless);
            &stateless
        } else {
            tag
        };
        let response = Response {
            request,
            source: flow.remote,
            status,
            reason: reason_phrase(status),
            to_tag: Some(to_tag),
        };
        let mut out = Vec::new();
        response.write(&mut out, |out| out.extend_from_slice(lines));
        self.send(*flow, out);
    }
}

/// Decrements the count of `key`.
fn count_down<K: core::hash::Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

impl core::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Notifier")
            .field("subscriptions", &self.subscriptions())
            .finish_non_exhaustive()
    }
}
