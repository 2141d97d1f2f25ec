//! The examples of RFC 4568, and attributes of other implementations.

use super::*;
use proptest::prelude::*;
use std::format;
use std::string::ToString;
use std::vec;

const KEY: &str = "WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";

#[test]
fn the_examples_of_rfc_4568_are_parsed() {
    // Section 6.1, with the keys of appendix A.
    let two = "1 AES_CM_128_HMAC_SHA1_80 \
        inline:MTIzNDU2Nzg5QUJDREUwMTIzNDU2Nzg5QUJjZGVm|2^20|1:4;\
        inline:QUJjZGVmMTIzNDU2Nzg5QUJDREUwMTIzNDU2Nzg5|2^20|2:4";
    let crypto = CryptoAttribute::parse(two).unwrap();
    assert_eq!((crypto.tag, crypto.policy.suite), (1, Suite::AesCm128HmacSha1_80));
    assert_eq!(crypto.keys.len(), 2);
    assert_eq!(crypto.keys[0].lifetime, Some(1 << 20));
    assert_eq!(crypto.keys[1].mki, [0, 0, 0, 2]);
    assert_eq!(**crypto.keys[0].bytes, *b"123456789ABCDE0123456789ABcdef");
    assert_eq!(crypto.to_string(), two.replace("        ", ""));

    let parameters = format!("2 F8_128_HMAC_SHA1_80 inline:{KEY} KDR=3 UNENCRYPTED_SRTCP WSH=512");
    let crypto = CryptoAttribute::parse(&parameters).unwrap();
    assert_eq!(crypto.policy.key_derivation_rate, Some(3));
    assert!(!crypto.policy.encrypt_rtcp && crypto.policy.encrypt_rtp);
    assert_eq!(crypto.policy.replay_window, 512);
    assert_eq!(crypto.to_string(), parameters);
}

#[test]
fn invalid_attributes_are_rejected() {
    let suite = "AES_CM_128_HMAC_SHA1_80";
    for (value, error) in [
        ("".into(), CryptoError::Syntax),
        (format!("1 {suite}"), CryptoError::Syntax),
        (format!("01 {suite} inline:{KEY}"), CryptoError::Tag("01".into())),
        (format!("1234567890 {suite} inline:{KEY}"), CryptoError::Tag("1234567890".into())),
        (format!("+1 {suite} inline:{KEY}"), CryptoError::Tag("+1".into())),
        (format!("1 AES inline:{KEY}"), CryptoError::Suite("AES".into())),
        (format!("1 {suite} {KEY}"), CryptoError::Key),
        (format!("1 {suite} inline:@@@"), CryptoError::Key),
        (format!("1 {suite} inline:{KEY}|2^64"), CryptoError::Key),
        (format!("1 {suite} inline:{KEY}|0"), CryptoError::Key),
        (format!("1 {suite} inline:{KEY}|2^20|1:0"), CryptoError::Key),
        (format!("1 {suite} inline:{KEY}|2^20|256:1"), CryptoError::Key),
        (format!("1 {suite} inline:{KEY}|2^20|1:4|x"), CryptoError::Key),
        (format!("1 {suite} inline:{KEY}|1:3729934247635626"), CryptoError::Key),
        (format!("1 {suite} inline:{KEY}|x:4"), CryptoError::Key),
        (format!("1 {suite} {}", vec![format!("inline:{KEY}"); 17].join(";")), CryptoError::Key),
        (format!("1 {suite} inline:{KEY} KDR=25"), CryptoError::Parameter("KDR=25".into())),
        (
            format!("1 {suite} inline:{KEY} FEC_ORDER=FEC_SRTP"),
            CryptoError::Parameter("FEC_ORDER=FEC_SRTP".into()),
        ),
        (format!("1 {suite} inline:{KEY};inline:{KEY}"), CryptoError::Policy(PolicyError::Mki)),
    ] {
        assert_eq!(CryptoAttribute::parse(&value).unwrap_err(), error, "{value}");
    }
    let short = CryptoAttribute::parse(&format!("1 {suite} inline:AAAA")).unwrap_err();
    let suite = Suite::AesCm128HmacSha1_80;
    assert_eq!(short, CryptoError::Policy(PolicyError::KeyLength { suite, length: 3 }));
    let gcm = format!("1 AEAD_AES_128_GCM inline:{} UNENCRYPTED_SRTP", BASE64.encode([1; 28]));
    let refused = CryptoError::Policy(PolicyError::Aead(Suite::AeadAes128Gcm));
    assert_eq!(CryptoAttribute::parse(&gcm).unwrap_err(), refused);
}

#[test]
fn mkis_may_be_long() {
    // 2^1023, and the largest MKI.
    let mut mki = vec![0; 128];
    mki[0] = 0x80;
    for mki in [mki, vec![0xff; 128], vec![0; 5], vec![0, 0, 9]] {
        let value = mki_to_decimal(&mki);
        assert_eq!(mki_from_decimal(&value, mki.len()), Some(mki), "{value}");
    }
    assert_eq!(mki_to_decimal(&[0xff; 128]).len(), MAX_MKI_DIGITS);
    assert_eq!(mki_from_decimal(&"9".repeat(MAX_MKI_DIGITS), 128), None);
}

#[test]
fn names_are_case_insensitive_and_keys_may_have_spaces() {
    let (key, other) = (KEY, "QUJjZGVmMTIzNDU2Nzg5QUJDREUwMTIzNDU2Nzg5");
    let plain = format!("1 AES_CM_128_HMAC_SHA1_80 inline:{key}|2^20|1:4;inline:{other}|2^20|2:4");
    let weak = format!("1 AES_CM_128_HMAC_SHA1_80 inline:{key} KDR=3 UNENCRYPTED_SRTCP");
    for (value, same) in [
        (plain.replace("AES_CM_128_HMAC_SHA1", "aes_cm_128_hmac_sha1"), &plain),
        (plain.replace("AES_CM_128_HMAC_SHA1", "AES_cm_128_HMAC_sha1"), &plain),
        (plain.replace("inline", "INLINE"), &plain),
        (plain.replace(';', "; "), &plain),
        (plain.replace(';', " ;\t"), &plain),
        (plain.replace(' ', "  "), &plain),
        (format!("{plain};"), &plain),
        (plain.replace(":4", ":4|"), &plain),
        (weak.replace("KDR", "kdr").replace("UNENCRYPTED_SRTCP", "unencrypted_srtcp"), &weak),
    ] {
        assert_eq!(CryptoAttribute::parse(&value).unwrap().to_string(), *same, "{value}");
    }
}

#[test]
fn optional_parameters_are_ignored() {
    let value =
        format!("1 AES_CM_128_HMAC_SHA1_80 inline:{KEY} -else=1 -SRTP-PLUS=9/end -SRTP-PLUS");
    let crypto = CryptoAttribute::parse(&value).unwrap();
    assert_eq!(crypto.policy, Policy::new(Suite::AesCm128HmacSha1_80));
}

#[test]
fn srtp_plus_is_parsed_and_written() {
    for (text, scheme, placement) in [
        ("1:160/end", Scheme::SEQUENCE, Placement::Trailer),
        ("2/ext:1", Scheme::Hash, Placement::Extension(1)),
        ("3:32x4/end", Scheme::CHAIN, Placement::Trailer),
        ("4/ext:14", Scheme::Header, Placement::Extension(14)),
    ] {
        let value = format!("1 AES_CM_128_HMAC_SHA1_80 inline:{KEY} -SRTP-PLUS={text}");
        let crypto = CryptoAttribute::parse(&value).unwrap();
        assert_eq!(crypto.policy.plus, Some(SrtpPlus { scheme, placement }), "{text}");
        assert_eq!(crypto.to_string(), value);
    }
    for text in [
        "1:161/end",
        "3:32x5/end",
        "4/ext:15",
        "4/ext:0",
        "4",
        "/end",
        "4/ext:05",
        "4/ext:+5",
        "2:1/end",
        "3:999x4/end",
    ] {
        assert_eq!(parse_plus(text), None, "{text}");
    }
}

#[test]
fn the_fuzzing_seeds_of_pjsip_are_accepted_as_expected() {
    let Some(root) = test_support::corpora() else { return };
    for (name, expected) in [
        ("aes256-32", 0),
        ("duplicate-tags", 0),
        ("invalid-base64", 0),
        ("leading-zero-tag", 0),
        ("missing-components", 0),
        ("missing-method", 0),
        ("session-params", 0),
        ("short-key", 0),
        ("unsupported-suite", 0),
    ] {
        // The key lengths differ from those of the suites by a byte or two.
        let path = root.join(format!("srtp/pjsip-sdes-seed/seed-crypto-{name}.sdp"));
        let text = std::fs::read_to_string(path).unwrap();
        let attributes = text.lines().filter_map(|line| line.strip_prefix("a=crypto:"));
        let taken = attributes.filter(|value| CryptoAttribute::parse(value).is_ok()).count();
        assert_eq!(taken, expected, "{name}");
    }
}

#[test]
fn debug_output_hides_keys() {
    let crypto =
        CryptoAttribute::parse(&format!("1 AES_CM_128_HMAC_SHA1_80 inline:{KEY}")).unwrap();
    let shown = format!("{crypto:?}");
    assert!(!shown.contains("89") && shown.contains("AesCm128HmacSha1_80"), "{shown}");
}

proptest! {
    #[test]
    fn written_attributes_are_parsed(
        tag in 0u32..1_000_000_000,
        suite in proptest::sample::select(&Suite::ALL[..]),
        key: [u8; 46],
        lifetime in proptest::option::of(1u64..1 << 48),
        mki in proptest::option::of((any::<u32>(), 4usize..=20)),
        rate in proptest::option::of(0u32..=24),
        window in 64u64..1000,
        rtcp: bool,
    ) {
        let mut policy = Policy::new(suite);
        policy.key_derivation_rate = rate;
        policy.replay_window = window;
        policy.encrypt_rtcp = rtcp;
        let length = suite.key_length() + suite.salt_length();
        let mut crypto = CryptoAttribute::new(tag, policy, &key[..length]).unwrap();
        crypto.keys[0].lifetime = lifetime;
        crypto.keys[0].mki = mki.map_or(vec![], |(value, length)| mki_from_decimal(&value.to_string(), length).unwrap());
        let read = CryptoAttribute::parse(&crypto.to_string()).unwrap();
        prop_assert_eq!((read.tag, &read.policy), (tag, &crypto.policy));
        prop_assert_eq!(&read.keys[0].bytes, &crypto.keys[0].bytes);
        prop_assert_eq!((&read.keys[0].mki, read.keys[0].lifetime), (&crypto.keys[0].mki, lifetime));
    }

    #[test]
    fn arbitrary_values_do_not_panic(value in "[0-9]{0,10} ?(AES_CM_128_HMAC_SHA1_80)? ?(inline:)?[ -~]{0,60}") {
        let _ = CryptoAttribute::parse(&value);
    }
}
