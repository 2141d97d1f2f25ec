//! Offer and answer of SRTP keys (RFC 4568 section 7).

use crate::crypto::CryptoAttribute;
use crate::media::MediaDescription;
pub use crate::negotiation_error::NegotiationError;
use alloc::vec::Vec;
use srtp::plus::{Placement, Scheme, SrtpPlus};
use srtp::{Policy, Suite};

/// The kind of encryption that the transport protocol of a medium declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// `RTP/AVP` or `RTP/AVPF`: no encryption, although crypto attributes may offer it ("best
    /// effort").
    Plain,
    /// `RTP/SAVP` or `RTP/SAVPF`: SRTP with keys in the description.
    Secure,
    /// `UDP/TLS/RTP/SAVP` or `UDP/TLS/RTP/SAVPF`: SRTP with keys by DTLS.
    Dtls,
}

impl Profile {
    /// Returns the profile of a transport protocol (case-insensitive), if it is an RTP profile.
    #[must_use]
    pub fn of(protocol: &str) -> Option<Self> {
        [
            ("RTP/AVP", Self::Plain),
            ("RTP/AVPF", Self::Plain),
            ("RTP/SAVP", Self::Secure),
            ("RTP/SAVPF", Self::Secure),
            ("UDP/TLS/RTP/SAVP", Self::Dtls),
            ("UDP/TLS/RTP/SAVPF", Self::Dtls),
        ]
        .into_iter()
        .find_map(|(name, profile)| protocol.eq_ignore_ascii_case(name).then_some(profile))
    }
}

/// The maximum number of crypto attributes read per medium. Each is compared with all before it and
/// with every `a=extmap`.
const MAX_OFFERED: usize = 32;

/// Returns the usable crypto attributes of a medium in order of preference, from the first 32.
/// Attributes that are malformed or repeat a tag are ignored. SRTP+ is ignored if its extension
/// element has another meaning in `a=extmap`.
#[must_use]
pub fn usable_crypto_attributes(media: &MediaDescription<'_>) -> Vec<CryptoAttribute> {
    let mut offered: Vec<CryptoAttribute> = Vec::new();
    let is_mapped = |plus: &SrtpPlus| match plus.placement {
        Placement::Trailer => false,
        Placement::Extension(id) => media.attributes("extmap").any(|value| {
            let number = value.split([' ', '\t', '/']).next();
            number.and_then(|number| number.parse().ok()) == Some(id)
        }),
    };
    for value in media.attributes("crypto").take(MAX_OFFERED) {
        if let Ok(mut crypto) = CryptoAttribute::parse(value)
            && offered.iter().all(|other| other.tag != crypto.tag)
        {
            crypto.policy.plus = crypto.policy.plus.filter(|plus| !is_mapped(plus));
            offered.push(crypto);
        }
    }
    offered
}

/// The SRTP policy of the local end. Start with [`SrtpPreferences::secure`] and change single
/// fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SrtpPreferences {
    /// The accepted suites.
    pub suites: Vec<Suite>,
    /// True if unencrypted or unauthenticated packets are accepted.
    pub allow_weak: bool,
    /// The SRTP+ schemes that are used if offered. Scheme 3 needs a random seed and adds bytes to
    /// each packet as negotiated.
    pub plus: Vec<Scheme>,
}

impl SrtpPreferences {
    /// All suites with full protection, and scheme 4 of SRTP+ if it is offered.
    #[must_use]
    pub fn secure() -> Self {
        Self { suites: Suite::ALL.to_vec(), allow_weak: false, plus: [Scheme::Header].into() }
    }

    fn takes(&self, policy: &Policy) -> bool {
        let is_whole = policy.encrypt_rtp && policy.encrypt_rtcp && policy.authenticate_rtp;
        self.suites.contains(&policy.suite) && (is_whole || self.allow_weak)
    }
}

/// The result of a negotiation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NegotiatedSrtp {
    /// The protection of sent media.
    pub send: CryptoAttribute,
    /// The protection of received media.
    pub receive: CryptoAttribute,
}

/// Answers an offer with the first acceptable attribute (RFC 4568 section 7.1.2). `key` fills its
/// argument, which has the length of the key, with random bytes.
///
/// The answer has the tag of the offer, its suite under the same name, its unencrypted or
/// unauthenticated parts, and SRTP+ if both ends support it. The key derivation rate and the replay
/// window are chosen by each end.
///
/// # Errors
/// [`NegotiationError`] if no attribute is acceptable, or if the random bytes equal a key of the
/// offer.
pub fn answer(
    offered: &[CryptoAttribute],
    preferences: &SrtpPreferences,
    key: impl FnOnce(&mut [u8]),
) -> Result<NegotiatedSrtp, NegotiationError> {
    let acceptable = offered.iter().find(|crypto| preferences.takes(&crypto.policy));
    let mut receive = acceptable.ok_or(NegotiationError::NotAcceptable)?.clone();
    let suite = receive.policy.suite;
    receive.policy.plus =
        receive.policy.plus.filter(|plus| preferences.plus.contains(&plus.scheme));
    let mut policy = Policy::new(suite);
    policy.encrypt_rtp = receive.policy.encrypt_rtp;
    policy.encrypt_rtcp = receive.policy.encrypt_rtcp;
    policy.authenticate_rtp = receive.policy.authenticate_rtp;
    policy.plus = receive.policy.plus;
    let mut bytes = zeroize::Zeroizing::new([0; 64]);
    let bytes = &mut bytes[..suite.key_length() + suite.salt_length()];
    key(bytes);
    let mut send = CryptoAttribute::new(receive.tag, policy, bytes)?;
    send.has_old_name = receive.has_old_name;
    if share_a_key(&send, &receive) {
        return Err(NegotiationError::SharedKey);
    }
    Ok(NegotiatedSrtp { send, receive })
}

/// Returns true if both ends would use the same key. A packet of one end could then be replayed to
/// it as if from the other, and equal SSRCs would share a key stream.
fn share_a_key(send: &CryptoAttribute, receive: &CryptoAttribute) -> bool {
    send.keys.iter().any(|ours| receive.keys.iter().any(|theirs| theirs.bytes == ours.bytes))
}

/// Accepts the answer to the offer `ours` (RFC 4568 section 7.1.3): a single attribute with the tag
/// and suite of an offered one, a different key, and the same unencrypted or unauthenticated parts.
///
/// # Errors
/// [`NegotiationError`]: the medium is then ended, or continues unencrypted if that was offered
/// too.
pub fn accept(
    ours: &[CryptoAttribute],
    answered: &[CryptoAttribute],
) -> Result<NegotiatedSrtp, NegotiationError> {
    let [receive] = answered else { return Err(NegotiationError::NotSingle) };
    let weakness = |policy: &Policy| {
        (policy.suite, policy.encrypt_rtp, policy.encrypt_rtcp, policy.authenticate_rtp)
    };
    let ours = ours.iter().find(|crypto| crypto.tag == receive.tag);
    let ours = ours.ok_or(NegotiationError::Tag(receive.tag))?;
    if weakness(&ours.policy) != weakness(&receive.policy) {
        return Err(NegotiationError::Mismatch);
    }
    if share_a_key(ours, receive) {
        return Err(NegotiationError::SharedKey);
    }
    let (mut send, mut receive) = (ours.clone(), receive.clone());
    let plus: Option<SrtpPlus> = send.policy.plus.filter(|plus| receive.policy.plus == Some(*plus));
    (send.policy.plus, receive.policy.plus) = (plus, plus);
    Ok(NegotiatedSrtp { send, receive })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::SessionDescription;
    use srtp::{Receiver, Sender};
    use std::format;
    use std::string::{String, ToString};

    const PLUS: SrtpPlus = SrtpPlus { scheme: Scheme::Header, placement: Placement::Extension(5) };

    fn crypto(tag: u32, policy: Policy) -> CryptoAttribute {
        let length = policy.suite.key_length() + policy.suite.salt_length();
        CryptoAttribute::new(tag, policy, &[tag as u8; 64][..length]).unwrap()
    }

    /// The attributes as the other end parses them.
    fn described(protocol: &str, attributes: &[CryptoAttribute]) -> Vec<CryptoAttribute> {
        let mut text = format!("v=0\r\nm=audio 4000 {protocol} 0\r\n");
        for crypto in attributes {
            text += &format!("a=crypto:{crypto}\r\n");
        }
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        usable_crypto_attributes(&session.media[0])
    }

    fn talk(from: &NegotiatedSrtp, to: &NegotiatedSrtp) {
        let mut sender = Sender::new(&from.send.policy, from.send.master_keys().unwrap()).unwrap();
        let mut receiver =
            Receiver::new(&to.receive.policy, to.receive.master_keys().unwrap()).unwrap();
        let mut packet = [0; 100];
        packet[0] = 0x80;
        let length = sender.protect(&mut packet, 20).unwrap();
        receiver.unprotect(&mut packet[..length]).unwrap();
    }

    #[test]
    fn both_ends_exchange_media() {
        let mut weak = Policy::new(Suite::AesCm128HmacSha1_80);
        weak.encrypt_rtp = false;
        for suite in Suite::ALL {
            for plus in [None, Some(PLUS)] {
                for knows_plus in [false, true] {
                    let mut policy = Policy::new(suite);
                    policy.plus = plus;
                    let ours = [crypto(1, weak.clone()), crypto(7, policy)];
                    let preferences = SrtpPreferences {
                        suites: [suite].into(),
                        plus: if knows_plus { [Scheme::Header].into() } else { Vec::new() },
                        ..SrtpPreferences::secure()
                    };
                    let read = described("RTP/SAVP", &ours);
                    let theirs = answer(&read, &preferences, |key| key.fill(9)).unwrap();
                    let answered = described("RTP/SAVP", core::slice::from_ref(&theirs.send));
                    let ours = accept(&ours, &answered).unwrap();
                    assert_eq!(ours.send.policy.suite, suite);
                    assert_eq!(ours.send.policy.plus.is_some(), plus.is_some() && knows_plus);
                    assert_eq!(theirs.send.policy.plus, ours.send.policy.plus);
                    talk(&ours, &theirs);
                    talk(&theirs, &ours);
                }
            }
        }
    }

    #[test]
    fn the_first_acceptable_attribute_is_chosen() {
        let mut plain = Policy::new(Suite::AesCm128HmacSha1_80);
        plain.encrypt_rtp = false;
        let ours = [
            crypto(3, plain),
            crypto(1, Policy::new(Suite::AeadAes256Gcm)),
            crypto(2, Policy::new(Suite::AesCm128HmacSha1_80)),
        ];
        let read = described("RTP/AVP", &ours);
        let taken = |preferences: &SrtpPreferences| {
            answer(&read, preferences, |_| {}).ok().map(|agreement| agreement.send.tag)
        };
        assert_eq!(taken(&SrtpPreferences::secure()), Some(1));
        assert_eq!(
            taken(&SrtpPreferences { allow_weak: true, ..SrtpPreferences::secure() }),
            Some(3)
        );
        let suites = [Suite::AesCm128HmacSha1_80].into();
        assert_eq!(taken(&SrtpPreferences { suites, ..SrtpPreferences::secure() }), Some(2));
        let suites = [Suite::F8128HmacSha1_80].into();
        assert_eq!(taken(&SrtpPreferences { suites, ..SrtpPreferences::secure() }), None);
    }

    #[test]
    fn an_answer_repeats_the_suite_name_of_the_offer() {
        for name in ["AES_CM_256_HMAC_SHA1_80", "AES_256_CM_HMAC_SHA1_80"] {
            let policy = Policy::new(Suite::AesCm256HmacSha1_80);
            let offer = crypto(1, policy).to_string().replace("AES_256_CM_HMAC_SHA1_80", name);
            let read = [CryptoAttribute::parse(&offer).unwrap()];
            let agreed = answer(&read, &SrtpPreferences::secure(), |key| key.fill(9)).unwrap();
            assert!(agreed.send.to_string().starts_with(&format!("1 {name} inline:")), "{name}");
        }
    }

    #[test]
    fn answers_that_do_not_match_are_rejected() {
        let ours = [crypto(1, Policy::new(Suite::AesCm128HmacSha1_80))];
        let other_tag = crypto(2, Policy::new(Suite::AesCm128HmacSha1_80));
        let other_suite = crypto(1, Policy::new(Suite::AesCm128HmacSha1_32));
        let mut weak = Policy::new(Suite::AesCm128HmacSha1_80);
        weak.encrypt_rtp = false;
        let weaker = crypto(1, weak);
        for (answered, error) in [
            (&[][..], NegotiationError::NotSingle),
            (&[other_tag], NegotiationError::Tag(2)),
            (&[other_suite], NegotiationError::Mismatch),
            (&[weaker], NegotiationError::Mismatch),
            (&[ours[0].clone(), ours[0].clone()], NegotiationError::NotSingle),
        ] {
            assert_eq!(accept(&ours, answered).err(), Some(error));
        }
        // An answer that reflects the offered key.
        assert_eq!(accept(&ours, &ours).err(), Some(NegotiationError::SharedKey));
        let policy = Policy::new(Suite::AesCm128HmacSha1_80);
        let theirs = CryptoAttribute::new(1, policy, &[9; 30]).unwrap();
        accept(&ours, core::slice::from_ref(&theirs)).unwrap();
        let same = answer(&ours, &SrtpPreferences::secure(), |key| key.fill(1));
        assert_eq!(same.err(), Some(NegotiationError::SharedKey));
        answer(&ours, &SrtpPreferences::secure(), |key| key.fill(2)).unwrap();
    }

    #[test]
    fn the_number_of_attributes_is_limited() {
        let policy = Policy::new(Suite::AesCm128HmacSha1_80);
        let attributes: Vec<CryptoAttribute> =
            (0..100).map(|tag| crypto(tag, policy.clone())).collect();
        let read = described("RTP/SAVP", &attributes);
        let tags =
            |all: &[CryptoAttribute]| all.iter().map(|crypto| crypto.tag).collect::<Vec<_>>();
        assert_eq!(tags(&read), tags(&attributes[..MAX_OFFERED]));
    }

    #[test]
    fn an_element_with_another_meaning_is_not_used() {
        let mut policy = Policy::new(Suite::AesCm128HmacSha1_80);
        policy.plus = Some(PLUS);
        let crypto = crypto(1, policy);
        for (map, is_taken) in [
            ("5 urn:a", false),
            ("  5\turn:a", false),
            ("5/sendonly urn:a", false),
            ("6 urn:a", true),
        ] {
            let text = format!(
                "v=0\r\nm=audio 4000 RTP/SAVP 0\r\na=extmap:{map}\r\na=crypto:{crypto}\r\n"
            );
            let session = SessionDescription::parse(text.as_bytes()).unwrap();
            let offered = usable_crypto_attributes(&session.media[0]);
            assert_eq!(offered[0].policy.plus.is_some(), is_taken, "{map}");
        }
    }

    #[test]
    fn offers_of_real_phones_are_accepted() {
        // As real phones write them: a plain profile with keys, a repeated tag, missing padding.
        let key = "WVNfX19zZW1jdGwgKCkgewkyMjA7fQp9CnVubGVz";
        let text = [
            "v=0\r\nm=audio 4000 RTP/AVP 0\r\n",
            "a=crypto:1 AES_CM_128_HMAC_SHA1_32 inline:AAAA\r\n",
            "a=crypto:1 UNKNOWN inline:AAAA\r\n",
            &format!("a=crypto:2 AES_CM_128_HMAC_SHA1_80 inline:{key}|2^48\r\n"),
            &format!("a=crypto:2 AES_CM_128_HMAC_SHA1_32 inline:{key}\r\n"),
            "a=crypto:3 AES_CM_256_HMAC_SHA1_80 inline:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLQ\r\n",
        ]
        .into_iter()
        .collect::<String>();
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        let media = &session.media[0];
        assert_eq!(Profile::of(media.protocol), Some(Profile::Plain));
        let offered = usable_crypto_attributes(media);
        assert_eq!(Profile::of("rtp/savp"), Some(Profile::Secure));
        let found: Vec<_> =
            offered.iter().map(|crypto| (crypto.tag, crypto.policy.suite)).collect();
        assert_eq!(found, [(2, Suite::AesCm128HmacSha1_80), (3, Suite::AesCm256HmacSha1_80)]);
        assert_eq!(offered[0].keys[0].lifetime, Some(1 << 48));
    }
}
