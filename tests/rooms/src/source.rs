//! The imports of one file of Rust, read from its text.

use std::collections::BTreeSet;

/// What a file declares and names.
#[derive(Default, Debug)]
pub(crate) struct Source {
    /// The modules that it declares in files of their own, without those of tests.
    pub modules: BTreeSet<String>,
    /// Its `use` declarations.
    pub uses: Vec<Use>,
    /// Paths of two or more names outside of `use` declarations.
    pub paths: BTreeSet<Vec<String>>,
    /// The first names of these paths, and all names that are no part of a path.
    pub names: BTreeSet<String>,
}

/// One imported name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub path: Vec<String>,
    /// The name in this file; `*` for all names.
    pub name: String,
    pub is_public: bool,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Self {
        let tokens = without_tests(tokens(text));
        let mut source = Self::default();
        let mut at = 0;
        let mut is_public = false;
        while let Some(token) = tokens.get(at) {
            match token.as_str() {
                "pub" => {
                    is_public = true;
                    at += 1;
                    if tokens.get(at).is_some_and(|token| token == "(") {
                        at = end_of_group(&tokens, at);
                    }
                    continue;
                }
                // `use<>` belongs to a type.
                "use" if tokens.get(at + 1).is_some_and(|token| token != "<") => {
                    at = source.read_use(&tokens, at + 1, &mut Vec::new(), is_public);
                }
                "mod" if tokens.get(at + 2).is_some_and(|token| token == ";") => {
                    source.modules.insert(tokens[at + 1].clone());
                    at += 3;
                }
                _ if is_name(token) => at = source.read_path(&tokens, at),
                _ => at += 1,
            }
            is_public = false;
        }
        source
    }

    /// Reads a tree of imports from `at`, and returns the position behind it.
    fn read_use(
        &mut self,
        tokens: &[String],
        mut at: usize,
        path: &mut Vec<String>,
        is_public: bool,
    ) -> usize {
        let depth = path.len();
        let mut name = None;
        while let Some(token) = tokens.get(at) {
            match token.as_str() {
                "{" => {
                    at += 1;
                    while tokens.get(at).is_some_and(|token| token != "}") {
                        at = self.read_use(tokens, at, path, is_public);
                        at += usize::from(tokens.get(at).is_some_and(|token| token != "}"));
                    }
                    path.truncate(depth);
                    return at + 1;
                }
                "as" => {
                    name = tokens.get(at + 1).cloned();
                    at += 1;
                }
                "," | ";" | "}" => break,
                "::" => {}
                _ => path.push(token.clone()),
            }
            at += 1;
        }
        if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
            path.pop();
        }
        if let Some(last) = path.last() {
            let name = name.unwrap_or_else(|| last.clone());
            self.uses.push(Use { path: path.clone(), name, is_public });
        }
        path.truncate(depth);
        at
    }

    fn read_path(&mut self, tokens: &[String], mut at: usize) -> usize {
        let mut path = vec![tokens[at].clone()];
        at += 1;
        while tokens.get(at).is_some_and(|token| token == "::")
            && tokens.get(at + 1).is_some_and(|token| is_name(token))
        {
            path.push(tokens[at + 1].clone());
            at += 2;
        }
        self.names.insert(path[0].clone());
        if path.len() > 1 {
            self.paths.insert(path);
        }
        at
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// The names and signs of a text, without comments and literals.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = raw_string(rest) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            // A literal, or a lifetime.
            let mut chars = rest.chars().skip(1);
            match (chars.next(), chars.next()) {
                (Some('\\'), _) => quoted(rest, '\''),
                (Some(c), Some('\'')) => 2 + c.len_utf8(),
                _ => 1,
            }
        } else if first.is_alphanumeric() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let length = length.unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of a literal that ends at the next `quote` without a backslash.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw string at the start of `text`, if there is one.
fn raw_string(text: &str) -> Option<usize> {
    let start = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = start.len() - start.trim_start_matches('#').len();
    let inside = start[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
    Some(text.len() - inside.len() + length)
}

/// The position behind the group that begins at `at`.
fn end_of_group(tokens: &[String], at: usize) -> usize {
    let mut depth = 0usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// The tokens without items under `#[cfg(test)]`.
fn without_tests(tokens: Vec<String>) -> Vec<String> {
    let is_test = |at: usize| {
        let attribute: String = tokens[at..].iter().take(8).map(String::as_str).collect();
        attribute.starts_with("#[cfg(test") || attribute.starts_with("#[cfg(all(test")
    };
    let mut kept = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] != "#" || !is_test(at) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        at = end_of_group(&tokens, at + 1);
        while at < tokens.len() && !matches!(tokens[at].as_str(), ";" | "{" | ",") {
            at = end_of_group(&tokens, at);
        }
        at = match tokens.get(at).map(String::as_str) {
            Some("{") => end_of_group(&tokens, at),
            _ => at + 1,
        };
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(text: &str) -> Vec<String> {
        let shown = |u: &Use| format!("{} {} {}", u.path.join("::"), u.name, u.is_public);
        Source::parse(text).uses.iter().map(shown).collect()
    }

    #[test]
    fn trees_of_imports_are_read() {
        let found = uses("use crate::a::{self, b::C as D, e::*};\npub(crate) use f::G;");
        let wanted =
            ["crate::a a false", "crate::a::b::C D false", "crate::a::e::* * false", "f::G G true"];
        assert_eq!(found, wanted);
    }

    #[test]
    fn comments_literals_and_tests_are_not_read() {
        let text = "// use a::B;\nconst X: &str = \"use a::\\\"B;\"; const Y: char = '\"'; \
                    const Z: &str = r#\"use \"a::B;\"#; #[cfg(test)] mod tests { use super::*; } \
                    #[cfg(test)] mod other; fn f<'a>(x: &'a str) { crate::c::d(x) } mod e;";
        let source = Source::parse(text);
        assert!(source.uses.is_empty(), "{source:?}");
        let path = ["crate", "c", "d"].map(str::to_owned).to_vec();
        assert_eq!(source.paths, BTreeSet::from([path]));
        assert_eq!(source.modules, BTreeSet::from(["e".to_owned()]));
    }
}
