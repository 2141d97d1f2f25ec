//! Regular expressions of POSIX (IEEE Std 1003.1, extended), as scenario files have them.

use regex::bytes::{Regex, RegexBuilder};

/// The most memory of a compiled expression, in octets.
const LARGEST: usize = 4 << 20;

/// Compiles an extended regular expression of POSIX.
///
/// # Errors
/// A message if the expression is invalid.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(text))
        .unicode(false)
        .dot_matches_new_line(true)
        .size_limit(LARGEST)
        .build()
        .map_err(|error| {
            let error = error.to_string();
            let reason = error.lines().last().unwrap_or_default();
            format!("the regular expression {text} cannot be used: {}", reason.trim())
        })
}

/// Translates an expression: inside of brackets `[`, `\`, `&`, `~` and `-` have other meanings in
/// Rust, and a brace that begins no repetition is a character.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '[' => bracket(rest, &mut out),
            '{' if !is_repetition(rest) => {
                out.push_str("\\{");
                1
            }
            '\\' => {
                let escaped = rest[1..].chars().next();
                match escaped {
                    // Letters have meanings in Rust which POSIX does not give them.
                    Some(letter)
                        if letter.is_ascii_alphanumeric() && !"wWsSbB".contains(letter) =>
                    {
                        out.push(letter);
                    }
                    Some(other) => {
                        out.push('\\');
                        out.push(other);
                    }
                    None => out.push('\\'),
                }
                1 + escaped.map_or(0, char::len_utf8)
            }
            other => {
                out.push(other);
                other.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    out
}

fn is_repetition(text: &str) -> bool {
    text[1..].split_once('}').is_some_and(|(count, _)| {
        count.starts_with(|first: char| first.is_ascii_digit())
            && count.chars().all(|character| character.is_ascii_digit() || character == ',')
    })
}

/// Writes the bracket expression at the start of `text`, and returns its length.
fn bracket(text: &str, out: &mut String) -> usize {
    out.push('[');
    let mut at = 1;
    if text[at..].starts_with('^') {
        out.push('^');
        at += 1;
    }
    let first = at;
    while let Some(character) = text[at..].chars().next() {
        let class = text[at..].starts_with("[:").then(|| text[at..].find(":]")).flatten();
        match (character, class) {
            (']', _) if at > first => {
                out.push(']');
                return at + 1;
            }
            (_, Some(end)) => {
                out.push_str(&text[at..at + end + 2]);
                at += end + 2;
                continue;
            }
            ('-', None) if at == first || text[at + 1..].starts_with(']') => out.push_str("\\-"),
            ('[' | ']' | '\\' | '&' | '~' | '^', None) => {
                out.push('\\');
                out.push(character);
            }
            _ => out.push(character),
        }
        at += character.len_utf8();
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_posix_match() {
        for (pattern, text, found) in [
            ("([0-9]{1,3}\\.){3}[0-9]{1,3}", "a 127.0.0.1:5", Some("127.0.0.1")),
            ("sip:([[:alnum:]_]*)@", "<sip:a_1@x>", Some("sip:a_1@")),
            ("[^]]+", "]ab]", Some("ab")),
            ("[]x]+", "ax]b", Some("x]")),
            ("[[]", "a[", Some("[")),
            (r#"username=\"([^\"]*)\""#, "username=\"joe\"", Some("username=\"joe\"")),
            (r"[\.]", "a\\", Some("\\")),
            ("a&&b|[a&&b]", "&", Some("&")),
            ("[a-]+", "b-a", Some("-a")),
            ("a.b", "a\nb", Some("a\nb")),
            ("{x}", "{x}", Some("{x}")),
            ("^b", "a\nb", None),
        ] {
            let regex = compile(pattern).unwrap();
            let match_of = regex.find(text.as_bytes());
            let match_of = match_of.map(|found| std::str::from_utf8(found.as_bytes()).unwrap());
            assert_eq!(match_of, found, "{pattern}");
        }
        assert!(compile("(").unwrap_err().contains("cannot be used"));
    }
}
