//! One-time codes by the time (TOTP, RFC 6238) as the second factor of a login: six digits of
//! HMAC-SHA-1, a new code every 30 seconds.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use std::time::Duration;

/// The time of a code in seconds.
const STEP: u64 = 30;
/// The codes before and after the present one that are accepted: clocks differ.
const DRIFT: u64 = 1;
/// The alphabet of base32 (RFC 4648).
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
/// The length of a secret in bytes, that of the hash (RFC 4226 section 4).
pub(crate) const SECRET_LENGTH: usize = 20;

/// The code of a step (RFC 4226 section 5.3).
fn code(secret: &[u8], step: u64) -> u32 {
    let mut hmac = Hmac::<Sha1>::new_from_slice(secret).expect("HMAC takes any key");
    hmac.update(&step.to_be_bytes());
    let hash = hmac.finalize().into_bytes();
    let offset = usize::from(hash[19] & 15);
    let word = [hash[offset] & 0x7f, hash[offset + 1], hash[offset + 2], hash[offset + 3]];
    u32::from_be_bytes(word) % 1_000_000
}

/// The step of the code `given` at `now`, the time since 1970, if it is later than the step `used`.
/// So each code is accepted once.
pub(crate) fn step_of(secret: &[u8], given: &str, now: Duration, used: u64) -> Option<u64> {
    let digits: String = given.chars().filter(|c| !c.is_whitespace()).collect();
    if digits.len() != 6 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let given: u32 = digits.parse().ok()?;
    let present = now.as_secs() / STEP;
    let steps = present.saturating_sub(DRIFT)..=present + DRIFT;
    // All are compared, so that the time tells nothing.
    steps.fold(None, |found, step| match code(secret, step) == given && step > used {
        true => Some(step),
        false => found,
    })
}

/// `secret` in base32, without padding.
pub(crate) fn base32(secret: &[u8]) -> String {
    let mut text = String::new();
    for group in secret.chunks(5) {
        let mut bytes = [0; 8];
        bytes[3..3 + group.len()].copy_from_slice(group);
        let bits = u64::from_be_bytes(bytes);
        for place in 0..(group.len() * 8).div_ceil(5) {
            let digit = bits >> (35 - 5 * place) & 31;
            text.push(char::from(BASE32[digit as usize]));
        }
    }
    text
}

/// The secret in `text`, the base32 of one of [`SECRET_LENGTH`] bytes.
pub(crate) fn secret_of(text: &str) -> Option<Vec<u8>> {
    let mut secret = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let digit = BASE32.iter().position(|&it| it == byte)?;
        bits = (bits << 5 | digit as u32) & 0xfff;
        count += 5;
        if count >= 8 {
            count -= 8;
            secret.push((bits >> count) as u8);
        }
    }
    (secret.len() == SECRET_LENGTH).then_some(secret)
}

/// The URI of the secret of `account` for authenticator apps.
pub(crate) fn uri(account: &str, secret: &[u8]) -> String {
    format!("otpauth://totp/Barebell:{account}?secret={}&issuer=Barebell", base32(secret))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The secret of RFC 6238 appendix B.
    const SECRET: &[u8; 20] = b"12345678901234567890";

    #[test]
    fn codes_are_those_of_rfc_6238() {
        for (seconds, expected) in [
            (59, 287_082),
            (1_111_111_109, 81_804),
            (1_111_111_111, 50_471),
            (1_234_567_890, 5_924),
            (2_000_000_000, 279_037),
            (20_000_000_000, 353_130),
        ] {
            assert_eq!(code(SECRET, seconds / STEP), expected, "{seconds}");
        }
    }

    #[test]
    fn a_code_is_accepted_once_and_near_its_time() {
        let at = |seconds| Duration::from_secs(seconds);
        let step = step_of(SECRET, "287 082", at(59), 0);
        assert_eq!(step, Some(1));
        assert_eq!(step_of(SECRET, "287082", at(59), 1), None, "it was used");
        assert_eq!(step_of(SECRET, "287082", at(89), 0), Some(1));
        assert_eq!(step_of(SECRET, "287082", at(90), 0), None);
        for wrong in ["", "287083", "28708", "2870820", "+87082", "94287082", "２87082"] {
            assert_eq!(step_of(SECRET, wrong, at(59), 0), None, "{wrong}");
        }
    }

    #[test]
    fn secrets_are_written_and_read_in_base32() {
        assert_eq!(base32(SECRET), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
        assert_eq!(secret_of("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").unwrap(), SECRET);
        for text in ["", "GEZDGNBV", "gezdgnbvgy3tqojqgezdgnbvgy3tqojq", "1", "="] {
            assert_eq!(secret_of(text), None, "{text}");
        }
        for (bytes, text) in [(&b"f"[..], "MY"), (b"fo", "MZXQ"), (b"foob", "MZXW6YQ")] {
            assert_eq!(base32(bytes), text);
        }
        let uri = uri("eve", SECRET);
        assert!(uri.starts_with("otpauth://totp/Barebell:eve?secret=GEZDG"), "{uri}");
    }
}
