//! Calls through trunks, with the server's proxy in front: phone 0 is a user, the others are the
//! trunks.

mod rig;

use barebell_b2bua::{Password, Trunk, TrunkAccount, TrunkFrom};
use rig::{Rig, session};
use sip::digest::{Credentials, Ha1Set};
use sip::{HeaderName, Message};
use sip_ua::{AccountId, CallId, End, Event, Failure, Transfer};
use std::time::Duration;
use test_support::flow::value;

/// Trunks with these names, at `NAME.example`.
fn trunks(names: &[&str]) -> Vec<Trunk> {
    names.iter().map(|name| Trunk::new(name, &format!("{name}.example"))).collect()
}

/// Phone 0 calls `number`.
fn dial(rig: &mut Rig, number: &str) -> CallId {
    let uri = format!("sip:{number}@192.0.2.100");
    let offer = session(0, 4000, "sendrecv");
    rig.act(0, |phone, now| phone.call(now, Some(AccountId(0)), &uri, offer))
}

/// The call that phone 0 has placed ends. Returns the status.
fn failed(rig: &mut Rig) -> u16 {
    let event = rig.expect_where(0, |event| matches!(event, Event::Ended { .. }));
    let Event::Ended { end: End::Failed(failure), .. } = event else { panic!("{event:?}") };
    failure.status()
}

/// The words about trunks since the last call.
fn words(rig: &mut Rig) -> Vec<String> {
    let events = std::mem::take(&mut rig.owner.events);
    let words = events.into_iter().filter_map(|event| match event {
        barebell_b2bua::Event::Trunk { trunk, words, .. } => Some(format!("{trunk}: {words}")),
        _ => None,
    });
    words.collect()
}

#[test]
fn a_call_goes_out_and_each_end_ends_it() {
    for is_by_caller in [true, false] {
        let mut rig = Rig::office(1, trunks(&["alpha"]));
        let caller = dial(&mut rig, "0456");
        let callee = rig.expect_incoming(1);
        let invite = rig.last(1, "INVITE");
        assert!(invite.starts_with("INVITE sip:456@alpha.example SIP/2.0\r\n"), "{invite}");
        assert!(invite.contains("\r\nTo: <sip:456@alpha.example>\r\n"), "{invite}");
        assert!(invite.contains("\r\nFrom: <sip:+4930123@alpha.example>;tag="), "{invite}");
        assert!(!invite.contains("p0@") && !invite.contains("\r\nRoute:"), "{invite}");
        rig.act(1, |phone, now| phone.ring(now, callee, b""));
        rig.expect_where(0, |event| matches!(event, Event::Ringing { status: 180, .. }));
        rig.act(1, |phone, now| phone.answer(now, callee, &session(1, 5000, "sendrecv")));
        rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
        rig.pass(Duration::from_secs(5));
        assert_eq!(rig.b2bua().calls_on_trunk(0), 1);
        let (by, call, other) = if is_by_caller { (0, caller, 1) } else { (1, callee, 0) };
        rig.act(by, |phone, now| phone.hang_up(now, call));
        rig.expect_where(other, |event| matches!(event, Event::Ended { .. }));
        rig.finish();
        assert_eq!(rig.b2bua().calls_on_trunk(0), 0);
        assert_eq!(words(&mut rig), Vec::<String>::new());
    }
}

#[test]
fn the_account_of_the_trunk_answers_its_challenges() {
    for (status, asks, answers) in [
        (407, "Proxy-Authenticate", HeaderName::ProxyAuthorization),
        (401, "WWW-Authenticate", HeaderName::Authorization),
    ] {
        let mut trunk = Trunk::new("alpha", "alpha.example");
        let (username, password) = ("login".into(), Some(Password::new("secret")));
        trunk.account = Some(TrunkAccount { user: "acc".into(), username, password });
        trunk.from = TrunkFrom::Account;
        let mut rig = Rig::office(2, vec![trunk]);
        rig.script(1);
        dial(&mut rig, "0456");
        let invite = rig.mail(1, "INVITE");
        let challenge = format!("{asks}: Digest realm=\"alpha\", nonce=\"n1\"\r\n");
        rig.reply(1, &invite, (status, "a"), &challenge, b"");
        rig.mail(1, "ACK");
        let again = rig.mail(1, "INVITE");
        let message = Message::parse(&again).expect("a message");
        let credentials = message.value(answers).expect("credentials");
        let credentials = Credentials::parse(credentials).expect("good").expect("digest");
        let ha1 = Ha1Set::new(b"login", b"alpha", b"secret");
        assert!(credentials.verify(&ha1, b"INVITE", message.body()), "{status}");
        let from = value(&again, HeaderName::From);
        assert!(from.starts_with("<sip:acc@alpha.example>;tag="), "{from}");
        assert_eq!(value(&again, HeaderName::CallId), value(&invite, HeaderName::CallId));
        // The same answer is not given twice, and the phone gets no challenge.
        rig.reply(1, &again, (status, "b"), &challenge, b"");
        assert_eq!(failed(&mut rig), 500);
        let expected = "alpha: a call to 456 failed: the account is not accepted for the realm \
                        alpha; no other trunk is left";
        assert_eq!(words(&mut rig), [expected]);
        rig.finish();
    }
}

#[test]
fn a_trunk_that_fails_is_followed_by_the_next() {
    for (status, cause) in [
        (503, "503 Service Unavailable"),
        (500, "500 Server Internal Error"),
        (403, "403 Forbidden"),
        (408, "no response"),
        (0, "no response"),
    ] {
        let mut rig = Rig::office(3, trunks(&["alpha", "beta"]));
        let caller = dial(&mut rig, "0456");
        if status == 0 {
            rig.silence(1);
        } else {
            let callee = rig.expect_incoming(1);
            rig.act(1, |phone, now| phone.decline(now, callee, status));
        }
        let callee = rig.expect_incoming(2);
        let invite = rig.last(2, "INVITE");
        assert!(invite.starts_with("INVITE sip:456@beta.example SIP/2.0\r\n"), "{invite}");
        assert!(invite.contains("\r\nFrom: <sip:+4930123@beta.example>;tag="), "{invite}");
        let expected = format!("alpha: a call to 456 failed: {cause}; trunk beta is next");
        assert_eq!(words(&mut rig), [expected]);
        rig.act(2, |phone, now| phone.answer(now, callee, &session(2, 5000, "sendrecv")));
        rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
        assert_eq!([0, 1].map(|trunk| rig.b2bua().calls_on_trunk(trunk)), [0, 1]);
        rig.pass(Duration::from_secs(1));
        rig.act(0, |phone, now| phone.hang_up(now, caller));
        rig.finish();
        assert_eq!(rig.b2bua().counters().trunk_failures, 1);
    }
}

#[test]
fn what_the_callee_says_is_final() {
    for status in [404, 480, 484, 486, 600, 603] {
        let mut rig = Rig::office(4, trunks(&["alpha", "beta"]));
        dial(&mut rig, "0456");
        let callee = rig.expect_incoming(1);
        rig.act(1, |phone, now| phone.ring(now, callee, b""));
        rig.act(1, |phone, now| phone.decline(now, callee, status));
        assert_eq!(failed(&mut rig), status);
        rig.finish();
        assert_eq!((rig.count(2, "INVITE"), words(&mut rig).len()), (0, 0), "{status}");
    }
}

#[test]
fn a_call_that_no_trunk_takes_fails_with_the_response_of_the_last_one() {
    for (status, expected) in [(503, 500), (302, 480), (502, 502)] {
        let mut rig = Rig::office(5, trunks(&["alpha", "beta"]));
        rig.script(1);
        rig.script(2);
        dial(&mut rig, "0456");
        for phone in [1, 2] {
            let invite = rig.mail(phone, "INVITE");
            rig.reply(phone, &invite, (status, "x"), "", b"");
        }
        assert_eq!(failed(&mut rig), expected, "{status}");
        assert!(!rig.last(0, "SIP/2.0").contains("\r\nContact:"), "no target of a redirection");
        let words = words(&mut rig);
        assert!(words[0].ends_with("; trunk beta is next"), "{words:?}");
        assert!(words[1].ends_with("; no other trunk is left"), "{words:?}");
        rig.finish();
    }
}

#[test]
fn a_cancelled_call_tries_no_other_trunk() {
    let mut rig = Rig::office(6, trunks(&["alpha", "beta"]));
    let caller = dial(&mut rig, "0456");
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.ring(now, callee, b""));
    rig.expect_where(0, |event| matches!(event, Event::Ringing { .. }));
    rig.act(0, |phone, now| phone.hang_up(now, caller));
    rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    rig.finish();
    assert_eq!((rig.count(2, "INVITE"), words(&mut rig).len()), (0, 0));
}

#[test]
fn a_full_trunk_is_passed_over_except_by_emergency_calls() {
    let mut full = trunks(&["alpha", "beta"]);
    full[0].calls = 1;
    full[1].calls = 0;
    let mut rig = Rig::office(7, full);
    let first = dial(&mut rig, "0456");
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.answer(now, callee, &session(1, 5000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    dial(&mut rig, "0457");
    assert_eq!(failed(&mut rig), 480);
    let expected = [
        "alpha: a call to 457 failed: its limit of 1 calls is reached; trunk beta is next",
        "beta: a call to 457 failed: its limit of 0 calls is reached; no other trunk is left",
    ];
    assert_eq!(words(&mut rig), expected);
    let emergency = dial(&mut rig, "112");
    let callee = rig.expect_incoming(1);
    rig.act(1, |phone, now| phone.answer(now, callee, &session(1, 5000, "sendrecv")));
    rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
    // The trunk has no place for a call from it, either.
    let uri = "sip:+4930123@192.0.2.100";
    rig.act(1, |phone, now| phone.call(now, None, uri, session(1, 6000, "sendrecv")));
    let event = rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    let Event::Ended { end: End::Failed(Failure::Refused { status: 480, .. }), .. } = event else {
        panic!("{event:?}")
    };
    let expected = "alpha: a call from it is refused: its limit of 1 calls is reached";
    assert_eq!(words(&mut rig), [expected]);
    for call in [first, emergency] {
        rig.act(0, |phone, now| phone.hang_up(now, call));
    }
    rig.finish();
    assert_eq!(rig.b2bua().counters().over_trunk, 1);
}

/// A call comes in from trunk 0. Returns its identifiers at the trunk and at phone 0.
fn establish_from_trunk(rig: &mut Rig) -> (CallId, CallId) {
    let uri = "sip:+4930123@192.0.2.100";
    let offer = session(1, 5000, "sendrecv");
    let caller = rig.act(1, |phone, now| phone.call(now, None, uri, offer));
    let callee = rig.expect_incoming(0);
    rig.act(0, |phone, now| phone.answer(now, callee, &session(0, 4000, "sendrecv")));
    rig.expect_where(1, |event| matches!(event, Event::Answered { .. }));
    rig.pass(Duration::from_secs(2));
    (caller, callee)
}

#[test]
fn a_call_comes_in() {
    let mut rig = Rig::office(8, trunks(&["alpha"]));
    let (_, callee) = establish_from_trunk(&mut rig);
    let on_trunk = rig.b2bua().calls_on_trunk(0);
    assert_eq!((rig.b2bua().calls(), on_trunk), (1, 1));
    rig.act(0, |phone, now| phone.hang_up(now, callee));
    rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    rig.finish();
}

#[test]
fn the_account_answers_the_challenges_to_later_requests_of_a_call_that_came_in() {
    let mut trunk = Trunk::new("alpha", "alpha.example");
    let (username, password) = ("login".into(), Some(Password::new("secret")));
    trunk.account = Some(TrunkAccount { user: "acc".into(), username, password });
    let mut rig = Rig::office(12, vec![trunk]);
    let (_, callee) = establish_from_trunk(&mut rig);
    rig.script(1);
    rig.act(0, |phone, now| phone.hang_up(now, callee));
    let bye = rig.mail(1, "BYE");
    let challenge = "Proxy-Authenticate: Digest realm=\"alpha\", nonce=\"n1\"\r\n";
    rig.reply(1, &bye, (407, "a"), challenge, b"");
    let again = rig.mail(1, "BYE");
    let message = Message::parse(&again).expect("a message");
    let credentials = message.value(HeaderName::ProxyAuthorization).expect("credentials");
    let credentials = Credentials::parse(credentials).expect("good").expect("digest");
    assert!(credentials.verify(&Ha1Set::new(b"login", b"alpha", b"secret"), b"BYE", b""));
    rig.reply(1, &again, (200, "a"), "", b"");
    rig.pass(Duration::from_secs(1));
    assert_eq!(rig.b2bua().calls(), 0);
}

#[test]
fn a_caller_from_a_trunk_with_a_number_is_shown_at_the_domain_of_the_called_user() {
    let mut rig = Rig::office(13, trunks(&["alpha"]));
    rig.script(1);
    for (from, shown) in [
        ("\"Bob\" <sip:+49301@alpha.example:5070>", "\"Bob\" <sip:+49301@192.0.2.100>"),
        ("<sip:0301@alpha.example>", "<sip:0301@192.0.2.100>"),
        ("<sip:anonymous@anonymous.invalid>", "<sip:anonymous@anonymous.invalid>"),
        ("<sip:office@alpha.example>", "<sip:office@alpha.example>"),
    ] {
        let invite = rig::flow::invite(1, 0, "", &session(1, 5000, "sendrecv"));
        let invite = String::from_utf8(invite).expect("text");
        let start = invite.find("\r\nFrom: ").expect("From") + "\r\nFrom: ".len();
        let end = start + invite[start..].find(";tag=").expect("a tag");
        let invite = [&invite[..start], from, &invite[end..]].concat();
        let invite = invite.replacen("sip:p0@", "sip:+4930123@", 1);
        let invite = invite.replace("Call-ID: ", &format!("Call-ID: {}", from.len()));
        let invite = invite.replace("z9hG4bKinvite", &format!("z9hG4bK{}", from.len()));
        rig.send(1, invite.as_bytes());
        let call = rig.expect_incoming(0);
        let received = rig.last(0, "INVITE");
        assert!(received.contains(&format!("\r\nFrom: {shown};tag=")), "{received}");
        rig.act(0, |phone, now| phone.decline(now, call, 486));
    }
}

#[test]
fn a_trunk_gets_no_credentials_of_a_phone() {
    let mut rig = Rig::office(25, trunks(&["alpha"]));
    let (_, callee) = establish_from_trunk(&mut rig);
    let (offer, lines) = (session(0, 4100, "sendonly"), b"Authorization: Digest realm=\"a\"\r\n");
    rig.act(0, |phone, now| phone.offer_once(now, callee, offer, None, lines));
    rig.expect_where(1, |event| matches!(event, Event::Offer { .. }));
    assert!(!rig.last(1, "INVITE").contains("Authorization"));
    rig.act(0, |phone, now| phone.hang_up(now, callee));
    rig.finish();
}

/// The phone would call the target with the rights of its user.
#[test]
fn a_trunk_transfers_no_phone() {
    for is_from_trunk in [true, false] {
        let mut rig = Rig::office(9, trunks(&["alpha"]));
        let (at_trunk, at_phone) = match is_from_trunk {
            true => establish_from_trunk(&mut rig),
            false => {
                let caller = dial(&mut rig, "0456");
                let callee = rig.expect_incoming(1);
                rig.act(1, |phone, now| phone.answer(now, callee, &session(1, 5, "sendrecv")));
                rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
                rig.pass(Duration::from_secs(2));
                (callee, caller)
            }
        };
        rig.act(1, |phone, now| phone.transfer(now, at_trunk, "sip:0900@192.0.2.100"));
        rig.pass(Duration::from_secs(5));
        assert!(rig.last(1, "SIP/2.0 403").contains("REFER"));
        assert_eq!(rig.count(0, "REFER"), 0);
        rig.act(0, |phone, now| phone.hang_up(now, at_phone));
        rig.finish();
    }
}

/// The provider would call the target at the cost of the trunk, whatever the numbers allow.
#[test]
fn a_trunk_is_referred_to_addresses_of_the_house_only() {
    for is_from_trunk in [true, false] {
        let mut rig = Rig::office_of(14, 2, trunks(&["alpha"]));
        let call = match is_from_trunk {
            true => {
                let uri = "sip:+4930123@192.0.2.100";
                let offer = session(2, 5000, "sendrecv");
                rig.act(2, |phone, now| phone.call(now, None, uri, offer));
                let callee = rig.expect_incoming(0);
                rig.act(0, |phone, now| phone.answer(now, callee, &session(0, 4, "sendrecv")));
                rig.expect_where(2, |event| matches!(event, Event::Answered { .. }));
                callee
            }
            false => {
                let caller = dial(&mut rig, "0456");
                let callee = rig.expect_incoming(2);
                rig.act(2, |phone, now| phone.answer(now, callee, &session(2, 5, "sendrecv")));
                rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
                caller
            }
        };
        rig.pass(Duration::from_secs(2));
        for target in [
            "sip:0900@trunk.example",
            "sip:+49900@alpha.example",
            "sip:p1@192.0.2.1",
            // A provider that reads the user part only calls these, too.
            "sip:0900@192.0.2.100",
            "sip:+49900@192.0.2.100",
            "sip:+49900;user=p1@192.0.2.100",
        ] {
            rig.act(0, |phone, now| phone.transfer(now, call, target));
            let event = rig.expect_where(0, |event| matches!(event, Event::Transfer { .. }));
            let is_refused = matches!(
                &event,
                Event::Transfer { transfer: Transfer::Failed(failure), .. }
                    if failure.status() == 403
            );
            assert!(is_refused, "{target}: {event:?}");
        }
        assert_eq!(rig.count(2, "REFER"), 0);
        rig.act(0, |phone, now| phone.transfer(now, call, "sip:p1@192.0.2.100"));
        rig.expect_where(2, |event| matches!(event, Event::TransferAsked { .. }));
        let refer = rig.last(2, "REFER");
        assert!(refer.contains("\r\nRefer-To: <sip:p1@192.0.2.100>\r\n"), "{refer}");
        rig.act(0, |phone, now| phone.hang_up(now, call));
        rig.finish();
    }
}

/// The party of another call on the trunk is outside, too.
#[test]
fn a_trunk_is_not_referred_to_a_party_on_a_trunk() {
    let mut rig = Rig::office_of(15, 1, trunks(&["alpha"]));
    let calls = ["0456", "0457"].map(|number| {
        let caller = dial(&mut rig, number);
        let callee = rig.expect_incoming(1);
        rig.act(1, |phone, now| phone.answer(now, callee, &session(1, 5, "sendrecv")));
        rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
        rig.pass(Duration::from_secs(2));
        caller
    });
    rig.act(0, |phone, now| phone.transfer_to(now, calls[0], calls[1]));
    rig.expect_where(0, |event| {
        matches!(event, Event::Transfer { transfer: Transfer::Failed(_), .. })
    });
    assert_eq!((rig.count(0, "SIP/2.0 403"), rig.count(1, "REFER")), (1, 0));
    for call in calls {
        rig.act(0, |phone, now| phone.hang_up(now, call));
    }
    rig.finish();
}

#[test]
fn a_redirection_by_a_phone_does_not_reach_a_trunk() {
    let mut rig = Rig::office(16, trunks(&["alpha"]));
    let uri = "sip:+4930123@192.0.2.100";
    rig.act(1, |phone, now| phone.call(now, None, uri, session(1, 5000, "sendrecv")));
    let callee = rig.expect_incoming(0);
    rig.act(0, |phone, now| phone.redirect(now, callee, "sip:+49900@alpha.example"));
    let event = rig.expect_where(1, |event| matches!(event, Event::Ended { .. }));
    assert!(
        matches!(event, Event::Ended { end: End::Failed(ref failure), .. } if failure.status() == 480),
        "{event:?}"
    );
    assert!(!rig.last(1, "SIP/2.0 480").contains("\r\nContact:"));
    rig.finish();
}

#[test]
fn the_names_of_the_caller_stay_in_the_office() {
    for (is_trusted, privacy) in [(false, ""), (true, ""), (true, "id"), (false, "id")] {
        let mut trunk = Trunk::new("alpha", "alpha.example");
        trunk.is_trusted = is_trusted;
        let mut rig = Rig::office(10, vec![trunk]);
        rig.script(0);
        let privacy_line = match privacy {
            "" => String::new(),
            value => format!("Privacy: {value}\r\n"),
        };
        let lines = format!(
            "{privacy_line}P-Asserted-Identity: <sip:boss@192.0.2.100>\r\n\
             Diversion: <sip:p9@192.0.2.100>\r\nReferred-By: <sip:p8@192.0.2.100>\r\n\
             Alert-Info: <urn:x>\r\nX-Ticket: 7\r\n"
        );
        let text = String::from_utf8(rig::flow::invite(0, 1, &lines, b"")).expect("text");
        let to_number = text.replace("sip:p1@", "sip:0456@");
        rig.send(0, to_number.as_bytes());
        let callee = rig.expect_incoming(1);
        let invite = rig.last(1, "INVITE");
        assert!(invite.contains("\r\nX-Ticket: 7\r\n"), "{invite}");
        for hidden in ["boss", "p9@", "p8@", "p0@", "Alert-Info"] {
            assert!(!invite.contains(hidden), "{hidden} in {invite}");
        }
        let is_asserted =
            invite.contains("\r\nP-Asserted-Identity: <sip:+4930123@alpha.example>\r\n");
        assert_eq!(is_asserted, is_trusted, "{invite}");
        assert_eq!(invite.contains("\r\nPrivacy: id\r\n"), privacy == "id", "{invite}");
        let is_anonymous = invite.contains("sip:anonymous@anonymous.invalid>;tag=");
        assert_eq!(is_anonymous, privacy == "id", "{invite}");
        rig.act(1, |phone, now| phone.decline(now, callee, 486));
        rig.pass(Duration::from_secs(60));
    }
}

#[test]
fn calls_end_in_any_way_and_no_trunk_keeps_one() {
    for seed in 0..60 {
        let mut rig = Rig::office(seed, trunks(&["alpha", "beta", "gamma"]));
        let caller = dial(&mut rig, "0456");
        for trunk in 1..=(seed as usize % 3) {
            match (seed / 3) % 3 {
                0 => rig.silence(trunk),
                1 => {
                    let callee = rig.expect_incoming(trunk);
                    rig.act(trunk, |phone, now| phone.decline(now, callee, 503));
                }
                _ => {
                    let callee = rig.expect_incoming(trunk);
                    rig.act(trunk, |phone, now| {
                        phone.ring(now, callee, &session(1, 7, "sendrecv"))
                    });
                    rig.act(trunk, |phone, now| phone.decline(now, callee, 500));
                }
            }
        }
        let last = seed as usize % 3 + 1;
        let callee = rig.expect_incoming(last);
        match seed % 4 {
            0 => rig.act(0, |phone, now| phone.hang_up(now, caller)),
            1 => rig.act(last, |phone, now| phone.decline(now, callee, 486)),
            _ => {
                let answer = session(last, 5000, "sendrecv");
                rig.act(last, |phone, now| phone.answer(now, callee, &answer));
                rig.expect_where(0, |event| matches!(event, Event::Answered { .. }));
                rig.pass(Duration::from_secs(3));
                let (by, call) = if seed % 4 == 2 { (0, caller) } else { (last, callee) };
                rig.act(by, |phone, now| phone.hang_up(now, call));
            }
        }
        rig.finish();
        let on_trunks: usize = (0..3).map(|trunk| rig.b2bua().calls_on_trunk(trunk)).sum();
        assert_eq!(on_trunks, 0, "seed {seed}");
    }
}
