//! Digest authentication (RFC 3261 section 22, RFC 7616, RFC 8760, RFC 2617).

use crate::rig::{ALICE, BOB, Draft, Rig, STRANGER, Sent, ack_of, closed_config, tcp, text, udp};
use barebell_sip_server::config::{Network, State};
use barebell_sip_server::{AuthName, Config, Logins};
use sip::digest::{Algorithm, Challenge, Credentials, DigestResponse, Ha1Set, NonceCount, Qop};
use sip::{Duration, HeaderName};

fn register() -> Draft {
    Draft::register("alice").and("Contact", "<sip:alice@a.example>")
}

/// The values of the challenges in `response`.
fn challenges(response: &Sent) -> Vec<String> {
    let message = response.message();
    let name = match response.status() {
        401 => HeaderName::WwwAuthenticate,
        407 => HeaderName::ProxyAuthenticate,
        other => panic!("a challenge is expected, not {other}"),
    };
    message.values(name).map(text).collect()
}

/// True if every challenge in `response` has `stale` set.
fn is_stale(response: &Sent) -> bool {
    let stale = |value: &String| Challenge::parse(value.as_bytes()).unwrap().unwrap().stale;
    let all: Vec<bool> = challenges(response).iter().map(stale).collect();
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "all or none");
    all[0]
}

/// The first challenge for alice.
fn challenge(rig: &mut Rig, draft: &Draft) -> Sent {
    rig.send(&udp(ALICE), draft).response().clone()
}

#[test]
fn the_registrar_asks_with_401_and_the_proxy_with_407() {
    for (draft, status) in [
        (register(), 401),
        (Draft::register("alice"), 401),
        (Draft::invite("sip:bob@example.com"), 407),
        (Draft::invite("sip:bob@foreign.example"), 407),
        (Draft::new("MESSAGE", "sip:bob@example.com"), 407),
        (Draft::new("SUBSCRIBE", "sip:bob@example.com"), 407),
    ] {
        let response = challenge(&mut Rig::closed(), &draft);
        assert_eq!(response.status(), status, "{draft:?}");
        let algorithms: Vec<_> = challenges(&response)
            .iter()
            .map(|value| {
                let challenge = Challenge::parse(value.as_bytes()).unwrap().unwrap();
                assert_eq!(challenge.realm, b"example.com");
                assert!(challenge.qop.auth && !challenge.stale && !challenge.session);
                challenge.algorithm
            })
            .collect();
        assert_eq!(algorithms, [Algorithm::Sha256, Algorithm::Md5], "the preferred one first");
    }
}

#[test]
fn a_domain_may_have_another_realm_than_its_name() {
    let mut config = closed_config();
    config.authentication.realms.insert("example.com".into(), "old.example".into());
    let mut rig = Rig::new(config);
    let ha1 = Ha1Set::new(b"alice", b"old.example", b"alice");
    rig.server.add_user(b"alice@example.com", ha1);
    let asked = challenge(&mut rig, &register());
    let value = &challenges(&asked)[0];
    assert!(value.contains("realm=\"old.example\""), "{value}");
    assert_eq!(rig.send_as("alice", &udp(ALICE), &register()).status(), 200);
}

#[test]
fn every_algorithm_that_is_offered_is_good() {
    for algorithm in Algorithm::ALL {
        let mut config = closed_config();
        config.authentication.algorithms = Algorithm::ALL.to_vec();
        let mut rig = Rig::closed_with(config);
        let asked = challenge(&mut rig, &register());
        let answered =
            register().with_credentials(&asked, Some(algorithm), "alice", "alice", 1, |_| {});
        assert_eq!(rig.send(&udp(ALICE), &answered).status(), 200, "{algorithm:?}");
        let wrong =
            register().with_credentials(&asked, Some(algorithm), "alice", "guess", 2, |_| {});
        assert_eq!(rig.send(&udp(ALICE), &wrong).status(), 401, "{algorithm:?}");
    }
}

#[test]
fn an_algorithm_that_is_not_offered_is_no_good() {
    let mut config = closed_config();
    config.authentication.algorithms = vec![Algorithm::Sha256];
    let mut rig = Rig::closed_with(config);
    let asked = challenge(&mut rig, &register());
    assert_eq!(challenges(&asked).len(), 1);
    let answered = register().with_credentials(&asked, None, "alice", "alice", 1, |credentials| {
        credentials.algorithm = Algorithm::Md5;
        sign(credentials, "alice", "REGISTER");
    });
    assert_eq!(rig.send(&udp(ALICE), &answered).status(), 401);
}

/// Computes the response of `credentials` for `password`.
fn sign(credentials: &mut Credentials<'_>, password: &str, method: &str) {
    let user = credentials.username.to_vec();
    let ha1 = Ha1Set::new(&user, credentials.realm, password.as_bytes());
    let secret = ha1.get(credentials.algorithm);
    let response = credentials.expected_response(secret, method.as_bytes(), b"");
    credentials.response = DigestResponse::Computed(response);
}

/// Changes credentials to the form of RFC 2069, without quality of protection.
fn without_qop(credentials: &mut Credentials<'_>) {
    (credentials.qop, credentials.nc, credentials.cnonce) = (None, None, None);
    sign(credentials, "alice", "REGISTER");
}

#[test]
fn credentials_without_qop_are_good_for_one_request() {
    let mut rig = Rig::closed();
    let asked = challenge(&mut rig, &register());
    let answer =
        |draft: Draft| draft.with_credentials(&asked, None, "alice", "alice", 1, without_qop);
    let first = answer(register());
    assert_eq!(rig.send(&udp(ALICE), &first).status(), 200);
    assert_eq!(rig.send(&udp(ALICE), &first).status(), 200, "a repetition");
    let second = rig.send(&udp(ALICE), &answer(register()));
    assert!(is_stale(second.response()), "the nonce is used up");
    // Without qop the hash does not cover nc, so nc is rejected even with an unused nonce.
    let asked = challenge(&mut rig, &register());
    for count in [1, 2, 5] {
        let counted =
            register().with_credentials(&asked, None, "alice", "alice", 1, |credentials| {
                without_qop(credentials);
                credentials.nc = Some(NonceCount::new(count));
            });
        assert_eq!(rig.send(&udp(ALICE), &counted).status(), 401, "{count}");
    }
}

#[test]
fn credentials_that_cover_the_body_are_good() {
    let mut rig = Rig::closed();
    let asked = challenge(&mut rig, &register());
    let answered = register().with_credentials(&asked, None, "alice", "alice", 1, |credentials| {
        credentials.qop = Some(Qop::AuthInt);
        sign(credentials, "alice", "REGISTER");
    });
    assert_eq!(rig.send(&udp(ALICE), &answered).status(), 200);
    let other_body = answered.next().with_body("changed");
    assert_eq!(rig.send(&udp(ALICE), &other_body).status(), 401);
}

#[test]
fn a_nonce_count_is_good_once() {
    let mut rig = Rig::closed();
    let asked = challenge(&mut rig, &register());
    let with_count =
        |count| register().with_credentials(&asked, None, "alice", "alice", count, |_| {});
    let first = with_count(1);
    assert_eq!(rig.send(&udp(ALICE), &first).status(), 200);
    assert_eq!(rig.send(&udp(ALICE), &first).status(), 200, "a repetition by the network");
    let replayed = rig.send(&udp(BOB), &first);
    assert!(is_stale(replayed.response()), "the same bytes from elsewhere");
    assert!(is_stale(rig.send(&udp(ALICE), &with_count(1)).response()), "another request");
    assert_eq!(rig.send(&udp(ALICE), &with_count(5)).status(), 200);
    assert_eq!(rig.send(&udp(ALICE), &with_count(3)).status(), 200, "overtaken on the way");
    assert!(is_stale(rig.send(&udp(ALICE), &with_count(3)).response()));
    assert_eq!(rig.send(&udp(ALICE), &with_count(100)).status(), 200);
    assert!(is_stale(rig.send(&udp(ALICE), &with_count(6)).response()), "too far behind to tell");
    assert_eq!(rig.count("stale-nonces"), 4);
    assert_eq!(rig.count("authentication-failures"), 0);
}

#[test]
fn an_old_nonce_is_stale_only_for_who_knows_the_password() {
    let mut rig = Rig::closed();
    let asked = challenge(&mut rig, &register());
    rig.wait(Duration::from_secs(301));
    let late = rig.send(&udp(ALICE), &register().answering(&asked, "alice", "alice"));
    assert!(is_stale(late.response()));
    let anew = register().answering(late.response(), "alice", "alice");
    assert_eq!(rig.send(&udp(ALICE), &anew).status(), 200);
    let wrong = rig.send(&udp(ALICE), &register().answering(&asked, "alice", "guess"));
    assert!(!is_stale(wrong.response()));
}

#[test]
fn a_nonce_that_is_not_ours_is_no_good() {
    let mut rig = Rig::closed();
    let mut other = Rig::closed();
    let asked = challenge(&mut rig, &register());
    for nonce in
        [&b"0123456789abcdef0123456789abcdef"[..], b"", b"dcd98b7102dd2f0e8b11d0f600bfb0c0"]
    {
        let made_up =
            register().with_credentials(&asked, None, "alice", "alice", 1, |credentials| {
                credentials.nonce = nonce;
                sign(credentials, "alice", "REGISTER");
            });
        let reaction = other.send(&udp(ALICE), &made_up);
        assert_eq!(reaction.status(), 401);
        // The response says nothing about the password, which could otherwise be guessed without
        // risk.
        assert!(is_stale(reaction.response()));
        assert_eq!(other.count("authenticated") + other.count("authentication-failures"), 0);
    }
}

#[test]
fn a_nonce_is_for_the_host_that_asked_for_it() {
    let mut rig = Rig::closed();
    let asked = challenge(&mut rig, &register());
    for password in ["alice", "guess"] {
        let elsewhere = register().answering(&asked, "alice", password);
        let reaction = rig.send(&udp(BOB), &elsewhere);
        assert!(is_stale(reaction.response()), "{password}");
    }
    assert_eq!(rig.count("authentication-failures"), 0);
    let another_port = udp("198.51.100.10:40000");
    let here = register().answering(&asked, "alice", "alice");
    assert_eq!(rig.send(&another_port, &here).status(), 200);
}

#[test]
fn credentials_are_for_the_request_that_they_name() {
    for (request, uri, expected) in [
        (register(), "sip:example.com", 200),
        (register(), "sip:203.0.113.1", 200),
        (register(), "sip:EXAMPLE.com;transport=udp", 200),
        (register(), "sip:elsewhere.example", 400),
        (register(), "elsewhere", 400),
        (Draft::invite("sip:bob@example.com"), "sip:bob@example.com", 0),
        (Draft::invite("sip:bob@example.com"), "sip:example.com", 0),
        (Draft::invite("sip:bob@example.com"), "sip:00900123@192.0.2.5", 400),
        (Draft::invite("sip:00900123@192.0.2.5"), "sip:00900123@192.0.2.5", 0),
        (Draft::invite("sip:00900123@192.0.2.5"), "sip:00900123@192.0.2.5:5060", 400),
        (Draft::invite("sip:00900123@192.0.2.5"), "sip:bob@192.0.2.5", 400),
        (Draft::invite("sip:00900123@192.0.2.5"), "sip:example.com", 400),
    ] {
        let mut rig = Rig::closed();
        rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
        let asked = challenge(&mut rig, &request);
        let method = request.method.clone();
        let answered =
            request.next().with_credentials(&asked, None, "alice", "alice", 1, |credentials| {
                credentials.uri = uri.as_bytes();
                sign(credentials, "alice", &method);
            });
        let reaction = rig.send(&udp(ALICE), &answered);
        let status = reaction.responses().next().map_or(0, Sent::status);
        assert_eq!(status, expected, "{} {uri}", request.uri);
        assert_eq!(reaction.requests().count(), usize::from(expected == 0), "{uri}");
    }
}

/// A callee challenges the caller for our realm, to call others with the answer.
#[test]
fn challenges_of_our_realms_come_from_us_alone() {
    let ours = "Digest realm=\"example.com\", nonce=\"n\", algorithm=MD5";
    let disguised = [
        "Digest nonce=\"n\", REALM = \"Example.COM\"",
        "Digest realm=\"ex\\ample.com\", nonce=\"n\"",
        "Digest realm=example.org, nonce=\"n\"",
        "Digest realm=\"x\", nonce=\"n\", Digest realm=\"example.com\", nonce=\"n\"",
        "Digest realm=\"x\", realm=\"example.com\", nonce=\"n\"",
    ];
    let theirs = "Digest realm=\"sub.example.com\", nonce=\"n\", opaque=\"example.com\"";
    for state in [State::Stateful, State::Stateless] {
        for is_trusted in [false, true] {
            let mut config = Config { state, ..closed_config() };
            if is_trusted {
                let network = Network { address: "192.0.2.5".parse().unwrap(), prefix: 32 };
                config.limits.trusted = vec![network];
            }
            let mut rig = Rig::closed_with(config);
            let mut back = |status: u16, challenges: &[&str]| {
                let invite = Draft::invite("sip:y@192.0.2.5");
                let forwarded = rig.send_as("alice", &udp(ALICE), &invite).forwarded().clone();
                let name = if status == 401 { "WWW-Authenticate" } else { "Proxy-Authenticate" };
                let lines: String =
                    challenges.iter().map(|value| format!("{name}: {value}\r\n")).collect();
                let answer = forwarded.answer(status, "y-tag", &lines);
                let reaction = rig.receive(&forwarded.flow, &answer);
                let response = reaction.responses().next().unwrap().clone();
                let mut left = response.values(HeaderName::WwwAuthenticate);
                left.extend(response.values(HeaderName::ProxyAuthenticate));
                (response.status(), left.concat().matches("Digest").count())
            };
            for status in [401, 407] {
                let one = usize::from(is_trusted);
                let refused = if is_trusted { status } else { 403 };
                assert_eq!(back(status, &[theirs]), (status, 1));
                assert_eq!(back(status, &[ours]), (refused, one), "{state:?}");
                assert_eq!(back(status, &[theirs, ours]), (status, 1 + one), "{state:?}");
                for value in disguised {
                    let count = one * value.matches("Digest").count();
                    assert_eq!(back(status, &[value]), (refused, count), "{value} {state:?}");
                }
            }
            if !is_trusted {
                assert_eq!(back(183, &[ours]), (183, 0));
                assert_eq!(back(486, &[ours]), (486, 0));
            }
        }
    }
}

#[test]
fn the_answer_does_not_tell_a_wrong_user_from_a_wrong_password() {
    let answer_to = |user: &str, draft: Draft| {
        let mut rig = Rig::closed();
        let asked = challenge(&mut rig, &draft);
        let nonce_of = |answer: &str| {
            let rest = answer.split_once("nonce=\"").unwrap().1;
            rest.split_once('"').unwrap().0.to_owned()
        };
        let guess = draft.answering(&asked, user, "guess");
        let reaction = rig.send(&udp(ALICE), &guess);
        let answer = text(&reaction.response().bytes);
        assert_eq!(rig.count("authentication-failures"), 1, "{user}");
        answer.replace(&nonce_of(&answer), "NONCE")
    };
    for draft in [register(), Draft::invite("sip:bob@example.com")] {
        assert_eq!(answer_to("alice", draft.clone()), answer_to("nobody", draft));
    }
}

#[test]
fn the_method_and_the_user_are_covered() {
    let mut rig = Rig::closed();
    let asked = challenge(&mut rig, &register());
    let mut stolen = Draft::register("bob").answering(&asked, "bob", "bob");
    assert_eq!(rig.send(&udp(ALICE), &stolen).status(), 200);
    stolen =
        Draft::register("bob").with_credentials(&asked, None, "bob", "bob", 2, |credentials| {
            sign(credentials, "bob", "INVITE");
        });
    assert_eq!(rig.send(&udp(ALICE), &stolen).status(), 401);
    let as_alice = Draft::register("alice").answering(&asked, "bob", "bob");
    let reaction = rig.send(&udp(ALICE), &as_alice.clone());
    assert_eq!(reaction.status(), 401, "the count 1 was used for bob: {reaction:?}");
    let as_alice = Draft::register("alice").with_credentials(&asked, None, "bob", "bob", 7, |_| {});
    assert_eq!(rig.send(&udp(ALICE), &as_alice).status(), 403, "bob is not alice");
}

#[test]
fn credentials_count_only_in_the_field_they_belong_in() {
    let mut rig = Rig::closed();
    let asked = challenge(&mut rig, &register());
    let answered = register().answering(&asked, "alice", "alice");
    let right = text(&answered.bytes(&udp(ALICE)));
    let moved = right.replace("\r\nAuthorization:", "\r\nProxy-Authorization:");
    assert_ne!(moved, right);
    assert_eq!(rig.receive(&udp(ALICE), moved.as_bytes()).status(), 401);
    assert_eq!(rig.receive(&udp(ALICE), right.as_bytes()).status(), 200);
}

#[test]
fn credentials_for_others_are_passed_over_and_ours_go_no_further() {
    const OTHERS: &str = "Digest username=\"alice\",realm=\"foreign.example\",nonce=\"n\",\
        uri=\"sip:x\",response=\"0123456789abcdef0123456789abcdef\"";
    let mut rig = Rig::closed();
    rig.register("bob", &udp(BOB), &format!("<sip:bob@{BOB}>"));
    let invite = Draft::invite("sip:bob@example.com").and("Proxy-Authorization", OTHERS);
    let asked = challenge(&mut rig, &invite);
    let ack = ack_of(&invite, &asked);
    assert!(rig.send(&udp(ALICE), &ack).is_silent(), "the refusal is acknowledged");
    let own = Draft::new("INVITE", "sip:bob@example.com").answering(&asked, "alice", "alice");
    let line = text(&own.bytes(&udp(ALICE)));
    let value = line.split("Proxy-Authorization: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let reaction = rig.send(&udp(ALICE), &invite.next().and("Proxy-Authorization", value));
    assert_eq!(reaction.forwarded().message().values(HeaderName::ProxyAuthorization).count(), 1);
    let kept = reaction.forwarded().value(HeaderName::ProxyAuthorization);
    assert_eq!(kept, OTHERS);
}

#[test]
fn malformed_credentials_are_none() {
    for value in ["Digest", "Digest username=\"alice\"", "Basic YWxpY2U6YWxpY2U=", "Digest =,=", ""]
    {
        let mut rig = Rig::closed();
        let reaction = rig.send(&udp(ALICE), &register().and("Authorization", value));
        assert_eq!(reaction.status(), 401, "{value}");
        assert!(!is_stale(reaction.response()));
        assert_eq!(rig.count("authentication-failures"), 0, "{value}");
    }
}

#[test]
fn agents_that_know_only_md5_are_offered_nothing_else() {
    let mut config = closed_config();
    config.authentication.md5_only_agents = vec!["Old Phone".into()];
    for (agent, offered) in
        [("old phone 1.0", 1), ("New Phone", 2), ("Old", 2), ("An Old Phone", 2)]
    {
        let mut rig = Rig::closed_with(config.clone());
        let response = challenge(&mut rig, &register().and("User-Agent", agent));
        assert_eq!(challenges(&response).len(), offered, "{agent}");
        let last = challenges(&response).pop().unwrap();
        let last = Challenge::parse(last.as_bytes()).unwrap().unwrap().algorithm;
        assert_eq!(last, Algorithm::Md5);
    }
    config.authentication.algorithms = vec![Algorithm::Sha256];
    let mut rig = Rig::closed_with(config);
    let response = challenge(&mut rig, &register().and("User-Agent", "Old Phone"));
    assert_eq!(challenges(&response).len(), 1, "what is not allowed is not offered to anybody");
}

#[test]
fn known_agents_that_read_one_challenge_get_one() {
    for (agent, offered) in [
        ("PJSUA v2.10 Linux-5.10/x86_64/glibc-2.31", 1),
        ("PJSUA v2.1 Linux-3.2", 1),
        ("PJSUA v2.5.5", 1),
        ("PJSUA v2.11 Linux-5.10", 2),
        ("baresip v1.0.0 (x86_64/linux)", 1),
        ("baresip v4.0.0 (x86_64/linux)", 2),
        ("SIPp", 1),
        ("sipp/3.6", 1),
    ] {
        let response = challenge(&mut Rig::closed(), &register().and("User-Agent", agent));
        assert_eq!(challenges(&response).len(), offered, "{agent}");
    }
}

#[test]
fn ack_and_cancel_are_never_asked() {
    let mut rig = Rig::closed();
    for method in ["ACK", "CANCEL"] {
        let draft = Draft::new(method, "sip:bob@foreign.example");
        let reaction = rig.send(&udp(ALICE), &draft);
        assert!(reaction.sent.iter().all(|sent| !matches!(sent.status(), 401 | 407)), "{method}");
        assert_eq!(reaction.requests().count(), 0, "{method}");
    }
}

/// Gives alice the password "alice" under her address and under the authentication name `auth`.
fn with_logins(rig: &Rig, auth: Option<&str>) {
    let ha1 = |name: &str| Ha1Set::new(name.as_bytes(), b"example.com", b"alice");
    let by_auth_name =
        auth.map(|name| Box::new(AuthName { name: name.as_bytes().into(), ha1: ha1(name) }));
    let by_address = Some(ha1("alice@example.com"));
    let logins = Logins { by_name: ha1("alice"), by_address, by_auth_name };
    rig.server.add_user(b"alice@example.com", logins);
}

#[test]
fn a_user_logs_in_under_each_of_her_names_and_is_the_same() {
    let mut rig = Rig::closed();
    let log_in = |rig: &mut Rig, draft: Draft, name: &str| {
        let challenged = challenge(rig, &draft);
        rig.send(&udp(ALICE), &draft.next().answering(&challenged, name, "alice")).status()
    };
    let whole = "alice@example.com";
    assert_eq!(log_in(&mut rig, register(), whole), 401, "stored before there was this");
    with_logins(&rig, Some("auth-4711"));
    for name in ["alice", whole, "auth-4711"] {
        assert_eq!(log_in(&mut rig, register(), name), 200, "{name}");
        let invite =
            Draft::invite("sip:bob@example.com").with("From", "<sip:alice@example.com>;tag=a");
        assert_eq!(log_in(&mut rig, invite, name), 480, "{name}: bob has no phone");
        let other = Draft::register("bob").and("Contact", "<sip:bob@a.example>");
        assert_eq!(log_in(&mut rig, other, name), 403, "{name} is not bob");
    }
    for name in ["alice@example.org", "auth-4711@example.com", "auth-4712", "@example.com"] {
        assert_eq!(log_in(&mut rig, register(), name), 401, "{name}");
    }
    with_logins(&rig, Some("new"));
    assert_eq!(log_in(&mut rig, register(), "auth-4711"), 401, "it is another one now");
    assert_eq!(log_in(&mut rig, register(), "new"), 200);
    with_logins(&rig, None);
    assert_eq!(log_in(&mut rig, register(), "new"), 401, "she has none any more");
    with_logins(&rig, Some("new"));
    assert!(rig.remove_user("alice@example.com"));
    assert_eq!(log_in(&mut rig, register(), "new"), 401);
}

/// The source of a datagram may be forged, so the response to it must be short.
#[test]
fn a_challenge_to_an_unproved_source_is_not_much_longer_than_the_request() {
    let short = |method: &str, branch: &str, to: &str| {
        format!(
            "{method} sip:example.com SIP/2.0\r\nv:SIP/2.0/UDP h;branch=z9hG4bK{branch}\r\n\
             f:<sip:alice@example.com>;tag=1\r\nt:{to}\r\ni:{branch}\r\n\
             CSeq:1 {method}\r\nMax-Forwards:9\r\nl:0\r\n\r\n"
        )
    };
    let mut config = closed_config();
    config.server_name = "x".repeat(90);
    let mut rig = Rig::closed_with(config);
    for (branch, text, status) in [
        ("1", short("REGISTER", "1", "<sip:alice@example.com>"), 401),
        ("2", short("MESSAGE", "2", "<sip:y@h>").replacen("sip:example.com", "sip:y@h", 1), 407),
    ] {
        let reaction = rig.receive(&udp(STRANGER), text.as_bytes());
        let response = reaction.response();
        assert_eq!(response.status(), status, "{branch}");
        let length = response.bytes.len();
        assert!(length <= 3 * text.len(), "{length} for {}", text.len());
        let names = [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate];
        let challenges: Vec<String> = names
            .into_iter()
            .flat_map(|name| {
                response.message().values(name).map(crate::rig::text).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(challenges.len(), 1, "{challenges:?}");
        assert!(challenges[0].contains("MD5"));
        // On a connection the source address is proved.
        let on_stream = text.replace("/UDP", "/TCP");
        let reaction = rig.receive(&tcp(STRANGER, 3), on_stream.as_bytes());
        let all = names.into_iter().map(|name| reaction.response().message().values(name).count());
        assert_eq!(all.sum::<usize>(), 2);
    }
}
