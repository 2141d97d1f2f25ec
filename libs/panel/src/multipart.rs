//! The content of a form with a file (`multipart/form-data`, RFC 7578).

use crate::form::Form;
use std::sync::Arc;

/// The maximum length of a boundary in bytes (RFC 2046 section 5.1.1).
const MAX_BOUNDARY: usize = 70;
/// The maximum number of parts.
const MAX_PARTS: usize = 16;
/// The maximum length of the header fields of a part in bytes.
const MAX_HEAD: usize = 1024;
/// The maximum length of the value of a field in bytes.
const MAX_VALUE: usize = 4096;
/// The name of the field for a text of several lines, which is uploaded content as a file is.
pub(crate) const TEXT: &str = "text";

/// The form in `body`. Its content is the first file, or the first [`TEXT`], that is not empty.
/// `None` if it is malformed, or another field is not UTF-8 or has a control character.
pub(crate) fn form(content_type: &str, body: &[u8]) -> Option<Form> {
    let boundary = boundary(content_type)?;
    let delimiter = format!("\r\n--{boundary}");
    // The first delimiter may have no line before it.
    let mut rest = body.strip_prefix(&delimiter.as_bytes()[2..])?;
    let (mut fields, mut content) = (Vec::new(), None);
    for _ in 0..=MAX_PARTS {
        if let Some(end) = rest.strip_prefix(b"--") {
            let is_end = end.is_empty() || end == b"\r\n";
            let content = content.map_or_else(Arc::default, Arc::from);
            return is_end.then(|| Form::new(fields, content))?;
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let head_end = find(&rest[..rest.len().min(MAX_HEAD)], b"\r\n\r\n")?;
        let (name, is_file) = named(std::str::from_utf8(&rest[..head_end]).ok()?)?;
        rest = &rest[head_end + 4..];
        let length = find(rest, delimiter.as_bytes())?;
        let value = &rest[..length];
        rest = &rest[length + delimiter.len()..];
        if is_file || name == TEXT {
            content = content.or(Some(value).filter(|it| !it.is_empty()));
            continue;
        }
        let value = std::str::from_utf8(value).ok()?;
        if value.len() > MAX_VALUE || value.chars().any(char::is_control) {
            return None;
        }
        fields.push((name, value.to_owned()));
    }
    None
}

/// The parameter `boundary` of Content-Type.
fn boundary(content_type: &str) -> Option<&str> {
    let mut parameters = content_type.split(';').skip(1);
    let value = parameters.find_map(|it| it.trim().strip_prefix("boundary="))?;
    let value = value.strip_prefix('"').and_then(|it| it.strip_suffix('"')).unwrap_or(value);
    let is_of_it = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=?".contains(&byte);
    ((1..=MAX_BOUNDARY).contains(&value.len()) && value.bytes().all(is_of_it)).then_some(value)
}

/// The name in the header fields of a part. True if it is a file.
fn named(head: &str) -> Option<(String, bool)> {
    let line = head.split("\r\n").find(|line| {
        line.get(..20).is_some_and(|it| it.eq_ignore_ascii_case("content-disposition:"))
    })?;
    let rest = line[20..].trim_start().strip_prefix("form-data")?;
    let name = rest.split_once("; name=\"")?.1.split_once('"')?.0;
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_plain.then(|| (name.to_owned(), rest.contains("; filename=")))
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|it| it == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "multipart/form-data; boundary=----x1";

    fn body(parts: &[(&str, &str)]) -> String {
        let part = |(head, value): &(&str, &str)| {
            format!("------x1\r\nContent-Disposition: form-data; {head}\r\n\r\n{value}\r\n")
        };
        parts.iter().map(part).collect::<String>() + "------x1--\r\n"
    }

    #[test]
    fn a_file_and_fields_are_read() {
        let file = "alice:x\r\n\r\n--\r\n------x\r\n";
        let text = body(&[
            ("name=\"csrf\"", "abc"),
            ("name=\"file\"; filename=\"../../etc/passwd\"\r\nContent-Type: text/plain", file),
            ("name=\"text\"", "other"),
            ("name=\"domain\"", ""),
        ]);
        let found = form(KIND, text.as_bytes()).unwrap();
        assert_eq!((found.get("csrf"), found.get("domain"), found.get("file")), ("abc", "", ""));
        assert_eq!(&*found.content, file.as_bytes());
        let quoted = KIND.replace("----x1", "\"----x1\"");
        assert_eq!(form(&quoted, text.as_bytes()), Some(found));
        // Without a file, browsers send an empty one.
        let text = body(&[("name=\"file\"; filename=\"\"", ""), ("name=\"text\"", "a:b\r\n")]);
        assert_eq!(&*form(KIND, text.as_bytes()).unwrap().content, b"a:b\r\n");
    }

    #[test]
    fn malformed_forms_are_refused() {
        let good = body(&[("name=\"a\"", "1")]);
        assert!(form(KIND, good.as_bytes()).is_some());
        for length in 0..good.len() - 2 {
            assert_eq!(form(KIND, &good.as_bytes()[..length]), None, "{length}");
        }
        for kind in ["multipart/form-data", "multipart/form-data; boundary=", "a; boundary=\"x y\""]
        {
            assert_eq!(form(kind, good.as_bytes()), None, "{kind}");
        }
        let many = vec![("name=\"a\"", "1"); MAX_PARTS + 1];
        let long = "x".repeat(MAX_VALUE + 1);
        for parts in [
            &[("name=\"a\"", "1\r\n2")][..],
            &[("name=\"a\"", "\u{0}")],
            &[("name=\"a\"", &long)],
            &[("name=\"a b\"", "1")],
            &[("filename=\"x\"", "1")],
            &many,
        ] {
            assert_eq!(form(KIND, body(parts).as_bytes()), None, "{parts:?}");
        }
        let wide = good.replace("; name", &format!("; {}; name", "x".repeat(2000)));
        assert_eq!(form(KIND, wide.as_bytes()), None);
    }
}
