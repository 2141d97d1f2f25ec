use super::*;

fn random() -> impl FnMut(&mut [u8]) {
    let mut state = 1_u8;
    move |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(5).wrapping_add(113);
            *byte = state ^ (state >> 3);
        }
    }
}

fn negotiator(security: Security, port: u16) -> Negotiator {
    let wishes = Wishes { security, ..Wishes::default() };
    Negotiator::new(wishes, ([192, 0, 2, 1], port).into(), 7)
}

/// One offers, the other answers: what each has.
fn agree(one: Security, other: Security) -> Result<(Stream, Stream), Refusal> {
    let (mut caller, mut callee) = (negotiator(one, 4000), negotiator(other, 5000));
    let mut numbers = random();
    let offer = caller.offer(&mut numbers);
    let (answer, theirs) = callee.answer(&offer, &mut numbers)?;
    Ok((caller.accept(&answer)?, theirs))
}

#[test]
fn both_ends_agree_on_the_same() {
    let (caller, callee) = agree(Security::Off, Security::Off).unwrap();
    assert_eq!((caller.codec, callee.codec), (Codec::ALL[0], Codec::ALL[0]));
    assert_eq!(caller.remote, Some(([192, 0, 2, 1], 5000).into()));
    assert_eq!(callee.remote, Some(([192, 0, 2, 1], 4000).into()));
    assert_eq!((caller.events, callee.events), (Some((101, 101)), Some((101, 101))));
    assert!(caller.sends && caller.receives && caller.multiplexes_rtcp);
}

#[test]
fn encryption_is_as_both_want_it() {
    use Security::{Off, Optional, Required};
    for (one, other, secured) in [
        (Off, Off, Ok(false)),
        (Off, Optional, Ok(false)),
        (Optional, Off, Ok(false)),
        (Optional, Optional, Ok(true)),
        (Optional, Required, Ok(true)),
        (Required, Optional, Ok(true)),
        (Required, Required, Ok(true)),
        (Off, Required, Err(Refusal::NotSecured)),
        (Required, Off, Err(Refusal::OnlySecured { protocol: "RTP/SAVP".into() })),
    ] {
        let agreed = agree(one, other).map(|(caller, callee)| {
            assert_eq!(caller.security.is_some(), callee.security.is_some());
            if let (Some(caller), Some(callee)) = (caller.security, callee.security) {
                let key = |crypto: &Crypto| crypto.keys[0].bytes.to_vec();
                assert_eq!(key(&caller.send), key(&callee.receive));
                assert_eq!(key(&caller.receive), key(&callee.send));
                return true;
            }
            false
        });
        assert_eq!(agreed, secured, "{one:?} {other:?}");
    }
}

#[test]
fn what_was_encrypted_is_never_in_clear_again() {
    let mut numbers = random();
    let (mut caller, mut callee) =
        (negotiator(Security::Optional, 4000), negotiator(Security::Optional, 5000));
    let offer = caller.offer(&mut numbers);
    let (answer, _) = callee.answer(&offer, &mut numbers).unwrap();
    caller.accept(&answer).unwrap();
    assert!(caller.offer(&mut numbers).windows(8).any(|word| word == b"RTP/SAVP"));
    let clear = b"v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 0\r\n";
    assert_eq!(callee.answer(clear, &mut numbers).unwrap_err(), Refusal::NotSecured);
    assert_eq!(caller.accept(clear).unwrap_err(), Refusal::NotSecured);
}

#[test]
fn the_other_end_is_held_and_taken_back() {
    let mut numbers = random();
    let (mut caller, mut callee) =
        (negotiator(Security::Off, 4000), negotiator(Security::Off, 5000));
    for (holds, sends) in [(true, false), (false, true)] {
        caller.hold(holds);
        let offer = caller.offer(&mut numbers);
        let (answer, theirs) = callee.answer(&offer, &mut numbers).unwrap();
        let ours = caller.accept(&answer).unwrap();
        assert_eq!((theirs.sends, theirs.receives), (sends, true));
        assert_eq!((ours.sends, ours.receives), (true, !holds));
    }
}

#[test]
fn an_answer_has_a_place_for_each_medium() {
    let offer = b"v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n\
        m=video 6000 RTP/AVP 96\r\nm=audio 4000 RTP/AVP 8 0\r\nm=audio 4002 RTP/AVP 0\r\n";
    let (answer, stream) = negotiator(Security::Off, 5000).answer(offer, &mut random()).unwrap();
    let read = sdp::Session::parse(&answer).unwrap();
    let ports: Vec<_> = read.media.iter().map(|media| (media.kind, media.port)).collect();
    assert_eq!(ports, [("video", 0), ("audio", 5000), ("audio", 0)]);
    assert_eq!((stream.codec, stream.send_type), (Codec::Pcma, 8));
}

#[test]
fn what_does_not_fit_says_why() {
    let mut here = negotiator(Security::Off, 5000);
    let head = "v=0\r\nc=IN IP4 192.0.2.9\r\n";
    for (media, refusal) in [
        ("", Refusal::NoAudio),
        ("m=video 4000 RTP/AVP 96\r\n", Refusal::NoAudio),
        ("m=audio 4000 RTP/AVP 18 4\r\n", Refusal::NoCommonCodec { theirs: "G729, G723".into() }),
        (
            "m=audio 4000 UDP/TLS/RTP/SAVPF 0\r\n",
            Refusal::OnlySecured { protocol: "UDP/TLS/RTP/SAVPF".into() },
        ),
    ] {
        let offer = format!("{head}{media}");
        assert_eq!(here.answer(offer.as_bytes(), &mut random()).unwrap_err(), refusal);
    }
    assert_eq!(here.answer(b"x", &mut random()).unwrap_err(), Refusal::Malformed);
    let refused = format!("{head}m=audio 0 RTP/AVP 0\r\n");
    assert_eq!(here.accept(refused.as_bytes()).unwrap_err(), Refusal::Refused);
}

#[test]
fn nobody_is_sent_anything_at_no_address() {
    let offer = b"v=0\r\nc=IN IP4 0.0.0.0\r\nm=audio 4000 RTP/AVP 0\r\n";
    let (_, stream) = negotiator(Security::Off, 5000).answer(offer, &mut random()).unwrap();
    assert_eq!(stream.remote, None);
}

#[test]
fn keys_that_nobody_has_asked_for_are_passed_over() {
    let key = "AES_CM_128_HMAC_SHA1_80 inline:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw";
    let answer =
        format!("v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 0\r\na=crypto:1 {key}\r\n");
    let mut numbers = random();
    let mut caller = negotiator(Security::Off, 4000);
    caller.offer(&mut numbers);
    assert!(caller.accept(answer.as_bytes()).unwrap().security.is_none());
    let mut caller = negotiator(Security::Optional, 4000);
    caller.offer(&mut numbers);
    assert!(caller.accept(answer.as_bytes()).unwrap().security.is_some(), "the first was offered");
}
