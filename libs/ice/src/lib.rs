//! Full ICE (RFC 8445) of one medium with RTP and RTCP on one port, without I/O.
//!
//! The checks are by the crate `is`, the client of TURN (RFC 8656) by `stun::turn`. An [`Agent`]
//! gathers host, server-reflexive and relayed candidates, describes them in lines of a
//! session description, checks them against those of the peer, and carries media over the nominated
//! pair. Candidates are not trickled: a description has all of them, after [`Event::Gathered`].
//!
//! The owner passes received datagrams, octets of the connections to TURN servers, and the time;
//! it sends each [`Output`].
#![forbid(unsafe_code)]

mod agent;
mod description;
mod error;
mod output;
mod random;
mod relay;
mod turn_server;

pub use agent::Agent;
pub use error::CandidateError;
pub use ice::Credentials;
pub use output::{Event, Output, Path};
pub use random::Random;
pub use stun::turn::Transport as TurnTransport;
pub use stun::turn::{Credentials as TurnCredentials, Error as RelayError};
pub use turn_server::TurnServer;
