//! The calls of users, by the messages that a proxy forwards.
//!
//! A call is known by the number of its INVITE's transaction until it is answered, and by its
//! dialog afterwards. A call without a seen end ends at its deadline.

use crate::dialog_info::{CallState, Phase};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use hashbrown::HashMap;
use sip::{Duration, Encode, Flow, Instant};
use sip_ua::Replaces;

/// The time after the session interval of a call until it counts as ended. The ends send a BYE
/// before the interval is over (RFC 4028 section 10).
const GRACE: Duration = Duration::from_secs(32);

/// The limits of a [`CallTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableLimits {
    /// The maximum number of calls.
    pub calls: usize,
    /// The maximum number of calls that a user is shown with.
    pub calls_of_user: usize,
    /// The maximum time between responses to an INVITE. It is longer than timer C of the proxy.
    pub ringing: Duration,
    /// The time without a message after which an answered call without a session timer counts as
    /// ended.
    pub silence: Duration,
}

impl Default for TableLimits {
    fn default() -> Self {
        Self {
            calls: 100_000,
            calls_of_user: 32,
            ringing: Duration::from_secs(600),
            silence: Duration::from_secs(4 * 3600),
        }
    }
}

/// A party of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// The user, `name@domain`, if it is one. The callee may be a group.
    pub user: Option<Box<str>>,
    /// The URI in From or To.
    pub identity: Vec<u8>,
    /// The URI that reaches the party.
    pub target: Vec<u8>,
}

/// The beginning of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallStart {
    /// The number of the transaction of the INVITE.
    pub transaction: u128,
    /// The Call-ID.
    pub call_id: Vec<u8>,
    /// The tag of the caller.
    pub caller_tag: Vec<u8>,
    /// The caller and the callee.
    pub parties: [Party; 2],
    /// The place of the caller, if the call may be picked up.
    pub caller: Option<CallerPlace>,
    /// True if the callee is a group: it is shown with the call as long as that stands, beside the
    /// users that ring.
    pub is_to_group: bool,
}

/// The call that [`CallTable::retarget`] leads to other users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetargetedCall<'a> {
    /// That of the transaction with this number.
    Transaction(u128),
    /// The unanswered one with this Call-ID.
    CallId(&'a [u8]),
}

/// The place where the caller is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerPlace {
    /// The URI in Contact.
    pub uri: Vec<u8>,
    /// The value of a Route. Empty for none.
    pub routes: Vec<u8>,
    /// The flow of the INVITE.
    pub flow: Flow,
    /// True if the caller takes an INVITE with Replaces.
    pub takes_replaces: bool,
}

/// A ringing call that another party may take over, by an INVITE with Replaces (RFC 3891).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pickup {
    /// The place of the caller, which the INVITE goes to.
    pub caller: CallerPlace,
    /// The value of Replaces.
    pub replaces: Vec<u8>,
    /// The number of the transaction of the INVITE, or of that which continues a call from a trunk.
    pub transaction: u128,
    /// True for a call from a trunk: an INVITE to its caller would not count for the trunk.
    pub is_from_trunk: bool,
}

#[derive(Debug)]
struct Call {
    id: u64,
    start: CallStart,
    /// The transaction with which the B2BUA continues a call from a trunk.
    continued: Option<u128>,
    /// The users that the call is led to. The party that was called is the first one.
    callees: Vec<Box<str>>,
    phase: Phase,
    callee_tag: Vec<u8>,
    interval: Duration,
    deadline: Instant,
}

impl Call {
    /// The caller and the callees that are users.
    fn users(&self) -> impl Iterator<Item = &str> {
        let caller = self.start.parties[0].user.as_deref();
        caller.into_iter().chain(self.callees.iter().map(|user| &**user))
    }

    fn is_answered(&self) -> bool {
        self.phase == Phase::Confirmed
    }

    /// The call as another party takes it over.
    fn pickup(&self) -> Option<Pickup> {
        let caller = self.start.caller.clone()?;
        let replaces = Replaces {
            call_id: self.start.call_id.clone(),
            to_tag: self.start.caller_tag.clone(),
            from_tag: self.callee_tag.clone(),
            early_only: true,
        };
        let mut value = Vec::new();
        replaces.encode(&mut value);
        // Peers may have written something else than tags.
        let transaction = self.continued.unwrap_or(self.start.transaction);
        let is_from_trunk = self.continued.is_some();
        let pickup = Pickup { caller, replaces: value, transaction, is_from_trunk };
        (Replaces::parse(&pickup.replaces) == Ok(replaces)).then_some(pickup)
    }

    fn is_between(&self, tags: [&[u8]; 2]) -> bool {
        let own = [&self.start.caller_tag[..], &self.callee_tag];
        own == tags || own == [tags[1], tags[0]]
    }
}

/// The calls that stand. After each change [`CallTable::take_changed`] returns the users with
/// changed states.
#[derive(Debug, Default)]
pub struct CallTable {
    limits: TableLimits,
    calls: HashMap<u128, Call>,
    /// The keys of the calls of each user, the oldest first.
    users: HashMap<Box<str>, Vec<u128>>,
    /// The keys of the calls with each Call-ID.
    call_ids: HashMap<Vec<u8>, Vec<u128>>,
    deadlines: BTreeSet<(Instant, u128)>,
    changed: BTreeSet<Box<str>>,
    count: u64,
}

impl CallTable {
    /// Returns a table without calls.
    #[must_use]
    pub fn new(limits: TableLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds a call. It is left out if the table is full, or if no party is a user.
    pub fn begin(&mut self, now: Instant, start: CallStart) {
        let transaction = start.transaction;
        let is_full = self.calls.len() >= self.limits.calls;
        if is_full || self.calls.contains_key(&transaction) {
            return;
        }
        let mut is_of_user = false;
        for user in users_of(&start) {
            let calls = self.users.entry(user.into()).or_default();
            if calls.len() < self.limits.calls_of_user && !calls.contains(&transaction) {
                calls.push(transaction);
                is_of_user = true;
            }
        }
        if !is_of_user && !start.is_to_group {
            return;
        }
        self.count += 1;
        self.call_ids.entry(start.call_id.clone()).or_default().push(transaction);
        let deadline = now + self.limits.ringing;
        self.deadlines.insert((deadline, transaction));
        let (id, phase, interval) = (self.count, Phase::Trying, self.limits.silence);
        self.changed.extend(users_of(&start).map(Box::from));
        let callees = start.parties[1].user.iter().cloned().collect();
        let (continued, callee_tag) = (None, Vec::new());
        let call = Call { id, start, continued, callees, phase, callee_tag, interval, deadline };
        self.calls.insert(transaction, call);
    }

    /// Notes that the B2BUA continues the unanswered call from a trunk with this Call-ID, by the
    /// INVITE of `transaction`.
    pub fn go_on(&mut self, call_id: &[u8], transaction: u128) {
        let call = self.unanswered(call_id).and_then(|call| self.calls.get_mut(&call));
        if let Some(call) = call {
            call.continued = Some(transaction);
        }
    }

    /// The key of the unanswered call with this Call-ID.
    fn unanswered(&self, call_id: &[u8]) -> Option<u128> {
        let mut with_id = self.call_ids.get(call_id)?.iter().copied();
        with_id.find(|it| self.calls.get(it).is_some_and(|it| !it.is_answered()))
    }

    /// Notes that a call rings the phones of `users` in place of its callee. A user with
    /// too many calls is left out.
    pub fn retarget(&mut self, call: RetargetedCall<'_>, users: Vec<Box<str>>) {
        let transaction = match call {
            RetargetedCall::Transaction(transaction) => Some(transaction),
            RetargetedCall::CallId(call_id) => self.unanswered(call_id),
        };
        let Some(transaction) = transaction else { return };
        let Some(call) = self.calls.get_mut(&transaction).filter(|it| !it.is_answered()) else {
            return;
        };
        let caller = call.start.parties[0].user.clone();
        let group = call.start.parties[1].user.clone().filter(|_| call.start.is_to_group);
        for user in core::mem::take(&mut call.callees) {
            if group.as_ref() == Some(&user) {
                call.callees.push(user);
                continue;
            }
            if caller.as_ref() != Some(&user) {
                remove_from(&mut self.users, &user, transaction);
            }
            self.changed.insert(user);
        }
        let most = self.limits.calls_of_user;
        for user in users {
            let calls = self.users.entry(user.clone()).or_default();
            if !calls.contains(&transaction) {
                if calls.len() >= most {
                    continue;
                }
                calls.push(transaction);
            }
            self.changed.insert(user.clone());
            call.callees.push(user);
        }
    }

    /// Notes a response to the INVITE of `transaction`, as the caller gets it. `interval` is that
    /// of its Session-Expires (RFC 4028).
    pub fn respond(
        &mut self,
        now: Instant,
        transaction: u128,
        status: u16,
        callee_tag: &[u8],
        interval: Option<Duration>,
    ) {
        let ringing = self.limits.ringing;
        let Some(call) = self.calls.get_mut(&transaction) else { return };
        // Another callee of a fork may have answered as well. The caller ends that call.
        if call.phase == Phase::Confirmed || status <= 100 {
            return;
        }
        if status >= 300 {
            return self.remove(transaction);
        }
        let before = (call.phase, call.callee_tag.clone());
        if !callee_tag.is_empty() {
            call.callee_tag = callee_tag.to_vec();
        }
        call.phase = match status {
            200.. => Phase::Confirmed,
            _ if callee_tag.is_empty() => call.phase,
            _ => Phase::Early,
        };
        let wait = match call.phase {
            Phase::Confirmed => {
                call.interval = interval.map_or(call.interval, |interval| interval + GRACE);
                call.interval
            }
            _ => ringing,
        };
        let is_changed = before != (call.phase, call.callee_tag.clone());
        self.postpone(transaction, now + wait);
        if is_changed && let Some(call) = self.calls.get(&transaction) {
            self.changed.extend(call.users().map(Box::from));
        }
    }

    /// Notes a request within the dialog of a call, which shows that the call stands.
    pub fn refresh(
        &mut self,
        now: Instant,
        call_id: &[u8],
        tags: [&[u8]; 2],
        interval: Option<Duration>,
    ) {
        let Some(transaction) = self.find(call_id, tags) else { return };
        let Some(call) = self.calls.get_mut(&transaction) else { return };
        call.interval = interval.map_or(call.interval, |interval| interval + GRACE);
        let deadline = now + call.interval;
        self.postpone(transaction, deadline);
    }

    /// Notes the end of the answered call with this dialog.
    pub fn end(&mut self, call_id: &[u8], tags: [&[u8]; 2]) {
        if let Some(transaction) = self.find(call_id, tags) {
            self.remove(transaction);
        }
    }

    /// Notes the end of the calls that are over at `now`.
    pub fn expire(&mut self, now: Instant) {
        while let Some((deadline, transaction)) = self.deadlines.first().copied()
            && deadline <= now
        {
            self.remove(transaction);
        }
    }

    /// Returns the time of the next call to [`CallTable::expire`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Ends all calls: they are no longer seen.
    pub fn clear(&mut self) {
        let all: Vec<u128> = self.calls.keys().copied().collect();
        all.into_iter().for_each(|transaction| self.remove(transaction));
    }

    /// Removes and returns the users with changed states.
    pub fn take_changed(&mut self) -> impl Iterator<Item = Box<str>> + use<> {
        core::mem::take(&mut self.changed).into_iter()
    }

    /// Returns the calls of `user`, the oldest first.
    #[must_use]
    pub fn calls_of(&self, user: &str) -> Vec<CallState> {
        let calls = self.users.get(user).into_iter().flatten();
        calls.filter_map(|call| Some(state_of(self.calls.get(call)?, user))).collect()
    }

    /// Returns the call that has rung `user` for the longest time.
    #[must_use]
    pub fn ringing(&self, user: &str) -> Option<Pickup> {
        let calls = self.users.get(user)?.iter().filter_map(|call| self.calls.get(call));
        let mut ringing = calls.filter(|call| {
            call.phase == Phase::Early && call.callees.iter().any(|callee| **callee == *user)
        });
        ringing.next()?.pickup()
    }

    /// Returns the ringing call that `replaces`, a value of Replaces, names, and a user that it
    /// rings. The value names the caller's end of the call, or either end of one from a trunk,
    /// where each phone of the house picks it up.
    #[must_use]
    pub fn named(&self, replaces: &[u8]) -> Option<(Pickup, &str)> {
        let named = Replaces::parse(replaces).ok()?;
        let tags = [&named.to_tag[..], &named.from_tag];
        let with_id = self.call_ids.get(&named.call_id)?.iter();
        let call = with_id.filter_map(|call| self.calls.get(call)).find(|call| {
            let own = [&call.start.caller_tag[..], &call.callee_tag];
            let is_it = own == tags || (call.continued.is_some() && call.is_between(tags));
            call.phase == Phase::Early && is_it
        })?;
        Some((call.pickup()?, call.callees.first()?))
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if there is no call.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let rest = (self.users.len(), self.call_ids.len(), self.deadlines.len());
        self.calls.is_empty() && rest == (0, 0, 0)
    }

    fn find(&self, call_id: &[u8], tags: [&[u8]; 2]) -> Option<u128> {
        let with_id = self.call_ids.get(call_id)?.iter();
        let mut found = with_id.filter(|transaction| {
            let call = self.calls.get(*transaction);
            call.is_some_and(|call| call.phase == Phase::Confirmed && call.is_between(tags))
        });
        found.next().copied()
    }

    fn postpone(&mut self, transaction: u128, deadline: Instant) {
        let Some(call) = self.calls.get_mut(&transaction) else { return };
        self.deadlines.remove(&(call.deadline, transaction));
        self.deadlines.insert((deadline, transaction));
        call.deadline = deadline;
    }

    fn remove(&mut self, transaction: u128) {
        let Some(call) = self.calls.remove(&transaction) else { return };
        self.deadlines.remove(&(call.deadline, transaction));
        remove_from(&mut self.call_ids, &call.start.call_id, transaction);
        for user in call.users() {
            remove_from(&mut self.users, user, transaction);
            self.changed.insert(user.into());
        }
    }
}

fn users_of(start: &CallStart) -> impl Iterator<Item = &str> {
    start.parties.iter().filter_map(|party| party.user.as_deref())
}

/// Returns the call as the party `user` has it.
fn state_of(call: &Call, user: &str) -> CallState {
    let [caller, callee] = &call.start.parties;
    let is_initiator = caller.user.as_deref() == Some(user);
    let other = if is_initiator { callee } else { caller };
    let (mut local_tag, mut remote_tag) = (call.start.caller_tag.clone(), call.callee_tag.clone());
    if !is_initiator {
        core::mem::swap(&mut local_tag, &mut remote_tag);
    }
    CallState {
        id: call.id,
        phase: call.phase,
        is_initiator,
        call_id: call.start.call_id.clone(),
        local_tag,
        remote_tag,
        remote_identity: other.identity.clone(),
        remote_target: other.target.clone(),
    }
}

/// Removes a value from a list, and an empty list from `lists`.
fn remove_from<K, Q>(lists: &mut HashMap<K, Vec<u128>>, key: &Q, value: u128)
where
    K: core::hash::Hash + Eq + core::borrow::Borrow<Q>,
    Q: core::hash::Hash + Eq + ?Sized,
{
    if let Some(list) = lists.get_mut(key) {
        list.retain(|it| *it != value);
        if list.is_empty() {
            lists.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
