//! Checks of honest and of hostile peers.

use barebell_ice::stun::{BINDING, Class, Message, TransactionId, Writer, attribute_type as at};
use barebell_ice::{CONSENT, CheckOutcome, Credentials, LiteAgent, called_ufrag};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

const ID: TransactionId = TransactionId([9; 12]);
const SAME: CheckOutcome = CheckOutcome::Success { is_new_selection: false };
const NEW: CheckOutcome = CheckOutcome::Success { is_new_selection: true };

fn agent() -> LiteAgent {
    let mut agent = LiteAgent::new(Credentials::new(&[5; 32]));
    agent.set_remote("peer");
    agent
}

fn at_second(second: u64) -> Duration {
    Duration::from_secs(second)
}

fn address(port: u16) -> SocketAddr {
    ([198, 51, 100, 7], port).into()
}

/// A check with these attributes besides the name, by `password`.
fn check(name: &str, password: &str, attributes: &[(u16, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(Class::Request, BINDING, ID, &mut out);
    writer.attribute(at::USERNAME, name.as_bytes()).unwrap();
    for (number, value) in attributes {
        writer.attribute(*number, value).unwrap();
    }
    writer.integrity(password.as_bytes()).unwrap();
    writer.fingerprint().unwrap();
    out
}

/// A check of the right peer with this priority, which nominates if so wanted.
fn authentic(agent: &LiteAgent, priority: u32, nominates: bool) -> Vec<u8> {
    let Credentials { ufrag, password } = agent.local();
    let priority = priority.to_be_bytes();
    let all: [(u16, &[u8]); 3] =
        [(at::PRIORITY, &priority), (at::ICE_CONTROLLING, &[1; 8]), (at::USE_CANDIDATE, &[])];
    check(&format!("{ufrag}:peer"), password, &all[..2 + usize::from(nominates)])
}

/// Sends a check. Returns the outcome, and the error code of the response.
fn receive(
    agent: &mut LiteAgent,
    now: u64,
    from: SocketAddr,
    check: &[u8],
) -> (CheckOutcome, Option<u16>) {
    let mut out = Vec::new();
    let outcome = agent.receive(at_second(now), from, check, &mut out);
    let code = match Message::parse(&out) {
        Ok(response) => {
            assert_eq!(response.id, ID);
            response.error().map(|error| error.code)
        }
        Err(_) => None,
    };
    (outcome, code)
}

#[test]
fn an_authentic_check_gets_its_source_and_nominates() {
    let mut agent = agent();
    let mut out = Vec::new();
    let first = authentic(&agent, 7, false);
    assert_eq!(called_ufrag(&first), Some(&*agent.local().ufrag));
    assert_eq!(agent.receive(at_second(1), address(1), &first, &mut out), SAME);
    let response = Message::parse(&out).unwrap();
    assert_eq!((response.class, response.mapped_address()), (Class::Success, Some(address(1))));
    assert!(response.has_integrity(agent.local().password.as_bytes()) && response.has_fingerprint);
    assert_eq!((agent.selected(), agent.consent_end()), (None, Some(at_second(1) + CONSENT)));
    let nomination = authentic(&agent, 7, true);
    assert_eq!(receive(&mut agent, 2, address(1), &nomination), (NEW, None));
    assert_eq!(receive(&mut agent, 3, address(1), &nomination), (SAME, None));
    assert_eq!((agent.selected(), agent.consent_end()), (Some(address(1)), Some(at_second(33))));
}

#[test]
fn of_several_nominations_the_highest_counts_while_its_pair_is_in_use() {
    let mut agent = agent();
    let (low, high) = (authentic(&agent, 1, true), authentic(&agent, 2, true));
    assert_eq!(receive(&mut agent, 0, address(1), &low).0, NEW);
    assert_eq!(receive(&mut agent, 0, address(2), &high).0, NEW);
    assert_eq!(receive(&mut agent, 1, address(1), &low).0, SAME);
    assert_eq!(agent.selected(), Some(address(2)));
    // The network of the better pair is gone.
    assert_eq!(receive(&mut agent, 5, address(1), &low).0, NEW);
    assert_eq!(agent.selected(), Some(address(1)));
}

/// Checks from elsewhere are no consent to media at the selected address: a peer that has named the
/// address of a victim once by a forged source would keep its media there.
#[test]
fn only_checks_from_the_selected_address_prolong_the_consent_to_it() {
    let mut agent = agent();
    let (nomination, other) = (authentic(&agent, 7, true), authentic(&agent, 7, false));
    assert_eq!(receive(&mut agent, 0, address(1), &nomination).0, NEW);
    assert_eq!(receive(&mut agent, 20, address(2), &other).0, SAME);
    assert_eq!(agent.consent_end(), Some(CONSENT));
    assert_eq!(receive(&mut agent, 21, address(1), &other).0, SAME);
    assert_eq!(agent.consent_end(), Some(at_second(21) + CONSENT));
    assert_eq!(receive(&mut agent, 22, address(2), &nomination).0, NEW);
    assert_eq!(agent.consent_end(), Some(at_second(22) + CONSENT));
}

/// Two callees answer on one branch. The second one nominates an address of a lower priority.
#[test]
fn the_peer_of_another_description_nominates_any_address() {
    let mut agent = agent();
    let first = authentic(&agent, 9, true);
    assert_eq!(receive(&mut agent, 0, address(1), &first).0, NEW);
    agent.set_remote("peer");
    let lower = authentic(&agent, 1, true);
    assert_eq!(receive(&mut agent, 1, address(2), &lower).0, SAME);
    agent.set_remote("second");
    let Credentials { ufrag, password } = agent.local().clone();
    let attributes: [(u16, &[u8]); 2] = [(at::PRIORITY, &[0, 0, 0, 1]), (at::USE_CANDIDATE, &[])];
    let second = check(&format!("{ufrag}:second"), &password, &attributes);
    assert_eq!(receive(&mut agent, 2, address(2), &second).0, NEW);
    assert_eq!(receive(&mut agent, 2, address(1), &first).0, CheckOutcome::Error(401));
}

#[test]
fn after_a_restart_old_checks_are_refused_and_media_go_on() {
    let mut agent = agent();
    let old = authentic(&agent, 9, true);
    receive(&mut agent, 0, address(1), &old);
    agent.restart(Credentials::new(&[6; 32]));
    agent.set_remote("peer");
    assert_eq!(receive(&mut agent, 1, address(3), &old), (CheckOutcome::Error(401), Some(401)));
    assert_eq!(agent.selected(), Some(address(1)));
    let new = authentic(&agent, 1, true);
    assert_eq!(receive(&mut agent, 1, address(2), &new).0, NEW);
}

#[test]
fn forged_checks_prove_nothing() {
    let mut agent = agent();
    let Credentials { ufrag, password } = agent.local().clone();
    let name = format!("{ufrag}:peer");
    let nominates: &[(u16, &[u8])] = &[(at::PRIORITY, &[0, 0, 0, 1]), (at::USE_CANDIDATE, &[])];
    let controlled = [nominates, &[(at::ICE_CONTROLLED, &[0; 8])]].concat();
    let unknown = [nominates, &[(0x7ffe, &[])]].concat();
    let mut without_integrity = Vec::new();
    let mut writer = Writer::new(Class::Request, BINDING, ID, &mut without_integrity);
    writer.attribute(at::USERNAME, name.as_bytes()).unwrap();
    writer.fingerprint().unwrap();
    for (forged, code) in [
        (check(&name, "another password", nominates), 401),
        (check("nobody:peer", &password, nominates), 401),
        (check(&format!("{ufrag}:other"), &password, nominates), 401),
        (check("no colon", &password, nominates), 400),
        (check(&name, &password, &nominates[1..]), 400),
        (check(&name, &password, &controlled), 487),
        (check(&name, &password, &unknown), 420),
        (without_integrity, 400),
    ] {
        let expected = (CheckOutcome::Error(code), Some(code));
        assert_eq!(receive(&mut agent, 0, address(1), &forged), expected);
    }
    assert_eq!((agent.selected(), agent.consent_end()), (None, None));
}

#[test]
fn the_response_to_a_stranger_is_no_longer_than_its_check() {
    let mut out = Vec::new();
    let mut agent = agent();
    let mut short = Vec::new();
    Writer::new(Class::Request, BINDING, ID, &mut short);
    assert_eq!(agent.receive(at_second(0), address(1), &short, &mut out), CheckOutcome::Ignored);
    for other in [Class::Indication, Class::Success, Class::Error] {
        Writer::new(other, BINDING, ID, &mut short);
        assert_eq!(
            agent.receive(at_second(0), address(1), &short, &mut out),
            CheckOutcome::Ignored
        );
    }
}

proptest! {
    #[test]
    fn any_change_of_a_check_is_refused(place in 0..200_usize, bit in 0..8_u32) {
        let mut agent = agent();
        let mut forged = authentic(&agent, 5, true);
        let place = place % forged.len();
        forged[place] ^= 1_u8 << bit;
        let mut out = Vec::new();
        let outcome = agent.receive(at_second(0), address(1), &forged, &mut out);
        let is_answered = matches!(outcome, CheckOutcome::Success { .. });
        prop_assert!(!is_answered);
        prop_assert_eq!(agent.selected(), None);
    }

    #[test]
    fn any_datagram_is_handled(datagram in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut out = Vec::new();
        let _ = called_ufrag(&datagram);
        prop_assert_eq!(
            agent().receive(at_second(0), address(1), &datagram, &mut out),
            CheckOutcome::Ignored
        );
    }
}
