//! Session descriptions that the relay refuses: their counters, and the response to a request.

use crate::core::event::Env;
use relay::RelayError;
use sip::Status;

/// The response to a request with media that cannot be relayed.
pub(super) fn refusal(error: &RelayError, env: &Env<'_>) -> Status {
    count_refusal(error, env);
    match is_limit(error) {
        true => Status::SERVICE_UNAVAILABLE,
        false => Status::NOT_ACCEPTABLE_HERE,
    }
}

/// Counts a session description that the relay refuses, and its reason.
pub(super) fn count_refusal(error: &RelayError, env: &Env<'_>) {
    let counters = env.counters;
    counters.relay_refused.add();
    match error {
        RelayError::OwnPort => counters.relay_own_ports.add(),
        _ if forbids(error) => counters.relay_keys.add(),
        _ if is_limit(error) => counters.relay_limited.add(),
        _ => {}
    }
}

/// True if a description must not reach the other end: its keys would end at the relay or are
/// missing, or its address is that of the relay.
pub(super) const fn forbids(error: &RelayError) -> bool {
    use RelayError::{Handshake, InClear, Keys, OwnPort};
    matches!(error, Keys(_) | InClear | Handshake | OwnPort)
}

/// True if the relay has reached a limit.
const fn is_limit(error: &RelayError) -> bool {
    use RelayError::{Bandwidth, NoPort, Share, TooManyCalls};
    matches!(error, NoPort | TooManyCalls | Share | Bandwidth)
}
