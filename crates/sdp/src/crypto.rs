//! The crypto attribute of SDES (RFC 4568): SRTP keys in clear text within protected signalling.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use base64::Engine;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use core::error::Error;
use core::fmt;
use srtp::plus::{Placement, Scheme, SrtpPlus};
use srtp::{MasterKey, Policy, PolicyError, Suite};
use zeroize::Zeroizing;

/// Writes padding and accepts missing padding, which some phones omit.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The maximum number of keys in an attribute.
const MAX_KEYS: usize = 16;

/// The number of decimal digits of the largest MKI, which has 128 bytes.
const MAX_MKI_DIGITS: usize = 309;

/// The reason why an attribute is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CryptoError {
    /// The value is not `<tag> <suite> <key parameters>`.
    Syntax,
    /// The tag is not a number of at most nine digits without leading zeros.
    Tag(String),
    /// The suite is not supported.
    Suite(String),
    /// A key parameter is not `inline:<key>[|<lifetime>][|<MKI>:<length>]`, or there are more than
    /// 16.
    Key,
    /// The length of a key does not match its suite, or the MKIs are inconsistent.
    Policy(PolicyError),
    /// A session parameter is invalid, or mandatory and unknown.
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
                write!(f, "session parameter {parameter:?} in a=crypto is invalid or unknown")
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

/// A crypto attribute: the protection of the media that its author sends.
#[derive(Clone, Debug)]
pub struct CryptoAttribute {
    /// The tag, unique within the medium.
    pub tag: u32,
    /// The suite and the session parameters.
    pub policy: Policy,
    /// True if the attribute uses the [old name](srtp::Suite::legacy_name) of the suite, which an
    /// answer has to repeat.
    pub has_old_name: bool,
    /// The master keys, at least one.
    pub keys: Vec<InlineKey>,
}

/// A master key of the attribute.
#[derive(Clone)]
pub struct InlineKey {
    /// The master key followed by the master salt.
    pub bytes: Zeroizing<Vec<u8>>,
    /// The lifetime in packets, for RTP and for RTCP each.
    pub lifetime: Option<u64>,
    /// The MKI, empty if absent.
    pub mki: Vec<u8>,
}

impl fmt::Debug for InlineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("mki", &self.mki).finish_non_exhaustive()
    }
}

impl CryptoAttribute {
    /// Creates an attribute with one key, which has to be random and used for nothing else.
    ///
    /// # Errors
    /// The length of the key does not match the suite.
    pub fn new(tag: u32, policy: Policy, key_and_salt: &[u8]) -> Result<Self, PolicyError> {
        MasterKey::new(policy.suite, key_and_salt)?;
        let bytes = Zeroizing::new(key_and_salt.to_vec());
        let keys = [InlineKey { bytes, lifetime: None, mki: Vec::new() }].into();
        Ok(Self { tag, policy, has_old_name: false, keys })
    }

    /// Parses the value of `a=crypto`. Names and `inline:` are case-insensitive. Spaces around the
    /// semicolons between keys, missing base64 padding and an empty field after `|` are accepted.
    ///
    /// # Errors
    /// See [`CryptoError`]. A rejected attribute is to be ignored (RFC 4568 section 7.1.2).
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
        let keys = keys.filter(|key| !key.is_empty()).take(MAX_KEYS + 1).map(InlineKey::parse);
        let keys: Vec<InlineKey> = keys.collect::<Option<_>>().ok_or(CryptoError::Key)?;
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
        // Constructing a receiver validates the keys.
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
                // WSH is a hint of the window size that the sender needs. It is clamped to the
                // supported range.
                let window: u64 = window.parse().ok()?;
                policy.replay_window =
                    window.clamp(Policy::MIN_REPLAY_WINDOW, Policy::MAX_REPLAY_WINDOW);
            }
            (PLUS, value) => policy.plus = parse_plus(value),
            // FEC is not supported. Only a parameter with a leading `-` may be ignored.
            _ if parameter.starts_with('-') => {}
            _ => return None,
        }
        Some(())
    }

    /// The master keys, for [`srtp::Sender`] or [`srtp::Receiver`].
    ///
    /// # Errors
    /// The length of a key does not match the suite.
    pub fn master_keys(&self) -> Result<Vec<MasterKey>, PolicyError> {
        let key = |key: &InlineKey| {
            let master = MasterKey::new(self.policy.suite, &key.bytes)?.with_mki(&key.mki);
            Ok(match key.lifetime {
                Some(packets) => master.with_lifetime(packets),
                None => master,
            })
        };
        self.keys.iter().map(key).collect()
    }
}

impl fmt::Display for CryptoAttribute {
    /// Writes the value of `a=crypto`, which contains the secret key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Policy { suite, encrypt_rtp, encrypt_rtcp, authenticate_rtp, .. } = self.policy;
        let old_name = suite.legacy_name().filter(|_| self.has_old_name);
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

impl InlineKey {
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

/// The value of the key method `inline:`, the only one defined.
fn inline_key(parameter: &str) -> Option<&str> {
    let (method, key) = parameter.split_once(':')?;
    method.eq_ignore_ascii_case("inline").then_some(key)
}

/// Parses an MKI from a decimal number, to `length` bytes, 1 to 128.
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

/// Formats an MKI as a decimal number.
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

impl fmt::Display for InlineKey {
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

/// The session parameter of SRTP+. The `-` makes it optional.
const PLUS: &str = "-SRTP-PLUS";

/// Returns `None` for unknown values, as if the parameter were absent.
fn parse_plus(value: &str) -> Option<SrtpPlus> {
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
    let plus = SrtpPlus { scheme, placement };
    // Both ends compare the parameter literally, so only the canonical form is accepted.
    (plus.is_valid() && Parameter(plus).to_string() == value).then_some(plus)
}

/// The value of the SRTP+ session parameter.
struct Parameter(SrtpPlus);

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
