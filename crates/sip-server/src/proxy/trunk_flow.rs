//! The requests of the user agents that register at trunks and probe them. Such a request comes on
//! an internal flow to `Endpoint::Trunk`, with the addresses of a server of the trunk, and goes to
//! that server and nowhere else, whatever its request URI names.

use super::decide::{Decision, RequestRoute};
use super::refusal::Refusal;
use super::route::Preprocessed;
use super::sender::Authorization;
use super::target::{Target, Targets};
use super::token::Identity;
use crate::core::event::Env;
use crate::core::flow::Flow;
use crate::core::incoming::Incoming;
use crate::core::next_hop::NextHop;
use sip::{Method, Status};

/// Decides on a request of the user agent of a trunk: a REGISTER or OPTIONS is forwarded.
pub(super) fn decide(
    incoming: &Incoming<'_, '_>,
    found: &Preprocessed<'_>,
    env: &Env<'_>,
) -> Decision {
    let Incoming { head, flow, .. } = incoming;
    if env.trunks().is_none() || !matches!(head.method, Method::Register | Method::Options) {
        return Decision::Refuse(Refusal::Status(Status::FORBIDDEN.into()).into());
    }
    let server = Flow { transport: flow.outer_transport(), connection: None, ..*flow };
    let mut targets = Targets::new();
    targets.push(Target::new(
        found.uri_bytes,
        NextHop::Flow(server),
        env.settings.scope_of(&server),
    ));
    Decision::Forward(RequestRoute {
        authorization: Authorization::Unproved,
        targets,
        answerer: Identity::NONE,
        routes: found.routes(),
        may_join: false,
        named: None,
        stages: None,
        beginning: None,
        #[cfg(feature = "office")]
        keeps_alerts: true,
        #[cfg(feature = "office")]
        refer_to: None,
    })
}
