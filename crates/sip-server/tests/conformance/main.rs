//! Conformance to the RFCs: one message in, the resulting messages out.

mod corpora;
mod dialog;
mod digest;
mod document;
mod edge;
mod ended;
mod gate;
mod gruu;
mod inside;
mod limits;
mod outbound;
mod reach;
mod redirect;
mod registrar;
mod relay;
mod requests;
mod rfc4475;
mod rfc5118;
mod rig;
mod sips;
mod stateless;
mod strict_routing;
mod tel;
mod token;
mod torture;
mod transports;
