//! The datagrams of Kamailio 5.6.3 with the module rtpengine. The name of a call stands for the
//! flags in the script: see `FLAGS`.

use barebell_ng::options::{
    AddressSource, Dtls, Family, Ice, Options, Osrtp, Replace, RtcpMux, Tos, Transport,
};
use barebell_ng::{Command, Request};

const DATAGRAMS: &str = include_str!("kamailio-5.6.3.txt");

/// The flags of each call: the argument of `rtpengine_offer`, `_answer` and `_delete`.
const FLAGS: &[(&str, &str)] = &[
    ("plain", ""),
    ("usual", "trust-address replace-origin replace-session-connection"),
    (
        "nat",
        "RTP/AVP SIP-source-address replace-origin replace-session-connection ICE=remove \
         symmetric via-branch=1 strict-source",
    ),
    (
        "webrtc-out",
        "UDP/TLS/RTP/SAVPF ICE=force rtcp-mux-offer rtcp-mux-require SDES-off DTLS=passive \
         generate-mid trust-address",
    ),
    ("webrtc-in", "RTP AVP SDES-no replace-origin rtcp-mux-demux ICE=remove DTLS=off OSRTP-accept"),
    (
        "srtp",
        "RTP/SAVP OSRTP-offer SDES-no-AES_CM_128_HMAC_SHA1_32 SDES-only-AES_CM_128_HMAC_SHA1_80 \
         SDES-pad",
    ),
    (
        "codecs",
        "codec-strip-PCMA codec-strip=G729 codec-offer-PCMU codec-mask-opus transcode-PCMA \
         transcode=G722 codec-transcode-iLBC codec-except-GSM codec-accept-GSM \
         codec-set-opus/48000/2/32000 repacketize=30",
    ),
    (
        "sides",
        "direction=public direction=private address-family=IP6 label=callee TOS=184 \
         media-address=203.0.113.7 ptime=30 loop-protect asymmetric port-latching",
    ),
    ("internal", "internal external to-tag from-tag=other call-id=another@example.com"),
    (
        "others",
        "record-call T.38-decode metadata=key:val AVPF SRTP transport-protocol=RTP/SAVPF xyzzy \
         codec-consume-PCMU received-from=203.0.113.9 delete-delay=5",
    ),
];

/// The datagrams with the name of their call.
fn datagrams() -> Vec<(&'static str, Vec<u8>)> {
    let lines = DATAGRAMS.lines().filter(|line| !line.starts_with('#'));
    let unescaped = |text: &str| {
        text.replace("\\r", "\r").replace("\\n", "\n").replace("\\\\", "\\").into_bytes()
    };
    lines
        .map(|line| line.split_once(' ').expect("a line has a name and a datagram"))
        .map(|(name, datagram)| (name, unescaped(datagram)))
        .collect()
}

/// The requests of a call.
fn with_requests(call: &str, look: impl FnOnce(&[Request<'_>])) {
    let datagrams: Vec<_> =
        datagrams().into_iter().filter(|(name, _)| *name == call).map(|(_, bytes)| bytes).collect();
    let requests: Vec<_> = datagrams
        .iter()
        .map(|datagram| Request::parse(datagram).unwrap_or_else(|error| panic!("{call}: {error}")))
        .collect();
    look(&requests);
}

/// Calls `look` with the options of the offer and with those of the answer of a call.
fn each_options(call: &str, look: impl Fn(&Options<'_>)) {
    with_requests(call, |requests| {
        let described = requests.iter().filter(|request| {
            matches!(request.command, Command::Offer { .. } | Command::Answer { .. })
        });
        let mut count = 0;
        for request in described {
            look(&request.options);
            count += 1;
        }
        assert_eq!(count, 2);
    });
}

fn unrecognized(options: &Options<'_>) -> Vec<String> {
    options.unrecognized.flags().iter().map(ToString::to_string).collect()
}

#[test]
fn a_call_without_flags_has_the_commands_and_identifiers() {
    with_requests("plain", |requests| {
        let [ping, offer, answer, delete] = requests else { panic!("{requests:?}") };
        assert_eq!((ping.cookie, ping.command), (&b"0_12345_2"[..], Command::Ping));
        let Command::Offer { call_id, from_tag, to_tag, sdp } = offer.command else {
            panic!("{offer:?}")
        };
        assert_eq!((call_id, from_tag), (&b"plain@example.com"[..], &b"ta"[..]));
        assert_eq!(to_tag, None);
        assert!(sdp.starts_with(b"v=0\r\n") && sdp.ends_with(b"telephone-event/8000\r\n"));
        let Command::Answer { call_id, from_tag, to_tag, .. } = answer.command else {
            panic!("{answer:?}")
        };
        assert_eq!(call_id, b"plain@example.com");
        assert_eq!((from_tag, to_tag), (&b"ta"[..], &b"tb"[..]));
        assert_eq!(
            delete.command,
            Command::Delete { call_id: b"plain@example.com", from_tag: Some(b"ta"), to_tag: None }
        );
        assert_eq!(offer.options.received_from, Some([192, 0, 2, 50].into()));
        assert_eq!(answer.options.received_from, Some([192, 0, 2, 40].into()));
        let plain = Options {
            received_from: offer.options.received_from,
            supports_load_limit: true,
            ..Options::default()
        };
        assert_eq!(offer.options, plain);
    });
}

#[test]
fn a_statistic_is_a_query() {
    with_requests("query", |requests| {
        assert_eq!(
            requests[0].command,
            Command::Query {
                call_id: b"alive@example.com",
                from_tag: Some(b"ta"),
                to_tag: Some(b"tb"),
            }
        );
    });
}

#[test]
fn usual_flags_are_understood() {
    each_options("usual", |options| {
        let replace = Replace { origin: true, session_connection: true, ..Replace::default() };
        assert_eq!(options.replace, replace);
        assert_eq!(options.address_source, AddressSource::Description);
        assert_eq!(options.unrecognized.count(), 0);
    });
    each_options("nat", |options| {
        assert_eq!(options.transport, Transport::parse(b"RTP/AVP"));
        assert_eq!(options.address_source, AddressSource::Signalling);
        assert_eq!(options.ice, Ice::Remove);
        assert!(options.symmetric && options.strict_source && !options.asymmetric);
        assert!(options.via_branch.is_some_and(|branch| branch.starts_with("z9hG4bK")));
        assert_eq!(options.unrecognized.count(), 0);
    });
}

#[test]
fn flags_of_browsers_and_srtp_are_understood() {
    each_options("webrtc-out", |options| {
        assert_eq!(options.transport, Transport::parse(b"UDP/TLS/RTP/SAVPF"));
        assert_eq!((options.ice, options.dtls), (Ice::Force, Dtls::Passive));
        let mux = RtcpMux { offer: true, require: true, ..RtcpMux::default() };
        assert_eq!(options.rtcp_mux, mux);
        assert!(options.sdes.off && options.generate_mid);
        assert_eq!(options.unrecognized.count(), 0);
    });
    each_options("webrtc-in", |options| {
        assert_eq!(options.transport, Transport::parse(b"RTP/AVP"));
        assert_eq!((options.ice, options.dtls), (Ice::Remove, Dtls::Off));
        assert_eq!(options.rtcp_mux, RtcpMux { demux: true, ..RtcpMux::default() });
        assert_eq!(options.osrtp, Osrtp { accept: true, offer: false });
        assert!(options.sdes.off);
        assert_eq!(options.unrecognized.count(), 0);
    });
    each_options("srtp", |options| {
        assert_eq!(options.transport, Transport::parse(b"RTP/SAVP"));
        assert!(options.osrtp.offer && options.sdes.pad && !options.sdes.off);
        assert_eq!(options.sdes.without.as_slice(), ["AES_CM_128_HMAC_SHA1_32"]);
        assert_eq!(options.sdes.only.as_slice(), ["AES_CM_128_HMAC_SHA1_80"]);
        assert_eq!(options.unrecognized.count(), 0);
    });
}

#[test]
fn codecs_are_listed() {
    each_options("codecs", |options| {
        let codecs = &options.codecs;
        assert_eq!(codecs.strip.as_slice(), ["PCMA", "G729"]);
        assert_eq!(codecs.offer.as_slice(), ["PCMU"]);
        assert_eq!(codecs.mask.as_slice(), ["opus"]);
        assert_eq!(codecs.transcode.as_slice(), ["PCMA", "G722", "iLBC"]);
        assert_eq!(codecs.except.as_slice(), ["GSM"]);
        assert_eq!(codecs.accept.as_slice(), ["GSM"]);
        assert_eq!(codecs.set.as_slice(), ["opus/48000/2/32000"]);
        assert_eq!(unrecognized(options), ["repacketize"]);
    });
}

#[test]
fn sides_and_addresses_are_read() {
    each_options("sides", |options| {
        assert_eq!(options.direction, [Some("public"), Some("private")]);
        assert_eq!(options.address_family, Some(Family::V6));
        assert_eq!(options.media_address, Some([203, 0, 113, 7].into()));
        assert_eq!((options.label, options.ptime), (Some("callee"), Some(30)));
        assert_eq!(options.tos, Tos::Value(184));
        assert!(options.loop_protect && options.asymmetric);
        assert_eq!(options.port_latching, Some(true));
        assert_eq!(options.unrecognized.count(), 0);
    });
    with_requests("internal", |requests| {
        let [offer, _, delete] = requests else { panic!("{requests:?}") };
        assert_eq!(offer.options.direction, [Some("internal"), Some("external")]);
        assert_eq!(
            delete.command,
            Command::Delete {
                call_id: b"another@example.com",
                from_tag: Some(b"other"),
                to_tag: Some(b"tb"),
            }
        );
    });
}

#[test]
fn other_flags_are_listed() {
    each_options("others", |options| {
        assert_eq!(options.transport, Transport::parse(b"RTP/SAVPF"));
        // This version of Kamailio appends the address of the SIP message to that of the flag.
        let expected = [[192, 0, 2, 50], [192, 0, 2, 40]].map(|address| Some(address.into()));
        assert!(expected.contains(&options.received_from));
        assert_eq!(options.delete_delay, Some(5));
        assert_eq!(options.codecs.consume.as_slice(), ["PCMU"]);
        assert_eq!(unrecognized(options), ["metadata=key:val", "record-call", "xyzzy", "T.38"]);
    });
}

/// Kamailio 6 leaves the parsing of flags to the relay.
#[test]
fn a_string_of_flags_has_the_meaning_of_parsed_flags() {
    for &(call, flags) in FLAGS {
        let keys = "d7:call-id1:a7:command5:offer8:from-tag1:f3:sdp1:v";
        let raw = format!("1_1 {keys}10:rtpp-flags{}:{flags}e", flags.len());
        let raw = Request::parse(raw.as_bytes()).unwrap_or_else(|error| panic!("{call}: {error}"));
        with_requests(call, |requests| {
            let mut is_offer =
                requests.iter().filter(|request| matches!(request.command, Command::Offer { .. }));
            let offer = is_offer.next().expect("each call has an offer");
            let (raw, mut parsed) = (raw.options, offer.options.clone());
            // Kamailio sends these itself. Its order of the keys differs.
            parsed.supports_load_limit = false;
            parsed.via_branch = None;
            parsed.received_from = raw.received_from;
            let sorted = |options: &Options<'_>| {
                let mut keys: Vec<_> = options
                    .unrecognized
                    .flags()
                    .iter()
                    .map(|flag| String::from_utf8_lossy(flag.key).replace("-decode", ""))
                    .collect();
                keys.sort();
                keys
            };
            assert_eq!(sorted(&raw), sorted(&parsed), "{call}");
            parsed.unrecognized = raw.unrecognized.clone();
            assert_eq!(raw, parsed, "{call}");
        });
    }
}
