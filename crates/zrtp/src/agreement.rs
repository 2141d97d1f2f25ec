//! Diffie-Hellman exchanges (RFC 6189 section 5.1.5).

use crate::algorithm::KeyAgreement;
use crate::crypto::{Random, Secret};
use alloc::vec::Vec;
use crypto_bigint::modular::ConstMontyForm;
use crypto_bigint::{U512, U3072, const_monty_params};
use p256::elliptic_curve::sec1::ToSec1Point;
use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};
use zeroize::Zeroizing;

const_monty_params!(
    Group15,
    U3072,
    "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74\
     020BBEA63B139B22514A08798E3404DDEF9519B3CD3A431B302B0A6DF25F1437\
     4FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED\
     EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF05\
     98DA48361C55D39A69163FA8FD24CF5F83655D23DCA3AD961C62F356208552BB\
     9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B\
     E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF695581718\
     3995497CEA956AE515D2261898FA051015728E5A8AAAC42DAD33170D04507A33\
     A85521ABDF1CBA64ECFB850458DBEF0A8AEA71575D060C7DB3970F85A6E1E4C7\
     ABF5AE8CDB0933D71E8C94E04A25619DCEE3D2261AD2EE6BF12FFA06D98A0864\
     D87602733EC86A64521F2B18177B200CBBE117577A615D6C770988C0BAD946E2\
     08E24FA074E5AB3143DB5BFCE0FD108E4B82D120A93AD2CAFFFFFFFFFFFFFFFF",
    "The MODP group of 3072 bits (RFC 3526 section 4)."
);

/// A number modulo the prime of the group.
pub(crate) type Element = ConstMontyForm<Group15, { U3072::LIMBS }>;

/// A private value with its public one.
pub(crate) struct KeyPair {
    private: Private,
    public: Vec<u8>,
}

enum Private {
    X255(Zeroizing<[u8; 32]>),
    Ec25(p256::SecretKey),
    /// 512 bits, twice the length of the longest key, as section 5.1.5 demands.
    Dh3k(Zeroizing<U512>),
}

impl KeyPair {
    pub(crate) fn new(kind: KeyAgreement, random: &mut Random) -> Self {
        match kind {
            KeyAgreement::X255 => {
                let private = random.bytes();
                let public = x25519(*private, X25519_BASEPOINT_BYTES).to_vec();
                Self { private: Private::X255(private), public }
            }
            KeyAgreement::Ec25 => {
                // One in 2^32 values is above the order of the curve.
                let private = loop {
                    if let Ok(key) = p256::SecretKey::from_slice(&random.bytes::<32>()[..]) {
                        break key;
                    }
                };
                // The first byte says that the point is not compressed.
                let public = private.public_key().to_sec1_point(false).as_bytes()[1..].to_vec();
                Self { private: Private::Ec25(private), public }
            }
            KeyAgreement::Dh3k => {
                let private = Zeroizing::new(U512::from_be_slice(&random.bytes::<64>()[..]));
                let public = Element::new(&U3072::from_u8(2)).pow(&private).retrieve();
                let public = public.to_be_bytes().as_ref().to_vec();
                Self { private: Private::Dh3k(private), public }
            }
        }
    }

    /// The public value, as messages carry it.
    pub(crate) fn public(&self) -> &[u8] {
        &self.public
    }

    /// The shared value. `None` if the value of the peer has another length, or would determine
    /// the result.
    pub(crate) fn agree(&self, peer: &[u8]) -> Option<Secret> {
        match &self.private {
            Private::X255(private) => {
                let shared = Zeroizing::new(x25519(**private, peer.try_into().ok()?));
                (*shared != [0; 32]).then(|| Zeroizing::new(shared.to_vec()))
            }
            Private::Ec25(private) => {
                let peer: [u8; 64] = peer.try_into().ok()?;
                let peer = p256::PublicKey::from_sec1_bytes(&[&[4], &peer[..]].concat()).ok()?;
                Some(Zeroizing::new(private.diffie_hellman(&peer).raw_secret_bytes().to_vec()))
            }
            Private::Dh3k(private) => {
                let peer: [u8; 384] = peer.try_into().ok()?;
                let peer = U3072::from_be_slice(&peer);
                let last = Element::ZERO.sub(&Element::ONE).retrieve();
                if peer <= U3072::ONE || peer >= last {
                    return None;
                }
                let shared = Zeroizing::new(Element::new(&peer).pow(private).retrieve());
                Some(Zeroizing::new(shared.to_be_bytes().as_ref().to_vec()))
            }
        }
    }
}
