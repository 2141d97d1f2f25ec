//! The agreement on keys in offers and answers: SDES (RFC 4568), DTLS (RFC 5763) and ZRTP (RFC
//! 6189).

use super::{Negotiator, Random, Refusal, Security};
use crate::keying::{DtlsPeer, KeyAgreement, Keying, is_same};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use sdp::dtls::{DtlsParameters, Fingerprint, Setup, tls_id};
use sdp::negotiation::{self, Profile, SrtpPreferences};
use sdp::{CryptoAttribute, MediaDescription, SessionDescription};
use srtp::plus::Scheme;
use srtp::{Policy, Suite};

/// The suites of an offer, unless all are offered: the most common one and the strongest ones.
const USUAL_SUITES: [Suite; 3] =
    [Suite::AesCm128HmacSha1_80, Suite::AesCm256HmacSha1_80, Suite::AeadAes256Gcm];

/// The agreements of an offer.
pub(super) struct Offered {
    /// The transport protocol.
    pub(super) protocol: &'static str,
    /// True if it has keys.
    pub(super) has_sdes: bool,
    /// The fingerprint of the local certificate.
    pub(super) dtls: Option<Fingerprint>,
    /// The hash of the local Hello message.
    pub(super) zrtp: Option<String>,
}

impl Negotiator {
    /// Returns the transport protocol and the agreements of the next offer.
    ///
    /// An offer that may end in clear has all agreements in the profile without encryption (RFC
    /// 8643). An offer that requires encryption has those of the profile of the preferred one: a
    /// profile with DTLS has no keys in the description. ZRTP is in the profile without encryption
    /// (RFC 6189 section 8). A later offer keeps the agreement.
    pub(super) fn offered_agreements(&self) -> Offered {
        let agreements = match self.media_config.security {
            Security::Off => &[],
            _ => &self.media_config.key_agreements[..],
        };
        let has_sdes = agreements.contains(&KeyAgreement::Sdes);
        let dtls = agreements.iter().find_map(|agreement| match agreement {
            KeyAgreement::Dtls(fingerprint) => Some(fingerprint.clone()),
            KeyAgreement::Sdes | KeyAgreement::Zrtp(_) => None,
        });
        let zrtp = self.own_zrtp();
        let is_open = !self.agreed.is_encrypted();
        if !self.requires_security() {
            return Offered { protocol: "RTP/AVP", has_sdes, dtls, zrtp };
        }
        let preferred = match (&self.agreed, agreements.first()) {
            (Keying::Dtls(_), _) | (Keying::None, Some(KeyAgreement::Dtls(_))) => {
                return Offered { protocol: "UDP/TLS/RTP/SAVP", has_sdes: false, dtls, zrtp: None };
            }
            (Keying::Zrtp(_), _) => {
                return Offered { protocol: "RTP/AVP", has_sdes: false, dtls: None, zrtp };
            }
            (Keying::None, Some(KeyAgreement::Zrtp(_))) => "RTP/AVP",
            _ => "RTP/SAVP",
        };
        let (dtls, zrtp) = (dtls.filter(|_| is_open), zrtp.filter(|_| is_open));
        Offered { protocol: preferred, has_sdes, dtls, zrtp }
    }

    /// Returns the hash of the local Hello message, if ZRTP is among the agreements.
    pub(super) fn own_zrtp(&self) -> Option<String> {
        if self.media_config.security == Security::Off {
            return None;
        }
        self.media_config.key_agreements.iter().find_map(|agreement| match agreement {
            KeyAgreement::Zrtp(hash) => Some(hash.clone()),
            KeyAgreement::Sdes | KeyAgreement::Dtls(_) => None,
        })
    }

    /// Returns the keys of the next offer.
    pub(super) fn keys(&self, random: Random<'_>) -> Vec<CryptoAttribute> {
        let is_offered =
            |suite: &&Suite| self.media_config.offers_all_suites || USUAL_SUITES.contains(*suite);
        let suites = self.media_config.suites.iter().filter(is_offered);
        let used = self.agreed.sdes().map(|agreed| agreed.send.clone());
        let used_suite = used.as_ref().map(|crypto| crypto.policy.suite);
        let made = suites.filter(|suite| Some(**suite) != used_suite).filter_map(|&suite| {
            let mut bytes = alloc::vec![0; suite.key_length() + suite.salt_length()];
            random(&mut bytes);
            let mut policy = Policy::new(suite);
            policy.plus = self.media_config.plus;
            CryptoAttribute::new(0, policy, &bytes).ok()
        });
        let mut keys: Vec<CryptoAttribute> = used.into_iter().chain(made).collect();
        (1..).zip(&mut keys).for_each(|(tag, key)| key.tag = tag);
        keys
    }

    /// Returns the keying of the answer to an offer.
    pub(super) fn answer_keying(
        &self,
        session: &SessionDescription<'_>,
        media: &MediaDescription<'_>,
        random: Random<'_>,
    ) -> Result<Keying, Refusal> {
        let only_secured = || Refusal::OnlySecured { protocol: media.protocol.to_string() };
        let profile = Profile::of(media.protocol).ok_or_else(only_secured)?;
        let agreements = match self.media_config.security {
            Security::Off => &[],
            _ => &self.media_config.key_agreements[..],
        };
        let mut agreements = agreements.iter();
        let agreed = agreements.find_map(|agreement| match agreement {
            KeyAgreement::Sdes if profile == Profile::Dtls => None,
            KeyAgreement::Sdes => self.answer_sdes(media, random),
            KeyAgreement::Dtls(_) => self.answer_dtls(session, media),
            KeyAgreement::Zrtp(_) if profile == Profile::Dtls => None,
            KeyAgreement::Zrtp(_) => zrtp_of(session, media).map(Keying::Zrtp),
        });
        match agreed {
            Some(agreed) => Ok(agreed),
            None if self.requires_security() && profile != Profile::Dtls => {
                Err(Refusal::NotSecured)
            }
            None if profile == Profile::Plain => Ok(Keying::None),
            None => Err(only_secured()),
        }
    }

    fn answer_sdes(&self, media: &MediaDescription<'_>, random: Random<'_>) -> Option<Keying> {
        let mut preferences = SrtpPreferences::secure();
        preferences.suites.clone_from(&self.media_config.suites);
        preferences.plus = [Scheme::SEQUENCE, Scheme::Hash, Scheme::CHAIN, Scheme::Header].into();
        let offered = negotiation::usable_crypto_attributes(media);
        let mut agreed = negotiation::answer(&offered, &preferences, random).ok()?;
        // If the key of the other end stays, the local key stays.
        if let Keying::Sdes(before) = &self.agreed
            && is_same(&agreed.receive, &before.receive)
            && agreed.send.policy == before.send.policy
        {
            agreed.send.keys.clone_from(&before.send.keys);
        }
        Some(Keying::Sdes(agreed))
    }

    fn answer_dtls(
        &self,
        session: &SessionDescription<'_>,
        media: &MediaDescription<'_>,
    ) -> Option<Keying> {
        let parameters = DtlsParameters::of(media, session).ok()??;
        // By default the answerer is the server if it may choose: a client may have an RSA
        // certificate. RFC 5763 section 5 recommends the other role, which saves the time until the
        // answer arrives.
        let is_client = match parameters.setup {
            Setup::Passive => true,
            Setup::ActPass => self.media_config.answers_as_client,
            Setup::Active => false,
            Setup::HoldConn => return None,
        };
        Some(Keying::Dtls(self.with_role_of_before(DtlsPeer::new(&parameters, is_client))))
    }

    /// Returns `peer` with the role of the agreement before, if the association stays.
    fn with_role_of_before(&self, peer: DtlsPeer) -> DtlsPeer {
        match self.agreed.dtls().filter(|before| before.is_same(&peer)) {
            Some(before) => before.clone(),
            None => peer,
        }
    }

    /// Returns the fingerprint and the role in the answer, if its keying is by DTLS. A new
    /// association has a new identifier.
    pub(super) fn answered_dtls(
        &mut self,
        keying: &Keying,
        random: Random<'_>,
    ) -> Option<(Fingerprint, Setup)> {
        let peer = keying.dtls()?;
        let is_same = self.agreed.dtls().is_some_and(|before| before.is_same(peer));
        if peer.tls_id.is_none() {
            // An identifier answers an identifier only (RFC 8842 section 5.3).
            self.tls_id.clear();
        } else if !is_same || self.tls_id.is_empty() {
            self.tls_id = tls_id(random);
        }
        let mut agreements = self.media_config.key_agreements.iter();
        let fingerprint = agreements.find_map(|agreement| match agreement {
            KeyAgreement::Dtls(fingerprint) => Some(fingerprint.clone()),
            KeyAgreement::Sdes | KeyAgreement::Zrtp(_) => None,
        });
        let setup = if peer.is_client { Setup::Active } else { Setup::Passive };
        Some((fingerprint?, setup))
    }

    /// Returns the keying of the answer to the last local offer.
    pub(super) fn accept_keying(
        &self,
        session: &SessionDescription<'_>,
        media: &MediaDescription<'_>,
    ) -> Result<Keying, Refusal> {
        let Offered { dtls, zrtp, .. } = self.offered_agreements();
        let profile = Profile::of(media.protocol);
        let zrtp = zrtp.and_then(|_| zrtp_of(session, media)).map(Keying::Zrtp);
        let zrtp = zrtp.filter(|_| profile != Some(Profile::Dtls));
        let mut agreements = self.media_config.key_agreements.iter();
        let first = agreements.find(|it| !matches!(it, KeyAgreement::Dtls(_)));
        if let (Some(KeyAgreement::Zrtp(_)), Some(zrtp)) = (first, &zrtp) {
            return Ok(zrtp.clone());
        }
        let answered = negotiation::usable_crypto_attributes(media);
        if profile != Some(Profile::Dtls)
            && let Ok(agreed) = negotiation::accept(&self.offered, &answered)
        {
            return Ok(Keying::Sdes(agreed));
        }
        if dtls.is_some()
            && let Ok(Some(parameters)) = DtlsParameters::of(media, session)
            && parameters.setup != Setup::HoldConn
        {
            // An answer with `actpass` is not permitted. Its author waits for a client.
            let is_client = parameters.setup != Setup::Active;
            let peer = DtlsPeer::new(&parameters, is_client);
            return Ok(Keying::Dtls(self.with_role_of_before(peer)));
        }
        if let Some(zrtp) = zrtp {
            return Ok(zrtp);
        }
        if self.requires_security() {
            return Err(Refusal::NotSecured);
        }
        // Keys without an offer of keys are ignored, since some phones always send theirs. Invalid
        // keys after an offer of keys are an error, since the other end is going to encrypt.
        let names_keys = media.attributes("crypto").next().is_some();
        let has_wrong_keys = names_keys && !self.offered.is_empty();
        if profile != Some(Profile::Plain) || has_wrong_keys {
            return Err(Refusal::Keys);
        }
        Ok(Keying::None)
    }
}

/// Returns the hash of the other end's Hello message, of the medium or of the session.
fn zrtp_of(session: &SessionDescription<'_>, media: &MediaDescription<'_>) -> Option<String> {
    let hash = media.attributes("zrtp-hash").next();
    hash.or_else(|| session.attributes("zrtp-hash").next()).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::negotiation::tests::random;
    use crate::negotiation::{MediaConfig, Stream};
    use alloc::format;
    use core::net::SocketAddr;
    use sdp::dtls::HashFunction;
    use std::vec;

    fn dtls(end: u8) -> KeyAgreement {
        let bytes = vec![end; HashFunction::Sha256.length()];
        KeyAgreement::Dtls(Fingerprint { hash: HashFunction::Sha256, bytes })
    }

    fn end(number: u8, security: Security, agreements: &[KeyAgreement]) -> Negotiator {
        let key_agreements = agreements.to_vec();
        let media_config = MediaConfig { security, key_agreements, ..MediaConfig::default() };
        Negotiator::new(media_config, ([192, 0, 2, number], 4000).into(), number.into())
    }

    /// One end offers, the other one answers. Returns the offer as text and the streams of both.
    fn agree(
        caller: &mut Negotiator,
        callee: &mut Negotiator,
    ) -> Result<(String, Stream, Stream), Refusal> {
        let mut numbers = random();
        let offer = caller.offer(&mut numbers);
        let (answer, theirs) = callee.answer(&offer, &mut numbers)?;
        let ours = caller.accept(&answer)?;
        Ok((String::from_utf8_lossy(&offer).into_owned(), ours, theirs))
    }

    #[test]
    fn the_preferred_agreement_of_the_answerer_is_used() {
        use Security::{Optional, Required};
        let sdes = KeyAgreement::Sdes;
        let both = |end, first_dtls| match first_dtls {
            true => vec![dtls(end), sdes.clone()],
            false => vec![sdes.clone(), dtls(end)],
        };
        for (security, profile, offered, answered, has_dtls) in [
            (Optional, "RTP/AVP", both(1, false), both(2, true), true),
            (Optional, "RTP/AVP", both(1, true), both(2, false), false),
            (Optional, "RTP/AVP", both(1, true), vec![sdes.clone()], false),
            (Required, "RTP/SAVP", both(1, false), vec![dtls(2)], true),
            (Required, "RTP/SAVP", both(1, false), vec![sdes.clone()], false),
            (Required, "UDP/TLS/RTP/SAVP", both(1, true), both(2, false), true),
        ] {
            let mut caller = end(1, security, &offered);
            let mut callee = end(2, Optional, &answered);
            let (offer, ours, theirs) = agree(&mut caller, &mut callee).unwrap();
            assert!(offer.contains(&format!("m=audio 4000 {profile} ")), "{offer}");
            assert_eq!(ours.keying.dtls().is_some(), has_dtls, "{offer}");
            assert_eq!(ours.keying.sdes().is_some(), !has_dtls);
            assert_eq!(theirs.keying.dtls().is_some(), has_dtls);
            if let (Some(ours), Some(theirs)) = (ours.keying.dtls(), theirs.keying.dtls()) {
                // The answerer is the server, and each end expects the other's certificate.
                assert!(ours.is_client && !theirs.is_client);
                let expected = [ours, theirs].map(|peer| peer.fingerprints[0].bytes[0]);
                assert_eq!(expected, [2, 1]);
                assert!(ours.tls_id.is_some() && ours.tls_id != theirs.tls_id);
            }
        }
    }

    #[test]
    fn an_answerer_is_the_client_if_it_is_configured_so() {
        let mut caller = end(1, Security::Required, &[dtls(1)]);
        let media_config = MediaConfig {
            security: Security::Required,
            key_agreements: vec![dtls(2)],
            answers_as_client: true,
            ..MediaConfig::default()
        };
        let local = SocketAddr::from(([192, 0, 2, 2], 4000));
        let mut callee = Negotiator::new(media_config, local, 2);
        let (_, ours, theirs) = agree(&mut caller, &mut callee).unwrap();
        let is_client = [ours, theirs].map(|stream| stream.keying.dtls().unwrap().is_client);
        assert_eq!(is_client, [false, true]);
    }

    #[test]
    fn an_agreement_that_only_one_end_has_ends_in_clear_or_is_refused() {
        use Security::{Off, Optional, Required};
        let sdes = [KeyAgreement::Sdes];
        let (_, ours, theirs) =
            agree(&mut end(1, Optional, &[dtls(1)]), &mut end(2, Optional, &sdes)).unwrap();
        assert!(!ours.keying.is_encrypted() && !theirs.keying.is_encrypted());
        let protocol = || "UDP/TLS/RTP/SAVP".to_string();
        for (callee, refusal) in [
            (end(2, Optional, &sdes), Refusal::OnlySecured { protocol: protocol() }),
            (end(2, Required, &sdes), Refusal::OnlySecured { protocol: protocol() }),
            (end(2, Off, &[dtls(2)]), Refusal::OnlySecured { protocol: protocol() }),
        ] {
            let refused = agree(&mut end(1, Required, &[dtls(1)]), &mut callee.clone());
            assert_eq!(refused.err(), Some(refusal));
        }
        let refused = agree(&mut end(1, Optional, &sdes), &mut end(2, Required, &[dtls(2)]));
        assert_eq!(refused.err(), Some(Refusal::NotSecured));
    }

    #[test]
    fn zrtp_is_agreed_on_by_the_hashes_of_both_ends() {
        use Security::{Off, Optional, Required};
        let zrtp = |end: u8| KeyAgreement::Zrtp(format!("1.10 {end}"));
        let sdes = KeyAgreement::Sdes;
        for (security, profile, offered, answered, has_zrtp) in [
            (Optional, "RTP/AVP", vec![zrtp(1)], vec![zrtp(2)], true),
            (Required, "RTP/AVP", vec![zrtp(1)], vec![zrtp(2)], true),
            (Optional, "RTP/AVP", vec![sdes.clone(), zrtp(1)], vec![zrtp(2), dtls(2)], true),
            (Required, "RTP/SAVP", vec![sdes.clone(), zrtp(1)], vec![zrtp(2)], true),
            (Optional, "RTP/AVP", vec![zrtp(1), sdes.clone()], vec![sdes.clone(), zrtp(2)], false),
        ] {
            let mut caller = end(1, security, &offered);
            let mut callee = end(2, Optional, &answered);
            let (offer, ours, theirs) = agree(&mut caller, &mut callee).unwrap();
            assert!(offer.contains(&format!("m=audio 4000 {profile} ")), "{offer}");
            assert!(offer.contains("a=zrtp-hash:1.10 1\r\n"), "{offer}");
            let hashes = [ours.keying.zrtp(), theirs.keying.zrtp()];
            let expected = if has_zrtp { [Some("1.10 2"), Some("1.10 1")] } else { [None; 2] };
            assert_eq!(hashes, expected, "{offer}");
            // A later offer of either end keeps the agreement.
            let (offer, theirs, ours) = agree(&mut callee, &mut caller).unwrap();
            assert_eq!(offer.contains("a=zrtp-hash"), has_zrtp, "{offer}");
            assert_eq!([ours.keying.zrtp(), theirs.keying.zrtp()], expected);
            // Encryption is not lowered by a change.
            let clear = b"v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 0\r\n";
            assert_eq!(caller.answer(clear, &mut random()).err(), Some(Refusal::NotSecured));
        }
        for callee in [end(2, Off, &[zrtp(2)]), end(2, Optional, &[sdes])] {
            let refused = agree(&mut end(1, Required, &[zrtp(1)]), &mut callee.clone());
            assert_eq!(refused.err(), Some(Refusal::NotSecured));
            let (_, ours, theirs) =
                agree(&mut end(1, Optional, &[zrtp(1)]), &mut callee.clone()).unwrap();
            assert!(!ours.keying.is_encrypted() && !theirs.keying.is_encrypted());
        }
    }

    /// The role and the association stay in later offers of either end. A new fingerprint or
    /// identifier is another association.
    #[test]
    fn a_later_offer_keeps_the_association() {
        let mut ends = [1, 2].map(|number| end(number, Security::Optional, &[dtls(number)]));
        let [caller, callee] = &mut ends;
        let (_, first, first_there) = agree(caller, callee).unwrap();
        let (first, first_there) =
            (first.keying.dtls().unwrap(), first_there.keying.dtls().unwrap());
        for _ in 0..2 {
            let (offer, theirs, ours) = agree(callee, caller).unwrap();
            assert!(offer.contains("UDP/TLS/RTP/SAVP") && offer.contains("a=setup:actpass"));
            assert_eq!(ours.keying.dtls(), Some(first));
            assert_eq!(theirs.keying.dtls(), Some(first_there));
            let (_, ours, theirs) = agree(caller, callee).unwrap();
            assert_eq!(ours.keying.dtls(), Some(first));
            assert_eq!(theirs.keying.dtls(), Some(first_there));
        }
        let mut other = end(2, Security::Optional, &[dtls(3)]);
        let (_, _, ours) = agree(&mut other, caller).unwrap();
        let ours = ours.keying.dtls().unwrap();
        assert!(!ours.is_same(first) && !ours.is_client);
        // Encryption is not lowered by a change.
        let clear = b"v=0\r\nc=IN IP4 192.0.2.9\r\nm=audio 4000 RTP/AVP 0\r\n";
        assert_eq!(caller.answer(clear, &mut random()).err(), Some(Refusal::NotSecured));
    }

    #[test]
    fn an_answer_is_read_as_other_phones_write_it() {
        let fingerprint = Fingerprint { hash: HashFunction::Sha1, bytes: vec![7; 20] };
        let answer = |protocol: &str, lines: &str| {
            let mut caller = end(1, Security::Optional, &[dtls(1)]);
            caller.offer(&mut random());
            let text = format!(
                "v=0\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n{lines}m=audio 4000 {protocol} 0\r\n"
            );
            caller.accept(text.as_bytes()).map(|stream| stream.keying)
        };
        let print = format!("a=fingerprint:{fingerprint}\r\n");
        for (protocol, setup, is_client) in [
            ("RTP/AVP", "a=setup:active\r\n", Some(false)),
            ("RTP/AVP", "a=setup:passive\r\n", Some(true)),
            ("UDP/TLS/RTP/SAVP", "a=setup:active\r\n", Some(false)),
            ("UDP/TLS/RTP/SAVPF", "", Some(false)),
            ("RTP/SAVP", "a=setup:actpass\r\n", Some(true)),
            ("RTP/AVP", "a=setup:holdconn\r\n", None),
        ] {
            let keying = answer(protocol, &(print.clone() + setup)).unwrap();
            assert_eq!(keying.dtls().map(|peer| peer.is_client), is_client, "{protocol} {setup}");
        }
        assert_eq!(answer("UDP/TLS/RTP/SAVP", "").err(), Some(Refusal::Keys));
        assert_eq!(answer("RTP/SAVP", "a=fingerprint:md5 00\r\n").err(), Some(Refusal::Keys));
    }
}
