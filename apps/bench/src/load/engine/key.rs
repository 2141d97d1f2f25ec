//! The names by which messages find the operation they belong to, without a look-up table.

/// Which operation, in which life of its slot, and which of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The slot.
    pub(crate) slot: u32,
    /// Which operation of those that the slot has held.
    pub(crate) generation: u32,
    /// Which request of the operation; 0 where it does not matter.
    pub(crate) attempt: u8,
}

/// Octets of a key as text.
const LENGTH: usize = 26;

impl Key {
    /// Appends the key as hexadecimal digits: slot, generation, attempt, and `salt`, by which the
    /// messages of an earlier load are known.
    pub(crate) fn write(self, salt: u32, out: &mut Vec<u8>) {
        hex(out, self.slot, 8);
        hex(out, self.generation, 8);
        hex(out, self.attempt.into(), 2);
        hex(out, salt, 8);
    }

    /// The key that `text` begins with, if it is of this load.
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
