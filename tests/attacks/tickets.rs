//! Session tickets that were issued under other rules for client certificates. The client is
//! OpenSSL.

use crate::pki::{Files, Issuer};
use peers::process::wait_until;
use peers::server::{DOMAIN, TRUSTS_NOBODY};
use peers::test_server::TestServer;
use peers::transport::Transport;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// The result of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Refused,
    Served,
    /// Served in a resumed session.
    Resumed,
}

/// A client with one version of TLS.
struct Openssl<'t> {
    server: SocketAddr,
    version: &'t str,
    identity: Option<&'t Files>,
    /// The file of its session.
    session: &'t Path,
}

impl Openssl<'_> {
    /// Connects and stores the session.
    fn connect(&self) -> Outcome {
        self.run("-sess_out")
    }

    /// Connects with the stored session.
    fn come_again(&self) -> Outcome {
        self.run("-sess_in")
    }

    fn run(&self, session: &str) -> Outcome {
        let mut openssl = Command::new("openssl");
        openssl.args(["s_client", "-ign_eof", "-connect", &self.server.to_string(), self.version]);
        openssl.args(["-servername", DOMAIN, session]).arg(self.session);
        if let Some(Files { chain, key }) = self.identity {
            openssl.arg("-cert").arg(chain).arg("-key").arg(key);
        }
        openssl.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut openssl = openssl.spawn().expect("openssl, of the package of that name");
        // Without Content-Length the server answers with 400 and ends the connection.
        let request = format!(
            "OPTIONS sip:{DOMAIN} SIP/2.0\r\nVia: SIP/2.0/TLS 127.0.0.1;branch=z9hG4bK1\r\n\
             Max-Forwards: 70\r\nFrom: <sip:x@other.test>;tag=1\r\nTo: <sip:{DOMAIN}>\r\n\
             Call-ID: 1\r\nCSeq: 1 OPTIONS\r\n\r\n"
        );
        let mut input = openssl.stdin.take().expect("the input is a pipe");
        // The connection may have been refused.
        let _ = input.write_all(request.as_bytes());
        let output = openssl.wait_with_output().expect("openssl ends with its connection");
        let output = String::from_utf8_lossy(&output.stdout);
        match (output.contains("SIP/2.0 400 "), output.contains("Reused, ")) {
            (true, true) => Outcome::Resumed,
            (true, false) => Outcome::Served,
            (false, _) => Outcome::Refused,
        }
    }
}

#[test]
fn a_ticket_ends_with_the_rules_under_which_it_was_issued() {
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a temporary folder can be created"));
    let [old, new, client] = folders.each_ref().map(tempfile::TempDir::path);
    let (old_issuer, new_issuer) = (Issuer::new("old"), Issuer::new("new"));
    let own = new_issuer.identity(DOMAIN, 1, new);
    let identity = old_issuer.identity("client.test", 1, client);
    let files = [old_issuer.file(old), new_issuer.file(new)];
    let [trusts_old, trusts_new] = files.map(|file| {
        format!("client_issuers = \"{}\"\nclient_certificates_required = true\n", file.display())
    });
    let settings =
        |rules: &str| format!("{TRUSTS_NOBODY}[tls]\ncertificates = {}\n{rules}", own.setting());
    let exchange = TestServer::with(&settings(""), &[]);
    let server = &exchange.server;
    let reload = |rules: &str| {
        let count = || server.log().matches("the configuration was read again").count();
        let before = count();
        server.reconfigure(&settings(rules));
        wait_until("the configuration is read", || (count() > before).then_some(()));
    };
    for version in ["-tls1_2", "-tls1_3"] {
        for (before, identity) in [("", None), (&trusts_old[..], Some(&identity))] {
            reload(before);
            let address = server.secure_address(Transport::Tls);
            let session = client.join("session");
            let openssl = Openssl { server: address, version, identity, session: &session };
            assert_eq!(openssl.connect(), Outcome::Served, "{version}");
            assert_eq!(openssl.come_again(), Outcome::Resumed, "{version}");
            reload(&trusts_new);
            assert_eq!(openssl.come_again(), Outcome::Refused, "{version} {before}");
        }
    }
}
