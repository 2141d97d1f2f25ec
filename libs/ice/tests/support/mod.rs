//! The simulated network of the tests.

pub(crate) mod net;
pub(crate) mod turn;
