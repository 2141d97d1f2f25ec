//! Streams over loopback, with a simulated clock.

use super::*;
use net::tls::Session;
use std::io::{Read, Write};
use stream::Undelivered;

mod proxied;
mod tls;
mod web;

const BEGIN: Instant = Instant::from_micros(1_000_000);
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// The messages that were read. A ping is an empty message.
#[derive(Default)]
struct Seen(Vec<Vec<u8>>);

impl Seen {
    fn hear(&mut self, heard: StreamItem<'_>) -> ControlFlow<()> {
        self.0.push(match heard {
            StreamItem::Message(bytes) => bytes.to_vec(),
            StreamItem::Ping => Vec::new(),
        });
        ControlFlow::Continue(())
    }
}

/// One connection of a set, and its peer.
struct Rig {
    set: Set,
    stream: Stream,
    peer: TcpStream,
    now: Instant,
}

fn flow(remote: SocketAddr) -> Flow {
    let local = "127.0.0.1:5060".parse().unwrap();
    Flow { transport: Transport::Tcp, local, remote, connection: None }
}

fn number() -> Connection {
    Connection(NonZeroU64::new(7).unwrap())
}

impl Rig {
    fn accepted() -> Self {
        Self::accepted_by(Transport::Tcp, None)
    }

    fn accepted_by(transport: Transport, tls: Option<Session>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, remote) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let flow = Flow { transport, ..flow(remote) };
        Self::new(Stream::accepted(socket, number(), flow, tls, BEGIN), peer, Wait::Read)
    }

    fn connecting() -> Self {
        Self::connecting_by(Transport::Tcp, None)
    }

    fn connecting_by(transport: Transport, tls: Option<Session>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let remote = listener.local_addr().unwrap();
        let socket = net::connect(None, remote).unwrap();
        let peer = listener.accept().unwrap().0;
        let flow = Flow { transport, ..flow(remote) };
        let far_end = (transport, remote, None);
        let stream = Stream::connecting(socket, number(), flow, far_end, tls, BEGIN);
        Self::new(stream, peer, Wait::Both)
    }

    fn new(stream: Stream, peer: TcpStream, wait: Wait) -> Self {
        let set = Set::new().unwrap();
        set.add(&stream.socket, number(), wait).unwrap();
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { set, stream, peer, now: BEGIN }
    }

    /// The pending events of the stream.
    fn ready(&self) -> EpollFlags {
        let ready: Vec<_> = self.set.ready().unwrap().collect();
        assert!(ready.iter().all(|(token, _)| *token == Token::Connection(number())));
        ready.first().map_or(EpollFlags::empty(), |(_, flags)| *flags)
    }

    /// Has the peer write `bytes` after `seconds`, and reads them.
    fn hear(&mut self, seconds: u64, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.now += Duration::from_secs(seconds);
        self.peer.write_all(bytes).unwrap();
        let mut seen = Seen::default();
        while !self.ready().contains(EpollFlags::EPOLLIN) {}
        while self.ready().contains(EpollFlags::EPOLLIN) {
            assert_ne!(
                self.stream.read(self.now, &mut [0; 64], &self.set, |heard| seen.hear(heard)),
                Ok(More::Never)
            );
        }
        seen.0
    }

    /// The seconds from the beginning to the timeout of the connection.
    fn due(&self) -> u64 {
        self.stream.due().since(BEGIN).as_secs()
    }

    fn send(&self, bytes: &[u8]) -> Result<(), SendError> {
        self.stream.send(&self.stream.flow(), &[IoSlice::new(bytes)], &self.set)
    }
}

fn message(call_id: &str) -> Vec<u8> {
    format!("OPTIONS sip:a SIP/2.0\r\nCall-ID: {call_id}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

#[test]
fn messages_come_whole_however_they_are_cut() {
    let text = [message("1"), b"\r\n\r\n".to_vec(), message("2"), message("3")].concat();
    let wanted = [message("1"), Vec::new(), message("2"), message("3")];
    for size in [1, 7, 63, 64, 65, text.len()] {
        let mut rig = Rig::accepted();
        let seen: Vec<_> = text.chunks(size).flat_map(|piece| rig.hear(0, piece)).collect();
        assert_eq!(seen, wanted, "in pieces of {size}");
    }
}

#[test]
fn a_line_end_by_itself_is_no_ping() {
    let mut rig = Rig::accepted();
    assert_eq!(rig.hear(0, b"\r\n"), [b""; 0]);
    assert_eq!(rig.hear(0, &message("1")), [message("1")]);
    assert_eq!(rig.hear(0, b"\r\n"), [b""; 0], "a message was between the two");
    assert_eq!(rig.hear(0, b"\r\n\r"), [b""]);
    assert_eq!(rig.hear(0, b"\n"), [b""; 0]);
}

#[test]
fn malformed_messages_are_returned_with_the_reason() {
    let rig = Rig::accepted();
    let unframed = b"OPTIONS sip:a SIP/2.0\r\nCall-ID: 2\r\n\r\n";
    (&rig.peer).write_all(&[&message("1")[..], unframed].concat()).unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    let mut seen = Seen::default();
    let read = rig.stream.read(BEGIN, &mut [0; 1000], &rig.set, |heard| seen.hear(heard));
    let error = FrameError::ContentLength(unframed.len());
    let fault = Fault { error, rest: unframed.to_vec() };
    assert_eq!(read, Err(ReadError::Fault(fault)));
    assert_eq!(seen.0, [message("1")]);
}

#[test]
fn a_connection_has_its_times() {
    let mut rig = Rig::accepted();
    assert_eq!(rig.due(), 60);
    rig.hear(10, b"\r\n\r\n");
    assert_eq!(rig.due(), 60, "who only pings has said nothing");
    rig.hear(10, &message("1")[..5]);
    rig.hear(10, &message("1")[5..20]);
    assert_eq!(rig.due(), 20 + 20, "a message has its time from its first byte on");
    rig.hear(0, &[&message("1")[20..], b"OPT"].concat());
    assert_eq!(rig.due(), 30 + 20, "and the next one has its own");
    rig.hear(5, &message("2")[3..]);
    assert_eq!(rig.due(), 35 + 3 * 3600);
    rig.hear(100, b"\r\n\r\n");
    assert_eq!(rig.due(), 135 + 3 * 3600);
}

#[test]
fn the_end_of_the_peer_is_reported() {
    let rig = Rig::accepted();
    rig.peer.shutdown(std::net::Shutdown::Write).unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    assert_eq!(
        rig.stream.read(BEGIN, &mut [0; 64], &rig.set, |_| ControlFlow::Continue(())),
        Ok(More::Never)
    );
}

#[test]
fn unwritten_output_keeps_its_order_and_is_bounded() {
    let mut rig = Rig::accepted();
    let piece = |index: usize| vec![(index % 251) as u8; 60_000];
    let mut sent = Vec::new();
    let refused = (0..10_000).find(|&index| match rig.send(&piece(index)) {
        Ok(()) => {
            sent.extend(piece(index));
            false
        }
        Err(error) => matches!(error, SendError::Full),
    });
    assert!(refused.is_some(), "nobody reads, and all is taken");
    assert!(!rig.stream.is_flushed());
    assert!(!rig.ready().contains(EpollFlags::EPOLLOUT));
    let mut got = vec![0; sent.len()];
    let mut peer = rig.peer.try_clone().unwrap();
    let reader = std::thread::spawn(move || peer.read_exact(&mut got).map(|()| got));
    while !rig.stream.is_flushed() {
        if rig.ready().contains(EpollFlags::EPOLLOUT) {
            rig.stream.flush(BEGIN, &rig.set).unwrap();
        }
    }
    assert!(reader.join().unwrap().unwrap() == sent);
    assert_eq!(rig.ready(), EpollFlags::empty(), "room is not waited for any more");
    rig.send(b"more").unwrap();
    let mut more = [0; 4];
    rig.peer.read_exact(&mut more).unwrap();
    assert_eq!(&more, b"more");
}

#[test]
fn messages_wait_for_a_connection_that_is_being_opened() {
    let mut rig = Rig::connecting();
    assert_eq!(rig.due(), 5);
    rig.send(&message("1")).unwrap();
    rig.send(&message("2")).unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLOUT) {}
    rig.stream.flush(BEGIN + Duration::from_secs(1), &rig.set).unwrap();
    assert_eq!(rig.due(), 61);
    let wanted = [message("1"), message("2")].concat();
    let mut got = vec![0; wanted.len()];
    rig.peer.read_exact(&mut got).unwrap();
    assert_eq!(got, wanted);
    assert_eq!(rig.stream.close(), (true, Vec::<Undelivered>::new()));
    assert!(matches!(rig.send(b"late"), Err(SendError::Broken)));
}

#[test]
fn messages_for_a_refused_connection_come_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let remote = listener.local_addr().unwrap();
    drop(listener);
    let socket = net::connect(None, remote).unwrap();
    let far_end = (Transport::Tcp, remote, None);
    let stream = Stream::connecting(socket, number(), flow(remote), far_end, None, BEGIN);
    let set = Set::new().unwrap();
    set.add(&stream.socket, number(), Wait::Both).unwrap();
    stream.send(&flow(remote), &[IoSlice::new(b"one"), IoSlice::new(b"two")], &set).unwrap();
    while set.ready().unwrap().count() == 0 {}
    assert!(matches!(stream.flush(BEGIN, &set), Err(SendError::Broken)));
    let (_, back) = stream.close();
    assert_eq!(back, [(flow(remote), b"one".to_vec()), (flow(remote), b"two".to_vec())]);
}

#[test]
fn reminders_come_in_the_order_of_their_times() {
    let set = Set::new().unwrap();
    let at = |seconds| BEGIN + Duration::from_secs(seconds);
    set.remind(at(3), Token::Listener(0));
    set.remind(at(1), Token::Connection(number()));
    assert_eq!(set.due(at(0)), None);
    assert_eq!(set.due(at(2)), Some(Token::Connection(number())));
    assert_eq!(set.due(at(2)), None);
    assert_eq!(set.due(at(3)), Some(Token::Listener(0)));
}

#[test]
fn a_connection_ends_when_the_last_is_written_and_the_peer_says_no_more() {
    let due = BEGIN + Duration::from_millis(500);
    let rig = Rig::accepted();
    assert!(rig.stream.begin_end(Ending::ByPeer, due, &rig.set).unwrap(), "nothing waits");

    let mut rig = Rig::accepted();
    assert!(!rig.stream.begin_end(Ending::Discarding, due, &rig.set).unwrap());
    assert_eq!(rig.stream.due(), due);
    assert_eq!(rig.peer.read(&mut [0]).unwrap(), 0, "the peer is told at once");
    rig.peer.write_all(b"more").unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    assert!(rig.stream.discard(&mut [0; 64]));
    assert!(rig.stream.discard(&mut [0; 64]), "there may be more");
    rig.peer.shutdown(std::net::Shutdown::Write).unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    assert!(!rig.stream.discard(&mut [0; 64]));

    let rig = Rig::accepted();
    while rig.stream.is_flushed() {
        rig.send(&[b'x'; 60_000]).unwrap();
    }
    rig.peer.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(!rig.stream.begin_end(Ending::ByPeer, due, &rig.set).unwrap());
    assert!(!rig.ready().contains(EpollFlags::EPOLLIN), "its end is not told again and again");
}

#[test]
fn a_peer_that_does_not_read_for_long_is_closed() {
    let mut rig = Rig::accepted();
    let at = |seconds| BEGIN + Duration::from_secs(seconds);
    assert!(!rig.stream.is_stuck(at(1000)), "nothing waits");
    while rig.stream.is_flushed() {
        rig.send(&[b'x'; 60_000]).unwrap();
    }
    assert!(!rig.stream.is_stuck(at(1010)), "some was taken since");
    assert!(!rig.stream.is_stuck(at(1029)));
    assert!(rig.stream.is_stuck(at(1030)));
    let mut some = vec![0; 1 << 20];
    while !rig.ready().contains(EpollFlags::EPOLLOUT) {
        rig.peer.read_exact(&mut some[..1000]).unwrap();
    }
    rig.stream.flush(BEGIN, &rig.set).unwrap();
    assert!(!rig.stream.is_stuck(at(1040)));
}

#[test]
fn connections_of_one_source_share_the_bound_of_output() {
    let unsent = Arc::<Unsent>::default();
    let rigs: Vec<Rig> = (0..8)
        .map(|_| {
            let Rig { set, stream, peer, now } = Rig::accepted();
            Rig { set, stream: stream.counted_in(&unsent), peer, now }
        })
        .collect();
    let closed = |rig: &&Rig| loop {
        match rig.send(&[b'x'; 60_000]) {
            Ok(()) if rig.stream.waiting() > 900_000 => break false,
            Ok(()) => {}
            Err(error) => break matches!(error, SendError::Full),
        }
    };
    assert_eq!(rigs.iter().filter(closed).count(), 4, "4 MiB for one source");
    rigs.iter().for_each(|rig| drop(rig.stream.close()));
    let Rig { set, stream, peer, now } = Rig::accepted();
    let rig = Rig { set, stream: stream.counted_in(&unsent), peer, now };
    assert!(!closed(&&rig), "all is given back");
}

#[test]
fn a_message_that_is_too_much_for_a_connection_being_opened_comes_back_once() {
    let rig = Rig::connecting();
    let message = vec![b'x'; 600_000];
    rig.send(&message).unwrap();
    assert!(matches!(rig.send(&message), Err(SendError::Full)));
    assert_eq!(rig.stream.close(), (false, vec![(rig.stream.flow(), message)]));
}

#[test]
fn tls_on_a_connection_without_is_named() {
    let rig = Rig::accepted();
    (&rig.peer).write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    let read = rig.stream.read(BEGIN, &mut [0; 64], &rig.set, |_| panic!("a message"));
    let Err(ReadError::Fault(fault)) = read else { panic!("{read:?}") };
    assert_eq!(fault.error, FrameError::Tls);
}
