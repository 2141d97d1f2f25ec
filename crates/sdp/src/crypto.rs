//! The crypto attribute of SDES (RFC 4568): the keys of SRTP, in the clear of a protected
//! signalling.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use core::error::Error;
use core::fmt;
use srtp::plus::{Placement, Plus, Scheme};
use srtp::{MasterKey, Policy, PolicyError, Suite};
use zeroize::Zeroizing;

/// Writes padding, and reads without it too: some phones leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// How many keys an attribute may have.
const MAX_KEYS: usize = 16;

/// The digits of the largest identifier, of 128 bytes.
const MAX_MKI_DIGITS: usize = 309;

/// Why an attribute is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CryptoError {
    /// It is not `<tag> <suite> <key parameters>`.
    Syntax,
    /// The tag is not a number of at most nine digits without zeros before it.
    Tag(String),
    /// No suite of ours.
    Suite(String),
    /// A key parameter that is not `inline:<key>[|<lifetime>][|<MKI>:<length>]`, or more than 16 of
    /// them.
    Key,
    /// A key that does not fit its suite, or identifiers that do not fit one another.
    Policy(PolicyError),
    /// A session parameter that is wrong, or not known and not optional.
    Parameter(String),
}

impl fmt::Display for CryptoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => write!(f, "expected `<tag> <suite> <key parameters>` in a=crypto"),
            Self::Tag(tag) => write!(f, "tag {tag:?} in a=crypto, expected a number"),
            Self::Suite(suite) => write!(f, "unknown suite {suite:?} in a=crypto"),
            Self::Key => write!(f, "expected `inline:<key>` in a=crypto"),
            Self::Policy(error) => write!(f, "a=crypto: {error}"),
            Self::Parameter(parameter) => {
                write!(f, "session parameter {parameter:?} in a=crypto is wrong or unknown")
            }
        }
    }
}

impl Error for CryptoError {}

impl From<PolicyError> for CryptoError {
    fn from(error: PolicyError) -> Self {
        Self::Policy(error)
    }
}

/// A crypto attribute: how whoever wrote it protects what it sends.
#[derive(Clone, Debug)]
pub struct Crypto {
    /// Names the attribute among those of its medium.
    pub tag: u32,
    /// The suite, and what the session parameters say.
    pub policy: Policy,
    /// Whether it calls the suite by the [old name](srtp::Suite::old_name): an answer has to repeat
    /// it.
    pub has_old_name: bool,
    /// The master keys, at least one.
    pub keys: Vec<Key>,
}

/// A master key as the attribute has it.
#[derive(Clone)]
pub struct Key {
    /// The key, then the salt.
    pub bytes: Zeroizing<Vec<u8>>,
    /// How many packets it may protect, RTP and RTCP each.
    pub lifetime: Option<u64>,
    /// Its identifier, empty if it has none.
    pub mki: Vec<u8>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("mki", &self.mki).finish_non_exhaustive()
    }
}

impl Crypto {
    /// Offers a suite with a key, which has to be random and used for nothing else.
    ///
    /// # Errors
    /// The key's length is not that of the suite.
    pub fn new(tag: u32, policy: Policy, key_and_salt: &[u8]) -> Result<Self, PolicyError> {
        MasterKey::new(policy.suite, key_and_salt)?;
        let bytes = Zeroizing::new(key_and_salt.to_vec());
        let keys = [Key { bytes, lifetime: None, mki: Vec::new() }].into();
        Ok(Self { tag, policy, has_old_name: false, keys })
    }

    /// Reads the value of `a=crypto`. Names and `inline:` are taken in either case, keys also with
    /// spaces at the semicolons between them, without their padding, and with nothing behind a `|`.
    ///
    /// # Errors
    /// See [`CryptoError`]. An attribute that is not taken is to be passed over (RFC 4568 section
    /// 7.1.2).
    pub fn parse(value: &str) -> Result<Self, CryptoError> {
        let mut words = value.split_ascii_whitespace();
        let (Some(tag), Some(suite), Some(keys)) = (words.next(), words.next(), words.next())
        else {
            return Err(CryptoError::Syntax);
        };
        let is_number = tag.len() <= 9 && tag.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = is_number && (tag == "0" || !tag.starts_with('0'));
        let number = tag.parse().ok().filter(|_| is_plain);
        let tag = number.ok_or_else(|| CryptoError::Tag(tag.into()))?;
        let name = suite;
        let suite = Suite::from_name(name).ok_or_else(|| CryptoError::Suite(name.into()))?;
        let has_old_name = !name.eq_ignore_ascii_case(suite.name());
        let is_key = |word: &&str| word.starts_with(';') || inline_key(word).is_some();
        let more_keys = words.clone().take_while(is_key);
        let words = words.skip_while(is_key);
        let keys = core::iter::once(keys).chain(more_keys).flat_map(|word| word.split(';'));
        let keys = keys.filter(|key| !key.is_empty()).take(MAX_KEYS + 1).map(Key::parse);
        let keys: Vec<Key> = keys.collect::<Option<_>>().ok_or(CryptoError::Key)?;
        if keys.is_empty() {
            return Err(CryptoError::Key);
        }
        if keys.len() > MAX_KEYS {
            return Err(CryptoError::Key);
        }
        let mut crypto = Self { tag, policy: Policy::new(suite), has_old_name, keys };
        for parameter in words {
            crypto
                .take_parameter(parameter)
                .ok_or_else(|| CryptoError::Parameter(parameter.into()))?;
        }
        // Whatever is wrong with the keys is found by using them.
        srtp::Receiver::new(&crypto.policy, crypto.master_keys()?)?;
        Ok(crypto)
    }

    fn take_parameter(&mut self, parameter: &str) -> Option<()> {
        let policy = &mut self.policy;
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        match (&*name.to_ascii_uppercase(), value) {
            ("UNENCRYPTED_SRTP", "") => policy.encrypt_rtp = false,
            ("UNENCRYPTED_SRTCP", "") => policy.encrypt_rtcp = false,
            ("UNAUTHENTICATED_SRTP", "") => policy.authenticate_rtp = false,
            ("KDR", rate) => {
                policy.key_derivation_rate = Some(rate.parse().ok().filter(|&rate| rate <= 24)?);
            }
            ("WSH", window) => {
                // A hint of how large a window the sender needs: too little or too much is put
                // right.
                let window: u64 = window.parse().ok()?;
                policy.replay_window =
                    window.clamp(Policy::MIN_REPLAY_WINDOW, Policy::MAX_REPLAY_WINDOW);
            }
            (PLUS, value) => policy.plus = parse_plus(value),
            // Forward error correction is not ours; all else may be passed over only if it says so.
            _ if parameter.starts_with('-') => {}
            _ => return None,
        }
        Some(())
    }

    /// The master keys, for [`srtp::Sender`] or [`srtp::Receiver`].
    ///
    /// # Errors
    /// A key's length is not that of the suite.
    pub fn master_keys(&self) -> Result<Vec<MasterKey>, PolicyError> {
        let key = |key: &Key| {
            let master = MasterKey::new(self.policy.suite, &key.bytes)?.with_mki(&key.mki);
            Ok(match key.lifetime {
                Some(packets) => master.with_lifetime(packets),
                None => master,
            })
        };
        self.keys.iter().map(key).collect()
    }
}

impl fmt::Display for Crypto {
    /// Writes the value of `a=crypto`, which is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Policy { suite, encrypt_rtp, encrypt_rtcp, authenticate_rtp, .. } = self.policy;
        let old_name = suite.old_name().filter(|_| self.has_old_name);
        write!(f, "{} {} ", self.tag, old_name.unwrap_or(suite.name()))?;
        for (place, key) in self.keys.iter().enumerate() {
            let separator = if place == 0 { "" } else { ";" };
            write!(f, "{separator}{key}")?;
        }
        if let Some(rate) = self.policy.key_derivation_rate {
            write!(f, " KDR={rate}")?;
        }
        for (is_absent, name) in [
            (!encrypt_rtcp, "UNENCRYPTED_SRTCP"),
            (!encrypt_rtp, "UNENCRYPTED_SRTP"),
            (!authenticate_rtp, "UNAUTHENTICATED_SRTP"),
        ] {
            if is_absent {
                write!(f, " {name}")?;
            }
        }
        if self.policy.replay_window != Policy::new(suite).replay_window {
            write!(f, " WSH={}", self.policy.replay_window)?;
        }
        if let Some(plus) = self.policy.plus {
            write!(f, " {PLUS}={}", Parameter(plus))?;
        }
        Ok(())
    }
}

impl Key {
    fn parse(parameter: &str) -> Option<Self> {
        let mut parts = inline_key(parameter)?.split('|');
        let bytes = Zeroizing::new(BASE64.decode(parts.next()?).ok()?);
        let mut parts = parts.filter(|part| !part.is_empty());
        let mut key = Self { bytes, lifetime: None, mki: Vec::new() };
        let mut rest = parts.next();
        if let Some(lifetime) = rest.filter(|part| !part.contains(':')) {
            key.lifetime = Some(match lifetime.strip_prefix("2^") {
                Some(power) => 1_u64.checked_shl(power.parse().ok()?)?,
                None => lifetime.parse().ok()?,
            });
            rest = parts.next();
        }
        if let Some(mki) = rest {
            let (value, length) = mki.split_once(':')?;
            key.mki = mki_from_decimal(value, length.parse().ok()?)?;
        }
        (parts.next().is_none() && key.lifetime != Some(0)).then_some(key)
    }
}

/// What is behind the key method `inline:`, the only one there is.
fn inline_key(parameter: &str) -> Option<&str> {
    let (method, key) = parameter.split_once(':')?;
    method.eq_ignore_ascii_case("inline").then_some(key)
}

/// An identifier that is written as a decimal number, in so many bytes, 1 to 128.
fn mki_from_decimal(value: &str, length: usize) -> Option<Vec<u8>> {
    if value.is_empty() || value.len() > MAX_MKI_DIGITS || !(1..=128).contains(&length) {
        return None;
    }
    let mut mki = alloc::vec![0; length];
    for digit in value.bytes() {
        let mut carry = char::from(digit).to_digit(10)?;
        for byte in mki.iter_mut().rev() {
            carry += u32::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            return None;
        }
    }
    Some(mki)
}

/// The decimal number that an identifier is written as.
fn mki_to_decimal(mki: &[u8]) -> String {
    let mut rest = mki.to_vec();
    let mut digits = Vec::new();
    while digits.is_empty() || rest.iter().any(|&byte| byte != 0) {
        let mut remainder = 0;
        for byte in &mut rest {
            let value = remainder << 8 | u32::from(*byte);
            *byte = (value / 10) as u8;
            remainder = value % 10;
        }
        digits.extend(char::from_digit(remainder, 10));
    }
    digits.iter().rev().collect()
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = Zeroizing::new(BASE64.encode(&*self.bytes));
        write!(f, "inline:{}", *text)?;
        match self.lifetime {
            Some(packets) if packets.is_power_of_two() => {
                write!(f, "|2^{}", packets.trailing_zeros())?;
            }
            Some(packets) => write!(f, "|{packets}")?,
            None => {}
        }
        if !self.mki.is_empty() {
            write!(f, "|{}:{}", mki_to_decimal(&self.mki), self.mki.len())?;
        }
        Ok(())
    }
}

/// The session parameter of SRTP+, which whoever does not know it passes over.
const PLUS: &str = "-SRTP-PLUS";

/// `None` for what we do not know, as if it were not there.
fn parse_plus(value: &str) -> Option<Plus> {
    let (scheme, place) = value.split_once('/')?;
    let scheme = match scheme.split_once(':').unwrap_or((scheme, "")) {
        ("1", bits) => Scheme::Sequence { key_bits: bits.parse().ok()? },
        ("2", "") => Scheme::Hash,
        ("3", numbers) => {
            let (numbers, bits) = numbers.split_once('x')?;
            Scheme::Chain { numbers: numbers.parse().ok()?, bits: bits.parse().ok()? }
        }
        ("4", "") => Scheme::Header,
        _ => return None,
    };
    let placement = match place.split_once(':').unwrap_or((place, "")) {
        ("end", "") => Placement::Trailer,
        ("ext", id) => Placement::Extension(id.parse().ok()?),
        _ => return None,
    };
    let plus = Plus { scheme, placement };
    // Both ends compare the parameter letter for letter: it has one form only.
    (plus.is_possible() && Parameter(plus).to_string() == value).then_some(plus)
}

/// The value of the session parameter.
struct Parameter(Plus);

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.scheme {
            Scheme::Sequence { key_bits } => write!(f, "1:{key_bits}")?,
            Scheme::Hash => write!(f, "2")?,
            Scheme::Chain { numbers, bits } => write!(f, "3:{numbers}x{bits}")?,
            Scheme::Header => write!(f, "4")?,
        }
        match self.0.placement {
            Placement::Trailer => write!(f, "/end"),
            Placement::Extension(id) => write!(f, "/ext:{id}"),
        }
    }
}

#[cfg(test)]
mod tests;
