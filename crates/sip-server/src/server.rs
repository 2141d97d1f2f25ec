//! The state that all threads share.

use crate::core::binding::Binding;
#[cfg(feature = "office")]
use crate::core::call_services::CallServices;
use crate::core::config::{Config, Network};
use crate::core::counters::Counters;
use crate::core::declined::Declined;
use crate::core::flow::{Connection, Flow};
use crate::core::joined_calls::JoinedCalls;
use crate::core::keys::{Key, Keys};
use crate::core::location::SHARDS;
use crate::core::logins::Logins;
use crate::core::numbers::Numbers;
use crate::core::output::Output;
use crate::core::push;
#[cfg(feature = "office")]
use crate::core::push::PushParams;
use crate::core::reach::Answered;
use crate::core::settings::Settings;
use crate::core::shared::Shared;
use crate::core::source::Source;
use crate::core::timings::{Step, Timing};
use crate::core::trunks::Trunks;
use crate::core::watching::WatchedCalls;
use crate::proxy::Tables;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use lock_api::{Mutex, RawMutex};
use relay::Calls;
use sip::stream::websocket::ClientField;
use sip::{Instant, Transport};

/// The state that all threads share: users, bindings, transactions, and the limits of strangers.
///
/// `R` is the type of lock. Every method may be called from any thread. No thread holds two locks
/// at once, except that of a user (`location`) and then that of a contact.
pub struct Server<R: RawMutex> {
    pub(crate) settings: Mutex<R, Arc<Settings>>,
    /// Incremented with each change of `settings`.
    pub(crate) generation: AtomicU64,
    /// Offset of the time of day from the time of timers, in microseconds.
    pub(crate) clock_offset: AtomicI64,
    pub(crate) keys: Keys,
    pub(crate) answered: Answered,
    pub(crate) declined: Declined,
    /// The counters of each worker.
    pub(crate) counters: Mutex<R, Vec<Arc<Counters>>>,
    /// The relay of media, if there is one.
    pub(crate) relay: Mutex<R, Option<Arc<dyn Calls>>>,
    /// The calls of the owner's B2BUA, if there is one.
    pub(crate) joined_calls: Mutex<R, Option<Arc<dyn JoinedCalls>>>,
    /// The numbers of the owner, if there are any.
    pub(crate) numbers: Mutex<R, Option<Arc<dyn Numbers>>>,
    /// The trunks of the owner, if there are any.
    pub(crate) trunks: Mutex<R, Option<Arc<dyn Trunks>>>,
    /// The calls of users, if the owner has them.
    pub(crate) watched_calls: Mutex<R, Option<Arc<dyn WatchedCalls>>>,
    pub(crate) shared: Shared<R>,
    pub(crate) proxy: Tables<R>,
}

/// A binding as [`Server::for_each_binding`] shows it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BindingView<'a> {
    /// `user@domain`, the user without escapes.
    pub address_of_record: &'a [u8],
    /// The contact URI.
    pub contact: &'a [u8],
    /// The flow that the REGISTER came on.
    pub flow: Flow,
    /// The expiry of the binding.
    pub expires: Instant,
    /// The q value in thousandths.
    pub q: u16,
    /// The start of the User-Agent of the REGISTER. Empty for none.
    pub agent: &'a [u8],
    /// True if requests follow `flow` and not the address in `contact`.
    pub flow_bound: bool,
}

/// A phone that sleeps, as [`Server::for_each_sleeping_of`] shows it.
#[cfg(feature = "office")]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SleepingPhone<'a> {
    /// `user@domain`, the user without escapes.
    pub user: &'a [u8],
    /// The contact URI.
    pub contact: &'a [u8],
    /// The expiry of the binding.
    pub expires: Instant,
    /// `pn-provider` of the contact.
    pub provider: &'a [u8],
    /// `pn-prid` of the contact.
    pub prid: &'a [u8],
    /// `pn-param` of the contact. Empty for none.
    pub param: &'a [u8],
}

impl<'a> BindingView<'a> {
    fn new(address_of_record: &'a [u8], binding: &'a Binding) -> Self {
        Self {
            address_of_record,
            contact: &binding.contact,
            flow: binding.flow,
            expires: binding.expires,
            q: binding.q,
            agent: binding.agent(),
            flow_bound: binding.flow_bound,
        }
    }
}

impl<R: RawMutex> Server<R> {
    /// The number of parts of the bindings, for [`Server::for_each_binding_of`].
    pub const PARTS: usize = SHARDS;

    /// Creates a server without users. `secret` must be random and kept over restarts. Otherwise
    /// later requests of established calls cannot be routed.
    #[must_use]
    pub fn new(config: Config, secret: &[u8; 32]) -> Self {
        let key = |purpose: &str| Key::derive(secret, purpose);
        Self {
            settings: Mutex::new(Arc::new(Settings::new(config))),
            generation: AtomicU64::new(0),
            clock_offset: AtomicI64::new(0),
            keys: Keys::new(secret),
            answered: Answered::new(key("answered")),
            declined: Declined::new(key("declined")),
            counters: Mutex::new(Vec::new()),
            relay: Mutex::new(None),
            joined_calls: Mutex::new(None),
            numbers: Mutex::new(None),
            trunks: Mutex::new(None),
            watched_calls: Mutex::new(None),
            shared: Shared::new(key),
            proxy: Tables::new(key),
        }
    }

    /// Sets the relay of media, for workers that are created afterwards. Its times count from the
    /// epoch of the owner's clock, as those of the workers.
    pub fn set_relay(&self, relay: Arc<dyn Calls>) {
        *self.relay.lock() = Some(relay);
    }

    /// Sets the calls of the owner's B2BUA, for workers that are created afterwards. An INVITE that
    /// replaces one of them (RFC 3891) goes to the B2BUA.
    pub fn set_joined_calls(&self, calls: Arc<dyn JoinedCalls>) {
        *self.joined_calls.lock() = Some(calls);
    }

    /// Sets the numbers of the owner, for workers that are created afterwards. The way of a call to
    /// a user part in our domains is theirs.
    pub fn set_numbers(&self, numbers: Arc<dyn Numbers>) {
        *self.numbers.lock() = Some(numbers);
    }

    /// Sets the trunks of the owner, for workers that are created afterwards.
    pub fn set_trunks(&self, trunks: Arc<dyn Trunks>) {
        *self.trunks.lock() = Some(trunks);
    }

    /// Sets the calls of users, for workers that are created afterwards. The owner has them from
    /// [`Event::Call`](crate::Event::Call).
    pub fn set_watched_calls(&self, calls: Arc<dyn WatchedCalls>) {
        *self.watched_calls.lock() = Some(calls);
    }

    /// True if a party at the host `origin` may have media sent to `place`, which it names: see
    /// [`limits.reachable`](crate::config::Limits::reachable).
    pub fn may_send_media(&self, origin: IpAddr, place: SocketAddr) -> bool {
        let settings = Arc::clone(&self.settings.lock());
        settings.may_reach(settings.scope(origin), Transport::Udp, place)
    }

    /// Sets a new configuration. Workers use it from their next event on.
    pub fn configure(&self, config: Config) {
        *self.settings.lock() = Arc::new(Settings::new(config));
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// Adds `address`, at which a message arrived, to the addresses of this server.
    pub(crate) fn learn_address(&self, address: IpAddr) {
        let mut settings = self.settings.lock();
        if settings.is_new(address) {
            *settings = Arc::new(settings.with_address(address));
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// Adds the user `name@domain`. `name` is without escapes, the domain as configured. An
    /// authentication name belongs to one user of the domain. For a user that may have registered
    /// already, use [`Server::change_user`].
    pub fn add_user(&self, address_of_record: &[u8], logins: impl Into<Logins>) {
        self.shared.location.add_user(address_of_record, logins.into(), &mut Output::default());
    }

    /// Adds the user `name@domain`, or changes the user's logins. A new password ends the user's
    /// bindings, which is appended to the journal of `out`.
    pub fn change_user(
        &self,
        address_of_record: &[u8],
        logins: impl Into<Logins>,
        out: &mut Output,
    ) {
        self.shared.location.add_user(address_of_record, logins.into(), out);
    }

    /// Sets the call services of the user `name@domain`. They stay until they are set again or the
    /// user is removed.
    #[cfg(feature = "office")]
    pub fn set_call_services(&self, address_of_record: &[u8], services: CallServices) {
        self.shared.services.set(address_of_record, services);
    }

    /// Removes a user with all bindings. Returns false if there is no such user.
    pub fn remove_user(&self, address_of_record: &[u8], out: &mut Output) -> bool {
        #[cfg(feature = "office")]
        self.shared.services.set(address_of_record, CallServices::default());
        self.shared.location.remove_user(address_of_record, out)
    }

    /// Ends the registration of the user `name@domain`, or its binding of the URI `contact` only.
    /// The removal is appended to the journal of `out`. Copies of the REGISTERs that may still
    /// arrive do not restore it. Returns the number of bindings that ended.
    #[cfg(feature = "office")]
    pub fn end_registration(
        &self,
        address_of_record: &[u8],
        contact: Option<&[u8]>,
        now: Instant,
        out: &mut Output,
    ) -> usize {
        let copies_until = now + self.settings.lock().config.timers.t1.times(64);
        self.shared.location.end_bindings(address_of_record, contact, copies_until, out)
    }

    /// Restores a stored binding record. [`Server::continue_after`] must be called as well: a
    /// record without bindings may have a higher sequence number, and need not be restored.
    pub fn restore(&self, record: &crate::core::journal_record::Record<'_>, now: Instant) {
        // The clock may have been set back since.
        let (latest, may_sleep) = {
            let config = &self.settings.lock().config;
            (now + config.registrar.max_expires, push::is_used(config))
        };
        self.shared.location.restore(record, now, latest, may_sleep);
        let user = self.shared.location.canonical(record.address_of_record);
        for binding in record.bindings().map_while(Result::ok) {
            let source = Source::of(binding.flow.remote.ip());
            self.shared.known_sources.note(source, &user, now);
            // A source with a binding on its flow accepts messages.
            if binding.flow_bound {
                self.answered.note(source);
            }
        }
    }

    /// True if `address` belongs to a proxy, which may name the client of its connections.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        Network::any_contains(&self.settings.lock().config.limits.proxies, address)
    }

    /// The header field in which proxies name their clients.
    pub fn proxy_header(&self) -> ClientField {
        self.settings.lock().config.limits.proxy_header
    }

    /// True if rates do not apply to the other end of `flow`.
    pub fn is_trusted(&self, flow: &Flow) -> bool {
        self.settings.lock().is_trusted(flow)
    }

    /// Records that a connection was opened. Must be called before anything is received on it:
    /// otherwise no phone can register on it.
    pub fn connection_opened(&self, connection: Connection) {
        self.shared.location.open_connection(connection);
    }

    /// Sets the offset in microseconds of the time of day (Date) from the time that timers run on.
    /// Initially 0.
    pub fn set_clock_offset(&self, micros: i64) {
        self.clock_offset.store(micros, Ordering::Relaxed);
    }

    /// Makes nonces that were issued before `start` stale. Must be called after a restart, because
    /// their used counts are lost.
    pub fn forget_nonces_before(&self, start: Instant) {
        self.shared.nonces.forget_before(start);
    }

    /// Tells if there may be users that the owner could not add yet, since their storage does not
    /// respond. Meanwhile requests of and for unknown users are refused with 503.
    pub fn set_lacks_users(&self, lacks: bool) {
        self.shared.lacks_users.store(lacks, Ordering::Relaxed);
    }

    /// Gives new records higher sequence numbers than `sequence`, the highest one in storage.
    pub fn continue_after(&self, sequence: u64) {
        self.shared.location.continue_after(sequence);
    }

    /// Rejects requests that would begin a new dialog or transaction with 503 from now on. The
    /// server can be stopped when [`Server::unanswered`] is zero.
    pub fn drain(&self) {
        self.shared.is_draining.store(true, Ordering::Relaxed);
    }

    /// Serves such requests again.
    pub fn resume(&self) {
        self.shared.is_draining.store(false, Ordering::Relaxed);
    }

    /// True after [`Server::drain`].
    pub fn is_draining(&self) -> bool {
        self.shared.is_draining.load(Ordering::Relaxed)
    }

    /// The number of transactions without a final response.
    pub fn unanswered(&self) -> usize {
        self.proxy.transactions.unanswered()
    }

    /// Calls `each` with every current binding.
    pub fn for_each_binding(&self, now: Instant, each: &mut dyn FnMut(BindingView<'_>)) {
        (0..Self::PARTS).for_each(|part| self.for_each_binding_of(part, now, each));
    }

    /// Calls `each` with every current binding of one of [`Server::PARTS`], for an owner that
    /// cannot process all at once. All bindings of a user are in one part.
    pub fn for_each_binding_of(
        &self,
        part: usize,
        now: Instant,
        each: &mut dyn FnMut(BindingView<'_>),
    ) {
        self.shared.location.for_each(part, now, &mut |address_of_record, binding| {
            each(BindingView::new(address_of_record, binding));
        });
    }

    /// Calls `each` with every current binding of the user `name@domain`.
    #[cfg(feature = "office")]
    pub fn for_each_binding_of_user(
        &self,
        address_of_record: &[u8],
        now: Instant,
        each: &mut dyn FnMut(BindingView<'_>),
    ) {
        let user = self.shared.location.canonical(address_of_record);
        self.shared.location.look_up(&user, |subscriber| {
            let bindings = subscriber.into_iter().flat_map(|subscriber| subscriber.current(now));
            bindings.for_each(|binding| each(BindingView::new(address_of_record, binding)));
        });
    }

    /// Calls `each` with every phone that sleeps of one of [`Server::PARTS`].
    #[cfg(feature = "office")]
    pub fn for_each_sleeping_of(
        &self,
        part: usize,
        now: Instant,
        each: &mut dyn FnMut(SleepingPhone<'_>),
    ) {
        self.shared.location.for_each(part, now, &mut |user, binding| {
            if !self.shared.location.is_asleep(binding, now) {
                return;
            }
            let (contact, expires) = (&binding.contact[..], binding.expires);
            if let Some(PushParams { provider, prid, param }) = PushParams::of_contact(contact) {
                each(SleepingPhone { user, contact, expires, provider, prid, param });
            }
        });
    }

    /// Calls `each` with every source that is banned at `now`, and the end of its ban.
    #[cfg(feature = "metrics")]
    pub fn for_each_ban(&self, now: Instant, each: &mut dyn FnMut(Source, Instant)) {
        self.shared.bans.for_each_banned(now, each);
    }

    /// Ends the ban of `source`. Returns true if it was banned.
    #[cfg(feature = "metrics")]
    pub fn lift_ban(&self, source: Source, now: Instant) -> bool {
        self.shared.bans.lift(source, now)
    }

    /// The number of users.
    pub fn users(&self) -> usize {
        self.shared.location.users()
    }

    /// The number of addresses-of-record with bindings.
    pub fn registered(&self) -> usize {
        self.shared.location.registered()
    }

    /// The number of bindings.
    pub fn bindings(&self) -> usize {
        self.shared.location.bindings()
    }

    /// The number of transactions in progress.
    pub fn transactions(&self) -> usize {
        self.proxy.transactions.len()
    }

    /// The memory of the transactions in progress, in bytes.
    pub fn transaction_bytes(&self) -> usize {
        self.proxy.transactions.bytes()
    }

    /// The durations of the steps of message handling, summed over all workers. Zero if no worker
    /// has a clock ([`Worker::set_clock`](crate::Worker::set_clock)) or [`Config::timings`] is off.
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

    /// Requests, responses and sessions, summed over all workers.
    #[cfg(feature = "metrics")]
    pub fn traffic(&self) -> crate::traffic::Summary {
        let all = self.counters.lock();
        crate::traffic::Summary::of(all.iter().map(|counters| &counters.traffic))
    }

    /// The counters with their names, summed over all workers.
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
