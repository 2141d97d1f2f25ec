//! Keys, decoded from a keyboard and from a terminal.

use core::fmt;
use pc_keyboard::layouts::Us104Key;
use pc_keyboard::{DecodedKey, HandleControl, KeyCode, PS2Keyboard, ScancodeSet1};

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A printable character of ASCII.
    Character(char),
    /// A letter, in lower case, with Control.
    Control(char),
    /// Enter.
    Enter,
    /// Deletes the last character.
    Backspace,
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    /// Arrow left.
    Left,
    /// Arrow right.
    Right,
    /// Page up.
    PageUp,
    /// Page down.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// F1.
    Help,
}

impl Key {
    fn from_char(letter: char) -> Option<Self> {
        match letter {
            '\r' | '\n' => Some(Self::Enter),
            '\x08' | '\x7f' => Some(Self::Backspace),
            ' '..='~' => Some(Self::Character(letter)),
            '\x01'..='\x1a' => Some(Self::Control((letter as u8 - 1 + b'a').into())),
            _ => None,
        }
    }
}

/// A PC keyboard with scan codes of set 1 and the layout of the United States.
pub struct Keyboard(PS2Keyboard<Us104Key, ScancodeSet1>);

impl fmt::Debug for Keyboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keyboard")
    }
}

impl Default for Keyboard {
    fn default() -> Self {
        let control = HandleControl::MapLettersToUnicode;
        Self(PS2Keyboard::new(ScancodeSet1::new(), Us104Key, control))
    }
}

impl Keyboard {
    /// Decodes a byte. Returns the key it completes.
    pub fn add(&mut self, byte: u8) -> Option<Key> {
        // A byte that is not a scan code is a response of the keyboard.
        let event = self.0.add_byte(byte).ok()??;
        match self.0.process_keyevent(event)? {
            DecodedKey::Unicode(letter) => Key::from_char(letter),
            DecodedKey::RawKey(code) => Some(match code {
                KeyCode::ArrowUp => Key::Up,
                KeyCode::ArrowDown => Key::Down,
                KeyCode::ArrowLeft => Key::Left,
                KeyCode::ArrowRight => Key::Right,
                KeyCode::PageUp => Key::PageUp,
                KeyCode::PageDown => Key::PageDown,
                KeyCode::Home => Key::Home,
                KeyCode::End => Key::End,
                KeyCode::F1 => Key::Help,
                _ => return None,
            }),
        }
    }
}

/// Decoder of a terminal's input: characters and escape sequences.
#[derive(Debug, Default)]
pub struct Sequences(State);

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Character,
    /// After an escape.
    Escape,
    /// In a sequence, with its number so far.
    Sequence(u8),
}

impl Sequences {
    /// Decodes a byte. Returns the key it completes.
    pub fn add(&mut self, byte: u8) -> Option<Key> {
        let state = core::mem::take(&mut self.0);
        let number = match (state, byte) {
            (_, 0x1b) => {
                self.0 = State::Escape;
                return None;
            }
            (State::Escape, b'[' | b'O') => {
                self.0 = State::Sequence(0);
                return None;
            }
            (State::Character | State::Escape, _) => return Key::from_char(byte.into()),
            (State::Sequence(number), _) => number,
        };
        match (byte, number) {
            (b'0'..=b'9', _) => {
                let number = number.saturating_mul(10).saturating_add(byte - b'0');
                self.0 = State::Sequence(number);
                return None;
            }
            // The following modifier is ignored.
            (b';', _) => {
                self.0 = State::Sequence(number);
                return None;
            }
            _ => {}
        }
        Some(match (byte, number) {
            (b'A', _) => Key::Up,
            (b'B', _) => Key::Down,
            (b'C', _) => Key::Right,
            (b'D', _) => Key::Left,
            (b'H', _) | (b'~', 1 | 7) => Key::Home,
            (b'F', _) | (b'~', 4 | 8) => Key::End,
            (b'~', 5) => Key::PageUp,
            (b'~', 6) => Key::PageDown,
            (b'P', _) | (b'~', 11) => Key::Help,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_terminal_sends_letters_and_sequences() {
        let mut sequences = Sequences::default();
        let sent = b"2W\r\x7f\x1b[A\x1bOB\x1b[C\x1b[D\x1b[5~\x1b[6~\x1b[H\x1b[4~\x1bOP\x1b[99~\x0c\0\xff\x1bq\x1b\x1b[B";
        let keys: Vec<_> = sent.iter().filter_map(|&byte| sequences.add(byte)).collect();
        let expected = [
            Key::Character('2'),
            Key::Character('W'),
            Key::Enter,
            Key::Backspace,
            Key::Up,
            Key::Down,
            Key::Right,
            Key::Left,
            Key::PageUp,
            Key::PageDown,
            Key::Home,
            Key::End,
            Key::Help,
            Key::Control('l'),
            Key::Character('q'),
            Key::Down,
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_keyboard_sends_codes_when_keys_go_down_and_up() {
        let mut keyboard = Keyboard::default();
        // Two, Page Down, question mark with shift, W with caps lock, F1, a response.
        let sent = [
            &[0x03, 0x83, 0xe0, 0x51, 0xe0, 0xd1, 0x2a, 0x35, 0xb5, 0xaa][..],
            &[0x3a, 0xba, 0x11, 0x91, 0x3b, 0xbb, 0xfa, 0x39, 0xb9],
        ];
        let keys: Vec<_> =
            sent.concat().into_iter().filter_map(|byte| keyboard.add(byte)).collect();
        let expected = [
            Key::Character('2'),
            Key::PageDown,
            Key::Character('?'),
            Key::Character('W'),
            Key::Help,
            Key::Character(' '),
        ];
        assert_eq!(keys, expected);
    }

    #[test]
    fn any_bytes_are_taken_in() {
        let (mut sequences, mut keyboard) = (Sequences::default(), Keyboard::default());
        let mut number = 1_u32;
        for _ in 0..100_000 {
            number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let byte = (number >> 24) as u8;
            sequences.add(byte);
            keyboard.add(byte);
        }
    }
}
