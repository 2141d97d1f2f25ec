//! The notifier beside the engine, for all threads, and the calls that it tells.

use super::counted::Named;
use super::local::Local;
use notifier::{
    CallStart, CallTable, Config, Counters, Messages, Notifier, Party, Pickup, Reason, TableLimits,
    Transmit,
};
use parking_lot::Mutex;
use sip::{Endpoint, Instant};
use sip_server::{
    CallChange, CallerPlace, Event, RetargetedCall, RingingCall, WatchedCalls, WatchedParty,
};
use std::sync::atomic::{AtomicU64, Ordering};

/// The subscriptions, and the calls of users.
struct State {
    notifier: Notifier,
    calls: CallTable,
}

/// The notifier of all threads. No other lock is taken while it is locked, and no message is passed
/// to the engine.
pub(crate) struct SharedNotifier {
    state: Mutex<State>,
    /// The time of the next timer in microseconds, to be read without the lock.
    next_timer: AtomicU64,
}

impl State {
    fn change(&mut self, now: Instant, change: CallChange) {
        let calls = &mut self.calls;
        match change {
            CallChange::Begun {
                transaction,
                call_id,
                caller_tag,
                parties,
                caller,
                is_to_group,
            } => {
                let CallerPlace { uri, routes, flow, takes_replaces } = caller;
                let (uri, routes) = (uri.into(), routes.into());
                let caller = notifier::CallerPlace { uri, routes, flow, takes_replaces };
                calls.begin(
                    now,
                    CallStart {
                        transaction,
                        call_id: call_id.into(),
                        caller_tag: caller_tag.into(),
                        parties: parties.map(party),
                        caller: Some(caller),
                        is_to_group,
                    },
                );
            }
            CallChange::Retargeted { call, users } => {
                let call = match &call {
                    RetargetedCall::Transaction(transaction) => {
                        notifier::RetargetedCall::Transaction(*transaction)
                    }
                    RetargetedCall::CallId(call_id) => notifier::RetargetedCall::CallId(call_id),
                };
                calls.retarget(call, users);
            }
            CallChange::Continued { call_id, transaction } => calls.go_on(&call_id, transaction),
            CallChange::Response { transaction, status, callee_tag, interval } => {
                calls.respond(now, transaction, status, &callee_tag, interval);
            }
            CallChange::Refreshed { call_id, tags, interval } => {
                calls.refresh(now, &call_id, [&tags[0], &tags[1]], interval);
            }
            CallChange::Ended { call_id, tags } => calls.end(&call_id, [&tags[0], &tags[1]]),
        }
    }

    /// Tells the changes of calls to their subscribers.
    fn tell(&mut self, now: Instant) {
        for user in self.calls.take_changed() {
            let calls = self.calls.calls_of(&user);
            self.notifier.set_dialogs(now, &user, calls);
        }
    }
}

/// A party, which is reached by its address-of-record if it is a user.
fn party(WatchedParty { user, identity }: WatchedParty) -> Party {
    let target = match &user {
        Some(user) => {
            let (name, domain) = user.rsplit_once('@').unwrap_or((user, ""));
            crate::domains::sip_uri(name, domain).into_bytes()
        }
        None => identity.to_vec(),
    };
    Party { user, identity: identity.into(), target }
}

impl SharedNotifier {
    /// A notifier with the limits of `config`, without subscriptions.
    pub(super) fn new(config: Config, secret: &[u8; 32]) -> Self {
        let notifier = Notifier::new(config, secret);
        let calls = CallTable::new(TableLimits::default());
        Self { state: Mutex::new(State { notifier, calls }), next_timer: AtomicU64::new(u64::MAX) }
    }

    /// Notes the changes of calls in `events`, before the messages that cause them are sent.
    /// Returns true if there are some, to be told by [`SharedNotifier::exchange`].
    pub(super) fn note(&self, now: Instant, events: &mut Vec<Event>) -> bool {
        if !events.iter().any(|event| matches!(event, Event::Call(_))) {
            return false;
        }
        let mut state = self.state.lock();
        for event in events.extract_if(.., |event| matches!(event, Event::Call(_))) {
            if let Event::Call(change) = event {
                state.change(now, *change);
            }
        }
        true
    }

    /// Passes the messages in `local` to the notifier, and its messages to the engine.
    pub(super) fn exchange(&self, now: Instant, local: &mut Local) {
        let messages = local.take_internal(Endpoint::Notifier);
        let has_changes = std::mem::take(&mut local.has_call_changes);
        if messages.is_empty() && !has_changes {
            return;
        }
        self.act(now, local, |state| {
            messages.iter().for_each(|(flow, bytes)| state.notifier.receive(now, flow, bytes));
        });
    }

    /// Runs the timers that are due at `now`.
    pub(super) fn on_timer(&self, now: Instant, local: &mut Local) {
        if self.next_timer().is_some_and(|when| when <= now) {
            self.act(now, local, |state| {
                state.calls.expire(now);
                state.notifier.on_timer(now);
            });
        }
    }

    /// Sets the numbers of messages of `user`, which is `name@domain`.
    pub(super) fn set_messages(
        &self,
        now: Instant,
        user: &str,
        counts: Messages,
        local: &mut Local,
    ) {
        self.act(now, local, |state| state.notifier.set_messages(now, user, counts));
    }

    /// The numbers of messages of `user`.
    pub(super) fn messages(&self, user: &str) -> Messages {
        self.state.lock().notifier.messages(user).unwrap_or_default()
    }

    /// Forgets a removed user.
    pub(super) fn remove_user(&self, now: Instant, user: &str, local: &mut Local) {
        self.act(now, local, |state| state.notifier.remove_user(now, user));
    }

    /// Ends the subscriptions to calls, since the rights to them have changed. If no calls are seen
    /// from now on, as `is_off` says, those that stand are forgotten.
    pub(super) fn change_rights(&self, now: Instant, is_off: bool, local: &mut Local) {
        let reason = if is_off { Reason::Rejected } else { Reason::Deactivated };
        self.act(now, local, |state| {
            state.notifier.end_dialogs(now, reason);
            if is_off {
                state.calls.clear();
            }
        });
    }

    /// Changes the configuration.
    pub(super) fn configure(&self, config: Config) {
        self.state.lock().notifier.configure(config);
    }

    /// Ends all subscriptions. Returns true if there were some.
    pub(super) fn end_all(&self, now: Instant, local: &mut Local) -> bool {
        let mut count = 0;
        self.act(now, local, |state| {
            count = state.notifier.subscriptions();
            state.notifier.end_all(now, Reason::Probation);
        });
        count > 0
    }

    /// Calls `act` with the state, tells what has changed, and passes the messages to the engine.
    fn act(&self, now: Instant, local: &mut Local, act: impl FnOnce(&mut State)) {
        let sent: Vec<Transmit> = {
            let mut state = self.state.lock();
            act(&mut state);
            state.tell(now);
            let timers = [state.notifier.next_timer(), state.calls.next_timer()];
            let next = timers.into_iter().flatten().min().map_or(u64::MAX, Instant::as_micros);
            self.next_timer.store(next, Ordering::Relaxed);
            std::iter::from_fn(|| state.notifier.poll_transmit()).collect()
        };
        for Transmit { flow, bytes, .. } in sent {
            local.worker.receive(now, &flow, &bytes, &mut local.out);
        }
    }

    /// The time of the next call of [`SharedNotifier::on_timer`].
    pub(super) fn next_timer(&self) -> Option<Instant> {
        let next = self.next_timer.load(Ordering::Relaxed);
        (next < u64::MAX).then(|| Instant::from_micros(next))
    }

    /// The counters with their names.
    pub(super) fn counters(&self) -> [Named; 5] {
        let state = self.state.lock();
        let Counters { accepted, over_limit, notified, lost, .. } = state.notifier.counters();
        [
            ("subscriptions", "Subscriptions that stand.", state.notifier.subscriptions() as u64),
            ("subscriptions-accepted", "Subscriptions that were accepted.", accepted),
            ("subscriptions-limit", "Subscriptions refused by a limit.", over_limit),
            ("subscriptions-lost", "Subscriptions ended since a NOTIFY failed.", lost),
            ("notifications", "NOTIFY requests sent.", notified),
        ]
    }
}

impl WatchedCalls for SharedNotifier {
    fn ringing(&self, user: &[u8]) -> Option<RingingCall> {
        let state = self.state.lock();
        state.calls.ringing(std::str::from_utf8(user).ok()?).map(ringing_call)
    }

    fn named(&self, replaces: &[u8]) -> Option<(RingingCall, Box<str>)> {
        let state = self.state.lock();
        let (pickup, user) = state.calls.named(replaces)?;
        Some((ringing_call(pickup), user.into()))
    }
}

/// The call of `pickup`, for the engine.
fn ringing_call(pickup: Pickup) -> RingingCall {
    let Pickup { caller, replaces, transaction, is_from_trunk } = pickup;
    let notifier::CallerPlace { uri, routes, flow, takes_replaces } = caller;
    let (uri, routes) = (uri.into(), routes.into());
    let caller = CallerPlace { uri, routes, flow, takes_replaces };
    RingingCall { caller, replaces, transaction, is_from_trunk }
}
