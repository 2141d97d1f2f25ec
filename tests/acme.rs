//! The server obtains its certificate from an ACME server (RFC 8555), which validates the domains
//! by TLS-ALPN (RFC 8737).

use net::tls::{Client, ServerName, Trust};
use peers::pebble::Pebble;
use peers::process::{Program, run, wait_until};
use peers::server::{DOMAIN, Options, ServerProcess};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;
use test_support::agent::ping;

const DOMAINS: [&str; 2] = ["sip.acme.test", DOMAIN];
/// Longer than any test.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// A server that requests a certificate for `domains` from `pebble`.
fn server(pebble: &Pebble, domains: &[&str]) -> ServerProcess {
    let listen = format!("tls:{}", pebble.proof_address());
    ServerProcess::start(&Options {
        arguments: &["--listen", &listen],
        configuration: &pebble.configuration(domains),
        users: &[],
        domain: "",
    })
}

/// Connects to a server as `name` with the trust anchors `trust`. Returns the error text on
/// failure.
fn ask(address: SocketAddr, name: &'static str, trust: &Trust) -> Result<(), String> {
    let client = Client::new(trust, None, false).expect("the client can be created");
    let name = ServerName::try_from(name).expect("the name is a DNS name");
    let options = |from| ping(from, address, 1);
    let patience = Duration::from_secs(10);
    let answer = net::ask(sip::Transport::Tls, address, Some((&client, name)), options, patience);
    let answer = answer.map_err(|error| error.to_string())?;
    answer.starts_with(b"SIP/2.0").then_some(()).ok_or_else(|| format!("{answer:?}"))
}

#[test]
fn a_certificate_is_issued_and_stored() {
    let pebble = Pebble::start(&DOMAINS, LONG);
    let mut server = server(&pebble, &DOMAINS);
    server.wait_for_line("asking for a certificate for sip.acme.test");
    let trust = Trust::Issuers(pebble.root());
    let address = pebble.proof_address();
    let is_trusted = || ask(address, DOMAINS[0], &trust).ok();
    wait_until("a certificate of the ACME server", is_trusted);
    ask(address, DOMAINS[1], &trust).expect("the certificate is valid for both domains");
    // The chain is complete: OpenSSL only knows the root.
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &address.to_string(), "-servername", DOMAINS[0]]);
    openssl.args(["-verify_hostname", DOMAINS[0], "-verify_return_error", "-CAfile"]);
    openssl.arg(pebble.root());
    let output = run(Program { name: "openssl", packages: "openssl" }, openssl);
    assert!(output.contains("Verify return code: 0 (ok)"), "{output}");
    let refusal = ask(address, "other.acme.test", &trust)
        .expect_err("the certificate is not valid for other domains");
    assert!(refusal.contains("other.acme.test"), "{refusal}");
    server.crash();
    server.restart();
    ask(address, DOMAINS[0], &trust).expect("the certificate is available at once");
    assert_eq!(server.log().matches("asking for").count(), 1, "the certificate is stored");
    // A damaged certificate is requested again.
    server.crash();
    std::fs::write(server.data().join("tls-acme.pem"), "nonsense")
        .expect("the file can be written");
    server.restart();
    wait_until("another certificate", || ask(address, DOMAINS[0], &trust).ok());
}

#[test]
fn after_a_rejection_the_old_certificate_is_used_until_a_reload() {
    let pebble = Pebble::start(&[DOMAINS[0]], LONG);
    let server = server(&pebble, &["lost.acme.test"]);
    let line = server.wait_for_line("could not be obtained");
    assert!(line.contains(": lost.acme.test: ") && line.contains("attempt is in 5m"), "{line}");
    let own = Trust::Issuers(server.certificate());
    ask(pebble.proof_address(), DOMAIN, &own).expect("the self-signed certificate is used");
    server.reconfigure(&pebble.configuration(&[DOMAINS[0]]));
    let trust = Trust::Issuers(pebble.root());
    wait_until("a certificate for the correct name", || {
        ask(pebble.proof_address(), DOMAINS[0], &trust).ok()
    });
}

/// Also after the ACME server has lost the account.
#[test]
fn a_certificate_is_renewed_in_time() {
    let mut pebble = Pebble::start(&DOMAINS, Duration::from_secs(12));
    let server = server(&pebble, &[DOMAINS[0]]);
    let first = server.wait_for_line("the certificate for TLS is valid until");
    pebble.restart();
    let second = wait_until("a second certificate", || {
        let log = server.log();
        let last = log.lines().rfind(|line| line.contains("the certificate for TLS is valid"))?;
        (last != first).then(|| last.to_owned())
    });
    assert!(!server.log().contains("could not be obtained"), "{second}");
    let trust = Trust::Issuers(pebble.root());
    ask(pebble.proof_address(), DOMAINS[0], &trust).expect("the certificate has the new root");
}
