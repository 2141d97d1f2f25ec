//! Calls through the relay over loopback.

use super::packets::{BUFFER, MAX_PACKET};
use super::*;
use net::Clock;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use relay::{Bandwidth, Calls, End, Limits, Passage, RelayError, Role};
use std::net::{SocketAddr, UdpSocket};

const PATIENCE: Duration = Duration::from_secs(60);
const WORKERS: usize = 2;

/// A relay, and its workers.
struct Rig {
    relay: Relay,
    /// The local address of the legs.
    local: IpAddr,
}

/// A phone with its sockets.
struct Phone([UdpSocket; 2]);

impl Phone {
    /// A phone with a pair of ports at `host`.
    fn new(host: IpAddr) -> Self {
        let pair = (0..100).find_map(|_| {
            let rtp = UdpSocket::bind((host, 0)).unwrap();
            let next = rtp.local_addr().unwrap().port().checked_add(1)?;
            Some([rtp, UdpSocket::bind((host, next)).ok()?])
        });
        let phone = Self(pair.expect("two free ports"));
        phone.0.iter().for_each(|socket| socket.set_read_timeout(Some(PATIENCE)).unwrap());
        phone
    }

    fn place(&self) -> SocketAddr {
        self.0[0].local_addr().unwrap()
    }

    fn description(&self) -> String {
        let (host, port) = (self.place().ip(), self.place().port());
        let family = if host.is_ipv4() { "IP4" } else { "IP6" };
        format!(
            "v=0\r\no=- 1 1 IN {family} {host}\r\ns=-\r\nc=IN {family} {host}\r\nt=0 0\r\n\
             m=audio {port} RTP/AVP 0\r\n"
        )
    }
}

/// The port of the medium in a description.
fn port(description: &str) -> u16 {
    let (_, rest) = description.split_once("m=audio ").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

fn packet(number: u8, length: usize) -> Vec<u8> {
    let mut packet = vec![0x80, 0, 0, number, 0, 0, 0, 0, 0, 0, 0, 9];
    packet.resize(length, 0xd5);
    packet
}

const RECEIVER_REPORT: [u8; 8] = [0x80, 201, 0, 1, 0, 0, 0, 9];

impl Rig {
    fn new(local: &str, ports: &str, pairs: usize) -> Self {
        let media = Media::new(ports.parse().unwrap(), pairs, WORKERS).unwrap();
        // Some tests send more than a call may.
        let bandwidth = Bandwidth { all: u64::MAX, owner: u64::MAX, call: u64::MAX };
        let limits = Limits { bandwidth, ..Limits::default() };
        Self { relay: Relay::new(media, limits), local: local.parse().unwrap() }
    }

    fn describe(
        &self,
        call_id: &str,
        role: Role,
        phones: [&Phone; 2],
    ) -> Result<String, RelayError> {
        let end = |phone: &Phone| End::new(phone.place(), self.local, &|_| true);
        let is_offer = matches!(role, Role::Offer { .. });
        let passage = Passage {
            call_id: call_id.as_bytes(),
            branch: Some(b"b"),
            from_tag: if is_offer { b"caller" } else { b"callee" },
            to_tag: if is_offer { b"" } else { b"caller" },
            from: end(phones[0]),
            to: end(phones[1]),
            role,
            side: if is_offer { Side::Caller } else { Side::Callee },
            begins: is_offer,
            parties: [b"sip:a@example.com", b"sip:b@example.com"],
            owner: 1,
            now: Duration::ZERO,
        };
        let described = self.relay.describe(&passage, phones[0].description().as_bytes());
        described.map(|described| described.expect("a relayed call"))
    }

    /// Sets up a call. Returns the ports of the relay for the caller and the callee.
    fn call(&self, call_id: &str, caller: &Phone, callee: &Phone) -> Result<[u16; 2], RelayError> {
        let offer = self.describe(call_id, Role::Offer { exchange: 1 }, [caller, callee])?;
        let role = Role::Response { exchange: 1, is_final: true };
        let answer = self.describe(call_id, role, [callee, caller])?;
        self.relay.confirm(call_id.as_bytes(), b"b", b"callee", Duration::ZERO);
        Ok([port(&answer), port(&offer)])
    }

    fn hang_up(&self, call_id: &str) -> relay::CallReport {
        self.relay
            .end_dialog(call_id.as_bytes(), [b"callee", b"caller"], Duration::ZERO)
            .expect("a call")
    }

    /// Serves the workers once, after waiting for packets.
    fn serve(&self) {
        let media = self.relay.host();
        let mut waiting: Vec<_> = (0..media.owners())
            .map(|owner| PollFd::new(media.as_fd(owner), PollFlags::POLLIN))
            .collect();
        let ready = poll(&mut waiting, PollTimeout::try_from(PATIENCE).unwrap()).unwrap();
        assert!(ready > 0, "no packet waits");
        let clock = Clock::start();
        (0..media.owners()).for_each(|owner| media.serve(owner, &clock, &mut [0; BUFFER]));
    }

    /// Sends `sent` on the channel with the index `at` to the port `rtp` of the relay, and expects
    /// that `to` receives it.
    fn pass(&self, at: usize, from: &Phone, rtp: u16, to: &Phone, sent: &[u8]) {
        from.0[at].send_to(sent, (self.local, rtp + at as u16)).unwrap();
        self.serve();
        let mut buffer = [0; 2 * MAX_PACKET];
        let (length, _) = to.0[at].recv_from(&mut buffer).unwrap();
        assert_eq!(&buffer[..length], sent);
    }

    fn used(&self) -> usize {
        self.relay.host().0.pairs.count()
    }
}

#[test]
fn packets_pass_both_ways_and_leave_from_the_announced_ports() {
    for (host, ports) in [("127.0.0.1", "28000-28099"), ("::1", "28000-28099")] {
        let rig = Rig::new(host, ports, 50);
        let (caller, callee) = (Phone::new(rig.local), Phone::new(rig.local));
        let [near, far] = rig.call("a", &caller, &callee).unwrap();
        for number in 0..5 {
            rig.pass(0, &caller, near, &callee, &packet(number, 172));
            rig.pass(0, &callee, far, &caller, &packet(number, 172));
        }
        rig.pass(1, &caller, near, &callee, &RECEIVER_REPORT);
        rig.pass(1, &callee, far, &caller, &RECEIVER_REPORT);
        caller.0[0].send_to(&packet(5, 172), (rig.local, near)).unwrap();
        rig.serve();
        let (_, from) = callee.0[0].recv_from(&mut [0; 200]).unwrap();
        assert_eq!((from.ip(), from.port()), (rig.local, far));
        let [caller, callee] = rig.hang_up("a").streams[0].clone();
        assert_eq!((caller.packets, callee.packets), (6, 5));
        assert_eq!((caller.refused, callee.refused, rig.relay.host().unsent()), (0, 0, 0));
        assert_eq!((rig.relay.host().received(), rig.relay.host().sent()), (13, 13));
    }
}

#[test]
fn a_burst_on_many_sockets_passes_in_order() {
    let rig = Rig::new("127.0.0.2", "28100-28499", 200);
    let phones: Vec<_> = (0..40).map(|_| [(); 2].map(|()| Phone::new(rig.local))).collect();
    let call =
        |(at, [caller, callee]): (usize, &[Phone; 2])| rig.call(&format!("{at}"), caller, callee);
    let ports: Vec<_> = phones.iter().enumerate().map(|it| call(it).unwrap()).collect();
    for number in 0..20 {
        for ([caller, _], [near, _]) in phones.iter().zip(&ports) {
            caller.0[0].send_to(&packet(number, 172), (rig.local, *near)).unwrap();
        }
    }
    let relayed = || -> u64 {
        let reports = rig.relay.reports();
        reports.iter().map(|report| report.streams[0][0].packets).sum()
    };
    while relayed() < 800 {
        rig.serve();
    }
    for [_, callee] in &phones {
        for number in 0..20 {
            let mut buffer = [0; 200];
            callee.0[0].recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[3], number);
        }
    }
}

#[test]
fn a_packet_that_is_too_long_is_dropped_alone() {
    let rig = Rig::new("127.0.0.3", "28000-28099", 50);
    let (caller, callee) = (Phone::new(rig.local), Phone::new(rig.local));
    let [near, _] = rig.call("a", &caller, &callee).unwrap();
    caller.0[0].send_to(&packet(1, MAX_PACKET + 1), (rig.local, near)).unwrap();
    caller.0[0].send_to(&packet(2, MAX_PACKET + 600), (rig.local, near)).unwrap();
    rig.serve();
    rig.serve();
    assert_eq!(rig.relay.host().unsent(), 2);
    rig.pass(0, &caller, near, &callee, &packet(3, MAX_PACKET));
}

#[test]
fn packets_go_on_after_the_peer_has_closed_its_port() {
    let rig = Rig::new("127.0.0.4", "28000-28099", 50);
    let (caller, callee) = (Phone::new(rig.local), Phone::new(rig.local));
    let [near, far] = rig.call("a", &caller, &callee).unwrap();
    rig.pass(0, &caller, near, &callee, &packet(1, 172));
    let place = callee.place();
    drop(callee);
    for number in 2..5 {
        caller.0[0].send_to(&packet(number, 172), (rig.local, near)).unwrap();
        rig.serve();
    }
    let again = UdpSocket::bind(place).unwrap();
    again.send_to(&packet(1, 172), (rig.local, far)).unwrap();
    rig.serve();
    let (_, from) = caller.0[0].recv_from(&mut [0; 200]).unwrap();
    assert_eq!(from.port(), near);
}

#[test]
fn ports_are_closed_at_the_end_of_a_call_and_exhaustion_is_refused() {
    let rig = Rig::new("127.0.0.5", "28000-28015", 8);
    let (caller, callee) = (Phone::new(rig.local), Phone::new(rig.local));
    let call = |at: usize| rig.call(&format!("{at}"), &caller, &callee);
    let ports: Vec<_> = (0..4).flat_map(|at| call(at).unwrap()).collect();
    assert_eq!(rig.used(), 8);
    assert_eq!(call(4), Err(RelayError::NoPort));
    assert_eq!((rig.used(), rig.relay.count()), (8, 4));
    (0..4).for_each(|at| drop(rig.hang_up(&at.to_string())));
    assert_eq!((rig.used(), rig.relay.count()), (0, 0));
    assert!(rig.relay.host().0.legs.iter().all(|leg| leg.lock().is_none()));
    for port in ports.iter().flat_map(|&port| [port, port + 1]) {
        UdpSocket::bind((rig.local, port)).expect("a closed port");
    }
    assert!(call(5).is_ok());
}

#[test]
fn a_call_with_one_free_pair_takes_none() {
    let rig = Rig::new("127.0.0.6", "28000-28015", 3);
    let (caller, callee) = (Phone::new(rig.local), Phone::new(rig.local));
    rig.call("a", &caller, &callee).unwrap();
    assert_eq!(rig.call("b", &caller, &callee), Err(RelayError::NoPort));
    assert_eq!(rig.used(), 2);
}

#[test]
fn ports_of_other_programs_are_skipped() {
    let rig = Rig::new("127.0.0.7", "28000-28007", 4);
    let _rtp = UdpSocket::bind((rig.local, 28002)).unwrap();
    let _rtcp = UdpSocket::bind((rig.local, 28005)).unwrap();
    let (caller, callee) = (Phone::new(rig.local), Phone::new(rig.local));
    let mut ports = rig.call("a", &caller, &callee).unwrap();
    ports.sort_unstable();
    assert_eq!(ports, [28000, 28006]);
    assert_eq!(rig.call("b", &caller, &callee), Err(RelayError::NoPort));
    assert_eq!(rig.used(), 2);
    rig.hang_up("a");
    assert_eq!(rig.used(), 0);
}

#[test]
fn an_address_of_another_machine_is_refused() {
    let rig = Rig::new("192.0.2.1", "28000-28007", 4);
    let here = "127.0.0.8".parse().unwrap();
    let (caller, callee) = (Phone::new(here), Phone::new(here));
    assert_eq!(rig.call("a", &caller, &callee), Err(RelayError::NoPort));
    assert_eq!(rig.used(), 0);
}

#[test]
fn calls_end_while_their_packets_are_relayed() {
    let rig = Rig::new("127.0.0.9", "28000-28031", 16);
    let (caller, callee) = (Phone::new(rig.local), Phone::new(rig.local));
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        // A source that knows the ports sends to all of them.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for port in 28000..28032 {
                    let _ = caller.0[0].send_to(&packet(1, 172), (rig.local, port));
                }
            }
        });
        for owner in 0..WORKERS {
            let (media, is_over) = (rig.relay.host(), &is_over);
            scope.spawn(move || {
                let clock = Clock::start();
                while !is_over.load(Ordering::Relaxed) {
                    media.serve(owner, &clock, &mut [0; BUFFER]);
                }
            });
        }
        for at in 0..2000 {
            let call_id = at.to_string();
            rig.call(&call_id, &caller, &callee).unwrap();
            rig.hang_up(&call_id);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!((rig.used(), rig.relay.count()), (0, 0));
}

#[test]
fn an_end_that_moves_by_a_new_offer_is_received_at_its_new_address_alone() {
    let rig = Rig::new("127.0.0.10", "28000-28099", 50);
    let (caller, callee) = (Phone::new(rig.local), Phone::new(rig.local));
    let [near, far] = rig.call("a", &caller, &callee).unwrap();
    rig.pass(0, &caller, near, &callee, &packet(1, 172));
    rig.pass(0, &callee, far, &caller, &packet(1, 172));
    let moved = Phone::new(rig.local);
    rig.describe("a", Role::Offer { exchange: 2 }, [&moved, &callee]).unwrap();
    rig.pass(0, &callee, far, &caller, &packet(2, 172));
    let role = Role::Response { exchange: 2, is_final: true };
    rig.describe("a", role, [&callee, &moved]).unwrap();
    rig.pass(0, &callee, far, &moved, &packet(3, 172));
    rig.pass(0, &moved, near, &callee, &packet(2, 172));
    // The system drops the packets of the earlier address: none waits for the relay.
    caller.0[0].send_to(&packet(3, 172), (rig.local, near)).unwrap();
    rig.pass(0, &moved, near, &callee, &packet(3, 172));
    assert_eq!(rig.hang_up("a").streams[0][0].refused, 0);
}
