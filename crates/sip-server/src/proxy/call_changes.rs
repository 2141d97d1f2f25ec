//! The changes of calls that the owner is told, for the lamps of phones.

use super::via_branch::DialogFields;
use crate::core::config::{Mode, State};
use crate::core::event::Env;
use crate::core::incoming::Incoming;
use crate::core::output::Event;
use crate::core::settings::Settings;
use crate::core::ticket::Handle;
#[cfg(feature = "office")]
use crate::core::watching::RetargetedCall;
use crate::core::watching::{CallChange, Watch};
use alloc::boxed::Box;
#[cfg(feature = "office")]
use alloc::vec::Vec;
use sip::header::session_expires;
use sip::{Duration, HeaderName, Message, Method};

/// True if requests may go to the notifier, which is reached again by tokens in Record-Route.
pub(super) fn has_notifier(settings: &Settings) -> bool {
    let config = &settings.config;
    cfg!(feature = "office")
        && (config.mode, config.state) == (Mode::Proxy, State::Stateful)
        && config.record_route
}

/// True if the owner is told the changes of calls.
pub(super) fn sees_calls(settings: &Settings) -> bool {
    has_notifier(settings) && settings.config.watching.calls != Watch::Off
}

/// Tells the owner that a call begins with the transaction `handle`.
pub(super) fn begin(change: Option<Box<CallChange>>, handle: Handle, env: &mut Env<'_>) {
    if let Some(mut change) = change {
        if let CallChange::Begun { transaction, .. } | CallChange::Continued { transaction, .. } =
            &mut *change
        {
            *transaction = number_of(handle);
        }
        env.out.events.push(Event::Call(change));
    }
}

/// Tells the owner that the caller gets a response with this `status`, to the first INVITE of a
/// call. It is `answer`, unless this server generates it.
pub(super) fn respond(
    handle: Handle,
    status: u16,
    answer: Option<(&Message<'_>, &DialogFields<'_>)>,
    env: &mut Env<'_>,
) {
    if status <= 100 || !sees_calls(env.settings) {
        return;
    }
    env.out.events.push(Event::Call(Box::new(CallChange::Response {
        transaction: number_of(handle),
        status,
        callee_tag: answer.map_or(&b""[..], |(_, said)| said.to_tag).into(),
        interval: answer.and_then(|(message, _)| interval_of(message)),
    })));
}

/// Tells the owner of a request within a dialog that ends the call, or shows that it stands.
pub(super) fn note_request(incoming: &Incoming<'_, '_>, env: &mut Env<'_>) {
    let Incoming { message, head, .. } = incoming;
    let is_of_call = matches!(head.method, Method::Bye | Method::Invite | Method::Update);
    if !is_of_call || head.to.tag().is_none() || !sees_calls(env.settings) {
        return;
    }
    let call_id = head.call_id.into();
    let tags = [&head.from, &head.to].map(|end| end.tag().unwrap_or_default().into());
    env.out.events.push(Event::Call(Box::new(match head.method {
        Method::Bye => CallChange::Ended { call_id, tags },
        _ => CallChange::Refreshed { call_id, tags, interval: interval_of(message) },
    })));
}

fn interval_of(message: &Message<'_>) -> Option<Duration> {
    let value = message.value(HeaderName::SessionExpires)?;
    Some(session_expires(value).ok()?.interval)
}

/// Tells the owner that the call with the transaction `handle` is led to `users`, or the one with
/// this Call-ID of its caller, which the B2BUA continues.
#[cfg(feature = "office")]
pub(super) fn retarget(
    handle: Handle,
    caller: Option<&[u8]>,
    users: Vec<Box<str>>,
    env: &mut Env<'_>,
) {
    if sees_calls(env.settings) {
        let call = match caller {
            Some(call_id) => RetargetedCall::CallId(call_id.into()),
            None => RetargetedCall::Transaction(number_of(handle)),
        };
        env.out.events.push(Event::Call(Box::new(CallChange::Retargeted { call, users })));
    }
}

/// The transaction with this number.
#[cfg(feature = "office")]
pub(super) const fn handle_of(number: u128) -> Handle {
    Handle { shard: number as u8, slot: (number >> 8) as u32, id: (number >> 40) as u64 }
}

/// A number for the transaction `handle` that no other one has.
const fn number_of(handle: Handle) -> u128 {
    let Handle { shard, slot, id } = handle;
    (id as u128) << 40 | (slot as u128) << 8 | shard as u128
}
