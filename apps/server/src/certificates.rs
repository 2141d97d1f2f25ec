//! TLS as the operator wants it, and the certificate that the server makes itself where none is
//! given.

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
    /// The certificate, and those that it was signed by.
    pub(crate) chain: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
}

/// What the operator decided of TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    /// The certificates; the first is for who names none of them. Without any, one is made.
    pub(crate) certificates: Vec<Files>,
    /// One that an issuer is asked for, which comes before those.
    pub(crate) acme: Option<AcmeSettings>,
    /// Whose certificates are wanted.
    pub(crate) clients: ClientCertificates,
    /// Who is trusted, of those that are called.
    pub(crate) trust: Trust,
}

/// What TLS begins with, and which certificate is shown.
pub(crate) struct Tls {
    /// Who is called here.
    pub(crate) server: Server,
    /// Who calls from here.
    pub(crate) client: Client,
    /// Of the first certificate.
    pub(crate) fingerprint: Fingerprint,
    /// Whether one of the certificates has a key of RSA.
    pub(crate) has_rsa: bool,
    /// Until when that one is valid.
    pub(crate) valid_until: Option<SystemTime>,
    /// Where the certificate is that the server has made itself.
    pub(crate) own: Option<PathBuf>,
}

impl Files {
    /// Those that the server makes itself in the directory `data`.
    fn own(data: &Path) -> Self {
        Self { chain: data.join("tls-chain.pem"), key: data.join("tls-key.pem") }
    }
}

impl TlsSettings {
    /// Whether the server has made itself a certificate in the directory `data`.
    fn has_own(data: &Path) -> bool {
        let own = Files::own(data);
        own.chain.exists() && own.key.exists()
    }

    /// The certificate that an issuer has given, if there is one and it is wanted.
    fn issued(&self, data: &Path) -> Option<Result<Identity, FileError>> {
        let file = acme::issued(data);
        let has_one = self.acme.is_some() && file.exists();
        has_one.then(|| Identity::read(&file, &file))
    }

    /// Whether the server has to make itself a certificate, as things are in the directory `data`.
    pub(crate) fn makes_one(&self, data: &Path) -> bool {
        self.certificates.is_empty() && self.issued(data).is_none() && !Self::has_own(data)
    }

    /// Reads the files, and makes a certificate for `names` in the directory `data` where there is
    /// none. Sessions of `before` can be resumed.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub(crate) fn open(
        &self,
        data: &Path,
        names: &[String],
        before: Option<&Server>,
    ) -> Result<Tls, Failure> {
        let said = |error: &dyn std::fmt::Display| Failure::said(format!("tls: {error}"));
        let own = Files::own(data);
        let mut files = self.certificates.clone();
        let issued = match self.issued(data) {
            // It is asked for again, but not in place of one that is shown.
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
        // Issuers that everybody trusts give certificates for those alone who are called.
        let caller = identities.first().or(issued.as_ref()).cloned();
        identities.splice(0..0, issued);
        let first = identities.first().cloned();
        let fingerprint = first.as_ref().map(Identity::fingerprint);
        Ok(Tls {
            has_rsa: identities.iter().any(Identity::is_rsa),
            server: Server::new(identities, &self.clients, before).map_err(|e| said(&e))?,
            client: Client::new(&self.trust, caller.as_ref(), false).map_err(|e| said(&e))?,
            fingerprint: fingerprint.ok_or_else(|| said(&"there is no certificate"))?,
            valid_until: first.as_ref().and_then(Identity::validity).map(|valid| valid.end),
            own: has_none.then_some(own.chain),
        })
    }
}

impl Tls {
    /// What the operator is told of the cost of handshakes.
    pub(crate) fn advice(&self) -> Option<&'static str> {
        self.has_rsa.then_some(
            "a certificate for TLS has a key of RSA: a handshake costs about four times as much processor time as with \
             ECDSA by P-256 (of 4096 bits: twenty times)",
        )
    }

    /// What the operator tells those who are to trust the server.
    pub(crate) fn remark(&self) -> String {
        let fingerprint = self.fingerprint;
        let until = match self.valid_until {
            Some(until) => format!("is valid until {}", humantime::format_rfc3339_seconds(until)),
            None => "does not say until when it is valid".to_owned(),
        };
        match &self.own {
            Some(file) => format!(
                "the certificate for TLS is one that this server has made itself, {}: phones have to be told to \
                 trust it; its SHA-256 fingerprint is {fingerprint}",
                file.display()
            ),
            None => {
                format!("the certificate for TLS {until}; its SHA-256 fingerprint is {fingerprint}")
            }
        }
    }
}
