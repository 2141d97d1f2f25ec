//! The admission of requests: allowed sources, the called account, and rejections.

use crate::calls::Calls;
use crate::config::AccountId;
use crate::core::Core;
use crate::event::CallId;
use crate::replaces::Replaces;
use crate::server_transaction::ServerKey;
use sip::header::NameAddr;
use sip::{Flow, HeaderName, Message};

impl Core {
    /// Returns true if a request on `flow` is admitted: it comes from a known proxy, or direct
    /// calls are allowed.
    pub(crate) fn admits(&self, flow: &Flow) -> bool {
        let Self { config, proxies, has_registrar, .. } = self;
        config.direct_calls || !has_registrar || proxies.contains(&flow.remote.ip().to_canonical())
    }

    /// Returns the account with the user of the request URI, or else of To.
    pub(crate) fn account_of(&self, invite: &Message<'_>) -> Option<AccountId> {
        let head = invite.validate_request().ok()?;
        let users = [head.uri, head.to_uri].map(|uri| uri.as_sip().and_then(|uri| uri.user));
        users.into_iter().flatten().filter_map(|user| self.account_with(user)).min()
    }
}

/// Returns the call that `invite`, of the transaction `key`, replaces, if any, if it may ring
/// beside `calls`. `Err` is the status of the rejection.
pub(crate) fn admit(
    core: &Core,
    calls: &Calls,
    invite: &Message<'_>,
    key: ServerKey,
) -> Result<Option<CallId>, u16> {
    if core.is_merged(invite, key) {
        return Err(482);
    }
    let replaces = replaced_by(core, calls, invite)?;
    // A call that replaces another one does not add to their number.
    let is_full = match replaces {
        Some(replaced) => calls.is_being_replaced(replaced),
        None => calls.incoming() >= core.config.incoming_calls,
    };
    if is_full { Err(486) } else { Ok(replaces) }
}

/// Returns the call that `invite` replaces, if any (RFC 3891 section 3). `Err` is the status of the
/// rejection.
fn replaced_by(core: &Core, calls: &Calls, invite: &Message<'_>) -> Result<Option<CallId>, u16> {
    // Both ends of the replaced call know it by the dialog with the back-to-back user agent, which
    // translates between them.
    if core.config.passes {
        return Ok(None);
    }
    let mut values = invite.elements(HeaderName::Replaces);
    let Some(value) = values.next() else { return Ok(None) };
    let replaces = Replaces::parse(value).ok().filter(|_| values.next().is_none());
    let replaces = replaces.ok_or(400_u16)?;
    let call = calls.of_tag(core, &replaces.call_id, &replaces.to_tag);
    let call = call.filter(|call| call.is_replaced_by(&replaces)).ok_or(481_u16)?;
    if replaces.early_only && call.is_established() {
        return Err(486);
    }
    Ok(Some(call.id))
}

/// Returns true if the values that a local request copies from `response` are valid.
pub(crate) fn is_sound(response: &Message<'_>) -> bool {
    let is_address = |name| {
        let address = response.value(name).map(|value| NameAddr::parse(name, value));
        matches!(address, Some(Ok(address)) if address.uri().is_ok())
    };
    let is_call_id = |id: &[u8]| !id.is_empty() && id.iter().all(u8::is_ascii_graphic);
    is_address(HeaderName::From)
        && is_address(HeaderName::To)
        && response.value(HeaderName::CallId).is_some_and(is_call_id)
}
