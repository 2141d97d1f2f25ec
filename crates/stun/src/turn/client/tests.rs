//! The client and the responses of a server: challenges, refusals, renewals, silence, streams.

use super::*;
use proptest::prelude::*;
use std::string::String;
use std::vec;

const REALM: &[u8] = b"example.org";
const PEER: SocketAddr =
    SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::new(198, 51, 100, 7)), 4000);
const RELAYED: SocketAddr =
    SocketAddr::new(IpAddr::V4(core::net::Ipv4Addr::new(203, 0, 113, 2)), 50_000);
const SECOND: Duration = Duration::from_secs(1);

fn random(bytes: &mut [u8]) {
    use std::sync::atomic::{AtomicU8, Ordering};
    static NEXT: AtomicU8 = AtomicU8::new(0);
    bytes.fill(NEXT.fetch_add(1, Ordering::Relaxed));
}

fn credentials() -> Credentials {
    Credentials { user: "alice".into(), password: "secret".into() }
}

fn client(transport: Transport) -> Client {
    let mut client = Client::new(credentials(), transport, false, random);
    assert_eq!((client.next_timer(), client.poll(SECOND)), (None, None), "it has not begun");
    client.begin(SECOND);
    client
}

/// The next requests. Each is one message.
fn requests(client: &mut Client, now: Duration) -> Vec<Vec<u8>> {
    let events = core::iter::from_fn(|| client.poll(now));
    events
        .map(|event| match event {
            Event::Send(bytes) => bytes,
            other => panic!("{other:?}"),
        })
        .collect()
}

/// The only request that is due.
fn request(client: &mut Client, now: Duration) -> Vec<u8> {
    let mut requests = requests(client, now);
    assert_eq!(requests.len(), 1);
    requests.remove(0)
}

/// A response to `request`. A success is signed, unless its key is `None`.
fn response(
    request: &[u8],
    class: Class,
    key: Option<&[u8]>,
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
) -> Vec<u8> {
    let (request, mut out) = (Message::parse(request).unwrap(), Vec::new());
    let mut writer = Writer::new(class, request.method, request.id, &mut out);
    write(&mut writer).unwrap();
    if let Some(key) = key {
        writer.integrity(key).unwrap();
    }
    out
}

fn success(
    request: &[u8],
    write: impl FnOnce(&mut Writer<'_>) -> Result<(), WriteError>,
) -> Vec<u8> {
    response(request, Class::Success, Some(&credentials().key(REALM)), write)
}

fn error(request: &[u8], code: u16, nonce: &[u8]) -> Vec<u8> {
    response(request, Class::Error, None, |writer| {
        writer.error(code, "No\nway")?;
        writer.attribute(at::REALM, REALM)?;
        writer.attribute(at::NONCE, nonce)
    })
}

fn handled(client: &mut Client, now: Duration, bytes: &[u8]) {
    assert_eq!(client.receive(now, bytes), Received::Handled);
}

fn allocated(writer: &mut Writer<'_>) -> Result<(), WriteError> {
    writer.xor_address(turn_at::XOR_RELAYED_ADDRESS, RELAYED)?;
    writer.attribute(turn_at::LIFETIME, &600_u32.to_be_bytes())
}

/// A client with a relayed address, at [`SECOND`].
fn with_relay() -> Client {
    let mut client = client(Transport::Udp);
    let first = request(&mut client, SECOND);
    handled(&mut client, SECOND, &error(&first, 401, b"one"));
    let second = request(&mut client, SECOND);
    handled(&mut client, SECOND, &success(&second, allocated));
    assert_eq!(client.poll(SECOND), Some(Event::Allocated(RELAYED)));
    assert_eq!(client.poll(SECOND), None);
    client
}

fn refused(code: u16) -> Event {
    Event::Failed(Error::Refused { code, reason: "Noway".into() }, None)
}

#[test]
fn a_relayed_address_is_requested_with_the_nonce_of_the_server() {
    let mut client = client(Transport::Udp);
    assert!(client.is_waiting());
    let first = request(&mut client, SECOND);
    let message = Message::parse(&first).unwrap();
    assert_eq!((message.class, message.method), (Class::Request, method::ALLOCATE));
    assert_eq!(message.value(turn_at::REQUESTED_TRANSPORT), Some(&[17, 0, 0, 0][..]));
    assert_eq!(message.value(at::USERNAME), None);
    handled(&mut client, SECOND, &response(&first, Class::Success, None, allocated));
    assert!(client.is_waiting(), "a success without a challenge before it is ignored");
    handled(&mut client, SECOND, &error(&first, 401, b"one"));
    let second = request(&mut client, SECOND);
    let message = Message::parse(&second).unwrap();
    assert!(message.has_integrity(&credentials().key(REALM)) && message.has_fingerprint);
    assert_eq!(message.value(at::USERNAME), Some(&b"alice"[..]));
    assert_eq!(message.value(at::NONCE), Some(&b"one"[..]));
    let forged = response(&second, Class::Success, Some(b"other"), allocated);
    handled(&mut client, SECOND, &forged);
    assert!(client.is_waiting(), "a response with another key is ignored");
    handled(&mut client, SECOND, &success(&second, allocated));
    assert_eq!(client.relayed(), Some(RELAYED));
    assert_eq!(client.receive(SECOND, &success(&second, allocated)), Received::Ignored, "once");
}

#[test]
fn a_relayed_address_of_ipv6_is_requested_by_its_family() {
    let mut client = Client::new(credentials(), Transport::Udp, true, random);
    client.begin(SECOND);
    let first = request(&mut client, SECOND);
    let family = Message::parse(&first).unwrap().value(turn_at::REQUESTED_ADDRESS_FAMILY);
    assert_eq!(family, Some(&[2, 0, 0, 0][..]));
    handled(&mut client, SECOND, &error(&first, 401, b"one"));
    let second = request(&mut client, SECOND);
    let family = Message::parse(&second).unwrap().value(turn_at::REQUESTED_ADDRESS_FAMILY);
    assert_eq!(family, Some(&[2, 0, 0, 0][..]));
    handled(&mut client, SECOND, &success(&second, allocated));
    assert_eq!(client.poll(SECOND), Some(Event::Failed(Error::Malformed, None)), "it is IPv4");
}

#[test]
fn refusals_are_reported() {
    for code in [400, 403, 437, 442, 486, 508] {
        let mut client = client(Transport::Udp);
        let first = request(&mut client, SECOND);
        handled(&mut client, SECOND, &error(&first, code, b"one"));
        assert_eq!(client.poll(SECOND), Some(refused(code)));
        assert_eq!((client.is_waiting(), client.next_timer()), (false, None));
    }
    // The server does not accept the credentials.
    let mut client = client(Transport::Udp);
    for _ in 0..2 {
        let bytes = request(&mut client, SECOND);
        handled(&mut client, SECOND, &error(&bytes, 401, b"one"));
    }
    assert_eq!(client.poll(SECOND), Some(refused(401)));
}

#[test]
fn a_stale_nonce_is_replaced_a_few_times() {
    let mut client = client(Transport::Udp);
    let mut bytes = request(&mut client, SECOND);
    handled(&mut client, SECOND, &error(&bytes, 401, b"0"));
    for nonce in [b"1", b"2"] {
        bytes = request(&mut client, SECOND);
        handled(&mut client, SECOND, &error(&bytes, 438, nonce));
    }
    bytes = request(&mut client, SECOND);
    assert_eq!(Message::parse(&bytes).unwrap().value(at::NONCE), Some(&b"2"[..]));
    handled(&mut client, SECOND, &error(&bytes, 438, b"3"));
    assert_eq!(client.poll(SECOND), Some(refused(438)));
}

#[test]
fn a_silent_server_is_asked_seven_times_by_datagrams_and_once_on_a_stream() {
    for (transport, expected) in [(Transport::Udp, 7), (Transport::Stream, 1)] {
        let (mut client, mut sent) = (client(transport), 0);
        let end = loop {
            let now = client.next_timer().unwrap();
            match client.poll(now) {
                Some(Event::Send(_)) => sent += 1,
                Some(Event::Failed(Error::TimedOut, None)) => break now,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((sent, end - SECOND), (expected, Duration::from_millis(39_500)));
    }
}

#[test]
fn peers_are_permitted_one_by_one_and_a_refusal_concerns_one_of_them() {
    let mut client = client(Transport::Udp);
    let other: SocketAddr = ([10, 1, 0, 2], 4000).into();
    for peer in [other, PEER] {
        client.permit(SECOND, peer.ip());
        client.permit(SECOND, peer.ip());
    }
    client.permit(SECOND, IpAddr::V6(core::net::Ipv6Addr::LOCALHOST));
    let first = request(&mut client, SECOND);
    handled(&mut client, SECOND, &error(&first, 401, b"one"));
    let second = request(&mut client, SECOND);
    handled(&mut client, SECOND, &success(&second, allocated));
    assert_eq!(client.poll(SECOND), Some(Event::Allocated(RELAYED)));
    let asked = requests(&mut client, SECOND);
    let peers = asked.iter().map(|bytes| {
        let message = Message::parse(bytes).unwrap();
        assert_eq!(message.method, method::CREATE_PERMISSION);
        message.xor_address(turn_at::XOR_PEER_ADDRESS).unwrap().ip()
    });
    assert_eq!(peers.collect::<Vec<_>>(), [other.ip(), PEER.ip()]);
    let mut out = Vec::new();
    assert_eq!(client.send(PEER, b"early", &mut out), Err(SendError::NotPermitted));
    handled(&mut client, SECOND, &error(&asked[0], 403, b"one"));
    handled(&mut client, SECOND, &success(&asked[1], |_| Ok(())));
    assert_eq!(client.send(other, b"x", &mut out), Err(SendError::NotPermitted));
    client.send(PEER, b"hello", &mut out).unwrap();
    let sent = Message::parse(&out).unwrap();
    assert_eq!((sent.class, sent.method), (Class::Indication, method::SEND));
    assert_eq!(sent.xor_address(turn_at::XOR_PEER_ADDRESS), Some(PEER));
    assert_eq!(sent.value(turn_at::DATA), Some(&b"hello"[..]));
    let from = |peer| {
        let mut out = Vec::new();
        let id = TransactionId([7; 12]);
        let mut writer = Writer::new(Class::Indication, method::DATA, id, &mut out);
        writer.xor_address(turn_at::XOR_PEER_ADDRESS, peer).unwrap();
        writer.attribute(turn_at::DATA, b"hi").unwrap();
        out
    };
    assert_eq!(client.receive(SECOND, &from(PEER)), Received::Data(PEER, b"hi"));
    assert_eq!(client.receive(SECOND, &from(other)), Received::Handled, "no permission");
    let renewal = client.next_timer().unwrap();
    assert_eq!(renewal, SECOND + RENEWAL);
    assert_eq!(requests(&mut client, renewal).len(), 1, "the refused one is not requested again");
}

#[test]
fn a_channel_has_a_short_header() {
    let mut client = with_relay();
    client.bind(SECOND, PEER);
    client.bind(SECOND, PEER);
    let bind = request(&mut client, SECOND);
    let message = Message::parse(&bind).unwrap();
    assert_eq!(message.method, method::CHANNEL_BIND);
    assert_eq!(message.value(turn_at::CHANNEL_NUMBER), Some(&[0x40, 0, 0, 0][..]));
    let mut out = Vec::new();
    assert_eq!(client.send(PEER, b"early", &mut out), Err(SendError::NotPermitted));
    handled(&mut client, SECOND, &success(&bind, |_| Ok(())));
    client.send(PEER, b"hello", &mut out).unwrap();
    assert_eq!(out, b"\x40\x00\x00\x05hello");
    let too_long = client.send(PEER, &[0; 70_000], &mut Vec::new());
    assert_eq!(too_long, Err(SendError::Write(WriteError::TooLong)));
    assert_eq!(client.receive(SECOND, &out), Received::Data(PEER, b"hello"));
    assert_eq!(client.receive(SECOND, b"\x40\x01\x00\x02hi"), Received::Ignored);
    let renewal = client.next_timer().unwrap();
    assert_eq!(renewal, SECOND + RENEWAL);
    let again = request(&mut client, renewal);
    assert_eq!(Message::parse(&again).unwrap().value(turn_at::CHANNEL_NUMBER).unwrap()[1], 0);
}

#[test]
fn a_relayed_address_is_refreshed_and_given_back() {
    let mut client = with_relay();
    let refresh_at = client.next_timer().unwrap();
    assert_eq!(refresh_at, SECOND + Duration::from_secs(540));
    let refresh = request(&mut client, refresh_at);
    assert_eq!(Message::parse(&refresh).unwrap().method, method::REFRESH);
    let short = |writer: &mut Writer<'_>| writer.attribute(turn_at::LIFETIME, &0_u32.to_be_bytes());
    handled(&mut client, refresh_at, &success(&refresh, short));
    assert_eq!(client.next_timer(), Some(refresh_at + LEAST_RENEWAL));
    client.close();
    let end = request(&mut client, refresh_at);
    let message = Message::parse(&end).unwrap();
    assert_eq!(message.value(turn_at::LIFETIME), Some(&[0; 4][..]));
    assert!(message.has_integrity(&credentials().key(REALM)));
    assert_eq!((client.next_timer(), client.relayed()), (None, None));
}

#[test]
fn the_loss_of_the_relayed_address_is_reported() {
    let lost = Some(Event::Failed(Error::Expired, Some(RELAYED)));
    let mut client = with_relay();
    let now = client.next_timer().unwrap();
    let refresh = request(&mut client, now);
    handled(&mut client, now, &error(&refresh, 437, b"one"));
    assert_eq!(client.poll(now), lost);
    client = with_relay();
    client.permit(SECOND, PEER.ip());
    let permission = request(&mut client, SECOND);
    handled(&mut client, SECOND, &error(&permission, 437, b"one"));
    assert_eq!(client.poll(SECOND), lost);
    client = with_relay();
    client.disconnected("closed".into());
    client.disconnected("closed".into());
    let closed = Error::Disconnected("closed".into());
    assert_eq!(client.poll(SECOND), Some(Event::Failed(closed, Some(RELAYED))));
    assert_eq!(client.poll(SECOND), None, "once");
}

#[test]
fn a_stream_is_cut_into_messages() {
    let mut client = client(Transport::Stream);
    let first = request(&mut client, SECOND);
    let mut heard = vec![];
    for byte in error(&first, 401, b"one") {
        client.receive_stream(SECOND, &[byte], |_, _| panic!("no data"));
    }
    let second = request(&mut client, SECOND);
    client.receive_stream(SECOND, &success(&second, allocated), |_, _| panic!("no data"));
    assert_eq!(client.poll(SECOND), Some(Event::Allocated(RELAYED)));
    client.bind(SECOND, PEER);
    let bind = request(&mut client, SECOND);
    let (mut stream, mut out) = (success(&bind, |_| Ok(())), Vec::new());
    stream.extend(b"\x40\x00\x00\x02hi\0\0\x40\x00\x00\x05hel");
    client.receive_stream(SECOND, &stream, |from, data| heard.push((from, data.to_vec())));
    client.receive_stream(SECOND, b"lo\0\0\0", |from, data| heard.push((from, data.to_vec())));
    assert_eq!(heard, [(PEER, b"hi".to_vec()), (PEER, b"hello".to_vec())]);
    client.send(PEER, b"padded", &mut out).unwrap();
    assert_eq!(out, b"\x40\x00\x00\x06padded\0\0");
    client.receive_stream(SECOND, b"\x16\x03\x01\x00\xff\xff\xff\xff", |_, _| ());
    assert_eq!(client.poll(SECOND), Some(Event::Failed(Error::Malformed, Some(RELAYED))));
}

#[test]
fn a_user_that_does_not_fit_a_request_is_reported() {
    let user = "x".repeat(70_000);
    let credentials = Credentials { user, password: String::new() };
    let mut client = Client::new(credentials, Transport::Udp, false, random);
    client.begin(SECOND);
    let first = request(&mut client, SECOND);
    handled(&mut client, SECOND, &error(&first, 401, b"one"));
    assert_eq!(client.poll(SECOND), Some(Event::Failed(Error::TooLong, None)));
}

#[test]
fn permissions_and_channels_are_limited() {
    let mut client = with_relay();
    for octet in 0..=255 {
        let peer = SocketAddr::from(([198, 51, 100, octet], 1));
        client.permit(SECOND, peer.ip());
        client.bind(SECOND, peer);
    }
    assert_eq!(requests(&mut client, SECOND).len(), 2 * MAX_PEERS);
}

proptest! {
    #[test]
    fn no_octets_disturb_a_client(
        flips in prop::collection::vec((0_usize..120, any::<u8>()), 1..4),
        noise in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let mut client = with_relay();
        client.permit(SECOND, PEER.ip());
        let asked = request(&mut client, SECOND);
        let mut bytes = success(&asked, |_| Ok(()));
        for (place, value) in flips {
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= value;
            }
        }
        for bytes in [&bytes, &noise] {
            let _ = client.receive(SECOND, bytes);
            client.receive_stream(SECOND, bytes, |_, _| ());
            let _ = core::iter::from_fn(|| client.poll(SECOND)).count();
        }
    }
}
