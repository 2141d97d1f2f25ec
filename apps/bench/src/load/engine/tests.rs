//! The engine against a simulated server, with a clock that only the tests advance.

mod calls;
mod credentials;
mod operations;
mod requests;
mod rig;
mod timers;
