//! The B2BUA beside the engine, for all threads. Messages on internal flows pass between the two
//! within the thread that causes them.

use super::decisions::SharedDecisions;
use super::local::{Internal, Local};
use super::standing::StandingCalls;
use crate::b2bua::B2buaSettings;
use crate::log;
use crate::trace::Tracer;
use b2bua::{
    B2bua, CallReport, Counters, Decision, Event, InfoDigit, Question, RequestId, Transmit, Trunk,
    UnknownCall,
};
use numbers::usage::{UsageLimits, Use};
use parking_lot::Mutex;
use sip::{Endpoint, HeaderName, Instant, Message};
use sip_server::{JoinedCalls, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The Reason of the end of a call at the end of the server.
const SHUTTING_DOWN: &str = "SIP;cause=503;text=\"Shutting Down\"";

/// A digit that a party of a joined call has sent by INFO.
pub(super) struct AskedDigit {
    pub(super) request: RequestId,
    pub(super) call_id: Box<[u8]>,
    pub(super) caller_tag: Box<[u8]>,
    pub(super) is_of_caller: bool,
    pub(super) digit: InfoDigit,
}

/// The B2BUA of all threads. No other lock is taken while it is locked, and no message is passed to
/// the engine.
pub(crate) struct SharedB2bua {
    b2bua: Mutex<B2bua>,
    standing: StandingCalls,
    /// The hook that decides on calls on trunks.
    decisions: Option<Arc<SharedDecisions>>,
    /// The time of the next timer in microseconds, to be read without the lock.
    next_timer: AtomicU64,
}

impl SharedB2bua {
    /// A B2BUA without calls, with the product name `product`.
    /// Its answered calls are stored in `standing`.
    pub(crate) fn new(
        settings: B2buaSettings,
        product: &str,
        secret: &[u8; 32],
        standing: StandingCalls,
        decisions: Option<Arc<SharedDecisions>>,
    ) -> Self {
        let B2buaSettings { calls, calls_of_source, session_expires, probe } = settings;
        let mut config = b2bua::Config {
            calls,
            calls_of_source,
            session_expires,
            probe,
            ..b2bua::Config::default()
        };
        if !product.is_empty() {
            config.product = product.to_owned();
        }
        let mut b2bua = B2bua::new(config, secret);
        b2bua.set_decisions(decisions.as_ref().map(|decisions| decisions.terms()));
        let (b2bua, next_timer) = (Mutex::new(b2bua), AtomicU64::new(u64::MAX));
        Self { b2bua, standing, decisions, next_timer }
    }

    /// Moves the messages of `out` that are for user agents in the process to `internal`.
    pub(super) fn take(out: &mut Output, internal: &mut Vec<Internal>) {
        let Output { bytes, transmits, .. } = out;
        let taken = transmits.extract_if(.., |transmit| transmit.flow.is_internal());
        internal.extend(taken.map(|it| (it.flow, bytes[it.range].to_vec())));
    }

    /// Passes the messages in `local.internal` that are for it to the B2BUA, and its messages to
    /// the engine. `trace` is told which of those each message causes, since a leg has a Call-ID of
    /// its own. Returns the digits that the B2BUA asks about.
    pub(super) fn exchange(
        &self,
        now: Instant,
        local: &mut Local,
        trace: &Tracer,
    ) -> Vec<AskedDigit> {
        let mut digits = Vec::new();
        for (flow, bytes) in local.take_internal(Endpoint::B2bua) {
            let mut has_joined = true;
            let receive = |b2bua: &mut B2bua| {
                let before = b2bua.counters().calls;
                b2bua.receive(now, &flow, &bytes);
                has_joined = b2bua.counters().calls > before;
            };
            let worker = local.index;
            let note = |sent: &[Transmit]| {
                trace.join(worker, &flow, &bytes, sent.iter().map(|it| &it.bytes[..]));
            };
            digits.append(&mut self.act(now, local, receive, note));
            if !has_joined && bytes.starts_with(b"INVITE ") {
                let invite = Message::parse(&bytes).ok();
                let call_id = invite.as_ref().and_then(|it| it.value(HeaderName::CallId));
                // The Call-ID of a re-INVITE does no harm: its call has a second leg already.
                local.declined.extend(call_id.map(<[u8]>::to_vec));
            }
        }
        digits
    }

    /// Tells whether a digit is played to the other party.
    pub(super) fn answer_digit(
        &self,
        now: Instant,
        local: &mut Local,
        request: RequestId,
        is_played: bool,
    ) {
        let answer = |b2bua: &mut B2bua| b2bua.answer_digit(now, request, is_played);
        self.act(now, local, answer, |_| {});
    }

    /// Passes a digit that a party has sent as a telephone event. See [`B2bua::press`].
    pub(super) fn press(
        &self,
        now: Instant,
        local: &mut Local,
        call_id: &[u8],
        caller_tag: &[u8],
        is_of_caller: bool,
        digit: InfoDigit,
    ) {
        let press = |b2bua: &mut B2bua| {
            b2bua.press(now, call_id, caller_tag, is_of_caller, digit);
        };
        self.act(now, local, press, |_| {});
    }

    /// Runs the timers that are due at `now`.
    pub(super) fn on_timer(&self, now: Instant, local: &mut Local) {
        if self.next_timer().is_some_and(|when| when <= now) {
            self.act(now, local, |b2bua| b2bua.on_timer(now), |_| {});
        }
    }

    /// Ends all calls.
    pub(super) fn end_calls(&self, now: Instant, local: &mut Local) {
        self.act(now, local, |b2bua| b2bua.hang_up_all(now, SHUTTING_DOWN), |_| {});
    }

    /// Calls `act` with the B2BUA and `note` with its messages, and passes these to the engine.
    /// Returns the digits that the B2BUA asks about.
    fn act(
        &self,
        now: Instant,
        local: &mut Local,
        act: impl FnOnce(&mut B2bua),
        note: impl FnOnce(&[Transmit]),
    ) -> Vec<AskedDigit> {
        let (mut digits, mut questions) = (Vec::new(), Vec::new());
        let sent: Vec<Transmit> = {
            let mut b2bua = self.b2bua.lock();
            act(&mut b2bua);
            let next = b2bua.next_timer().map_or(u64::MAX, Instant::as_micros);
            self.next_timer.store(next, Ordering::Relaxed);
            // Under the lock, so that the end of a call follows its answer.
            while let Some(event) = b2bua.poll_event() {
                match event {
                    Event::Digit { request, call_id, caller_tag, is_of_caller, digit } => {
                        let asked =
                            AskedDigit { request, call_id, caller_tag, is_of_caller, digit };
                        digits.push(asked);
                    }
                    Event::Trunk { place, trunk, has_failed, words } => {
                        log::warn("trunk", || format!("trunk {trunk}: {words}"));
                        if has_failed {
                            local.failed_trunks.push((place, words));
                        }
                    }
                    Event::Question(question) => questions.push(*question),
                    Event::Decided { words } => log::warn("hook", || words.into_string()),
                    Event::Alarm { words } => {
                        log::warn("limits", || format!("use of trunks: {words}"));
                    }
                    event => self.standing.push(event),
                }
            }
            std::iter::from_fn(|| b2bua.poll_transmit()).collect()
        };
        note(&sent);
        for Transmit { flow, bytes, .. } in sent {
            local.receive(now, sip::Duration::ZERO, &flow, &bytes);
        }
        self.ask(now, local, questions);
        digits
    }

    /// Passes `questions` to the hook. The fallback holds at once for calls that it is not asked
    /// about.
    fn ask(&self, now: Instant, local: &mut Local, questions: Vec<Question>) {
        for question in questions {
            let call = question.call;
            if !self.decisions.as_ref().is_some_and(|hook| hook.ask(question)) {
                self.decide(now, call, None, local);
            }
        }
    }

    /// Carries out the decision on the call with the number `call`.
    pub(super) fn decide(
        &self,
        now: Instant,
        call: u64,
        decision: Option<Decision>,
        local: &mut Local,
    ) {
        self.act(now, local, |b2bua| b2bua.decide(now, call, decision), |_| {});
    }

    /// The hook that decides on calls on trunks, if there is one.
    pub(super) const fn decisions(&self) -> Option<&Arc<SharedDecisions>> {
        self.decisions.as_ref()
    }

    /// Returns true if the call with the number `call` waits for a decision.
    pub(super) fn waits(&self, call: u64) -> bool {
        self.b2bua.lock().is_undecided(call)
    }

    /// Waits until the changes of calls so far are stored.
    pub(super) fn finish(&self) {
        self.standing.finish();
    }

    /// The time of the next call of [`SharedB2bua::on_timer`].
    pub(super) fn next_timer(&self) -> Option<Instant> {
        let next = self.next_timer.load(Ordering::Relaxed);
        (next < u64::MAX).then(|| Instant::from_micros(next))
    }

    /// Changes the limits. Calls that stand go on.
    pub(super) fn configure(&self, settings: B2buaSettings) {
        self.b2bua.lock().set_limits(settings.calls, settings.calls_of_source);
    }

    /// Changes the trunks. Calls that stand go on.
    pub(super) fn set_trunks(&self, trunks: Vec<Trunk>) {
        self.b2bua.lock().set_trunks(trunks);
    }

    /// Changes the limits of the use of trunks. Use and calls remain.
    pub(super) fn limit_use(&self, limits: UsageLimits) {
        self.b2bua.lock().set_use_limits(limits);
    }

    /// The use of trunks within its limits, on the day of `now`.
    pub(super) fn uses(&self, now: Instant) -> Vec<Use> {
        self.b2bua.lock().uses(now).collect()
    }

    /// Adds the stored `minutes` of the day. Damaged lines are logged.
    pub(super) fn restore_use(&self, now: Instant, minutes: &str) {
        if let Err(error) = self.b2bua.lock().restore_use(now, minutes) {
            log::warn("limits", || error.to_string());
        }
    }

    /// The number of calls.
    pub(super) fn calls(&self) -> usize {
        self.b2bua.lock().calls()
    }

    /// The calls that stand, in any order.
    pub(super) fn reports(&self) -> Vec<CallReport> {
        self.b2bua.lock().reports()
    }

    /// Ends the call with the number `call`.
    pub(super) fn hang_up(
        &self,
        now: Instant,
        call: u64,
        reason: &str,
        local: &mut Local,
    ) -> Result<(), UnknownCall> {
        let mut ended = Ok(());
        self.act(now, local, |b2bua| ended = b2bua.hang_up(now, call, reason), |_| {});
        ended
    }

    /// Returns true if a call goes on after the callee has refused its leg with this Call-ID.
    pub(super) fn calls_again(&self, call_id: &[u8]) -> bool {
        self.b2bua.lock().has_replaced(call_id)
    }

    /// The counters with their names and descriptions.
    pub(super) fn counters(&self) -> [(&'static str, &'static str, u64); 7] {
        let counters = self.b2bua.lock().counters();
        let Counters { calls, over_limit, over_share, lost_digits, .. } = counters;
        let Counters { trunk_failures, over_trunk, undecided, .. } = counters;
        [
            ("b2bua-calls", "Calls that went through the B2BUA.", calls),
            ("b2bua-limit", "Calls refused because too many pass the B2BUA.", over_limit),
            (
                "b2bua-share",
                "Calls refused because too many of their source pass the B2BUA.",
                over_share,
            ),
            (
                "b2bua-lost-digits",
                "Digits that a phone did not get by INFO, since it had not answered earlier ones.",
                lost_digits,
            ),
            (
                "trunk-call-failures",
                "Attempts to call through a trunk that failed, so that the next trunk was tried.",
                trunk_failures,
            ),
            (
                "calls-undecided",
                "Calls on which the hook has not decided in time: the fallback held.",
                undecided,
            ),
            ("trunk-call-limit", "Calls not led to a trunk because it has its limit.", over_trunk),
        ]
    }
}

impl JoinedCalls for SharedB2bua {
    fn replacing(&self, uri: &[u8], replaces: &[u8]) -> Option<Vec<u8>> {
        self.b2bua.lock().replacing(uri, replaces)
    }

    fn referral_of_trunk(&self, call_id: &[u8], to_tag: &[u8], refer_to: &[u8]) -> Option<Vec<u8>> {
        self.b2bua.lock().referral_of_trunk(call_id, to_tag, refer_to)
    }
}
