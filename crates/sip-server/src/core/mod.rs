//! The parts that the applications, registrar and proxy, share: users and bindings, authentication,
//! the limits of strangers, and the input and output of the engine.

pub(crate) mod address_of_record;
pub(crate) mod admission;
pub(crate) mod authentication;
pub(crate) mod bans;
pub(crate) mod binding;
pub(crate) mod call_record;
pub mod config;
pub mod counters;
pub(crate) mod declined;
pub(crate) mod ended;
pub(crate) mod event;
pub(crate) mod flow;
pub(crate) mod gruu;
pub(crate) mod incoming;
pub(crate) mod joined_calls;
pub mod journal_record;
pub(crate) mod keys;
pub(crate) mod known_sources;
pub(crate) mod lines;
pub(crate) mod location;
pub(crate) mod logins;
pub(crate) mod next_hop;
pub(crate) mod nonce;
pub(crate) mod output;
pub mod overload;
pub(crate) mod payers;
pub(crate) mod rates;
pub(crate) mod reach;
pub(crate) mod settings;
pub(crate) mod shared;
pub(crate) mod source;
pub(crate) mod ticket;
pub(crate) mod timer;
pub(crate) mod timings;
pub(crate) mod undo;
