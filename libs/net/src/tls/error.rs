//! TLS errors with explanatory messages.

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};
use std::{fmt, io};

/// The error of a TLS connection.
#[derive(Clone, Debug, PartialEq)]
pub struct TlsError {
    /// The error of the library, if it caused this one.
    error: Option<Error>,
    text: String,
}

impl TlsError {
    pub(super) fn new(error: Error) -> Self {
        Self { text: in_words(&error), error: Some(error) }
    }

    /// The error of a peer that has sent plaintext of the protocol `spoken` instead of TLS.
    pub(super) fn of_clear_text(error: Error, spoken: &str) -> Self {
        let text = format!("the other end does not speak TLS: it sends {spoken} in clear");
        Self { text, error: Some(error) }
    }

    /// The error of a TLS operation that the library reports as an I/O error.
    pub(super) fn broken(error: io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match inner {
            Some(error) => Self::new(error.clone()),
            None => Self { error: None, text: error.to_string() },
        }
    }

    /// Returns true if the certificate of the peer is the cause.
    #[must_use]
    pub const fn is_of_certificate(&self) -> bool {
        matches!(self.error, Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented))
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for TlsError {}

fn in_words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(error) => of_certificate(error),
        Error::NoCertificatesPresented => "the other end shows no certificate".to_owned(),
        Error::AlertReceived(alert) => of_alert(*alert),
        Error::PeerIncompatible(error) => of_version(error),
        Error::InvalidMessage(
            InvalidMessage::InvalidContentType
            | InvalidMessage::UnknownProtocolVersion
            | InvalidMessage::MessageTooLarge,
        ) => "the other end does not speak TLS".to_owned(),
        error => error.to_string(),
    }
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            let when = match error {
                CertificateError::ExpiredContext { not_after, .. } => {
                    format!(" since {}", date(*not_after))
                }
                _ => String::new(),
            };
            format!("the certificate has expired{when}: it has to be renewed")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet: the clock here or there is wrong".to_owned()
        }
        CertificateError::UnknownIssuer => {
            "the issuer of the certificate is not trusted: trust the issuer (a CA file), or the \
             certificate itself by its fingerprint"
                .to_owned()
        }
        CertificateError::NotValidForName => {
            "the certificate is not for the called name".to_owned()
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            // The names have the form of the library: `DnsName("example.org")`.
            let bare = |name: &String| name.split('"').nth(1).unwrap_or(name).to_owned();
            let names: Vec<_> = presented.iter().map(bare).collect();
            let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
            let hint = match names.contains("*.") {
                true => ": wildcards do not name SIP domains (RFC 5922 section 7.2)",
                false => "",
            };
            format!("the certificate is for {names}, and {} was called{hint}", expected.to_str())
        }
        CertificateError::Revoked => "the certificate has been revoked".to_owned(),
        // The library does not distinguish the two.
        CertificateError::BadSignature => "a signature of the certificate is wrong, or its key is \
             too weak: RSA needs 2048 bits or more"
            .to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is made for another purpose (extended key usage)".to_owned()
        }
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => {
            "the signature algorithm of the certificate is too weak or not supported: expected \
             RSA of 2048 bits or more, or ECDSA by P-256 or P-384, or Ed25519, with SHA-2"
                .to_owned()
        }
        // The library's error for a peer certificate that is a CA certificate, the default of
        // openssl.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "the certificate is that of an issuer (CA:TRUE, openssl's default): one with CA:FALSE \
             is needed"
                .to_owned()
        }
        CertificateError::Other(other) => format!("the certificate is not accepted: {other}"),
        error => format!("the certificate is not accepted: {error}"),
    }
}

fn of_alert(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::UnknownCA => "it does not trust the issuer of our certificate",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "it does not accept our certificate",
        AlertDescription::CertificateExpired => "our certificate has expired",
        AlertDescription::CertificateRevoked => "our certificate has been revoked",
        AlertDescription::CertificateRequired => "it requires a client certificate",
        AlertDescription::HandshakeFailure => "no common cipher suite",
        AlertDescription::ProtocolVersion => "no common TLS version",
        AlertDescription::UnrecognisedName => "it does not serve the called name",
        AlertDescription::NoApplicationProtocol => "it does not speak SIP here (ALPN)",
        alert => return format!("the other end ended the handshake: {alert:?}"),
    };
    format!("the other end ended the handshake: {why}")
}

fn of_version(error: &PeerIncompatible) -> String {
    match error {
        PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::Tls13RequiredForQuic
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        // Clients with TLS 1.2 send that extension, older ones do not know it.
        | PeerIncompatible::SignatureAlgorithmsExtensionRequired => {
            "the other end supports only TLS 1.1 or older, which are not supported here"
                .to_owned()
        }
        PeerIncompatible::NoCipherSuitesInCommon
        | PeerIncompatible::NoKxGroupsInCommon
        | PeerIncompatible::NoSignatureSchemesInCommon => {
            format!("the other end supports no algorithm that is strong enough: {error:?}")
        }
        error => format!("the other end's TLS is not compatible: {error:?}"),
    }
}

/// `time` in the format of a Date header field.
fn date(time: UnixTime) -> String {
    let mut out = Vec::new();
    sip::header::write_date(&mut out, sip::Instant::from_micros(time.as_secs() * 1_000_000));
    String::from_utf8_lossy(&out).into_owned()
}
