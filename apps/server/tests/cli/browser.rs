//! A call to a page in a browser, which checks its path and makes its handshake before it answers.

use crate::calls::invite;
use crate::media::{Phone, ports, response};
use crate::phone::{PATIENCE, found, request, serve, status};
use crate::site::{Site, free_range, show};
use dtls::{Association, Event, Identity};
use net::Reader;
use sdp::dtls::Fingerprint;
use sip::stream::StreamItem;
use sip::stream::websocket::{self, Kind};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};
use stun::{BINDING, Class, Message, TransactionId, Writer, attribute_type as at};

const NONCE: [u8; 16] = [1; 16];
const CONTACT: &str = "Contact: <sip:page@page.invalid;transport=ws>\r\n";
/// The user fragment of the page.
const UFRAG: &str = "page";
/// The time between two looks at a socket.
const PAUSE: Duration = Duration::from_millis(20);

/// A page of sip:bob@example.com.
struct Page {
    web: TcpStream,
    reader: Reader,
    waiting: VecDeque<String>,
}

/// The media of one call of a page.
struct PageMedia {
    socket: UdpSocket,
    /// The offer to the page, and the port of the relay in it.
    offer: String,
    relay: SocketAddr,
}

/// The value of the attribute `name` in a description.
fn value(description: &str, name: &str) -> String {
    found(description, &format!("a={name}:")).swap_remove(0)
}

impl Page {
    /// A page that has registered at `server` over WebSocket.
    fn registered(server: &str) -> Self {
        let web = TcpStream::connect(server).unwrap();
        web.set_read_timeout(Some(PATIENCE)).unwrap();
        let (reader, waiting) = (Reader::web_client(NONCE), VecDeque::new());
        let mut page = Self { web, reader, waiting };
        page.web.write_all(&websocket::request("example.com", NONCE)).unwrap();
        let from = page.web.local_addr().unwrap();
        let more = format!("{CONTACT}Content-Length: 0\r\n");
        page.send(&request("REGISTER", "sip:example.com", "WS", from, 1000, &more));
        page.receive("SIP/2.0 200 ");
        page
    }

    fn send(&mut self, message: &str) {
        let mut frame = Vec::new();
        websocket::write_frame(&mut frame, Kind::Text, Some([1; 4]), message.as_bytes());
        self.web.write_all(&frame).unwrap();
    }

    /// Receives the next message that begins with `start`. Others are skipped.
    fn receive(&mut self, start: &str) -> String {
        loop {
            while let Some(message) = self.waiting.pop_front() {
                if message.starts_with(start) {
                    return message;
                }
            }
            let mut part = [0; 4096];
            let length = self.web.read(&mut part).unwrap();
            assert_ne!(length, 0, "the connection is closed before {start}");
            let waiting = &mut self.waiting;
            let visit = |item: StreamItem<'_>| {
                if let StreamItem::Message(bytes) = item {
                    waiting.push_back(String::from_utf8_lossy(bytes).into_owned());
                }
                ControlFlow::Continue(())
            };
            self.reader.receive(&part[..length], visit, drop).unwrap();
        }
    }

    /// Answers `invite` with media of this identity.
    fn answer(&mut self, invite: &str, identity: &Identity) {
        let body = format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
             m=audio 9 UDP/TLS/RTP/SAVPF 0\r\nc=IN IP4 0.0.0.0\r\na=rtcp-mux\r\n\
             a=ice-ufrag:{UFRAG}\r\na=ice-pwd:abcdefghijklmnopqrstuv\r\n\
             a=fingerprint:{}\r\na=setup:active\r\n",
            identity.fingerprint()
        );
        let more = format!(
            "{CONTACT}Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{}",
            body.len(),
            body.trim_end_matches("\r\n")
        );
        self.send(&response(invite, "200 OK", &more));
    }
}

impl PageMedia {
    /// The media of a call with the offer in `invite`.
    fn new(invite: &str) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(PAUSE)).unwrap();
        let relay = (Ipv4Addr::LOCALHOST, ports(invite)[0]).into();
        Self { socket, offer: invite.to_owned(), relay }
    }

    /// The next datagram, if there is one.
    fn receive(&self) -> Option<Vec<u8>> {
        let mut buffer = [0; 2000];
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(buffer[..length].to_vec())
    }

    /// Calls `attempt` until it returns true.
    fn repeat(&self, what: &str, mut attempt: impl FnMut(&Self) -> bool) {
        let give_up = Instant::now() + PATIENCE;
        while !attempt(self) {
            assert!(Instant::now() < give_up, "{what} is expected");
        }
    }

    /// Sends checks that nominate, until one is answered.
    fn nominate(&self) {
        let mut check = Vec::new();
        let mut writer = Writer::new(Class::Request, BINDING, TransactionId([7; 12]), &mut check);
        let user = format!("{}:{UFRAG}", value(&self.offer, "ice-ufrag"));
        let fields: [(u16, &[u8]); 4] = [
            (at::USERNAME, user.as_bytes()),
            (at::PRIORITY, &[0x7e, 0, 0, 0xff]),
            (at::ICE_CONTROLLING, &[1; 8]),
            (at::USE_CANDIDATE, &[]),
        ];
        for (number, value) in fields {
            writer.attribute(number, value).unwrap();
        }
        writer.integrity(value(&self.offer, "ice-pwd").as_bytes()).unwrap();
        writer.fingerprint().unwrap();
        self.repeat("the response to a check", |media| {
            media.socket.send_to(&check, media.relay).unwrap();
            media.receive().is_some_and(|datagram| {
                Message::parse(&datagram).is_ok_and(|response| response.class == Class::Success)
            })
        });
    }

    /// Makes the handshake of the client, to its end.
    fn shake_hands(&self, identity: &Identity) {
        let mut association = Association::new(identity, true, Instant::now()).unwrap();
        association.expect(&[Fingerprint::parse(&value(&self.offer, "fingerprint")).unwrap()]);
        self.repeat("the end of the handshake", |media| {
            association.on_timeout(Instant::now()).unwrap();
            let mut has_keys = false;
            loop {
                match association.poll().unwrap() {
                    Event::Send(datagram) => {
                        media.socket.send_to(datagram, media.relay).unwrap();
                    }
                    Event::Keys(_) => has_keys = true,
                    Event::Wait(_) => break,
                }
            }
            if let Some(datagram) = media.receive().filter(|_| !has_keys) {
                association.receive(Instant::now(), &datagram).unwrap();
            }
            has_keys
        });
    }
}

/// A page gathers candidates before it answers, and its browser checks and shakes hands meanwhile.
/// Streams belong to the workers in turn, and without load the first worker serves those of the
/// others. The keys of each call are in use from its answer on.
#[test]
fn a_call_has_audio_though_its_handshake_ends_before_its_answer() {
    let site = Site::new();
    let media = format!("[media]\nrelay = \"all\"\nports = \"{}\"\n", free_range(100).1);
    let config = show(&site.file("c.toml", &media));
    let (_server, [server, _]) =
        serve(&site, &format!("--config {config} --listen ws:127.0.0.1:0"));
    let listens = status(&site)["listens"].clone();
    let listens: Vec<&str> =
        listens.as_array().unwrap().iter().flat_map(|it| it.as_str()).collect();
    let web = listens.iter().find_map(|it| it.strip_prefix("ws:")).unwrap();
    let mut page = Page::registered(web);
    let identity = Identity::generate().unwrap();
    for number in 1..=4 {
        let phone = Phone::new();
        invite(&server, &phone, number);
        let invite = page.receive("INVITE ");
        let media = PageMedia::new(&invite);
        media.nominate();
        media.shake_hands(&identity);
        // The other workers become inactive again after the load of a handshake.
        thread::sleep(Duration::from_secs(1));
        page.answer(&invite, &identity);
        let answer = phone.receive();
        assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
        let mut packet = [0xd5; 172];
        packet[..12].copy_from_slice(&[0x80, 0, 0, 1, 0, 0, 0, 160, 0, 0, 0, 7]);
        media.repeat(&format!("audio of call {number}"), |media| {
            phone.rtp.send_to(&packet, (Ipv4Addr::LOCALHOST, ports(&answer)[0])).unwrap();
            media.receive().is_some_and(|datagram| datagram.first().is_some_and(|it| it >> 6 == 2))
        });
    }
}
