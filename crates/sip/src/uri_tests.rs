use super::*;
use proptest::prelude::*;

fn sip(text: &str) -> SipUri<'_> {
    match Uri::parse(text.as_bytes()) {
        Ok(Uri::Sip(uri)) => uri,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn the_examples_of_rfc_3261_section_19_1_3_are_parsed() {
    let uri = sip("sip:alice:secretword@atlanta.com;transport=tcp");
    assert_eq!(uri.user, Some(&b"alice"[..]));
    assert_eq!(uri.password, Some(&b"secretword"[..]));
    assert_eq!(uri.host, Host::Name(b"atlanta.com"));
    assert_eq!(uri.transport(), Some(Some(Transport::Tcp)));

    let uri = sip("sips:alice@atlanta.com?subject=project%20x&priority=urgent");
    assert!(uri.secure);
    assert_eq!(uri.headers, b"subject=project%20x&priority=urgent");

    let uri = sip("sip:+1-212-555-1212:1234@gateway.com;user=phone");
    assert_eq!(uri.user, Some(&b"+1-212-555-1212"[..]));
    assert_eq!(uri.password, Some(&b"1234"[..]));

    let uri = sip("sip:atlanta.com;method=REGISTER?to=alice%40atlanta.com");
    assert_eq!(uri.user, None);
    assert_eq!(uri.params.value("method"), Some(&b"REGISTER"[..]));

    let uri = sip("sip:alice;day=tuesday@atlanta.com");
    assert_eq!(uri.user, Some(&b"alice;day=tuesday"[..]));
    assert!(uri.params.as_bytes().is_empty());
}

#[test]
fn ipv6_hosts_have_brackets() {
    let uri = sip("sip:[2001:db8::10:5070]");
    assert_eq!(uri.host, Host::Ip("2001:db8::10:5070".parse().unwrap()));
    assert_eq!(uri.port, None);
    let uri = sip("sip:x@[2001:db8::10]:5070;lr");
    assert_eq!(uri.port, Some(5070));
    assert!(uri.is_loose());
    let uri = sip("sip:user@[2001:db8:::192.0.2.1]");
    assert_eq!(uri.host, Host::Ip("2001:db8::192.0.2.1".parse().unwrap()));
    assert_eq!(Uri::parse(b"sip:2001:db8::10"), Err(UriError::Host));
}

#[test]
fn malformed_uris_are_rejected() {
    for (text, error) in [
        ("alice", UriError::Scheme),
        (":x", UriError::Scheme),
        ("sip:", UriError::Host),
        ("sip:@host", UriError::Character(b'@')),
        ("sip:a@b@c", UriError::Character(b'@')),
        ("sip:a@host name", UriError::Character(b' ')),
        ("<sip:a@host>", UriError::Character(b'<')),
        ("sip:a@host:65536", UriError::Port),
        ("sip:a@host:5060x", UriError::Port),
        ("sip:a@1.2.3", UriError::Host),
        ("sip:a@300.2.3.4", UriError::Host),
        ("sip:a@host..example", UriError::Host),
        ("sip:a@host;;lr", UriError::Parameter),
        ("sip:a@[::1", UriError::Host),
        ("tel:", UriError::Number),
        ("tel:call-me", UriError::Number),
    ] {
        assert_eq!(Uri::parse(text.as_bytes()), Err(error), "{text}");
    }
}

#[test]
fn other_schemes_are_kept_whole() {
    let uri = Uri::parse(b"soap.beep://192.0.2.103:3002").unwrap();
    assert_eq!(uri, Uri::Other { scheme: b"soap.beep", uri: b"soap.beep://192.0.2.103:3002" });
    let Ok(Uri::Tel(tel)) = Uri::parse(b"tel:+1-201-555-0123;phone-context=x") else { panic!() };
    let mut number = Vec::new();
    tel.write_canonical_number(&mut number);
    assert_eq!(number, b"+12015550123");
}

#[test]
fn equality_follows_rfc_3261_section_19_1_4() {
    for (one, other) in [
        ("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com;newparam=5"),
        ("sip:carol@chicago.com;newparam=5", "sip:carol@chicago.com;security=on"),
        (
            "sip:biloxi.com;transport=tcp;method=REGISTER?to=sip:bob%40biloxi.com",
            "sip:biloxi.com;method=REGISTER;transport=tcp?to=sip:bob%40biloxi.com",
        ),
        (
            "sip:alice@atlanta.com?subject=project%20x&priority=urgent",
            "sip:alice@atlanta.com?priority=urgent&subject=project%20x",
        ),
    ] {
        assert!(sip(one).is_equivalent(&sip(other)), "{one} {other}");
        assert!(sip(other).is_equivalent(&sip(one)), "{other} {one}");
    }
    for (one, other) in [
        ("SIP:ALICE@AtLanTa.CoM;Transport=udp", "sip:alice@AtLanTa.CoM;Transport=UDP"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com;transport=udp"),
        ("sip:bob@biloxi.com", "sip:bob@biloxi.com:6000;transport=tcp"),
        ("sip:carol@chicago.com", "sip:carol@chicago.com?Subject=next%20meeting"),
        ("sip:bob@phone21.boxesbybob.com", "sip:bob@192.0.2.4"),
        ("sip:carol@chicago.com;security=on", "sip:carol@chicago.com;security=off"),
    ] {
        assert!(!sip(one).is_equivalent(&sip(other)), "{one} {other}");
        assert!(!sip(other).is_equivalent(&sip(one)), "{other} {one}");
    }
}

#[test]
fn the_first_of_repeated_parameters_counts() {
    let twice = sip("sip:a@b;x=1;%58=2");
    assert!(twice.is_equivalent(&twice));
    assert!(twice.is_equivalent(&sip("sip:a@b;X=1")));
    assert!(!twice.is_equivalent(&sip("sip:a@b;x=2")));
    assert!(sip("sip:a@b?x=1&x=1").is_equivalent(&sip("sip:a@b?X=1")));
    assert!(!sip("sip:a@b?x=1&x=2").is_equivalent(&sip("sip:a@b?x=1")));
}

#[test]
fn parameters_and_header_fields_are_limited() {
    let params = ";p=1".repeat(MAX_URI_PARAMS);
    let headers = ["?h=1", &"&h=1".repeat(MAX_URI_PARAMS - 1)].concat();
    let most = std::format!("sip:a@b{params}{headers}");
    assert!(sip(&most).is_equivalent(&sip(&most)));
    for more in [
        std::format!("sip:a@b{params};p"),
        std::format!("sips:a@b{params};p"),
        std::format!("tel:+1{params};p"),
        std::format!("sip:a@b{params}{headers}&"),
        std::format!("sip:a@b{headers}&h=1"),
        std::format!("sip:a@b{}", ";p".repeat(20_000)),
    ] {
        assert_eq!(Uri::parse(more.as_bytes()), Err(UriError::TooManyParameters), "{more}");
    }
    // In the user part semicolons do not separate parameters.
    assert!(Uri::parse(std::format!("sip:a{params};p@b{params}").as_bytes()).is_ok());
}

#[test]
fn the_canonical_user_keeps_escaped_nulls() {
    let user = sip("sip:null-%00-null@example.com").user.unwrap();
    assert_eq!(unescape(user), &b"null-\0-null"[..]);
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = Uri::parse(&bytes);
    }

    #[test]
    fn ipv4_addresses_equal_those_of_the_standard_library(
        text in "[0-9.]{0,20}[0-9]|([0-9]{1,3}\\.){3}[0-9]{1,3}|([0-2]?[0-9]{1,2}\\.){3}[0-9]",
    ) {
        let expected = text.parse().map(Host::Ip).map_err(|_| UriError::Host);
        prop_assert_eq!(Host::parse(text.as_bytes()), expected);
    }

    #[test]
    fn similar_texts_do_not_panic(text in "(sips?|tel)?:?[a-z@:;=?%&\\[\\]0-9.<> -]{0,60}") {
        if let Ok(Uri::Sip(uri)) = Uri::parse(text.as_bytes()) {
            prop_assert!(uri.is_equivalent(&uri));
        }
    }

    #[test]
    fn uris_are_written_as_parsed(
        text in "(sips?|tel|http):([a-z%A-F0-9;?=+-]{1,9}(:[a-z]{0,4})?@)?([a-z.]{1,9}|\\[2001:db8::1\\]|192.0.2.1)(:[0-9]{1,4})?(;[a-z]{1,4}(=[a-z]{1,4})?){0,2}(\\?[a-z]=[a-z]*)?"
    ) {
        if let Ok(uri) = Uri::parse(text.as_bytes()) {
            let mut out = Vec::new();
            uri.encode(&mut out);
            // The scheme is written in lower case, and ports without leading zeros.
            prop_assert_eq!(Uri::parse(&out), Ok(uri));
        }
    }

    #[test]
    fn any_name_can_be_a_user_part(name in proptest::collection::vec(any::<u8>(), 1..20)) {
        let mut uri = Vec::new();
        ("sip:", escape_user(&name), "@h").encode(&mut uri);
        let Ok(Uri::Sip(uri)) = Uri::parse(&uri) else { panic!("{}", uri.escape_ascii()) };
        prop_assert_eq!(uri.password, None);
        prop_assert_eq!(&unescape(uri.user.unwrap())[..], &name[..]);
    }
}
