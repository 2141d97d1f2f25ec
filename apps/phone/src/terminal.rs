//! Terminal output: every line outside of the full-screen interface is printed here. Peers choose
//! much of the text, so control characters are never written.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::Write as _;

/// The replacement for characters that are not printed.
const REPLACEMENT: char = '\u{fffd}';

/// Returns true if `c` affects a terminal or the display of a log: control characters (C0, DEL,
/// C1), line separators, bidirectional controls, and invisible characters that disguise a name.
const fn is_obeyed(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// `text` as one printable line: a tab becomes a space, and other characters that affect a terminal
/// are replaced, line ends included.
pub(crate) fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' => ' ',
        c if is_obeyed(c) => REPLACEMENT,
        c => c,
    };
    text.chars().map(shown).collect()
}

/// `text` as printable lines; see [`printable`]. Line ends are CRLF or LF.
pub(crate) fn printable_lines(text: &str) -> String {
    text.lines().map(printable).collect::<Vec<_>>().join("\n")
}

/// A JSON line with the characters that affect a terminal escaped. A JSON parser gets the same
/// text.
fn escaped(json: &str) -> Cow<'_, str> {
    if !json.contains(is_obeyed) {
        return json.into();
    }
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        if !is_obeyed(c) {
            line.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string does not fail.
            let _ = write!(line, "\\u{unit:04x}");
        }
    }
    line.into()
}

/// Prints a line of text to standard error.
pub(crate) fn print(text: &impl Display) {
    print_block(&printable(&text.to_string()));
}

/// Prints a line with the program's name to standard error.
pub(crate) fn say(text: &impl Display) {
    print(&format_args!("barebell-phone: {text}"));
}

/// Prints lines that [`printable_lines`] returned to standard error.
pub(crate) fn print_block(text: &str) {
    // A closed output is not an error: its reader is gone.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a line of JSON to standard output, or to standard error.
pub(crate) fn print_json(line: &str, to_error: bool) {
    let line = escaped(line);
    if to_error {
        return print_block(&line);
    }
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Prints a line of text to standard output.
pub(crate) fn print_result(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", printable(text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_has_no_control_characters() {
        let text = "\x1b[2Ja\u{9b}31m\r\n\tb\u{202e}c\u{7f}d\u{200b}e\u{2066}f\u{2028}g\u{e0041}";
        assert_eq!(printable(text), "�[2Ja�31m�� b�c�d�e�f�g�");
        assert_eq!(printable("日本語 é Ünï שלום"), "日本語 é Ünï שלום");
        assert_eq!(printable_lines("a\r\nb\rc\n\x07d"), "a\nb�c\n�d");
    }

    #[test]
    fn json_says_the_same_when_it_is_escaped() {
        let text = "\u{9b}31m\u{202e}\u{e0041}\x1b\n\"é";
        let json = serde_json::to_string(text).unwrap();
        let line = escaped(&json);
        assert!(line.contains(r"\u009b31m\u202e\udb40\udc41") && line.contains('é'), "{line}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }

    proptest! {
        #[test]
        fn whatever_a_peer_says_is_one_line(text in any::<String>()) {
            let line = printable(&text);
            prop_assert!(!line.contains(char::is_control) && line.lines().count() <= 1);
            let json = serde_json::to_string(&text).unwrap();
            let line = escaped(&json);
            prop_assert!(!line.contains(is_obeyed));
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }
    }
}
