//! The hashes of a user.

use sip::digest::Ha1Set;

/// The hashes of a user as the table has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hashes<'r> {
    pub(super) md5: Option<&'r str>,
    pub(super) sha256: Option<&'r str>,
    pub(super) sha512_256: Option<&'r str>,
}

impl Hashes<'_> {
    /// The hashes in binary. Those that are missing are derived from `key`: no password has them,
    /// and nothing but the key leads to them. `None` if all are missing.
    pub(super) fn complete(&self, login: &[&[u8]], key: &[u8; 32]) -> Option<Ha1Set> {
        let md5 = hex::<16>(self.md5);
        let sha256 = hex::<32>(self.sha256);
        let sha512_256 = hex::<32>(self.sha512_256);
        if md5.is_none() && sha256.is_none() && sha512_256.is_none() {
            return None;
        }
        let missing = |label: &[u8]| {
            let mut parts = vec![&key[..], label];
            parts.extend_from_slice(login);
            Ha1Set::new(label, &parts.concat(), key).sha256
        };
        let md5_missing = || {
            let whole = missing(b"md5");
            core::array::from_fn(|at| whole[at])
        };
        Some(Ha1Set {
            md5: md5.unwrap_or_else(md5_missing),
            sha256: sha256.unwrap_or_else(|| missing(b"sha256")),
            sha512_256: sha512_256.unwrap_or_else(|| missing(b"sha512-256")),
        })
    }
}

/// `hash` in hexadecimal.
pub(super) fn text(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a hash in hexadecimal. `None` if it is missing or malformed.
pub(super) fn hex<const N: usize>(text: Option<&str>) -> Option<[u8; N]> {
    let text = text?.trim().as_bytes();
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let pair = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(pair, 16).ok().filter(|_| !pair.starts_with('+'))?;
    }
    Some(bytes)
}
