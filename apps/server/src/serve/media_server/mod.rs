//! The media server of this program: the engine on a thread of its own with a tick of 20 ms, its
//! ports, and the storage of messages on another thread.

mod command;
mod index;
mod input;
mod shared;
mod sounds;
mod storage;
mod thread;

pub(super) use shared::{Prepared, SharedMediaServer};
pub(super) use thread::MediaServerThread;
