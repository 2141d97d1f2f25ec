//! coturn as a TURN server, with credentials made by `barebell turn`.

use crate::folder::Folder;
use crate::nat::Nats;
use crate::process::{Process, Program, built, run, wait_until};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const COTURN: Program = Program { name: "turnserver", packages: "coturn" };
const BAREBELL: Program = Program { name: "barebell", packages: "(none: build it)" };
/// The port of the TURN server. The STUN server on the same machine has 3478 and, as its
/// alternative port (RFC 5780), 3479: coturn shares a port with another coturn without an error.
const PORT: u16 = 3490;
/// The port of the TURN server for TLS.
const SECURE_PORT: u16 = 5349;
const SECRET: &str = "a secret of barebell and coturn";

/// A running TURN server. It is killed on drop.
#[derive(Debug)]
pub struct Turn {
    _process: Process,
    folder: Folder,
    address: SocketAddr,
}

impl Turn {
    /// Starts the server on the public machine of `nats`, and waits until it listens.
    ///
    /// # Panics
    /// The server cannot be started.
    #[must_use]
    pub fn start(nats: &Nats) -> Self {
        let folder = Folder::new("turn");
        let address = SocketAddr::new(nats.address().ip(), PORT);
        let mut command = nats.public_command(COTURN.name);
        command.args(["-n", "--no-cli", "--no-dtls", "--log-file", "stdout"]);
        let name = vec![address.ip().to_string()];
        let made = rcgen::generate_simple_self_signed(name).expect("a certificate is made");
        folder.write("turn.pem", &made.cert.pem());
        folder.write("turn.key", &made.signing_key.serialize_pem());
        command.arg("--cert").arg(folder.join("turn.pem"));
        command.arg("--pkey").arg(folder.join("turn.key"));
        command.args(["--tls-listening-port", &SECURE_PORT.to_string()]);
        command.args(["--use-auth-secret", "--static-auth-secret", SECRET]);
        // coturn ends a session whose datagram has no route, as one to a private candidate here.
        command.arg("--denied-peer-ip=10.0.0.0-10.255.255.255");
        command.args(["--realm", "example.org", "-L", &address.ip().to_string()]);
        command.args(["--listening-port", &PORT.to_string()]);
        command.args(["--min-port", "50000", "--max-port", "50999"]);
        command.arg("--pidfile").arg(folder.join("coturn.pid"));
        command.arg("--userdb").arg(folder.join("coturn.db"));
        let mut process = Process::start(COTURN, command, &folder.join("coturn.log"));
        wait_until("coturn to listen", || {
            process.assert_running();
            let is_open = |port: u16| {
                let mut probe = nats.public_command("bash");
                probe.args(["-c", &format!("exec 3<>/dev/tcp/{}/{port}", address.ip())]);
                probe.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
            };
            (is_open(PORT) && is_open(SECURE_PORT)).then_some(())
        });
        folder.write("secret", SECRET);
        let servers = format!("servers = [\"turn:{address}\"]");
        let secret = folder.join("secret");
        let turn = format!("[turn]\n{servers}\nsecret_file = \"{}\"\n", secret.display());
        folder.write("barebell.toml", &turn);
        Self { _process: process, folder, address }
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the server for TLS.
    #[must_use]
    pub fn secure_address(&self) -> SocketAddr {
        (self.address.ip(), SECURE_PORT).into()
    }

    /// The certificate for TLS.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.join("turn.pem")
    }

    /// The options of barebell-phone with credentials of `user`, which `barebell turn` makes.
    ///
    /// # Panics
    /// The command fails.
    #[must_use]
    pub fn options(&self, user: &str) -> String {
        let mut command = Command::new(built(BAREBELL.name, "BAREBELL_BIN"));
        command.args(["turn", user, "--json", "--config"]).arg(self.folder.join("barebell.toml"));
        let output: serde_json::Value =
            serde_json::from_str(&run(BAREBELL, command)).expect("the credentials are JSON");
        let text = |key: &str| output[key].as_str().expect("a text").to_owned();
        let file = format!("password-{user}");
        self.folder.write(&file, &text("password"));
        let path = self.folder.join(&file);
        format!(" --turn-user {} --turn-password-file {}", text("username"), path.display())
    }
}
