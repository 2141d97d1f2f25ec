//! On whose word a request goes on, and what may stand in it for that: who sent it, as far as that
//! is proved, and what it says of its sender itself.

use crate::authentication::{Asker, authenticate};
use crate::dialogs;
use crate::event::Env;
use crate::incoming::{Incoming, answer, refuse_for_now, reply};
use crate::lines::write_line;
use crate::location::AddressOfRecord;
use crate::proxy::{Grant, Identity, SenderFields};
use crate::server::Server;
use crate::settings::{DomainIndex, Trust};
use alloc::string::String;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::{HeaderName, Method, Status, Uri};

/// On whose word a request is forwarded.
pub(crate) enum Sponsor {
    /// One of our users, who proved to be this one.
    User(AddressOfRecord),
    /// A dialog that began here, in which this name of ours may stand in From. It is what the
    /// caller proved, or how the callee was called: who called him chose that.
    Dialog(Identity),
    /// Nobody: it is for one of our users, or nobody is asked.
    Nobody,
}

/// Who From says it is.
enum Claim {
    /// Somebody elsewhere.
    Foreign,
    /// This user of this domain of ours.
    User(AddressOfRecord, DomainIndex),
    /// Somebody here, in a form in which nobody can prove to be that.
    Unprovable,
}

/// A request, and what is known of it when it is asked on whose word it goes on.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'i, 'm> {
    pub(crate) incoming: &'i Incoming<'i, 'm>,
    /// Whether it is for a user of ours, or of a domain that this server is an edge of.
    pub(crate) is_for_us: bool,
    /// Whether it is to or from the registrar of such a domain, which is the one to judge it.
    pub(crate) is_by_edge: bool,
    /// What its token allows.
    pub(crate) grant: Option<Grant>,
    /// Whether it is the ACK or CANCEL of an INVITE that went on without a transaction.
    pub(crate) follows_invite: bool,
    /// Whether somebody who is trusted vouches for the name in From.
    pub(crate) is_vouched: bool,
}

impl Sponsor {
    /// The user who has proved to be that.
    pub(crate) const fn proved(&self) -> Option<&AddressOfRecord> {
        match self {
            Self::User(user) => Some(user),
            Self::Dialog(_) | Self::Nobody => None,
        }
    }

    /// The name of ours that may stand in From, also later in the dialog.
    pub(crate) fn identity(&self, env: &Env<'_>) -> Identity {
        match self {
            Self::User(user) => Identity::new(&env.keys.token, user.as_bytes()),
            Self::Dialog(identity) => *identity,
            Self::Nobody => Identity::NOBODY,
        }
    }

    /// What becomes of what the request says of its sender (RFC 3325): of strangers nothing is
    /// passed on, of users what they have proved takes its place. Who is trusted is believed.
    pub(crate) fn sender_fields(&self, incoming: &Incoming<'_, '_>, env: &Env<'_>) -> SenderFields {
        let Incoming { message, head, trust, .. } = incoming;
        if *trust == Trust::Trusted || !env.settings.config.authentication.required {
            return SenderFields::Kept;
        }
        if self.proved().is_none() {
            return SenderFields::Removed;
        }
        let named = [
            HeaderName::PAssertedIdentity,
            HeaderName::PPreferredIdentity,
            HeaderName::RemotePartyId,
        ];
        if !named.iter().any(|&name| message.has(name)) {
            return SenderFields::Kept;
        }
        let mut proved = Vec::new();
        match head.from_uri {
            Uri::Sip(uri) => {
                let domain = env.settings.domain_of(&uri.host).unwrap_or(DomainIndex::DEFAULT);
                proved.extend_from_slice(b"sip:");
                proved.extend_from_slice(uri.user.unwrap_or_default());
                proved.push(b'@');
                proved.extend_from_slice(env.settings.domain_name(domain).as_bytes());
                if uri.is_phone() {
                    // Without it, it would be another user.
                    proved.extend_from_slice(b";user=phone");
                }
            }
            _ => proved.extend_from_slice(head.from.uri_bytes),
        }
        SenderFields::Replaced(proved)
    }
}

fn claim<R: RawMutex>(server: &Server<R>, from: &Uri<'_>, env: &Env<'_>) -> Claim {
    let user_of = |user: &[u8], domain| {
        let name = env.settings.domain_name(domain);
        server.location.address_of_record(user, name)
    };
    match from {
        Uri::Sip(uri) => match env.settings.domain_of(&uri.host) {
            Some(domain) => match env.settings.user_of(uri, domain) {
                Some((user, domain)) => Claim::User(user_of(&user, domain), domain),
                None => Claim::Unprovable,
            },
            None => Claim::Foreign,
        },
        // A number may be anybody's, but not that of a user in whatever domain of ours: phones show
        // it without what it is local to.
        Uri::Tel(tel) => {
            let mut number = Vec::new();
            tel.write_canonical_number(&mut number);
            let default = DomainIndex::DEFAULT;
            let likely = env.settings.domain_of_number(tel, default).unwrap_or(default);
            let mut domains = core::iter::once(likely).chain(env.settings.domains());
            let user = domains.find_map(|domain| {
                let user = user_of(&number, domain);
                let is_there = server.location.look_up(&user, |found| found.is_some());
                is_there.then_some(Claim::User(user, domain))
            });
            user.unwrap_or(Claim::Foreign)
        }
        // Phones show im:alice@example.com like any other.
        Uri::Other { scheme, uri } => {
            let like_sip = [b"sip", &uri[scheme.len()..]].concat();
            match Uri::parse(&like_sip) {
                Ok(Uri::Sip(uri)) if env.settings.domain_of(&uri.host).is_some() => {
                    Claim::Unprovable
                }
                _ => Claim::Foreign,
            }
        }
    }
}

/// Whether one more request may pass within its dialog, and from its source.
fn is_within_rate<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    env: &Env<'_>,
) -> bool {
    let Incoming { head, account, trust, .. } = incoming;
    if *trust == Trust::Trusted {
        return true;
    }
    let limits = &env.settings.config.limits;
    let ends = matches!(head.method, Method::Bye | Method::Ack);
    let admitted = server.dialogs.admit(&dialogs::id_of(head), ends, env.now)
        && server.admission.admit_within_dialogs(*account, env.now, limits);
    if !admitted {
        env.counters.rate_limited.add();
    }
    admitted
}

/// On whose word the request goes on. `None` where it does not; then it has been answered.
pub(crate) fn find_sponsor<R: RawMutex>(
    server: &Server<R>,
    asked: &Asked<'_, '_>,
    env: &mut Env<'_>,
) -> Option<Sponsor> {
    let Asked { incoming, is_for_us, grant, follows_invite, is_vouched, .. } = *asked;
    let is_trusted = incoming.trust == Trust::Trusted;
    let is_asked = env.settings.config.authentication.required;
    let method = incoming.head.method;
    let claim = claim(server, &incoming.head.from_uri, env);
    if let Some(grant) = grant {
        let is_same = match &claim {
            Claim::Foreign => true,
            Claim::User(user, _) => {
                Identity::new(&env.keys.token, user.as_bytes()) == grant.identity
            }
            Claim::Unprovable => is_trusted,
        };
        // An ACK cannot be asked for credentials; its INVITE was.
        if !is_asked || is_same || method == Method::Ack {
            return is_within_rate(server, incoming, env)
                .then_some(Sponsor::Dialog(grant.identity));
        }
        // Another name than that of the dialog (RFC 4916) is to be proved.
    }
    if follows_invite || (!is_asked && (is_for_us || is_trusted)) {
        return Some(Sponsor::Nobody);
    }
    if is_vouched && let Claim::User(user, _) = &claim {
        return Some(Sponsor::Dialog(Identity::new(&env.keys.token, user.as_bytes())));
    }
    if is_asked && !matches!(method, Method::Ack | Method::Cancel) {
        match claim {
            Claim::User(claimed, _)
                if is_trusted && speaks_for(server, incoming, &claimed, env) =>
            {
                let identity = Identity::new(&env.keys.token, claimed.as_bytes());
                return may_pass_unproved(server, asked, env).then_some(Sponsor::Dialog(identity));
            }
            Claim::User(claimed, domain) => return prove(server, incoming, claimed, domain, env),
            Claim::Unprovable if !is_trusted => {
                refuse_name(incoming, "From Names Nobody Who Can Log In", env);
                return None;
            }
            Claim::Foreign | Claim::Unprovable => {}
        }
    }
    may_pass_unproved(server, asked, env).then_some(Sponsor::Nobody)
}

/// True where the sender of the request, which is trusted, may give the name of `user` without a
/// password: the configuration says so, or no such user is there to prove it. Many gateways write
/// the domain of the registrar behind the number of a caller from the telephone network.
fn speaks_for<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    user: &AddressOfRecord,
    env: &Env<'_>,
) -> bool {
    env.settings.speaks_for(&incoming.flow, user.name())
        || server.location.look_up(user, |found| found.is_none())
}

/// Has whoever sent the request prove to be the user who is `claimed`. `None` where that fails;
/// then it has been answered.
fn prove<R: RawMutex>(
    server: &Server<R>,
    incoming: &Incoming<'_, '_>,
    claimed: AddressOfRecord,
    domain: DomainIndex,
    env: &mut Env<'_>,
) -> Option<Sponsor> {
    let proved = authenticate(server, Asker::Proxy, domain, incoming, env)?;
    if proved == claimed {
        return Some(Sponsor::User(proved));
    }
    refuse_name(incoming, "From Is Not the Authenticated User", env);
    None
}

fn refuse_name(incoming: &Incoming<'_, '_>, reason: &str, env: &mut Env<'_>) {
    env.counters.identity_mismatches.add();
    answer(incoming, Status::FORBIDDEN.because(reason), env);
}

/// Whether a request that nobody stands for may go on: it is for us, and there are not too many
/// from where it comes from. False where it has been answered, if it can be.
fn may_pass_unproved<R: RawMutex>(
    server: &Server<R>,
    asked: &Asked<'_, '_>,
    env: &mut Env<'_>,
) -> bool {
    let Incoming { head, account, trust, .. } = asked.incoming;
    if !asked.is_for_us {
        env.counters.relay_denied.add();
        match head.method {
            Method::Ack => {}
            Method::Cancel => answer(asked.incoming, Status::CALL_DOES_NOT_EXIST, env),
            _ => answer(asked.incoming, Status::FORBIDDEN.because("Relaying Denied"), env),
        }
        return false;
    }
    let limits = &env.settings.config.limits;
    // Before it is known whether the user exists, so that the answer says nothing of that.
    let is_allowed = matches!(head.method, Method::Ack | Method::Cancel)
        || limits.foreign_methods.iter().any(|name| name.as_bytes() == head.method.as_bytes());
    if *trust != Trust::Trusted && !asked.is_by_edge && !is_allowed {
        env.counters.foreign_methods.add();
        let Incoming { message, flow, .. } = asked.incoming;
        reply(message, flow, Status::METHOD_NOT_ALLOWED, env, |out, env| {
            let methods = &env.settings.config.limits.foreign_methods;
            let allowed: Vec<&str> =
                methods.iter().map(String::as_str).chain(["ACK", "CANCEL"]).collect();
            write_line(out, b"Allow", allowed.join(", ").as_bytes());
        });
        return false;
    }
    let is_call = matches!(head.method, Method::Invite | Method::Ack | Method::Cancel);
    if *trust != Trust::Trusted
        && !server.admission.admit_foreign(*account, is_call, env.now, limits)
    {
        env.counters.foreign_limited.add();
        if head.method != Method::Ack {
            refuse_for_now(asked.incoming, Status::SERVICE_UNAVAILABLE, 10, env);
        }
        return false;
    }
    true
}
