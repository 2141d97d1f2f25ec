//! Streams over loopback with WebSocket.

use super::*;
use net::{Origins, Reader, Reply, Wire};
use sip::stream::websocket::Kind;

/// The WebSocket client of a web page.
struct Page {
    wire: Wire,
    reader: Reader,
    heard: Vec<Vec<u8>>,
}

impl Page {
    fn new() -> Self {
        let wire = Wire::new(None, 1 << 20).web_client("127.0.0.1", [5; 16]);
        Self { wire, reader: Reader::web_client([5; 16]), heard: Vec::new() }
    }

    /// Sends the pending output, has the stream read it, and reads the answer.
    fn talk(&mut self, rig: &mut Rig, seen: &mut Seen) -> Result<More, ReadError> {
        let bytes = self.wire.pending().to_vec();
        self.wire.consume(bytes.len());
        rig.peer.write_all(&bytes).unwrap();
        while !rig.ready().contains(EpollFlags::EPOLLIN) {}
        let chunk = &mut [0; 10_000];
        let read = rig.stream.read(rig.now, chunk, &rig.set, |heard| seen.hear(heard));
        self.hear(rig);
        read
    }

    fn hear(&mut self, rig: &mut Rig) {
        let mut bytes = [0; 10_000];
        rig.peer.set_nonblocking(true).unwrap();
        let count = rig.peer.read(&mut bytes).unwrap_or(0);
        rig.peer.set_nonblocking(false).unwrap();
        let Self { wire, reader, heard } = self;
        let received = reader.receive(
            &bytes[..count],
            |what| {
                heard.push(match what {
                    StreamItem::Message(bytes) => bytes.to_vec(),
                    StreamItem::Ping => Vec::new(),
                });
                ControlFlow::Continue(())
            },
            |reply| wire.reply(reply),
        );
        received.unwrap();
    }
}

/// A connection after the WebSocket handshake.
fn agreed() -> (Rig, Page) {
    let rig = Rig::accepted_by(Transport::Ws, None);
    let Rig { set, stream, peer, now } = rig;
    let mut rig = Rig { set, stream: stream.of_web(Arc::new(Origins::SameHost)), peer, now };
    assert_eq!(rig.due(), 10, "it has to be agreed on soon");
    let mut page = Page::new();
    assert_eq!(page.talk(&mut rig, &mut Seen::default()), Ok(More::Later));
    while !page.wire.is_ready() {
        page.hear(&mut rig);
    }
    assert_eq!(rig.due(), 60);
    (rig, page)
}

#[test]
fn messages_go_both_ways_over_web_socket() {
    let (mut rig, mut page) = agreed();
    let mut seen = Seen::default();
    page.wire.push(&[&message("1")[..], &message("2")]).unwrap();
    page.wire.reply(Reply::Frame(Kind::Ping, b"?".to_vec()));
    assert_eq!(page.talk(&mut rig, &mut seen), Ok(More::Later));
    assert_eq!(seen.0, [message("1"), message("2")]);
    rig.send(&message("3")).unwrap();
    while page.heard.is_empty() {
        page.hear(&mut rig);
    }
    assert_eq!(page.heard, [message("3")]);
    page.wire.reply(Reply::Frame(Kind::Close, Vec::new()));
    assert_eq!(page.talk(&mut rig, &mut seen), Ok(More::Never));
}

#[test]
fn a_silent_client_is_pinged_and_then_closed() {
    let (mut rig, mut page) = agreed();
    let later = |seconds| BEGIN + Duration::from_secs(seconds);
    assert!(rig.stream.is_there(later(20), &rig.set));
    page.hear(&mut rig);
    assert!(page.wire.is_empty(), "it was not asked yet");
    assert!(rig.stream.is_there(later(40), &rig.set));
    while page.wire.is_empty() {
        page.hear(&mut rig);
    }
    rig.now = later(41);
    assert_eq!(page.talk(&mut rig, &mut Seen::default()), Ok(More::Later));
    assert!(rig.stream.is_there(later(120), &rig.set), "it was there 79 s before");
    assert!(!rig.stream.is_there(later(142), &rig.set));
}

#[test]
fn other_requests_than_websocket_are_answered() {
    let rig = Rig::accepted_by(Transport::Ws, None);
    let Rig { set, stream, peer, now } = rig;
    let mut rig = Rig { set, stream: stream.of_web(Arc::new(Origins::SameHost)), peer, now };
    rig.peer.write_all(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    let read = rig.stream.read(BEGIN, &mut [0; 1000], &rig.set, |_| panic!("a message"));
    assert!(matches!(read, Err(ReadError::Fault(_))), "{read:?}");
    assert!(!rig.stream.begin_end(Ending::Discarding, BEGIN, &rig.set).unwrap());
    let mut page = String::new();
    rig.peer.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 426 ") && page.contains("RFC 7118"), "{page}");
}

#[test]
fn an_unfinished_request_has_no_more_time_than_a_silent_peer() {
    let rig = Rig::accepted_by(Transport::Ws, None);
    let Rig { set, stream, peer, now } = rig;
    let mut rig = Rig { set, stream: stream.of_web(Arc::new(Origins::SameHost)), peer, now };
    for bytes in [&b"GET / HT"[..], b"TP/1.1\r\nHost: a\r\n"] {
        rig.hear(4, bytes);
        assert_eq!(rig.due(), 10);
    }
}

#[test]
fn a_page_that_is_asked_for_is_shown_and_the_connection_ends() {
    let rig = Rig::accepted_by(Transport::Ws, None);
    let Rig { set, stream, peer, now } = rig;
    let mut rig = Rig { set, stream: stream.of_web(Arc::new(Origins::SameHost)), peer, now };
    rig.peer.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    let read = rig.stream.read(BEGIN, &mut [0; 1000], &rig.set, |_| panic!("a message"));
    assert_eq!(read, Ok(More::Never));
    assert!(rig.stream.begin_end(Ending::ByPeer, BEGIN, &rig.set).unwrap());
    let mut page = [0; 12];
    rig.peer.read_exact(&mut page).unwrap();
    assert_eq!(&page, b"HTTP/1.1 200");
}
