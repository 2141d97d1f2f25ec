//! The server gets its certificate from an issuer that speaks ACME (RFC 8555), who calls it for a
//! proof (RFC 8737).

use net::tls::{Client, ServerName, Trust};
use peers::pebble::Pebble;
use peers::process::{Program, run, wait_until};
use peers::server::{Barebell, DOMAIN, Options};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;
use test_support::agent::ping;

const DOMAINS: [&str; 2] = ["sip.acme.test", DOMAIN];
/// Longer than any test.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// A server that wants a certificate for `domains` from `pebble`.
fn server(pebble: &Pebble, domains: &[&str]) -> Barebell {
    let listen = format!("tls:{}", pebble.proof_address());
    Barebell::start(&Options {
        arguments: &["--listen", &listen],
        configuration: &pebble.configuration(domains),
        users: &[],
    })
}

/// Whether who is called as `name` answers, and is trusted by `trust`; or why not.
fn ask(address: SocketAddr, name: &'static str, trust: &Trust) -> Result<(), String> {
    let client = Client::new(trust, None, false).expect("a client");
    let name = ServerName::try_from(name).expect("a name");
    let options = |from| ping(from, address, 1);
    let patience = Duration::from_secs(10);
    let answer = net::ask(sip::Transport::Tls, address, Some((&client, name)), options, patience);
    let answer = answer.map_err(|error| error.to_string())?;
    answer.starts_with(b"SIP/2.0").then_some(()).ok_or_else(|| format!("{answer:?}"))
}

#[test]
fn a_certificate_is_issued_and_kept() {
    let pebble = Pebble::start(&DOMAINS, LONG);
    let mut server = server(&pebble, &DOMAINS);
    server.wait_for_line("asking for a certificate for sip.acme.test");
    let trust = Trust::Issuers(pebble.root());
    let address = pebble.proof_address();
    let is_trusted = || ask(address, DOMAINS[0], &trust).ok();
    wait_until("a certificate that the issuer has signed", is_trusted);
    ask(address, DOMAINS[1], &trust).expect("it is for both");
    // The chain is whole: OpenSSL knows the root alone.
    let mut openssl = Command::new("openssl");
    openssl.args(["s_client", "-connect", &address.to_string(), "-servername", DOMAINS[0]]);
    openssl.args(["-verify_hostname", DOMAINS[0], "-verify_return_error", "-CAfile"]);
    openssl.arg(pebble.root());
    let said = run(Program { name: "openssl", packages: "openssl" }, openssl);
    assert!(said.contains("Verify return code: 0 (ok)"), "{said}");
    let refusal = ask(address, "other.acme.test", &trust).expect_err("for nobody else");
    assert!(refusal.contains("other.acme.test"), "{refusal}");
    server.crash();
    server.restart();
    ask(address, DOMAINS[0], &trust).expect("it is there from the start");
    assert_eq!(server.log().matches("asking for").count(), 1, "it is kept");
    // One that is damaged is got again.
    server.crash();
    std::fs::write(server.data().join("tls-acme.pem"), "nonsense").expect("its file");
    server.restart();
    wait_until("another certificate", || ask(address, DOMAINS[0], &trust).ok());
}

#[test]
fn who_is_refused_goes_on_with_what_there_was_and_asks_again_when_told_to() {
    let pebble = Pebble::start(&[DOMAINS[0]], LONG);
    let server = server(&pebble, &["lost.acme.test"]);
    let line = server.wait_for_line("is not to be had");
    assert!(line.contains(": lost.acme.test: ") && line.contains("again in 5m"), "{line}");
    let own = Trust::Issuers(server.certificate());
    ask(pebble.proof_address(), DOMAIN, &own).expect("its own");
    server.reconfigure(&pebble.configuration(&[DOMAINS[0]]));
    let trust = Trust::Issuers(pebble.root());
    wait_until("a certificate for the right name", || {
        ask(pebble.proof_address(), DOMAINS[0], &trust).ok()
    });
}

/// Also by an issuer that does not know the account any more.
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
    assert!(!server.log().contains("is not to be had"), "{second}");
    let trust = Trust::Issuers(pebble.root());
    ask(pebble.proof_address(), DOMAINS[0], &trust).expect("of the issuer's new key");
}
