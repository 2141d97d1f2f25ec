//! Authentication of the sender of a request: digest authentication (RFC 3261 section 22, RFC 7616,
//! RFC 8760).

use crate::core::address_of_record::AddressOfRecord;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::{Incoming, answer, refuse_for_now, write_reply};
use crate::core::keys::Keys;
use crate::core::nonce::Nonce;
use crate::core::output::{Event, Notice};
use crate::core::settings::{DomainIndex, Settings, Trust};
use crate::core::shared::Shared;
use crate::core::source::Source;
use crate::core::timings::{Step, timed};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::sync::atomic::Ordering;
use lock_api::RawMutex;
use sip::digest::{Algorithm, Challenge, Credentials, QopOptions, response_matches};
use sip::message::RequestHead;
use sip::{HeaderName, Message, Status, StatusLine, Uri};
use smallvec::SmallVec;

/// Retry-After in seconds of requests of and for users that may not have been added yet.
pub(crate) const UNKNOWN_FOR: u64 = 10;

/// The role that asks for credentials. It determines the header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A user agent server: 401.
    Registrar,
    /// A proxy: 407.
    Proxy,
}

impl Asker {
    pub(crate) const fn status(self) -> Status {
        match self {
            Self::Registrar => Status::UNAUTHORIZED,
            Self::Proxy => Status::PROXY_AUTHENTICATION_REQUIRED,
        }
    }

    const fn credentials(self) -> HeaderName {
        match self {
            Self::Registrar => HeaderName::Authorization,
            Self::Proxy => HeaderName::ProxyAuthorization,
        }
    }

    const fn challenge(self) -> HeaderName {
        match self {
            Self::Registrar => HeaderName::WwwAuthenticate,
            Self::Proxy => HeaderName::ProxyAuthenticate,
        }
    }
}

/// The result of checking the credentials of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// The credentials of this user are correct.
    User(AddressOfRecord),
    /// There are no credentials for the realm.
    Absent,
    /// The nonce is used up or was not issued to this host. The response is not checked: otherwise
    /// a client could guess passwords without the risk of a ban.
    Stale,
    /// The credentials are for another request URI.
    Elsewhere,
    /// The credentials are for a user that may not have been added yet.
    Unknown,
    /// The credentials are wrong. Their sender has received a challenge of this server, so the
    /// source address is not forged.
    Wrong,
}

/// Authenticates the sender of a request. Returns `None` if that fails. In that case a response has
/// been sent.
pub(crate) fn authenticate<R: RawMutex>(
    shared: &Shared<R>,
    asker: Asker,
    domain: DomainIndex,
    incoming: &Incoming<'_, '_>,
    env: &mut Env<'_>,
) -> Option<AddressOfRecord> {
    let Incoming { head, flow, trust, account, returns, .. } = incoming;
    let limits = &env.settings.config.limits;
    let verdict = timed(env.stopwatch, Step::AuthenticateUser, || {
        judge(shared, asker, domain, incoming, env)
    });
    let stale = verdict == Verdict::Stale;
    match verdict {
        Verdict::User(user) => {
            env.counters.authenticated.add();
            // The nonce was received at that address.
            env.answered.note(account.source);
            if *trust == Trust::Stranger {
                shared.admission.refund(*account, env.now, limits);
                let burst = limits.user_rate.saturating_mul(4);
                if !shared.user_rates.take(&[user.as_bytes()], env.now, limits.user_rate, burst) {
                    env.counters.user_limited.add();
                    refuse_for_now(
                        incoming,
                        Status::SERVER_INTERNAL_ERROR.with_reason("Too Many Requests"),
                        5,
                        env,
                    );
                    return None;
                }
            }
            return Some(user);
        }
        Verdict::Absent => {}
        Verdict::Stale => env.counters.stale_nonces.add(),
        Verdict::Elsewhere => {
            env.counters.authentication_failures.add();
            answer(
                incoming,
                Status::BAD_REQUEST.with_reason("Digest URI Is Not the Request URI"),
                env,
            );
            return None;
        }
        Verdict::Unknown => {
            env.counters.unknown_for_now.add();
            refuse_for_now(incoming, Status::SERVICE_UNAVAILABLE, UNKNOWN_FOR, env);
            return None;
        }
        Verdict::Wrong => {
            env.counters.authentication_failures.add();
            let notice = Notice::login_failed(head.from.uri_bytes, *flow);
            env.out.events.push(Event::Notice(notice));
            if *trust == Trust::Stranger {
                note_failure(shared, account.source, env);
            }
            if let Some(pair) = returns {
                shared.known_sources.forget(*pair);
            }
        }
    }
    env.counters.challenges.add();
    challenge(shared, asker, domain, stale, incoming, env);
    None
}

/// Sends a challenge. The source of a datagram may be forged. If the full response
/// [would be too long](Env::is_amplified) for it, the response has a single challenge, or is a 400
/// without any: a request that is so short for its realm can be sent by TCP.
fn challenge<R: RawMutex>(
    shared: &Shared<R>,
    asker: Asker,
    domain: DomainIndex,
    stale: bool,
    incoming: &Incoming<'_, '_>,
    env: &mut Env<'_>,
) {
    let Incoming { message, flow, .. } = incoming;
    let status: StatusLine<'_> = asker.status().into();
    let name = env.settings.config.server_name.as_str();
    for (server_name, only_one) in [(name, false), ("", true)] {
        let range = write_reply(message, flow, status, server_name, env, |out, env| {
            write_challenges(shared, asker, domain, stale, only_one, incoming, env, out);
        });
        match range {
            Some(range) if env.is_amplified(message, flow, range.len()) => env.take_back(range),
            _ => return env.counters.traffic.reply(message, flow, status.status.code()),
        }
    }
    env.counters.unasked.add();
    answer(incoming, Status::BAD_REQUEST.with_reason("Too Short for a Challenge, Use TCP"), env);
}

/// Records a failure of a source with a proved address.
pub(crate) fn note_failure<R: RawMutex>(shared: &Shared<R>, source: Source, env: &mut Env<'_>) {
    let limits = &env.settings.config.limits;
    if shared.bans.note_failure(source, env.now, limits) {
        env.counters.bans.add();
        let notice = Notice::Banned {
            source,
            time: limits.ban_time,
            failures: limits.ban_failures,
            window: limits.ban_window,
        };
        env.out.events.push(Event::Notice(notice));
    }
}

/// Checks the credentials of the request for `domain`.
fn judge<R: RawMutex>(
    shared: &Shared<R>,
    asker: Asker,
    domain: DomainIndex,
    incoming: &Incoming<'_, '_>,
    env: &Env<'_>,
) -> Verdict {
    let config = &env.settings.config.authentication;
    let realm = env.settings.realm(domain);
    let mut verdict = Verdict::Absent;
    let mut judged = 0;
    for value in incoming.message.values(asker.credentials()) {
        let Ok(Some(credentials)) = Credentials::parse(value) else { continue };
        let is_ours = credentials.realm == realm.as_bytes();
        if !is_ours || !config.algorithms.contains(&credentials.algorithm) {
            continue;
        }
        judged += 1;
        if judged > config.algorithms.len() {
            // No client has more than one response to each challenge, and each check may hash the
            // body.
            break;
        }
        verdict = judge_one(shared, env.settings.domain_name(domain), &credentials, incoming, env);
        if matches!(verdict, Verdict::User(_)) {
            break;
        }
    }
    verdict
}

/// Checks `credentials`, which are for the realm of `domain` and use an offered algorithm.
fn judge_one<R: RawMutex>(
    shared: &Shared<R>,
    domain: &str,
    credentials: &Credentials<'_>,
    incoming: &Incoming<'_, '_>,
    env: &Env<'_>,
) -> Verdict {
    let Shared { location, nonces, .. } = shared;
    let Incoming { message: request, head, flow, .. } = incoming;
    let config = &env.settings.config.authentication;
    if credentials.qop.is_none() && credentials.nc.is_some() {
        // Without qop the hash does not cover nc, so a third party may have inserted it (RFC 7616
        // section 3.4).
        return Verdict::Stale;
    }
    if !is_of_request(credentials.uri, head, env.settings) {
        return Verdict::Elsewhere;
    }
    let lifetime = config.nonce_lifetime;
    let nonce = nonces.judge(credentials.nonce, flow.remote.ip(), env.now, lifetime);
    if nonce == Nonce::Foreign {
        return Verdict::Stale;
    }
    let login = timed(env.stopwatch, Step::FindUser, || {
        location.log_in(&credentials.username, domain, credentials.algorithm)
    });
    // For an absent user the same work is done with a secret that is not its own, so that the
    // timing does not reveal which users exist.
    let decoy = &env.keys.decoy[..credentials.algorithm.output_len()];
    let secret = login.secret.unwrap_or_else(|| SmallVec::from_slice(decoy));
    let expected = credentials.expected_response(&secret, head.method.as_bytes(), request.body());
    let is_right = response_matches(&expected, credentials.response.as_bytes());
    let proved = Some(login.user).filter(|_| is_right && login.exists);
    match (proved, nonce) {
        (Some(user), Nonce::Fresh(id)) => {
            let count = credentials.nc.map(sip::digest::NonceCount::value);
            let request = fingerprint(env.keys, request, flow);
            match nonces.use_count(id, count, request, env.now, lifetime, config.max_nonces) {
                true => Verdict::User(user),
                false => Verdict::Stale,
            }
        }
        (Some(_), _) => Verdict::Stale,
        (None, _) if !login.exists && shared.lacks_users.load(Ordering::Relaxed) => {
            Verdict::Unknown
        }
        (None, _) => Verdict::Wrong,
    }
}

/// True if credentials with `uri` are for this request (RFC 7616 section 3.4.6): they name the
/// request URI or, if its domain is local, any local domain.
fn is_of_request(uri: &[u8], head: &RequestHead<'_>, settings: &Settings) -> bool {
    if uri == head.uri_bytes {
        return true;
    }
    let (Ok(Uri::Sip(named)), asked) = (Uri::parse(uri), &head.uri) else { return false };
    let is_ours = |host| settings.domain_of(host).is_some();
    match asked {
        Uri::Sip(asked) => {
            named.is_equivalent(asked) || (is_ours(&named.host) && is_ours(&asked.host))
        }
        Uri::Tel(_) => is_ours(&named.host),
        Uri::Other { .. } => false,
    }
}

/// Appends a challenge for each algorithm, the preferred one first (RFC 8760 section 2.3). With
/// `only_one`, appends only that for MD5, which all phones support, if MD5 is among the algorithms.
#[expect(clippy::too_many_arguments, reason = "each is of another kind")]
fn write_challenges<R: RawMutex>(
    shared: &Shared<R>,
    asker: Asker,
    domain: DomainIndex,
    stale: bool,
    only_one: bool,
    incoming: &Incoming<'_, '_>,
    env: &Env<'_>,
    out: &mut Vec<u8>,
) {
    let config = &env.settings.config.authentication;
    let nonce = shared.nonces.issue(incoming.flow.remote.ip(), env.now);
    let agent = incoming.message.value(HeaderName::UserAgent).unwrap_or_default();
    let only_md5 = config.algorithms.contains(&Algorithm::Md5)
        && config.md5_only_agents.iter().any(|prefix| {
            agent
                .get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
        });
    let only_md5 = only_md5 || (only_one && config.algorithms.contains(&Algorithm::Md5));
    for &algorithm in &config.algorithms {
        if only_md5 && algorithm != Algorithm::Md5 {
            continue;
        }
        let challenge = Challenge {
            realm: env.settings.realm(domain).as_bytes(),
            nonce: &nonce,
            opaque: None,
            stale,
            algorithm,
            session: false,
            qop: QopOptions::AUTH,
            domain: None,
        };
        out.extend_from_slice(asker.challenge().as_str().as_bytes());
        out.extend_from_slice(b": ");
        challenge.write(out);
        out.extend_from_slice(b"\r\n");
        if only_one {
            break;
        }
    }
}

/// A hash of one request on one flow. A retransmission has the same fingerprint, a replay from
/// another source does not.
fn fingerprint(keys: &Keys, request: &Message<'_>, flow: &Flow) -> u64 {
    let connection = flow.connection.map_or(0, |connection| connection.0.get());
    let address = match flow.remote.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    // Each part has a fixed length, so the concatenation is unambiguous.
    let mut all: SmallVec<[u8; 40]> = SmallVec::new();
    all.extend_from_slice(&keys.message.hash_one(request.as_bytes()).to_be_bytes());
    all.push(flow.transport as u8);
    all.extend_from_slice(&connection.to_be_bytes());
    all.extend_from_slice(&address.octets());
    all.extend_from_slice(&flow.remote.port().to_be_bytes());
    keys.fingerprint.hash_one(&all)
}
