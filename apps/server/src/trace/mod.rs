//! Traces: the SIP messages of the last minutes, and those of calls that were marked. They are kept
//! in memory only.

mod blank;
pub(crate) mod hep;
pub(crate) mod ladder;
mod parties;
pub(crate) mod pcapng;
mod recent;
mod ring;
mod traffic;

use crate::call_lines::party;
use net::wall_clock;
use parking_lot::Mutex;
pub(crate) use parties::is_with;
use parties::{call_id, parties};
pub(crate) use recent::{FoundRow, Recent, Search};
use serde::{Deserialize, Serialize};
use sip::header::NameAddr;
use sip::{Flow, HeaderName, Instant, Message, Method};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use traffic::Place;
pub(crate) use traffic::Traffic;

/// The maximum number of marks.
const MAX_MARKS: usize = 16;

/// The maximum number of traced calls. The oldest one is forgotten for a new one.
const MAX_CALLS: usize = 100;

/// The maximum bytes of messages of all traced calls, and of one. Further messages of one call are
/// only counted.
const MAX_BYTES: [usize; 2] = [16 << 20, 1 << 20];

/// The maximum number of Call-IDs of one call: of its legs, and of further attempts.
const MAX_CALL_IDS: usize = 16;

/// The maximum time that a mark is valid for.
pub(crate) const MAX_TIME: Duration = Duration::from_secs(24 * 3600);

/// The calls that a mark is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Target {
    /// The call with this Call-ID, or this identifier in `barebell calls`.
    Call(String),
    /// Calls from or to this user: `user@domain`, or `user` in any domain.
    User(String),
}

/// A mark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) target: Target,
    /// The end of the mark, in microseconds since 1970. Its calls are not traced after that.
    pub(crate) until: u64,
    /// True if credentials and keys are kept.
    pub(crate) has_secrets: bool,
}

/// A traced call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Traced {
    /// The Call-IDs of its legs, that of the caller first.
    pub(crate) call_ids: Vec<String>,
    /// The time of the first message, in microseconds since 1970.
    pub(crate) begun: u64,
    /// The parties, the caller first.
    pub(crate) parties: [String; 2],
    /// The number of messages.
    pub(crate) messages: usize,
    /// The number of further messages that were not kept.
    pub(crate) omitted: u64,
}

/// The messages of the last minutes, the marks, and the traced calls.
pub(crate) struct Tracer {
    /// The messages of the last minutes.
    pub(crate) recent: Recent,
    /// False if no call is marked or traced.
    is_on: AtomicBool,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    marks: Vec<Mark>,
    calls: VecDeque<Call>,
}

struct Call {
    call_ids: Vec<Vec<u8>>,
    parties: [String; 2],
    until: u64,
    has_secrets: bool,
    messages: Vec<Traffic>,
    bytes: usize,
    omitted: u64,
}

impl Tracer {
    /// A tracer without marks, which keeps the last messages of `workers` workers in `bytes`.
    pub(crate) fn new(workers: usize, bytes: usize) -> Self {
        let recent = Recent::new(workers, bytes);
        Self { recent, is_on: AtomicBool::default(), kept: Mutex::default() }
    }

    /// Adds a mark for `time`, or renews it.
    ///
    /// # Errors
    /// A message: there are too many marks.
    pub(crate) fn mark(
        &self,
        target: Target,
        time: Duration,
        has_secrets: bool,
    ) -> Result<Mark, String> {
        let now = wall_clock().as_micros();
        let until = now + time.min(MAX_TIME).as_micros() as u64;
        let mark = Mark { target, until, has_secrets };
        let mut kept = self.kept.lock();
        kept.marks.retain(|known| known.until > now && known.target != mark.target);
        if kept.marks.len() >= MAX_MARKS {
            return Err(format!("there are {MAX_MARKS} marks already: see `barebell trace`"));
        }
        kept.marks.push(mark.clone());
        self.is_on.store(true, Ordering::Relaxed);
        Ok(mark)
    }

    /// Removes all marks and traced calls.
    pub(crate) fn clear(&self) {
        let mut kept = self.kept.lock();
        self.is_on.store(false, Ordering::Relaxed);
        *kept = Kept::default();
    }

    /// The marks that are valid.
    pub(crate) fn marks(&self) -> Vec<Mark> {
        let now = wall_clock().as_micros();
        self.kept.lock().marks.iter().filter(|mark| mark.until > now).cloned().collect()
    }

    /// The traced calls, the oldest first.
    pub(crate) fn calls(&self) -> Vec<Traced> {
        let text = |id: &Vec<u8>| String::from_utf8_lossy(id).into_owned();
        let traced = |call: &Call| Traced {
            call_ids: call.call_ids.iter().map(text).collect(),
            begun: call.messages.first().map_or(0, |message| message.at),
            parties: call.parties.clone(),
            messages: call.messages.len(),
            omitted: call.omitted,
        };
        self.kept.lock().calls.iter().map(traced).collect()
    }

    /// The messages of the call with this Call-ID on one of its legs.
    pub(crate) fn messages(&self, call_id: &str) -> Vec<Traffic> {
        let kept = self.kept.lock();
        let call = kept.calls.iter().find(|call| call.has(call_id.as_bytes()));
        call.map(|call| call.messages.clone()).unwrap_or_default()
    }

    /// Notes a message that came to `worker` on `flow`.
    pub(crate) fn received(&self, worker: usize, flow: &Flow, bytes: &[u8]) {
        self.recent.note(worker, flow, bytes, false);
        if self.is_on() {
            self.note(worker, flow, bytes, false);
        }
    }

    /// Notes messages that `worker` sends.
    pub(crate) fn sent<'m>(
        &self,
        worker: usize,
        messages: impl Iterator<Item = (&'m Flow, &'m [u8])> + Clone,
    ) {
        self.recent.note_sent(worker, messages.clone());
        if self.is_on() {
            messages.for_each(|(flow, bytes)| self.note(worker, flow, bytes, true));
        }
    }

    /// Notes that `message` to the B2BUA, which came from `flow`, caused these `others` of it: they
    /// are of one call.
    pub(crate) fn join<'m>(
        &self,
        worker: usize,
        flow: &Flow,
        message: &[u8],
        others: impl Iterator<Item = &'m [u8]> + Clone,
    ) {
        self.recent.note_joined(worker, flow, message, others.clone());
        if !self.is_on() {
            return;
        }
        let Some(id) = call_id(message) else { return };
        let others: Vec<&[u8]> = others.filter_map(call_id).filter(|other| *other != id).collect();
        let mut kept = self.kept.lock();
        let ids = || std::iter::once(id).chain(others.iter().copied());
        let Some(call) = kept.calls.iter_mut().find(|call| ids().any(|id| call.has(id))) else {
            return;
        };
        for id in ids() {
            if !call.has(id) && call.call_ids.len() < MAX_CALL_IDS {
                call.call_ids.push(id.to_vec());
            }
        }
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    #[cold]
    fn note(&self, worker: usize, flow: &Flow, bytes: &[u8], is_sent: bool) {
        let Ok(message) = Message::parse(bytes) else { return };
        let Some(id) = message.value(HeaderName::CallId) else { return };
        let now = wall_clock();
        let mut kept = self.kept.lock();
        kept.forget_marks(now);
        let position = kept.calls.iter().position(|call| call.has(id));
        let Some(position) = position.or_else(|| kept.begin(&message, id)) else {
            let ended = |call: &Call| call.until <= now.as_micros();
            if kept.marks.is_empty() && kept.calls.iter().all(ended) {
                self.is_on.store(false, Ordering::Relaxed);
            }
            return;
        };
        let place = Place { at: now.as_micros(), worker, flow, is_sent };
        kept.calls[position].add(place, &message);
        while kept.calls.iter().map(|call| call.bytes).sum::<usize>() > MAX_BYTES[0] {
            kept.calls.pop_front();
        }
    }
}

impl Kept {
    fn forget_marks(&mut self, now: Instant) {
        self.marks.retain(|mark| mark.until > now.as_micros());
    }

    /// Begins to trace the call of `message`, if it is marked. Returns its position.
    fn begin(&mut self, message: &Message<'_>, id: &[u8]) -> Option<usize> {
        let parties = parties(message);
        let fits = |mark: &&Mark| match &mark.target {
            Target::Call(call) => call.as_bytes() == id,
            Target::User(user) => begins_call(message) && is_with(user, &parties),
        };
        let mark = self.marks.iter().find(fits)?;
        let call = Call {
            call_ids: vec![id.to_vec()],
            parties: parties.each_ref().map(|uri| party(uri)),
            until: mark.until,
            has_secrets: mark.has_secrets,
            messages: Vec::new(),
            bytes: 0,
            omitted: 0,
        };
        if self.calls.len() >= MAX_CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back(call);
        Some(self.calls.len() - 1)
    }
}

impl Call {
    fn has(&self, id: &[u8]) -> bool {
        self.call_ids.iter().any(|known| known == id)
    }

    fn add(&mut self, place: Place<'_>, message: &Message<'_>) {
        let bytes = message.as_bytes();
        if place.at >= self.until || self.bytes + bytes.len() > MAX_BYTES[1] {
            self.omitted += 1;
            return;
        }
        let id = message.value(HeaderName::CallId);
        let leg = self.call_ids.iter().position(|known| Some(&known[..]) == id);
        self.bytes += bytes.len();
        let leg = leg.unwrap_or_default();
        self.messages.push(Traffic::new(place, leg, bytes, self.has_secrets));
    }
}

/// True if `message` is an INVITE outside of a dialog.
fn begins_call(message: &Message<'_>) -> bool {
    let to = message.value(HeaderName::To);
    let to = to.and_then(|value| NameAddr::parse(HeaderName::To, value).ok());
    message.method() == Some(Method::Invite) && to.is_some_and(|to| to.tag().is_none())
}

#[cfg(test)]
mod tests;
