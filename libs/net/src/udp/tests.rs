use super::*;
use std::net::{IpAddr, Ipv6Addr};

fn receive(inbox: &mut Inbox, socket: &Socket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut received = Vec::new();
    while received.len() < count {
        inbox
            .receive(socket, |datagram| {
                received.push((datagram.local, datagram.bytes.to_vec()));
            })
            .unwrap();
    }
    received
}

fn exchange(bound: &str, target: &str) {
    let timed = Options { is_timed: true, ..Options::default() };
    let Ok(socket) = Socket::bind(bound.parse().unwrap(), timed) else {
        assert!(bound.starts_with('['), "IPv4 is everywhere");
        return;
    };
    let target: IpAddr = target.parse().unwrap();
    let local = SocketAddr::new(target, socket.address().port());
    assert!(socket.serves(local));
    let peer = Socket::bind(SocketAddr::new(target, 0), timed).unwrap();
    let many: Vec<Vec<u8>> = (0..BATCH + 3).map(|index| vec![index as u8; index]).collect();
    let mut outbox = Outbox::default();
    let there: Vec<_> = many
        .iter()
        .map(|bytes| Outgoing { remote: Some(local), local: peer.address().ip(), bytes })
        .collect();
    outbox.send(&peer, there, |_| panic!("refused"));
    let mut inbox = Inbox::new(BATCH, MAX_DATAGRAM);
    let received = receive(&mut inbox, &socket, many.len());
    assert!(received.iter().all(|(to, _)| *to == local), "{received:?}");
    assert!(received.iter().map(|(_, bytes)| bytes).eq(&many));
    let back: Vec<_> = many
        .iter()
        .map(|bytes| Outgoing { remote: Some(peer.address()), local: target, bytes })
        .collect();
    outbox.send(&socket, back, |_| panic!("refused"));
    assert!(receive(&mut inbox, &peer, many.len()).iter().map(|(_, bytes)| bytes).eq(&many));
}

#[test]
fn batches_arrive_whole_and_in_order_with_the_address_they_were_sent_to() {
    exchange("127.0.0.1:0", "127.0.0.1");
    exchange("0.0.0.0:0", "127.0.0.2");
    exchange("[::]:0", "::1");
}

#[test]
fn a_filter_drops_a_share_except_exempt_datagrams() {
    let timed = Options { is_timed: true, ..Options::default() };
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), timed).unwrap();
    let peer = Socket::bind("127.0.0.1:0".parse().unwrap(), timed).unwrap();
    let texts = ["INVITE sip:bob", "BYE sip:bob", "SIP/2.0 200 OK", "x"];
    let exempt = [*b"SIP/", *b"ACK ", *b"BYE "];
    let mut inbox = Inbox::new(BATCH, MAX_DATAGRAM);
    let mut counts = |parts| {
        socket.admit(parts, &exempt).unwrap();
        let mut counts = [0; 4];
        for _ in 0..50 {
            let datagrams = (0..40).map(|index| Outgoing {
                remote: Some(socket.address()),
                local: peer.address().ip(),
                bytes: texts[index % texts.len()].as_bytes(),
            });
            Outbox::default().send(&peer, datagrams, |_| panic!("refused"));
            inbox
                .receive(&socket, |datagram| {
                    let index = texts.iter().position(|text| text.as_bytes() == datagram.bytes);
                    counts[index.unwrap()] += 1;
                })
                .unwrap();
        }
        counts
    };
    assert_eq!(counts(1 << 16), [500; 4]);
    let [invites, byes, responses, short] = counts(1 << 14);
    // The limits are seven standard deviations away.
    assert!((60..190).contains(&invites), "{invites}");
    // The kernel drops datagrams that are too short for the filter.
    assert_eq!((byes, responses, short), (500, 500, 0));
    assert!(u64::from(socket.dropped()) >= 500, "{}", socket.dropped());
    assert_eq!(counts(0)[..3], [0, 500, 500]);
    assert_eq!(counts(1 << 16), [500; 4]);
}

/// Sends runs of datagrams of equal length to a coalescing socket, with and without a filter.
fn coalesce(bound: &str, target: &str) {
    let coalescing = Options { is_coalescing: true, is_timed: true, ..Options::default() };
    let Ok(socket) = Socket::bind(bound.parse().unwrap(), coalescing) else {
        assert!(bound.starts_with('['), "IPv4 is everywhere");
        return;
    };
    let remote = SocketAddr::new(target.parse().unwrap(), socket.address().port());
    let segmenting = Options { is_segmenting: true, ..Options::default() };
    let peer = Socket::bind(SocketAddr::new(remote.ip(), 0), segmenting).unwrap();
    let text = |begin: &[u8], index: u8| -> Vec<u8> {
        begin.iter().copied().chain(std::iter::repeat_n(index, 300)).collect()
    };
    let send = |begin: &[u8]| {
        let texts: Vec<_> = (0..20).map(|index| text(begin, index)).collect();
        let local = peer.address().ip();
        let datagrams = texts.iter().map(|bytes| Outgoing { remote: Some(remote), local, bytes });
        Outbox::default().send(&peer, datagrams, |_| panic!("refused"));
        texts
    };
    let mut inbox = Inbox::new(BATCH, MAX_DATAGRAM);
    let mut receive = || {
        let mut received = Vec::new();
        let places = inbox
            .receive(&socket, |datagram| {
                assert_eq!((datagram.remote, datagram.local), (peer.address(), remote));
                assert!(datagram.at.is_some());
                received.push(datagram.bytes.to_vec());
            })
            .unwrap();
        (places, received)
    };
    let exempt = [*b"BYE "];
    let invites = send(b"INVI");
    // Datagrams that wait when a filter is set are still separated.
    socket.admit(0, &exempt).unwrap();
    let (together, received) = receive();
    assert!(together == 1 || together == 20, "{together}");
    assert_eq!(received, invites);
    send(b"INVI");
    let byes = send(b"BYE ");
    assert_eq!(receive(), (together, byes));
    socket.admit(1 << 16, &exempt).unwrap();
    // The drop counter is reported with the next datagrams, and the control buffer has room for it,
    // too.
    assert_eq!(send(b"INVI"), receive().1);
    assert!(socket.dropped() > 0);
}

#[test]
fn no_more_places_are_filled_than_asked_for() {
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
    let peer = Socket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
    let texts: Vec<_> = (0..10).map(|index| [index; 9]).collect();
    let mut inbox = Inbox::new(BATCH, 100);
    for _ in 0..2 {
        let datagrams = texts.iter().map(|bytes| Outgoing {
            remote: Some(socket.address()),
            local: peer.address().ip(),
            bytes,
        });
        Outbox::default().send(&peer, datagrams, |_| panic!("refused"));
        let mut received = Vec::new();
        for (asked, used) in [(3, 3), (0, 0), (BATCH + 1, 7), (1, 0)] {
            let each = |datagram: Received<'_>| received.push(datagram.bytes.to_vec());
            assert_eq!(inbox.receive_into(asked, &socket, each).unwrap(), used);
        }
        assert!(received.iter().eq(&texts));
    }
}

#[test]
fn coalesced_datagrams_are_split() {
    coalesce("127.0.0.1:0", "127.0.0.1");
    coalesce("0.0.0.0:0", "127.0.0.2");
    coalesce("[::]:0", "::1");
}

#[test]
fn a_group_does_not_share_its_port_with_other_sockets() {
    let group = Socket::bind_group("127.0.0.1:0".parse().unwrap(), 3).unwrap();
    assert_eq!(group.len(), 3);
    assert!(group.iter().all(|socket| socket.address() == group[0].address()));
    assert!(Socket::bind_group(group[0].address(), 1).is_err());
}

#[test]
fn the_receive_buffer_has_the_requested_size_or_the_limit_of_the_system() {
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let granted = |requested: usize| {
        let options = Options { receive_buffer: requested, ..Options::default() };
        let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
        socket.receive_buffer().unwrap()
    };
    assert_eq!(granted(limit / 2), limit / 2);
    let above = granted(limit * 2);
    assert!([limit, limit * 2].contains(&above), "{above}");
    for socket in Socket::bind_group("127.0.0.1:0".parse().unwrap(), 2).unwrap() {
        assert!(socket.receive_buffer().unwrap() >= RECEIVE_BUFFER.min(limit));
    }
}

#[test]
fn both_families_listen_on_one_port() {
    let v4 = Socket::bind_group("0.0.0.0:0".parse().unwrap(), 1).unwrap();
    let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), v4[0].address().port());
    match Socket::bind_group(v6, 1) {
        Ok(group) => assert_eq!(group[0].address(), v6),
        Err(error) => assert_ne!(error.kind(), io::ErrorKind::AddrInUse),
    }
}

#[test]
fn refused_datagrams_are_returned_and_the_others_sent() {
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
    socket.connect(socket.address()).unwrap();
    let too_long = vec![0; 70_000];
    let local = socket.address().ip();
    let to_self = |bytes, remote| Outgoing { remote, local, bytes };
    let datagrams = [
        to_self(&b"a"[..], None),
        to_self(&too_long[..], None),
        to_self(&b"b"[..], Some(socket.address())),
    ];
    let mut refused = Vec::new();
    Outbox::default().send(&socket, datagrams, |datagram| refused.push(datagram.bytes.len()));
    assert_eq!(refused, [70_000]);
    let received = receive(&mut Inbox::new(BATCH, MAX_DATAGRAM), &socket, 2);
    assert_eq!(received[0].1, b"a");
    assert_eq!(received[1].1, b"b");
}

#[test]
fn datagrams_that_are_joined_arrive_apart() {
    let segmenting = Options { is_segmenting: true, ..Options::default() };
    let sender = Socket::bind("127.0.0.1:0".parse().unwrap(), segmenting).unwrap();
    let receiver = Socket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
    // Runs of equal length, single datagrams, empty ones, and some that are too long to be joined.
    let lengths = [500; 40].into_iter().chain([500, 7, 7, 0, 0, 1001, 1001, 1000, 1000, 3]);
    let many: Vec<Vec<u8>> =
        lengths.enumerate().map(|(index, length)| vec![index as u8; length]).collect();
    let (remote, local) = (Some(receiver.address()), sender.address().ip());
    let datagrams: Vec<_> = many.iter().map(|bytes| Outgoing { remote, local, bytes }).collect();
    Outbox::default().send(&sender, datagrams, |_| panic!("refused"));
    let received = receive(&mut Inbox::new(BATCH, MAX_DATAGRAM), &receiver, many.len());
    assert!(received.iter().map(|(_, bytes)| bytes).eq(&many));
}

#[test]
fn datagrams_that_cannot_be_joined_are_sent_alone() {
    let segmenting = Options { is_segmenting: true, ..Options::default() };
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), segmenting).unwrap();
    let local = socket.address().ip();
    // Without checksums the kernel does not segment.
    let no_checksum = 1;
    // SAFETY: the option is an int, and so is the value to which the pointer points.
    let result = unsafe {
        libc::setsockopt(
            socket.fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const no_checksum).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
    let one = Outgoing { remote: Some(socket.address()), local, bytes: b"once" };
    let mut outbox = Outbox::default();
    outbox.send(&socket, [one; 5], |_| panic!("refused"));
    assert_eq!(receive(&mut Inbox::new(BATCH, 100), &socket, 5).len(), 5);
    assert!(outbox.refuses_segments);
}

#[test]
fn a_connected_socket_counts_refused_datagrams() {
    let closed = Socket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
    let address = closed.address();
    drop(closed);
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), Options::default()).unwrap();
    socket.connect(address).unwrap();
    let one = Outgoing { remote: None, local: socket.address().ip(), bytes: b"anybody?" };
    assert_eq!(socket.refused(), 0);
    // The error of the first datagram is reported by the next call.
    Outbox::default().send(&socket, [one], |_| panic!("refused"));
    assert_eq!(Inbox::new(BATCH, 100).receive(&socket, |_| panic!("an answer")).unwrap(), 0);
    assert_eq!(socket.refused(), 1);
    Outbox::default().send(&socket, [one], |_| panic!("refused"));
    Outbox::default().send(&socket, [one], |_| panic!("refused"));
    assert!(socket.refused() >= 2, "{}", socket.refused());
}

#[test]
fn a_timed_socket_tells_when_a_datagram_came_and_how_many_were_dropped() {
    let options = Options { is_timed: true, receive_buffer: 4096, ..Options::default() };
    let socket = Socket::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let before = now();
    let bytes = [0; 1000];
    let datagrams =
        [Outgoing { remote: Some(socket.address()), local: socket.address().ip(), bytes: &bytes };
            BATCH];
    let mut outbox = Outbox::default();
    outbox.send(&socket, datagrams.iter().copied(), |_| panic!("refused"));
    let mut inbox = Inbox::new(BATCH, 2000);
    let mut times = Vec::new();
    inbox.receive(&socket, |received| times.push(received.at.unwrap())).unwrap();
    assert!(times.len() < BATCH, "the buffer is small");
    assert!(times.iter().all(|&at| at >= before && at <= now()));
    outbox.send(&socket, datagrams[..1].iter().copied(), |_| panic!("refused"));
    let mut dropped = 0;
    inbox.receive(&socket, |received| dropped = received.dropped).unwrap();
    assert_eq!(dropped as usize, BATCH - times.len());
}

/// A port that is closed.
fn closed(address: IpAddr) -> SocketAddr {
    let socket = Socket::bind(SocketAddr::new(address, 0), Options::default()).unwrap();
    socket.address()
}

/// Sends to a closed port and to an open one in turn, and receives while errors are pending.
fn send_to_closed_port(bound: &str, target: &str) {
    let options = Options { is_segmenting: true, reports_errors: true, ..Options::default() };
    let Ok(socket) = Socket::bind(bound.parse().unwrap(), options) else {
        assert!(bound.starts_with('['), "IPv4 is everywhere");
        return;
    };
    let target: IpAddr = target.parse().unwrap();
    let (here, closed) = (SocketAddr::new(target, socket.address().port()), closed(target));
    let peer = Socket::bind(SocketAddr::new(target, 0), Options::default()).unwrap();
    let texts: Vec<Vec<u8>> = (0..12).map(|index| vec![index; 200]).collect();
    let to = |remote, bytes| Outgoing { remote: Some(remote), local: target, bytes };
    let (mut outbox, mut inbox) = (Outbox::default(), Inbox::new(BATCH, MAX_DATAGRAM));
    // Each pair of datagrams to the open port is joined.
    let datagrams: Vec<_> = texts
        .chunks(2)
        .flat_map(|pair| {
            let open = pair.iter().map(|bytes| to(peer.address(), bytes));
            [to(closed, &pair[0])].into_iter().chain(open)
        })
        .collect();
    outbox.send(&socket, datagrams, |_| panic!("refused"));
    assert!(!outbox.refuses_segments);
    let received = receive(&mut inbox, &peer, texts.len());
    assert!(received.iter().map(|(_, bytes)| bytes).eq(&texts));
    // The last error is reported to one call.
    outbox.send(&socket, [to(closed, b"last")], |_| panic!("refused"));
    outbox.send(&peer, [to(here, b"hello")], |_| panic!("refused"));
    let mut count = 0;
    inbox.receive(&socket, |_| count += 1).unwrap();
    assert_eq!(count, 1, "the datagram behind the error");
    assert!(socket.refused() > 0);
    let mut undelivered = Vec::new();
    socket.undelivered(|one| undelivered.push((one.remote, one.payload.to_vec())));
    let sent = texts.iter().step_by(2).cloned().chain([b"last".to_vec()]);
    assert!(undelivered.into_iter().eq(sent.map(|text| (closed, text))));
    socket.undelivered(|one| panic!("{one:?} again"));
}

#[test]
fn icmp_errors_name_the_datagram_and_stop_no_other_one() {
    send_to_closed_port("127.0.0.1:0", "127.0.0.1");
    send_to_closed_port("0.0.0.0:0", "127.0.0.2");
    send_to_closed_port("[::]:0", "::1");
}

#[test]
fn an_icmp_error_reaches_one_socket_of_a_group() {
    let group = Socket::bind_group("127.0.0.1:0".parse().unwrap(), 3).unwrap();
    let closed = closed(group[0].address().ip());
    for (index, socket) in group.iter().enumerate() {
        let bytes = [index as u8; 2000];
        let one = Outgoing { remote: Some(closed), local: closed.ip(), bytes: &bytes };
        Outbox::default().send(socket, [one], |_| panic!("refused"));
    }
    let mut quoted = Vec::new();
    for socket in &group {
        socket.undelivered(|one| {
            assert_eq!(one.remote, closed);
            // The kernel quotes 576 bytes of the packet.
            assert!(one.payload.len() > 500 && one.payload.len() < 2000);
            quoted.push(one.payload[0]);
        });
    }
    quoted.sort_unstable();
    assert_eq!(quoted, [0, 1, 2]);
}
