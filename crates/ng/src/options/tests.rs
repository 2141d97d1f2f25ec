use super::{AddressSource, Dtls, Ice, Names, Options, RtcpAttribute, Tos, Transport};
use crate::argument::{Argument, MAX_TEXT};
use crate::bencode::{Value, write_list, write_string};
use crate::unrecognized::Unrecognized;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

/// The options of a string of flags.
fn flags(text: &str) -> Options<'_> {
    let mut options = Options::default();
    options.set_flags(text.as_bytes(), |_| false);
    options
}

fn unrecognized(options: &Options<'_>) -> Vec<String> {
    options.unrecognized.flags().iter().map(ToString::to_string).collect()
}

#[test]
fn words_of_the_transport_are_combined() {
    for (text, transport) in [
        ("RTP AVP", "RTP/AVP"),
        ("RTP AVPF", "RTP/AVPF"),
        ("SRTP AVP", "RTP/SAVP"),
        ("AVPF SRTP", "RTP/SAVPF"),
        ("DTLS AVPF", "UDP/TLS/RTP/SAVPF"),
        ("RTP/SAVPF RTP", "RTP/AVPF"),
        ("RTP/SAVPF RTP/AVP", "RTP/AVP"),
        ("transport-protocol=RTP/SAVP", "RTP/SAVP"),
        ("UDP/TLS/RTP/SAVP", "UDP/TLS/RTP/SAVP"),
    ] {
        let options = flags(text);
        assert_eq!(options.transport.map(Transport::as_str), Some(transport), "{text}");
        assert_eq!(options.unrecognized.count(), 0, "{text}");
    }
    assert!(flags("transport-protocol=accept").accept_transport);
    assert_eq!(unrecognized(&flags("UDP/TLS/RTP/AVP")), ["UDP/TLS/RTP/AVP"]);
    assert_eq!(flags("strict-source").transport, None);
}

#[test]
fn lists_in_brackets_are_read() {
    let options = flags(
        "codec=[transcode=[PCMA PCMU] accept=[AMR-WB AMR] strip=[EVS]] OSRTP=[accept] \
         replace=[origin session-connection] direction=[ext int] SDES=[pad no-X;Y] \
         received-from=[IP6 2001:db8::1]",
    );
    assert_eq!(options.codecs.transcode.as_slice(), ["PCMA", "PCMU"]);
    assert_eq!(options.codecs.accept.as_slice(), ["AMR-WB", "AMR"]);
    assert_eq!(options.codecs.strip.as_slice(), ["EVS"]);
    assert!(options.osrtp.accept && options.sdes.pad);
    assert_eq!(options.sdes.without.as_slice(), ["X", "Y"]);
    assert!(options.replace.origin && options.replace.session_connection);
    assert_eq!(options.direction, [Some("ext"), Some("int")]);
    assert_eq!(options.received_from, "2001:db8::1".parse().ok());
    assert_eq!(options.unrecognized.count(), 0);
}

#[test]
fn names_are_equal_in_every_spelling() {
    for text in ["SIP-source-address", "sip_source_address", "Sip-Source-Address"] {
        assert_eq!(flags(text).address_source, AddressSource::Signalling, "{text}");
    }
    let mut options = Options::default();
    options.set_flag(b"SIP source address");
    options.set_flag(b"no rtcp attribute");
    options.set(b"address family", Argument::Value(Value::String(b"IP4")));
    options.set(b"TOS", Argument::Value(Value::String(b"-1")));
    assert_eq!(options.address_source, AddressSource::Signalling);
    assert_eq!(options.rtcp_attribute, RtcpAttribute::Omitted);
    assert_eq!((options.tos, options.unrecognized.count()), (Tos::Unchanged, 0));
}

#[test]
fn values_that_are_not_understood_are_listed() {
    let options = flags(
        "ICE=maybe DTLS=maybe TOS=high media-address=example.com address-family=IP5 \
         rtcp-mux-maybe replace-everything direction=a direction=b direction=c OSRTP-offer-legacy \
         codec-strip= codec-shuffle-PCMU delete-delay=-1",
    );
    let expected = [
        "ICE=maybe",
        "DTLS=maybe",
        "TOS=high",
        "media-address=example.com",
        "address-family=IP5",
        "rtcp-mux=maybe",
        "replace=everything",
        "direction=c",
        "osrtp=offer-legacy",
        "codec-strip=",
        "codec-shuffle-PCMU",
        "delete-delay=-1",
    ];
    assert_eq!(unrecognized(&options), expected);
    let other = Options { direction: [Some("a"), Some("b")], ..Options::default() };
    assert_eq!(Options { unrecognized: Unrecognized::default(), ..options }, other);
}

#[test]
fn the_last_of_contradicting_flags_counts() {
    let options = flags("ICE=force ICE=remove DTLS=off DTLS=active trust-address");
    assert_eq!((options.ice, options.dtls), (Ice::Remove, Dtls::Active));
    assert_eq!(options.address_source, AddressSource::Description);
}

#[test]
fn the_branch_of_a_script_does_not_replace_that_of_the_proxy() {
    let options = flags("via-branch=auto-next replace-origin");
    assert_eq!((options.via_branch, options.unrecognized.count()), (None, 0));
}

#[test]
fn lists_are_bounded() {
    let text: String = (0..100).map(|number| format!("codec-strip-{number} ")).collect();
    let options = flags(&text);
    assert_eq!(options.codecs.strip.as_slice().len(), Names::MAX);
    assert_eq!(options.unrecognized.count(), 100 - Names::MAX);
    assert_eq!(options.unrecognized.flags().len(), Unrecognized::MAX);
}

#[test]
fn brackets_without_an_end_and_within_each_other_do_no_harm() {
    assert_eq!(flags("codec-strip=[PCMU PCMA").codecs.strip.as_slice(), ["PCMU", "PCMA"]);
    assert!(flags("]]] strict-source").strict_source);
    let deep = "codec=[strip=[".repeat(4000);
    let options = flags(&deep);
    assert!(options.codecs.strip.is_empty() && options.unrecognized.count() == 1);
    let label = "x".repeat(MAX_TEXT + 1);
    assert_eq!(flags(&format!("label={label}")).label, None);
    assert!(flags(&"flags=[".repeat(9000)).unrecognized.count() > 0);
}

/// Flags, keys with values, and text between.
fn word() -> impl Strategy<Value = String> {
    let known = prop::sample::select(
        &[
            "replace-origin",
            "ICE=force",
            "codec=[strip=[PCMU",
            "]",
            "[",
            "transcode-",
            "SDES-order:",
            "direction=a",
            "RTP/AVP",
            "SRTP",
            "label=",
        ][..],
    );
    prop_oneof![known.prop_map(String::from), any::<String>(), Just(String::from(" "))]
}

proptest! {
    #[test]
    fn any_flags_are_read(words in prop::collection::vec(word(), 0..20)) {
        let text = words.join(" ");
        let options = flags(&text);
        assert!(options.unrecognized.flags().len() <= Unrecognized::MAX);
        let _ = unrecognized(&options);
        // The same flags as a list.
        let mut bytes = Vec::new();
        write_list(&mut bytes, |list| words.iter().for_each(|word| list.string(word)));
        let Ok(value) = Value::parse(&bytes) else { return Ok(()) };
        let mut options = Options::default();
        for key in ["codec", "sdes", "replace", "direction", "received-from", "tos"] {
            options.set(key.as_bytes(), Argument::Value(value));
        }
        let mut string = Vec::new();
        write_string(&mut string, &text);
        let value = Value::parse(&string).expect("a string");
        for key in ["codec", "sdes", "ICE", "label", "received-from", "tos"] {
            options.set(key.as_bytes(), Argument::Value(value));
        }
    }
}
