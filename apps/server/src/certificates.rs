//! TLS as the operator wants it, and the certificate that the server makes itself where none is
//! given.

use crate::failure::Failure;
use net::tls::{
    Client, ClientCertificates, Fingerprint, Identity, Server, Trust, make_self_signed,
};
use std::path::{Path, PathBuf};

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
    pub(crate) fn has_own(data: &Path) -> bool {
        let own = Files::own(data);
        own.chain.exists() && own.key.exists()
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
        let files = match &self.certificates[..] {
            [] => {
                if !Self::has_own(data) {
                    make_self_signed(names, &own.chain, &own.key).map_err(|e| said(&e))?;
                }
                std::slice::from_ref(&own)
            }
            files => files,
        };
        let identities = files.iter().map(|files| Identity::read(&files.chain, &files.key));
        let identities: Vec<_> = identities.collect::<Result<_, _>>().map_err(|e| said(&e))?;
        let first = identities.first().cloned();
        let fingerprint = first.as_ref().map(Identity::fingerprint);
        Ok(Tls {
            server: Server::new(identities, &self.clients, before).map_err(|e| said(&e))?,
            client: Client::new(&self.trust, first.as_ref(), false).map_err(|e| said(&e))?,
            fingerprint: fingerprint.ok_or_else(|| said(&"there is no certificate"))?,
            own: self.certificates.is_empty().then_some(own.chain),
        })
    }
}

impl Tls {
    /// What the operator tells those who are to trust the server.
    pub(crate) fn remark(&self) -> String {
        let fingerprint = self.fingerprint;
        match &self.own {
            Some(file) => format!(
                "the certificate for TLS is one that this server has made itself, {}: phones have to be told to \
                 trust it; its SHA-256 fingerprint is {fingerprint}",
                file.display()
            ),
            None => format!("the certificate for TLS has the SHA-256 fingerprint {fingerprint}"),
        }
    }
}
