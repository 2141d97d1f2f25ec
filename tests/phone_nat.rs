//! Two phones behind separate NATs call each other through the server. Requires root.

use peers::nat::{NAT_SECONDS, Nats};
use peers::phone::Kind::{Barebell, Linphone};
use peers::phone::{Account, Action, Event, Kind, Phone, Srtp};
use peers::process::built;
use peers::test_server::account;
use peers::transport::Transport::{self, Tcp, Udp};
use std::time::Duration;

/// The users behind the two NATs.
const USERS: [&str; 2] = ["alice", "bob"];

struct Two {
    nats: Nats,
    phones: [Phone; 2],
}

impl Two {
    /// Starts both phones and waits for their registration. With `asks` they use the STUN server.
    fn new(transport: Transport, asks: bool, srtp: Srtp) -> Self {
        Self::behind(Nats::open(), transport, asks, srtp)
    }

    fn behind(nats: Nats, transport: Transport, asks: bool, srtp: Srtp) -> Self {
        Self::of_kinds([Barebell; 2], nats, transport, asks, srtp)
    }

    fn of_kinds(
        kinds: [Kind; 2],
        nats: Nats,
        transport: Transport,
        asks: bool,
        srtp: Srtp,
    ) -> Self {
        let phone = |side: usize| {
            let user = USERS[side];
            let account = Account {
                srtp,
                machine: Some(nats.inside[side].clone()),
                stun: if asks { vec![nats.stun()] } else { Vec::new() },
                ..account(nats.address(), user, transport)
            };
            Phone::registered(kinds[side], account)
        };
        let phones = [phone(0), phone(1)];
        Self { nats, phones }
    }

    /// The phone of `from` calls the other, which rings.
    fn ring(&mut self, from: usize) {
        let uri = format!("sip:{}@{}", USERS[1 - from], self.nats.address());
        self.phones[from].dial_until_it_rings(&uri);
        self.phones[1 - from].wait_for(Event::Incoming);
    }

    fn connect(&mut self, from: usize) {
        self.ring(from);
        self.phones[1 - from].act(&Action::Answer);
        self.phones.iter_mut().for_each(|phone| phone.wait_for(Event::Established));
    }

    fn hang_up(&mut self, side: usize) {
        self.phones[side].act(&Action::HangUp);
        self.phones.iter_mut().for_each(|phone| phone.wait_for(Event::Ended));
    }
}

/// Calls ring, are answered, cancelled and ended, by either end.
fn signalling(transport: Transport) {
    let mut two = Two::new(transport, false, Srtp::Off);
    let registered = two.nats.registrations();
    for nat in ["198.51.100.11:", "198.51.100.12:"] {
        let flow = format!("{}:{nat}", transport.name());
        assert!(registered.contains(&flow), "{flow} in {registered}");
    }
    for from in [0, 1] {
        two.connect(from);
        two.hang_up(1 - from);
        two.connect(from);
        two.hang_up(from);
        two.ring(from);
        two.hang_up(from);
        two.phones[1 - from].wait_for_status("INVITE", &[487]);
    }
}

#[test]
fn signalling_goes_through_nats_over_udp() {
    signalling(Udp);
}

#[test]
fn signalling_goes_through_nats_over_tcp() {
    signalling(Tcp);
}

/// A call keeps its address when an unrelated interface appears.
#[test]
fn another_interface_does_not_move_a_call() {
    let mut two = Two::new(Udp, true, Srtp::Off);
    two.connect(0);
    let invites = two.phones[0].statuses("INVITE");
    for words in [
        "link add more type veth peer name end",
        "address add 198.18.0.1/24 dev more",
        "link set more up",
    ] {
        let mut command = two.nats.inside[0].command("ip");
        let status = command.args(words.split(' ')).status().expect("ip can be run");
        assert!(status.success(), "ip {words}");
    }
    // The phone registers again, because the route to the server may have changed.
    two.phones[0].wait_for(Event::Registered);
    let [alice, bob] = &mut two.phones;
    alice.act(&Action::Press('5'));
    bob.wait_for(Event::Key('5'));
    assert_eq!(two.phones[0].statuses("INVITE"), invites);
    two.hang_up(1);
}

/// Only keep-alives are sent for longer than the timeout of the NATs.
#[test]
fn keep_alives_keep_the_nat_binding() {
    let mut two = Two::new(Udp, false, Srtp::Off);
    std::thread::sleep(Duration::from_secs(NAT_SECONDS + 5));
    two.connect(0);
    two.hang_up(1);
}

/// Each hears the other, in calls of either direction. With `asks` the phones use a STUN server.
fn sound(transport: Transport, asks: bool, srtp: Srtp) {
    sounds(Two::new(transport, asks, srtp));
}

fn sounds(mut two: Two) {
    for from in [0, 1] {
        two.connect(from);
        let [alice, bob] = &mut two.phones;
        alice.wait_until_it_hears_faithfully(bob);
        bob.wait_until_it_hears_faithfully(alice);
        two.hang_up(from);
    }
}

#[test]
fn audio_passes_nats_with_stun() {
    sound(Udp, true, Srtp::Off);
}

#[test]
fn encrypted_audio_passes_nats_with_stun() {
    sound(Udp, true, Srtp::Required);
}

#[test]
fn audio_passes_nats_through_the_relay_of_the_server() {
    sound(Udp, false, Srtp::Off);
    sound(Tcp, false, Srtp::Off);
}

#[test]
fn encrypted_audio_passes_nats_through_the_relay_of_the_server() {
    sound(Udp, false, Srtp::Required);
}

#[test]
fn audio_passes_symmetric_nats_through_the_relay_of_the_server() {
    sounds(Two::behind(Nats::symmetric(), Udp, false, Srtp::Off));
}

/// linphone knows nothing of its NAT, and names a private address in its descriptions.
#[test]
fn audio_of_linphone_passes_nats_through_the_relay_of_the_server() {
    for srtp in [Srtp::Off, Srtp::Required] {
        let mut two = Two::of_kinds([Barebell, Linphone], Nats::open(), Udp, false, srtp);
        for from in [0, 1] {
            two.connect(from);
            let [alice, bob] = &mut two.phones;
            alice.wait_until_it_hears(bob.account.tone);
            bob.wait_until_it_hears(alice.account.tone);
            two.hang_up(from);
        }
    }
}

/// The output and exit status of `check` behind the second NAT, with two STUN servers.
fn check(nats: &Nats) -> (String, Option<i32>) {
    let mut command = nats.inside[1].command(built("barebell-phone", "BAREBELL_PHONE_BIN"));
    command.arg("check");
    for server in nats.both_stun() {
        command.args(["--stun", &server]);
    }
    let output = command.output().expect("barebell-phone can be run");
    (String::from_utf8_lossy(&output.stderr).into_owned(), output.status.code())
}

#[test]
fn an_endpoint_independent_nat_is_accepted() {
    let (said, status) = check(&Nats::open());
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("calls go both ways with --stun"), "{said}");
}

/// The output contains the finding, its consequence and the remedy.
#[test]
fn a_symmetric_nat_is_reported_with_a_remedy() {
    let (said, status) = check(&Nats::symmetric());
    assert_eq!(status, Some(1), "{said}");
    for words in [
        "the NAT is symmetric",
        "the address by STUN is of no use to the other end of a call",
        "a server that relays media; or forward ports in the router",
    ] {
        assert!(said.contains(words), "{words} in {said}");
    }
}
