//! The keys in messages that identify their operation, without a look-up table.

/// The key of a request: slot, generation of the slot, and request of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The index of the slot.
    pub(crate) slot: u32,
    /// The generation of the slot: the count of operations that it has held.
    pub(crate) generation: u32,
    /// The number of the request in the operation; 0 where it does not matter.
    pub(crate) attempt: u8,
}

/// The length of a key as text, in octets.
const LENGTH: usize = 26;

impl Key {
    /// Appends the key as hexadecimal digits: slot, generation, attempt and `salt`, which
    /// distinguishes the load from earlier ones.
    pub(crate) fn write(self, salt: u32, out: &mut Vec<u8>) {
        hex(out, self.slot, 8);
        hex(out, self.generation, 8);
        hex(out, self.attempt.into(), 2);
        hex(out, salt, 8);
    }

    /// Returns the key at the start of `text`, if it belongs to this load.
    pub(crate) fn parse(text: &[u8], salt: u32) -> Option<Self> {
        let text = text.get(..LENGTH)?;
        let key = Self {
            slot: number(&text[..8])?,
            generation: number(&text[8..16])?,
            attempt: u8::try_from(number(&text[16..18])?).ok()?,
        };
        (number(&text[18..])? == salt).then_some(key)
    }
}

/// Appends the last `digits` hexadecimal digits of `number`.
pub(crate) fn hex(out: &mut Vec<u8>, number: u32, digits: u32) {
    for place in (0..digits).rev() {
        let digit = (number >> (4 * place) & 15) as u8;
        out.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
    }
}

fn number(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |number, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u32::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let key = Key { slot: 0x00ab_cdef, generation: u32::MAX, attempt: 7 };
        let mut text = Vec::new();
        key.write(99, &mut text);
        assert_eq!(text.len(), LENGTH);
        text.extend_from_slice(b"@host");
        assert_eq!(Key::parse(&text, 99), Some(key));
        assert_eq!(Key::parse(&text, 98), None, "of another load");
        assert_eq!(Key::parse(&text[..25], 99), None);
        assert_eq!(Key::parse(b"00ABCDEF0000000000000000063", 99), None);
    }
}
