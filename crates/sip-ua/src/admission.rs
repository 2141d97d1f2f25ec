//! What is let in: who may place calls to us, for whom they are, and what is refused.

use crate::call::Call;
use crate::config::AccountId;
use crate::core::Core;
use crate::event::CallId;
use crate::replaces::Replaces;
use crate::server_transaction::ServerKey;
use alloc::collections::BTreeMap;
use sip::header::NameAddr;
use sip::{Flow, HeaderName, Message, Uri};

impl Core {
    /// Whether what comes on `flow` comes by one of our proxies, or may come directly.
    pub(crate) fn admits(&self, flow: &Flow) -> bool {
        let Self { config, proxies, .. } = self;
        let is_registered = config.accounts.iter().any(|account| account.registers);
        config.direct_calls || !is_registered || proxies.contains(&flow.remote.ip().to_canonical())
    }

    /// The account whose user the request URI names, or else To.
    pub(crate) fn account_of(&self, invite: &Message<'_>) -> Option<AccountId> {
        let head = invite.check().ok()?;
        let users = [head.uri, head.to_uri].map(|uri| uri.as_sip().and_then(|uri| uri.user));
        let accounts = self.config.accounts.iter().enumerate();
        let mut named = accounts.filter_map(|(number, account)| {
            let Ok(Uri::Sip(uri)) = Uri::parse(account.uri.as_bytes()) else { return None };
            users.contains(&Some(uri.user?)).then_some(AccountId(number))
        });
        named.next()
    }
}

/// Whether `invite`, of the transaction `key`, may ring here beside `calls`: the call whose place
/// it wants, if it wants one. `Err` with the status to refuse with.
pub(crate) fn admit(
    core: &Core,
    calls: &BTreeMap<CallId, Call>,
    invite: &Message<'_>,
    key: ServerKey,
) -> Result<Option<CallId>, u16> {
    if core.is_merged(invite, key) {
        return Err(482);
    }
    let replaces = replaced_by(calls, invite)?;
    // Who takes the place of a call is no call more.
    let mut others = calls.values().filter(|call| call.is_of_others());
    let is_full = match replaces {
        Some(_) => others.any(|call| call.replaces == replaces),
        None => others.count() >= core.config.incoming_calls,
    };
    if is_full { Err(486) } else { Ok(replaces) }
}

/// The call whose place `invite` wants, if it wants one (RFC 3891 section 3). `Err` with the
/// status to refuse with.
fn replaced_by(
    calls: &BTreeMap<CallId, Call>,
    invite: &Message<'_>,
) -> Result<Option<CallId>, u16> {
    let mut values = invite.elements(HeaderName::Replaces);
    let Some(value) = values.next() else { return Ok(None) };
    let replaces = Replaces::parse(value).filter(|_| values.next().is_none()).ok_or(400_u16)?;
    let mut calls = calls.iter();
    let (&id, call) = calls.find(|(_, call)| call.is_replaced_by(&replaces)).ok_or(481_u16)?;
    if replaces.early_only && call.is_established() {
        return Err(486);
    }
    Ok(Some(id))
}

/// Whether that can stand in a request of ours what `response` would have us write there.
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
