//! Serialization of values into messages, and of common numbers and addresses.

use crate::method::Method;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::IpAddr;

/// A value that can be written into a message. Typed values are written in the form that their
/// parsers read, bytes and text unchanged, numbers in decimal, and tuples as the concatenation of
/// their parts.
///
/// ```
/// use barebell_sip::Encode;
///
/// let mut out = Vec::new();
/// ("<sip:", "alice", "@", "example.com", ">;tag=", 7_u32).encode(&mut out);
/// assert_eq!(out, b"<sip:alice@example.com>;tag=7");
/// ```
pub trait Encode {
    /// Appends the value.
    fn encode(&self, out: &mut Vec<u8>);
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, out: &mut Vec<u8>) {
        (**self).encode(out);
    }
}

/// `None` is empty.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.encode(out);
        }
    }
}

impl Encode for [u8] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Encode for Vec<u8> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Encode for Cow<'_, [u8]> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Encode for str {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Encode for alloc::string::String {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Encode for u16 {
    fn encode(&self, out: &mut Vec<u8>) {
        write_decimal(out, (*self).into());
    }
}

impl Encode for u32 {
    fn encode(&self, out: &mut Vec<u8>) {
        write_decimal(out, (*self).into());
    }
}

impl Encode for u64 {
    fn encode(&self, out: &mut Vec<u8>) {
        write_decimal(out, *self);
    }
}

impl Encode for Method<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

macro_rules! emit_tuples {
    ($(($($part:ident)+))+) => {$(
        impl<$($part: Encode),+> Encode for ($($part,)+) {
            fn encode(&self, out: &mut Vec<u8>) {
                #[allow(non_snake_case)]
                let ($($part,)+) = self;
                $($part.encode(out);)+
            }
        }
    )+};
}

emit_tuples! {
    (A B)
    (A B C)
    (A B C D)
    (A B C D E)
    (A B C D E F)
    (A B C D E F G)
    (A B C D E F G H)
}

/// Appends the `Display` output of `value`.
pub(crate) fn write_display(out: &mut Vec<u8>, value: &impl core::fmt::Display) {
    struct Bytes<'o>(&'o mut Vec<u8>);
    impl core::fmt::Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    // Writing to a vector does not fail.
    let _ = core::fmt::Write::write_fmt(&mut Bytes(out), format_args!("{value}"));
}

/// Appends an IP address. An IPv6 address has no brackets.
pub fn write_ip(address: IpAddr, out: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            let mut text = [b'.'; 16];
            let mut at = 0;
            for octet in address.octets() {
                for (least, place) in [(100, 100), (10, 10), (0, 1)] {
                    if octet >= least {
                        text[at] = b'0' + octet / place % 10;
                        at += 1;
                    }
                }
                at += 1;
            }
            out.extend_from_slice(&text[..at - 1]);
        }
        IpAddr::V6(address) => write_display(out, &address),
    }
}

/// Appends `number` in decimal.
pub fn write_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::SocketAddr;

    #[test]
    fn numbers_are_written_completely() {
        for number in [0, 7, 10, 65_535, u64::MAX] {
            let mut out = Vec::new();
            write_decimal(&mut out, number);
            assert_eq!(out, std::format!("{number}").into_bytes());
        }
    }

    #[test]
    fn addresses_are_written_as_in_uris() {
        for text in ["192.0.2.1:5060", "[2001:db8::1]:5061", "0.0.0.0:0", "255.10.100.9:65535"] {
            let mut out = Vec::new();
            text.parse::<SocketAddr>().unwrap().encode(&mut out);
            assert_eq!(out, text.as_bytes());
        }
    }
}
