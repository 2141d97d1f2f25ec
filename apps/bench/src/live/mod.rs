//! The live page of a command: its course in a browser while it runs, and its report when it ends.

mod board;
mod server;

pub(crate) use board::Board;
pub(crate) use server::LiveServer;
