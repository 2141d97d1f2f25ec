//! Pebble, an ACME server for tests.

use crate::folder::Folder;
use crate::process::{Process, Program, run, wait_until};
use crate::transport::Transport::Tcp;
use net::tls::make_self_signed;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use test_support::dns::{A, serve};
use test_support::ports::free_ports;

const PEBBLE: Program = Program { name: "pebble", packages: "pebble" };
const OPENSSL: Program = Program { name: "openssl", packages: "openssl" };

/// A running ACME server, and its DNS server. It is killed on drop.
#[derive(Debug)]
pub struct Pebble {
    process: Process,
    /// The port of ACME. The next port is that of management, and the one after it is that of
    /// challenges at the domains.
    port: u16,
    folder: Folder,
    names: SocketAddr,
}

impl Pebble {
    /// Starts an ACME server that resolves `domains` to this machine. Its certificates are valid
    /// for `validity`.
    ///
    /// # Panics
    /// The server cannot be started.
    #[must_use]
    pub fn start(domains: &[&'static str], validity: Duration) -> Self {
        let records = domains.iter().map(|&domain| (domain, A, vec![127, 0, 0, 1])).collect();
        let names =
            serve((Ipv4Addr::LOCALHOST, 0).into(), records).expect("the DNS server can be started");
        let (folder, port) = (Folder::new("pebble"), free_ports(3));
        let [own, key] = ["own.pem", "key.pem"].map(|name| folder.join(name));
        make_self_signed(&["localhost".to_owned()], &own, &key)
            .expect("the certificate can be created");
        let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)).to_string();
        let config = json!({ "pebble": {
            "listenAddress": at(port),
            "managementListenAddress": at(port + 1),
            "certificate": own,
            "privateKey": key,
            "tlsPort": port + 2,
            "certificateValidityPeriod": validity.as_secs(),
        } });
        folder.write("config.json", &config.to_string());
        let mut pebble = Self { process: start(&folder, names), port, folder, names };
        pebble.wait_until_it_listens();
        pebble
    }

    /// Restarts the server at the same address. Its accounts are lost.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = start(&self.folder, self.names);
        self.wait_until_it_listens();
    }

    /// The address of challenges at the domains.
    #[must_use]
    pub fn proof_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port + 2).into()
    }

    /// The configuration of a server that requests a certificate for `domains` here.
    #[must_use]
    pub fn configuration(&self, domains: &[&str]) -> String {
        format!(
            "[acme]\ndomains = {domains:?}\ncontacts = [\"ops@example.com\"]\n\
             terms_of_service_agreed = true\ndirectory = \"https://localhost:{}/dir\"\n\
             issuers = \"{}\"\n",
            self.port,
            self.folder.join("own.pem").display()
        )
    }

    /// The file with the root certificate.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        let mut command = Command::new("sh");
        let ask = r#"printf 'GET /roots/0 HTTP/1.0\r\n\r\n' | "$0" s_client -quiet -connect "$1""#;
        let place = format!("localhost:{}", self.port + 1);
        command.args(["-c", ask, OPENSSL.name, &place]);
        let answer = run(OPENSSL, command);
        let (_, root) = answer.split_once("\r\n\r\n").unwrap_or_default();
        self.folder.write("root.pem", root);
        self.folder.join("root.pem")
    }

    fn wait_until_it_listens(&mut self) {
        wait_until("the issuer listens", || {
            self.process.assert_running();
            let listens = |port| Tcp.is_listening(Ipv4Addr::LOCALHOST, port);
            (listens(self.port) && listens(self.port + 1)).then_some(())
        });
    }
}

fn start(folder: &Folder, names: SocketAddr) -> Process {
    let mut command = PEBBLE.command();
    command.arg("-strict").arg("-config").arg(folder.join("config.json"));
    command.args(["-dnsserver", &names.to_string()]);
    // Disables the delay of several seconds before validation.
    command.env("PEBBLE_VA_NOSLEEP", "1");
    Process::start(PEBBLE, command, &folder.join("pebble.log"))
}
