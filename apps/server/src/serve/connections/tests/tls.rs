//! Streams over loopback with TLS.

use super::*;
use net::tls::{Client, ClientCertificates, Identity, Server, Trust, make_self_signed};

/// A TLS server named `example.org`, and a client that trusts it.
fn ends() -> (Server, Client) {
    let folder = tempfile::tempdir().unwrap();
    let [chain, key] = ["chain", "key"].map(|name| folder.path().join(name));
    make_self_signed(&["example.org".to_owned()], &chain, &key).unwrap();
    let identity = Identity::read(&chain, &key).unwrap();
    let trust = Trust::Pinned(identity.fingerprint());
    let server = Server::new(vec![identity], &ClientCertificates::Off, None).unwrap();
    (server, Client::new(&trust, None, false).unwrap())
}

fn name() -> ServerName<'static> {
    ServerName::try_from("example.org").unwrap()
}

/// The TLS session of the peer.
struct Peer(Session);

impl Peer {
    /// Writes the pending TLS output to the socket.
    fn write(&mut self, rig: &mut Rig) {
        let mut out = Vec::new();
        self.0.take(&mut out);
        rig.peer.write_all(&out).unwrap();
    }

    /// Reads the available input and returns the plaintext.
    fn read(&mut self, rig: &mut Rig) -> Vec<u8> {
        let mut bytes = [0; 1 << 16];
        rig.peer.set_nonblocking(true).unwrap();
        let count = rig.peer.read(&mut bytes).unwrap_or(0);
        rig.peer.set_nonblocking(false).unwrap();
        let mut plain = Vec::new();
        self.0.receive(&bytes[..count], &mut plain).unwrap();
        plain
    }
}

impl Rig {
    /// Reads, or makes a handshake step, as a worker and a handshake thread do.
    fn read(
        &self,
        visit: impl FnMut(StreamItem<'_>) -> ControlFlow<()>,
    ) -> Result<More, ReadError> {
        let chunk = &mut [0; 1000];
        if self.stream.is_handshaking() {
            self.set.remove(&self.stream.socket);
            self.stream.shake_hands(self.now, chunk, &self.set, |_| vec![name()]);
            return Ok(More::Later);
        }
        self.stream.read(self.now, chunk, &self.set, visit)
    }

    /// Handles all events until no more occur for a moment. Returns the plaintext that the peer
    /// received.
    fn settle(&mut self, peer: &mut Peer, seen: &mut Seen) -> Vec<u8> {
        let (mut said, mut idle) = (Vec::new(), 0);
        while idle < 20 {
            peer.write(self);
            let ready = self.ready();
            if ready.contains(EpollFlags::EPOLLOUT) {
                self.stream.flush(self.now, &self.set).unwrap();
            }
            if ready.contains(EpollFlags::EPOLLIN) || self.stream.has_left() {
                self.read(|heard| seen.hear(heard)).unwrap();
            }
            let new = peer.read(self);
            idle = if ready.is_empty() && new.is_empty() { idle + 1 } else { 0 };
            said.extend(new);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        said
    }
}

#[test]
fn messages_go_both_ways_over_tls() {
    let (server, client) = ends();
    let mut rig = Rig::accepted_by(Transport::Tls, Some(server.accept().unwrap()));
    assert_eq!(rig.due(), 10, "keys have to be agreed on soon");
    assert!(rig.stream.is_handshaking());
    let (mut peer, mut seen) = (Peer(client.connect(name()).unwrap()), Seen::default());
    rig.settle(&mut peer, &mut seen);
    assert!(!rig.stream.is_handshaking());
    assert_eq!(rig.due(), 60);
    peer.0.send(&message("1"));
    rig.settle(&mut peer, &mut seen);
    assert_eq!(seen.0, [message("1")]);
    let long = vec![b'a'; 300_000];
    rig.send(&long).unwrap();
    rig.send(b"end").unwrap();
    let said = rig.settle(&mut peer, &mut seen);
    assert!(said == [&long[..], b"end"].concat());
    peer.0.end();
    peer.write(&mut rig);
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    let read = rig.stream.read(BEGIN, &mut [0; 1000], &rig.set, |heard| seen.hear(heard));
    assert_eq!(read, Ok(More::Never));
}

#[test]
fn messages_wait_until_the_other_end_is_known() {
    let (server, client) = ends();
    let mut rig = Rig::connecting_by(Transport::Tls, Some(client.connect(name()).unwrap()));
    rig.send(&message("1")).unwrap();
    let (mut peer, mut seen) = (Peer(server.accept().unwrap()), Seen::default());
    assert_eq!(rig.settle(&mut peer, &mut seen), message("1"));
    assert_eq!(rig.due(), 60);
    assert_eq!(rig.stream.close(), (true, Vec::<Undelivered>::new()));
}

#[test]
fn messages_for_another_certificate_name_come_back() {
    let (server, _) = ends();
    let (_, client) = ends();
    let mut rig = Rig::connecting_by(Transport::Tls, Some(client.connect(name()).unwrap()));
    rig.send(&message("1")).unwrap();
    let mut peer = Peer(server.accept().unwrap());
    let error = loop {
        if rig.ready().contains(EpollFlags::EPOLLOUT) {
            rig.stream.flush(BEGIN, &rig.set).unwrap();
        }
        peer.read(&mut rig);
        peer.write(&mut rig);
        if rig.stream.is_handshaking() {
            rig.read(|_| panic!("a message")).unwrap();
        }
        match rig.read(|_| panic!("a message")) {
            Ok(more) => assert_ne!(more, More::Never),
            Err(ReadError::Tls(error)) => break error,
            Err(error) => panic!("{error:?}"),
        }
    };
    assert!(error.to_string().contains("is pinned"), "{error}");
    assert!(rig.stream.begin_end(Ending::ByPeer, BEGIN, &rig.set).unwrap());
    assert!(rig.stream.has_shaken_hands());
    assert_eq!(rig.stream.close(), (false, vec![(rig.stream.flow(), message("1"))]));
}

#[test]
fn data_without_tls_ends_the_connection() {
    let (server, _) = ends();
    let mut rig = Rig::accepted_by(Transport::Tls, Some(server.accept().unwrap()));
    rig.peer.write_all(&message("1")).unwrap();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    rig.read(|_| panic!("a message")).unwrap();
    assert!(rig.ready().contains(EpollFlags::EPOLLOUT), "the worker is woken to hear of it");
    let read = rig.read(|_| panic!("a message"));
    let Err(ReadError::Tls(error)) = read else { panic!("{read:?}") };
    assert!(error.to_string().contains("does not speak TLS"), "{error}");
}

#[test]
fn messages_wait_while_a_thread_has_the_handshake() {
    let (server, client) = ends();
    let mut rig = Rig::connecting_by(Transport::Tls, Some(client.connect(name()).unwrap()));
    let (mut peer, mut seen) = (Peer(server.accept().unwrap()), Seen::default());
    let wire = rig.stream.take_wire().unwrap();
    rig.send(&message("1")).unwrap();
    assert!(rig.stream.is_handshaking());
    rig.stream.flush(BEGIN, &rig.set).unwrap();
    rig.stream.give_wire(wire);
    assert_eq!(rig.settle(&mut peer, &mut seen), message("1"));

    let rig = Rig::connecting_by(Transport::Tls, Some(client.connect(name()).unwrap()));
    rig.send(&message("2")).unwrap();
    let _wire = rig.stream.take_wire().unwrap();
    let undelivered = vec![(rig.stream.flow(), message("2"))];
    assert_eq!(rig.stream.close(), (false, undelivered), "it ends meanwhile");
}

#[test]
fn data_behind_the_handshake_is_read() {
    let (server, client) = ends();
    let mut rig = Rig::accepted_by(Transport::Tls, Some(server.accept().unwrap()));
    let mut peer = Peer(client.connect(name()).unwrap());
    peer.write(&mut rig);
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    rig.read(|_| panic!("a message")).unwrap();
    while peer.0.is_handshaking() {
        peer.read(&mut rig);
    }
    peer.0.send(&message("1"));
    peer.write(&mut rig);
    let mut seen = Seen::default();
    while !rig.ready().contains(EpollFlags::EPOLLIN) {}
    rig.read(|_| panic!("a message")).unwrap();
    assert!(!rig.stream.is_handshaking() && rig.ready().contains(EpollFlags::EPOLLOUT));
    rig.stream.flush(BEGIN, &rig.set).unwrap();
    assert!(rig.ready().contains(EpollFlags::EPOLLOUT), "until it is heard");
    rig.read(|heard| seen.hear(heard)).unwrap();
    assert_eq!(seen.0, [message("1")]);
    rig.stream.flush(BEGIN, &rig.set).unwrap();
    assert_eq!(rig.ready(), EpollFlags::empty());
}
