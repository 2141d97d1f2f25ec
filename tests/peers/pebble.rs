//! Pebble, an issuer of certificates for tests that speaks ACME.

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

/// A running issuer, and the name server that it asks. It is killed when dropped.
#[derive(Debug)]
pub struct Pebble {
    process: Process,
    /// Where it is asked. The next port tells who has signed its certificates; it calls domains at
    /// the one behind that.
    port: u16,
    folder: Folder,
    names: SocketAddr,
}

impl Pebble {
    /// Starts one that finds each of `domains` on this machine, and nothing else, and whose
    /// certificates are valid for as long as `validity`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(domains: &[&'static str], validity: Duration) -> Self {
        let records = domains.iter().map(|&domain| (domain, A, vec![127, 0, 0, 1])).collect();
        let names = serve((Ipv4Addr::LOCALHOST, 0).into(), records).expect("a name server");
        let (folder, port) = (Folder::new("pebble"), free_ports(3));
        let [own, key] = ["own.pem", "key.pem"].map(|name| folder.join(name));
        make_self_signed(&["localhost".to_owned()], &own, &key).expect("a certificate");
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

    /// Ends it, and starts it again where it was. It has forgotten who has accounts.
    pub fn restart(&mut self) {
        self.process.kill();
        self.process = start(&self.folder, self.names);
        self.wait_until_it_listens();
    }

    /// Where it calls domains to see a proof.
    #[must_use]
    pub fn proof_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port + 2).into()
    }

    /// What a server needs to be told, to get a certificate for `domains` here.
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

    /// The file with who has signed its certificates.
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
    // It waits some seconds before it looks, otherwise.
    command.env("PEBBLE_VA_NOSLEEP", "1");
    Process::start(PEBBLE, command, &folder.join("pebble.log"))
}
