//! coturn, as a STUN server.

use crate::folder::Folder;
use crate::process::{Process, Program};
use std::net::Ipv4Addr;
use std::process::Command;

const COTURN: Program = Program { name: "turnserver", packages: "coturn" };
/// Where it takes questions.
pub const PORT: u16 = 3478;

/// A running STUN server. It is killed when dropped.
#[derive(Debug)]
pub struct Stun {
    _process: Process,
    _folder: Folder,
}

impl Stun {
    /// Starts one at `addresses`, by the command that `run` makes of the program's name. It does
    /// not wait until it listens.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(run: impl Fn(&str) -> Command, addresses: &[Ipv4Addr]) -> Self {
        let folder = Folder::new("coturn");
        let mut command = run(COTURN.name);
        command.args(["-n", "--stun-only", "--no-auth", "--no-cli", "--no-tls", "--no-dtls"]);
        command.args(["--log-file", "stdout"]);
        for address in addresses {
            command.args(["-L", &address.to_string()]);
        }
        command.arg("--pidfile").arg(folder.join("coturn.pid"));
        command.arg("--userdb").arg(folder.join("coturn.db"));
        let process = Process::start(COTURN, command, &folder.join("coturn.log"));
        Self { _process: process, _folder: folder }
    }
}
