//! Random days of an office, with the server's proxy in front: phones 0 and 1 are the users, the
//! others are the trunks. Calls go out and come in, are forwarded, transferred and refused, wait
//! for decisions, go on to the next trunk, and are cut by limits. The trunks count the minutes,
//! too. At the end of each day limits, counters, stored minutes and those of the trunks agree.

mod rig;

use barebell_b2bua::{Decision, DecisionTerms, Event as OwnerEvent, Fallback, Trunk};
use numbers::usage::{Account, Limit, Usage, UsageLimits};
use numbers::{LimitConfig, Plan, PlanConfig};
use rig::office::NUMBERS;
use rig::{Rig, session};
use sip::Instant;
use sip_server::CallServices;
use sip_ua::{AccountId, Agent, CallError, CallId, End, Event, Failure, Transfer};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use test_support::Random;

/// The offices, and the days of each: a thousand days.
const OFFICES: u64 = 50;
const DAYS: u64 = 20;

/// The actions of a day.
const ACTIONS: u64 = 24;

/// The limits of each user, and the calls of the first trunk.
const CALLS: u32 = 2;
const MINUTES: u32 = 5;
const LINES: u32 = 2;

const USERS: usize = 2;
const TRUNKS: [&str; 2] = ["alpha", "beta"];

/// The seconds of a day.
const DAY: u64 = 86_400;

/// The numbers of a forward and of a transfer.
const FORWARD: &str = "0499";
const TRANSFER: &str = "0457";

/// The kinds of calls and of ends that the days have to have.
const KINDS: [&str; 11] = [
    "out",
    "in",
    "emergency",
    "forward",
    "transfer",
    "refused",
    "limit",
    "cut",
    "failover",
    "night",
    "transfer of a trunk",
];

/// A call at a phone.
#[derive(Clone, Debug, Default)]
struct Call {
    is_ringing: bool,
    answered: Option<Instant>,
    /// The user that pays for it, at a trunk.
    payer: Option<usize>,
    is_emergency: bool,
}

struct Office {
    rig: Rig,
    random: Random,
    limits: UsageLimits,
    calls: Vec<BTreeMap<CallId, Call>>,
    silent: Option<usize>,
    /// The least and the greatest number of minutes of the day of each account, by the trunks.
    bills: BTreeMap<Account, [u64; 2]>,
    /// The calls that the owner was told to stand.
    told: HashSet<u64>,
    answered: u64,
    told_of_trunks: u64,
    emergencies: u32,
    stored: String,
    seen: BTreeMap<&'static str, u64>,
}

fn user(place: usize) -> Account {
    Account::User(format!("p{place}@a.com"))
}

/// Returns the least and the greatest number of minutes of the day of `end` that a call has begun,
/// by the times of a trunk. The server gets its messages later, and looks at the time once a
/// second.
fn minutes(answered: Instant, end: Instant) -> [u64; 2] {
    let around = |at: Instant, before: u64, after: u64| {
        let micros = at.as_micros();
        (micros - before * 1000) / 1_000_000..=(micros + after * 1000) / 1_000_000
    };
    let midnight = end.as_secs() / DAY * DAY;
    let begun = |answered: u64, at: u64| at.checked_sub(answered).map_or(0, |time| time / 60 + 1);
    let mut range = [u64::MAX, 0];
    for answered in around(answered, 100, 100) {
        for end in around(end, 2200, 200) {
            let before = begun(answered, midnight - 1);
            let count = begun(answered, end.max(answered)).saturating_sub(before);
            range = [range[0].min(count), range[1].max(count)];
        }
    }
    // The answer and the end of the caller may have crossed.
    if end.since(answered) < sip::Duration::from_secs(1) {
        range[0] = 0;
    }
    range
}

impl Office {
    fn new(seed: u64) -> Self {
        let limit = Limit { calls: Some(CALLS), minutes: Some(MINUTES), duration: None };
        let limits = (0..USERS).map(|place| LimitConfig { account: user(place), limit });
        let config = PlanConfig {
            trunks: TRUNKS.map(str::to_owned).to_vec(),
            limits: limits.collect(),
            ..PlanConfig::default()
        };
        let limits = Plan::new(&config).expect("a plan").limits().clone();
        let mut trunks = TRUNKS.map(|name| Trunk::new(name, &format!("{name}.example"))).to_vec();
        trunks[0].calls = LINES as usize;
        let mut rig = Rig::office_of(seed, USERS, trunks);
        let fallback = if seed.is_multiple_of(3) { Fallback::Refuse } else { Fallback::Allow };
        let terms = DecisionTerms { patience: sip::Duration::from_secs(2), fallback };
        let of_use = limits.clone();
        rig.act_b2bua(|b2bua, _| {
            b2bua.set_use_limits(of_use);
            b2bua.set_decisions(seed.is_multiple_of(2).then_some(terms));
        });
        Self {
            rig,
            random: Random::new(seed),
            limits,
            calls: vec![BTreeMap::new(); USERS + TRUNKS.len()],
            silent: None,
            bills: BTreeMap::new(),
            told: HashSet::new(),
            answered: 0,
            told_of_trunks: 0,
            emergencies: 0,
            stored: String::new(),
            seen: BTreeMap::new(),
        }
    }

    fn see(&mut self, kind: &'static str) {
        *self.seen.entry(kind).or_default() += 1;
    }

    /// Lets the time pass up to `end`, and notes each event at its time.
    fn pass_until(&mut self, end: Instant) {
        while self.rig.step_until(end) {
            self.note();
        }
    }

    fn pass(&mut self, time: Duration) {
        self.pass_until(self.rig.now() + sip::Duration::from(time));
    }

    fn note(&mut self) {
        for phone in 0..self.calls.len() {
            for event in self.rig.events(phone) {
                self.note_event(phone, event);
            }
        }
        for event in std::mem::take(&mut self.rig.owner.events) {
            match event {
                OwnerEvent::Answered { call, .. } => {
                    assert!(self.told.insert(call), "a call is answered twice");
                    self.answered += 1;
                }
                OwnerEvent::Ended { call } => assert!(self.told.remove(&call), "it ends twice"),
                OwnerEvent::Question(question) => self.decide(question.call),
                OwnerEvent::Use { minutes } => self.stored = minutes.into(),
                OwnerEvent::Trunk { has_failed, .. } => {
                    self.told_of_trunks += 1;
                    if has_failed {
                        self.see("failover");
                    }
                }
                _ => {}
            }
        }
    }

    fn note_event(&mut self, phone: usize, event: Event) {
        let Some(id) = event.call() else { return };
        match event {
            Event::Incoming { .. } => {
                let mut call = Call { is_ringing: true, ..Call::default() };
                if phone >= USERS {
                    self.read_invite(phone, &mut call);
                }
                self.calls[phone].insert(id, call);
                self.try_to(phone, |it, now| it.ring(now, id, b""));
            }
            Event::Answered { .. } => {
                if phone >= USERS {
                    self.see("in");
                }
                let now = self.rig.now();
                self.calls[phone].entry(id).or_default().answered = Some(now);
            }
            Event::Offer { .. } => {
                let answer = session(phone, 7000, "sendrecv");
                self.try_to(phone, |it, now| it.accept(now, id, &answer));
            }
            Event::TransferAsked { to, .. } => {
                assert!(to.contains(&TRANSFER[1..]), "a trunk has asked for a transfer: {to}");
                let offer = session(phone, 8000, "sendrecv");
                let followed = self.rig.act(phone, |it, now| Ok(it.follow(now, id, offer).ok()));
                self.calls[phone].extend(followed.map(|call| (call, Call::default())));
            }
            Event::Transfer { transfer: Transfer::Done, .. } => {
                self.see("transfer");
                self.try_to(phone, |it, now| it.hang_up(now, id));
            }
            Event::Transfer { transfer: Transfer::Failed(failure), .. } if phone >= USERS => {
                // The user may have ended the call.
                assert!(matches!(failure.status(), 403 | 408 | 481), "{failure:?}");
                self.see("transfer of a trunk");
            }
            Event::Ended { end, .. } => {
                match end {
                    End::HungUpByPeer { reason } if reason.contains("No Minutes Left") => {
                        self.see("cut");
                    }
                    End::Failed(Failure::Refused { status: 403, .. }) => self.see("limit"),
                    End::Failed(Failure::Refused { status: 486 | 603, .. }) => self.see("refused"),
                    _ => {}
                }
                if let Some(call) = self.calls[phone].remove(&id)
                    && phone >= USERS
                {
                    self.bill(phone, &call);
                }
            }
            _ => {}
        }
    }

    /// Reads the payer and the number of the call that a trunk has just got.
    fn read_invite(&mut self, phone: usize, call: &mut Call) {
        let invite = self.rig.last(phone, "INVITE ");
        let from = invite.lines().find(|line| line.starts_with("From: ")).expect("a From");
        call.payer = Some(usize::from(from.contains(NUMBERS[1])));
        call.is_emergency = invite.starts_with("INVITE sip:112@");
        let kind = match invite {
            _ if call.is_emergency => "emergency",
            it if it.starts_with(&format!("INVITE sip:{}@", &FORWARD[1..])) => "forward",
            _ => "out",
        };
        self.see(kind);
    }

    /// Writes the bill of a call that has ended at a trunk.
    fn bill(&mut self, phone: usize, call: &Call) {
        let Some(answered) = call.answered else { return };
        let [least, most] = minutes(answered, self.rig.now());
        let mut accounts = vec![Account::Trunk(TRUNKS[phone - USERS].into())];
        if let Some(payer) = call.payer.filter(|_| !call.is_emergency) {
            accounts.extend([user(payer), Account::Class("national".into())]);
        }
        for account in accounts {
            let bill = self.bills.entry(account).or_default();
            *bill = [bill[0] + least, bill[1] + most];
        }
    }

    fn decide(&mut self, call: u64) {
        let decision = match self.random.below(6) {
            0 => Decision::Refuse { status: 403, words: "no".into() },
            1 => Decision::Through(vec!["beta".into()]),
            // The hook is silent.
            2 => return,
            _ => Decision::Allow,
        };
        self.rig.act_b2bua(|b2bua, now| b2bua.decide(now, call, Some(decision)));
    }

    /// Runs an action of a phone about a call, which the other party may have ended.
    fn try_to(
        &mut self,
        phone: usize,
        act: impl FnOnce(&mut Agent, Instant) -> Result<(), CallError>,
    ) -> bool {
        self.rig.act(phone, |it, now| Ok(act(it, now).is_ok()))
    }

    /// A random call of `phone` for which `is_it` is true.
    fn pick(&mut self, phone: usize, is_it: fn(&Call) -> bool) -> Option<CallId> {
        let found: Vec<_> =
            self.calls[phone].iter().filter(|(_, it)| is_it(it)).map(|(id, _)| *id).collect();
        let at = self.random.below(found.len() as u64) as usize;
        found.get(at).copied()
    }

    fn call(&mut self, phone: usize, name: &str) {
        let uri = format!("sip:{name}@192.0.2.100");
        let (offer, account) =
            (session(phone, 4000, "sendrecv"), (phone < USERS).then_some(AccountId(0)));
        let call = self.rig.act(phone, |it, now| it.call(now, account, &uri, offer));
        self.calls[phone].insert(call, Call::default());
    }

    fn act(&mut self) {
        let phone = self.random.below(self.calls.len() as u64) as usize;
        let (of_user, of_trunk) = (phone % USERS, USERS + phone % TRUNKS.len());
        match self.random.below(18) {
            0..=2 => self.call(of_user, "0456"),
            3 if self.random.chance(400) => {
                self.emergencies += 1;
                self.call(of_user, "112");
            }
            3..=4 => self.call(0, "p1"),
            5 if self.silent != Some(of_trunk) => {
                let number = *self.random.pick(&NUMBERS);
                self.call(of_trunk, number);
            }
            6..=10 => {
                // A phone that rings, if there is one.
                let rings = |calls: &BTreeMap<_, Call>| calls.values().any(|it| it.is_ringing);
                let ringing = self.calls.iter().position(rings).unwrap_or(phone);
                if let Some(call) = self.pick(ringing, |it| it.is_ringing) {
                    self.answer(ringing, call);
                }
            }
            11 => {
                if let Some(call) = self.pick(phone, |it| it.is_ringing) {
                    let status = *self.random.pick(&[486, 503, 603, 500]);
                    self.try_to(phone, |it, now| it.decline(now, call, status));
                }
            }
            12..=13 => {
                if let Some(call) = self.pick(phone, |it| !it.is_ringing) {
                    self.try_to(phone, |it, now| it.hang_up(now, call));
                }
            }
            14..=15 => {
                if let Some(call) = self.pick(phone, |it| it.answered.is_some()) {
                    let number = if phone < USERS { TRANSFER } else { FORWARD };
                    let uri = format!("sip:{number}@192.0.2.100");
                    self.try_to(phone, |it, now| it.transfer(now, call, &uri));
                }
            }
            16 => {
                let always = self.random.chance(300).then(|| format!("{FORWARD}@192.0.2.100"));
                self.rig.set_services(1, CallServices { always, ..CallServices::default() });
            }
            _ => match self.silent.take() {
                Some(trunk) => self.rig.wake(trunk),
                None if self.calls[of_trunk].is_empty() => {
                    self.rig.silence(of_trunk);
                    self.silent = Some(of_trunk);
                }
                None => {}
            },
        }
    }

    fn answer(&mut self, phone: usize, call: CallId) {
        let answer = session(phone, 6000, "sendrecv");
        let is_answered = self.try_to(phone, |it, now| it.answer(now, call, &answer));
        let now = self.rig.now();
        if let Some(call) = self.calls[phone].get_mut(&call).filter(|_| is_answered) {
            (call.is_ringing, call.answered) = (false, Some(now));
        }
    }

    /// The present use is within the limits.
    fn check_limits(&mut self) {
        let now = self.rig.now();
        let uses: Vec<_> = self.rig.b2bua().uses(now).collect();
        for used in uses {
            match &used.account {
                Account::User(_) => {
                    assert!(used.calls <= CALLS, "{used:?}");
                    // The minutes that are too many end the calls.
                    assert!(used.minutes <= MINUTES + CALLS, "{used:?}");
                }
                Account::Trunk(name) if name == TRUNKS[0] => {
                    assert!(used.calls <= LINES + self.emergencies, "{used:?}");
                }
                _ => {}
            }
        }
    }

    /// A day, or the last and the first minutes of two.
    fn live(&mut self, day: u64) {
        let midnight = Instant::from_micros((2 * day + 1) * DAY * 1_000_000);
        let is_night = self.random.chance(300);
        let hours = sip::Duration::from_secs(if is_night { 180 } else { 15 * 3600 });
        self.rig.jump(Instant::from_micros(midnight.as_micros() - hours.as_micros()));
        // The phones register again.
        self.pass(Duration::from_secs(2));
        (self.emergencies, self.bills) = (0, BTreeMap::new());
        for _ in 0..ACTIONS {
            self.act();
            self.note();
            let time = self.random.duration(Duration::from_millis(200), Duration::from_secs(45));
            let end = self.rig.now() + sip::Duration::from(time);
            let quiet = sip::Duration::from_secs(5);
            if self.rig.now() < midnight && end + quiet >= midnight {
                self.see("night");
                self.pass_until(midnight);
                self.bills.clear();
                self.pass_until(end.max(midnight + quiet));
            } else {
                self.pass_until(end);
            }
            self.check_limits();
        }
        self.close();
    }

    /// Ends all calls, and compares the counts.
    fn close(&mut self) {
        if let Some(trunk) = self.silent.take() {
            self.rig.wake(trunk);
        }
        for phone in 0..self.calls.len() {
            for call in self.calls[phone].keys().copied().collect::<Vec<_>>() {
                self.try_to(phone, |it, now| it.hang_up(now, call));
                self.pass(Duration::from_secs(1));
            }
        }
        self.pass(Duration::from_secs(90));
        assert!(self.calls.iter().all(BTreeMap::is_empty), "{:?}", self.calls);
        assert!(self.told.is_empty(), "the owner has calls that are over");
        let now = self.rig.now();
        let calls = self.rig.b2bua().calls();
        let counters = self.rig.b2bua().counters();
        assert_eq!((calls, counters.answered), (0, self.answered));
        assert_eq!(counters.trunk_failures + counters.over_trunk, self.told_of_trunks);
        let uses: Vec<_> = self.rig.b2bua().uses(now).collect();
        assert!(uses.iter().all(|used| used.calls == 0), "{uses:?}");
        // After a crash the stored minutes are those of the day.
        let mut restored = Usage::new(self.limits.clone(), 0, now.as_secs());
        if !self.stored.is_empty() {
            restored.restore(&self.stored).expect("the stored minutes are whole");
        }
        assert_eq!(restored.uses().collect::<Vec<_>>(), uses);
        let mut counted: BTreeMap<Account, u64> = BTreeMap::new();
        counted.extend(uses.into_iter().map(|used| (used.account, used.minutes.into())));
        for account in counted.keys().chain(self.bills.keys()) {
            let count = counted.get(account).copied().unwrap_or_default();
            let [least, most] = self.bills.get(account).copied().unwrap_or_default();
            assert!((least..=most).contains(&count), "{account}: {count}, {least} to {most}");
        }
    }
}

#[test]
fn at_the_end_of_each_of_a_thousand_days_limits_counters_and_bills_agree() {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..OFFICES {
        let mut office = Office::new(seed);
        for day in 1..=DAYS {
            office.live(day);
        }
        office.rig.pass(Duration::from_secs(300));
        assert_eq!(office.rig.b2bua().remains(), 0, "legs or transactions are left");
        for (kind, count) in office.seen {
            *seen.entry(kind).or_default() += count;
        }
    }
    for kind in KINDS {
        assert!(seen.get(kind).is_some_and(|count| *count > 20), "{kind}: {seen:?}");
    }
}
