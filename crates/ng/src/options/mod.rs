//! The options of a request: flags, and keys that describe no dialog.

mod parse;
mod types;

pub use parse::Options;
pub use types::{
    AddressSource, Codecs, Dtls, Family, Ice, Names, Osrtp, Replace, RtcpAttribute, RtcpMux, Sdes,
    Tos, Transport,
};

#[cfg(test)]
mod tests;
