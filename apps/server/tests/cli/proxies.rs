//! A server behind proxies, and the client addresses of their connections.

use crate::phone::{PATIENCE, found, request, status};
use crate::site::{Server, Site, show};
use net::tls::{Client, ServerName, Trust};
use sip::Transport;
use sip::stream::websocket;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// A server of example.com that listens on TCP, TLS and WebSocket, with these lines in `[limits]`.
fn serve(site: &Site, limits: &str) -> (Server, [SocketAddr; 3]) {
    let listen = "listen = [\"tcp:127.0.0.1:0\", \"tls:127.0.0.1:0\", \"ws:127.0.0.1:0\"]";
    let text = format!("domains = [\"example.com\"]\n{listen}\n[limits]\n{limits}");
    let words = format!("serve --auth off --config {}", show(&site.file("c.toml", &text)));
    let server = site.started(&mut site.command(&words));
    let listens = status(site)["listens"].clone();
    let address = |place: usize| {
        let listen = listens[place].as_str().unwrap();
        listen.split_once(':').unwrap().1.parse().unwrap()
    };
    (server, [address(0), address(1), address(2)])
}

/// The wait for an answer that is not to come. One that comes takes milliseconds.
const UNANSWERED: Duration = Duration::from_secs(3);
const PROXIES: &str = "proxies = [\"127.0.0.1\"]\n";
const V1: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.1 40000 5060\r\n";
/// The header of version 2, with an authority after the addresses.
const V2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0f\xc0\x00\x02\x07\xc0\x00\x02\x01\x9c\x40\x13\xc4\
    \x02\x00\x00";

fn options(via: &str, from: SocketAddr) -> String {
    request("OPTIONS", "sip:example.com", via, from, 1, "Content-Length: 0\r\n")
}

/// The client address as seen by the server, after a client has sent `header` and then OPTIONS.
/// `None` if it is the address in the Via.
fn seen(server: SocketAddr, header: &[u8]) -> io::Result<Option<String>> {
    seen_within(PATIENCE, server, header)
}

fn seen_within(
    patience: Duration,
    server: SocketAddr,
    header: &[u8],
) -> io::Result<Option<String>> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(patience))?;
    let options = options("TCP", stream.local_addr()?);
    // The header arrives in one or two pieces.
    let (first, second) = header.split_at(header.len() / 2);
    stream.write_all(first)?;
    thread::sleep(Duration::from_millis(20));
    stream.write_all(&[second, options.as_bytes()].concat())?;
    let mut answer = [0; 2000];
    let length = stream.read(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    if !answer.starts_with("SIP/2.0 200 ") {
        return Err(io::Error::other(answer));
    }
    Ok(received(&answer))
}

fn received(answer: &str) -> Option<String> {
    let via = found(answer, "Via: ").remove(0);
    via.split(';').find_map(|param| param.strip_prefix("received=").map(str::to_owned))
}

#[test]
fn a_proxy_names_its_client_by_proxy_protocol() {
    let site = Site::new();
    let (_server, [tcp, tls, _]) = serve(&site, PROXIES);
    let client = Some("192.0.2.7".to_owned());
    assert_eq!(seen(tcp, V1).unwrap(), client);
    assert_eq!(seen(tcp, V2).unwrap(), client);
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";
    assert_eq!(seen(tcp, local).unwrap(), None, "it is for the proxy itself");
    assert_eq!(seen(tcp, b"PROXY UNKNOWN\r\n").unwrap(), None);
    assert_eq!(seen(tcp, b"").unwrap(), None, "a proxy may also be silent");
    assert!(seen(tcp, b"PROXY TCP4 192.0.2.7 192.0.2.1 40000\r\n").is_err());
    assert!(site.log_with("PROXY protocol has no address").contains("127.0.0.1"));
    // The header precedes the TLS handshake, as from a TCP relay.
    let relay = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = relay.local_addr().unwrap();
    thread::spawn(move || {
        let (phone, _) = relay.accept().unwrap();
        let server = TcpStream::connect(tls).unwrap();
        (&server).write_all(V1).unwrap();
        let (mut from, mut to) = (server.try_clone().unwrap(), phone.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut from, &mut to));
        let _ = io::copy(&mut &phone, &mut &server);
    });
    let trust = Trust::Issuers(site.data().join("tls-chain.pem"));
    let client = Client::new(&trust, None, false).unwrap();
    let name = ServerName::try_from("example.com").unwrap();
    let options = |from| options("TLS", from).into_bytes();
    let answer = net::ask(Transport::Tls, at, Some((&client, name)), options, PATIENCE).unwrap();
    assert_eq!(received(&String::from_utf8_lossy(&answer)), Some("192.0.2.7".to_owned()));
}

#[test]
fn others_than_proxies_are_not_believed() {
    let site = Site::new();
    let (_server, [tcp, _, ws]) = serve(&site, "proxies = [\"192.0.2.1\"]\n");
    assert_eq!(seen(tcp, b"").unwrap(), None);
    // The server waits for the rest of these, so that the end of the wait ends the test.
    assert!(seen_within(UNANSWERED, tcp, V1).is_err(), "it is no message");
    assert!(seen_within(UNANSWERED, tcp, V2).is_err());
    assert_eq!(upgrade(ws, "X-Forwarded-For: 192.0.2.7\r\n").1, None);
}

/// The response to a WebSocket handshake with the header `fields`, and the client address as seen
/// by the server.
fn upgrade(server: SocketAddr, fields: &str) -> (String, Option<String>) {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let asked = String::from_utf8(websocket::request("example.com", [1; 16])).unwrap();
    stream.write_all(asked.replace("\r\n\r\n", &format!("\r\n{fields}\r\n")).as_bytes()).unwrap();
    let mut answer = [0; 2000];
    let length = stream.read(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    if !answer.starts_with("HTTP/1.1 101 ") {
        return (answer, None);
    }
    let mut frame = Vec::new();
    let options = options("WS", stream.local_addr().unwrap());
    websocket::write_frame(&mut frame, websocket::Kind::Text, Some([0; 4]), options.as_bytes());
    stream.write_all(&frame).unwrap();
    let mut said = [0; 2000];
    let length = stream.read(&mut said).unwrap();
    // After the frame header.
    (answer, received(&String::from_utf8_lossy(&said[4..length])))
}

#[test]
fn a_web_server_names_its_client() {
    let site = Site::new();
    let (_server, [_, _, ws]) = serve(&site, PROXIES);
    let forged = "X-Forwarded-For: 6.6.6.6, 192.0.2.7\r\nX-Forwarded-For: 127.0.0.1\r\n";
    assert_eq!(upgrade(ws, forged).1.as_deref(), Some("192.0.2.7"));
    let (answer, _) = upgrade(ws, "");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    site.log_with("has no client address in X-Forwarded-For");
    let site = Site::new();
    let settings = format!("{PROXIES}proxy_header = \"Forwarded\"\n");
    let (_server, [_, _, ws]) = serve(&site, &settings);
    let both = format!("{forged}Forwarded: for=6.6.6.6, for=\"192.0.2.8:7\"\r\n");
    assert_eq!(upgrade(ws, &both).1.as_deref(), Some("192.0.2.8"));
    assert!(upgrade(ws, forged).0.starts_with("HTTP/1.1 400 "));
}

#[test]
fn connections_of_a_proxy_count_for_its_clients() {
    let site = Site::new();
    let (_server, [tcp, ..]) = serve(&site, &format!("{PROXIES}max_connections_per_source = 2\n"));
    let connect = |client: u8| {
        let mut stream = TcpStream::connect(tcp).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let options = options("TCP", stream.local_addr().unwrap());
        let header = format!("PROXY TCP4 192.0.2.{client} 192.0.2.1 40000 5060\r\n{options}");
        let mut answer = [0; 2000];
        let read = stream.write_all(header.as_bytes()).and_then(|()| stream.read(&mut answer));
        (stream, read.is_ok_and(|length| length > 0))
    };
    let kept: Vec<_> = (1..=4).flat_map(|client| [connect(client), connect(client)]).collect();
    assert!(kept.iter().all(|(_, is_answered)| *is_answered));
    assert!(!connect(1).1);
    assert!(connect(5).1);
    drop(kept);
    assert!((0..100).any(|_| connect(1).1), "there is room again");
}

#[test]
fn check_warns_where_all_clients_would_be_one_source() {
    let site = Site::new();
    let check = |listen: &str, limits: &str| {
        let text = format!("domains = [\"a.com\"]\nlisten = [\"{listen}\"]\n[limits]\n{limits}");
        site.good(&format!("check --config {}", show(&site.file("check.toml", &text))))
    };
    let warning = "limits.proxies is empty";
    assert!(check("ws:127.0.0.1:0", "").contains(warning));
    assert!(!check("ws:127.0.0.1:0", PROXIES).contains(warning));
    assert!(!check("tcp:127.0.0.1:0", "").contains(warning));
}
