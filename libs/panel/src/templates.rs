//! The files of settings for phones, as texts with places for values.

/// A file for one kind of phone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Template {
    /// The name in forms and in the API.
    pub(crate) name: &'static str,
    /// The name for people.
    pub(crate) label: &'static str,
    /// The last segment of the link.
    pub(crate) file: &'static str,
    /// The media type.
    pub(crate) kind: &'static str,
    text: &'static str,
}

const XML: &str = "application/xml; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The file in `assets/phones`.
macro_rules! template {
    ($name:literal, $label:literal, $file:literal, $kind:expr, $text:literal) => {
        Template {
            name: $name,
            label: $label,
            file: $file,
            kind: $kind,
            text: include_str!(concat!("../assets/phones/", $text)),
        }
    };
}

/// All kinds of phones.
pub(crate) static TEMPLATES: [Template; 5] = [
    template!("linphone", "Linphone", "linphone.xml", XML, "linphone.xml"),
    template!("yealink", "Yealink", "phone.cfg", PLAIN, "yealink.cfg"),
    template!("grandstream", "Grandstream", "", XML, "grandstream.xml"),
    template!("snom", "Snom", "snom.xml", XML, "snom.xml"),
    template!("barebell-phone", "barebell-phone", "phone.toml", PLAIN, "barebell-phone.toml"),
];

/// The values of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Values<'v> {
    pub(crate) user: &'v str,
    pub(crate) domain: &'v str,
    pub(crate) password: &'v str,
    pub(crate) server: &'v str,
    pub(crate) port: u16,
    /// `udp`, `tcp` or `tls`.
    pub(crate) transport: &'static str,
}

/// Returns true if `text` means the same in each kind of file: it needs no escape.
pub(crate) fn is_plain(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    !text.is_empty() && text.chars().all(is_plain)
}

impl Template {
    /// The kind of phone of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        TEMPLATES.iter().find(|template| template.name == name)
    }

    /// The file with these values. `None` if one needs an escape.
    pub(crate) fn filled(&self, values: &Values<'_>) -> Option<String> {
        let Values { user, domain, password, server, port, transport } = *values;
        // An address of IPv6 has brackets, as in a URI.
        let host = server.trim_start_matches('[').trim_end_matches(']').replace(':', ".");
        if ![user, domain, password, &*host].into_iter().all(is_plain) {
            return None;
        }
        let port = port.to_string();
        // The numbers of transports at Yealink and at Grandstream.
        let number = match transport {
            "udp" => "0",
            "tcp" => "1",
            _ => "2",
        };
        let mut parts = self.text.split('{');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}')?;
            filled.push_str(match name {
                "user" => user,
                "domain" => domain,
                "password" => password,
                "server" => server,
                "port" => &port,
                "transport" => transport,
                "number" => number,
                _ => return None,
            });
            filled.push_str(rest);
        }
        Some(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: Values<'_> = Values {
        user: "alice",
        domain: "example.com",
        password: "pass-word_1",
        server: "[2001:db8::1]",
        port: 5061,
        transport: "tls",
    };

    #[test]
    fn each_file_has_all_values() {
        for template in &TEMPLATES {
            let text = template.filled(&VALUES).unwrap();
            for value in ["alice", "example.com", "pass-word_1", "[2001:db8::1]", "5061"] {
                assert!(text.contains(value), "{}: {value}: {text}", template.name);
            }
            assert!(!text.contains(['{', '}']), "{text}");
            let has_transport = ["=tls", "\"tls\"", " = 2", "<P130>2<"];
            assert!(has_transport.iter().any(|it| text.contains(it)), "{text}");
            assert_eq!(Template::named(template.name), Some(template));
        }
    }

    #[test]
    fn values_that_need_an_escape_are_refused() {
        for user in ["a\nb", "a<b", "a\"b", "{password}", "", "a&b", "ü"] {
            for template in &TEMPLATES {
                assert_eq!(template.filled(&Values { user, ..VALUES }), None, "{user}");
            }
        }
        for server in ["a b", "a/b", "a\"", "x>"] {
            assert_eq!(TEMPLATES[0].filled(&Values { server, ..VALUES }), None, "{server}");
        }
    }
}
