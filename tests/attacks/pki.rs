//! Issuers and certificates, also of kinds that honest parties do not have.

use net::tls::Identity;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::path::{Path, PathBuf};

/// An issuer of certificates.
pub(crate) struct Issuer(CertifiedIssuer<'static, KeyPair>);

impl Issuer {
    /// An issuer called `name`, with a key of its own.
    pub(crate) fn new(name: &str) -> Self {
        let issuer =
            CertifiedIssuer::self_signed(issuer(name), KeyPair::generate().expect("a key"));
        Self(issuer.expect("a certificate"))
    }

    /// Writes its certificate to `folder`, and returns the file.
    pub(crate) fn file(&self, folder: &Path) -> PathBuf {
        let file = folder.join("issuer.pem");
        std::fs::write(&file, self.0.pem()).expect("the file can be written");
        file
    }

    /// The certificate of another issuer called `name` with the `key`, in PEM.
    fn certify(&self, name: &str, key: &KeyPair) -> String {
        issuer(name).signed_by(key, &self.0).expect("a certificate").pem()
    }

    /// An identity for the host `name`, with `length` certificates. All but the first are of
    /// intermediate issuers that this issuer has signed. They have one name and one key, so a
    /// verifier could try each.
    pub(crate) fn identity(&self, name: &str, length: usize, folder: &Path) -> Files {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new([name.to_owned()]).expect("a DNS name");
        params.is_ca = IsCa::ExplicitNoCa;
        let intermediate = KeyPair::generate().expect("a key");
        let mut chain = String::new();
        let signed = match length {
            1 => params.signed_by(&key, &self.0),
            _ => {
                for _ in 1..length {
                    chain += &self.certify("intermediate", &intermediate);
                }
                let by = rcgen::Issuer::new(issuer("intermediate"), &intermediate);
                params.signed_by(&key, &by)
            }
        };
        let files = Files { chain: folder.join("chain.pem"), key: folder.join("key.pem") };
        let chain = signed.expect("a certificate").pem() + &chain;
        std::fs::write(&files.chain, chain).expect("the file can be written");
        std::fs::write(&files.key, key.serialize_pem()).expect("the file can be written");
        files
    }
}

fn issuer(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// The files of an identity.
pub(crate) struct Files {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Files {
    pub(crate) fn read(&self) -> Identity {
        Identity::read(&self.chain, &self.key).expect("the files are valid")
    }

    /// The value of `tls.certificates`.
    pub(crate) fn setting(&self) -> String {
        let Self { chain, key } = self;
        format!("[{{ chain = \"{}\", key = \"{}\" }}]", chain.display(), key.display())
    }
}
