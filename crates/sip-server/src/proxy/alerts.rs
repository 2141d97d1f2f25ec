//! Automatic answers within the house: the header fields with which a user may let the phone of
//! another one answer a call at once, and listen in the room.

use super::forward::ALERTS;
use super::sender::Authorization;
use crate::core::event::Env;
use crate::core::incoming::Incoming;
use crate::core::media_services::is_among;
use crate::core::shared::Shared;
use lock_api::RawMutex;
use sip::{Method, Uri};

/// True if a request to `called`, a user of this server, is forwarded with those fields: it is no
/// new call of a user, or the called user allows automatic answers.
pub(super) fn are_kept<R: RawMutex>(
    shared: &Shared<R>,
    incoming: &Incoming<'_, '_>,
    authorization: &Authorization,
    called: &Uri<'_>,
    env: &Env<'_>,
) -> bool {
    let Incoming { message, head, .. } = incoming;
    let is_call = head.method == Method::Invite && head.to.tag().is_none();
    let is_of_user = matches!(authorization, Authorization::User(_) | Authorization::Dialog(_));
    if !is_call || !is_of_user || !ALERTS.iter().any(|name| message.has(*name)) {
        return true;
    }
    let Uri::Sip(uri) = called else { return false };
    let allowed = &env.settings.config.auto_answer;
    shared.address_of(uri, env).is_some_and(|user| is_among(user.name(), allowed))
}
