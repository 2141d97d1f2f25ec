//! Media of two barebell-phones behind symmetric NATs go through coturn. Requires root.

use peers::nat::Nats;
use peers::phone::Kind::Barebell;
use peers::phone::{Account, Action, Event, Phone, Srtp};
use peers::process::{Program, built, run};
use peers::test_server::account;
use peers::transport::Transport::Udp;
use peers::turn::Turn;

const PHONE: Program = Program { name: "barebell-phone", packages: "(none: build it)" };
/// The users behind the two NATs.
const USERS: [&str; 2] = ["alice", "bob"];

/// The `options` of `user` with the addresses of `turn`: `{turn}` stands for that of UDP and TCP,
/// `{turns}` for that of TLS.
fn with_addresses(turn: &Turn, user: &str, options: &str) -> String {
    let given = options.replace("{turn}", &turn.address().to_string());
    let given = given.replace("{turns}", &turn.secure_address().to_string());
    let credentials = given.contains("--turn ").then(|| turn.options(user));
    given + &credentials.unwrap_or_default()
}

/// Two phones behind symmetric NATs with the servers in their `options`. Each hears the other.
fn talk(options: [&str; 2], srtp: Srtp) {
    let nats = Nats::symmetric_without_relay();
    let turn = Turn::start(&nats);
    let phone = |side: usize| {
        let user = USERS[side];
        let account = Account {
            srtp,
            machine: Some(nats.inside[side].clone()),
            options: with_addresses(&turn, user, options[side]),
            issuers: Some(turn.certificate()),
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
fn audio_passes_symmetric_nats_through_coturn() {
    let by_udp = "--turn turn:{turn}";
    talk([by_udp, by_udp], Srtp::Off);
}

#[test]
fn encrypted_audio_passes_the_relay_of_one_end() {
    talk(["--turn turn:{turn}", "--ice --stun {turn}"], Srtp::Required);
}

#[test]
fn connections_to_the_relay_by_tcp_and_tls_carry_audio() {
    talk(["--turn turn:{turn}?transport=tcp", "--turn turns:{turns}"], Srtp::Off);
}

#[test]
fn the_check_requests_a_relayed_address() {
    let nats = Nats::symmetric_without_relay();
    let turn = Turn::start(&nats);
    let check = |options: &str| {
        let mut command = nats.inside[0].command(built(PHONE.name, "BAREBELL_PHONE_BIN"));
        command.args(["check", "--json"]).args(options.split_whitespace());
        command
    };
    let uris = "--turn turn:{turn} --turn turn:{turn}?transport=tcp --turn turns:{turns}";
    let options = with_addresses(&turn, "alice", uris);
    let trust = format!(" --trust {}", turn.certificate().display());
    let found = run(PHONE, check(&(options.clone() + &trust)));
    assert_eq!(found.matches(" relays at ").count(), 3, "{found}");
    // A certificate that is not trusted, and another user than that of the password.
    let other = options.replace(":alice", ":mallory");
    for (options, cause) in [(options, "certificate"), (other + &trust, "(401)")] {
        let output = check(&options).output().expect("the phone runs");
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!output.status.success() && found.contains(cause), "{found}");
    }
}
