//! Calls by number: the numbers of the owner lead them to a user, or through trunks. A call that
//! comes from a trunk has no other way.

use super::authorization::Asked;
use super::refusal::Refusal;
use super::route::{Onward, Preprocessed};
use super::sender::{Authorization, Claim, claim};
use crate::core::address_of_record::uri_of;
use crate::core::event::Env;
use crate::core::next_hop::NextHop;
use crate::core::numbers::{Caller, Dialed, DialedRefusal, TrunkAttempt};
use crate::core::output::{Event, Notice};
use crate::core::settings::Trust;
use crate::core::shared::Shared;
use crate::core::trunks::TrunkId;
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use lock_api::RawMutex;
use sip::{Host, Method, Status, Uri};

/// The destination of a request after the numbers of the owner.
pub(super) struct Numbered<'m> {
    pub(super) onward: Onward<'m>,
    /// The trunks to call, in order of preference. Empty for another destination.
    pub(super) attempts: Vec<TrunkAttempt>,
    /// The URI of the user that the number belongs to.
    pub(super) named: Option<Box<[u8]>>,
}

/// Finds the destination of the request by the numbers of the owner.
///
/// # Errors
/// The numbers refuse the call, or a trunk calls something else than a number.
pub(super) fn resolve<'m, R: RawMutex>(
    shared: &Shared<R>,
    asked: &Asked<'_, '_>,
    onward: Onward<'m>,
    authorization: &Authorization,
    env: &mut Env<'_>,
) -> Result<Numbered<'m>, Refusal> {
    let is_of_trunk = matches!(authorization, Authorization::Trunk(_));
    let number = match &onward {
        // The second leg of a call goes to the user or trunk that was found for the first one.
        Onward::User { user, .. } if asked.grant.is_none() && asked.pass.is_none() => user,
        _ if is_of_trunk => return Err(refuse(asked, authorization, b"", &not_found(), env)),
        _ => return Ok(unchanged(onward)),
    };
    let Some(numbers) = env.numbers() else {
        return match is_of_trunk {
            true => Err(refuse(asked, authorization, b"", &not_found(), env)),
            false => Ok(unchanged(onward)),
        };
    };
    let Asked { incoming, .. } = asked;
    let claimed;
    let caller = match authorization {
        Authorization::Trunk(trunk) => Caller::Trunk(*trunk),
        Authorization::User(user) => Caller::User(user.as_bytes()),
        _ if incoming.trust == Trust::Trusted => {
            claimed = claim(shared, &incoming.head.from_uri, env);
            match &claimed {
                Claim::User(user, _) => Caller::User(user.as_bytes()),
                Claim::Foreign | Claim::Unprovable => Caller::Stranger,
            }
        }
        _ => Caller::Stranger,
    };
    let number = match incoming.head.to_uri {
        // The request URI is the contact of the registration at the trunk.
        Uri::Sip(to) if is_of_trunk && !is_number(number) => match to.user {
            Some(user) => sip::uri::unescape(user).into_owned(),
            None => number.to_vec(),
        },
        _ => number.to_vec(),
    };
    match numbers.route(&number, caller) {
        Dialed::Name if is_of_trunk => {
            Err(refuse(asked, authorization, &number, &not_found(), env))
        }
        Dialed::Name => Ok(unchanged(onward)),
        Dialed::User(name) => {
            let Some(onward) = user_of(&name, env) else {
                return Err(refuse(asked, authorization, &number, &not_found(), env));
            };
            Ok(Numbered { onward, attempts: Vec::new(), named: Some(uri_of(&name)) })
        }
        Dialed::Trunks(attempts) if incoming.head.method == Method::Invite => {
            Ok(Numbered { onward, attempts, named: None })
        }
        Dialed::Trunks(_) => Err(Refusal::Status(Status::NOT_FOUND.into())),
        Dialed::Refused(refusal) => Err(refuse(asked, authorization, &number, &refusal, env)),
    }
}

/// The destination of a request to `trunk`: its target now, and nothing else.
///
/// # Errors
/// The trunk has no target.
pub(super) fn onward_to<'m>(
    trunk: TrunkId,
    found: &Preprocessed<'m>,
    env: &Env<'_>,
) -> Result<Onward<'m>, Refusal> {
    let target = env.trunks().and_then(|trunks| trunks.target(trunk));
    let target = target.ok_or(Refusal::Status(NO_TARGET))?;
    Ok(Onward::Elsewhere {
        next_hop: NextHop::Flow(target.flow()),
        flow_bound: false,
        uri: found.uri_bytes,
        routes: found.routes(),
    })
}

/// The response to a call to a trunk without a target.
const NO_TARGET: sip::StatusLine<'static> =
    Status::SERVICE_UNAVAILABLE.with_reason("No Server of the Trunk Answers");

fn not_found() -> DialedRefusal {
    DialedRefusal { status: Status::NOT_FOUND.code(), words: "No Such Number".into() }
}

/// True if `user` may be a telephone number.
fn is_number(user: &[u8]) -> bool {
    let digits = user.strip_prefix(b"+").unwrap_or(user);
    !digits.is_empty() && digits.iter().all(|byte| byte.is_ascii_digit() || b"*#".contains(byte))
}

const fn unchanged(onward: Onward<'_>) -> Numbered<'_> {
    Numbered { onward, attempts: Vec::new(), named: None }
}

/// The user `name`, which is `name@domain`. `None` if that is no domain of this server.
fn user_of(name: &[u8], env: &Env<'_>) -> Option<Onward<'static>> {
    let at = name.iter().rposition(|byte| *byte == b'@')?;
    let domain = env.settings.domain_of(&Host::parse(&name[at + 1..]).ok()?)?;
    Some(Onward::User { user: Cow::Owned(name[..at].to_vec()), domain })
}

/// Logs and counts a refusal.
fn refuse(
    asked: &Asked<'_, '_>,
    authorization: &Authorization,
    number: &[u8],
    refusal: &DialedRefusal,
    env: &mut Env<'_>,
) -> Refusal {
    let Asked { incoming, .. } = asked;
    env.counters.numbers_refused.add();
    if incoming.head.method == Method::Invite {
        let from = incoming.head.from.uri_bytes;
        let notice = Notice::number_refused(from, number, &refusal.words, incoming.flow);
        env.out.events.push(Event::Notice(notice));
    }
    let is_inside = match authorization {
        Authorization::User(_) => true,
        Authorization::Trunk(_) => false,
        _ => incoming.trust == Trust::Trusted,
    };
    Refusal::Number { refusal: refusal.clone(), is_inside }
}
