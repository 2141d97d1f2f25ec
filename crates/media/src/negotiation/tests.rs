use super::*;
use alloc::format;
use alloc::string::ToString;
use srtp::plus::Scheme;

pub(super) fn random() -> impl FnMut(&mut [u8]) {
    let mut state = 1_u8;
    move |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(5).wrapping_add(113);
            *byte = state ^ (state >> 3);
        }
    }
}

pub(super) fn negotiator(security: Security, port: u16) -> Negotiator {
    let media_config = MediaConfig { security, ..MediaConfig::default() };
    Negotiator::new(media_config, ([192, 0, 2, 1], port).into(), 7)
}

/// One end offers, the other one answers. Returns the streams of both.
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
    assert!(caller.events.is_some() && caller.events == callee.events);
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
            assert_eq!(caller.keying.is_encrypted(), callee.keying.is_encrypted());
            if let (Some(caller), Some(callee)) = (caller.keying.sdes(), callee.keying.sdes()) {
                let key = |crypto: &CryptoAttribute| crypto.keys[0].bytes.to_vec();
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
    let read = sdp::SessionDescription::parse(&answer).unwrap();
    let ports: Vec<_> = read.media.iter().map(|media| (media.media_type, media.port)).collect();
    assert_eq!(ports, [("video", 0), ("audio", 5000), ("audio", 0)]);
    assert_eq!((stream.codec, stream.send_type), (Codec::Pcma, 8));
}

/// A later offer has the media of the other end's offer in the same order (RFC 3264 section 8), and
/// the answer to it is read at the place of the audio.
#[test]
fn a_later_offer_keeps_the_places_of_rejected_media() {
    let (mut here, mut there) = (negotiator(Security::Off, 5000), negotiator(Security::Off, 6000));
    let offer = b"v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n\
        m=video 6002 RTP/AVP 96\r\nm=audio 6000 RTP/AVP 0\r\nm=text 6004 RTP/AVP 98\r\n";
    here.answer(offer, &mut random()).unwrap();
    // An offer that is rejected changes nothing.
    here.answer(b"v=0\r\nm=audio 4000 RTP/AVP 18\r\n", &mut random()).unwrap_err();
    here.hold(true);
    let later = here.offer(&mut random());
    let read = sdp::SessionDescription::parse(&later).unwrap();
    let ports = |read: &sdp::SessionDescription<'_>| -> Vec<(String, u16)> {
        read.media.iter().map(|media| (media.media_type.to_string(), media.port)).collect()
    };
    let expected = |port| {
        [("video", 0), ("audio", port), ("text", 0)].map(|(kind, port)| (kind.to_string(), port))
    };
    assert_eq!(ports(&read), expected(5000));
    assert_eq!(read.media[1].direction(&read), Direction::SendOnly);
    let (answer, _) = there.answer(&later, &mut random()).unwrap();
    assert_eq!(ports(&sdp::SessionDescription::parse(&answer).unwrap()), expected(6000));
    let stream = here.accept(&answer).unwrap();
    assert_eq!(stream.remote.map(|remote| remote.port()), Some(6000));
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
fn a_refusal_of_a_large_description_is_short() {
    let (numbers, name) = ("99 ".repeat(10_000), "x".repeat(30_000));
    let offer = format!(
        "v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP {numbers}\r\na=rtpmap:99 {name}/8000\r\n"
    );
    let refusal = Refusal::NoCommonCodec { theirs: "x".repeat(MAX_NAME) };
    let answer = negotiator(Security::Off, 5000).answer(offer.as_bytes(), &mut random());
    assert_eq!(answer.unwrap_err(), refusal);
    let numbers: String = (35..96).map(|number| format!("{number} ")).collect();
    let offer = format!("v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP {numbers}\r\n");
    let answer = negotiator(Security::Off, 5000).answer(offer.as_bytes(), &mut random());
    let refusal = Refusal::NoCommonCodec { theirs: ["an unnamed one"; MAX_NAMES].join(", ") };
    assert_eq!(answer.unwrap_err(), refusal);
}

#[test]
fn nobody_is_sent_anything_at_no_address() {
    let offer = b"v=0\r\nc=IN IP4 0.0.0.0\r\nm=audio 4000 RTP/AVP 0\r\n";
    let (_, stream) = negotiator(Security::Off, 5000).answer(offer, &mut random()).unwrap();
    assert_eq!(stream.remote, None);
}

fn of(codecs: &[Codec]) -> Negotiator {
    let codecs = codecs.to_vec();
    let media_config = MediaConfig {
        security: Security::Off,
        codecs,
        offers_all_codecs: true,
        ..MediaConfig::default()
    };
    Negotiator::new(media_config, ([192, 0, 2, 1], 5000).into(), 7)
}

#[test]
fn an_offer_fits_a_datagram_and_what_it_leaves_out_is_taken() {
    let media_config = MediaConfig { security: Security::Required, ..MediaConfig::default() };
    let mut here = Negotiator::new(media_config, ([192, 0, 2, 1], 5000).into(), 7);
    let offer = here.offer(&mut random());
    assert!(offer.len() < 1000, "{}", offer.len());
    let offer = b"v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/SAVP 3\r\n\
        a=crypto:1 AES_CM_128_HMAC_SHA1_32 inline:WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz\r\n";
    let (_, stream) = here.answer(offer, &mut random()).unwrap();
    assert_eq!(stream.codec, Codec::Gsm);
    let suite = stream.keying.sdes().unwrap().send.policy.suite;
    assert_eq!(suite, Suite::AesCm128HmacSha1_32);
}

#[test]
fn an_offer_has_every_codec_in_its_order_and_no_payload_type_twice() {
    let offer = of(Codec::ALL).offer(&mut random());
    let session = sdp::SessionDescription::parse(&offer).unwrap();
    let media = &session.media[0];
    let mut numbers: Vec<u8> = media.formats().map(|format| format.parse().unwrap()).collect();
    let named: Vec<_> = numbers
        .iter()
        .filter(|number| **number != 13)
        .map(|number| media.rtpmaps().find(|map| map.payload_type == *number).unwrap())
        .filter_map(|map| Codec::from_encoding_name(map.name, map.clock_rate))
        .collect();
    assert_eq!(named, Codec::ALL);
    let dynamic = numbers.iter().filter(|number| **number > 34);
    assert!(dynamic.into_iter().all(|number| (96..=127).contains(number)), "{numbers:?}");
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count);
}

#[test]
fn the_first_codec_of_the_offer_that_both_know_is_taken_under_its_number() {
    let mut here = of(Codec::ALL);
    for (media, codec, number) in [
        ("8 0\r\n", Codec::Pcma, 8),
        ("18 0 9\r\n", Codec::Pcmu, 0),
        ("3 0\r\n", Codec::Gsm, 3),
        ("99 0\r\na=rtpmap:99 G726-32/8000\r\n", Codec::G726, 99),
        ("99 0\r\na=rtpmap:99 AAL2-G726-32/8000\r\n", Codec::Aal2G726, 99),
        ("2 0\r\na=rtpmap:2 G726-32/8000\r\n", Codec::G726, 2),
        ("9 0\r\na=rtpmap:9 G722/8000\r\n", Codec::G722, 9),
        ("9 0\r\na=rtpmap:9 G722/8000/1\r\n", Codec::G722, 9),
        ("120 0\r\na=rtpmap:120 pcma/8000\r\n", Codec::Pcma, 120),
        ("96 8\r\n", Codec::Pcma, 8),
    ] {
        let offer = format!("v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP {media}");
        let (answer, stream) = here.answer(offer.as_bytes(), &mut random()).unwrap();
        assert_eq!((stream.codec, stream.send_type), (codec, number), "{media}");
        assert_eq!(stream.receive_type, number, "{media}");
        let answer = String::from_utf8(answer).unwrap();
        let map = format!("a=rtpmap:{number} {}/{}\r\n", codec.name(), codec.clock_rate());
        assert!(answer.contains(&map), "{answer}");
    }
}

#[test]
fn what_is_received_is_numbered_as_it_was_offered() {
    let mut caller = of(&[Codec::Pcma]);
    caller.offer(&mut random());
    let answer = b"v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 97 99\r\n\
        a=rtpmap:97 PCMA/8000\r\na=rtpmap:99 telephone-event/8000\r\n";
    let stream = caller.accept(answer).unwrap();
    assert_eq!((stream.send_type, stream.receive_type), (97, 8));
    assert_eq!((stream.events, stream.events_clock_rate), (Some((99, 101)), 8000));
}

/// As Twinkle does, which ignores clock rates.
#[cfg(feature = "opus")]
#[test]
fn events_of_a_phone_that_takes_the_last_number_are_received() {
    let mut caller = of(Codec::ALL);
    caller.offer(&mut random());
    let answer = b"v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 0 110\r\n\
        a=rtpmap:110 telephone-event/8000\r\n";
    let stream = caller.accept(answer).unwrap();
    assert_eq!((stream.events, stream.events_clock_rate), (Some((110, 110)), 8000));
}

#[cfg(feature = "opus")]
#[test]
fn opus_is_named_with_two_channels_and_has_events_of_its_clock_rate() {
    let offer = of(Codec::ALL).offer(&mut random());
    let text = String::from_utf8(offer.clone()).unwrap();
    for line in [
        "m=audio 5000 RTP/AVP 96 9 0 8 ",
        "a=rtpmap:96 opus/48000/2\r\n",
        "a=fmtp:96 maxplaybackrate=16000;useinbandfec=1\r\n",
        "a=rtpmap:101 telephone-event/8000\r\n",
        "a=rtpmap:110 telephone-event/48000\r\n",
    ] {
        assert!(text.contains(line), "{line} {text}");
    }
    let (answer, stream) = of(Codec::ALL).answer(&offer, &mut random()).unwrap();
    assert_eq!((stream.codec, stream.send_type), (Codec::Opus, 96));
    assert_eq!((stream.events, stream.events_clock_rate), (Some((110, 110)), 48_000));
    let text = String::from_utf8(answer).unwrap();
    assert!(text.contains("m=audio 5000 RTP/AVP 96 110\r\n"), "{text}");
    assert!(text.contains("a=rtpmap:96 opus/48000/2\r\n"), "{text}");
    assert!(text.contains("a=rtpmap:110 telephone-event/48000\r\n"), "{text}");

    // A phone that names 8000 Hz for the events of any codec.
    let offer = b"v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 111 101\r\n\
        a=rtpmap:111 OPUS/48000/2\r\na=rtpmap:101 telephone-event/8000\r\n";
    let (_, stream) = of(Codec::ALL).answer(offer, &mut random()).unwrap();
    assert_eq!((stream.codec, stream.receive_type), (Codec::Opus, 111));
    assert_eq!((stream.events, stream.events_clock_rate), (Some((101, 101)), 8000));
}

#[test]
fn keys_that_nobody_has_asked_for_are_passed_over() {
    let key = "AES_CM_128_HMAC_SHA1_80 inline:MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw";
    let answer =
        format!("v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 0\r\na=crypto:1 {key}\r\n");
    let mut numbers = random();
    let mut caller = negotiator(Security::Off, 4000);
    caller.offer(&mut numbers);
    assert!(!caller.accept(answer.as_bytes()).unwrap().keying.is_encrypted());
    let mut caller = negotiator(Security::Optional, 4000);
    caller.offer(&mut numbers);
    assert!(
        caller.accept(answer.as_bytes()).unwrap().keying.is_encrypted(),
        "the first was offered"
    );
}

#[test]
fn srtp_plus_stays_whoever_offers_anew() {
    use srtp::plus::Placement;
    for placement in [Placement::Extension(5), Placement::Trailer] {
        let plus = SrtpPlus { scheme: Scheme::SEQUENCE, placement };
        let media_config = MediaConfig { plus: Some(plus), ..MediaConfig::default() };
        let mut caller = Negotiator::new(media_config, ([192, 0, 2, 1], 4000).into(), 7);
        let mut callee = negotiator(Security::Optional, 5000);
        let mut numbers = random();
        let scheme = |stream: &Stream| stream.keying.sdes().unwrap().send.policy.plus;
        let offer = caller.offer(&mut numbers);
        let (answer, taken) = callee.answer(&offer, &mut numbers).unwrap();
        let agreed = caller.accept(&answer).unwrap();
        assert_eq!((scheme(&agreed), scheme(&taken)), (Some(plus), Some(plus)));
        let offer = callee.offer(&mut numbers);
        let (answer, taken) = caller.answer(&offer, &mut numbers).unwrap();
        let agreed = callee.accept(&answer).unwrap();
        assert_eq!((scheme(&agreed), scheme(&taken)), (Some(plus), Some(plus)));
    }
}

#[test]
fn an_offer_that_changes_nothing_keeps_the_keys_of_both_ends() {
    let mut numbers = random();
    let mut ends = [4000, 5000].map(|port| negotiator(Security::Optional, port));
    let mut change = |from: usize, is_asked_for: bool| {
        let offer = match is_asked_for {
            true => ends[from].offer_anew(&mut numbers),
            false => ends[from].offer(&mut numbers),
        };
        let (answer, theirs) = ends[1 - from].answer(&offer, &mut numbers).unwrap();
        let ours = ends[from].accept(&answer).unwrap();
        let key = |crypto: &CryptoAttribute| crypto.keys[0].bytes.to_vec();
        let (ours, theirs) = (ours.keying.sdes().unwrap(), theirs.keying.sdes().unwrap());
        assert_eq!(
            (key(&ours.send), key(&ours.receive)),
            (key(&theirs.receive), key(&theirs.send))
        );
        let mut keys = [key(&ours.send), key(&ours.receive)];
        if from == 1 {
            keys.reverse();
        }
        keys
    };
    let first = change(0, false);
    assert_eq!(change(0, false), first);
    assert_eq!(change(1, false), first);
    // The offer of an INVITE without an offer may go to a third party.
    let asked_for = change(0, true);
    assert!(asked_for[0] != first[0] && asked_for[1] != first[1]);
    assert_eq!(change(1, false), asked_for);
}

#[test]
fn a_shortened_offer_is_answered_as_the_whole_one() {
    for security in [Security::Off, Security::Required] {
        let mut numbers = random();
        let (mut caller, mut callee) = (negotiator(security, 4000), negotiator(security, 5000));
        let offer = caller.offer(&mut numbers);
        let short = shorten(&offer);
        let least = if security == Security::Off { 100 } else { 300 };
        assert!(short.len() + least < offer.len(), "{} of {}", short.len(), offer.len());
        let (answer, theirs) = callee.answer(&short, &mut numbers).unwrap();
        let ours = caller.accept(&answer).unwrap();
        assert_eq!((ours.codec, theirs.codec), (Codec::ALL[0], Codec::ALL[0]));
        assert_eq!(ours.keying.is_encrypted(), security == Security::Required);
        assert_eq!(ours.events, Some((101, 101)));
    }
}

#[test]
fn lines_of_ice_are_in_offers_and_in_answers_to_ice() {
    let lines = "a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\n";
    let has_lines = |description: &[u8]| {
        core::str::from_utf8(description).is_ok_and(|text| text.contains(lines))
    };
    let mut numbers = random();
    for (caller_has, callee_has) in [(true, true), (true, false), (false, true)] {
        let (mut caller, mut callee) =
            (negotiator(Security::Off, 4000), negotiator(Security::Off, 5000));
        caller.set_ice(caller_has.then(|| lines.into()));
        callee.set_ice(callee_has.then(|| lines.into()));
        let offer = caller.offer(&mut numbers);
        assert_eq!(has_lines(&offer), caller_has);
        let (answer, _) = callee.answer(&offer, &mut numbers).unwrap();
        assert_eq!(has_lines(&answer), caller_has && callee_has);
        assert!(caller.accept(&answer).is_ok());
    }
}
