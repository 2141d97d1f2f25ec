//! Fuzz bodies: ordinary functions of some bytes that panic where the code under test breaks a
//! promise. The targets in `fuzz/` call them, and so do tests on stable, with corpora.

mod agent;
mod attack;
mod call;
mod engine;
mod framer;
mod media;
mod message;
mod websocket;

pub use agent::agent;
pub use attack::{Step, attack};
pub use call::{negotiation, session, stun};
pub use engine::engine;
pub use framer::framer;
pub use media::{rtcp, rtp, sdes, sdp, srtp};
pub use message::message;
pub use websocket::websocket;
