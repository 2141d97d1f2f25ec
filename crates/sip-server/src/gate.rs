//! The admission of requests from strangers. Requests of a source that is banned or over its rate
//! are dropped, except those with evidence that they belong to a legitimate client.

use crate::core::address_of_record::AddressOfRecord;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::known_sources::Pair;
use crate::core::shared::Shared;
use crate::core::source::{Account, Evidence};
use crate::proxy::has_token;
use crate::server::Server;
use lock_api::RawMutex;
use sip::digest::Credentials;
use sip::header::NameAddr;
use sip::{HeaderName, Message, Method, Uri};

/// The rate per second and the burst of a registered phone at a source that is shut out.
const PHONE_RATE: (u32, u32) = (10, 50);
/// The rate per second and the burst of attempts to log in as one user from a banned source, if
/// that user has logged in from the source before.
const RETURN_RATE: (u32, u32) = (1, 10);
/// The rate of datagrams that begin logins and calls of one user from a source where that user has
/// logged in before, as a multiple of [`source_rate`](crate::config::Limits::source_rate). The
/// response is a challenge, which is short.
const LOGIN_FACTOR: u32 = 10;
/// The maximum number of credentials examined in each of the two header fields.
const MOST_CREDENTIALS: usize = 4;

/// An admitted request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) account: Account,
    /// Set if the source is banned and the request may only log in as this user.
    pub(crate) returns: Option<Pair>,
}

/// The reason for dropping a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShutOut {
    Banned,
    TooMany,
}

/// Admits a request of a stranger, or returns the reason for dropping it. The search for evidence
/// costs less than the parsing of the message.
pub(crate) fn admit<R: RawMutex>(
    shared: &Shared<R>,
    message: &Message<'_>,
    flow: &Flow,
    env: &Env<'_>,
) -> Result<Admitted, ShutOut> {
    let limits = &env.settings.config.limits;
    let account = Account::of(flow);
    let admitted = |account| Admitted { account, returns: None };
    if shared.bans.is_banned(account.source, env.now) {
        let user = sender(shared, message, env).ok_or(ShutOut::Banned)?;
        if is_registered_on(shared, &user, flow, env) {
            return has_turn(shared, &user, flow, env)
                .then_some(admitted(account))
                .ok_or(ShutOut::Banned);
        }
        let returns = returning(shared, message, account, &user, env);
        return Ok(Admitted { account, returns: Some(returns.ok_or(ShutOut::Banned)?) });
    }
    if shared.admission.admit(account, env.now, limits) {
        return Ok(admitted(account));
    }
    if account.evidence == Evidence::Claim
        && let Some(evidence) = evidence_in(shared, message, flow, env)
        && shared.admission.admit(account.with(evidence), env.now, limits)
    {
        return Ok(admitted(account.with(evidence)));
    }
    let user = sender(shared, message, env).ok_or(ShutOut::TooMany)?;
    let is_let_in = is_registered_on(shared, &user, flow, env)
        && has_turn(shared, &user, flow, env)
        || begins_login(shared, message, account, &user, env);
    is_let_in.then_some(admitted(account)).ok_or(ShutOut::TooMany)
}

/// Returns the evidence in the datagram itself. Only an eavesdropper can copy it.
fn evidence_in<R: RawMutex>(
    shared: &Shared<R>,
    message: &Message<'_>,
    flow: &Flow,
    env: &Env<'_>,
) -> Option<Evidence> {
    let host = flow.remote.ip();
    let names = [HeaderName::Authorization, HeaderName::ProxyAuthorization];
    let mut values = names.iter().flat_map(|&name| message.values(name).take(MOST_CREDENTIALS));
    let has_nonce = values.any(|value| match Credentials::parse(value) {
        Ok(Some(credentials)) => shared.nonces.was_issued(credentials.nonce, host, env.now),
        Ok(None) | Err(_) => false,
    });
    if has_nonce {
        return Some(Evidence::Nonce);
    }
    has_token(message, env).then_some(Evidence::Dialog)
}

/// The local user that From of `request` names.
fn sender<R: RawMutex>(
    shared: &Shared<R>,
    request: &Message<'_>,
    env: &Env<'_>,
) -> Option<AddressOfRecord> {
    let from = request.value(HeaderName::From)?;
    let from = NameAddr::parse(HeaderName::From, from).ok()?;
    match from.uri() {
        Ok(Uri::Sip(uri)) => shared.address_of(&uri, env),
        _ => None,
    }
}

/// True if `user` is registered on this flow. Such a phone is served whatever other hosts behind
/// its NAT do, and whatever is forged in its name.
fn is_registered_on<R: RawMutex>(
    shared: &Shared<R>,
    user: &AddressOfRecord,
    flow: &Flow,
    env: &Env<'_>,
) -> bool {
    shared.location.look_up(user, |subscriber| {
        subscriber.is_some_and(|subscriber| {
            subscriber.current(env.now).any(|binding| binding.flow == *flow)
        })
    })
}

/// True if the registered phone of `user` on `flow` is within its rate.
fn has_turn<R: RawMutex>(
    shared: &Shared<R>,
    user: &AddressOfRecord,
    flow: &Flow,
    env: &Env<'_>,
) -> bool {
    let (rate, burst) = PHONE_RATE;
    let end = flow.remote.port().to_be_bytes();
    let parts = [user.as_bytes(), &end, &[flow.transport as u8]];
    shared.flow_rates.take(&parts, env.now, rate, burst)
}

/// True if the datagram `message` begins a login or a call of `user`, and `user` has logged in from
/// its source within the last day.
fn begins_login<R: RawMutex>(
    shared: &Shared<R>,
    message: &Message<'_>,
    account: Account,
    user: &AddressOfRecord,
    env: &Env<'_>,
) -> bool {
    let limits = &env.settings.config.limits;
    let Some(method @ (Method::Register | Method::Invite)) = message.method() else {
        return false;
    };
    let pair = shared.known_sources.pair(account.source, user);
    account.evidence == Evidence::Claim
        && shared.known_sources.has(pair, env.now)
        && shared.flow_rates.take(
            &[b"login", user.as_bytes(), &account.source.octets(), method.as_bytes()],
            env.now,
            limits.source_rate.saturating_mul(LOGIN_FACTOR),
            limits.source_burst.saturating_mul(LOGIN_FACTOR),
        )
}

/// The user that `message` from a banned source may log in as.
fn returning<R: RawMutex>(
    shared: &Shared<R>,
    message: &Message<'_>,
    account: Account,
    user: &AddressOfRecord,
    env: &Env<'_>,
) -> Option<Pair> {
    let pair = shared.known_sources.pair(account.source, user);
    let (rate, burst) = RETURN_RATE;
    let may = message.method() == Some(Method::Register)
        && shared.known_sources.has(pair, env.now)
        && shared.flow_rates.take(
            &[b"return", user.as_bytes(), &account.source.octets(), &[account.evidence as u8]],
            env.now,
            rate,
            burst,
        );
    may.then_some(pair)
}

impl<R: RawMutex> Server<R> {
    /// True if the TLS handshake of a connection on `flow` may proceed. It is charged like a
    /// request. A stranger that is banned or over its rate is refused. A banned source is allowed a
    /// few handshakes if a user has logged in from it within the last day.
    pub fn admits_handshake(&self, flow: &Flow, now: sip::Instant) -> bool {
        let settings = alloc::sync::Arc::clone(&self.settings.lock());
        let account = Account::of(flow);
        if settings.is_trusted(flow) {
            return true;
        }
        if self.shared.bans.is_banned(account.source, now) {
            let (rate, burst) = RETURN_RATE;
            let any_user = self.shared.known_sources.any_user(account.source);
            return self.shared.known_sources.has(any_user, now)
                && self.shared.flow_rates.take(
                    &[b"handshake", &account.source.octets()],
                    now,
                    rate,
                    burst,
                );
        }
        self.shared.admission.admit(account, now, &settings.config.limits)
    }
}
