//! The resources that a server has taken.

use crate::server::ServerProcess;
use std::fs;
use std::ops::Range;

/// The resources of a server.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    /// Open files and sockets.
    pub descriptors: usize,
    /// The open UDP ports of the relay.
    pub ports: usize,
    /// The resident memory in bytes.
    pub resident: u64,
}

impl Resources {
    /// The resources of `server`, whose relay has these `ports`.
    #[must_use]
    pub fn of(server: &ServerProcess, ports: &Range<u16>) -> Self {
        let process = server.process();
        let files = fs::read_dir(format!("/proc/{}/fd", process.id()));
        let open = process.udp_ports().into_iter().filter(|port| ports.contains(port));
        Self {
            descriptors: files.map_or(0, Iterator::count),
            ports: open.count(),
            resident: process.memory(),
        }
    }
}
