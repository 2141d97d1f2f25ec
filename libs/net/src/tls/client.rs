//! The client side of TLS, and the trust in servers.

use super::files::{FileError, Fingerprint, Identity};
use super::identities::{Names, Verifier, identities};
use super::server::roots;
use super::{HTTP, SIP, Session, TURN, TlsError, provider};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, KeyLogFile, RootCertStore,
    SignatureScheme,
};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// The maximum number of server names with a remembered session for resumption.
const MAX_SESSIONS: usize = 256;

/// The trust in certificates of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Certificates signed by an issuer that this system trusts.
    #[default]
    System,
    /// Certificates signed by an issuer in this file.
    Issuers(PathBuf),
    /// The certificate with this fingerprint, regardless of its content.
    Pinned(Fingerprint),
    /// All certificates: for laboratories only, without protection against an attacker.
    Any,
}

impl FromStr for Trust {
    type Err = String;

    /// Parses `system`, `sha256:` with a fingerprint, or the name of a file with issuers.
    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("sha256:")) {
            ("", _) => {
                Err("expected system, a file with issuers, or sha256: and a fingerprint".to_owned())
            }
            ("system", _) => Ok(Self::System),
            (_, Some(fingerprint)) => fingerprint.parse().map(Self::Pinned),
            _ if text.parse::<Fingerprint>().is_ok() => {
                Err("a fingerprint without its prefix: expected sha256: before it".to_owned())
            }
            (file, None) => Ok(Self::Issuers(file.into())),
        }
    }
}

/// The TLS configuration of outgoing connections.
#[derive(Clone, Debug)]
pub struct Client {
    pub(super) sip: Arc<ClientConfig>,
    web: Arc<ClientConfig>,
    turn: Arc<ClientConfig>,
    /// The certificate verifier of outgoing SIP connections.
    verifier: Arc<dyn ServerCertVerifier>,
}

impl Client {
    /// A configuration that trusts `trust`, and presents `identity` to servers that request a
    /// certificate. On a system without issuers [`Trust::System`] rejects all servers. With
    /// `logs_keys` the keys are written to the file named by the environment variable
    /// `SSLKEYLOGFILE`, for Wireshark.
    ///
    /// # Errors
    /// [`FileError`] if a file cannot be used.
    pub fn new(
        trust: &Trust,
        identity: Option<&Identity>,
        logs_keys: bool,
    ) -> Result<Self, FileError> {
        let by_sip = verifier(trust, provider(), Names::Sip)?;
        let by_web = verifier(trust, provider(), Names::Hosts)?;
        let config = |alpn: &[u8], verifier: &Arc<dyn ServerCertVerifier>| {
            let provider = provider();
            let builder = ClientConfig::builder_with_provider(provider);
            let builder = builder.with_safe_default_protocol_versions().map_err(no_file)?;
            let builder =
                builder.dangerous().with_custom_certificate_verifier(Arc::clone(verifier));
            let mut config = match identity {
                None => builder.with_no_client_auth(),
                Some(identity) => builder.with_client_cert_resolver(Arc::new(
                    rustls::sign::SingleCertAndKey::from(identity.certified_key()),
                )),
            };
            config.alpn_protocols = vec![alpn.to_vec()];
            config.resumption = Resumption::in_memory_sessions(MAX_SESSIONS);
            if logs_keys {
                config.key_log = Arc::new(KeyLogFile::new());
            }
            Ok(Arc::new(config))
        };
        Ok(Self {
            sip: config(SIP, &by_sip)?,
            web: config(HTTP, &by_web)?,
            turn: config(TURN, &by_web)?,
            verifier: by_sip,
        })
    }

    /// The domains that `certificates`, the peer's own first, prove as those of a SIP server. Empty
    /// if they are not trusted.
    #[must_use]
    pub fn names(&self, certificates: &[CertificateDer<'_>]) -> Vec<ServerName<'static>> {
        let Some((own, others)) = certificates.split_first() else { return Vec::new() };
        let names = identities(own);
        // All names belong to one certificate, so the trust does not depend on the name.
        let is_trusted = names.first().is_some_and(|name| {
            self.verifier.verify_server_cert(own, others, name, &[], UnixTime::now()).is_ok()
        });
        if is_trusted { names } else { Vec::new() }
    }

    /// Disables session resumption, so that each connection makes a full handshake.
    #[must_use]
    pub fn without_resumption(mut self) -> Self {
        for config in [&mut self.sip, &mut self.web] {
            Arc::make_mut(config).resumption = Resumption::disabled();
        }
        self
    }

    /// The configuration of connections to hosts by another protocol, without ALPN.
    #[must_use]
    pub fn config_of_hosts(&self) -> ClientConfig {
        let mut config = (*self.web).clone();
        config.alpn_protocols.clear();
        config
    }

    /// Begins a SIP connection to `name`, a domain or an address.
    ///
    /// # Errors
    /// [`TlsError`] if the library rejects its parameters, which is a bug of this program.
    pub fn connect(&self, name: ServerName<'static>) -> Result<Session, TlsError> {
        Session::connect(Arc::clone(&self.sip), name)
    }

    /// Begins an HTTP connection to `name`, for WebSocket.
    ///
    /// # Errors
    /// See [`Client::connect`].
    pub fn connect_web(&self, name: ServerName<'static>) -> Result<Session, TlsError> {
        Session::connect(Arc::clone(&self.web), name)
    }

    /// Begins a connection to the TURN server `name` (RFC 7443).
    ///
    /// # Errors
    /// See [`Client::connect`].
    pub fn connect_turn(&self, name: ServerName<'static>) -> Result<Session, TlsError> {
        Session::connect(Arc::clone(&self.turn), name)
    }
}

/// The issuers that this system trusts.
#[must_use]
pub fn system_issuers() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

fn no_file(error: Error) -> FileError {
    FileError { file: PathBuf::new(), problem: error.to_string() }
}

fn verifier(
    trust: &Trust,
    provider: Arc<CryptoProvider>,
    names: Names,
) -> Result<Arc<dyn ServerCertVerifier>, FileError> {
    let roots = match trust {
        Trust::Pinned(fingerprint) => {
            return Ok(Arc::new(Without { accepted: Accepted::Only(*fingerprint), provider }));
        }
        Trust::Any => {
            return Ok(Arc::new(Without { accepted: Accepted::Any, provider }));
        }
        Trust::Issuers(file) => roots(file)?,
        Trust::System => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(system_issuers());
            Arc::new(roots)
        }
    };
    if roots.is_empty() {
        // Each connection is rejected then, with an error at that time.
        return Ok(Arc::new(Without { accepted: Accepted::None, provider }));
    }
    let unusable = |error| FileError {
        file: PathBuf::new(),
        problem: format!("the trusted issuers cannot be used: {error}"),
    };
    Ok(Arc::new(Verifier::new(roots, provider, names).map_err(unusable)?))
}

/// The decision of a verifier that ignores the issuer.
#[derive(Debug)]
enum Accepted {
    Only(Fingerprint),
    Any,
    /// No certificate, as on a system without issuers.
    None,
}

/// A verifier that ignores the issuer of a certificate.
#[derive(Debug)]
struct Without {
    accepted: Accepted,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Without {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found = Fingerprint::of(end_entity);
        match self.accepted {
            Accepted::Any => Ok(ServerCertVerified::assertion()),
            Accepted::Only(wanted) if wanted == found => Ok(ServerCertVerified::assertion()),
            Accepted::Only(wanted) => Err(Error::General(format!(
                "the certificate's fingerprint is {found}, and {wanted} is pinned"
            ))),
            Accepted::None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
