//! Decisions of the owner on calls to and from trunks, such as those of a program of the operator.
//! A call waits for its decision, for a bounded time; then a fallback holds. Emergency calls never
//! wait.

use crate::b2bua::{B2bua, BridgeId};
use crate::bridge::Side;
use crate::event::Event;
use crate::question::{Decision, DecisionTerms, Fallback, Question};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use sip::{Encode, Instant, Status};

/// The maximum length of the words of a refusal, in characters.
const MAX_WORDS: usize = 80;

/// The Retry-After of a call that is refused without a decision.
const RETRY_AFTER: &[u8] = b"Retry-After: 5\r\n";

impl B2bua {
    /// Changes the terms of decisions. `None`: all calls go on at once. Calls that wait are not
    /// affected.
    pub fn set_decisions(&mut self, terms: Option<DecisionTerms>) {
        self.decisions = terms;
    }

    /// Carries out the decision on the call with this number. `None` is no decision: the fallback
    /// holds. Without effect if the call does not wait.
    pub fn decide(&mut self, now: Instant, call: BridgeId, decision: Option<Decision>) {
        self.carry_out(now, call, decision);
        self.process(now);
    }

    /// Returns true if the call with this number waits for a decision.
    #[must_use]
    pub fn is_undecided(&self, call: BridgeId) -> bool {
        self.bridges.get(&call).is_some_and(|bridge| bridge.decided_by.is_some())
    }

    /// Lets the call wait for a decision. Returns false if it goes on at once.
    pub(crate) fn waits(&mut self, id: BridgeId, now: Instant) -> bool {
        let Some(terms) = self.decisions else { return false };
        let Some(question) = self.question(id) else { return false };
        let deadline = now + terms.patience;
        let Some(bridge) = self.bridges.get_mut(&id) else { return false };
        bridge.decided_by = Some(deadline);
        self.undecided.insert((deadline, id));
        self.events.push_back(Event::Question(Box::new(question)));
        true
    }

    /// The question about a call on a trunk. `None` for an emergency call, and for others.
    fn question(&self, id: BridgeId) -> Option<Question> {
        let bridge = self.bridges.get(&id)?;
        let attempts = &bridge.invitation.as_ref()?.attempts;
        let name = |trunk: usize| self.config.trunks.get(trunk).map(|trunk| trunk.name.clone());
        let first = attempts.first();
        let trunks: Vec<String> = match (bridge.on_trunk, first) {
            (Some(on), _) => name(on.trunk).into_iter().collect(),
            (None, Some(_)) => attempts.iter().filter_map(|attempt| name(attempt.trunk)).collect(),
            (None, None) => return None,
        };
        if attempts.iter().any(|attempt| attempt.is_emergency) {
            return None;
        }
        let [call_id, _] = &bridge.report.call_ids;
        Some(Question {
            call: id,
            call_id: call_id.as_slice().into(),
            parties: bridge.report.parties.each_ref().map(|party| party.as_slice().into()),
            is_incoming: first.is_none(),
            trunks,
            payer: first.and_then(|first| first.payer.clone()),
            number: first.map(|first| first.number.clone()),
            class: first.and_then(|first| first.class.clone()),
        })
    }

    /// Ends the waits that are over at `now`.
    pub(crate) fn end_waits(&mut self, now: Instant) {
        while let Some(&(deadline, id)) = self.undecided.first()
            && deadline <= now
        {
            self.undecided.remove(&(deadline, id));
            self.carry_out(now, id, None);
        }
        self.process(now);
    }

    fn carry_out(&mut self, now: Instant, id: BridgeId, decision: Option<Decision>) {
        let Some(deadline) = self.bridges.get_mut(&id).and_then(|it| it.decided_by.take()) else {
            return;
        };
        self.undecided.remove(&(deadline, id));
        let decision = match decision {
            Some(Decision::Through(names)) if !self.restrict(id, &names) => {
                let words = format!("no trunk of it is named: {}", names.join(", "));
                self.tell_of_decision(id, &words);
                None
            }
            decision => decision,
        };
        let fallback = self.decisions.map(|terms| terms.fallback).unwrap_or_default();
        if decision.is_none() {
            self.counters.undecided += 1;
        }
        match (decision, fallback) {
            (Some(Decision::Refuse { status, words }), _) => self.refuse(now, id, status, &words),
            (None, Fallback::Refuse) => {
                self.tell_of_decision(id, "it is refused without a decision");
                let status = Status::TEMPORARILY_UNAVAILABLE.code();
                self.decline(now, id, status, RETRY_AFTER);
            }
            _ => self.set_out(id, now),
        }
    }

    /// Restricts the trunks of a call to those with these names, in their order. Returns false if
    /// none remains.
    fn restrict(&mut self, id: BridgeId, names: &[String]) -> bool {
        let Self { bridges, config, .. } = self;
        let invitation = bridges.get_mut(&id).and_then(|bridge| bridge.invitation.as_mut());
        let Some(invitation) = invitation.filter(|it| !it.attempts.is_empty()) else { return true };
        let mut named = Vec::new();
        for name in names {
            let is_it = |trunk: usize| config.trunks.get(trunk).is_some_and(|it| it.name == *name);
            let found = invitation.attempts.iter().position(|attempt| is_it(attempt.trunk));
            named.extend(found.map(|at| invitation.attempts.remove(at)));
        }
        invitation.attempts = named;
        !invitation.attempts.is_empty()
    }

    /// Refuses a call by a decision. A caller outside does not get the words.
    fn refuse(&mut self, now: Instant, id: BridgeId, status: u16, words: &str) {
        let status = if (400..700).contains(&status) { status } else { 403 };
        let is_plain = |c: &char| c.is_ascii_graphic() && !matches!(c, '"' | '\\') || *c == ' ';
        let words: String = words.chars().filter(is_plain).take(MAX_WORDS).collect();
        self.tell_of_decision(id, &format!("it is refused with {status}: {words}"));
        let mut lines = Vec::new();
        let is_inside = self.bridges.get(&id).is_some_and(|bridge| bridge.on_trunk.is_none());
        if is_inside && !words.is_empty() {
            ("Reason: SIP;cause=", status, ";text=\"", &*words, "\"\r\n").encode(&mut lines);
        }
        self.decline(now, id, status, &lines);
    }

    fn decline(&mut self, now: Instant, id: BridgeId, status: u16, lines: &[u8]) {
        let caller = self.bridges.get(&id).and_then(|it| it.call(Side::Caller));
        if let Some(caller) = caller {
            // The caller may have ended the call.
            let _ = self.agent.decline_with(now, caller, status, lines);
        }
    }

    /// Tells the owner of the decision on a call, for the log.
    fn tell_of_decision(&mut self, id: BridgeId, words: &str) {
        let Some(bridge) = self.bridges.get(&id) else { return };
        let [from, to] = bridge.report.parties.each_ref().map(|uri| String::from_utf8_lossy(uri));
        let words = format!("the call of {from} to {to}: {words}");
        self.events.push_back(Event::Decided { words: words.into() });
    }
}
