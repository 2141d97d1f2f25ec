//! Random orders of subscriptions, calls, lost messages and time: versions rise, and no lamp is lit
//! after the end of the calls.

mod rig;

use barebell_notifier::{CallStart, CallTable, Config, Party, TableLimits};
use fastrand::Rng;
use rig::{Notify, Rig, Subscriber};
use sip::Duration;
use std::collections::HashMap;

const USERS: [&str; 3] = ["alice@example.com", "bob@example.com", "carol@example.com"];

/// A subscriber with the last document that it has got.
struct Phone {
    subscriber: Subscriber,
    version: Option<u32>,
    /// The number of calls of the document that have not ended.
    lit: usize,
    has_ended: bool,
}

struct Office {
    rig: Rig,
    table: CallTable,
    phones: HashMap<String, Phone>,
    calls: u128,
    /// The answered and the unanswered calls.
    standing: Vec<u128>,
    /// NOTIFYs that are not answered.
    open: Vec<Notify>,
    rng: Rng,
}

impl Office {
    fn new(seed: u64) -> Self {
        Self {
            rig: Rig::new(Config::default()),
            table: CallTable::new(TableLimits::default()),
            phones: HashMap::new(),
            calls: 0,
            standing: Vec::new(),
            open: Vec::new(),
            rng: Rng::with_seed(seed),
        }
    }

    /// Tells the changes of calls, and reads what the phones get.
    fn settle(&mut self) {
        for user in self.table.take_changed() {
            let calls = self.table.calls_of(&user);
            self.rig.notifier.set_dialogs(self.rig.now, &user, calls);
        }
        for notify in self.rig.notifies() {
            self.show(&notify);
            self.open.push(notify);
        }
    }

    fn show(&mut self, notify: &Notify) {
        let phone = self.phones.get_mut(&notify.call_id).expect("a subscriber");
        assert!(!phone.has_ended, "a NOTIFY after the last one");
        let version = notify.body.split("version=\"").nth(2).unwrap().split('"').next().unwrap();
        let version = version.parse().unwrap();
        assert!(phone.version < Some(version), "{:?} then {version}", phone.version);
        phone.version = Some(version);
        let count = |state: &str| notify.body.matches(state).count();
        phone.lit = count("<dialog id=") - count("<state>terminated</state>");
        phone.has_ended = notify.state.starts_with("terminated");
    }

    fn step(&mut self) {
        let now = self.rig.now;
        match self.rng.u8(0..9) {
            0 => {
                let of = self.rng.choice(USERS).unwrap();
                let mut subscriber = Subscriber::new("alice", "dialog", of);
                let id = subscriber.call_id.clone();
                let phone =
                    |subscriber| Phone { subscriber, version: None, lit: 0, has_ended: false };
                self.phones.insert(id.clone(), phone(subscriber.clone()));
                let (status, notifies) = self.rig.subscribe(&mut subscriber, self.rng.u32(60..300));
                assert_eq!(status, 200);
                self.phones.get_mut(&id).unwrap().subscriber = subscriber;
                for notify in notifies {
                    self.show(&notify);
                    self.open.push(notify);
                }
            }
            1 => {
                let ids: Vec<String> = self.phones.keys().cloned().collect();
                let Some(id) = self.rng.choice(ids) else { return };
                let expires = if self.rng.bool() { 0 } else { 120 };
                let mut subscriber = self.phones[&id].subscriber.clone();
                let (status, notifies) = self.rig.subscribe(&mut subscriber, expires);
                assert!(matches!(status, 200 | 481), "{status}");
                self.phones.get_mut(&id).unwrap().subscriber = subscriber;
                for notify in notifies {
                    self.show(&notify);
                    self.open.push(notify);
                }
            }
            2 => {
                self.calls += 1;
                let party = |user: &str| Party { user: Some(user.into()), ..Party::default() };
                let parties = [(); 2].map(|()| party(self.rng.choice(USERS).unwrap()));
                let transaction = self.calls;
                let (call_id, caller_tag) = (format!("{transaction}").into(), b"a".to_vec());
                self.table.begin(
                    now,
                    CallStart {
                        transaction,
                        call_id,
                        caller_tag,
                        parties,
                        caller: None,
                        is_to_group: false,
                    },
                );
                self.standing.push(transaction);
            }
            3 | 4 => {
                let Some(call) = self.rng.choice(&self.standing).copied() else { return };
                let status = self.rng.choice([100, 180, 183, 200, 486]).unwrap();
                self.table.respond(now, call, status, b"b", None);
            }
            5 => {
                let Some(call) = self.rng.choice(&self.standing).copied() else { return };
                self.table.end(format!("{call}").as_bytes(), [b"b", b"a"]);
            }
            6 | 7 if !self.open.is_empty() => {
                let notify = self.open.swap_remove(self.rng.usize(..self.open.len()));
                match self.rng.u8(0..20) {
                    0 => {}
                    1 => self.rig.answer(&notify, 481, ""),
                    2 => self.rig.answer(&notify, 503, "Retry-After: 3\r\n"),
                    _ => self.rig.answer(&notify, 200, ""),
                }
            }
            _ => self.rig.pass(Duration::from_millis(self.rng.u64(1..20_000))),
        }
        self.settle();
    }

    /// Ends all calls, and answers every NOTIFY.
    fn end(&mut self) {
        for call in std::mem::take(&mut self.standing) {
            self.table.respond(self.rig.now, call, 486, b"b", None);
            self.table.end(format!("{call}").as_bytes(), [b"a", b"b"]);
        }
        for _ in 0..40 {
            self.settle();
            for notify in std::mem::take(&mut self.open) {
                self.rig.answer(&notify, 200, "");
            }
            self.rig.pass(Duration::from_secs(1));
        }
        self.settle();
    }
}

#[test]
fn versions_rise_and_no_lamp_is_lit_after_the_end() {
    let mut told = 0;
    for seed in 0..300 {
        let mut office = Office::new(seed);
        for _ in 0..200 {
            office.step();
        }
        office.end();
        assert!(office.table.is_empty(), "seed {seed}");
        // A phone that has refused a NOTIFY, or was silent, has no subscription.
        let mut alive = office.phones.into_values().filter(|it| {
            let mut again = it.subscriber.clone();
            !it.has_ended && office.rig.subscribe(&mut again, 60).0 == 200
        });
        assert!(alive.all(|it| it.lit == 0), "seed {seed}: a lamp is lit");
        office.rig.pass(Duration::from_secs(4000));
        assert_eq!(office.rig.notifier.remains(), 0, "seed {seed}");
        told += office.rig.notifier.counters().notified;
    }
    assert!(told > 1000);
}
