//! The [`Desk`] of the running server.

use super::hub::Hub;
use super::local::{CarryOut, Engine, Local};
use crate::admin::desk::Desk;
use crate::admin::limited_use::LimitedUse;
use crate::admin::trunk::Trunk;
use crate::admin::{CallEnded, Condition, Drained, Registration, Status, StepTiming};
use crate::b2bua::B2buaSettings;
use crate::call_lines::Call;
use crate::domains::sip_uri;
use crate::log;
use crate::media_server::MediaServerSettings;
use crate::trace::Tracer;
use crate::trunks::TrunkSettings;
use crate::why::Refusals;
use notifier::Messages;
use numbers::Plan;
use parking_lot::Mutex;
use relay::{CallReport, Calls, Selection};
use sip::Instant;
use sip_server::config::{Config, Domain, Mode, State};
use sip_server::{BindingView, CallServices, Output, Timing, Watch};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::{self, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::postgres::{AccountsPlace, CopiedUsers};
use store::{Error, Replaced, Storage, User, UserServices};
use trunk::TrunkConfig;

/// The hub, the storage and the configuration.
pub(crate) struct Running {
    pub(super) hub: Arc<Hub>,
    storage: Arc<dyn Storage>,
    /// The database of accounts.
    accounts: Option<AccountsPlace>,
    /// The data directory.
    pub(super) data: PathBuf,
    /// The configuration file.
    config_file: Option<PathBuf>,
    config: Mutex<Config>,
    listens: Vec<String>,
    /// The number of users in domains that are not served, by domain.
    unserved: Mutex<BTreeMap<String, u64>>,
    /// The worker that ends calls.
    local: Mutex<Local>,
    /// The hash of the identifiers of calls.
    identifiers: RandomState,
}

impl Running {
    pub(crate) fn new(
        hub: Arc<Hub>,
        storage: Arc<dyn Storage>,
        accounts: Option<AccountsPlace>,
        data: PathBuf,
        config_file: Option<PathBuf>,
        config: Config,
        listens: Vec<String>,
    ) -> Self {
        let unserved = Mutex::default();
        let local = Mutex::new(Local::new(0, &hub.engine));
        let (config, identifiers) = (Mutex::new(config), RandomState::new());
        let running = Self {
            hub,
            storage,
            accounts,
            data,
            config_file,
            config,
            listens,
            unserved,
            local,
            identifiers,
        };
        running.note_unserved();
        running
    }

    /// Replaces the configuration.
    pub(crate) fn configure(&self, config: Config) {
        self.hub.engine.configure(config.clone());
        let watched = config.watching.calls;
        let before = std::mem::replace(&mut *self.config.lock(), config).watching.calls;
        if before != watched {
            let mut local = self.local.lock();
            let is_off = watched == Watch::Off;
            self.hub.notifier.change_rights(self.hub.clock.now(), is_off, &mut local);
            self.hub.carry_out(&mut local);
        }
        self.note_unserved();
    }

    /// Changes the limits of the B2BUA.
    pub(crate) fn limit_b2bua(&self, settings: B2buaSettings) {
        self.hub.b2bua.configure(settings);
    }

    /// Replaces the numbering plan and its limits of use, for the domains and services of `config`.
    pub(crate) fn configure_numbers(&self, plan: Option<Plan>, config: &Config) {
        if let Some(plan) = &plan {
            self.hub.b2bua.limit_use(plan.limits().clone());
        }
        self.hub.numbers.replace(plan, config);
    }

    /// Replaces the trunks by those of `settings`, with their configurations `configs`.
    pub(crate) fn configure_trunks(&self, settings: &[TrunkSettings], configs: Vec<TrunkConfig>) {
        let mut local = self.local.lock();
        self.hub.configure_trunks(&mut local, settings, configs);
    }

    /// Changes the settings of the media server.
    pub(crate) fn configure_media_server(&self, settings: &MediaServerSettings) {
        self.hub.media_server.iter().for_each(|server| server.configure(settings));
    }

    /// Changes the limits of subscriptions, and the internal flow of message counts to phones
    /// without one.
    pub(crate) fn configure_notifier(&self, config: notifier::Config) {
        self.hub.notifier.configure(config);
    }

    /// The number of users in domains that are not served, by domain.
    pub(crate) fn unserved(&self) -> BTreeMap<String, u64> {
        self.unserved.lock().clone()
    }

    /// Tells the engine if there may be users that could not be read yet.
    pub(super) fn set_lacks_users(&self, lacks: bool) {
        self.hub.engine.set_lacks_users(lacks);
    }

    /// Counts the users that cannot log in because their domain is not served.
    fn note_unserved(&self) {
        let domains = self.domains();
        let served: Vec<&str> = domains.iter().map(|domain| domain.name.as_str()).collect();
        match self.storage.domains(&served) {
            Ok(unserved) => *self.unserved.lock() = unserved,
            Err(error) => log::warn("storage", || error.to_string()),
        }
    }

    /// The identifier of a call for the operator.
    fn identifier(&self, call: &CallReport) -> String {
        let tags = (&call.caller_tag, &call.callee_tag);
        format!("{:08x}", self.identifiers.hash_one((&call.call_id, tags)) as u32)
    }

    /// The calls that stand, with their identifiers, the oldest first.
    fn standing(&self) -> Vec<Standing> {
        let own = self.hub.relay.iter().flat_map(|relay| relay.reports()).map(Path::Relay);
        let of_ng = self.hub.ng.iter().flat_map(|ng| ng.reports()).map(Path::Ng);
        let of_b2bua = self.not_relayed().into_iter().map(Path::B2bua);
        let paths = own.chain(of_ng).chain(of_b2bua);
        let mut calls: Vec<_> = paths
            .map(|path| match &path {
                Path::Relay(call) | Path::Ng(call) => {
                    Standing { id: self.identifier(call), created: call.created, path }
                }
                Path::B2bua(call) => Standing {
                    id: format!("{:08x}", self.identifiers.hash_one(call.call) as u32),
                    created: call.created.since_epoch(),
                    path,
                },
            })
            .collect();
        calls.sort_by_key(|standing| standing.created);
        calls
    }

    /// The calls of the B2BUA that are not relayed.
    fn not_relayed(&self) -> Vec<b2bua::CallReport> {
        let mut calls = self.hub.b2bua.reports();
        if let Some(relay) = &self.hub.relay {
            calls.retain(|call| relay.reports_of(&call.call_ids[1], Selection::All).is_empty());
        }
        calls
    }

    /// The number of calls that stand.
    fn count(&self) -> u64 {
        let relayed = self.hub.relay.as_ref().map_or(0, |relay| relay.count());
        let of_ng = self.hub.ng.as_ref().map_or(0, |ng| ng.count());
        (relayed + of_ng + self.not_relayed().len()) as u64
    }

    /// Ends the call `call` of the B2BUA.
    fn end_of_b2bua(&self, id: &str, call: &b2bua::CallReport) -> Option<CallEnded> {
        let now = self.hub.clock.now();
        let mut local = self.local.lock();
        let ended = self.hub.b2bua.hang_up(now, call.call, BY_OPERATOR, &mut local);
        self.hub.carry_out(&mut local);
        ended.ok()?;
        let ended = Call::of_b2bua(id.to_owned(), call, now);
        Some(CallEnded { id: ended.id, caller: ended.caller, callee: ended.callee })
    }

    /// Ends the relay of the call `id`, which `call` describes, if it is one of an NG client.
    fn end_of_ng(&self, id: &str, call: &CallReport) -> Option<CallEnded> {
        let now = self.hub.clock.now();
        let record = self.hub.ng.as_ref()?.end(call, now, BY_OPERATOR)?;
        let ended = Call::new(id.to_owned(), &record.report, now.since_epoch());
        self.hub.keep(record);
        Some(CallEnded { id: ended.id, caller: ended.caller, callee: ended.callee })
    }

    /// Ends the logins, the registrations and the subscriptions of a user.
    fn end_user(&self, name: &str, domain: &str) {
        let mut out = Output::default();
        self.hub.engine.remove_user(&address_of_record(name, domain), &mut out);
        let mut local = self.local.lock();
        let now = self.hub.clock.now();
        self.hub.notifier.remove_user(now, &format!("{name}@{domain}"), &mut local);
        self.hub.carry_out(&mut local);
        self.store_end(&sip_uri(name, domain), &out);
    }

    /// Reads the realms of the domains again.
    fn read_realms(&self) -> Result<(), Error> {
        let mut config = self.config.lock().clone();
        config.authentication.realms = self.storage.realms()?;
        self.configure(config);
        Ok(())
    }

    /// Stores the end of the bindings of the user `uri` in `out`.
    fn store_end(&self, uri: &str, out: &Output) {
        if self.hub.store(0, out).is_err() {
            log::warn("journal", || {
                format!("the end of {uri}'s registrations could not be stored")
            });
        }
    }
}

/// A call that stands.
struct Standing {
    /// Names it in commands.
    id: String,
    created: Duration,
    path: Path,
}

/// The part of the server that a call passes.
enum Path {
    /// The relay.
    Relay(CallReport),
    /// The relay, for an NG client.
    Ng(CallReport),
    /// The B2BUA, without the relay.
    B2bua(b2bua::CallReport),
}

/// The Reason of the end of a call by command.
const BY_OPERATOR: &str = "Q.850;cause=16;text=\"Ended by the operator\"";

/// `name@domain`, the address-of-record in the form that the engine uses.
pub(crate) fn address_of_record(name: &str, domain: &str) -> Vec<u8> {
    [name.as_bytes(), b"@", domain.as_bytes()].concat()
}

/// The row of `binding` at `now`.
pub(super) fn registration(binding: &BindingView<'_>, now: Instant) -> Registration {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Registration {
        address_of_record: text(binding.address_of_record),
        contact: text(binding.contact),
        flow: binding.flow.to_string(),
        expires_in: binding.expires.since(now).as_secs(),
        q: binding.q,
        user_agent: text(binding.agent),
    }
}

/// Adds a user to `engine`.
pub(crate) fn add_user(engine: &Engine, user: &User) {
    engine.add_user(&address_of_record(&user.name, &user.domain), user.logins.clone());
}

/// Sets the stored call services of all users in `engine`.
///
/// # Errors
/// [`Error`] if the storage fails.
pub(crate) fn load_services(engine: &Engine, storage: &dyn Storage) -> Result<(), Error> {
    storage.services(None, &mut |it| {
        engine.set_call_services(&address_of_record(&it.name, &it.domain), it.services);
    })
}

impl Desk for Running {
    fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    fn data(&self) -> &path::Path {
        &self.data
    }

    fn config_file(&self) -> Option<&path::Path> {
        self.config_file.as_deref()
    }

    fn copied_users(&self) -> Result<Option<CopiedUsers<'_>>, Error> {
        let Some(place) = &self.accounts else { return Ok(None) };
        Ok(Some(CopiedUsers { copy: &*self.storage, place, key: self.storage.secret()? }))
    }

    fn condition(&self) -> Result<Condition, Error> {
        let engine = &self.hub.engine;
        let config = self.config.lock();
        let mode = match config.mode {
            Mode::Proxy => "proxy",
            Mode::Redirect => "redirect",
            Mode::Registrar => "registrar",
        };
        let state = match config.state {
            State::Stateful => "stateful",
            State::Stateless => "stateless",
        };
        let status = Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: mode.to_owned(),
            state: state.to_owned(),
            authentication: config.authentication.required,
            listens: self.listens.clone(),
            domains: config.domains.iter().map(|domain| domain.name.clone()).collect(),
            users: engine.users() as u64,
            accounts: self.accounts()?,
            unserved: self.unserved(),
            registered: engine.registered() as u64,
            contacts: engine.bindings() as u64,
            transactions: engine.transactions() as u64,
            calls: self.count(),
            draining: engine.is_draining(),
            problems: self.problems(),
            certificate_until: self.hub.connections.certificate_until(),
            config: self.config_file.clone(),
            uptime: self.hub.clock.uptime().as_secs(),
            counters: self
                .hub
                .counters()
                .into_iter()
                .map(|counted| (counted.name.to_owned(), counted.count))
                .collect(),
            timings: engine
                .timings()
                .into_iter()
                .filter(|(_, timing)| timing.count > 0)
                .map(|(step, Timing { count, nanoseconds })| {
                    (step.name().to_owned(), StepTiming { count, nanoseconds })
                })
                .chain(self.hub.total.step())
                .collect(),
        };
        Ok(Condition::Running(Box::new(status)))
    }

    fn domains(&self) -> Vec<Domain> {
        self.config.lock().domains.clone()
    }

    fn registrations(&self, each: &mut dyn FnMut(Registration) -> bool) -> Result<(), Error> {
        let now = self.hub.clock.now();
        // The rows are copied before they are output, so that a slow reader delays no worker.
        let mut rows = Vec::new();
        self.hub
            .engine
            .for_each_binding(now, &mut |binding| rows.push(registration(&binding, now)));
        rows.sort_by(|one, other| {
            (&one.address_of_record, &one.contact).cmp(&(&other.address_of_record, &other.contact))
        });
        for row in rows {
            if !each(row) {
                break;
            }
        }
        Ok(())
    }

    fn end_registration(
        &self,
        name: &str,
        domain: &str,
        contact: Option<&str>,
    ) -> Result<Vec<Registration>, String> {
        let (now, address) = (self.hub.clock.now(), address_of_record(name, domain));
        let uri = sip_uri(name, domain);
        let mut ended = Vec::new();
        self.hub.engine.for_each_binding_of_user(&address, now, &mut |binding| {
            if contact.is_none_or(|contact| binding.contact == contact.as_bytes()) {
                ended.push(registration(&binding, now));
            }
        });
        if ended.is_empty() {
            let at = contact.map(|contact| format!(" with the contact {contact}"));
            let at = at.unwrap_or_default();
            return Err(format!("{uri} has no registration{at}: see `barebell registrations`"));
        }
        let mut out = Output::default();
        let contact = contact.map(str::as_bytes);
        let count = self.hub.engine.end_registration(&address, contact, now, &mut out);
        self.store_end(&uri, &out);
        log::info("registrations", || format!("the operator ended {count} bindings of {uri}"));
        Ok(ended)
    }

    fn calls(&self) -> Vec<Call> {
        let now = self.hub.clock.now();
        let standing = self.standing().into_iter();
        standing
            .map(|Standing { id, path, .. }| match path {
                Path::Relay(call) | Path::Ng(call) => Call::new(id, &call, now.since_epoch()),
                Path::B2bua(call) => Call::of_b2bua(id, &call, now),
            })
            .collect()
    }

    fn limits(&self) -> Vec<LimitedUse> {
        let uses = self.hub.b2bua.uses(self.hub.clock.now());
        uses.into_iter().map(LimitedUse::from).collect()
    }

    fn trunks(&self) -> Vec<Trunk> {
        let now = self.hub.clock.now();
        self.hub.trunks.reports(now).iter().map(|report| Trunk::new(report, now)).collect()
    }

    fn end_call(&self, id: &str) -> Result<CallEnded, String> {
        let mut found = self.standing().into_iter().filter(|it| it.id == id);
        let (call, other) = (found.next(), found.next());
        let Some(Standing { path, .. }) = call else {
            return Err(format!("there is no call {id}: see `barebell calls`"));
        };
        if other.is_some() {
            return Err(format!("{id} names several calls"));
        }
        let has_ended = || format!("the call {id} has ended");
        let call = match path {
            Path::Relay(call) => call,
            Path::Ng(call) => return self.end_of_ng(id, &call).ok_or_else(has_ended),
            Path::B2bua(call) => return self.end_of_b2bua(id, &call).ok_or_else(has_ended),
        };
        let Some(relay) = &self.hub.relay else { return Err(has_ended()) };
        if call.attachment.is_none() {
            return Err(format!(
                "the call {id} cannot be ended: it is not answered, or the server is stateless"
            ));
        }
        let now = self.hub.clock.now();
        let tags = [&*call.caller_tag, &*call.callee_tag];
        let Some(call) = relay.end_dialog(&call.call_id, tags, now.since_epoch()) else {
            return Err(has_ended());
        };
        let mut local = self.local.lock();
        let Local { worker, out, .. } = &mut *local;
        worker.hang_up(now, &call, BY_OPERATOR, out);
        self.hub.carry_out(&mut local);
        let ended = Call::new(id.to_owned(), &call, now.since_epoch());
        Ok(CallEnded { id: ended.id, caller: ended.caller, callee: ended.callee })
    }

    fn messages(&self, user: &str, counts: Option<Messages>) -> Result<Messages, String> {
        let Some(counts) = counts else {
            return Ok(self.hub.notifier.messages(user));
        };
        let mut local = self.local.lock();
        self.hub.notifier.set_messages(self.hub.clock.now(), user, counts, &mut local);
        self.hub.carry_out(&mut local);
        Ok(counts)
    }

    fn tracer(&self) -> Result<&Tracer, String> {
        Ok(&self.hub.trace)
    }

    fn refusals(&self) -> Result<&Refusals, String> {
        Ok(&self.hub.refusals)
    }

    fn call_id(&self, id: &str) -> String {
        let call = self.standing().into_iter().find(|call| call.id == id);
        let call_id = call.map(|it| match it.path {
            Path::Relay(call) | Path::Ng(call) => call.call_id.into(),
            Path::B2bua(call) => call.call_ids[0].clone(),
        });
        call_id.map_or_else(|| id.to_owned(), |it| String::from_utf8_lossy(&it).into_owned())
    }

    fn drain(&self, drains: bool) -> Result<Drained, String> {
        let engine = &self.hub.engine;
        match drains {
            true => engine.drain(),
            false => engine.resume(),
        }
        log::info("drain", || match drains {
            true => "draining: new calls are refused, those that stand go on".to_owned(),
            false => "new calls are accepted again".to_owned(),
        });
        let calls = self.count();
        Ok(Drained { draining: drains, calls, transactions: engine.transactions() as u64 })
    }

    fn users_added(&self, users: &[User]) {
        for user in users {
            let mut out = Output::default();
            let address = address_of_record(&user.name, &user.domain);
            self.hub.engine.change_user(&address, user.logins.clone(), &mut out);
            if !out.journal.is_empty() {
                self.store_end(&sip_uri(&user.name, &user.domain), &out);
            }
        }
        self.note_unserved();
    }

    fn users_moved(&self, from: &str, to: &str) -> Result<(), Error> {
        self.read_realms()?;
        let mut moved = Vec::new();
        self.storage.users(Some(to), &mut |user| {
            moved.push(user);
            true
        })?;
        for user in &moved {
            self.user_removed(&user.name, from);
        }
        self.users_added(&moved);
        // The targets of other users have moved, too.
        load_services(&self.hub.engine, &*self.storage)
    }

    fn services_changed(&self, name: &str, domain: &str, services: CallServices) {
        self.hub.engine.set_call_services(&address_of_record(name, domain), services);
    }

    fn user_removed(&self, name: &str, domain: &str) {
        self.end_user(name, domain);
        self.note_unserved();
    }

    fn restored(&self, replaced: &Replaced, has_users: bool) -> Result<(), Error> {
        if has_users {
            self.read_realms()?;
        }
        replaced.removed_users.iter().for_each(|(name, domain)| self.end_user(name, domain));
        self.users_added(&replaced.put_users);
        for UserServices { name, domain, services } in &replaced.put_services {
            self.services_changed(name, domain, services.clone());
        }
        Ok(())
    }
}
