//! The engine: its inputs, its outputs, and the tables of calls.

use crate::bridge::{Bridge, Side};
use crate::config::Config;
use crate::fields::reason_line;
use crate::question::DecisionTerms;
use crate::report::CallReport;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::hash::Hasher;
use hashbrown::{HashMap, HashSet};
use numbers::usage::{Usage, UsageLimits};
use sip::header::NameAddr;
use sip::{Flow, HeaderName, Instant, Message, Source};
use sip_ua::{Agent, CallId, Event, Reliable, RequestId, Transmit};
use siphasher::sip::SipHasher13;

/// The user part of the contacts of this agent.
pub(crate) const USER: &str = "call";

/// The number of a bridge. It is never reused.
pub(crate) type BridgeId = u64;

/// Counts of a [`B2bua`] since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Calls that were joined with a second one.
    pub calls: u64,
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that were rejected because of [`Config::calls`].
    pub over_limit: u64,
    /// Calls that were rejected because of [`Config::calls_of_source`].
    pub over_share: u64,
    /// Calls that a trunk did not take, so that the next one was tried, if there was one.
    pub trunk_failures: u64,
    /// Calls from trunks that were rejected because of [`Trunk::calls`](crate::Trunk::calls).
    pub over_trunk: u64,
    /// Calls on which the owner has not decided in time.
    pub undecided: u64,
    /// Digits that a party did not get by INFO, since it had not answered earlier ones.
    pub lost_digits: u64,
}

/// A back-to-back user agent. See the [crate] for its use.
pub struct B2bua {
    pub(crate) agent: Agent,
    pub(crate) config: Config,
    pub(crate) bridges: HashMap<BridgeId, Bridge>,
    /// The bridge of each call that has not ended.
    pub(crate) bridge_of: HashMap<CallId, (BridgeId, Side)>,
    /// The Call-IDs of legs that the callee has refused, of calls that stand since it was called
    /// again.
    pub(crate) refused: HashSet<Vec<u8>>,
    /// The number of calls of each source.
    pub(crate) sources: HashMap<Source, usize>,
    /// The requests that pass: the identifier as sent to the one leg, and as received from the
    /// other.
    pub(crate) passing: HashMap<RequestId, RequestId>,
    /// The INFO requests with digits that wait for [`B2bua::answer_digit`], with their calls.
    pub(crate) asked: HashMap<RequestId, (CallId, Vec<u8>)>,
    /// The INFO requests with digits of this agent, and the legs that get them.
    pub(crate) digits: HashMap<RequestId, (BridgeId, Side)>,
    /// The message that causes the next event of a call.
    pub(crate) received: Vec<u8>,
    pub(crate) events: VecDeque<crate::Event>,
    /// The bridges with a description that is to be offered as soon as possible.
    pub(crate) due: HashSet<BridgeId>,
    pub(crate) counters: Counters,
    /// Numbers of bridges.
    pub(crate) numbers: u64,
    /// The use of the trunks, with its limits.
    pub(crate) usage: Usage,
    /// The time at which the use is looked at next.
    pub(crate) watch_at: Option<Instant>,
    /// The terms of decisions of the owner, if it decides on calls.
    pub(crate) decisions: Option<DecisionTerms>,
    /// The calls that wait for a decision, with the ends of their waits.
    pub(crate) undecided: BTreeSet<(Instant, BridgeId)>,
    key: SipHasher13,
}

impl B2bua {
    /// Returns a back-to-back user agent without calls. All unpredictable values are derived from
    /// `secret`, which has to be random.
    #[must_use]
    pub fn new(config: Config, secret: &[u8; 32]) -> Self {
        let agent = sip_ua::Config {
            user: USER.into(),
            user_agent: config.product.clone(),
            ringing: config.ringing,
            direct_calls: true,
            // Both are limited here.
            incoming_calls: usize::MAX,
            server_transactions: config.calls.saturating_mul(4).saturating_add(1024),
            reliable: Reliable::Supported,
            session_expires: Some(config.session_expires),
            probe: config.probe,
            redirects: 0,
            keepalive: None,
            passes: true,
            ..sip_ua::Config::default()
        };
        let mut key = SipHasher13::new_with_key(&core::array::from_fn(|at| secret[at]));
        key.write(b"origins");
        let trunks = config.trunks.clone();
        let mut b2bua = Self {
            agent: Agent::new(agent, secret),
            config,
            bridges: HashMap::default(),
            bridge_of: HashMap::default(),
            refused: HashSet::default(),
            sources: HashMap::default(),
            passing: HashMap::default(),
            asked: HashMap::default(),
            digits: HashMap::default(),
            received: Vec::new(),
            events: VecDeque::new(),
            due: HashSet::default(),
            counters: Counters::default(),
            numbers: 0,
            usage: Usage::new(UsageLimits::default(), 0, 0),
            watch_at: None,
            decisions: None,
            undecided: BTreeSet::new(),
            key,
        };
        b2bua.set_trunks(trunks);
        b2bua
    }

    /// Processes a message that came on `flow`. A message on a flow that is not internal is
    /// ignored.
    pub fn receive(&mut self, now: Instant, flow: &Flow, bytes: &[u8]) {
        if flow.is_internal()
            && let Ok(message) = Message::parse(bytes)
        {
            self.agent.receive_message(now, flow, &message);
            self.process(now);
            self.offer_due_after(&message, now);
        }
    }

    /// Returns the next message to send, if any.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.agent.poll_transmit()
    }

    /// Returns the time of the next call to [`B2bua::on_timer`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Instant> {
        let undecided = self.undecided.first().map(|(until, _)| *until);
        [self.agent.next_timer(), self.watch_at, undecided].into_iter().flatten().min()
    }

    /// Processes the timers that are due at `now`.
    pub fn on_timer(&mut self, now: Instant) {
        self.agent.on_timer(now);
        self.process(now);
        self.end_waits(now);
        self.watch_use(now);
    }

    /// Returns the number of calls, each of two legs.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.bridges.len()
    }

    /// Returns the number of legs, of transactions and of other entries for calls, which are zero
    /// some time after the last call.
    #[must_use]
    pub fn remains(&self) -> usize {
        let requests = self.passing.len() + self.asked.len() + self.digits.len();
        let agent = self.agent.calls() + self.agent.transactions();
        agent + requests + self.sources.len() + self.refused.len()
    }

    /// Returns the counts since the creation.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Changes the limits. Existing calls go on.
    pub fn set_limits(&mut self, calls: usize, calls_of_source: usize) {
        (self.config.calls, self.config.calls_of_source) = (calls, calls_of_source);
    }

    /// Ends all calls. The requests have the Reason `reason` (RFC 3326), such as
    /// `SIP;cause=503;text="Shutting Down"`.
    pub fn hang_up_all(&mut self, now: Instant, reason: &str) {
        let lines = reason_line(reason);
        let mut calls: Vec<CallId> = self.bridge_of.keys().copied().collect();
        calls.sort_unstable();
        for call in calls {
            // A call may have ended with the other one.
            let _ = self.agent.hang_up_with(now, call, &lines);
        }
        self.process(now);
    }

    /// Processes the events of the agent.
    pub(crate) fn process(&mut self, now: Instant) {
        while let Some(event) = self.agent.poll_event() {
            self.on_event(event, now);
        }
        // A message without an event is not the cause of the next one.
        self.received.clear();
    }

    /// Offers what is due in the call of `message`, which may have changed a leg without an event,
    /// such as an ACK.
    fn offer_due_after(&mut self, message: &Message<'_>, now: Instant) {
        if !self.due.is_empty()
            && let Some(call) = self.call_of(message)
        {
            self.offer_due(now, call);
        }
    }

    /// Returns the call of a message that this agent has received.
    fn call_of(&self, message: &Message<'_>) -> Option<CallId> {
        // A leg has the tag in To of its requests, and that in From of its responses.
        let name = match message.status() {
            Some(_) => HeaderName::From,
            None => HeaderName::To,
        };
        let end = NameAddr::parse(name, message.value(name)?).ok()?;
        self.agent.call_of_tag(message.value(HeaderName::CallId)?, end.tag()?)
    }

    fn on_event(&mut self, event: Event, now: Instant) {
        let call = event.call();
        match event {
            Event::Received { message, .. } => {
                self.received = message;
                return;
            }
            Event::Incoming { call, flow, offer, .. } => self.on_incoming(call, flow, offer, now),
            Event::Ringing { call, status, branch, session, .. } => {
                self.on_ringing(call, status, branch, session, now);
            }
            Event::Answered { call, session } => self.on_answered(call, session, now),
            Event::Offer { call, offer } => self.on_offer(call, offer, now),
            Event::Answer { call, answer } => self.on_answer(call, answer, now),
            Event::OfferFailed { call, failure } => self.on_offer_failed(call, &failure, now),
            Event::Request { call, request, message } => {
                self.on_passed_request(call, request, &message, now);
            }
            Event::Response { request, response } => {
                self.on_passed_response(request, response, now);
            }
            Event::Ended { call, end } => self.on_ended(call, &end, now),
            // Requests on an internal flow need no location.
            Event::Locate { ticket, .. } => self.agent.located(now, ticket, &[]),
            _ => {}
        }
        self.received.clear();
        if let Some(call) = call {
            self.report_answered(call);
            self.offer_due(now, call);
        }
    }

    /// Returns a number for an origin that cannot be predicted.
    pub(crate) fn random_number(&mut self) -> u64 {
        self.numbers += 1;
        let mut hasher = self.key;
        hasher.write_u64(self.numbers);
        hasher.finish()
    }

    /// Returns the bridge of `call`, and its side.
    pub(crate) fn find(&self, call: CallId) -> Option<(BridgeId, Side)> {
        self.bridge_of.get(&call).copied()
    }
}

impl core::fmt::Debug for B2bua {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("B2bua").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

impl B2bua {
    /// Returns the calls that stand, in any order.
    #[must_use]
    pub fn reports(&self) -> Vec<CallReport> {
        let report = |bridge: &Bridge| {
            let on_trunk = bridge.on_trunk.and_then(|on| self.config.trunks.get(on.trunk));
            CallReport { trunk: on_trunk.map(|trunk| trunk.name.clone()), ..bridge.report.clone() }
        };
        self.bridges.values().map(report).collect()
    }

    /// Returns true if a call stands whose callee has refused the leg with this Call-ID, and was
    /// called again.
    #[must_use]
    pub fn has_replaced(&self, call_id: &[u8]) -> bool {
        self.refused.contains(call_id)
    }
}
