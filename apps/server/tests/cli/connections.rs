//! Connections to and from a running server.

use crate::phone::{PATIENCE, found, receive, register, request, serve, status};
use crate::site::{Site, show};
use sip::stream::websocket::{self, Kind};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn pipelined_requests_are_answered_in_order() {
    let site = Site::new();
    let (_server, [_, tcp]) = serve(&site, "");
    let mut phone = TcpStream::connect(tcp).unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    let from = phone.local_addr().unwrap();
    let options = |number, more| request("OPTIONS", "sip:example.com", "TCP", from, number, more);
    let whole = |number| options(number, "Content-Length: 0\r\n");
    let text = format!("{}\r\n{}\r\n\r\n{}", whole(1), whole(2), whole(3));
    let (first, rest) = text.split_at(text.len() - 20);
    phone.write_all(first.as_bytes()).unwrap();
    let mut answers = String::new();
    while !answers.contains("Call-ID: 2\r\n") {
        let mut part = [0; 2000];
        let length = phone.read(&mut part).unwrap();
        assert_ne!(length, 0, "closed after {answers}");
        answers += std::str::from_utf8(&part[..length]).unwrap();
    }
    // The last request has no Content-Length: it is rejected, all before it are answered, and the
    // connection ends.
    phone.write_all(format!("{rest}{}", options(4, "")).as_bytes()).unwrap();
    phone.read_to_string(&mut answers).unwrap();
    assert_eq!(found(&answers, "Call-ID: "), ["1", "2", "3", "4"]);
    let wanted = ["200 OK", "200 OK", "200 OK", "400 Bad Content-Length"];
    assert_eq!(found(&answers, "SIP/2.0 "), wanted);
}

#[test]
fn a_connection_whose_peer_does_not_read_is_closed() {
    let site = Site::new();
    let config = show(&site.file("c.toml", "[limits]\ntrusted = [\"127.0.0.0/8\"]"));
    let (_server, [_, tcp]) = serve(&site, &format!("--config {config}"));
    let mut phone = TcpStream::connect(tcp).unwrap();
    let from = phone.local_addr().unwrap();
    let more = format!("Subject: {}\r\nContent-Length: 0\r\n", "x".repeat(200));
    let options = request("OPTIONS", "sip:example.com", "TCP", from, 1, &more);
    // The buffers of the system and of the server for one peer are far smaller than these
    // responses.
    let many = options.repeat(100);
    let written = (0..2000).take_while(|_| phone.write_all(many.as_bytes()).is_ok()).count();
    assert!(written < 2000, "the server keeps on holding answers");
    site.good("status");
}

#[test]
fn a_phone_on_websocket_gets_pings_and_its_connection_ends_without_an_answer() {
    let site = Site::new();
    let text = "domains = [\"example.com\"]\nlisten = [\"ws:127.0.0.1:0\"]\n\
                [registrar]\nkeepalive = \"crlf\"\nkeepalive_interval = \"5s\"\n";
    let words = format!("serve --auth off --config {}", show(&site.file("c.toml", text)));
    let _server = site.started(&mut site.command(&words));
    let listen = status(&site)["listens"][0].as_str().unwrap().to_owned();
    let mut phone = TcpStream::connect(listen.strip_prefix("ws:").unwrap()).unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    phone.write_all(&websocket::request("example.com", [1; 16])).unwrap();
    let mut part = [0; 2000];
    let length = phone.read(&mut part).unwrap();
    assert!(part[..length].starts_with(b"HTTP/1.1 101 "));
    let from = phone.local_addr().unwrap();
    let more = format!("Contact: <sip:bob@{from};transport=ws>\r\nContent-Length: 0\r\n");
    let register = request("REGISTER", "sip:example.com", "WS", from, 1, &more);
    let mut frame = Vec::new();
    websocket::write_frame(&mut frame, Kind::Text, Some([0; 4]), register.as_bytes());
    phone.write_all(&frame).unwrap();
    let mut rest = Vec::new();
    phone.read_to_end(&mut rest).unwrap();
    let text = String::from_utf8_lossy(&rest);
    assert!(text.contains("SIP/2.0 200 OK\r\n"), "{text}");
    let mut ping = Vec::new();
    websocket::write_frame(&mut ping, Kind::Ping, None, b"");
    assert!(rest.windows(ping.len()).any(|bytes| bytes == ping), "{text}");
    let counters = &status(&site)["counters"];
    assert!(counters["keep-alive-pings"].as_u64() >= Some(1), "{counters}");
    assert_eq!(counters["silent-connections"], 1);
}

#[test]
fn messages_to_a_new_destination_share_one_connection() {
    let site = Site::new();
    let (_server, [udp, _]) = serve(&site, "");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    let contact = format!("sip:bob@{};transport=tcp", listener.local_addr().unwrap());
    register(&phone, &udp, &contact);
    let from = phone.local_addr().unwrap();
    for number in 0..20 {
        let more = "Content-Length: 0\r\n";
        let message = request("MESSAGE", "sip:bob@example.com", "UDP", from, number, more);
        phone.send_to(message.as_bytes(), &udp).unwrap();
    }
    let mut peer = listener.accept().unwrap().0;
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut got = String::new();
    while found(&got, "Call-ID: ").len() < 20 {
        let mut part = [0; 20_000];
        let length = peer.read(&mut part).unwrap();
        assert_ne!(length, 0, "closed after {got}");
        got += std::str::from_utf8(&part[..length]).unwrap();
    }
    let numbers: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    assert_eq!(found(&got, "Call-ID: "), numbers);
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn failed_connections_are_logged() {
    let site = Site::new();
    let (_server, [udp, _]) = serve(&site, "");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let contact = format!("sip:bob@{};transport=tcp", listener.local_addr().unwrap());
    drop(listener);
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    register(&phone, &udp, &contact);
    let from = phone.local_addr().unwrap();
    let message =
        request("MESSAGE", "sip:bob@example.com", "UDP", from, 1, "Content-Length: 0\r\n");
    phone.send_to(message.as_bytes(), &udp).unwrap();
    let answer = receive(&phone);
    assert!(answer.starts_with("SIP/2.0 480 "), "{answer}");
    assert_eq!(status(&site)["counters"]["undeliverable"], 1);
}

#[test]
fn a_half_closed_connection_gets_its_answers() {
    let site = Site::new();
    let config = show(&site.file("c.toml", "[limits]\ntrusted = [\"127.0.0.0/8\"]"));
    let (_server, [_, tcp]) = serve(&site, &format!("--config {config}"));
    let mut phone = TcpStream::connect(tcp).unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    let from = phone.local_addr().unwrap();
    let options = |number| {
        let more = "Content-Length: 0\r\n";
        request("OPTIONS", "sip:example.com", "TCP", from, number, more)
    };
    let all: String = (0..1000).map(options).collect();
    phone.write_all(all.as_bytes()).unwrap();
    phone.shutdown(Shutdown::Write).unwrap();
    let mut answers = String::new();
    phone.read_to_string(&mut answers).unwrap();
    let numbers: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    assert_eq!(found(&answers, "Call-ID: "), numbers);
}

#[test]
fn a_refusal_arrives_also_where_the_peer_goes_on_talking() {
    let site = Site::new();
    let (_server, [_, tcp]) = serve(&site, "");
    let mut phone = TcpStream::connect(tcp).unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    let from = phone.local_addr().unwrap();
    let unframed = request("OPTIONS", "sip:example.com", "TCP", from, 1, "");
    phone.write_all(format!("{unframed}{}", "x".repeat(100_000)).as_bytes()).unwrap();
    let mut answer = String::new();
    phone.read_to_string(&mut answer).unwrap();
    assert_eq!(found(&answer, "SIP/2.0 "), ["400 Bad Content-Length"]);
    // The peer may go on for a while, then the connection is closed.
    let ends = (0..6000).any(|_| {
        thread::sleep(Duration::from_millis(10));
        phone.write_all(b"more").is_err()
    });
    assert!(ends, "the connection stays");
}

#[test]
fn a_flooding_connection_gets_a_share_and_others_are_served() {
    let site = Site::new();
    let limits = "[limits]\ntrusted = [\"127.0.0.0/8\"]\nmax_wait = \"10ms\"";
    let config = show(&site.file("c.toml", limits));
    let (_server, [_, tcp]) = serve(&site, &format!("--config {config}"));
    let counter = |name: &str| status(&site)["counters"][name].as_u64().unwrap();
    let phone = TcpStream::connect(&tcp).unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    let from = phone.local_addr().unwrap();
    let none = "Content-Length: 0\r\n";
    let register = |number| request("REGISTER", "sip:example.com", "TCP", from, number, none);
    let invite = |number| request("INVITE", "sip:bob@example.com", "TCP", from, number, none);
    let is_over = AtomicBool::new(false);
    let (sent, answers) = thread::scope(|scope| {
        let written = scope.spawn(|| {
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                let calls: String = (sent + 1..sent + 1000).map(invite).collect();
                (&phone).write_all((register(sent) + &calls).as_bytes()).unwrap();
                sent += 1000;
            }
            phone.shutdown(Shutdown::Write).unwrap();
            sent
        });
        let read = scope.spawn(|| {
            let mut answers = String::new();
            (&phone).read_to_string(&mut answers).unwrap();
            answers
        });
        let given_up = Instant::now() + PATIENCE;
        while counter("overload-dropped") == 0 && Instant::now() < given_up {
            thread::sleep(Duration::from_millis(100));
        }
        is_over.store(true, Ordering::Relaxed);
        (written.join().unwrap(), read.join().unwrap())
    });
    let (dropped, refused) = (counter("overload-dropped"), counter("overload-refused"));
    assert!(dropped > 0 && refused > 0, "of {sent} {dropped} dropped, {refused} refused");
    let statuses = found(&answers, "SIP/2.0 ");
    let count = |wanted| statuses.iter().filter(|status| status.starts_with(wanted)).count() as u64;
    assert_eq!(count("200 "), u64::from(sent / 1000), "registrations are served");
    assert_eq!(count("503 "), refused);
    assert_eq!(found(&answers, "Retry-After: ").len() as u64, refused);
    assert!(count("404 ") > 0, "some calls are served");
    assert_eq!(statuses.len() as u64 + dropped, u64::from(sent));
    let numbers: Vec<u32> =
        found(&answers, "Call-ID: ").iter().map(|number| number.parse().unwrap()).collect();
    assert!(numbers.is_sorted(), "each in its turn");
}

#[test]
fn a_registration_ends_with_its_connection() {
    let site = Site::new();
    let (_server, [_, tcp]) = serve(&site, "");
    let mut phone = TcpStream::connect(tcp).unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    let from = phone.local_addr().unwrap();
    let contact = format!("Contact: <sip:bob@{from};transport=tcp>\r\nContent-Length: 0\r\n");
    let register = request("REGISTER", "sip:example.com", "TCP", from, 1, &contact);
    phone.write_all(register.as_bytes()).unwrap();
    let mut answer = [0; 2000];
    let length = phone.read(&mut answer).unwrap();
    assert!(answer[..length].starts_with(b"SIP/2.0 200 "), "{}", answer.escape_ascii());
    assert!(site.good("registrations").contains("bob"));
    drop(phone);
    let begun = Instant::now();
    while site.good("registrations").contains("bob") {
        assert!(begun.elapsed() < PATIENCE, "the registration stays");
    }
}
