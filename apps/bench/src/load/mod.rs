//! The load generator.

pub(crate) mod arrivals;
pub(crate) mod engine;
mod gather;
pub(crate) mod generator;
pub(crate) mod links;
pub(crate) mod tally;
pub(crate) mod worker;

pub(crate) use gather::gather;
