//! Drivers of the real programs that the tests start.

pub mod sipp;
