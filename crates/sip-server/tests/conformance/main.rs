//! What the RFCs ask of a server, and what this one does: message in, messages out.

mod corpora;
mod document;
mod registrar;
mod rfc4475;
mod rfc5118;
mod rig;
mod torture;
