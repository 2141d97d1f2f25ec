//! The load generator.

pub(crate) mod arrivals;
pub(crate) mod engine;
pub(crate) mod generator;
pub(crate) mod links;
pub(crate) mod tally;
pub(crate) mod worker;
