//! Scenario files: an interpreter of SIPp's XML.
//!
//! A file is read into a [`script`], and the calls of the [`engine`] go through its steps. The
//! subset of elements, attributes and keywords is in docs/benchmark.md; all others are refused with
//! their place in the file.

mod action;
mod air;
mod call;
mod chance;
mod counts;
pub(crate) mod crew;
mod default;
mod dialog;
mod digest;
mod engine;
mod expand;
mod fault;
mod fields;
mod links;
mod message;
mod names;
mod pattern;
mod perform;
mod recording;
#[cfg(test)]
mod rig;
mod run;
mod script;
mod shared;
mod table;
mod template;
mod value;
mod world;
mod xml;

pub(crate) use fault::ScenarioError;
pub(crate) use run::{Glance, Outcome, Plan};
pub(crate) use shared::Shared;
pub(crate) use table::cells;
pub(crate) use world::Settings;
