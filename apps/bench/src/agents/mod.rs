//! Several load machines and one controller.
//!
//! The controller starts this program on the other machines through `ssh`, as agents, and
//! communicates over their standard input and output ([`protocol`]). For a measurement, the agents
//! are further workers: each runs its share of the controller's load ([`Force`]), and their counts
//! are summed like those of workers. An agent ends at the end of its standard input, so that no
//! process remains on any machine after any end of a measurement.

mod agent;
mod controller;
mod error;
mod force;
mod install;
mod media;
mod pair;
mod place;
mod protocol;

pub(crate) use agent::serve;
pub(crate) use controller::Fleet;
pub(crate) use error::AgentError;
pub(crate) use force::Force;
pub(crate) use pair::Pair;
pub(crate) use place::{Place, Share};
