//! coturn as a STUN server.

use crate::folder::Folder;
use crate::process::{Process, Program};
use std::net::Ipv4Addr;
use std::process::Command;

const COTURN: Program = Program { name: "turnserver", packages: "coturn" };
/// The port of the STUN server.
pub const PORT: u16 = 3478;

/// A running STUN server. It is killed on drop.
#[derive(Debug)]
pub struct Stun {
    _process: Process,
    _folder: Folder,
}

impl Stun {
    /// Starts the server at `addresses`, with the command that `run` returns for the program's
    /// name. Does not wait until it listens.
    ///
    /// # Panics
    /// The server cannot be started.
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
