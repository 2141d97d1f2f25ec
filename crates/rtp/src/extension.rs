//! RTP header extensions and their elements (RFC 8285).

use crate::WriteError;
use core::ops::Range;

/// The profile of an extension of elements with a header of one byte (RFC 8285 section 4.2).
pub const ONE_BYTE: u16 = 0xbede;

/// The profile of an extension of elements with a header of two bytes, with its lowest four bits
/// ("appbits") zero (RFC 8285 section 4.3).
pub const TWO_BYTES: u16 = 0x1000;

/// A header extension (RFC 3550 section 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// The profile, which defines the format of the data.
    pub profile: u16,
    /// The data, a multiple of four bytes.
    pub data: &'a [u8],
}

/// The element format of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementFormat {
    /// Identifiers 1 to 14, 1 to 16 bytes of data.
    OneByte,
    /// Identifiers 1 to 255, up to 255 bytes of data.
    TwoBytes,
}

impl ElementFormat {
    /// Returns the element format of a profile, if it is one of RFC 8285.
    #[must_use]
    pub fn of(profile: u16) -> Option<Self> {
        match profile {
            ONE_BYTE => Some(Self::OneByte),
            _ if profile & 0xfff0 == TWO_BYTES => Some(Self::TwoBytes),
            _ => None,
        }
    }

    /// Returns the encoded length of an element in bytes.
    ///
    /// # Errors
    /// [`WriteError::Element`] if this format has no such element.
    pub fn element_length(self, id: u8, length: usize) -> Result<usize, WriteError> {
        match (self, id, length) {
            (Self::OneByte, 1..=14, 1..=16) => Ok(1 + length),
            (Self::TwoBytes, 1.., 0..=255) => Ok(2 + length),
            _ => Err(WriteError::Element),
        }
    }

    /// Writes an element to the beginning of `buffer` and returns its length.
    ///
    /// # Errors
    /// [`WriteError`] if this format has no such element, or the buffer is too short.
    pub fn write_element(
        self,
        id: u8,
        data: &[u8],
        buffer: &mut [u8],
    ) -> Result<usize, WriteError> {
        let length = self.element_length(id, data.len())?;
        let place = buffer.get_mut(..length).ok_or(WriteError::BufferTooShort)?;
        let (head, body) = place.split_at_mut(length - data.len());
        // `element_length` has checked that both fit.
        match self {
            Self::OneByte => head[0] = id << 4 | (data.len() - 1) as u8,
            Self::TwoBytes => head.copy_from_slice(&[id, data.len() as u8]),
        }
        body.copy_from_slice(data);
        Ok(length)
    }
}

/// An element of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// The identifier that the session has assigned (`a=extmap`).
    pub id: u8,
    /// The data of the element.
    pub data: &'a [u8],
}

impl ElementFormat {
    /// Splits off the first element and the padding before it, and returns the bytes after it.
    /// Returns `None` at the end of the elements or if the element is truncated.
    fn split(self, rest: &[u8]) -> Option<(Element<'_>, &[u8])> {
        // Zero bytes are padding between elements and after them.
        let rest = &rest[rest.iter().position(|&byte| byte != 0)?..];
        let (id, length, head) = match self {
            // ID 15 ends the elements, and so does ID 0 with a length.
            Self::OneByte if matches!(rest[0] >> 4, 0 | 15) => return None,
            Self::OneByte => (rest[0] >> 4, usize::from(rest[0] & 0x0f) + 1, 1),
            Self::TwoBytes => (rest[0], usize::from(*rest.get(1)?), 2),
        };
        let data = rest.get(head..head + length)?;
        Some((Element { id, data }, &rest[head + length..]))
    }
}

impl<'a> Extension<'a> {
    /// The elements up to the first truncated one. Empty if the profile is not one of RFC 8285.
    pub fn elements(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        self.elements_with_rest().map(|(element, _)| element)
    }

    /// Returns the range within the data of the first element with this identifier.
    #[must_use]
    pub fn position(&self, id: u8) -> Option<Range<usize>> {
        let (element, rest) = self.elements_with_rest().find(|(element, _)| element.id == id)?;
        let end = self.data.len() - rest.len();
        Some(end - element.data.len()..end)
    }

    /// Returns true if the extension holds only elements and padding, so that an element appended
    /// behind them is found.
    #[must_use]
    pub fn holds_only_elements(&self) -> bool {
        let rest = self.elements_with_rest().last().map_or(self.data, |(_, rest)| rest);
        ElementFormat::of(self.profile).is_some() && rest.iter().all(|&byte| byte == 0)
    }

    fn elements_with_rest(&self) -> impl Iterator<Item = (Element<'a>, &'a [u8])> + use<'a> {
        let form = ElementFormat::of(self.profile);
        let mut rest = self.data;
        core::iter::from_fn(move || {
            let (element, after) = form?.split(rest)?;
            rest = after;
            Some((element, after))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn elements(profile: u16, data: &[u8]) -> Vec<(u8, &[u8])> {
        Extension { profile, data }.elements().map(|element| (element.id, element.data)).collect()
    }

    #[test]
    fn elements_with_one_byte() {
        // The example of RFC 8285 section 4.2.
        let data = b"\x10a\x21bc\0\0\x33defg";
        let expected: [(u8, &[u8]); 3] = [(1, b"a"), (2, b"bc"), (3, b"defg")];
        assert_eq!(elements(ONE_BYTE, data), expected);
        assert_eq!(elements(ONE_BYTE, b"\x10a\xf0\x10b\0"), [(1, &b"a"[..])]);
        assert_eq!(elements(ONE_BYTE, b"\x10a\x01\x10b\0\0\0"), [(1, &b"a"[..])]);
        assert_eq!(elements(ONE_BYTE, b"\x10a\x25bc"), [(1, &b"a"[..])]);
        let whole = |data| Extension { profile: ONE_BYTE, data }.holds_only_elements();
        assert!(whole(data) && whole(b"") && whole(b"\0\0\0\0"));
        assert!(!whole(b"\x10a\xf0\0") && !whole(b"\x10a\x25b") && !whole(b"\xf0\0\0\0"));
        let extension = Extension { profile: ONE_BYTE, data };
        assert_eq!((extension.position(2), extension.position(4)), (Some(3..5), None));
    }

    #[test]
    fn elements_with_two_bytes() {
        let data = b"\x01\0\x02\x01b\0\xff\x03cde\0";
        let expected: [(u8, &[u8]); 3] = [(1, b""), (2, b"b"), (255, b"cde")];
        assert_eq!(elements(0x1005, data), expected);
        assert_eq!(elements(TWO_BYTES, b"\0\0\0\x01"), []);
        assert_eq!(elements(0x2000, data), []);
    }

    #[test]
    fn an_element_that_does_not_fit_the_form_is_rejected() {
        let mut buffer = [0; 300];
        for (form, id, length, expected) in [
            (ElementFormat::OneByte, 0, 1, Err(WriteError::Element)),
            (ElementFormat::OneByte, 15, 1, Err(WriteError::Element)),
            (ElementFormat::OneByte, 14, 0, Err(WriteError::Element)),
            (ElementFormat::OneByte, 14, 16, Ok(17)),
            (ElementFormat::OneByte, 14, 17, Err(WriteError::Element)),
            (ElementFormat::TwoBytes, 0, 1, Err(WriteError::Element)),
            (ElementFormat::TwoBytes, 255, 255, Ok(257)),
            (ElementFormat::TwoBytes, 1, 256, Err(WriteError::Element)),
        ] {
            assert_eq!(form.write_element(id, &[7; 256][..length], &mut buffer), expected);
        }
        let written = ElementFormat::OneByte.write_element(1, &[7; 4], &mut buffer[..4]);
        assert_eq!(written, Err(WriteError::BufferTooShort));
    }

    proptest! {
        #[test]
        fn written_elements_are_parsed(
            wanted in proptest::collection::vec((1u8..15, proptest::collection::vec(any::<u8>(), 1..16)), 0..9),
            two_bytes: bool,
        ) {
            let (form, profile) =
                if two_bytes { (ElementFormat::TwoBytes, TWO_BYTES) } else { (ElementFormat::OneByte, ONE_BYTE) };
            let mut buffer = [0; 256];
            let mut length = 0;
            for (id, data) in &wanted {
                length += form.write_element(*id, data, &mut buffer[length..]).unwrap();
            }
            let read = elements(profile, &buffer);
            prop_assert_eq!(read.len(), wanted.len());
            for (read, (id, data)) in read.iter().zip(&wanted) {
                prop_assert_eq!(*read, (*id, &data[..]));
            }
        }

        #[test]
        fn arbitrary_bytes_do_not_panic(profile in prop_oneof![Just(ONE_BYTE), Just(TWO_BYTES)], data: Vec<u8>) {
            elements(profile, &data);
        }
    }
}
