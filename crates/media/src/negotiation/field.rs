//! The behaviour of deployed phones with SDES, hold, directions and packet durations: a table for
//! each.

use super::tests::{negotiator, random};
use super::*;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use sdp::SessionDescription;
use sdp::negotiation;
use srtp::Suite::{self, *};

/// Thirty bytes in base64, and 46, 38, 44 and 28 bytes.
const KEY: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw";
const KEY_46: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ1Ng==";
const KEY_38: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg=";
const KEY_44: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDEyMzQ=";
const KEY_28: &str = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3OA==";

/// Returns a description with one medium.
fn description(protocol: &str, lines: &[&str]) -> Vec<u8> {
    let mut text = format!(
        "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n\
         m=audio 4000 {protocol} 0\r\n"
    );
    lines.iter().for_each(|line| text += &format!("{line}\r\n"));
    text.into_bytes()
}

/// Returns the suite of the answer to an offer, or the reason for its rejection.
fn answered(security: Security, protocol: &str, lines: &[&str]) -> Result<Option<Suite>, Refusal> {
    let offer = description(protocol, lines);
    let (answer, stream) = negotiator(security, 5000).answer(&offer, &mut random())?;
    let suite = stream.keying.sdes().map(|agreed| agreed.send.policy.suite);
    // The answer has the same protocol, and a key exactly if the stream has one.
    let read = SessionDescription::parse(&answer).unwrap();
    let media = &read.media[0];
    assert_eq!(media.protocol, protocol);
    let keys: Vec<_> = negotiation::usable_crypto_attributes(media);
    assert_eq!(keys.first().map(|key| key.policy.suite), suite, "{lines:?}");
    if let (Some(key), Some(agreed)) = (keys.first(), stream.keying.sdes()) {
        assert_eq!((keys.len(), key.tag), (1, agreed.receive.tag));
    }
    Ok(suite)
}

#[test]
fn profiles_with_and_without_keys() {
    use Security::{Off, Optional, Required};
    let line = format!("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{KEY}");
    let (with, without) = ([line.as_str()], [""; 0]);
    let only = |protocol: &str| Err(Refusal::OnlySecured { protocol: protocol.into() });
    let suite = Ok(Some(AesCm128HmacSha1_80));
    for (security, protocol, lines, expected) in [
        // Opportunistic SRTP (RFC 8643): a plain profile with keys.
        (Optional, "RTP/AVP", &with[..], suite.clone()),
        (Required, "RTP/AVP", &with, suite.clone()),
        (Off, "RTP/AVP", &with, Ok(None)),
        (Optional, "RTP/AVPF", &with, suite.clone()),
        (Required, "RTP/AVPF", &with, suite.clone()),
        (Optional, "RTP/SAVP", &with, suite.clone()),
        (Optional, "RTP/SAVPF", &with, suite.clone()),
        (Required, "RTP/SAVPF", &with, suite),
        (Off, "RTP/SAVP", &with, only("RTP/SAVP")),
        (Off, "RTP/SAVPF", &with, only("RTP/SAVPF")),
        (Optional, "RTP/AVPF", &without, Ok(None)),
        (Required, "RTP/AVP", &without, Err(Refusal::NotSecured)),
        (Optional, "RTP/SAVP", &without, only("RTP/SAVP")),
        (Required, "RTP/SAVP", &without, Err(Refusal::NotSecured)),
        (Optional, "UDP/TLS/RTP/SAVP", &without, only("UDP/TLS/RTP/SAVP")),
        (Optional, "TCP/RTP/AVP", &with, only("TCP/RTP/AVP")),
    ] {
        assert_eq!(
            answered(security, protocol, lines),
            expected,
            "{security:?} {protocol} {lines:?}"
        );
    }
}

#[test]
fn crypto_lines_of_the_field() {
    let c = |tag: u32, rest: &str| format!("a=crypto:{tag} {rest}");
    let padded = |key: &str| key.trim_end_matches('=').to_string();
    let good = format!("AES_CM_128_HMAC_SHA1_32 inline:{KEY}");
    let table: Vec<(Vec<String>, Option<Suite>)> = vec![
        // The names of RFC 6188, and the variants that phones use.
        (
            vec![c(1, &format!("AES_256_CM_HMAC_SHA1_80 inline:{KEY_46}"))],
            Some(AesCm256HmacSha1_80),
        ),
        (
            vec![c(1, &format!("AES_CM_256_HMAC_SHA1_80 inline:{KEY_46}"))],
            Some(AesCm256HmacSha1_80),
        ),
        (
            vec![c(1, &format!("AES_256_CM_HMAC_SHA1_32 inline:{}", padded(KEY_46)))],
            Some(AesCm256HmacSha1_32),
        ),
        (
            vec![c(1, &format!("AES_192_CM_HMAC_SHA1_80 inline:{KEY_38}"))],
            Some(AesCm192HmacSha1_80),
        ),
        (
            vec![c(1, &format!("AES_CM_192_HMAC_SHA1_32 inline:{}", padded(KEY_38)))],
            Some(AesCm192HmacSha1_32),
        ),
        (vec![c(1, &format!("aes_cm_128_hmac_sha1_80 INLINE:{KEY}"))], Some(AesCm128HmacSha1_80)),
        // AES-GCM, for which some phones omit the padding of the key.
        (vec![c(1, &format!("AEAD_AES_256_GCM inline:{KEY_44}"))], Some(AeadAes256Gcm)),
        (vec![c(1, &format!("AEAD_AES_256_GCM inline:{}", padded(KEY_44)))], Some(AeadAes256Gcm)),
        (vec![c(1, &format!("AEAD_AES_128_GCM inline:{KEY_28}"))], Some(AeadAes128Gcm)),
        (vec![c(1, &format!("AEAD_AES_128_GCM inline:{}", padded(KEY_28)))], Some(AeadAes128Gcm)),
        // A salt of the length of RFC 3711 is invalid with AES-GCM.
        (vec![c(1, &format!("AEAD_AES_256_GCM inline:{KEY_46}"))], None),
        (vec![c(1, &format!("AEAD_AES_128_GCM inline:{KEY}"))], None),
        // Lifetimes and identifiers.
        (vec![c(1, &format!("{good}|2^31"))], Some(AesCm128HmacSha1_32)),
        (vec![c(1, &format!("{good}|1048576"))], Some(AesCm128HmacSha1_32)),
        (vec![c(1, &format!("{good}|2^20|1:4"))], Some(AesCm128HmacSha1_32)),
        (vec![c(1, &format!("{good}|1:1"))], Some(AesCm128HmacSha1_32)),
        (vec![c(1, &format!("{good}|2^31|"))], Some(AesCm128HmacSha1_32)),
        (vec![c(1, &format!("{good}|0"))], None),
        (vec![c(1, &format!("{good}|2^20|256:1"))], None),
        (vec![c(1, &format!("{good}|2^20|1:129"))], None),
        // Several lines: the order of the offerer counts, and an invalid line does not affect the
        // others.
        (
            vec![
                c(1, &format!("AES_256_CM_HMAC_SHA1_80 inline:{KEY_46}")),
                c(2, &format!("AES_CM_128_HMAC_SHA1_80 inline:{KEY}")),
            ],
            Some(AesCm256HmacSha1_80),
        ),
        (vec![c(1, "SOMETHING_NEW inline:AAAA"), c(2, &good)], Some(AesCm128HmacSha1_32)),
        (
            vec![c(1, &format!("AES_CM_128_HMAC_SHA1_80 inline:{KEY}AA")), c(2, &good)],
            Some(AesCm128HmacSha1_32),
        ),
        (
            vec![c(1, ""), "a=crypto".into(), "a=crypto:".into(), c(9, &good)],
            Some(AesCm128HmacSha1_32),
        ),
        // Session parameters: weakening and unknown ones are rejected.
        (vec![c(1, &format!("{good} UNENCRYPTED_SRTP"))], None),
        (vec![c(1, &format!("{good} UNENCRYPTED_SRTCP"))], None),
        (vec![c(1, &format!("{good} UNAUTHENTICATED_SRTP"))], None),
        (vec![c(1, &format!("{good} UNENCRYPTED_SRTP")), c(2, &good)], Some(AesCm128HmacSha1_32)),
        (vec![c(1, &format!("{good} FEC_ORDER=FEC_SRTP"))], None),
        (vec![c(1, &format!("{good} NEW_PARAMETER=1"))], None),
        (vec![c(1, &format!("{good} -NEW_PARAMETER=1"))], Some(AesCm128HmacSha1_32)),
        (vec![c(1, &format!("{good} KDR=0 WSH=64"))], Some(AesCm128HmacSha1_32)),
        (vec![c(1, &format!("{good} KDR=25"))], None),
    ];
    for (lines, expected) in table {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        for protocol in ["RTP/SAVP", "RTP/AVP"] {
            let expected = match (expected, protocol) {
                (None, "RTP/SAVP") => Err(Refusal::OnlySecured { protocol: protocol.into() }),
                (suite, _) => Ok(suite),
            };
            assert_eq!(answered(Security::Optional, protocol, &lines), expected, "{lines:?}");
        }
        let expected = expected.map(Some).ok_or(Refusal::NotSecured);
        assert_eq!(answered(Security::Required, "RTP/SAVP", &lines), expected, "{lines:?}");
    }
}

#[test]
fn only_the_suites_that_are_wished_for_are_taken() {
    let media_config = MediaConfig { suites: vec![AesCm128HmacSha1_80], ..MediaConfig::default() };
    let mut here = Negotiator::new(media_config, ([192, 0, 2, 1], 5000).into(), 7);
    let (long, short) = (
        format!("a=crypto:1 AES_256_CM_HMAC_SHA1_80 inline:{KEY_46}"),
        format!("a=crypto:2 AES_CM_128_HMAC_SHA1_80 inline:{KEY}"),
    );
    let offer = description("RTP/SAVP", &[&long, &short]);
    let (_, stream) = here.answer(&offer, &mut random()).unwrap();
    let agreed = stream.keying.sdes().unwrap();
    assert_eq!((agreed.send.tag, agreed.send.policy.suite), (2, AesCm128HmacSha1_80));
    let offer = description("RTP/SAVP", &[&long]);
    assert!(here.answer(&offer, &mut random()).is_err());
}

/// Returns the suite after an answer to a local offer, or the reason for its rejection.
fn accepted(security: Security, protocol: &str, lines: &[&str]) -> Result<Option<Suite>, Refusal> {
    let mut caller = negotiator(security, 4000);
    caller.offer(&mut random());
    let stream = caller.accept(&description(protocol, lines))?;
    Ok(stream.keying.sdes().map(|agreed| agreed.send.policy.suite))
}

#[test]
fn answers_of_the_field() {
    use Security::{Off, Optional, Required};
    let line =
        |tag: u32, suite: &str, end: &str| format!("a=crypto:{tag} {suite} inline:{KEY}{end}");
    let first = line(1, "AES_CM_128_HMAC_SHA1_80", "");
    let first_again = line(2, "AES_CM_128_HMAC_SHA1_32", "");
    let parameters = line(1, "AES_CM_128_HMAC_SHA1_80", "|2^31|1:1");
    let other_tag = line(2, "AES_CM_128_HMAC_SHA1_80", "");
    let no_tag = line(77, "AES_CM_128_HMAC_SHA1_80", "");
    let weaker = line(1, "AES_CM_128_HMAC_SHA1_80", " UNENCRYPTED_SRTP");
    let unknown = line(1, "AES_CM_128_HMAC_SHA1_80", " NEW=1");
    let nothing: [&str; 0] = [];
    let suite = Ok(Some(AesCm128HmacSha1_80));
    for (security, protocol, lines, expected) in [
        (Optional, "RTP/AVP", &[first.as_str()][..], suite.clone()),
        // Phones that answer a plain offer with a secure profile.
        (Optional, "RTP/SAVP", &[&first], suite.clone()),
        (Required, "RTP/SAVP", &[&first], suite.clone()),
        (Required, "RTP/SAVPF", &[&first], suite.clone()),
        (Required, "RTP/SAVP", &[&parameters], suite),
        (Optional, "RTP/AVP", &nothing, Ok(None)),
        (Required, "RTP/SAVP", &nothing, Err(Refusal::NotSecured)),
        (Required, "RTP/AVP", &nothing, Err(Refusal::NotSecured)),
        (Optional, "RTP/SAVP", &nothing, Err(Refusal::Keys)),
        // The tag of another offered line, and a missing tag.
        (Optional, "RTP/AVP", &[&other_tag], Err(Refusal::Keys)),
        (Required, "RTP/SAVP", &[&no_tag], Err(Refusal::NotSecured)),
        (Optional, "RTP/AVP", &[&no_tag], Err(Refusal::Keys)),
        // More than one line.
        (Optional, "RTP/AVP", &[&first, &first_again], Err(Refusal::Keys)),
        (Required, "RTP/SAVP", &[&first, &first_again], Err(Refusal::NotSecured)),
        (Required, "RTP/SAVP", &[&weaker], Err(Refusal::NotSecured)),
        (Required, "RTP/SAVP", &[&unknown], Err(Refusal::NotSecured)),
        (Optional, "RTP/AVP", &[&weaker], Err(Refusal::Keys)),
        (Off, "RTP/AVP", &[&first], Ok(None)),
        (Off, "RTP/SAVP", &[&first], Err(Refusal::Keys)),
    ] {
        assert_eq!(
            accepted(security, protocol, lines),
            expected,
            "{security:?} {protocol} {lines:?}"
        );
    }
    // A suite that was not offered, under a tag that was.
    let media_config = MediaConfig { suites: vec![AesCm128HmacSha1_80], ..MediaConfig::default() };
    let mut caller = Negotiator::new(media_config, ([192, 0, 2, 1], 4000).into(), 7);
    caller.offer(&mut random());
    let answer = description("RTP/AVP", &[&line(1, "AES_CM_128_HMAC_SHA1_32", "")]);
    assert_eq!(caller.accept(&answer).unwrap_err(), Refusal::Keys);
    // An invalid line counts as a mismatch: the other end has accepted one of the offered keys.
    let answer = description("RTP/AVP", &["a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:AAAA"]);
    assert_eq!(caller.accept(&answer).unwrap_err(), Refusal::Keys);
}

#[test]
fn a_call_becomes_secure_by_another_offer_and_never_plain_again() {
    let mut numbers = random();
    let mut here = negotiator(Security::Optional, 5000);
    let clear = description("RTP/AVP", &[]);
    assert!(!here.answer(&clear, &mut numbers).unwrap().1.keying.is_encrypted());
    let line = format!("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{KEY}");
    let secure = description("RTP/AVP", &[&line]);
    let keys = |(_, stream): (Vec<u8>, Stream)| stream.keying.sdes().unwrap().clone();
    let first = keys(here.answer(&secure, &mut numbers).unwrap());
    assert_eq!(here.answer(&clear, &mut numbers).unwrap_err(), Refusal::NotSecured);
    // New keys of the other end, and new local ones with them.
    let other = line.replace("MTIz", "NDU2");
    let renewed = description("RTP/AVP", &[&other]);
    let second = keys(here.answer(&renewed, &mut numbers).unwrap());
    let bytes = |crypto: &CryptoAttribute| crypto.keys[0].bytes.to_vec();
    assert_ne!(bytes(&first.receive), bytes(&second.receive));
    assert_ne!(bytes(&first.send), bytes(&second.send));
    // The next local offer requires SRTP.
    let offer = here.offer(&mut numbers);
    assert_eq!(SessionDescription::parse(&offer).unwrap().media[0].protocol, "RTP/SAVP");
}

#[test]
fn holding_and_directions() {
    use Security::Off;
    // The lines of the other end; whether the local end sends and receives; the answered direction;
    // whether the other end has an address.
    for (lines, sends, receives, says, is_somewhere) in [
        (&[""; 0][..], true, true, Direction::SendReceive, true),
        (&["a=sendrecv"], true, true, Direction::SendReceive, true),
        (&["a=sendonly"], false, true, Direction::ReceiveOnly, true),
        (&["a=recvonly"], true, false, Direction::SendOnly, true),
        (&["a=inactive"], false, false, Direction::Inactive, true),
        // Hold as in RFC 2543.
        (&["c=IN IP4 0.0.0.0"], true, true, Direction::SendReceive, false),
        (&["c=IN IP4 0.0.0.0", "a=sendonly"], false, true, Direction::ReceiveOnly, false),
        (&["c=IN IP6 ::"], true, true, Direction::SendReceive, false),
        (&["c=IN IP4 224.2.0.1/127"], true, true, Direction::SendReceive, false),
        (&["c=IN IP4 255.255.255.255"], true, true, Direction::SendReceive, false),
        (&["c=IN IP6 ::ffff:0.0.0.0"], true, true, Direction::SendReceive, false),
        (&["c=IN IP4 no.address"], true, true, Direction::SendReceive, false),
    ] {
        for holds in [false, true] {
            let mut here = negotiator(Off, 5000);
            here.hold(holds);
            let offer = description("RTP/AVP", lines);
            let (answer, stream) = here.answer(&offer, &mut random()).unwrap();
            assert_eq!((stream.sends, stream.receives), (sends, receives && !holds), "{lines:?}");
            assert_eq!(stream.remote.is_some(), is_somewhere, "{lines:?}");
            assert_eq!(stream.remote_rtcp.is_some(), is_somewhere, "{lines:?}");
            let read = SessionDescription::parse(&answer).unwrap();
            let says = match (says, holds) {
                (Direction::SendReceive, true) => Direction::SendOnly,
                (Direction::ReceiveOnly, true) => Direction::Inactive,
                (says, _) => says,
            };
            assert_eq!(read.media[0].direction(&read), says, "{lines:?} {holds}");
            // The same lines as an answer to a local offer.
            let mut caller = negotiator(Off, 4000);
            caller.hold(holds);
            caller.offer(&mut random());
            let stream = caller.accept(&offer).unwrap();
            assert_eq!((stream.sends, stream.receives), (sends, receives && !holds), "{lines:?}");
        }
    }
}

#[test]
fn addresses_of_the_other_end() {
    let head = "v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 0\r\n";
    for (lines, rtp, rtcp) in [
        ("", "192.0.2.9:4000", "192.0.2.9:4001"),
        ("c=IN IP4 192.0.2.77\r\n", "192.0.2.77:4000", "192.0.2.77:4001"),
        ("c=IN IP6 2001:db8::7\r\n", "[2001:db8::7]:4000", "[2001:db8::7]:4001"),
        ("c=IN IP6 [2001:db8::7]\r\n", "[2001:db8::7]:4000", "[2001:db8::7]:4001"),
        ("c=IN IP6 ::ffff:192.0.2.5\r\n", "192.0.2.5:4000", "192.0.2.5:4001"),
        ("a=rtcp:53020\r\n", "192.0.2.9:4000", "192.0.2.9:53020"),
        ("a=rtcp:53020 IN IP4 192.0.2.8\r\n", "192.0.2.9:4000", "192.0.2.8:53020"),
        ("a=rtcp:0\r\n", "192.0.2.9:4000", "192.0.2.9:4001"),
        ("a=rtcp:9 IN IP4 a.name\r\n", "192.0.2.9:4000", "192.0.2.9:4001"),
        (
            "y=1\r\nb=AS:64\r\na=x-unknown:1\r\na=setup:actpass\r\nq\r\n=\r\n",
            "192.0.2.9:4000",
            "192.0.2.9:4001",
        ),
    ] {
        let offer = format!("{head}{lines}");
        let mut here = negotiator(Security::Off, 5000);
        let (_, stream) = here.answer(offer.as_bytes(), &mut random()).unwrap();
        assert_eq!(stream.remote, Some(rtp.parse().unwrap()), "{lines}");
        assert_eq!(stream.remote_rtcp, Some(rtcp.parse().unwrap()), "{lines}");
    }
    // RTCP without a usable address, RTP with one.
    let offer = format!("{head}a=rtcp:9 IN IP4 0.0.0.0\r\n");
    let (_, stream) =
        negotiator(Security::Off, 5000).answer(offer.as_bytes(), &mut random()).unwrap();
    assert_eq!((stream.remote.is_some(), stream.remote_rtcp), (true, None));
    let last = head.replace("4000", "65535");
    let (_, stream) =
        negotiator(Security::Off, 5000).answer(last.as_bytes(), &mut random()).unwrap();
    assert_eq!(
        (stream.remote.is_some(), stream.remote_rtcp),
        (true, None),
        "there is no port behind it"
    );
    let off = head.replace("4000", "0");
    let refused = negotiator(Security::Off, 5000).answer(off.as_bytes(), &mut random());
    assert_eq!(refused.unwrap_err(), Refusal::NoAudio);
}

#[test]
fn packet_times_of_the_field() {
    for (lines, millis) in [
        (&[""; 0][..], 20),
        (&["a=ptime:10"], 10),
        (&["a=ptime:20"], 20),
        (&["a=ptime:30"], 30),
        (&["a=ptime:40"], 40),
        (&["a=ptime:60"], 60),
        (&["a=ptime:30 "], 30),
        (&["a=ptime:25"], 20),
        (&["a=ptime:0"], 20),
        (&["a=ptime:5"], 20),
        (&["a=ptime:100"], 20),
        (&["a=ptime:-20"], 20),
        (&["a=ptime:x"], 20),
        (&["a=maxptime:10"], 10),
        (&["a=maxptime:40"], 20),
        (&["a=maxptime:1"], 10),
        (&["a=ptime:60", "a=maxptime:30"], 30),
        (&["a=maxptime:150", "a=ptime:60"], 60),
    ] {
        let offer = description("RTP/AVP", lines);
        let (_, stream) = negotiator(Security::Off, 5000).answer(&offer, &mut random()).unwrap();
        assert_eq!(stream.packet_time, Duration::from_millis(millis), "{lines:?}");
        let mut caller = negotiator(Security::Off, 4000);
        caller.offer(&mut random());
        assert_eq!(caller.accept(&offer).unwrap().packet_time, stream.packet_time, "{lines:?}");
    }
}

#[test]
fn rtcp_and_its_reports_are_agreed_on() {
    for (lines, mux, reports) in [
        (&[""; 0][..], false, ExtendedReports::default()),
        (&["a=rtcp-mux"], true, ExtendedReports::default()),
        (&["a=rtcp-mux", "a=rtcp-xr:rcvr-rtt=all voip-metrics"], true, ExtendedReports::ALL),
        (
            &["a=rtcp-xr:pkt-loss-rle VOIP-METRICS"],
            false,
            ExtendedReports { voip_metrics: true, reference_time: false },
        ),
        (
            &["a=rtcp-xr:rcvr-rtt=sender:10"],
            false,
            ExtendedReports { voip_metrics: false, reference_time: true },
        ),
        (&["a=rtcp-xr", "a=rtcp-xr:stat-summary=loss"], false, ExtendedReports::default()),
    ] {
        let offer = description("RTP/AVP", lines);
        let mut here = negotiator(Security::Off, 5000);
        let (answer, stream) = here.answer(&offer, &mut random()).unwrap();
        assert_eq!((stream.multiplexes_rtcp, stream.extended_reports), (mux, reports), "{lines:?}");
        let read = SessionDescription::parse(&answer).unwrap();
        assert_eq!(read.media[0].multiplexes_rtcp(), mux);
        let names = read.media[0].attributes("rtcp-xr").next().is_some();
        assert_eq!(names, reports != ExtendedReports::default(), "{lines:?}");
        here.want_extended_reports(false);
        let (answer, _) = here.answer(&offer, &mut random()).unwrap();
        assert!(!answer.windows(7).any(|word| word == b"rtcp-xr"));
    }
    let offer = negotiator(Security::Off, 5000).offer(&mut random());
    let offer = SessionDescription::parse(&offer).unwrap();
    assert!(offer.media[0].multiplexes_rtcp());
    assert_eq!(ExtendedReports::of(&offer, &offer.media[0]), ExtendedReports::ALL);
}

#[test]
fn the_address_from_outside_is_named_in_place_of_the_local_one() {
    let mut here = negotiator(Security::Off, 5000);
    let said = |here: &mut Negotiator| {
        let offer = here.offer(&mut random());
        let session = SessionDescription::parse(&offer).unwrap();
        let media = &session.media[0];
        let address = session.address(media).unwrap().to_string();
        (address, media.port, media.rtcp().map(|(port, ip)| (port, ip.map(str::to_string))))
    };
    assert_eq!(said(&mut here), ("192.0.2.1".into(), 5000, None));
    here.receive_rtcp_at(Some(([192, 0, 2, 1], 5001).into()));
    assert_eq!(said(&mut here).2, None, "as everybody expects it");
    here.receive_rtcp_at(Some(([192, 0, 2, 1], 6000).into()));
    assert_eq!(said(&mut here).2, Some((6000, None)));
    let outside = |port| Some(SocketAddr::from(([198, 51, 100, 7], port)));
    here.publish(outside(40_000), outside(40_017));
    assert_eq!(said(&mut here), ("198.51.100.7".into(), 40_000, Some((40_017, None))));
    here.publish(outside(40_000), Some(([198, 51, 100, 8], 40_001).into()));
    assert_eq!(said(&mut here).2, Some((40_001, Some("198.51.100.8".into()))));
    here.publish(outside(40_000), None);
    assert_eq!(said(&mut here), ("198.51.100.7".into(), 40_000, None));
    let answer = here.answer(&description("RTP/AVP", &[]), &mut random()).unwrap().0;
    assert!(answer.windows(12).any(|word| word == b"198.51.100.7"), "in answers, too");
    here.publish(None, None);
    assert_eq!(said(&mut here).0, "192.0.2.1");
}
