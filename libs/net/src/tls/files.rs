//! Files of certificates and keys, and the creation of self-signed certificates.

use rcgen::{CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use ring::digest;
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;
use x509_cert::der::Decode;

/// The error of a file, or of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub file: PathBuf,
    /// The problem, and the remedy.
    pub problem: String,
}

impl FileError {
    fn new(file: &Path, problem: impl fmt::Display) -> Self {
        Self { file: file.to_owned(), problem: problem.to_string() }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.problem)
    }
}

impl std::error::Error for FileError {}

/// A certificate, its chain and its key.
#[derive(Clone, Debug)]
pub struct Identity(Arc<CertifiedKey>);

impl Identity {
    /// Reads the certificates of `chain`, the server's own first, and the `key`, all in PEM.
    ///
    /// # Errors
    /// [`FileError`] if a file cannot be read, contains no such data, or the key does not match the
    /// certificate.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, FileError> {
        let certificates = read_certificates(chain)?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| match is_encrypted(key) {
            true => FileError::new(
                key,
                format_args!(
                    "the key is encrypted, which is not supported: openssl pkey -in {} -out FILE \
                     decrypts it",
                    key.display()
                ),
            ),
            false => FileError::new(key, format_args!("expected a private key in PEM: {error}")),
        })?;
        let identity = CertifiedKey::from_der(certificates, private, &super::provider());
        let identity = identity.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                FileError::new(key, format_args!("it is not the key of {}", chain.display()))
            }
            rustls::Error::General(_) => FileError::new(
                key,
                "expected a key of RSA of 2048 bits or more, of ECDSA by P-256 or P-384, or of \
                 Ed25519",
            ),
            error => FileError::new(chain, error),
        })?;
        Ok(Self(Arc::new(identity)))
    }

    /// The fingerprint of the certificate.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.cert.first().map_or(Fingerprint([0; 32]), Fingerprint::of)
    }

    /// Returns true if the certificate is for the domain or address `name`.
    #[must_use]
    pub fn is_for(&self, name: &ServerName<'_>) -> bool {
        let certificate = self.0.cert.first().map(ParsedCertificate::try_from);
        matches!(certificate, Some(Ok(of)) if verify_server_name(&of, name).is_ok())
    }

    /// The validity period of the certificate. `None` if it cannot be parsed.
    #[must_use]
    pub fn validity(&self) -> Option<Range<SystemTime>> {
        let certificate = x509_cert::Certificate::from_der(self.0.cert.first()?).ok()?;
        let validity = certificate.tbs_certificate().validity();
        Some(validity.not_before.to_system_time()..validity.not_after.to_system_time())
    }

    /// Returns true if the key is an RSA key.
    #[must_use]
    pub fn is_rsa(&self) -> bool {
        self.0.key.algorithm() == rustls::SignatureAlgorithm::RSA
    }

    pub(super) fn certified_key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0)
    }
}

/// Returns true if the PEM `file` contains an encrypted key (RFC 7468 section 11, RFC 1421).
fn is_encrypted(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|text| {
        text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
            || text.contains("Proc-Type: 4,ENCRYPTED")
    })
}

/// Reads all certificates of the PEM `file`.
///
/// # Errors
/// [`FileError`] if the file cannot be read or contains no certificate.
pub fn read_certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let wrong = |error: &dyn fmt::Display| {
        FileError::new(file, format_args!("expected certificates in PEM: {error}"))
    };
    let certificates = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
    let certificates: Vec<_> =
        certificates.collect::<Result<_, _>>().map_err(|error| wrong(&error))?;
    match certificates.is_empty() {
        true => Err(wrong(&"it contains no certificate")),
        false => Ok(certificates),
    }
}

/// The SHA-256 fingerprint of a certificate. Its text form is pairs of hexadecimal digits, with or
/// without colons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let colon = if place > 0 { ":" } else { "" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "\"{text}\" is no fingerprint: expected the SHA-256 of a certificate as 64 \
                 hexadecimal digits, with colons between pairs or without"
            )
        };
        let digits: Vec<u8> = text.bytes().filter(|&byte| byte != b':').collect();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(expected());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| expected())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| expected())?;
        }
        Ok(Self(bytes))
    }
}

/// Creates a key and a self-signed certificate for `names`, which are domains and addresses, and
/// writes them to `key` and `chain`, in PEM. The key file is readable by this user only.
///
/// # Errors
/// [`FileError`] if a file cannot be written, or a name is invalid in a certificate.
pub fn make_self_signed(names: &[String], chain: &Path, key: &Path) -> Result<(), FileError> {
    let wrong = |error: rcgen::Error| {
        FileError::new(chain, format_args!("cannot create a certificate: {error}"))
    };
    let mut params = CertificateParams::new(names).map_err(wrong)?;
    params.distinguished_name = DistinguishedName::new();
    let own = names.first().map_or("barebell", String::as_str);
    params.distinguished_name.push(DnType::CommonName, own);
    params.is_ca = IsCa::ExplicitNoCa;
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    let pair = KeyPair::generate().map_err(wrong)?;
    let certificate = params.self_signed(&pair).map_err(wrong)?;
    write(key, 0o600, pair.serialize_pem().as_bytes())?;
    write(chain, 0o644, certificate.pem().as_bytes())
}

fn write(file: &Path, mode: u32, bytes: &[u8]) -> Result<(), FileError> {
    let opened = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(file);
    let written = opened.and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| FileError::new(file, format_args!("cannot be written: {error}")))
}
