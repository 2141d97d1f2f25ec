//! The TLS settings, and the self-signed certificate that the server creates if there is no other.

use crate::acme::{self, AcmeSettings};
use crate::failure::Failure;
use crate::log;
use net::tls::{
    Client, ClientCertificates, FileError, Fingerprint, Identity, Server, Trust, make_self_signed,
};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The certificate and its chain.
    pub(crate) chain: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
}

/// The settings of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    /// The certificates. The first is used for clients that name no matching domain. If empty, one
    /// is created.
    pub(crate) certificates: Vec<Files>,
    /// The settings of an ACME certificate, which has precedence over those.
    pub(crate) acme: Option<AcmeSettings>,
    /// The client certificates that are requested.
    pub(crate) clients: ClientCertificates,
    /// The certificates that are trusted on outgoing connections.
    pub(crate) trust: Trust,
}

/// The TLS configuration of new connections, and data of its certificate.
pub(crate) struct Tls {
    /// The configuration of accepted connections.
    pub(crate) server: Server,
    /// The configuration of outgoing connections.
    pub(crate) client: Client,
    /// The fingerprint of the first certificate.
    pub(crate) fingerprint: Fingerprint,
    /// True if one of the certificates has an RSA key.
    pub(crate) has_rsa: bool,
    /// The end of the validity of the first certificate.
    pub(crate) valid_until: Option<SystemTime>,
    /// All certificates, the first one first.
    pub(crate) certificates: Vec<Certificate>,
    /// The file of the certificate, if the server has created it itself.
    pub(crate) own: Option<PathBuf>,
}

/// A certificate in use.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    /// The file.
    pub(crate) file: PathBuf,
    /// The end of its validity.
    pub(crate) valid_until: Option<SystemTime>,
    /// The fingerprint.
    pub(crate) fingerprint: Fingerprint,
    /// The certificate itself.
    pub(crate) identity: Identity,
}

impl Files {
    /// The files of the self-signed certificate in the directory `data`.
    fn own(data: &Path) -> Self {
        Self { chain: data.join("tls-chain.pem"), key: data.join("tls-key.pem") }
    }
}

impl TlsSettings {
    /// Returns true if there is a self-signed certificate in the directory `data`.
    fn has_own(data: &Path) -> bool {
        let own = Files::own(data);
        own.chain.exists() && own.key.exists()
    }

    /// The certificate issued by ACME, if it exists and is configured.
    fn issued(&self, data: &Path) -> Option<Result<Identity, FileError>> {
        let file = acme::issued(data);
        let has_one = self.acme.is_some() && file.exists();
        has_one.then(|| Identity::read(&file, &file))
    }

    /// Returns true if the server has to create a self-signed certificate in the directory `data`.
    pub(crate) fn makes_one(&self, data: &Path) -> bool {
        self.certificates.is_empty() && self.issued(data).is_none() && !Self::has_own(data)
    }

    /// Reads the files. If no certificate is available, creates one for `names` in the directory
    /// `data`. TLS sessions of `before` can be resumed.
    ///
    /// # Errors
    /// [`Failure`] if a file cannot be used.
    pub(crate) fn open(
        &self,
        data: &Path,
        names: &[String],
        before: Option<&Server>,
    ) -> Result<Tls, Failure> {
        let said = |error: &dyn std::fmt::Display| Failure::message(format!("tls: {error}"));
        let own = Files::own(data);
        let mut files = self.certificates.clone();
        let issued = match self.issued(data) {
            // It is ordered again. At a reload it is an error, so that the present one stays in
            // use.
            Some(Err(error)) if before.is_none() => {
                log::warn("tls", || error.to_string());
                None
            }
            issued => issued.transpose().map_err(|e| said(&e))?,
        };
        let has_none = files.is_empty() && issued.is_none();
        if has_none {
            if !Self::has_own(data) {
                make_self_signed(names, &own.chain, &own.key).map_err(|e| said(&e))?;
            }
            files.push(own.clone());
        }
        let identities = files.iter().map(|files| Identity::read(&files.chain, &files.key));
        let mut identities: Vec<_> = identities.collect::<Result<_, _>>().map_err(|e| said(&e))?;
        // Certificates of public issuers are for servers only.
        let caller = identities.first().or(issued.as_ref()).cloned();
        let has_issued = issued.is_some();
        identities.splice(0..0, issued);
        let first = identities.first().cloned();
        let paths = has_issued.then(|| acme::issued(data)).into_iter();
        let paths = paths.chain(files.iter().map(|files| files.chain.clone()));
        let certificates = paths.zip(&identities).map(|(file, identity)| Certificate {
            file,
            valid_until: identity.validity().map(|valid| valid.end),
            fingerprint: identity.fingerprint(),
            identity: identity.clone(),
        });
        let certificates = certificates.collect();
        let fingerprint = first.as_ref().map(Identity::fingerprint);
        Ok(Tls {
            has_rsa: identities.iter().any(Identity::is_rsa),
            server: Server::new(identities, &self.clients, before).map_err(|e| said(&e))?,
            client: Client::new(&self.trust, caller.as_ref(), false).map_err(|e| said(&e))?,
            fingerprint: fingerprint.ok_or_else(|| said(&"there is no certificate"))?,
            valid_until: first.as_ref().and_then(Identity::validity).map(|valid| valid.end),
            certificates,
            own: has_none.then_some(own.chain),
        })
    }
}

impl Tls {
    /// Advice for the operator about the cost of handshakes.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        self.has_rsa.then_some(
            "a TLS certificate has an RSA key: a handshake costs about four times as much \
             processor time as with \
             ECDSA by P-256 (of 4096 bits: twenty times)",
        )
    }

    /// The fingerprint or validity of the certificate, needed to configure phones.
    pub(crate) fn remark(&self) -> String {
        let fingerprint = self.fingerprint;
        let until = match self.valid_until {
            Some(until) => format!("is valid until {}", humantime::format_rfc3339_seconds(until)),
            None => "does not say until when it is valid".to_owned(),
        };
        match &self.own {
            Some(file) => format!(
                "the TLS certificate is self-signed by this server, {}: phones have to be \
                 configured to trust it; its fingerprint is sha256:{fingerprint}",
                file.display()
            ),
            None => {
                format!("the certificate for TLS {until}; its fingerprint is sha256:{fingerprint}")
            }
        }
    }
}
