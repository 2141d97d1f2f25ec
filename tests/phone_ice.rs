//! Media of two barebell-phones behind symmetric NATs go through coturn. Requires root.

use peers::nat::Nats;
use peers::phone::Kind::Barebell;
use peers::phone::{Account, Action, Event, Phone, Srtp};
use peers::test_server::account;
use peers::transport::Transport::Udp;
use peers::turn::Turn;

/// The users behind the two NATs.
const USERS: [&str; 2] = ["alice", "bob"];

/// Two phones behind symmetric NATs with the servers in their `options`; `{turn}`
/// stands for the address of the server. Each hears the other.
fn talk(options: [&str; 2], srtp: Srtp) {
    let nats = Nats::symmetric_without_relay();
    let turn = Turn::start(&nats);
    let phone = |side: usize| {
        let user = USERS[side];
        let mut given = options[side].replace("{turn}", &turn.address().to_string());
        if given.contains("--turn ") {
            given += &turn.options(user);
        }
        let account = Account {
            srtp,
            machine: Some(nats.inside[side].clone()),
            options: given,
            ..account(nats.address(), user, Udp)
        };
        Phone::registered(Barebell, account)
    };
    let [mut alice, mut bob] = [phone(0), phone(1)];
    for from in [0, 1] {
        let [caller, callee] = match from {
            0 => [&mut alice, &mut bob],
            _ => [&mut bob, &mut alice],
        };
        caller.dial_until_it_rings(&format!("sip:{}@{}", USERS[1 - from], nats.address()));
        callee.wait_for(Event::Incoming);
        callee.act(&Action::Answer);
        caller.wait_for(Event::Established);
        callee.wait_for(Event::Established);
        caller.wait_until_it_hears_faithfully(callee);
        callee.wait_until_it_hears_faithfully(caller);
        let ways = [&*caller, &*callee].map(|phone| phone.has_logged(Event::ThroughTurn));
        assert!(ways.contains(&true), "media go through the TURN server");
        caller.act(&Action::HangUp);
        caller.wait_for(Event::Ended);
        callee.wait_for(Event::Ended);
    }
}

#[test]
#[ignore = "fails in some runs: the checks find no way through coturn"]
fn audio_passes_symmetric_nats_through_coturn() {
    let by_udp = "--turn turn:{turn}";
    talk([by_udp, by_udp], Srtp::Off);
}

#[test]
#[ignore = "fails in some runs: the checks find no way through coturn"]
fn encrypted_audio_passes_the_relay_of_one_end() {
    talk(["--turn turn:{turn}", "--ice --stun {turn}"], Srtp::Required);
}
