//! The configuration without the passwords in it: those of trunks, and those in URLs.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The keys of the configuration with a password as value.
const PASSWORDS: [&str; 1] = ["password"];
/// The keys with a URL as value, which may contain a password.
const URLS: [&str; 1] = ["url"];

/// The configuration `text` with empty texts in place of passwords, also in comments that hold a
/// key. Everything else stays as it is.
///
/// # Errors
/// A message: the text is not TOML, so that its passwords are not found.
pub(super) fn blank(text: &str) -> Result<String, String> {
    let table = DeTable::parse(text)
        .map_err(|error| format!("the configuration is not TOML: {}", error.message()))?;
    let mut found = Vec::new();
    find(table.get_ref(), &mut found);
    found.sort_by_key(|(place, _)| place.start);
    let (mut blanked, mut end) = (String::new(), 0);
    for (place, new) in found {
        blanked.push_str(&without_comments(text.get(end..place.start).unwrap_or_default()));
        blanked.push_str(&new);
        end = place.end;
    }
    blanked.push_str(&without_comments(text.get(end..).unwrap_or_default()));
    Ok(blanked)
}

/// Adds the places of values with passwords in `table`, each with the value without it.
fn find(table: &DeTable<'_>, found: &mut Vec<(Range<usize>, String)>) {
    for (key, value) in table {
        let key = key.get_ref().as_ref();
        let text = |value: &Spanned<DeValue<'_>>| match value.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => None,
        };
        if PASSWORDS.contains(&key) {
            // Values of other types are mistakes, and may be passwords all the same.
            found.push((value.span(), "\"\"".to_owned()));
        } else if URLS.contains(&key)
            && let Some(url) = text(value)
        {
            let new = without_password(&url);
            if new != url {
                found.push((value.span(), toml::Value::String(new).to_string()));
            }
        } else {
            find_in(value, found);
        }
    }
}

fn find_in(value: &Spanned<DeValue<'_>>, found: &mut Vec<(Range<usize>, String)>) {
    match value.get_ref() {
        DeValue::Table(table) => find(table, found),
        DeValue::Array(values) => values.iter().for_each(|value| find_in(value, found)),
        _ => {}
    }
}

/// The URL `url` without its password: that before `@`, and that of a parameter of PostgreSQL.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // The other form of the parameters of PostgreSQL: `host=... password=...`.
        return if url.contains("password") { String::new() } else { url.to_owned() };
    };
    // The password may contain slashes: PostgreSQL takes all up to the last `@` of the part.
    let (place, query) = match rest.split_once('?') {
        Some((place, query)) if !query.contains('@') => (place, Some(query)),
        _ => (rest, None),
    };
    let place = match place.rsplit_once('@') {
        Some((login, host)) => match login.split_once(':') {
            Some((user, _)) => format!("{user}:@{host}"),
            None => format!("{login}@{host}"),
        },
        None => place.to_owned(),
    };
    let parameter = |text: &str| match text.split_once('=') {
        Some((name, _)) if name.contains("password") || name.contains('%') => format!("{name}="),
        _ => text.to_owned(),
    };
    let query = query.map(|it| it.split('&').map(parameter).collect::<Vec<_>>().join("&"));
    let query = query.map(|it| format!("?{it}")).unwrap_or_default();
    format!("{scheme}://{place}{query}")
}

/// `text` without the values of keys with passwords in lines that are comments.
fn without_comments(text: &str) -> String {
    let line = |line: &str| {
        let comment = line.trim_start().strip_prefix('#')?;
        let (key, _) = comment.split_once('=')?;
        let key = key.trim();
        let is_secret = |names: &[&str]| names.iter().any(|name| key.ends_with(name));
        let is_password = is_secret(&PASSWORDS) || (is_secret(&URLS) && comment.contains('@'));
        let before = line.split_once('=').map(|(before, _)| before)?;
        let end = if line.ends_with('\n') { "\n" } else { "" };
        is_password.then(|| format!("{before}= \"\"{end}"))
    };
    let lines = text.split_inclusive('\n');
    lines.map(|it| line(it).unwrap_or_else(|| it.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_blank_and_the_rest_stays() {
        let text = r#"# The office.
domains = ["a.com"]   # password = "no key"
[accounts]
url = "postgresql://barebell:SECRET@db.example.com/sip?sslmode=require"
# password = "SECRET"
#url = 'postgresql://barebell:SECRET@db/sip'
password_file = "/etc/barebell/password"
[push]
url = "https://push.example.com/notify"
[[trunks]]
name = "a"
accounts = [{ user = "1", password = "SECRET" }, { user = "2", password = 'SECRET' }]
[[trunks]]
name = "b"
[[trunks.accounts]]
user = "3"
password = """
SECRET"""  # it is long
"#;
        let expected = r#"# The office.
domains = ["a.com"]   # password = "no key"
[accounts]
url = "postgresql://barebell:@db.example.com/sip?sslmode=require"
# password = ""
#url = ""
password_file = "/etc/barebell/password"
[push]
url = "https://push.example.com/notify"
[[trunks]]
name = "a"
accounts = [{ user = "1", password = "" }, { user = "2", password = "" }]
[[trunks]]
name = "b"
[[trunks.accounts]]
user = "3"
password = ""  # it is long
"#;
        assert_eq!(blank(text).as_deref(), Ok(expected));
        assert_eq!(blank(expected).as_deref(), Ok(expected));
        assert!(blank("password = ").is_err());
        assert_eq!(blank("password = 12345").as_deref(), Ok("password = \"\""));
        assert_eq!(blank("x.y.password = \"S\"").as_deref(), Ok("x.y.password = \"\""));
    }

    #[test]
    fn no_form_of_a_url_keeps_its_password() {
        for (url, expected) in [
            ("postgresql://u@db/sip", "postgresql://u@db/sip"),
            ("postgresql://u:S/E@db,db2:5433/sip", "postgresql://u:@db,db2:5433/sip"),
            ("postgresql://u:S@E@db/sip", "postgresql://u:@db/sip"),
            ("postgresql://u:S?E@db/sip", "postgresql://u:@db/sip"),
            ("postgresql://db/sip?password=S&user=u", "postgresql://db/sip?password=&user=u"),
            ("postgresql://db/sip?p%61ssword=S", "postgresql://db/sip?p%61ssword="),
            ("host=db user=u password=S", ""),
            ("https://u:S@host/hook?x=1", "https://u:@host/hook?x=1"),
        ] {
            assert_eq!(without_password(url), expected);
        }
    }
}
