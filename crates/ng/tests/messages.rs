//! Requests with faults, and responses.

use barebell_ng::bencode::{BencodeError, Dictionary, Fault, Value};
use barebell_ng::report::{CallReport, Counts, Media, Party, Quality, Source, Stream};
use barebell_ng::{
    Command, DEFAULT_LIST, MAX_COOKIE, MAX_IDENTIFIER, MAX_RESPONSE, Request, RequestFault,
    Response,
};
use proptest::prelude::{any, prop, proptest};

fn fault(datagram: &str) -> RequestFault<'_> {
    Request::parse(datagram.as_bytes()).expect_err("a fault").fault
}

/// The response without its cookie.
fn written(response: &Response<'_>) -> String {
    let mut out = b"before".to_vec();
    response.write(b"5_1", &mut out);
    let text = String::from_utf8(out).expect("the response is text");
    text.strip_prefix("before5_1 ").expect("the cookie and a space").to_owned()
}

fn is_sorted(value: Value<'_>) -> bool {
    match value {
        Value::List(list) => list.values().all(is_sorted),
        Value::Dictionary(dictionary) => {
            dictionary.entries().is_sorted_by(|one, other| one.0 < other.0)
                && dictionary.entries().all(|(_, value)| is_sorted(value))
        }
        Value::Integer(_) | Value::String(_) => true,
    }
}

#[test]
fn a_datagram_without_a_cookie_gets_no_response() {
    let long = format!("{} d7:command4:pinge", "x".repeat(MAX_COOKIE + 1));
    for datagram in ["", " ", "d7:command4:pinge", " d7:command4:pinge", "a\x1b d1:ae", &long] {
        let error = Request::parse(datagram.as_bytes()).expect_err("no cookie");
        assert_eq!((error.cookie, error.fault), (None, RequestFault::Cookie), "{datagram:?}");
        let mut out = Vec::new();
        assert!(!error.respond(&mut out) && out.is_empty());
    }
}

#[test]
fn a_faulty_request_gets_an_error_as_response() {
    let error = Request::parse(b"7 d7:command10:play mediae").expect_err("a fault");
    let mut out = Vec::new();
    assert!(error.respond(&mut out));
    let text = String::from_utf8(out).expect("the response is text");
    assert_eq!(
        text,
        "7 d12:error-reason81:unknown command \"play media\", expected ping, offer, answer, \
         delete, query or list6:result5:errore"
    );
}

#[test]
fn faults_of_requests_are_told_apart() {
    let truncated = BencodeError { offset: 5, fault: Fault::Truncated };
    assert_eq!(fault("1 d1:ai"), RequestFault::Bencode(BencodeError { offset: 4, ..truncated }));
    assert_eq!(fault("1 {\"command\":\"ping\"}"), {
        RequestFault::Bencode(BencodeError { offset: 0, fault: Fault::Byte(b'{') })
    });
    assert_eq!(fault("1 le"), RequestFault::NotADictionary);
    assert_eq!(fault("1 de"), RequestFault::Missing { key: "command", command: "" });
    assert_eq!(fault("1 d7:commandi1ee"), RequestFault::Missing { key: "command", command: "" });
    let missing = |key, command| RequestFault::Missing { key, command };
    assert_eq!(fault("1 d7:command6:deletee"), missing("call-id", "delete"));
    assert_eq!(fault("1 d7:call-id1:a7:command5:offere"), missing("from-tag", "offer"));
    assert_eq!(fault("1 d7:call-id1:a7:command5:offer8:from-tag1:fe"), missing("sdp", "offer"));
    let answer = "1 d7:call-id1:a7:command6:answer8:from-tag1:f3:sdp1:ve";
    assert_eq!(fault(answer), missing("to-tag", "answer"));
    let long = "x".repeat(MAX_IDENTIFIER + 1);
    let datagram = format!("1 d7:call-id{}:{long}7:command5:querye", long.len());
    let too_long = RequestFault::TooLong { key: "call-id", length: MAX_IDENTIFIER + 1 };
    assert_eq!(fault(&datagram), too_long);
}

#[test]
fn a_list_has_a_limit() {
    for (limit, expected) in
        [("", DEFAULT_LIST), ("5:limiti7e", 7), ("5:limit1:7", 7), ("5:limiti-1e", DEFAULT_LIST)]
    {
        let datagram = format!("1 d7:command4:list{limit}e");
        let request = Request::parse(datagram.as_bytes()).expect("a request");
        assert_eq!(request.command, Command::List { limit: expected });
    }
}

#[test]
fn short_responses_are_as_documented() {
    assert_eq!(written(&Response::Pong), "d6:result4:ponge");
    assert_eq!(written(&Response::Ok), "d6:result2:oke");
    assert_eq!(written(&Response::Sdp(b"v=0")), "d6:result2:ok3:sdp3:v=0e");
    assert_eq!(written(&Response::Warning("none")), "d6:result2:ok7:warning4:nonee");
    assert_eq!(written(&Response::Error("x")), "d12:error-reason1:x6:result5:errore");
    assert_eq!(written(&Response::LoadLimit("x")), "d7:message1:x6:result10:load limite");
    assert_eq!(written(&Response::Calls(&[b"a", b"b"])), "d5:callsl1:a1:be6:result2:oke");
}

#[test]
fn responses_fit_into_a_datagram() {
    let long = "x".repeat(MAX_RESPONSE - "5_1 d6:result2:ok3:sdp65473:e".len());
    let mut out = Vec::new();
    Response::Sdp(long.as_bytes()).write(b"5_1", &mut out);
    assert_eq!(out.len(), MAX_RESPONSE);
    let longer = format!("{long}x");
    let text = written(&Response::Sdp(longer.as_bytes()));
    assert!(text.ends_with("6:result5:errore"), "{text}");
    let call_id = [b'c'; MAX_IDENTIFIER];
    let text = written(&Response::Calls(&[&call_id[..]; 1000]));
    assert!(text.len() <= MAX_RESPONSE && text.len() > MAX_RESPONSE - 2 * MAX_IDENTIFIER);
    assert!(text.ends_with("e6:result2:oke"));
}

fn report<'r>(parties: &'r [Party<'r>], sources: &'r [Source]) -> CallReport<'r> {
    CallReport { created: 1_700_000_000, last_signal: 1_700_000_009, parties, sources }
}

#[test]
fn the_report_on_a_call_has_the_documented_keys() {
    let counts = |packets| Counts { packets, bytes: 172 * packets, errors: 1 };
    let streams = [
        Stream {
            local_port: Some(20_000),
            endpoint: Some(([192, 0, 2, 7], 4000).into()),
            advertised_endpoint: Some(([10, 0, 0, 1], 4000).into()),
            is_confirmed: true,
            crypto_suite: Some("AES_CM_128_HMAC_SHA1_80"),
            ssrc: Some(7),
            last_packet: Some(1_700_000_050),
            counts: counts(100),
            ..Stream::default()
        },
        Stream { is_rtcp: true, counts: counts(3), ..Stream::default() },
    ];
    let media =
        [Media { kind: "audio", protocol: "RTP/SAVP", flags: &["SDES"], streams: &streams }];
    let one = Party {
        tag: b"tb",
        label: Some("callee"),
        created: 1_700_000_001,
        in_dialogue_with: Some(b"ta"),
        media: &media,
    };
    let parties = [one, Party { tag: b"ta", in_dialogue_with: Some(b"tb"), label: None, ..one }];
    let quality =
        Quality { mos: 4.26, jitter: 3, packet_loss: 1, round_trip: Some(20_000), samples: 9 };
    let sources = [
        Source { ssrc: 7, cumulative_loss: Some(5), quality: Some(quality) },
        Source { ssrc: 10, ..Source::default() },
    ];
    let text = written(&Response::Call(&report(&parties, &sources)));
    let value = Value::parse(text.as_bytes()).expect("the response is valid");
    assert!(is_sorted(value), "{text}");
    let root = value.as_dictionary().expect("a dictionary");
    assert_eq!(root.get(b"created"), Some(Value::Integer(1_700_000_000)));
    assert_eq!(root.get(b"last signal"), Some(Value::Integer(1_700_000_009)));
    assert_eq!(root.get(b"result"), Some(Value::String(b"ok")));
    let totals = at(root, &["totals", "RTP"]);
    assert_eq!(totals.get(b"packets"), Some(Value::Integer(200)));
    assert_eq!(totals.get(b"bytes"), Some(Value::Integer(34_400)));
    assert_eq!(totals.get(b"errors"), Some(Value::Integer(2)));
    assert_eq!(at(root, &["totals", "RTCP"]).get(b"packets"), Some(Value::Integer(6)));
    let mos = at(root, &["SSRC", "7", "average MOS"]);
    assert_eq!(mos.get(b"MOS"), Some(Value::Integer(43)));
    assert_eq!(mos.get(b"round-trip time"), Some(Value::Integer(20_000)));
    assert_eq!(at(root, &["SSRC", "10"]).entries().count(), 0);
    let party = at(root, &["tags", "tb"]);
    assert_eq!(party.get(b"in dialogue with"), Some(Value::String(b"ta")));
    assert_eq!(party.get(b"label"), Some(Value::String(b"callee")));
    let media = party.get(b"medias").and_then(Value::as_list).expect("a list");
    let media = media.values().next().and_then(Value::as_dictionary).expect("a medium");
    assert_eq!(media.get(b"index"), Some(Value::Integer(1)));
    let streams = media.get(b"streams").and_then(Value::as_list).expect("a list");
    let stream = streams.values().next().and_then(Value::as_dictionary).expect("a stream");
    assert_eq!(stream.get(b"SSRC"), Some(Value::Integer(7)));
    assert_eq!(stream.get(b"local port"), Some(Value::Integer(20_000)));
    assert_eq!(at(stream, &["endpoint"]).get(b"address"), Some(Value::String(b"192.0.2.7")));
    assert_eq!(at(stream, &["stats"]).get(b"packets"), Some(Value::Integer(100)));
}

/// The dictionary under nested keys.
fn at<'a>(root: Dictionary<'a>, keys: &[&str]) -> Dictionary<'a> {
    keys.iter().fold(root, |dictionary, key| {
        let value = dictionary.get(key.as_bytes()).and_then(Value::as_dictionary);
        value.unwrap_or_else(|| panic!("no dictionary {key}"))
    })
}

proptest! {
    #[test]
    fn responses_are_valid_with_sorted_keys(
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 2),
        label in any::<Option<String>>(),
        numbers in any::<[u64; 6]>(),
        mos in any::<f32>(),
    ) {
        let counts =
            Counts { packets: numbers[0], bytes: numbers[1], errors: numbers[2] };
        let streams = [Stream { counts, last_packet: Some(numbers[3]), ..Stream::default() }; 2];
        let media = [Media { streams: &streams, ..Media::default() }; 2];
        let mut tags = [&texts[0][..], &texts[1][..]];
        if tags[0] == tags[1] {
            tags[1] = b"another tag, longer than each";
        }
        let parties = tags.map(|tag| Party {
            tag,
            label: label.as_deref(),
            created: numbers[4],
            in_dialogue_with: Some(tag),
            media: &media,
        });
        let quality = Some(Quality { mos, ..Quality::default() });
        let sources = [Source { ssrc: numbers[5] as u32, cumulative_loss: None, quality }];
        let report = report(&parties, &sources);
        let responses = [
            Response::Call(&report),
            Response::Sdp(&texts[0]),
            Response::Calls(&tags),
            Response::Error(label.as_deref().unwrap_or_default()),
        ];
        for response in responses {
            let mut out = Vec::new();
            response.write(b"1", &mut out);
            assert!(is_sorted(Value::parse(&out[2..]).expect("the response is valid")));
        }
    }
}
