//! What all threads share.

use crate::admission::Admission;
use crate::bans::Bans;
use crate::config::{Config, Network};
use crate::counters::Counters;
use crate::dialogs::Dialogs;
use crate::flow::{Connection, Flow};
use crate::keys::Keys;
use crate::known_sources::KnownSources;
use crate::location::LocationService;
use crate::logins::Logins;
use crate::nonce::Nonces;
use crate::output::Output;
use crate::proxy::{Passed, Transactions};
use crate::rates::Rates;
use crate::reach::Answered;
use crate::settings::Settings;
use crate::source::Source;
use crate::timings::{Step, Timing};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use lock_api::{Mutex, RawMutex};
use sip::Instant;

/// What all threads share: users, bindings, transactions, and what is remembered of strangers.
///
/// `R` is the kind of lock. Every method may be called from any thread.
pub struct Server<R: RawMutex> {
    pub(crate) settings: Mutex<R, Arc<Settings>>,
    pub(crate) is_draining: AtomicBool,
    /// Grows with each change of `settings`.
    pub(crate) generation: AtomicU64,
    /// Microseconds from the time of timers to the time of day.
    pub(crate) clock_offset: AtomicI64,
    pub(crate) keys: Keys,
    pub(crate) location: LocationService<R>,
    pub(crate) nonces: Nonces<R>,
    pub(crate) admission: Admission<R>,
    pub(crate) bans: Bans<R>,
    pub(crate) known_sources: KnownSources,
    /// Requests of registered phones and of users who log in, from sources that are shut out.
    pub(crate) flow_rates: Rates,
    pub(crate) answered: Answered,
    /// Requests of users.
    pub(crate) user_rates: Rates,
    pub(crate) transactions: Transactions<R>,
    pub(crate) passed: Passed<R>,
    pub(crate) dialogs: Dialogs<R>,
    /// One for each worker.
    pub(crate) counters: Mutex<R, Vec<Arc<Counters>>>,
}

/// A binding as [`Server::for_each_binding`] shows it (row A5).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BindingView<'a> {
    /// `user@domain`, the user without escapes.
    pub address_of_record: &'a [u8],
    /// The contact URI.
    pub contact: &'a [u8],
    /// The flow that the REGISTER came on.
    pub flow: Flow,
    /// When the binding ends.
    pub expires: Instant,
    /// Preference in thousandths.
    pub q: u16,
}

impl<R: RawMutex> Server<R> {
    /// In how many parts the bindings are.
    pub const PARTS: usize = crate::location::SHARDS;

    /// A server without users. `secret` must be random and kept over restarts, or calls that are up
    /// lose their way.
    #[must_use]
    pub fn new(config: Config, secret: &[u8; 32]) -> Self {
        let key = |purpose| crate::keys::Key::derive(secret, purpose);
        Self {
            settings: Mutex::new(Arc::new(Settings::new(config))),
            is_draining: AtomicBool::new(false),
            generation: AtomicU64::new(0),
            clock_offset: AtomicI64::new(0),
            keys: Keys::new(secret),
            location: LocationService::new(key("subscribers"), key("contacts")),
            nonces: Nonces::new(key("nonce")),
            admission: Admission::new(&key("sources")),
            bans: Bans::new(key("bans")),
            known_sources: KnownSources::new(key("known-sources")),
            flow_rates: Rates::new(key("flow-rates")),
            answered: Answered::new(key("answered")),
            user_rates: Rates::new(key("user-rates")),
            transactions: Transactions::new(key("transactions"), key("budget")),
            passed: Passed::new(),
            dialogs: Dialogs::new(key("dialogs")),
            counters: Mutex::new(Vec::new()),
        }
    }

    /// Takes a new configuration. Workers use it from their next event on.
    pub fn configure(&self, config: Config) {
        *self.settings.lock() = Arc::new(Settings::new(config));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Takes `address`, to which a message came, for one of ours from now on.
    pub(crate) fn learn_address(&self, address: IpAddr) {
        let mut settings = self.settings.lock();
        if settings.is_new(address) {
            *settings = Arc::new(settings.with_address(address));
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Adds the user `name@domain`. `name` is without escapes, the domain as configured. An
    /// authentication name belongs to one user of the domain. For a user that may have registered
    /// already: [`Server::change_user`].
    pub fn add_user(&self, address_of_record: &[u8], logins: impl Into<Logins>) {
        self.location.add_user(address_of_record, logins.into(), &mut Output::default());
    }

    /// Adds the user `name@domain`, or changes the user's logins. Another password ends the
    /// user's bindings, which is appended to the journal of `out`.
    pub fn change_user(
        &self,
        address_of_record: &[u8],
        logins: impl Into<Logins>,
        out: &mut Output,
    ) {
        self.location.add_user(address_of_record, logins.into(), out);
    }

    /// Removes a user with all bindings. False where there was none.
    pub fn remove_user(&self, address_of_record: &[u8], out: &mut Output) -> bool {
        self.location.remove_user(address_of_record, out)
    }

    /// Takes in a binding record that was stored before. [`Server::continue_after`] is to be called
    /// as well: a record that holds no binding any more may have a higher sequence number, and need
    /// not be taken in.
    pub fn restore(&self, record: &crate::journal_record::Record<'_>, now: Instant) {
        // The clock may have been set back since.
        let latest = now + self.settings.lock().config.registrar.max_expires;
        self.location.restore(record, now, latest);
        let user = self.location.canonical(record.address_of_record);
        for binding in record.bindings().map_while(Result::ok) {
            let host = binding.flow.remote.ip();
            self.known_sources.note(Source::of(host), &user, now);
            // What was there before wants what is sent there.
            if binding.flow_bound {
                self.answered.note(host);
            }
        }
    }

    /// Whether `address` is that of a proxy, which may say for which client its connections are.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        Network::any_contains(&self.settings.lock().config.limits.proxies, address)
    }

    /// Whether rates do not apply to the other end of `flow`.
    pub fn is_trusted(&self, flow: &Flow) -> bool {
        self.settings.lock().is_trusted(flow)
    }

    /// A connection was opened. To be called before anything is received on it: without it, nobody
    /// is registered there.
    pub fn connection_opened(&self, connection: Connection) {
        self.location.open_connection(connection);
    }

    /// Sets how many microseconds the time of day (Date) is ahead of the time that timers run on. 0
    /// at first: both are the same.
    pub fn set_clock_offset(&self, micros: i64) {
        self.clock_offset.store(micros, Ordering::Relaxed);
    }

    /// Makes nonces that were issued before `start` stale. To be called when the server starts
    /// again, since it does not remember which of their counts were used.
    pub fn forget_nonces_before(&self, start: Instant) {
        self.nonces.forget_before(start);
    }

    /// Gives records written from now on higher sequence numbers than `sequence`, the highest that
    /// was stored before.
    pub fn continue_after(&self, sequence: u64) {
        self.location.continue_after(sequence);
    }

    /// From now on refuses requests that would begin something new with 503, so that the server can
    /// be stopped once [`Server::unanswered`] is zero.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// How many transactions still wait for their final response.
    pub fn unanswered(&self) -> usize {
        self.transactions.unanswered()
    }

    /// Shows every current binding to `each`.
    pub fn for_each_binding(&self, now: Instant, each: &mut dyn FnMut(BindingView<'_>)) {
        (0..Self::PARTS).for_each(|part| self.for_each_binding_of(part, now, each));
    }

    /// Shows every current binding of one of [`Server::PARTS`] to `each`, for an owner who has no
    /// time for all at once. A user's bindings stay in one part.
    pub fn for_each_binding_of(
        &self,
        part: usize,
        now: Instant,
        each: &mut dyn FnMut(BindingView<'_>),
    ) {
        self.location.for_each(part, now, &mut |address_of_record, binding| {
            each(BindingView {
                address_of_record,
                contact: &binding.contact,
                flow: binding.flow,
                expires: binding.expires,
                q: binding.q,
            });
        });
    }

    /// How many users there are.
    pub fn users(&self) -> usize {
        self.location.users()
    }

    /// How many addresses of record have bindings.
    pub fn registered(&self) -> usize {
        self.location.registered()
    }

    /// How many bindings there are.
    pub fn bindings(&self) -> usize {
        self.location.bindings()
    }

    /// How many transactions are in progress.
    pub fn transactions(&self) -> usize {
        self.transactions.len()
    }

    /// Bytes that transactions in progress take.
    pub fn transaction_bytes(&self) -> usize {
        self.transactions.bytes()
    }

    /// How long the steps of handling a message took, all workers together; zero where none was
    /// given a clock ([`Worker::set_clock`](crate::Worker::set_clock)) or [`Config::timings`] is
    /// off.
    pub fn timings(&self) -> [(Step, Timing); Step::ALL.len()] {
        let all = self.counters.lock();
        Step::ALL.map(|step| {
            let sum = all.iter().fold(Timing::default(), |sum, counters| {
                let one = counters.timings.get(step);
                Timing {
                    count: sum.count.wrapping_add(one.count),
                    nanoseconds: sum.nanoseconds.wrapping_add(one.nanoseconds),
                }
            });
            (step, sum)
        })
    }

    /// The sums of all workers' counters, with their names.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let all = self.counters.lock();
        let mut sums: Vec<(&'static str, u64)> = Counters::default().iter().collect();
        for counters in all.iter() {
            for (sum, (_, count)) in sums.iter_mut().zip(counters.iter()) {
                sum.1 = sum.1.wrapping_add(count);
            }
        }
        sums
    }
}
