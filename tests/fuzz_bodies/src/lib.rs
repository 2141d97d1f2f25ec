//! Fuzz bodies: functions of a byte slice that panic if the code under test violates an invariant.
//! They are called by the targets in `fuzz/`, and by tests on stable Rust with corpora.

mod agent;
mod attack;
mod b2bua;
mod browser;
mod call;
mod choices;
mod dtls;
mod engine;
mod frame;
mod framer;
mod media;
mod message;
mod ng;
mod transcode;
mod turn;
mod websocket;
mod zrtp;

pub use agent::agent;
pub use attack::{Step, attack};
pub use b2bua::b2bua;
pub use browser::{browser, ice};
pub use call::{negotiation, session, stun};
pub use dtls::dtls;
pub use engine::engine;
pub use frame::frame;
pub use framer::framer;
pub use media::{rtcp, rtp, sdes, sdp, srtp};
pub use message::message;
pub use ng::ng;
pub use transcode::transcode;
pub use turn::turn;
pub use websocket::websocket;
pub use zrtp::zrtp;
