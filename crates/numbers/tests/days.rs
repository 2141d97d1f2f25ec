//! Random days of an office: the counters of use agree with the records of its calls at the end of
//! each day, and no limit is exceeded.

use barebell_numbers::usage::{Account, Call, Limit, Permit, Usage};
use barebell_numbers::{LimitConfig, Plan, PlanConfig};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;

const DAY: u64 = 86_400;
/// The beginning of the first day, by a local time two hours ahead of UTC.
const START: u64 = 20_000 * DAY - 7200;
const OFFSET: i32 = 7200;

const USERS: [&str; 4] = ["alice@a.com", "bob@a.com", "carol@a.com", "fax@a.com"];
const TRUNKS: [&str; 2] = ["isp", "backup"];
const SOURCES: [&str; 3] = ["192.0.2.1", "192.0.2.2", "2001:db8::/64"];
const CLASSES: [&str; 3] = ["national", "international", "premium"];

/// A call in the records: its accounts, and the minutes that have begun, by the day.
struct Record {
    accounts: Vec<Account>,
    answered: Option<u64>,
    permit: Option<Permit>,
    is_emergency: bool,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Begin {
        user: usize,
        trunk: usize,
        class: usize,
        is_emergency: bool,
    },
    Incoming {
        trunk: usize,
    },
    Answer(usize),
    End(usize),
    /// The call of a stranger, which a user forwards.
    Forward {
        user: usize,
        source: usize,
        class: usize,
    },
    /// All calls end without a word, and the server starts again from its last snapshot.
    Crash,
    Reload,
    Pass(u64),
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..4usize, 0..2usize, 0..3usize, prop::bool::weighted(0.05)).prop_map(
            |(user, trunk, class, is_emergency)| Event::Begin { user, trunk, class, is_emergency }
        ),
        2 => (0..2usize).prop_map(|trunk| Event::Incoming { trunk }),
        2 => (0..4usize, 0..3usize, 0..3usize)
            .prop_map(|(user, source, class)| Event::Forward { user, source, class }),
        6 => any::<usize>().prop_map(Event::Answer),
        5 => any::<usize>().prop_map(Event::End),
        1 => Just(Event::Crash),
        1 => Just(Event::Reload),
        20 => (0..240u64).prop_map(Event::Pass),
        2 => (0..7200u64).prop_map(Event::Pass),
    ]
}

fn limits(generous: bool) -> PlanConfig {
    let limit = |account, calls, minutes| {
        let minutes = if generous { minutes * 2 } else { minutes };
        let limit = Limit { calls: Some(calls), minutes: Some(minutes), duration: None };
        LimitConfig { account, limit }
    };
    PlanConfig {
        trunks: TRUNKS.map(str::to_owned).to_vec(),
        limits: vec![
            limit(Account::User("*".into()), 2, 200),
            limit(Account::User("fax".into()), 1, 20),
            limit(Account::Trunk("isp".into()), 4, 500),
            limit(Account::Class("international".into()), 2, 60),
            limit(Account::Class("premium".into()), 1, 0),
            limit(Account::Strangers, 2, 60),
            limit(Account::Stranger(String::new()), 1, 15),
        ],
        ..PlanConfig::default()
    }
}

/// The limit of an account, by the names above.
fn limit_of(account: &Account, generous: bool) -> Limit {
    let found = |wanted: &Account| {
        limits(generous).limits.into_iter().find(|it| it.account == *wanted).map(|it| it.limit)
    };
    match account {
        Account::User(user) if user.starts_with("fax@") => found(&Account::User("fax".into())),
        Account::User(_) => found(&Account::User("*".into())),
        Account::Stranger(_) => found(&Account::Stranger(String::new())),
        _ => found(account),
    }
    .unwrap_or_default()
}

struct Office {
    usage: Usage,
    records: Vec<Record>,
    /// The minutes of the day of calls that have ended.
    ended: BTreeMap<Account, u64>,
    stored: String,
    now: u64,
    generous: bool,
}

impl Office {
    fn new() -> Self {
        let plan = Plan::new(&limits(false)).unwrap();
        Self {
            usage: Usage::new(plan.limits().clone(), OFFSET, START),
            records: Vec::new(),
            ended: BTreeMap::new(),
            stored: String::new(),
            now: START,
            generous: false,
        }
    }

    fn day_start(&self) -> u64 {
        START + (self.now - START) / DAY * DAY
    }

    /// The minutes of a call that began on this day, up to now.
    fn minutes(&self, record: &Record) -> u64 {
        let Some(answered) = record.answered else { return 0 };
        let begun = |until: u64| (until - answered) / 60 + 1;
        let today = self.day_start();
        begun(self.now) - if answered < today { begun(today - 1) } else { 0 }
    }

    fn expected(&self) -> BTreeMap<Account, (u32, u32)> {
        let mut all: BTreeMap<Account, (u32, u32)> = BTreeMap::new();
        for (account, minutes) in &self.ended {
            all.entry(account.clone()).or_default().1 += u32::try_from(*minutes).unwrap();
        }
        for record in &self.records {
            for account in &record.accounts {
                let entry = all.entry(account.clone()).or_default();
                entry.0 += 1;
                entry.1 += u32::try_from(self.minutes(record)).unwrap();
            }
        }
        all.retain(|_, (calls, minutes)| *calls > 0 || *minutes > 0);
        all
    }

    fn end(&mut self, index: usize) {
        let record = self.records.remove(index);
        let minutes = self.minutes(&record);
        for account in &record.accounts {
            *self.ended.entry(account.clone()).or_default() += minutes;
        }
        drop(record.permit);
    }

    fn begin(&mut self, call: &Call<'_>) {
        let user = call.user.map(|user| Account::User(user.into()));
        let (forwarder, user) = match call.stranger {
            Some(_) => (user, None),
            None => (None, user),
        };
        let accounts = [
            user,
            call.stranger.map(|source| Account::Stranger(source.into())),
            call.stranger.map(|_| Account::Strangers),
            Some(Account::Trunk(call.trunk.into())),
            call.class.map(|class| Account::Class(class.into())),
        ];
        let counts = |account: &Account| !call.is_emergency || matches!(account, Account::Trunk(_));
        let accounts: Vec<Account> = accounts.into_iter().flatten().filter(counts).collect();
        let used = self.expected();
        let is_full = |account: &Account| {
            let (calls, minutes) = used.get(account).copied().unwrap_or_default();
            let limit = limit_of(account, self.generous);
            limit.calls.is_some_and(|most| calls >= most)
                || limit.minutes.is_some_and(|most| minutes >= most)
        };
        let asked = || forwarder.iter().chain(&accounts);
        let full = asked().find(|account| is_full(account)).filter(|_| !call.is_emergency);
        match (self.usage.begin(self.now, call), full) {
            (Ok(permit), None) => self.records.push(Record {
                accounts,
                answered: None,
                permit: Some(permit),
                is_emergency: call.is_emergency,
            }),
            (Err(exceeded), Some(full)) => assert_eq!(&exceeded.0.account, full),
            (result, full) => panic!("{result:?}, but the full account is {full:?}"),
        }
    }

    fn pass(&mut self, seconds: u64) {
        let end = self.now + seconds;
        while self.now < end {
            let midnight = self.day_start() + DAY;
            let next = end.min(self.now + 20).min(midnight);
            self.now = next;
            if next == midnight {
                self.ended.clear();
            }
            self.usage.tick(next);
            for index in (0..self.records.len()).rev() {
                let (record, all) = (&self.records[index], self.expected());
                let is_over = |account: &Account| {
                    let used = all.get(account).map_or(0, |(_, minutes)| *minutes);
                    limit_of(account, self.generous).minutes.is_some_and(|most| used > most)
                };
                let is_over = !record.is_emergency && record.accounts.iter().any(is_over);
                let permit = record.permit.as_ref().unwrap();
                assert_eq!(permit.is_overdrawn(), is_over);
                if is_over {
                    self.end(index);
                }
            }
            self.store();
        }
    }

    fn store(&mut self) {
        self.stored = self.usage.snapshot().unwrap_or(std::mem::take(&mut self.stored));
    }

    fn apply(&mut self, event: Event) {
        self.usage.at(self.now);
        let pick = |index: usize, office: &Self| {
            (!office.records.is_empty()).then(|| index % office.records.len())
        };
        match event {
            Event::Begin { user, trunk, class, is_emergency } => self.begin(&Call {
                user: Some(USERS[user]),
                trunk: TRUNKS[trunk],
                class: Some(CLASSES[class]),
                stranger: None,
                is_emergency,
            }),
            Event::Forward { user, source, class } => self.begin(&Call {
                user: Some(USERS[user]),
                trunk: TRUNKS[0],
                class: Some(CLASSES[class]),
                stranger: Some(SOURCES[source]),
                is_emergency: false,
            }),
            Event::Incoming { trunk } => self.begin(&Call {
                user: None,
                trunk: TRUNKS[trunk],
                class: None,
                stranger: None,
                is_emergency: false,
            }),
            Event::Answer(index) => {
                if let Some(index) = pick(index, self) {
                    let (now, record) = (self.now, &mut self.records[index]);
                    record.answered.get_or_insert(now);
                    record.permit.as_ref().unwrap().answered(now);
                }
            }
            Event::End(index) => {
                if let Some(index) = pick(index, self) {
                    self.end(index);
                }
            }
            Event::Crash => {
                self.store();
                for index in (0..self.records.len()).rev() {
                    self.end(index);
                }
                let plan = Plan::new(&limits(self.generous)).unwrap();
                self.usage = Usage::new(plan.limits().clone(), OFFSET, self.now);
                if !self.stored.is_empty() {
                    self.usage.restore(&self.stored).unwrap();
                }
            }
            Event::Reload => {
                self.generous = !self.generous;
                let plan = Plan::new(&limits(self.generous)).unwrap();
                self.usage.set_limits(plan.limits().clone());
            }
            Event::Pass(seconds) => self.pass(seconds),
        }
        self.store();
        let uses = self.usage.uses().map(|it| (it.account, (it.calls, it.minutes)));
        assert_eq!(uses.collect::<BTreeMap<_, _>>(), self.expected(), "after {event:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Ten days in each case: a thousand in all.
    #[test]
    fn counters_and_records_agree_on_each_day(events in vec(vec(events(), 0..60), 10)) {
        let mut office = Office::new();
        for (day, events) in (1..).zip(events) {
            for event in events {
                if office.now < START + day * DAY {
                    office.apply(event);
                }
            }
            let rest = (START + day * DAY).saturating_sub(office.now + 1);
            office.apply(Event::Pass(rest % 600));
            let minute_before = (START + day * DAY).saturating_sub(30);
            if office.now < minute_before {
                office.now = minute_before;
                office.usage.tick(office.now);
                office.apply(Event::Pass(60));
            }
        }
        while !office.records.is_empty() {
            office.end(0);
        }
        prop_assert!(office.usage.uses().all(|it| it.calls == 0), "all calls have ended");
    }
}

#[test]
fn a_stored_snapshot_of_another_day_is_not_added() {
    let mut usage = Usage::new(Default::default(), 0, START + DAY);
    usage.restore("day\t19999\nuser\talice@a.com\t7\n").unwrap();
    assert_eq!(usage.uses().count(), 0);
    let today = (START + DAY) / DAY;
    let text =
        format!("day\t{today}\nuser\talice@a.com\t7\nuser\tbob\nclass\tpremium\t4294967295\n");
    assert_eq!(usage.restore(&text).unwrap_err().line, 3);
    assert_eq!(usage.uses().map(|it| it.minutes).collect::<Vec<_>>(), [7, u32::MAX]);
    assert_eq!(usage.restore("").unwrap_err().line, 1);
}

#[test]
fn alarms_are_given_once_for_a_limit_and_a_day() {
    let plan = Plan::new(&limits(false)).unwrap();
    let mut usage = Usage::new(plan.limits().clone(), OFFSET, START);
    let call = Call {
        user: Some("fax@a.com"),
        trunk: "isp",
        class: Some("national"),
        stranger: None,
        is_emergency: false,
    };
    let permit = usage.begin(START, &call).unwrap();
    permit.answered(START);
    for _ in 0..2 {
        assert!(usage.begin(START, &call).is_err());
    }
    let alarms =
        |usage: &mut Usage| usage.take_alarms().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(alarms(&mut usage), ["user fax@a.com: 1 of at most 1 calls at once"]);
    for second in 0..30 * 60 {
        usage.tick(START + second);
        if permit.is_overdrawn() {
            break;
        }
    }
    let expected = [
        "user fax@a.com: 16 of at most 20 minutes today",
        "user fax@a.com: 20 of at most 20 minutes today",
    ];
    assert_eq!(alarms(&mut usage), expected);
    drop(permit);
    assert!(usage.begin(START + 1200, &call).is_err(), "no minutes are left today");
    assert!(usage.begin(START + DAY, &call).is_ok());
}

#[test]
fn strangers_use_up_their_own_minutes_and_not_those_of_the_user_that_forwards() {
    let mut usage = Usage::new(Default::default(), OFFSET, START);
    let call = |stranger| Call {
        user: Some("bob@a.com"),
        trunk: "isp",
        class: Some("national"),
        stranger,
        is_emergency: false,
    };
    let first = usage.begin(START, &call(Some("192.0.2.1"))).unwrap();
    let said = |refused: Result<Permit, _>| refused.map(drop).unwrap_err();
    assert_eq!(
        said(usage.begin(START, &call(Some("192.0.2.1")))).to_string(),
        "the limit is reached: stranger 192.0.2.1: 1 of at most 1 calls at once"
    );
    let second = usage.begin(START, &call(Some("192.0.2.2"))).unwrap();
    assert_eq!(
        said(usage.begin(START, &call(Some("192.0.2.3")))).to_string(),
        "the limit is reached: strangers: 2 of at most 2 calls at once"
    );
    for permit in [&first, &second] {
        permit.answered(START);
    }
    usage.tick(START + 15 * 60);
    assert!(first.is_overdrawn() && second.is_overdrawn());
    drop((first, second));
    let own = usage.begin(START + 15 * 60, &call(None)).unwrap();
    let user = usage.uses().find(|it| it.account == Account::User("bob@a.com".into())).unwrap();
    assert_eq!((user.calls, user.minutes), (1, 0));
    drop(own);
    let text = usage.snapshot().unwrap();
    let mut after = Usage::new(Default::default(), OFFSET, START);
    after.restore(&text).unwrap();
    assert!(after.begin(START + 16 * 60, &call(Some("192.0.2.1"))).is_err(), "after a crash");
}

#[test]
fn sources_of_strangers_are_counted_apart_up_to_a_number() {
    let limits = ["all", "each"].map(|kind| LimitConfig {
        account: match kind {
            "all" => Account::Strangers,
            _ => Account::Stranger(String::new()),
        },
        limit: Limit::default(),
    });
    let config = PlanConfig { limits: limits.to_vec(), ..PlanConfig::default() };
    let plan = Plan::new(&config).unwrap();
    let mut usage = Usage::new(plan.limits().clone(), OFFSET, START);
    for number in 0..3000 {
        let source = number.to_string();
        let call = Call {
            user: Some("bob@a.com"),
            trunk: "isp",
            class: None,
            stranger: Some(&source),
            is_emergency: false,
        };
        let permit = usage.begin(START, &call).unwrap();
        if number >= 1000 {
            permit.answered(START);
        }
    }
    let is_stranger =
        |it: &&barebell_numbers::usage::Use| matches!(it.account, Account::Stranger(_));
    let uses: Vec<_> = usage.uses().collect();
    assert_eq!(uses.iter().filter(is_stranger).count(), 1025);
    let others = uses.iter().find(|it| it.account == Account::Stranger("others".into())).unwrap();
    assert_eq!(others.minutes, 976);
}

#[test]
fn a_call_has_a_maximum_duration_by_the_shortest_of_its_accounts() {
    let longest = |account, seconds| LimitConfig {
        account,
        limit: Limit { duration: Some(seconds), ..Limit::default() },
    };
    let config = PlanConfig {
        trunks: TRUNKS.map(str::to_owned).to_vec(),
        limits: vec![
            longest(Account::Trunk("isp".into()), 300),
            longest(Account::Class("international".into()), 100),
        ],
        ..PlanConfig::default()
    };
    let mut usage = Usage::new(Plan::new(&config).unwrap().limits().clone(), OFFSET, START);
    let mut begin = |class, is_emergency| {
        let (user, trunk) = (Some("bob@a.com"), "isp");
        let call = Call { user, trunk, class: Some(class), stranger: None, is_emergency };
        usage.begin(START, &call).unwrap()
    };
    let calls = [
        begin("national", false),
        begin("international", false),
        begin("international", true),
        begin("international", false),
    ];
    calls[..3].iter().for_each(|call| call.answered(START));
    let mut over = |seconds| {
        usage.tick(START + seconds);
        calls.each_ref().map(Permit::is_too_long)
    };
    assert_eq!(over(99), [false; 4]);
    assert_eq!(over(100), [false, true, false, false], "the last one is not answered");
    assert_eq!(over(300), [true, true, false, false]);
}
