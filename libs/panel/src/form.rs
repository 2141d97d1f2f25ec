//! Fields of forms and queries (`application/x-www-form-urlencoded`), and segments of paths.

use std::sync::Arc;

/// The fields of a form or a query, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    fields: Vec<(String, String)>,
    /// The file or the text that was uploaded.
    pub(crate) content: Arc<[u8]>,
}

/// The maximum number of fields.
const MAX_FIELDS: usize = 64;

impl Form {
    /// The fields in `text`. `None` if it has too many, or one is not UTF-8 or has a control
    /// character.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let fields: Vec<_> = pairs
            .take(MAX_FIELDS + 1)
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((decoded(name, true)?, decoded(value, true)?))
            })
            .collect::<Option<_>>()?;
        Self::new(fields, Arc::default())
    }

    /// A form of these fields. `None` if there are too many.
    pub(crate) fn new(fields: Vec<(String, String)>, content: Arc<[u8]>) -> Option<Self> {
        (fields.len() <= MAX_FIELDS).then_some(Self { fields, content })
    }

    /// The first value of the field, without space at its ends; an empty text without such a field.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.raw(name).trim()
    }

    /// The names of the fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| &**name)
    }

    /// The first value of the field as it is, such as a password.
    pub(crate) fn raw(&self, name: &str) -> &str {
        let mut fields = self.fields.iter();
        fields.find_map(|(found, value)| (found == name).then_some(&**value)).unwrap_or_default()
    }

    /// Returns true if there is such a field, even without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(found, _)| found == name)
    }

    /// The value of the field, if it is not empty.
    pub(crate) fn some(&self, name: &str) -> Option<&str> {
        Some(self.get(name)).filter(|value| !value.is_empty())
    }
}

/// `text` without percent encoding. `None` if it is not UTF-8, or has a control character.
pub(crate) fn decoded(text: &str, has_plus: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            b'+' if has_plus => b' ',
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// `text` in percent encoding, for a path or a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                encoded.push(char::from(byte));
            }
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// A query of the fields that are not empty, with its `?`.
#[must_use]
pub fn query(fields: &[(&str, &str)]) -> String {
    let used = fields.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<_> = used.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded() {
        let form = Form::parse("a=1+2%203&name=%C3%BC%26&a=4&empty=").unwrap();
        assert_eq!((form.get("a"), form.get("name"), form.get("other")), ("1 2 3", "ü&", ""));
        assert_eq!(form.some("empty"), None);
        for bad in ["a=%", "a=%f", "a=%zz", "a=%ff", "a=%00", "a=%0d%0aSet-Cookie:x"] {
            assert_eq!(Form::parse(bad), None, "{bad}");
        }
        assert_eq!(Form::parse(&"a=1&".repeat(MAX_FIELDS + 1)), None);
    }

    #[test]
    fn encoded_text_is_decoded_to_itself() {
        for text in ["a b+c&d=e/..?#%", "ü@x.com", "\"<script>"] {
            let encoded = encoded(text);
            assert!(!encoded.contains(['/', '&', '<', '"', ' ']), "{encoded}");
            assert_eq!(decoded(&encoded, false).unwrap(), text);
        }
        assert_eq!(query(&[("a", ""), ("b", "1 2")]), "?b=1%202");
    }
}
