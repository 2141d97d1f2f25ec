use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

mod vectors;
use vectors::{VECTORS, Vector};

fn written(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn credentials(v: &Vector) -> Credentials<'static> {
    let (algorithm, session) = Algorithm::parse_session(v.algorithm).unwrap();
    Credentials {
        username: Cow::Borrowed(v.user),
        realm: v.realm,
        nonce: v.nonce,
        uri: v.uri,
        response: DigestResponse::Received(v.response),
        algorithm,
        session,
        cnonce: v.cnonce,
        opaque: None,
        qop: v.qop,
        nc: v.qop.map(|_| NonceCount::new(1)),
    }
}

#[test]
fn responses_match_the_published_vectors() {
    for v in &VECTORS {
        let credentials = credentials(v);
        let ha1 = Ha1Set::new(v.user, v.realm, v.password);
        assert_eq!(credentials.verify(&ha1, v.method, v.body), v.right, "{}", v.source);
    }
}

#[test]
fn a_response_is_compared_case_insensitively_and_completely() {
    for v in VECTORS.iter().filter(|v| v.right) {
        let ha1 = Ha1Set::new(v.user, v.realm, v.password);
        let mut c = credentials(v);
        let upper = v.response.to_ascii_uppercase();
        c.response = DigestResponse::Received(&upper);
        assert!(c.verify(&ha1, v.method, v.body), "{}", v.source);
        c.response = DigestResponse::Received(&v.response[..v.response.len() - 1]);
        assert!(!c.verify(&ha1, v.method, v.body), "{}", v.source);
        c.response = DigestResponse::Received(b"");
        assert!(!c.verify(&ha1, v.method, v.body), "{}", v.source);
        c.response = DigestResponse::Received(v.response);
        assert!(!c.verify(&ha1, b"BYE", v.body), "{}", v.source);
        let other = Ha1Set::new(v.user, v.realm, b"wrong");
        assert!(!c.verify(&other, v.method, v.body), "{}", v.source);
    }
}

#[test]
fn client_credentials_match_the_published_vectors() {
    for v in VECTORS.iter().filter(|v| v.right) {
        let (algorithm, session) = Algorithm::parse_session(v.algorithm).unwrap();
        let challenge = Challenge {
            realm: v.realm,
            nonce: v.nonce,
            opaque: Some(b"5ccc069c403ebaf9f0171e9517f40e41"),
            stale: false,
            algorithm,
            session,
            qop: QopOptions {
                auth: v.qop == Some(Qop::Auth),
                auth_int: v.qop == Some(Qop::AuthInt),
            },
            domain: None,
        };
        let ha1 = Ha1Set::new(v.user, v.realm, v.password);
        let request = DigestInput { method: v.method, uri: v.uri, body: v.body };
        let cnonce = v.cnonce.unwrap_or(b"unused");
        let answer = challenge.credentials_for(v.user, ha1.get(algorithm), &request, cnonce, 1);
        assert_eq!(
            answer,
            Credentials { opaque: challenge.opaque, ..credentials(v) },
            "{}",
            v.source
        );
    }
}

#[test]
fn credentials_of_rfc_2617_section_3_5_parse() {
    let value = b"Digest username=\"Mufasa\",\r\n realm=\"testrealm@host.com\",\r\n\
        \tnonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\",\r\n uri=\"/dir/index.html\",\r\n\
        \x20qop=auth,\r\n nc=00000001,\r\n cnonce=\"0a4f113b\",\r\n\
        \x20response=\"6629fae49393a05397450978507c4ef1\",\r\n\
        \x20opaque=\"5ccc069c403ebaf9f0171e9517f40e41\"";
    let parsed = Credentials::parse(value).unwrap().unwrap();
    let expected = Credentials {
        opaque: Some(b"5ccc069c403ebaf9f0171e9517f40e41"),
        ..credentials(&VECTORS[0])
    };
    assert_eq!(parsed, expected);
}

#[test]
fn challenge_of_rfc_7616_section_3_9_1_parses() {
    let value = b"Digest\r\n realm=\"http-auth@example.org\",\r\n qop=\"auth, auth-int\",\r\n\
        \x20algorithm=SHA-256,\r\n nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\",\r\n\
        \x20opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"";
    let expected = Challenge {
        realm: b"http-auth@example.org",
        nonce: b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
        opaque: Some(b"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"),
        stale: false,
        algorithm: Algorithm::Sha256,
        session: false,
        qop: QopOptions { auth: true, auth_int: true },
        domain: None,
    };
    assert_eq!(Challenge::parse(value), Ok(Some(expected)));
}

#[test]
fn a_challenge_is_written_in_the_common_form() {
    let challenge = Challenge {
        realm: b"example.org",
        nonce: b"n1",
        opaque: None,
        stale: true,
        algorithm: Algorithm::Sha512_256,
        session: false,
        qop: QopOptions::AUTH,
        domain: None,
    };
    assert_eq!(
        written(|out| challenge.write(out)),
        b"Digest realm=\"example.org\", nonce=\"n1\", stale=true, algorithm=SHA-512-256, qop=\"auth\""
    );
}

#[test]
fn names_are_case_insensitive() {
    for algorithm in Algorithm::ALL {
        let name = algorithm.name().to_ascii_lowercase();
        assert_eq!(Algorithm::parse(name.as_bytes()), Some(algorithm));
        let session = format!("{}-Sess", algorithm.name());
        assert_eq!(Algorithm::parse(session.as_bytes()), None);
        assert_eq!(Algorithm::parse_session(session.as_bytes()), Some((algorithm, true)));
    }
    assert_eq!(Algorithm::parse_session(b"AKAv1-MD5"), None);
    assert_eq!(Algorithm::parse_session(b"-sess"), None);
    assert_eq!(Qop::parse(b"AUTH-INT"), Some(Qop::AuthInt));
}

#[test]
fn header_fields_are_accepted_or_rejected() {
    let base = "username=\"u\", realm=\"r\", nonce=\"\", uri=\"sip:r\", response=\"\"";
    for (value, error) in [
        (format!("digest {base}"), None),
        (format!("  DIGEST ,, {base} , \t"), None),
        (format!("Digest {base}, nonsense=\"a\\\"b,\", UserHash=false"), None),
        (
            format!("Digest {base}, algorithm=\"md5\", qop=\"auth\", nc=0000000A, cnonce=\"c\""),
            None,
        ),
        (format!("Digest {base}, OPAQUE=abc=="), None),
        (format!("Digest\n\t{base},\n opaque=\"a\n b\""), None),
        (format!("Digest {base},\nopaque=x"), Some(Error::Syntax { at: 67 })),
        ("Digest=x".into(), Some(Error::Syntax { at: 6 })),
        (format!("Digest {base} opaque=\"x\""), Some(Error::Syntax { at: 67 })),
        (format!("Digest {base}, opaque=\"x"), Some(Error::Syntax { at: 77 })),
        (format!("Digest {base}, opaque=\"\r\nx\""), Some(Error::Syntax { at: 76 })),
        (format!("Digest {base}, opaque="), Some(Error::Syntax { at: 75 })),
        (format!("Digest {base}, Realm=r2"), Some(Error::Duplicate("realm"))),
        (format!("Digest {base}, algorithm=SHA-1"), Some(Error::UnknownAlgorithm)),
        (format!("Digest {base}, qop=conf"), Some(Error::Invalid("qop"))),
        (format!("Digest {base}, nc=1"), Some(Error::Invalid("nc"))),
        (format!("Digest {base}, qop=auth, nc=00000001"), Some(Error::Missing("cnonce"))),
        (format!("Digest {base}, qop=auth, cnonce=\"c\""), Some(Error::Missing("nc"))),
        (format!("Digest {base}, algorithm=MD5-sess"), Some(Error::Missing("cnonce"))),
        ("Digest".into(), Some(Error::Missing("username"))),
        ("Digest username=\"u\"".into(), Some(Error::Missing("realm"))),
    ] {
        assert_eq!(Credentials::parse(value.as_bytes()).err(), error, "{value:?}");
    }
    for other in ["", "Basic QWxhZGRpbg==", "NTLM", "\"Digest\"", "Digestive a=b"] {
        assert_eq!(Credentials::parse(other.as_bytes()), Ok(None), "{other:?}");
        assert_eq!(Challenge::parse(other.as_bytes()), Ok(None), "{other:?}");
    }
}

#[test]
fn quoting_and_unquoting() {
    let cases: [(&[u8], &[u8]); 5] = [
        (b"bob", b"bob"),
        (b"a\\\"b\\\\", b"a\"b\\"),
        (b"a\r\n \tb", b"a b"),
        (b"a\n b", b"a b"),
        (b"a\\", b"a"),
    ];
    for (inner, meaning) in cases {
        assert_eq!(*unquote(inner), *meaning);
    }
    assert_eq!(*quote(b"a\"\\\r\nb"), *b"a\\\"\\\\b");
}

#[test]
fn a_nonce_count_keeps_its_text() {
    let nc = NonceCount::parse(b"0000abCD").unwrap();
    assert_eq!((nc.value(), nc.as_bytes()), (0xabcd, b"0000abCD".as_slice()));
    assert_eq!(NonceCount::new(u32::MAX).as_bytes(), b"ffffffff");
    assert_eq!(NonceCount::parse(b"0000000g"), Err(Error::Invalid("nc")));
    assert_eq!(NonceCount::parse(b"000000001"), Err(Error::Invalid("nc")));
}

#[test]
fn debug_shows_no_secret() {
    assert_eq!(format!("{:?}", Ha1Set::new(b"u", b"r", b"p")), "Ha1Set(..)");
}

/// Text that is valid between quotes.
fn inner() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..20).prop_map(|text| quote(&text).into_owned())
}

fn algorithm() -> impl Strategy<Value = Algorithm> {
    proptest::sample::select(Algorithm::ALL.as_slice())
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut value = b"Digest ".to_vec();
        value.extend_from_slice(&bytes);
        for value in [&bytes, &value] {
            let _ = Credentials::parse(value);
            let _ = Challenge::parse(value);
        }
        let _ = unquote(&bytes);
    }

    #[test]
    fn similar_texts_do_not_panic(
        value in r#"Digest( |\r\n )(([a-z]{0,2}|nonce|realm|uri|username|response|qop|nc|stale)[= ]("[a-z\\ ]{0,4}"?|[a-z0-9]{0,8})[, \r\n]{0,3}){0,9}"#,
    ) {
        let _ = Credentials::parse(value.as_bytes());
        let _ = Challenge::parse(value.as_bytes());
    }

    #[test]
    fn written_credentials_are_parsed(
        // Control characters cannot be written, so the names have none.
        username in proptest::collection::vec(any::<u8>().prop_filter("text", |o| !o.is_ascii_control()), 0..20),
        texts in [inner(), inner(), inner(), inner(), inner()],
        algorithm in algorithm(),
        session: bool,
        opaque: bool,
        qop in proptest::sample::select([None, Some(Qop::Auth), Some(Qop::AuthInt)].as_slice()),
        nc: u32,
    ) {
        let [realm, nonce, uri, response, other] = &texts;
        let before = Credentials {
            username: Cow::Borrowed(&username),
            realm,
            nonce,
            uri,
            response: DigestResponse::Received(response),
            algorithm,
            session,
            cnonce: (session || qop.is_some()).then_some(other),
            opaque: opaque.then_some(other),
            qop,
            nc: qop.map(|_| NonceCount::new(nc)),
        };
        let value = written(|out| before.write(out));
        prop_assert_eq!(Credentials::parse(&value), Ok(Some(before)));
    }

    #[test]
    fn written_challenges_are_parsed(
        texts in [inner(), inner(), inner()],
        algorithm in algorithm(),
        [session, stale, opaque, domain, auth, auth_int]: [bool; 6],
    ) {
        let [realm, nonce, other] = &texts;
        let before = Challenge {
            realm,
            nonce,
            opaque: opaque.then_some(other),
            stale,
            algorithm,
            session,
            qop: QopOptions { auth, auth_int },
            domain: domain.then_some(other),
        };
        let value = written(|out| before.write(out));
        prop_assert_eq!(Challenge::parse(&value), Ok(Some(before)));
    }
}

#[test]
fn a_changed_digit_makes_a_response_wrong() {
    for octets in [&[0xab; 16][..], &[0x5c; 32]] {
        let expected = Hex::new(octets);
        let given = expected.as_bytes().to_vec();
        assert!(
            response_matches(&expected, &given)
                && response_matches(&expected, &given.to_ascii_uppercase())
        );
        assert!(
            !response_matches(&expected, &given[1..])
                && !response_matches(&expected, &[&given[..], b"\0"].concat())
        );
        for at in 0..given.len() {
            let mut other = given.clone();
            other[at] = b'0';
            assert!(!response_matches(&expected, &other), "{at}");
        }
    }
}

#[test]
fn the_next_nonce_is_found_among_other_parameters() {
    for (value, nonce) in [
        ("nextnonce=\"abc\"", Some("abc")),
        ("qop=auth, rspauth=\"x\",NextNonce = abc, cnonce=\"c\", nc=00000001", Some("abc")),
        ("qop=auth", None),
        ("", None),
        ("nextnonce", None),
        ("nextnonce=\"abc", None),
    ] {
        assert_eq!(next_nonce(value.as_bytes()), nonce.map(str::as_bytes), "{value}");
    }
}
