//! What can be written into a message, and the numbers and addresses that stand in many places.

use crate::method::Method;
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Something that stands in a message. Typed values write themselves as their parsers read them;
/// bytes and text go out as they are; a number in decimal; a tuple as its parts, one after the
/// other.
///
/// ```
/// use sip::Emit;
///
/// let mut out = Vec::new();
/// ("<sip:", "alice", "@", "example.com", ">;tag=", 7_u32).emit(&mut out);
/// assert_eq!(out, b"<sip:alice@example.com>;tag=7");
/// ```
pub trait Emit {
    /// Appends it.
    fn emit(&self, out: &mut Vec<u8>);
}

impl<T: Emit + ?Sized> Emit for &T {
    fn emit(&self, out: &mut Vec<u8>) {
        (**self).emit(out);
    }
}

/// Nothing, for `None`.
impl<T: Emit> Emit for Option<T> {
    fn emit(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.emit(out);
        }
    }
}

impl Emit for [u8] {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl<const N: usize> Emit for [u8; N] {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Emit for Vec<u8> {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Emit for Cow<'_, [u8]> {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

impl Emit for str {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Emit for alloc::string::String {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Emit for u16 {
    fn emit(&self, out: &mut Vec<u8>) {
        write_decimal(out, (*self).into());
    }
}

impl Emit for u32 {
    fn emit(&self, out: &mut Vec<u8>) {
        write_decimal(out, (*self).into());
    }
}

impl Emit for u64 {
    fn emit(&self, out: &mut Vec<u8>) {
        write_decimal(out, *self);
    }
}

impl Emit for Method<'_> {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

macro_rules! emit_tuples {
    ($(($($part:ident)+))+) => {$(
        impl<$($part: Emit),+> Emit for ($($part,)+) {
            fn emit(&self, out: &mut Vec<u8>) {
                #[allow(non_snake_case)]
                let ($($part,)+) = self;
                $($part.emit(out);)+
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

/// Appends what `value` displays.
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

/// Appends an address, an IPv6 address without brackets.
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
    fn numbers_are_written_whole() {
        for number in [0, 7, 10, 65_535, u64::MAX] {
            let mut out = Vec::new();
            write_decimal(&mut out, number);
            assert_eq!(out, std::format!("{number}").into_bytes());
        }
    }

    #[test]
    fn addresses_stand_as_in_uris() {
        for text in ["192.0.2.1:5060", "[2001:db8::1]:5061", "0.0.0.0:0", "255.10.100.9:65535"] {
            let mut out = Vec::new();
            text.parse::<SocketAddr>().unwrap().emit(&mut out);
            assert_eq!(out, text.as_bytes());
        }
    }
}
