//! The media server of this program, but for its thread: its queue, its sounds, and the storage of
//! messages on another thread.

mod command;
mod index;
mod input;
mod shared;
mod sounds;
mod storage;

pub(super) use index::Index;
pub(super) use input::{Counts, Input};
pub(super) use shared::{Prepared, SharedMediaServer};
pub(super) use storage::Storage;
