//! The engine against a server that is played here, by a clock that only the tests move.

mod calls;
mod credentials;
mod operations;
mod requests;
mod rig;
mod timers;
