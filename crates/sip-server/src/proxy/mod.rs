//! The proxy (RFC 3261 section 16): the routing of requests, and the forwarding of requests and
//! responses.

mod budget;
mod calls;
mod context;
mod edge;
mod fork;
mod forward;
mod grant;
mod passed;
mod plan;
pub(crate) mod policy;
mod record_route;
mod registered;
mod route;
pub(crate) mod search;
pub(crate) mod stateless;
mod target;
mod token;
mod transactions;
pub(crate) mod via_branch;
mod way_back;

pub(crate) use budget::Lacking;
pub use budget::Payers;
pub(crate) use context::Context;
pub(crate) use forward::SenderFields;
pub(crate) use grant::{Grant, note_response};
pub(crate) use passed::Passed;
pub(crate) use plan::Plan;
pub(crate) use record_route::Names;
pub(crate) use registered::address_of;
pub(crate) use route::{Destination, Onward, Preprocessed, has_token, is_served, preprocess};
pub(crate) use target::{
    NextHop, NoRoute, Target, Targets, is_flow_bound, join_flows, keep_scheme,
};
pub(crate) use token::{Identity, TargetHash};
pub(crate) use transactions::Transactions;
pub(crate) use way_back::Heard;
