//! The decisions of a hook on calls to and from trunks. The calls wait in the B2BUA, which ends the
//! waits: a silent hook holds up no thread of calls.

use super::counted::Named;
use super::hook::Hook;
use crate::decisions::DecisionSettings;
use crate::failure::Failure;
use crate::log;
use b2bua::{Decision, DecisionTerms, Fallback, Question};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// The part of the calls that wait which one user, or the calls from one trunk, may have: its
/// reciprocal.
const SHARE: usize = 4;

/// The questions that wait for the hook, for all threads.
pub(crate) struct SharedDecisions {
    hook: Hook,
    terms: DecisionTerms,
    most: usize,
    queue: SyncSender<Question>,
    /// The other end of `queue`, which one thread at a time waits at.
    queued: Mutex<Receiver<Question>>,
    /// The number of questions of each party that wait.
    waiting: Mutex<HashMap<String, usize>>,
    allowed: AtomicU64,
    refused: AtomicU64,
    unasked: AtomicU64,
}

/// The content of a request of the hook.
#[derive(Serialize)]
struct Asked<'q> {
    direction: &'static str,
    call_id: &'q str,
    from: &'q str,
    to: &'q str,
    user: Option<&'q str>,
    number: Option<&'q str>,
    class: Option<&'q str>,
    trunks: &'q [String],
}

/// The action that the hook answers.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Action {
    Allow,
    Refuse,
}

/// The answer of the hook.
#[derive(Deserialize)]
struct Answer {
    action: Action,
    trunks: Option<Vec<String>>,
    status: Option<u16>,
    #[serde(default)]
    reason: String,
}

/// The decision in the body of a response. An empty one allows the call.
///
/// # Errors
/// The content that was expected.
fn read(body: &[u8]) -> Result<Decision, String> {
    if body.trim_ascii().is_empty() {
        return Ok(Decision::Allow);
    }
    let answer: Answer = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let Answer { action, trunks, status, reason } = answer;
    match (action, trunks, status.unwrap_or(403)) {
        (Action::Allow, None, _) => Ok(Decision::Allow),
        (Action::Allow, Some(names), _) => Ok(Decision::Through(names)),
        (Action::Refuse, _, status @ 400..=699) => Ok(Decision::Refuse { status, words: reason }),
        (Action::Refuse, _, status) => Err(format!("status {status}, expected 400 to 699")),
    }
}

/// The party that a question counts for: the user, or the trunk of a call from one.
fn party_of(question: &Question) -> String {
    match (&question.payer, question.trunks.first()) {
        (Some(user), _) => user.clone(),
        (None, trunk) => format!("trunk {}", trunk.map_or("", String::as_str)),
    }
}

impl SharedDecisions {
    /// Opens the hook, if there is one.
    ///
    /// # Errors
    /// [`Failure`] if the hook cannot be used.
    pub(super) fn open(settings: &DecisionSettings) -> Result<Option<Self>, Failure> {
        let Some(url) = &settings.url else { return Ok(None) };
        let (queue, queued) = sync_channel(settings.max_waiting);
        let fallback = if settings.refuses { Fallback::Refuse } else { Fallback::Allow };
        Ok(Some(Self {
            hook: Hook::new(url, "numbers.hook.url", "hook", settings.timeout)?,
            terms: DecisionTerms { patience: settings.timeout.into(), fallback },
            most: settings.max_waiting,
            queue,
            queued: Mutex::new(queued),
            waiting: Mutex::default(),
            allowed: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            unasked: AtomicU64::new(0),
        }))
    }

    /// The terms of the B2BUA.
    pub(super) const fn terms(&self) -> DecisionTerms {
        self.terms
    }

    /// Queues `question`. Returns false if too many wait, of its party or in all.
    pub(super) fn ask(&self, question: Question) -> bool {
        let party = party_of(&question);
        let mut waiting = self.waiting.lock();
        let count = waiting.get(&party).copied().unwrap_or_default();
        let is_queued = count < self.most.div_ceil(SHARE) && self.queue.try_send(question).is_ok();
        if is_queued {
            waiting.insert(party, count + 1);
        } else {
            self.unasked.fetch_add(1, Ordering::Relaxed);
            log::warn("hook", || format!("too many calls of {party} wait for the hook"));
        }
        is_queued
    }

    /// The next question of the queue, if there is one within `time`.
    ///
    /// # Errors
    /// No question came in time, or the queue has ended.
    pub(super) fn next(&self, time: Duration) -> Result<Question, RecvTimeoutError> {
        self.queued.lock().recv_timeout(time)
    }

    /// The decision of the hook. Blocks until it responds.
    pub(super) fn decide(&self, question: &Question) -> Option<Decision> {
        let call_id = String::from_utf8_lossy(&question.call_id);
        let [from, to] = question.parties.each_ref().map(|uri| String::from_utf8_lossy(uri));
        let content = Asked {
            direction: if question.is_incoming { "in" } else { "out" },
            call_id: &call_id,
            from: &from,
            to: &to,
            user: question.payer.as_deref(),
            number: question.number.as_deref(),
            class: question.class.as_deref(),
            trunks: &question.trunks,
        };
        let missed = || format!("the call of {from} to {to} has no decision");
        let decision = self.hook.ask(&content, read, missed);
        match &decision {
            Some(Decision::Refuse { .. }) => _ = self.refused.fetch_add(1, Ordering::Relaxed),
            Some(_) => _ = self.allowed.fetch_add(1, Ordering::Relaxed),
            None => {}
        }
        decision
    }

    /// Takes note that the wait of `question` is over.
    pub(super) fn done(&self, question: &Question) {
        let mut waiting = self.waiting.lock();
        let party = party_of(question);
        if let Some(count) = waiting.get_mut(&party) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&party);
            }
        }
    }

    /// The counters of decisions.
    pub(super) fn counters(&self) -> [Named; 3] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("hook-allowed", "Calls that the hook has allowed.", of(&self.allowed)),
            ("hook-refused", "Calls that the hook has refused.", of(&self.refused)),
            (
                "hook-unasked",
                "Calls that the hook was not asked about, since too many waited for it.",
                of(&self.unasked),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_allows_or_refuses_and_others_are_failures() {
        let words = |text: &str| text.to_owned();
        for (body, expected) in [
            ("", Decision::Allow),
            (" \r\n", Decision::Allow),
            ("{\"action\":\"allow\"}", Decision::Allow),
            (
                "{\"action\":\"allow\",\"trunks\":[\"b\",\"a\"]}",
                Decision::Through(vec![words("b"), words("a")]),
            ),
            ("{\"action\":\"refuse\"}", Decision::Refuse { status: 403, words: words("") }),
            (
                "{\"action\":\"refuse\",\"status\":603,\"reason\":\"no credit\",\"x\":1}",
                Decision::Refuse { status: 603, words: words("no credit") },
            ),
        ] {
            assert_eq!(read(body.as_bytes()), Ok(expected), "{body}");
        }
        for body in [
            "{}",
            "allow",
            "{\"action\":\"permit\"}",
            "{\"action\":\"refuse\",\"status\":200}",
            "{\"action\":\"allow\",\"trunks\":\"a\"}",
            "\u{0}",
        ] {
            assert!(read(body.as_bytes()).is_err(), "{body}");
        }
    }

    fn question(call: u64, payer: Option<&str>) -> Question {
        Question {
            call,
            call_id: (*b"x").into(),
            parties: [(*b"sip:a@b").into(), (*b"sip:c@d").into()],
            is_incoming: payer.is_none(),
            trunks: vec!["provider".to_owned()],
            payer: payer.map(str::to_owned),
            number: None,
            class: None,
        }
    }

    #[test]
    fn one_party_fills_a_part_of_the_queue_only() {
        let url = Some("http://127.0.0.1:9/".to_owned());
        let settings = DecisionSettings { url, max_waiting: 8, ..DecisionSettings::default() };
        let decisions = SharedDecisions::open(&settings).unwrap().unwrap();
        let asked = |payer, calls: std::ops::Range<u64>| {
            calls.filter(|call| decisions.ask(question(*call, payer))).count()
        };
        assert_eq!(asked(Some("a@b"), 0..5), 2);
        assert_eq!(asked(None, 5..10), 2);
        assert_eq!(asked(Some("c@b"), 10..20), 2);
        decisions.done(&question(0, Some("a@b")));
        assert_eq!(asked(Some("a@b"), 20..22), 1);
        assert_eq!(asked(Some("d@b"), 22..25), 1, "the queue is full");
        assert_eq!(decisions.counters()[2].2, 3 + 3 + 8 + 1 + 2);
    }
}
