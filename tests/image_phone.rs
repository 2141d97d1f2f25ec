//! The phone without an operating system, in QEMU, with DHCP by dnsmasq, and sound by a private
//! PulseAudio.

use peers::bare_phone::{LOOK, MENU};
use peers::image::lan::{HERE, Lan, SERVER};
use peers::image::{Machine, Medium};
use peers::pair::hold_and_resume;
use peers::phone::Kind::{self, Bare, Barebell, Baresip};
use peers::phone::{Account, Action, Event, Phone, Srtp};
use peers::stun::{PORT as STUN, Stun};
use peers::test_server::{TestServer, account};
use peers::transport::Transport::Udp;
use std::net::SocketAddr;
use std::process::Command;

/// A network with DHCP only.
fn lan() -> Lan {
    let mut lan = Lan::open();
    lan.serve(&[]);
    lan
}

/// A phone without a server.
fn direct(kind: Kind, user: &str, srtp: Srtp) -> Phone {
    Phone::direct(kind, Account { srtp, ..account(SERVER, user, Udp) })
}

/// `caller` calls `uri`, where `callee` answers. Waits until each hears the other's tone.
fn connect(caller: &mut Phone, callee: &mut Phone, uri: &str) {
    caller.dial_until_it_rings(uri);
    answer(caller, callee);
}

/// `callee` answers. Waits until each hears the other's tone.
fn answer(caller: &mut Phone, callee: &mut Phone) {
    callee.wait_for(Event::Incoming);
    callee.act(&Action::Answer);
    caller.wait_for(Event::Established);
    callee.wait_for(Event::Established);
    caller.wait_until_it_hears_more(callee.account.tone);
    callee.wait_until_it_hears_more(caller.account.tone);
}

fn hang_up(ends: &mut Phone, other: &mut Phone) {
    ends.act(&Action::HangUp);
    ends.wait_for(Event::Ended);
    other.wait_for(Event::Ended);
}

/// A row of a page.
fn field(label: &str, value: &str) -> String {
    format!("{label:24}{value}")
}

#[test]
fn calls_with_barebell_phone_in_both_directions() {
    let _lan = lan();
    let options = "plus=header timings=on".to_owned();
    let account = Account { srtp: Srtp::Optional, options, ..account(SERVER, "alice", Udp) };
    let mut bare = Phone::direct(Bare, account);
    for srtp in [Srtp::Off, Srtp::Required] {
        let mut bob = direct(Barebell, "bob", srtp);
        let (here, there) = (bare.direct_uri(), bob.direct_uri());
        for (bare_calls, bare_hangs_up) in
            [(true, true), (false, true), (true, false), (false, false)]
        {
            match bare_calls {
                true => connect(&mut bare, &mut bob, &there),
                false => connect(&mut bob, &mut bare, &here),
            }
            bare.wait_until_it_hears_faithfully(&bob);
            bob.wait_until_it_hears_faithfully(&bare);
            let suite = bob.suite();
            assert_eq!(suite.is_some(), srtp == Srtp::Required);
            bare.turn_to(LOOK, &field("secured by", suite.as_deref().unwrap_or("nothing")));
            if suite.is_some() {
                // The bare-machine phone is the one that offers SRTP+.
                let plus = if bare_calls { "header" } else { "none" };
                bare.turn_to(LOOK, &field("SRTP+", plus));
            }
            match bare_hangs_up {
                true => hang_up(&mut bare, &mut bob),
                false => hang_up(&mut bob, &mut bare),
            }
            if suite.is_some() {
                bare.turn_to(&format!("{LOOK}{MENU}l"), "authentication: ");
                bare.turn_to(&format!("{LOOK}{MENU}l"), "network headers, incoming: ");
            }
        }
    }
}

#[test]
fn calls_with_baresip_in_both_directions() {
    let _lan = lan();
    let mut bare = direct(Bare, "alice", Srtp::Required);
    for bare_calls in [true, false] {
        // One phone per call: the recording is the newest file.
        let mut bob = direct(Baresip, "bob", Srtp::Required);
        match (bare_calls, bare.direct_uri(), bob.direct_uri()) {
            (true, _, there) => connect(&mut bare, &mut bob, &there),
            (false, here, _) => connect(&mut bob, &mut bare, &here),
        }
        bob.wait_until_it_hears_faithfully(&bare);
        bare.wait_until_it_hears_faithfully(&bob);
        bare.turn_to(LOOK, &field("secured by", "AES_CM_128_HMAC_SHA1_80"));
        match bare_calls {
            true => hang_up(&mut bare, &mut bob),
            false => hang_up(&mut bob, &mut bare),
        }
    }
}

/// It registers, calls, is called, and reports failures.
#[test]
fn calls_through_a_server() {
    let _lan = lan();
    let _exchange = TestServer::also_at(HERE);
    let _stun = Stun::start(|program| Command::new(program), &[HERE]);
    let server = SocketAddr::from((HERE, 5060));
    let [to_alice, to_bob, to_carol] =
        ["alice", "bob", "carol"].map(|user| format!("sip:{user}@{server}"));
    // Other codecs would change the sample rate of the recording of bob and carol.
    let account = |user| Account { codecs: "PCMU", ..account(server, user, Udp) };
    let mut bob = Phone::registered(Barebell, account("bob"));
    let mut carol = Phone::registered(Barebell, account("carol"));
    let options = format!("dial={to_bob} dial={to_carol}");
    let stun = vec![format!("{HERE}:{STUN}")];
    let mut alice = Phone::start(Bare, Account { options, stun, ..account("alice") });
    alice.turn_to(&format!("{MENU}aalice@{server}\rwrong\r\r"), "wrong name or password");
    alice.wait_for(Event::RegistrationFailed);
    alice.act(&Action::Register);
    alice.wait_for(Event::Registered);

    alice.act(&Action::Press('1'));
    alice.wait_for(Event::Ringback);
    answer(&mut alice, &mut bob);
    alice.turn_to(&format!("{LOOK}qn"), &field("RTP, external", &format!("{}:", SERVER.ip())));
    alice.act(&Action::Press('5'));
    bob.wait_for(Event::Key('5'));
    bob.act(&Action::Press('#'));
    alice.wait_for(Event::Key('#'));
    carol.act(&Action::Dial(to_alice.clone()));
    carol.wait_for(Event::Ended);
    carol.wait_for_status("INVITE", &[486]);
    hold_and_resume(&mut bob, &mut alice);
    hang_up(&mut bob, &mut alice);

    connect(&mut bob, &mut alice, &to_alice);
    alice.act(&Action::Transfer(to_carol));
    answer(&mut bob, &mut carol);
    alice.wait_for(Event::Ended);
    bob.wait_for(Event::Ended);
    hang_up(&mut bob, &mut carol);

    // The caller cancels.
    alice.act(&Action::Press('2'));
    alice.wait_for(Event::Ringback);
    carol.wait_for(Event::Incoming);
    hang_up(&mut alice, &mut carol);
    bob.dial_until_it_rings(&to_alice);
    alice.wait_for(Event::Incoming);
    hang_up(&mut bob, &mut alice);
    bob.wait_for_status("INVITE", &[487]);

    // The callee declines.
    bob.dial_until_it_rings(&to_alice);
    alice.wait_for(Event::Incoming);
    hang_up(&mut alice, &mut bob);
    bob.wait_for_status("INVITE", &[603]);
    alice.dial_until_it_rings(&to_bob);
    bob.wait_for(Event::Incoming);
    bob.act(&Action::Reject);
    alice.wait_for(Event::Ended);

    // The called user does not exist.
    alice.act(&Action::Dial(format!("sip:nobody@{server}")));
    alice.wait_for(Event::Ended);
    alice.turn_to(&format!("{MENU}l"), "the call has ended: refused with 404");
    alice.turn_to(MENU, "registered");
}

#[test]
fn it_boots_from_a_cd_without_a_sound_device() {
    let _lan = lan();
    let machine = Machine { image: "phone", medium: Medium::Cd, ..Machine::default() };
    let mut machine = machine.start();
    machine.start_from_menu();
    machine.wait_for("no sound: ");
    machine.wait_for(&format!("address {}/24", SERVER.ip()));
}
