//! The use of trunks, and its limits against toll fraud: calls at once and minutes a day, of each
//! user, trunk and class, and of strangers, by the forwards of users.
//!
//! The call of a stranger needs room within the limits of the user that forwards it, but is not
//! counted there: a stranger cannot use up the minutes of a user.
//!
//! A call holds a [`Permit`]. Its counters fall when the permit is dropped, in whatever way the
//! call ends. Minutes count when they begin, as providers charge them, so that a stored
//! [`Usage::snapshot`] never has fewer minutes than the calls up to then.

use crate::pattern::PatternTable;
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;

/// The number of open calls from which on those that have ended are swept.
const SWEEP: usize = 64;

/// The maximum number of sources of strangers that are counted apart on one day. The further ones
/// have one account.
const MAX_STRANGERS: usize = 1024;

/// The account of the sources beyond [`MAX_STRANGERS`].
const OTHER_STRANGERS: &str = "others";

/// A party of calls that is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// A user, as `name@domain`.
    User(String),
    /// A trunk, by its name.
    Trunk(String),
    /// A class of destinations, by its name.
    Class(String),
    /// All strangers, for their calls that users forward.
    Strangers,
    /// One of these strangers, by its source.
    Stranger(String),
}

impl Account {
    fn kind_and_name(&self) -> (&'static str, &str) {
        match self {
            Self::User(name) => ("user", name),
            Self::Trunk(name) => ("trunk", name),
            Self::Class(name) => ("class", name),
            Self::Strangers => ("strangers", ""),
            Self::Stranger(source) => ("stranger", source),
        }
    }

    fn parse(kind: &str, name: &str) -> Option<Self> {
        match kind {
            "user" => Some(Self::User(name.to_owned())),
            "trunk" => Some(Self::Trunk(name.to_owned())),
            "class" => Some(Self::Class(name.to_owned())),
            "strangers" => Some(Self::Strangers),
            "stranger" => Some(Self::Stranger(name.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind_and_name() {
            (kind, "") => f.write_str(kind),
            (kind, name) => write!(f, "{kind} {name}"),
        }
    }
}

/// The limits of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// The maximum number of calls at once. `None`: no limit.
    pub calls: Option<u32>,
    /// The maximum number of minutes a day. `None`: no limit.
    pub minutes: Option<u32>,
    /// The maximum duration of a call in seconds. `None`: no limit.
    pub duration: Option<u32>,
}

/// The limits of all accounts: see [`Plan::limits`](crate::Plan::limits). The default has those of
/// strangers only.
#[derive(Clone, Debug)]
pub struct UsageLimits {
    pub(crate) users: PatternTable<Limit>,
    pub(crate) others: BTreeMap<Account, Limit>,
    /// All strangers.
    pub(crate) strangers: Limit,
    /// Each of them.
    pub(crate) each_stranger: Limit,
}

impl Default for UsageLimits {
    fn default() -> Self {
        Self {
            users: PatternTable::default(),
            others: BTreeMap::new(),
            strangers: Limit { calls: Some(2), minutes: Some(60), duration: None },
            each_stranger: Limit { calls: Some(1), minutes: Some(15), duration: None },
        }
    }
}

impl UsageLimits {
    fn of(&self, account: &Account) -> Limit {
        let own = match account {
            Account::User(user) => self.users.get(user).map(|(_, limit)| limit),
            Account::Trunk(_) | Account::Class(_) => self.others.get(account),
            Account::Strangers => Some(&self.strangers),
            Account::Stranger(_) => Some(&self.each_stranger),
        };
        own.copied().unwrap_or_default()
    }
}

/// The quantity that a limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Calls at once.
    Calls,
    /// Minutes of a day.
    Minutes,
}

/// A limit that is reached, or nearly so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// The account.
    pub account: Account,
    /// The quantity.
    pub quantity: Quantity,
    /// The present value.
    pub value: u32,
    /// The limit.
    pub limit: u32,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { account, quantity, value, limit } = self;
        match quantity {
            Quantity::Calls => write!(f, "{account}: {value} of at most {limit} calls at once"),
            Quantity::Minutes => write!(f, "{account}: {value} of at most {limit} minutes today"),
        }
    }
}

/// A call that would exceed a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exceeded(pub Alarm);

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the limit is reached: {}", self.0)
    }
}

impl Error for Exceeded {}

/// A call through a trunk.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The user that pays for it, as `name@domain`. `None`: an incoming call.
    pub user: Option<&'a str>,
    /// The name of the trunk.
    pub trunk: &'a str,
    /// The name of the class of its destination. `None`: an incoming call.
    pub class: Option<&'a str>,
    /// The source of a stranger, if `user` forwards its call. The call counts for it, and for all
    /// strangers, in place of `user`.
    pub stranger: Option<&'a str>,
    /// True for a call to an emergency number, which no limit refuses. It counts for the trunk
    /// alone.
    pub is_emergency: bool,
}

/// The use of an account.
#[derive(Debug)]
struct Counter {
    calls: AtomicU32,
    minutes: AtomicU32,
    /// The maximum number of minutes a day; [`u32::MAX`]: no limit.
    most_minutes: AtomicU32,
    /// The maximum duration of a call in seconds; [`u32::MAX`]: no limit.
    longest: AtomicU32,
    /// True if the alarm of the day was given for calls, for minutes, and for most minutes.
    alarms: [AtomicBool; 3],
}

impl Counter {
    fn new(limit: Limit) -> Self {
        Self {
            calls: AtomicU32::new(0),
            minutes: AtomicU32::new(0),
            most_minutes: AtomicU32::new(limit.minutes.unwrap_or(u32::MAX)),
            longest: AtomicU32::new(limit.duration.unwrap_or(u32::MAX)),
            alarms: [const { AtomicBool::new(false) }; 3],
        }
    }

    fn set(&self, limit: Limit) {
        self.most_minutes.store(limit.minutes.unwrap_or(u32::MAX), Relaxed);
        self.longest.store(limit.duration.unwrap_or(u32::MAX), Relaxed);
    }

    fn is_overdrawn(&self) -> bool {
        self.minutes.load(Relaxed) > self.most_minutes.load(Relaxed)
    }
}

/// The values that permits share with the usage.
#[derive(Debug, Default)]
struct Shared {
    /// The present time, in seconds since the Unix epoch.
    now: AtomicU64,
    /// True if minutes have changed since the last snapshot.
    has_changed: AtomicBool,
}

/// A call that is counted.
#[derive(Debug)]
struct Seat {
    shared: Arc<Shared>,
    counters: Vec<Arc<Counter>>,
    is_emergency: bool,
    /// The time of the answer, in seconds since the Unix epoch; [`u64::MAX`]: not answered.
    answered: AtomicU64,
    /// The minutes that are counted.
    charged: AtomicU64,
}

impl Seat {
    /// Counts the minutes that have begun up to `now`.
    fn charge(&self, now: u64) {
        let answered = self.answered.load(Relaxed);
        if answered == u64::MAX {
            return;
        }
        let begun = now.saturating_sub(answered) / MINUTE + 1;
        let before = self.charged.fetch_max(begun, Relaxed);
        let minutes = u32::try_from(begun.saturating_sub(before)).unwrap_or(u32::MAX);
        if minutes > 0 {
            for counter in &self.counters {
                let add = |present: u32| Some(present.saturating_add(minutes));
                let _ = counter.minutes.fetch_update(Relaxed, Relaxed, add);
            }
            self.shared.has_changed.store(true, Relaxed);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.charge(self.shared.now.load(Relaxed));
        for counter in &self.counters {
            counter.calls.fetch_sub(1, Relaxed);
        }
    }
}

/// The permission for a call through a trunk. The call is counted until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Permit(Arc<Seat>);

impl Permit {
    /// Begins the minutes of the call: it was answered at `now`, in seconds since the Unix epoch.
    /// A repetition has no effect.
    pub fn answered(&self, now: u64) {
        let _ = self.0.answered.compare_exchange(u64::MAX, now, Relaxed, Relaxed);
        self.0.charge(now);
    }

    /// Returns true if more minutes have begun than an account of the call has: the call is to be
    /// ended. Never true for an emergency call.
    #[must_use]
    pub fn is_overdrawn(&self) -> bool {
        !self.0.is_emergency && self.0.counters.iter().any(|counter| counter.is_overdrawn())
    }
}

impl Permit {
    /// Returns true if the call has lasted for longer than an account of it allows: it is to be
    /// ended. Never true for an emergency call.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        let Seat { shared, counters, is_emergency, answered, .. } = &*self.0;
        let lasted = shared.now.load(Relaxed).saturating_sub(answered.load(Relaxed));
        let is_over = |counter: &Arc<Counter>| match counter.longest.load(Relaxed) {
            u32::MAX => false,
            longest => lasted >= u64::from(longest),
        };
        !is_emergency && counters.iter().any(is_over)
    }
}

/// The use of an account, for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// The account.
    pub account: Account,
    /// The calls at present.
    pub calls: u32,
    /// The minutes of the day.
    pub minutes: u32,
    /// The limits.
    pub limit: Limit,
}

/// The use of all trunks.
#[derive(Debug)]
pub struct Usage {
    limits: UsageLimits,
    /// The seconds from UTC to the local time, for the beginning of a day.
    offset: i32,
    counters: BTreeMap<Account, Arc<Counter>>,
    /// The calls, to count their minutes as they begin.
    open: Vec<Weak<Seat>>,
    sweep_at: usize,
    /// The day, counted from the Unix epoch in local time.
    day: u64,
    shared: Arc<Shared>,
    alarms: Vec<Alarm>,
}

impl Usage {
    /// No use up to `now`, in seconds since the Unix epoch. A day begins at midnight of a local
    /// time that is `offset` seconds ahead of UTC.
    #[must_use]
    pub fn new(limits: UsageLimits, offset: i32, now: u64) -> Self {
        let shared = Shared { now: AtomicU64::new(now), has_changed: AtomicBool::new(false) };
        Self {
            limits,
            offset,
            counters: BTreeMap::new(),
            open: Vec::new(),
            sweep_at: SWEEP,
            day: day(now, offset),
            shared: Arc::new(shared),
            alarms: Vec::new(),
        }
    }

    /// Replaces the limits. Use and calls remain.
    pub fn set_limits(&mut self, limits: UsageLimits) {
        self.limits = limits;
        for (account, counter) in &self.counters {
            counter.set(self.limits.of(account));
        }
    }

    /// Sets the present time, in seconds since the Unix epoch, before each event. The minutes of
    /// calls that end before the next event count up to it.
    pub fn at(&mut self, now: u64) {
        let today = day(now, self.offset);
        if today == self.day {
            self.shared.now.fetch_max(now, Relaxed);
            return;
        }
        // The minutes up to midnight are those of the day that ends.
        let midnight = midnight(today, self.offset);
        for seat in self.open.iter().filter_map(Weak::upgrade) {
            seat.charge(midnight.saturating_sub(1));
        }
        self.day = today;
        self.shared.now.store(now, Relaxed);
        self.shared.has_changed.store(true, Relaxed);
        self.counters.retain(|_, counter| counter.calls.load(Relaxed) > 0);
        for counter in self.counters.values() {
            counter.minutes.store(0, Relaxed);
            counter.alarms.iter().for_each(|alarm| alarm.store(false, Relaxed));
        }
    }

    /// Counts the minutes that have begun up to `now`. To be called at least once a minute. The
    /// calls of permits that are overdrawn then are to be ended.
    pub fn tick(&mut self, now: u64) {
        self.at(now);
        self.open.retain(|seat| {
            seat.upgrade().is_some_and(|seat| {
                seat.charge(now);
                true
            })
        });
        let counters: Vec<_> = self.counters.iter().map(|(a, c)| (a.clone(), c.clone())).collect();
        for (account, counter) in counters {
            self.watch_minutes(&account, &counter);
        }
    }

    /// Permits a call at `now`, in seconds since the Unix epoch, and counts it.
    ///
    /// # Errors
    /// [`Exceeded`] if a limit is reached, with the first account. Never for an emergency call.
    pub fn begin(&mut self, now: u64, call: &Call<'_>) -> Result<Permit, Exceeded> {
        self.at(now);
        let user = call.user.map(|user| Account::User(user.to_owned()));
        let class = call.class.map(|class| Account::Class(class.to_owned()));
        let trunk = Some(Account::Trunk(call.trunk.to_owned()));
        let stranger = call.stranger.map(|source| self.stranger(source));
        let strangers = stranger.as_ref().map(|_| Account::Strangers);
        let forwarder = user.as_ref().filter(|_| stranger.is_some()).cloned();
        let user = user.filter(|_| stranger.is_none());
        let accounts = [user, stranger, strangers, trunk, class].into_iter().flatten();
        let counts = |account: &Account| !call.is_emergency || matches!(account, Account::Trunk(_));
        let accounts: Vec<Account> = accounts.filter(counts).collect();
        if !call.is_emergency {
            for account in forwarder.iter().chain(&accounts) {
                self.check(account)?;
            }
        }
        let counters: Vec<_> = accounts.into_iter().map(|it| self.counter(it)).collect();
        for counter in &counters {
            counter.calls.fetch_add(1, Relaxed);
        }
        let seat = Arc::new(Seat {
            shared: self.shared.clone(),
            counters,
            is_emergency: call.is_emergency,
            answered: AtomicU64::new(u64::MAX),
            charged: AtomicU64::new(0),
        });
        if self.open.len() >= self.sweep_at {
            self.open.retain(|seat| seat.strong_count() > 0);
            self.sweep_at = SWEEP.max(2 * self.open.len());
        }
        self.open.push(Arc::downgrade(&seat));
        Ok(Permit(seat))
    }

    /// The alarms since the last call: at most one for each account, quantity and day, and one at
    /// four fifths of the minutes.
    pub fn take_alarms(&mut self) -> Vec<Alarm> {
        core::mem::take(&mut self.alarms)
    }

    /// The use of each account that has calls or minutes.
    pub fn uses(&self) -> impl Iterator<Item = Use> + '_ {
        let used = self.counters.iter().map(|(account, counter)| Use {
            account: account.clone(),
            calls: counter.calls.load(Relaxed),
            minutes: counter.minutes.load(Relaxed),
            limit: self.limits.of(account),
        });
        used.filter(|used| used.calls > 0 || used.minutes > 0)
    }

    /// The minutes of the day as text, to be stored, if they have changed since the last snapshot.
    pub fn snapshot(&mut self) -> Option<String> {
        if !self.shared.has_changed.swap(false, Relaxed) {
            return None;
        }
        let mut text = format!("day\t{}\n", self.day);
        for Use { account, minutes, .. } in self.uses().filter(|used| used.minutes > 0) {
            let (kind, name) = account.kind_and_name();
            text.push_str(&format!("{kind}\t{name}\t{minutes}\n"));
        }
        Some(text)
    }

    /// Adds the minutes of a snapshot, if it is of today. To be called before the first call.
    ///
    /// # Errors
    /// [`BadSnapshot`] if lines cannot be read. The minutes of the others are added.
    pub fn restore(&mut self, snapshot: &str) -> Result<(), BadSnapshot> {
        let mut bad = None;
        let mut lines = snapshot.lines().enumerate();
        let day = lines.next().and_then(|(_, line)| line.strip_prefix("day\t")?.parse().ok());
        let Some(day) = day else { return Err(BadSnapshot { line: 1 }) };
        if self.day != day {
            return Ok(());
        }
        for (index, line) in lines {
            let mut fields = line.split('\t');
            let account = fields.next().zip(fields.next());
            let account = account.and_then(|(kind, name)| Account::parse(kind, name));
            let minutes = fields.next().and_then(|minutes| minutes.parse::<u32>().ok());
            match account.zip(minutes).filter(|_| fields.next().is_none()) {
                Some((account, minutes)) => {
                    let add = |present: u32| Some(present.saturating_add(minutes));
                    let _ = self.counter(account).minutes.fetch_update(Relaxed, Relaxed, add);
                }
                None => bad = bad.or(Some(BadSnapshot { line: index + 1 })),
            }
        }
        bad.map_or(Ok(()), Err)
    }

    /// The account of the stranger at `source`. Those without use are forgotten.
    fn stranger(&mut self, source: &str) -> Account {
        let account = Account::Stranger(source.to_owned());
        if self.counters.contains_key(&account) {
            return account;
        }
        let is_stranger = |account: &Account| matches!(account, Account::Stranger(_));
        self.counters.retain(|account, counter| {
            let is_used = counter.calls.load(Relaxed) > 0 || counter.minutes.load(Relaxed) > 0;
            is_used || !is_stranger(account)
        });
        match self.counters.keys().filter(|account| is_stranger(account)).count() {
            count if count < MAX_STRANGERS => account,
            _ => Account::Stranger(OTHER_STRANGERS.to_owned()),
        }
    }

    fn counter(&mut self, account: Account) -> Arc<Counter> {
        let limit = self.limits.of(&account);
        self.counters.entry(account).or_insert_with(|| Arc::new(Counter::new(limit))).clone()
    }

    /// Returns an error if a further call would exceed a limit of `account`.
    fn check(&mut self, account: &Account) -> Result<(), Exceeded> {
        let Some(counter) = self.counters.get(account).cloned() else {
            // An account without use exceeds a limit of zero only.
            let limit = self.limits.of(account);
            let zero = [(Quantity::Calls, limit.calls), (Quantity::Minutes, limit.minutes)];
            let found = zero.into_iter().find(|(_, limit)| *limit == Some(0));
            return found.map_or(Ok(()), |(quantity, _)| {
                let alarm = Alarm { account: account.clone(), quantity, value: 0, limit: 0 };
                Err(Exceeded(alarm))
            });
        };
        let limit = self.limits.of(account);
        let values = [
            (Quantity::Calls, counter.calls.load(Relaxed), limit.calls),
            (Quantity::Minutes, counter.minutes.load(Relaxed), limit.minutes),
        ];
        for (index, (quantity, value, limit)) in values.into_iter().enumerate() {
            if let Some(limit) = limit.filter(|&limit| value >= limit) {
                let alarm = Alarm { account: account.clone(), quantity, value, limit };
                if !counter.alarms[index].swap(true, Relaxed) {
                    self.alarms.push(alarm.clone());
                }
                return Err(Exceeded(alarm));
            }
        }
        Ok(())
    }

    /// Gives the alarms of the minutes of an account.
    fn watch_minutes(&mut self, account: &Account, counter: &Counter) {
        let Some(limit) = self.limits.of(account).minutes else { return };
        let value = counter.minutes.load(Relaxed);
        let levels = [(1, u64::from(limit)), (2, u64::from(limit) * 4 / 5)];
        for (index, level) in levels {
            let is_reached = value > 0 && u64::from(value) >= level;
            if is_reached && !counter.alarms[index].swap(true, Relaxed) {
                let account = account.clone();
                self.alarms.push(Alarm { account, quantity: Quantity::Minutes, value, limit });
                // The lower level is no news then.
                counter.alarms[2].store(true, Relaxed);
            }
        }
    }
}

/// The error of a stored snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSnapshot {
    /// The first line that cannot be read, counted from 1.
    pub line: usize,
}

impl fmt::Display for BadSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} of the stored use is damaged; the minutes of that account count from zero",
            self.line
        )
    }
}

impl Error for BadSnapshot {}

/// The day of a time, counted from the Unix epoch in local time.
fn day(now: u64, offset: i32) -> u64 {
    now.saturating_add_signed(i64::from(offset)) / DAY
}

/// The time at which a day begins.
fn midnight(day: u64, offset: i32) -> u64 {
    (day * DAY).saturating_add_signed(-i64::from(offset))
}
