//! Clients of a web server or load balancer on the same machine, which has a trusted address.

use crate::apart::{add_address, apart};
use crate::client::{Client, status};
use crate::web_proxy::{Kind, WebProxy};
use net::tls::{self, Trust};
use peers::process::wait_until;
use peers::server::DOMAIN;
use peers::test_server::{PASSWORD, TestServer};
use sip::HeaderName;
use sip::stream::websocket::ClientField;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use test_support::agent::Agent;
use test_support::ports::free_ports;

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The address of the proxy for its clients.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// The failures that ban a source.
const FAILURES: u32 = 20;
/// Header fields of a request that only a trusted sender may use.
const CLAIMS: &str = "P-Asserted-Identity: \"Boss\" <sip:alice@barebell.test>\r\n\
                      Alert-Info: <http://x.test>;info=alert-autoanswer\r\n";
/// Header fields with which a client tries to choose its address.
const FORGED: &str = "X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\n";
const ORIGIN: &str = "Origin: https://phone.example.org\r\n";

/// `stranger` calls `bob` with [`CLAIMS`], which do not arrive.
fn call(stranger: &mut Client, bob: &mut Agent) {
    let uri = format!("sip:bob@{DOMAIN}");
    let invite = stranger.request("INVITE", &uri, "sip:anonymous@anonymous.invalid", CLAIMS);
    stranger.send(&invite).expect("the connection is open");
    let asked = bob.request("INVITE");
    let dialog = bob.dialog_with(&asked);
    bob.answer(&asked, &dialog, 486, "", "");
    let answer = stranger.response(&invite).expect("a response");
    assert_eq!(status(&answer), Some(486), "{answer}");
    for name in [HeaderName::PAssertedIdentity, HeaderName::AlertInfo] {
        assert_eq!(asked.message().value(name), None, "{asked}");
    }
}

/// Sends wrong passwords until the source of `client` is banned.
fn guess(client: &mut Client) {
    for number in 0..FAILURES {
        let answer = client.register("alice", &format!("guess{number}")).expect("a response");
        assert_eq!(status(&answer), Some(401), "{answer}");
    }
}

/// A client from `from` calls bob and is banned alone. `connect` connects through the proxy.
fn clients_are_told_apart(
    exchange: &TestServer,
    bob: &mut Agent,
    from: [IpAddr; 2],
    connect: impl Fn(IpAddr) -> io::Result<Client>,
) {
    let server = &exchange.server;
    let mut client = connect(from[0]).expect("the client is accepted");
    call(&mut client, bob);
    let answer = client.register("alice", PASSWORD).expect("a response");
    assert_eq!(status(&answer), Some(200), "{answer}");
    let flow = server.wait_for_registrations("alice", 1)[0].flow.clone();
    assert!(flow.contains(&format!(":{}:", from[0])), "{flow}");
    drop(client);
    let mut client = connect(from[0]).expect("the client is accepted");
    guess(&mut client);
    server.wait_for_line(&format!("{} is banned", from[0]));
    let before = server.counter("banned-requests");
    let options = client.options();
    let _ = client.send(&options);
    server.wait_for_count("banned-requests", before + 1);
    let mut other = connect(from[1]).expect("another client is accepted");
    let options = other.options();
    assert_eq!(other.ask(&options).ok().as_deref().and_then(status), Some(200));
    assert!(!server.log().contains(&format!("{HOST} is banned")), "{}", server.log());
}

/// The server and the proxy are configured as in `docs/configuration.md`. The proxy names its
/// clients in `field`, and passes on the other field as its clients write it.
fn behind(kind: Kind, field: ClientField) {
    apart(|| {
        let clients = [9, 10, 11, 12].map(|host| IpAddr::from([192, 0, 2, host]));
        clients.into_iter().chain([PROXY]).for_each(add_address);
        let settings = format!(
            "[websocket]\norigins = [\"https://phone.example.org\"]\n\
             [limits]\nproxies = [\"127.0.0.1\"]\nban_failures = {FAILURES}\n\
             proxy_header = \"{}\"\n",
            field.name()
        );
        let tls = format!("tls:127.0.0.1:5062 as {PROXY}:5061");
        let listens = ["--listen", "ws:127.0.0.1:8080", "--listen", &tls];
        let exchange = TestServer::with(&settings, &listens);
        let mut bob = exchange.agent("bob");
        let _proxy = WebProxy::start(kind, field);
        let trust = tls::Client::new(&Trust::Any, None, false).expect("the client is created");
        let web = |from| {
            let fields = format!("{ORIGIN}{FORGED}");
            Client::web(from, (PROXY, 443).into(), Some(&trust), &fields)
        };
        wait_until("the proxy has a certificate", || web(PROXY).ok());
        clients_are_told_apart(&exchange, &mut bob, [clients[0], clients[1]], web);
        if kind == Kind::Haproxy {
            clients_are_told_apart(&exchange, &mut bob, [clients[2], clients[3]], |from| {
                Client::tls(from, (PROXY, 5061).into(), &trust)
            });
        }
    });
}

#[test]
fn nginx_names_its_clients() {
    behind(Kind::Nginx, ClientField::XForwardedFor);
}

#[test]
fn caddy_names_its_clients() {
    behind(Kind::Caddy, ClientField::XForwardedFor);
}

#[test]
fn haproxy_names_its_clients() {
    behind(Kind::Haproxy, ClientField::XForwardedFor);
}

#[test]
fn nginx_names_its_clients_in_forwarded() {
    behind(Kind::Nginx, ClientField::Forwarded);
}

#[test]
fn haproxy_names_its_clients_in_forwarded() {
    behind(Kind::Haproxy, ClientField::Forwarded);
}

/// The server does not know that the clients of 127.0.0.1, which is trusted, come from a proxy.
#[test]
fn a_page_behind_an_unknown_proxy_is_not_trusted() {
    let port = free_ports(1);
    let settings = format!(
        "[websocket]\norigins = [\"https://phone.example.org\"]\n\
         [limits]\nban_failures = {FAILURES}\n"
    );
    let listen = format!("ws:127.0.0.1:{port}");
    let exchange = TestServer::with(&settings, &["--listen", &listen]);
    let mut bob = exchange.agent("bob");
    let connect = || {
        let place = SocketAddr::new(HOST, port);
        Client::web(HOST, place, None, ORIGIN).expect("the page is accepted")
    };
    let mut page = connect();
    call(&mut page, &mut bob);
    // A user of a page has no Path and reaches no programs of this machine.
    let path = "Path: <sip:127.0.0.8:9;lr>\r\n";
    let answer = page.log_in("REGISTER", &format!("sip:{DOMAIN}"), "carol", PASSWORD, path);
    assert_ne!(answer.ok().as_deref().and_then(status), Some(200));
    let listener = TcpListener::bind((HOST, 0)).expect("a port is free");
    listener.set_nonblocking(true).expect("the mode can be set");
    let place = listener.local_addr().expect("the listener is bound");
    let uri = format!("sip:x@{place};transport=tcp");
    let answer = page.log_in("MESSAGE", &uri, "carol", PASSWORD, "").expect("a response");
    assert_eq!(status(&answer), Some(480), "{answer}");
    let error = listener.accept().expect_err("no connection");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    // A proxy without a name is banned with its clients, so that passwords cannot be guessed.
    guess(&mut connect());
    exchange.server.wait_for_line(&format!("{HOST} is banned"));
}
