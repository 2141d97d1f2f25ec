//! The authorization of a request to be forwarded, and the sender fields that it allows: the
//! authenticated sender, and the assertions of the request about its sender.

#[cfg(feature = "office")]
use super::caller_names;
use super::dialogs;
use super::forward::SenderFields;
use super::grant::Grant;
use super::pass::{OnTrunk, Pass};
use super::refusal::Refusal;
use super::sender::{Authorization, Claim, claim};
use super::tables::Tables;
use super::token::Identity;
use crate::core::address_of_record::AddressOfRecord;
use crate::core::authentication::{Asker, authenticate};
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::Incoming;
use crate::core::output::{Event, Notice};
use crate::core::settings::{DomainIndex, Trust};
use crate::core::shared::Shared;
use crate::core::trunks::TrunkId;
use lock_api::RawMutex;
use sip::header::NameAddr;
use sip::{Endpoint, HeaderName, Message, Method, Status, Uri};

/// A request with the data for its authorization.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'i, 'm> {
    pub(crate) incoming: &'i Incoming<'i, 'm>,
    /// True if the request is for a local user, or for a domain that this server is an edge of.
    pub(crate) is_for_us: bool,
    /// True if the request is to or from the registrar of such a domain, which authenticates it.
    pub(crate) is_by_edge: bool,
    /// The authorization by its token.
    pub(crate) grant: Option<Grant>,
    /// The authorization by the pass of a call that comes from the B2BUA of the owner.
    pub(crate) pass: Option<Pass>,
    /// True if the request is the ACK or CANCEL of an INVITE that was forwarded without a
    /// transaction.
    pub(crate) follows_invite: bool,
    /// True if a trusted party vouches for the name in From.
    pub(crate) is_vouched: bool,
}

impl Authorization {
    /// The handling of the assertions about the sender (RFC 3325): those of strangers are removed,
    /// those of users are replaced by the authenticated name, and those of trusted parties are
    /// kept. The display name of a user is added if the request goes to a user, `is_in_house`.
    pub(crate) fn sender_fields(
        &self,
        incoming: &Incoming<'_, '_>,
        is_in_house: bool,
        env: &Env<'_>,
    ) -> SenderFields {
        let Incoming { message, head, trust, .. } = incoming;
        #[cfg(feature = "office")]
        if is_in_house
            && (head.method, head.to.tag()) == (Method::Invite, None)
            && let Some(asserted) = self.proved().and_then(|it| caller_names::asserted(it, env))
        {
            return SenderFields::Replaced(asserted);
        }
        #[cfg(not(feature = "office"))]
        let _ = is_in_house;
        let is_trusted = match self {
            Self::Trunk(trunk) => env.trunks().is_some_and(|trunks| trunks.is_trusted(*trunk)),
            _ => *trust == Trust::Trusted || !env.settings.config.authentication.required,
        };
        // The request to the B2BUA was without the assertions that the sender may not make.
        if is_trusted || incoming.flow.is_internal() {
            return SenderFields::Kept;
        }
        if self.proved().is_none() {
            return match self.refers(message, env) {
                true => SenderFields::OnlyReferrer,
                false => SenderFields::Removed,
            };
        }
        let named = [
            HeaderName::PAssertedIdentity,
            HeaderName::PPreferredIdentity,
            HeaderName::RemotePartyId,
        ];
        if !named.iter().any(|&name| message.has(name)) {
            return SenderFields::Kept;
        }
        let proved = match head.from_uri {
            Uri::Sip(uri) => {
                let domain = env.settings.domain_of(&uri.host).unwrap_or(DomainIndex::DEFAULT);
                let domain = env.settings.domain_name(domain).as_bytes();
                // Without this parameter it would be another user.
                let phone: &[u8] = if uri.is_phone() { b";user=phone" } else { b"" };
                [b"<sip:", uri.user.unwrap_or_default(), b"@", domain, phone, b">"].concat()
            }
            _ => [b"<", head.from.uri_bytes, b">"].concat(),
        };
        SenderFields::Replaced(proved)
    }

    /// True if Referred-By names the end of the dialog that has sent the request: a parked call
    /// returns to it.
    fn refers(&self, request: &Message<'_>, env: &Env<'_>) -> bool {
        let Self::Dialog(identity) = self else { return false };
        let value = request.value(HeaderName::ReferredBy).filter(|_| cfg!(feature = "office"));
        let address = value.and_then(|it| NameAddr::parse(HeaderName::ReferredBy, it).ok());
        let Some(Ok(Uri::Sip(uri))) = address.map(|address| address.uri()) else { return false };
        let domain = env.settings.domain_of(&uri.host);
        let user = domain.and_then(|domain| env.settings.user_of(&uri, domain));
        user.is_some_and(|(user, domain)| {
            let domain = env.settings.domain_name(domain);
            let name = [&user[..], b"@", domain.as_bytes()].concat();
            Identity::new(&env.keys.token, &name) == *identity
        })
    }
}

/// True if the rates of its dialog and of its source allow the request.
fn is_within_rate<R: RawMutex>(
    shared: &Shared<R>,
    tables: &Tables<R>,
    incoming: &Incoming<'_, '_>,
    env: &Env<'_>,
) -> bool {
    let Incoming { head, account, trust, .. } = incoming;
    if *trust == Trust::Trusted {
        return true;
    }
    let limits = &env.settings.config.limits;
    let admitted = tables.dialogs.admit(&dialogs::id_of(head), head.method, env.now)
        && shared.admission.admit_within_dialogs(*account, env.now, limits);
    if !admitted {
        env.counters.rate_limited.add();
    }
    admitted
}

/// Returns the authorization of the request, or the reason for rejecting it.
pub(crate) fn authorize<R: RawMutex>(
    shared: &Shared<R>,
    tables: &Tables<R>,
    asked: &Asked<'_, '_>,
    env: &mut Env<'_>,
) -> Result<Authorization, Refusal> {
    let Asked { incoming, is_for_us, grant, follows_invite, is_vouched, .. } = *asked;
    if cfg!(feature = "office") && incoming.flow.is_internal() {
        return authorize_internal(shared, asked, env);
    }
    let is_trusted = incoming.trust == Trust::Trusted;
    let is_asked = env.settings.config.authentication.required;
    let method = incoming.head.method;
    let claim = || claim(shared, &incoming.head.from_uri, env);
    let proves_anew =
        |grant: &Grant| is_asked && !is_trusted && proves_anew(method, grant.flow.as_ref());
    if let Some(grant) = grant.filter(|grant| !proves_anew(grant)) {
        let is_same = || match claim() {
            Claim::Foreign => true,
            Claim::User(user, _) => {
                Identity::new(&env.keys.token, user.as_bytes()) == grant.identity
            }
            Claim::Unprovable => is_trusted,
        };
        // An ACK cannot be challenged. Its INVITE was.
        if !is_asked || method == Method::Ack || is_same() {
            return match is_within_rate(shared, tables, incoming, env) {
                true => Ok(Authorization::Dialog(grant.identity)),
                false => Err(Refusal::Silent),
            };
        }
        // A name other than that of the dialog (RFC 4916) must be authenticated.
    }
    if let Some(trunk) = trunk_of(shared, incoming, env) {
        let limits = &env.settings.config.limits;
        if is_trusted || shared.admission.admit_foreign(incoming.account, true, env.now, limits) {
            return Ok(Authorization::Trunk(trunk));
        }
        env.counters.foreign_limited.add();
        return Err(Refusal::ForNow { seconds: 10 });
    }
    if follows_invite || (!is_asked && (is_for_us || is_trusted)) {
        return Ok(Authorization::Unproved);
    }
    if is_vouched && let Claim::User(user, _) = claim() {
        return Ok(Authorization::Dialog(Identity::new(&env.keys.token, user.as_bytes())));
    }
    if is_asked && !matches!(method, Method::Ack | Method::Cancel) {
        match claim() {
            Claim::User(claimed, _)
                if is_trusted && speaks_for(shared, incoming, &claimed, env) =>
            {
                let identity = Identity::new(&env.keys.token, claimed.as_bytes());
                check_unproved(shared, asked, env)?;
                return Ok(Authorization::Dialog(identity));
            }
            Claim::User(claimed, domain) => return prove(shared, incoming, claimed, domain, env),
            Claim::Unprovable if !is_trusted => {
                return Err(refuse_name("From Names Nobody Who Can Log In", env));
            }
            Claim::Foreign | Claim::Unprovable => {}
        }
    }
    check_unproved(shared, asked, env)?;
    Ok(Authorization::Unproved)
}

/// True if a request within a dialog is the refresh of a subscription at the notifier. Its token is
/// no proof of its user, which may have lost the password or the right since.
fn proves_anew(method: Method<'_>, to: Option<&Flow>) -> bool {
    cfg!(feature = "office")
        && method == Method::Subscribe
        && to.and_then(Flow::endpoint) == Some(Endpoint::Notifier)
}

/// Returns the authorization of a request of the owner's B2BUA: that of the caller whose request
/// it continues. Within a dialog the other leg of the call has been authorized.
fn authorize_internal<R: RawMutex>(
    shared: &Shared<R>,
    asked: &Asked<'_, '_>,
    env: &Env<'_>,
) -> Result<Authorization, Refusal> {
    let Asked { incoming, is_for_us, grant, pass, .. } = *asked;
    if let Some(grant) = grant {
        return Ok(Authorization::Dialog(grant.identity));
    }
    if incoming.head.to.tag().is_some() {
        return Err(Refusal::Status(Status::CALL_DOES_NOT_EXIST.into()));
    }
    let is_asked = env.settings.config.authentication.required;
    let name = match claim(shared, &incoming.head.from_uri, env) {
        Claim::User(user, _) => Identity::new(&env.keys.token, user.as_bytes()),
        Claim::Foreign | Claim::Unprovable => Identity::NONE,
    };
    // Message counts for the phones of a user without a subscription, and messages that were kept.
    let is_unasked = matches!(
        (incoming.head.method, incoming.flow.endpoint()),
        (Method::Notify, Some(Endpoint::Notifier)) | (Method::Message, Some(Endpoint::Keeper))
    );
    match pass {
        // The B2BUA writes the From that the trunk expects.
        Some(pass) if pass.to_trunk().is_some() => Ok(Authorization::Dialog(pass.identity)),
        // The first request was without the name of a user.
        Some(Pass { trunk: Some(OnTrunk::From(_)), .. }) if is_for_us => {
            Ok(Authorization::Unproved)
        }
        _ if is_unasked && is_for_us => Ok(Authorization::Unproved),
        Some(pass) if is_asked && pass.identity != name => {
            Err(refuse_name("From Is Not the Caller", env))
        }
        Some(pass) if pass.identity != Identity::NONE => Ok(Authorization::Dialog(pass.identity)),
        Some(_) if is_for_us || (!is_asked && incoming.trust == Trust::Trusted) => {
            Ok(Authorization::Unproved)
        }
        _ => {
            env.counters.relay_denied.add();
            Err(Refusal::Status(Status::FORBIDDEN.with_reason("Relaying Denied")))
        }
    }
}

/// The trunk that the new call `incoming` comes from. `None` if From has the name of a user, which
/// has to be proved, or a local name that cannot be.
fn trunk_of<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    env: &Env<'_>,
) -> Option<TrunkId> {
    let Incoming { head, flow, .. } = incoming;
    let Uri::Sip(uri) = head.uri else { return None };
    if head.method != Method::Invite || head.to.tag().is_some() {
        return None;
    }
    let user = sip::uri::unescape(uri.user.unwrap_or_default());
    let trunk = env.trunks()?.of_request(flow, &user)?;
    match claim(shared, &head.from_uri, env) {
        Claim::Foreign => Some(trunk),
        Claim::User(user, _) => {
            shared.location.look_up(&user, |found| found.is_none()).then_some(trunk)
        }
        Claim::Unprovable => None,
    }
}

/// True if the sender of the request, which is trusted, may give the name of `user` without a
/// password: it is configured, or there is no such user that could authenticate. Many gateways
/// append the domain of the registrar to the number of a caller from the telephone network.
fn speaks_for<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    user: &AddressOfRecord,
    env: &Env<'_>,
) -> bool {
    env.settings.speaks_for(&incoming.flow, user.name())
        || shared.location.look_up(user, |found| found.is_none())
}

/// Authenticates the sender of the request as the user `claimed`. If that fails, the sender is
/// challenged.
fn prove<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    claimed: AddressOfRecord,
    domain: DomainIndex,
    env: &mut Env<'_>,
) -> Result<Authorization, Refusal> {
    let proved = authenticate(shared, Asker::Proxy, domain, incoming, env);
    let proved = proved.ok_or(Refusal::Silent)?;
    match proved == claimed {
        true => Ok(Authorization::User(proved)),
        false => Err(refuse_name("From Is Not the Authenticated User", env)),
    }
}

fn refuse_name(reason: &'static str, env: &Env<'_>) -> Refusal {
    env.counters.identity_mismatches.add();
    Refusal::Status(Status::FORBIDDEN.with_reason(reason))
}

/// Checks if an unauthenticated request may be forwarded: it is for this server's users, and its
/// source is within its rate.
fn check_unproved<R: RawMutex>(
    shared: &Shared<R>,
    asked: &Asked<'_, '_>,
    env: &mut Env<'_>,
) -> Result<(), Refusal> {
    let Incoming { head, flow, account, trust, .. } = asked.incoming;
    if !asked.is_for_us {
        env.counters.relay_denied.add();
        return Err(Refusal::Status(match head.method {
            Method::Cancel => Status::CALL_DOES_NOT_EXIST.into(),
            Method::Register => {
                let served = env.settings.domain_name(DomainIndex::DEFAULT);
                let notice = Notice::unserved_domain(head.uri_bytes, *flow, served);
                env.out.events.push(Event::Notice(notice));
                Status::FORBIDDEN.with_reason("Domain Not Served")
            }
            _ => Status::FORBIDDEN.with_reason("Relaying Denied"),
        }));
    }
    if *trust == Trust::Trusted {
        return Ok(());
    }
    let limits = &env.settings.config.limits;
    // The check comes before the lookup of the user, so that the response does not reveal if the
    // user exists.
    let is_allowed = matches!(head.method, Method::Ack | Method::Cancel)
        || limits.foreign_methods.iter().any(|name| name.as_bytes() == head.method.as_bytes());
    if !asked.is_by_edge && !is_allowed {
        env.counters.foreign_methods.add();
        return Err(Refusal::ForeignMethod);
    }
    let is_call = matches!(head.method, Method::Invite | Method::Ack | Method::Cancel);
    if !shared.admission.admit_foreign(*account, is_call, env.now, limits) {
        env.counters.foreign_limited.add();
        return Err(Refusal::ForNow { seconds: 10 });
    }
    Ok(())
}
