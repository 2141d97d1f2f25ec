//! The NG protocol: Kamailio with its module rtpengine has the media of its calls relayed.

use peers::kamailio::Kamailio;
use peers::phone::Kind::{Barebell, Baresip, Linphone};
use peers::phone::{Account, Action, Event, Kind, Phone};
use peers::process::wait_until;
use peers::test_server::TestServer;
use peers::transport::Transport::Udp;
use std::cell::Cell;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;
use test_support::ports::free_ports;

/// The ports of the relay: those of two calls.
const PORTS: u16 = 8;

/// A server with the NG protocol, which relays no call of its own.
struct Relay {
    exchange: TestServer,
    address: SocketAddr,
    first: u16,
    client: UdpSocket,
    /// The number of cookies for [`Relay::command`].
    cookies: Cell<u32>,
}

impl Relay {
    fn start() -> Self {
        let (ng, first) = (free_ports(1), free_ports(PORTS));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, ng));
        let exchange = TestServer::with(
            &format!(
                "[media]\nrelay = \"off\"\nports = \"{first}-{}\"\nng = \"{address}\"\n\
                 ng_clients = [\"127.0.0.1\"]\n",
                first + PORTS - 1
            ),
            &[],
        );
        let (client, cookies) = (client(Ipv4Addr::LOCALHOST), Cell::default());
        Self { exchange, address, first, client, cookies }
    }

    /// Sends a request, and returns the response.
    fn ask(&self, datagram: &str) -> String {
        self.client.send_to(datagram.as_bytes(), self.address).expect("the request is sent");
        let mut buffer = [0; 65_535];
        let length = self.client.recv(&mut buffer).expect("a response");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }

    /// Sends a request with a cookie of its own, and returns the response without the cookie.
    fn command(&self, dictionary: &str) -> String {
        self.cookies.set(self.cookies.get() + 1);
        let cookie = format!("cookie{} ", self.cookies.get());
        let response = self.ask(&format!("{cookie}{dictionary}"));
        response.strip_prefix(&cookie).expect("the cookie").to_owned()
    }

    /// The Call-ID of the only call.
    fn call(&self) -> Option<String> {
        let list = self.command("d7:command4:liste");
        let (_, text) = list.strip_prefix("d5:callsl")?.split_once(':')?;
        Some(text.split_once("e6:result2:oke")?.0.to_owned())
    }

    /// Waits until no port of the relay is open.
    fn wait_until_closed(&self) {
        wait_until("closed ports of the relay", || {
            let mut ports = self.first..self.first + PORTS;
            ports.all(|port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok()).then_some(())
        });
    }
}

fn client(host: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((host, 0)).expect("a UDP socket can be bound");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("the timeout can be set");
    socket
}

/// The packets of RTP in a report on a call.
fn relayed_packets(report: &str) -> Option<u64> {
    let (_, totals) = report.split_once("6:totals")?;
    let (_, rtp) = totals.split_once("3:RTP")?;
    let (_, packets) = rtp.split_once("7:packetsi")?;
    packets.split_once('e')?.0.parse().ok()
}

/// A phone of kind `caller` behind Kamailio calls one of kind `callee`, which ends the first call.
fn hear_each_other(caller: Kind, callee: Kind) {
    let relay = Relay::start();
    let exchange = &relay.exchange;
    let kamailio = Kamailio::start_with_relay(exchange.server.address(), relay.address, "");
    let account = Account { proxy: Some(kamailio.outside), ..exchange.account("alice", Udp) };
    let mut alice = Phone::registered(caller, account);
    let mut bob = exchange.phone(callee, "bob", Udp);
    for caller_hangs_up in [false, true] {
        alice.dial_until_it_rings(&exchange.server.uri("bob"));
        bob.wait_for(Event::Incoming);
        bob.act(&Action::Answer);
        alice.wait_for(Event::Established);
        bob.wait_for(Event::Established);
        alice.wait_until_it_hears(bob.account.tone);
        bob.wait_until_it_hears(alice.account.tone);
        let call_id = relay.call().expect("a relayed call");
        let query = format!("d7:call-id{}:{call_id}7:command5:querye", call_id.len());
        wait_until("a second of audio of either phone on the relay", || {
            let packets = relayed_packets(&relay.command(&query));
            packets.is_some_and(|packets| packets >= 100).then_some(())
        });
        let first = if caller_hangs_up { &mut alice } else { &mut bob };
        first.act(&Action::HangUp);
        alice.wait_for(Event::Ended);
        bob.wait_for(Event::Ended);
        relay.wait_until_closed();
        assert_eq!(relay.call(), None);
    }
}

#[test]
fn phones_hear_each_other_through_kamailio_and_the_relay() {
    hear_each_other(Barebell, Barebell);
}

#[test]
fn other_phones_hear_each_other_through_kamailio_and_the_relay() {
    hear_each_other(Baresip, Linphone);
}

#[test]
fn phones_without_a_common_codec_talk_through_kamailio_and_the_relay() {
    let relay = Relay::start();
    let exchange = &relay.exchange;
    let flags = "codec-transcode-G722 codec-transcode-opus";
    let kamailio = Kamailio::start_with_relay(exchange.server.address(), relay.address, flags);
    let account = |user, codecs| Account { codecs, ..exchange.account(user, Udp) };
    let alice = Account { proxy: Some(kamailio.outside), ..account("alice", "GSM") };
    let mut alice = Phone::registered(Barebell, alice);
    let mut bob = Phone::registered(Barebell, account("bob", "opus"));
    alice.dial_until_it_rings(&exchange.server.uri("bob"));
    bob.wait_for(Event::Incoming);
    bob.act(&Action::Answer);
    alice.wait_for(Event::Established);
    bob.wait_for(Event::Established);
    alice.wait_until_it_hears_faithfully(&bob);
    bob.wait_until_it_hears_faithfully(&alice);
    alice.act(&Action::HangUp);
    bob.wait_for(Event::Ended);
    relay.wait_until_closed();
}

#[test]
fn a_repeated_request_is_answered_alike_and_other_clients_get_nothing() {
    let relay = Relay::start();
    let sdp = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
               m=audio 4000 RTP/AVP 0\r\n";
    let offer = |cookie: u32| {
        let length = sdp.len();
        format!("{cookie}_1 d7:call-id1:c7:command5:offer8:from-tag1:a3:sdp{length}:{sdp}e")
    };
    let stranger = client(Ipv4Addr::new(127, 0, 0, 3));
    stranger.send_to(offer(1).as_bytes(), relay.address).expect("the request is sent");
    stranger.send_to(b"1_1 d7:command4:pinge", relay.address).expect("the request is sent");
    assert_eq!(relay.ask("2_1 d7:command4:pinge"), "2_1 d6:result4:ponge");
    assert_eq!(relay.call(), None);
    let first = relay.ask(&offer(3));
    assert!(first.contains("m=audio ") && !first.contains(" 4000 "), "{first}");
    assert_eq!(relay.ask(&offer(3)), first);
    assert_eq!(relay.call().as_deref(), Some("c"));
    // Requests are answered in their order.
    stranger.set_nonblocking(true).expect("the socket can be set");
    assert_eq!(stranger.recv(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let deleted = relay.ask("4_1 d7:call-id1:c7:command6:delete8:from-tag1:ae");
    assert!(deleted.contains("6:result2:ok"), "{deleted}");
    relay.wait_until_closed();
}
