//! Signatures of clients with RSA certificates.

use crate::request::{Hashes, amended};
use dimpl::crypto::{CryptoProvider, NamedGroup, SignatureVerifier, rust_crypto};
use dimpl::{CryptoError, HashAlgorithm, SignatureAlgorithm};
use ring::signature::{
    ECDSA_P384_SHA256_ASN1, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, UnparsedPublicKey, VerificationAlgorithm,
};
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// The cryptography of a server: that of `dimpl`, which verifies signatures by ECDSA, and
/// signatures by RSA in DTLS 1.2.
///
/// A client has that of `dimpl` alone: its cipher suites have servers with ECDSA only.
pub(crate) fn provider_of_server() -> CryptoProvider {
    CryptoProvider {
        signature_verification: &Verifier,
        hash_provider: &Hashes,
        ..rust_crypto::default_provider()
    }
}

/// The verifier of the signatures of clients. In DTLS 1.2 the data are the messages before.
#[derive(Debug)]
struct Verifier;

impl SignatureVerifier for Verifier {
    fn verify_signature(
        &self,
        certificate: &[u8],
        data: &[u8],
        signature: &[u8],
        hash: HashAlgorithm,
        algorithm: SignatureAlgorithm,
    ) -> Result<(), CryptoError> {
        let data = &amended(data);
        if algorithm != SignatureAlgorithm::RSA {
            let others = rust_crypto::default_provider().signature_verification;
            let verified = others.verify_signature(certificate, data, signature, hash, algorithm);
            return match verified {
                // Only SHA-256 was asked for.
                Err(CryptoError::UnsupportedSignatureVerification {
                    signature: SignatureAlgorithm::ECDSA,
                    hash: HashAlgorithm::SHA256,
                    group: NamedGroup::Secp384r1,
                }) => verify(&ECDSA_P384_SHA256_ASN1, certificate, data, signature),
                verified => verified,
            };
        }
        match hash {
            HashAlgorithm::SHA256 => {
                verify(&RSA_PKCS1_2048_8192_SHA256, certificate, data, signature)
            }
            HashAlgorithm::SHA384 => {
                verify(&RSA_PKCS1_2048_8192_SHA384, certificate, data, signature)
            }
            HashAlgorithm::SHA512 => {
                verify(&RSA_PKCS1_2048_8192_SHA512, certificate, data, signature)
            }
            _ => Err(CryptoError::UnsupportedSignatureAlgorithm(algorithm)),
        }
    }
}

/// Verifies a signature by the key of a certificate. A key by RSA of less than 2048 bits is
/// refused, too.
fn verify(
    by: &'static dyn VerificationAlgorithm,
    certificate: &[u8],
    data: &[u8],
    signature: &[u8],
) -> Result<(), CryptoError> {
    let certificate =
        Certificate::from_der(certificate).map_err(|_| CryptoError::CertificateParseFailed)?;
    let key = &certificate.tbs_certificate().subject_public_key_info().subject_public_key;
    let key = key.as_bytes().ok_or(CryptoError::InvalidSubjectPublicKey)?;
    let verified = UnparsedPublicKey::new(by, key).verify(data, signature);
    verified.map_err(|_| CryptoError::InvalidSignatureFormat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256};
    use ring::rand::SystemRandom;
    use ring::signature::{RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RsaKeyPair};

    /// An RSA key of 2048 bits in PKCS #8, made for this test.
    const KEY: &str = include_str!("rsa/key.pem");

    fn verify(
        certificate: &[u8],
        signature: &[u8],
        hash: HashAlgorithm,
    ) -> Result<(), CryptoError> {
        let verifier = provider_of_server().signature_verification;
        verifier.verify_signature(certificate, b"data", signature, hash, SignatureAlgorithm::RSA)
    }

    #[test]
    fn a_signature_has_to_be_of_the_key_of_the_certificate() {
        let key = KeyPair::from_pkcs8_pem_and_sign_algo(KEY, &PKCS_RSA_SHA256).unwrap();
        let parameters = CertificateParams::new(Vec::new()).unwrap();
        let certificate = parameters.self_signed(&key).unwrap().der().to_vec();
        let signer = RsaKeyPair::from_pkcs8(key.serialized_der()).unwrap();
        let mut signature = vec![0; signer.public().modulus_len()];
        for (by, hash) in
            [(&RSA_PKCS1_SHA256, HashAlgorithm::SHA256), (&RSA_PKCS1_SHA384, HashAlgorithm::SHA384)]
        {
            signer.sign(by, &SystemRandom::new(), b"data", &mut signature).unwrap();
            assert_eq!(verify(&certificate, &signature, hash), Ok(()));
            assert!(verify(&certificate, &signature, HashAlgorithm::SHA512).is_err());
            signature[9] ^= 1;
            assert!(verify(&certificate, &signature, hash).is_err());
        }
        let other = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(Vec::new()).unwrap();
        let ecdsa = parameters.self_signed(&other).unwrap().der().to_vec();
        assert!(verify(&ecdsa, &signature, HashAlgorithm::SHA256).is_err());
        assert!(verify(b"no certificate", &signature, HashAlgorithm::SHA256).is_err());
    }
}
