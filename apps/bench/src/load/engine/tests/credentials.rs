//! Challenges and credentials.

use super::super::Task;
use super::super::key::Key;
use super::rig::{Rig, Sent, answer, assert_delays, only};
use crate::record::Delay;
use sip::digest::{Algorithm, Challenge, Credentials, Ha1Set, QopOptions};
use std::collections::BTreeMap;

const REALM: &str = "example.org";

/// Returns a challenge as a header field line.
fn challenge(status: u16, algorithm: Algorithm, nonce: &str) -> String {
    let mut value = Vec::new();
    Challenge {
        realm: REALM.as_bytes(),
        nonce: nonce.as_bytes(),
        opaque: None,
        stale: false,
        algorithm,
        session: false,
        qop: QopOptions::AUTH,
        domain: None,
    }
    .write(&mut value);
    let name = if status == 401 { "WWW-Authenticate" } else { "Proxy-Authenticate" };
    format!("{name}: {}\r\n", String::from_utf8(value).unwrap())
}

/// Asserts that `request` has valid credentials of user 0 for `nonce`.
#[track_caller]
fn assert_proves(request: &Sent, status: u16, algorithm: Algorithm, nonce: &str) {
    let name = if status == 401 { "Authorization" } else { "Proxy-Authorization" };
    let value = request.value(name);
    let credentials = Credentials::parse(value.as_bytes()).unwrap().unwrap();
    assert_eq!(credentials.nonce, nonce.as_bytes());
    assert_eq!(credentials.algorithm, algorithm);
    let mut words = request.start_line().split(' ');
    let (method, uri) = (words.next().unwrap(), words.next().unwrap());
    assert_eq!(credentials.uri, uri.as_bytes());
    let ha1 = Ha1Set::new(b"user0", REALM.as_bytes(), b"secret0");
    let body = request.text.split_once("\r\n\r\n").unwrap().1;
    assert!(credentials.verify(&ha1, method.as_bytes(), body.as_bytes()), "{value}");
    let wrong = Ha1Set::new(b"user0", REALM.as_bytes(), b"secret1");
    assert!(!credentials.verify(&wrong, method.as_bytes(), body.as_bytes()));
}

fn branch(request: &Sent) -> &str {
    request.value("Via").split("branch=").nth(1).unwrap()
}

#[test]
fn a_request_is_sent_again_with_credentials_and_the_time_between_is_nobodys() {
    for (status, line) in [(401, "401 Unauthorized"), (407, "407 Proxy Authentication Required")] {
        for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
            for (task, method) in [
                (Task::Register, "REGISTER"),
                (Task::Logout, "REGISTER"),
                (Task::Options, "OPTIONS"),
                (Task::InviteNotFound, "INVITE"),
            ] {
                let mut rig = Rig::new(|_| ());
                let first = only(rig.start(task));
                rig.wait(10);
                let asked = answer(&first.text, line, &challenge(status, algorithm, "n0nce"));
                let mut sent = rig.deliver_late(0, &asked, 5, 3);
                if method == "INVITE" {
                    let ack = sent.remove(0);
                    assert!(ack.start_line().starts_with("ACK "));
                    assert_eq!(branch(&ack), branch(&first), "of the same transaction");
                    assert_eq!(ack.value("CSeq"), "1 ACK");
                }
                let second = only(sent);
                assert_proves(&second, status, algorithm, "n0nce");
                assert_eq!(second.start_line(), first.start_line());
                assert_eq!(second.number(), first.number() + 1);
                assert_eq!(second.value("Call-ID"), first.value("Call-ID"));
                assert_eq!(second.value("From"), first.value("From"));
                assert_ne!(branch(&second), branch(&first));
                rig.wait(20);
                let (end, code) = match task {
                    Task::InviteNotFound => ("404 Not Found", 404),
                    _ => ("200 OK", 200),
                };
                rig.deliver(0, &answer(&second.text, end, ""));
                // A retransmission of the answered challenge.
                rig.deliver(0, &asked);
                let parts = rig.finish();
                let counts = &parts.counts;
                assert_eq!((counts.succeeded, counts.challenged, counts.repeated), (1, 1, 1));
                assert_eq!(counts.finals[method], BTreeMap::from([(code, 1)]));
                let mut delays = vec![(Delay::Response, 30), (Delay::FromSchedule, 30)];
                match method {
                    "REGISTER" => delays.push((Delay::Rrd, 30)),
                    "INVITE" => delays.push((Delay::SrdFailed, 30)),
                    _ => {}
                }
                assert_delays(&parts, &delays);
            }
        }
    }
}

#[test]
fn two_challenges_are_answered_and_the_third_is_a_refusal() {
    let mut rig = Rig::new(|_| ());
    let mut request = only(rig.start(Task::Register));
    for nonce in ["one", "two"] {
        let asked =
            answer(&request.text, "401 Unauthorized", &challenge(401, Algorithm::Md5, nonce));
        request = only(rig.deliver(0, &asked));
        assert_proves(&request, 401, Algorithm::Md5, nonce);
    }
    let asked = answer(&request.text, "401 Unauthorized", &challenge(401, Algorithm::Md5, "x"));
    assert!(rig.deliver(0, &asked).is_empty());
    let parts = rig.finish();
    assert_eq!((parts.counts.challenged, parts.counts.refused), (2, 1));
    assert_eq!(parts.counts.finals["REGISTER"], BTreeMap::from([(401, 1)]));
    assert!(parts.delays.is_empty());
}

#[test]
fn a_challenge_that_cannot_be_answered_is_a_refusal() {
    for more in ["", "WWW-Authenticate: Basic realm=\"x\"\r\n"] {
        let mut rig = Rig::new(|_| ());
        let request = only(rig.start(Task::Register));
        assert!(rig.deliver(0, &answer(&request.text, "401 Unauthorized", more)).is_empty());
        let counts = rig.finish().counts;
        assert_eq!((counts.challenged, counts.refused), (0, 1));
    }
}

#[test]
fn a_request_with_credentials_is_sent_again_by_timers_of_its_own() {
    let mut rig = Rig::new(|_| ());
    let first = only(rig.start(Task::Register));
    assert_eq!(rig.wait(600).len(), 1);
    let asked = answer(&first.text, "401 Unauthorized", &challenge(401, Algorithm::Md5, "n"));
    let second = only(rig.deliver(0, &asked));
    assert!(rig.wait(480).is_empty());
    let again = only(rig.wait(40));
    assert_eq!(again.text, second.text);
    rig.deliver(0, &answer(&second.text, "200 OK", ""));
    let parts = rig.finish();
    assert_eq!((parts.counts.retransmitted, parts.counts.sent), (2, 4));
    // From the first transmission of each of the two.
    assert_delays(
        &parts,
        &[(Delay::Response, 1120), (Delay::Rrd, 1120), (Delay::FromSchedule, 1120)],
    );
}

#[test]
fn sequence_numbers_of_a_users_registrations_rise() {
    let mut rig = Rig::new(|_| ());
    let mut numbers = Vec::new();
    for _ in 0..3 {
        let request = only(rig.start(Task::Register));
        let asked = answer(&request.text, "401 Unauthorized", &challenge(401, Algorithm::Md5, "n"));
        let second = only(rig.deliver(0, &asked));
        rig.deliver(0, &answer(&second.text, "200 OK", ""));
        for request in [request, second] {
            numbers.push(request.number());
        }
    }
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
}

#[test]
fn the_ack_of_a_2xx_has_the_credentials_of_the_invite() {
    let mut rig = Rig::new(|_| ());
    let first = only(rig.start(Task::Invite));
    let line = challenge(407, Algorithm::Md5, "n");
    let asked = answer(&first.text, "407 Proxy Authentication Required", &line);
    let mut sent = rig.deliver(0, &asked);
    let second = sent.pop().unwrap();
    let contact = "Contact: <sip:user2@192.0.2.10:6002>\r\n";
    let ok = answer(&second.text, "200 OK", contact);
    let sent = rig.deliver(0, &ok);
    let [ack, bye] = &sent[..] else { panic!("{sent:#?}") };
    assert_eq!(ack.value("CSeq"), "2 ACK");
    assert_eq!(ack.value("Proxy-Authorization"), second.value("Proxy-Authorization"));
    assert!(bye.values("Proxy-Authorization").is_empty());
    // An equal ACK (RFC 3261 section 22.1) for a retransmitted 200.
    let again = only(rig.deliver(0, &ok));
    assert_eq!(again.text, ack.text);
}

#[test]
fn a_bye_is_challenged_too_and_its_delay_is_both_trips() {
    let mut rig = Rig::new(|_| ());
    let invite = only(rig.start(Task::Invite));
    rig.wait(10);
    let contact = "Contact: <sip:user2@192.0.2.10:6002>\r\n";
    let sent = rig.deliver(0, &answer(&invite.text, "200 OK", contact));
    let [ack, bye] = &sent[..] else { panic!("{sent:#?}") };
    assert!(ack.text.starts_with("ACK sip:user2@192.0.2.10:6002 "));
    rig.wait(20);
    let line = challenge(407, Algorithm::Sha256, "n");
    let asked = answer(&bye.text, "407 Proxy Authentication Required", &line);
    let second = only(rig.deliver_late(0, &asked, 4, 4));
    assert_proves(&second, 407, Algorithm::Sha256, "n");
    assert_eq!(second.value("CSeq"), "3 BYE");
    rig.wait(30);
    rig.deliver(0, &answer(&second.text, "200 OK", ""));
    let parts = rig.finish();
    assert_eq!((parts.counts.succeeded, parts.counts.challenged), (1, 1));
    assert_eq!(parts.counts.completed_calls, 1);
    assert_delays(
        &parts,
        &[
            (Delay::Response, 10),
            (Delay::FromSchedule, 10),
            (Delay::Srd, 10),
            (Delay::Setup, 10),
            (Delay::Sdt, 0),
            (Delay::Sdd, 50),
            (Delay::Latency, 60),
        ],
    );
}

#[test]
fn keys_in_branches_name_their_operation() {
    let mut rig = Rig::new(|_| ());
    let request = only(rig.start(Task::Register));
    let key = Key::parse(&branch(&request).as_bytes()[7..], 0x1234_5678).unwrap();
    assert_eq!((key.slot, key.attempt), (0, 0));
}

/// Answers `request` with a challenge for `nonce`, and returns the messages that follow.
fn ask(rig: &mut Rig, request: &Sent, status: u16, nonce: &str, stale: bool) -> Vec<Sent> {
    let line = if status == 401 { "401 Unauthorized" } else { "407 Proxy Authentication Required" };
    let mut fields = challenge(status, Algorithm::Sha256, nonce);
    if stale {
        fields = fields.replace(", algorithm", ", stale=true, algorithm");
        assert!(fields.contains("stale=true"), "{fields}");
    }
    rig.deliver(0, &answer(&request.text, line, &fields))
}

fn nonce_and_count(request: &Sent, name: &str) -> (String, u32) {
    let value = request.value(name);
    let credentials = Credentials::parse(value.as_bytes()).unwrap().unwrap();
    let nonce = String::from_utf8(credentials.nonce.to_vec()).unwrap();
    (nonce, credentials.nc.unwrap().value())
}

#[test]
fn a_nonce_is_used_again_with_a_rising_count_where_that_is_asked_for() {
    let mut rig = Rig::new(|settings| settings.reuse_nonces = true);
    let first = only(rig.start(Task::Register));
    assert!(first.values("Authorization").is_empty());
    let second = only(ask(&mut rig, &first, 401, "one", false));
    assert_eq!(nonce_and_count(&second, "Authorization"), ("one".to_owned(), 1));
    rig.deliver(0, &answer(&second.text, "200 OK", ""));
    for count in [2, 3] {
        let next = only(rig.start(Task::Register));
        assert_eq!(nonce_and_count(&next, "Authorization"), ("one".to_owned(), count));
        assert_proves(&next, 401, Algorithm::Sha256, "one");
        let again = only(rig.wait(510));
        assert_eq!(again.text, next.text, "a retransmission is the same");
        rig.deliver(0, &answer(&next.text, "200 OK", ""));
    }
    // The nonce is stale: the next one is used.
    let next = only(rig.start(Task::Register));
    assert_eq!(nonce_and_count(&next, "Authorization"), ("one".to_owned(), 4));
    let next = only(ask(&mut rig, &next, 401, "two", true));
    assert_eq!(nonce_and_count(&next, "Authorization"), ("two".to_owned(), 1));
    assert_proves(&next, 401, Algorithm::Sha256, "two");
    // The server names the next nonce.
    rig.deliver(
        0,
        &answer(&next.text, "200 OK", "Authentication-Info: qop=auth, nextnonce=\"three\"\r\n"),
    );
    for count in [1, 2] {
        let next = only(rig.start(Task::Logout));
        assert_eq!(nonce_and_count(&next, "Authorization"), ("three".to_owned(), count));
        assert_proves(&next, 401, Algorithm::Sha256, "three");
        rig.deliver(0, &answer(&next.text, "200 OK", ""));
    }
    // Other methods were not challenged.
    let options = only(rig.start(Task::Options));
    assert!(options.values("Authorization").is_empty());
    rig.deliver(0, &answer(&options.text, "200 OK", ""));
    let counts = rig.finish().counts;
    assert_eq!((counts.succeeded, counts.challenged, counts.reused), (7, 2, 5));
}

#[test]
fn a_call_uses_the_nonce_of_the_call_before_in_invite_and_ack() {
    let mut rig = Rig::new(|settings| settings.reuse_nonces = true);
    let invite = only(rig.start(Task::InviteNotFound));
    let sent = ask(&mut rig, &invite, 407, "n", false);
    let [_, invite] = &sent[..] else { panic!("{sent:#?}") };
    rig.deliver(0, &answer(&invite.text, "404 Not Found", ""));
    let invite = only(rig.start(Task::Invite));
    assert_eq!(nonce_and_count(&invite, "Proxy-Authorization"), ("n".to_owned(), 2));
    assert_proves(&invite, 407, Algorithm::Sha256, "n");
    let ok = answer(&invite.text, "200 OK", "Contact: <sip:a@192.0.2.9>\r\n");
    let sent = rig.deliver(0, &ok);
    let [ack, bye] = &sent[..] else { panic!("{sent:#?}") };
    assert_eq!(ack.value("Proxy-Authorization"), invite.value("Proxy-Authorization"));
    assert!(bye.values("Proxy-Authorization").is_empty(), "a BYE was never challenged");
    rig.deliver(0, &answer(&bye.text, "200 OK", ""));
    assert_eq!(rig.finish().counts.reused, 1);
}

#[test]
fn each_operation_is_challenged_where_nonces_are_not_used_again() {
    let mut rig = Rig::new(|_| ());
    for _ in 0..2 {
        let first = only(rig.start(Task::Register));
        assert!(first.values("Authorization").is_empty());
        let second = only(ask(&mut rig, &first, 401, "one", false));
        assert_eq!(nonce_and_count(&second, "Authorization"), ("one".to_owned(), 1));
        rig.deliver(0, &answer(&second.text, "200 OK", "Authentication-Info: nextnonce=\"x\"\r\n"));
    }
    let counts = rig.finish().counts;
    assert_eq!((counts.challenged, counts.reused), (2, 0));
}

#[test]
fn a_registration_that_is_too_brief_is_proved_anew() {
    for reuses in [false, true] {
        let mut rig = Rig::new(|settings| settings.reuse_nonces = reuses);
        let first = only(rig.start(Task::Register));
        let second = only(ask(&mut rig, &first, 401, "one", false));
        let brief = answer(&second.text, "423 Interval Too Brief", "Min-Expires: 1800\r\n");
        let third = only(rig.deliver(0, &brief));
        assert_eq!(third.value("Expires"), "1800");
        let (proved, nonce, count) = if reuses {
            (third, "one", 2)
        } else {
            assert!(third.values("Authorization").is_empty(), "each waits for a challenge");
            (only(ask(&mut rig, &third, 401, "two", false)), "two", 1)
        };
        assert_eq!(proved.value("Expires"), "1800");
        assert_eq!(nonce_and_count(&proved, "Authorization"), (nonce.to_owned(), count));
        assert_proves(&proved, 401, Algorithm::Sha256, nonce);
        rig.deliver(0, &answer(&proved.text, "200 OK", ""));
        let counts = rig.finish().counts;
        let challenged = if reuses { 1 } else { 2 };
        assert_eq!((counts.succeeded, counts.challenged), (1, challenged));
        assert_eq!(counts.finals["REGISTER"], BTreeMap::from([(200, 1), (423, 1)]));
    }
}
