//! Random days of an office, with the server's proxy in front: phone 0 is the user p0@a.com, the
//! others are the trunks. Calls go out and come in, fail over, wait for decisions and are cut by
//! limits. At the end of each day limits, counters and the calls that the owner was told agree.

mod rig;

use barebell_b2bua::{Decision, DecisionTerms, Event as OwnerEvent, Fallback, Trunk};
use numbers::usage::{Account, Limit};
use numbers::{LimitConfig, Plan, PlanConfig};
use rig::{Rig, session};
use sip::Instant;
use sip_ua::{AccountId, Agent, CallError, CallId, Event};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;
use test_support::Random;

/// The worlds, and the days of each: a thousand days.
const WORLDS: u64 = 50;
const DAYS: u64 = 20;

/// The actions of a day.
const ACTIONS: u64 = 24;

/// The limits of the user.
const CALLS: u32 = 2;
const MINUTES: u32 = 20;

/// The seconds of a day.
const DAY: u64 = 86_400;

/// A call at a phone.
#[derive(Clone, Copy)]
enum State {
    Ringing,
    /// It is called. True for a call that counts for the user if it is answered.
    Calling(bool),
    /// Answered between two times. The last value is true for a call that counts for the user.
    Talking(Instant, Instant, bool),
}

struct Office {
    rig: Rig,
    random: Random,
    calls: Vec<BTreeMap<CallId, State>>,
    /// The time of the last look at the events.
    before: Instant,
    /// The least and the greatest number of minutes that the calls of the user, and all calls, have
    /// begun today.
    minutes: [[u64; 2]; 2],
    /// The calls that the owner was told to stand.
    told: HashSet<u64>,
    answered: u64,
}

impl Office {
    fn new(seed: u64) -> Self {
        let names = ["alpha", "beta"];
        let user = Account::User("p0@a.com".into());
        let limit = Limit { calls: Some(CALLS), minutes: Some(MINUTES), duration: None };
        let config = PlanConfig {
            trunks: names.map(str::to_owned).to_vec(),
            limits: vec![LimitConfig { account: user, limit }],
            ..PlanConfig::default()
        };
        let limits = Plan::new(&config).unwrap().limits().clone();
        let trunks = names.map(|name| Trunk::new(name, &format!("{name}.example"))).to_vec();
        let mut rig = Rig::office(seed, trunks);
        let fallback = if seed % 3 == 0 { Fallback::Refuse } else { Fallback::Allow };
        let patience = sip::Duration::from_secs(2);
        rig.act_b2bua(|b2bua, _| {
            b2bua.set_use_limits(limits);
            b2bua.set_decisions((seed % 2 == 0).then_some(DecisionTerms { patience, fallback }));
        });
        let before = rig.now();
        Self {
            rig,
            random: Random::new(seed),
            calls: vec![BTreeMap::new(); 3],
            before,
            minutes: [[0; 2]; 2],
            told: HashSet::new(),
            answered: 0,
        }
    }

    /// Lets the time pass, and takes note of the events.
    fn pass(&mut self, time: Duration) {
        self.before = self.rig.now();
        self.rig.pass(time);
        self.note();
    }

    fn note(&mut self) {
        let (before, now) = (self.before, self.rig.now());
        for phone in 0..3 {
            for event in self.rig.events(phone) {
                let Some(id) = event.call() else { continue };
                let calls = &mut self.calls[phone];
                match event {
                    Event::Incoming { .. } => _ = calls.insert(id, State::Ringing),
                    Event::Answered { .. } => {
                        if let Some(State::Calling(is_of_user)) = calls.get(&id).copied() {
                            calls.insert(id, State::Talking(before, now, is_of_user));
                        }
                    }
                    Event::Ended { .. } => {
                        // Each call has a leg of phone 0.
                        if let Some(State::Talking(from, until, is_of_user)) = calls.remove(&id)
                            && phone == 0
                        {
                            let begun = |from, until: Instant| until.since(from).as_secs() / 60 + 1;
                            for [least, most] in &mut self.minutes[usize::from(!is_of_user)..] {
                                *least += begun(until, before.max(until));
                                *most += begun(from, now);
                            }
                        }
                    }
                    _ => {}
                }
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
                _ => {}
            }
        }
        let uses: Vec<_> = self.rig.b2bua().uses().collect();
        for used in uses {
            if used.account == Account::User("p0@a.com".into()) {
                assert!(used.calls <= CALLS, "{used:?}");
                // The minute that is one too many ends the calls.
                assert!(used.minutes <= MINUTES + CALLS, "{used:?}");
            }
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

    /// A random call of `phone` for which `is_it` is true.
    fn pick(&mut self, phone: usize, is_it: fn(&State) -> bool) -> Option<CallId> {
        let found: Vec<_> =
            self.calls[phone].iter().filter(|(_, it)| is_it(it)).map(|(id, _)| *id).collect();
        let at = self.random.below(found.len().max(1) as u64) as usize;
        found.get(at).copied()
    }

    fn act(&mut self) {
        let phone = self.random.below(3) as usize;
        match self.random.below(8) {
            0..=1 => {
                let is_emergency = self.random.below(10) == 0;
                let number = if is_emergency { "112" } else { "0456" };
                let uri = format!("sip:{number}@192.0.2.100");
                let offer = session(0, 4000, "sendrecv");
                let call = self.rig.act(0, |it, now| it.call(now, Some(AccountId(0)), &uri, offer));
                self.calls[0].insert(call, State::Calling(!is_emergency));
            }
            2 if phone > 0 => {
                let offer = session(phone, 5000, "sendrecv");
                let uri = "sip:+4930123@192.0.2.100";
                let call = self.rig.act(phone, |it, now| it.call(now, None, uri, offer));
                self.calls[phone].insert(call, State::Calling(false));
            }
            3..=4 => {
                let Some(call) = self.pick(phone, |it| matches!(it, State::Ringing)) else {
                    return;
                };
                let answer = session(phone, 6000, "sendrecv");
                self.try_to(phone, |it, now| it.answer(now, call, &answer));
                let now = self.rig.now();
                self.calls[phone].insert(call, State::Talking(now, now, false));
            }
            5 => {
                let Some(call) = self.pick(phone, |it| matches!(it, State::Ringing)) else {
                    return;
                };
                let status = [486, 503, 603, 500][self.random.below(4) as usize];
                self.try_to(phone, |it, now| it.decline(now, call, status));
                self.calls[phone].remove(&call);
            }
            _ => {
                let Some(call) = self.pick(phone, |it| !matches!(it, State::Ringing)) else {
                    return;
                };
                self.try_to(phone, |it, now| it.hang_up(now, call));
            }
        }
    }

    /// Runs an action of a phone about a call, which the other party may have ended.
    fn try_to(
        &mut self,
        phone: usize,
        act: impl FnOnce(&mut Agent, Instant) -> Result<(), CallError>,
    ) {
        self.rig.act(phone, |it, now| {
            let _ = act(it, now);
            Ok(())
        });
    }

    /// Ends all calls, and compares what is left and what was counted.
    fn close(&mut self, day: u64) {
        for phone in 0..3 {
            for call in self.calls[phone].keys().copied().collect::<Vec<_>>() {
                if self.calls[phone].contains_key(&call) {
                    self.try_to(phone, |it, now| it.hang_up(now, call));
                    self.pass(Duration::from_secs(1));
                }
            }
        }
        self.pass(Duration::from_secs(60));
        assert_eq!(self.rig.b2bua().calls(), 0, "day {day}");
        assert!(self.told.is_empty(), "day {day}: the owner has calls that are over");
        assert_eq!(self.rig.b2bua().counters().answered, self.answered, "day {day}");
        for used in self.rig.b2bua().uses() {
            assert_eq!(used.calls, 0, "day {day}: {used:?}");
        }
    }
}

#[test]
fn at_the_end_of_each_of_a_thousand_days_limits_counters_and_calls_agree() {
    let mut cut = 0;
    for seed in 0..WORLDS {
        let mut office = Office::new(seed);
        for day in 0..DAYS {
            for _ in 0..ACTIONS {
                office.act();
                let seconds = office.random.below(100);
                office.pass(Duration::from_secs(seconds) + Duration::from_millis(200));
            }
            office.close(day);
            let uses: Vec<_> = office.rig.b2bua().uses().collect();
            let minutes = |is_it: &dyn Fn(&Account) -> bool| -> u64 {
                uses.iter().filter(|it| is_it(&it.account)).map(|it| u64::from(it.minutes)).sum()
            };
            let of_user = minutes(&|it| matches!(it, Account::User(_)));
            let of_class = minutes(&|it| matches!(it, Account::Class(_)));
            let of_trunks = minutes(&|it| matches!(it, Account::Trunk(_)));
            assert_eq!(of_user, of_class, "seed {seed}, day {day}");
            // Calls that came in, and emergency calls, count for their trunks alone.
            for (counted, [least, most]) in [of_user, of_trunks].into_iter().zip(office.minutes) {
                let place = format!("seed {seed}, day {day}: {counted}, {least} to {most}");
                assert!((least..=most).contains(&counted), "{place}: {uses:?}");
            }
            cut += u64::from(of_user > u64::from(MINUTES));
            office.minutes = [[0; 2]; 2];
            let today = office.rig.now().as_secs() % DAY;
            office.pass(Duration::from_secs(DAY - today + 6 * 3600));
        }
        office.rig.finish();
    }
    assert!(cut > 0, "no day has used up the minutes");
}
