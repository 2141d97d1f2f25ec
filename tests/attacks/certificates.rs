//! Long chains of certificates, of clients and of called servers. Each certificate may cost the
//! verification of a signature.

use crate::client::{Client, status};
use crate::pki::Issuer;
use net::tls::{self, ClientCertificates, Server, Trust};
use net::{Reader, Wire};
use peers::process::wait_until;
use peers::server::TRUSTS_NOBODY;
use peers::test_server::{PASSWORD, TestServer};
use peers::transport::Transport;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The maximum number of certificates in a chain.
const MOST: usize = 10;
const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

#[test]
fn a_client_with_a_long_chain_is_refused() {
    const CONNECTIONS: u64 = 30;
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let trusted = Issuer::new("root");
    let issuers = trusted.file(folder.path());
    let settings = format!("{TRUSTS_NOBODY}[tls]\nclient_issuers = \"{}\"\n", issuers.display());
    let exchange = TestServer::with(&settings, &[]);
    let address = exchange.server.secure_address(Transport::Tls);
    let asks = |issuer: &Issuer, length| {
        let identity = issuer.identity("client.test", length, folder.path()).read();
        let client = tls::Client::new(&Trust::Any, Some(&identity), false);
        let client = client.expect("the client can be created").without_resumption();
        let mut client = Client::tls(STRANGER, address, &client)?;
        let options = client.options();
        client.ask(&options)
    };
    let answer = asks(&trusted, MOST).expect("a chain of the maximum length is accepted");
    assert_eq!(status(&answer), Some(200), "{answer}");
    assert_eq!(exchange.server.counter("tls-failures"), 0);
    // Another issuer of the same name makes invalid signatures.
    let forged = Issuer::new("root");
    for number in 0..CONNECTIONS {
        let (issuer, length) = if number % 2 == 0 { (&trusted, MOST + 1) } else { (&forged, MOST) };
        let _ = asks(issuer, length).expect_err("the chain is refused");
        let mut honest = Client::udp((HOST, 0).into(), exchange.server.address());
        let options = honest.options();
        assert_eq!(honest.ask(&options).ok().as_deref().and_then(status), Some(200));
    }
    exchange.server.wait_for_count("tls-failures", CONNECTIONS);
    exchange.server.wait_for_line("its chain has 11 certificates, at most 10");
}

/// A SIP server on TLS that answers each request with 200. `count` counts its connections.
fn answer(listener: &TcpListener, tls: &Server, count: &AtomicU64) {
    while let Ok((socket, _)) = listener.accept() {
        count.fetch_add(1, Ordering::Relaxed);
        let session = tls.accept().expect("the session can be created");
        thread::spawn(move || serve(&socket, Wire::new(Some(session), 1 << 20)));
    }
}

fn serve(mut socket: &TcpStream, mut wire: Wire) {
    let (mut reader, mut chunk) = (Reader::default(), [0; 4096]);
    while let Ok(length @ 1..) = socket.read(&mut chunk) {
        let plain = wire.receive(&chunk[..length]).map(std::borrow::Cow::into_owned);
        let mut answers = String::new();
        let hear = |heard: sip::stream::StreamItem<'_>| {
            if let sip::stream::StreamItem::Message(request) = heard {
                let request = String::from_utf8_lossy(request);
                let is_copied = |line: &&str| {
                    let names = ["Via:", "From:", "To:", "Call-ID:", "CSeq:"];
                    names.iter().any(|name| line.starts_with(name))
                };
                let copied = request.lines().filter(is_copied).map(|line| format!("{line}\r\n"));
                answers += &format!("SIP/2.0 200 OK\r\n{}", copied.collect::<String>());
                answers += "Content-Length: 0\r\n\r\n";
            }
            ControlFlow::Continue(())
        };
        let is_good = plain.is_ok_and(|plain| reader.receive(&plain, hear, |_| ()).is_ok());
        if !answers.is_empty() {
            let _ = wire.push(&[answers.as_bytes()]);
        }
        let written = socket.write_all(wire.pending());
        wire.consume(wire.pending().len());
        if !is_good || written.is_err() {
            break;
        }
    }
}

#[test]
fn a_server_with_a_long_chain_is_not_called_again_and_again() {
    const REQUESTS: u32 = 30;
    let folder = tempfile::tempdir().expect("a temporary folder can be created");
    let trusted = Issuer::new("root");
    let settings =
        format!("{TRUSTS_NOBODY}[tls]\ntrust = \"{}\"\n", trusted.file(folder.path()).display());
    let exchange = TestServer::with(&settings, &[]);
    let mut carol = Client::udp((STRANGER, 0).into(), exchange.server.address());
    let (good, long) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut call = |length: usize, count: &Arc<AtomicU64>| {
        let identity = trusted.identity("127.0.0.1", length, folder.path()).read();
        let tls = Server::new(vec![identity], &ClientCertificates::Off, None);
        let tls = tls.expect("the server can be configured");
        let listener = TcpListener::bind((HOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("the listener is bound").port();
        let count = Arc::clone(count);
        thread::spawn(move || answer(&listener, &tls, &count));
        let uri = format!("sip:x@{HOST}:{port};transport=tls");
        let mut statuses = (0..REQUESTS).map(|_| {
            let answer = carol.log_in("MESSAGE", &uri, "carol", PASSWORD, "");
            status(&answer.expect("a response"))
        });
        let first = statuses.next().flatten();
        assert!(statuses.all(|status| status == first));
        first
    };
    assert_eq!(call(MOST, &good), Some(200));
    assert_eq!(good.load(Ordering::Relaxed), 1, "one connection for all requests");
    assert_eq!(call(MOST + 1, &long), Some(480));
    // The pause doubles with each failure.
    let connections = long.load(Ordering::Relaxed);
    assert!((1..=8).contains(&connections), "{connections} for {REQUESTS} requests");
    wait_until("a pause", || (exchange.server.counter("tls-pauses") > 0).then_some(()));
}
