//! The experiments of the source documents (docs/sources.md): their numbers, the commands that
//! make each figure anew, and our figures beside theirs.

pub(crate) mod bare;
pub(crate) mod generators;
pub(crate) mod ours;
pub(crate) mod part;
pub(crate) mod phones;
pub(crate) mod profile;
mod running;
mod runs;
pub(crate) mod softphone;
pub(crate) mod source;
mod sources_page;
pub(crate) mod srtp_steps;
mod twinkle;
