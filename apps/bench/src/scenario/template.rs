//! Messages and other texts with keywords in brackets.

use super::fault::{Fault, Place};
use super::names::Names;
use super::value::Variable;

/// A text with keywords.
#[derive(Clone, Debug, Default)]
pub(super) struct Template {
    pub(super) pieces: Vec<Piece>,
}

/// A part of a text.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text(Vec<u8>),
    /// The end of a line.
    End,
    Keyword(Keyword),
}

/// A keyword: its text is known when a message is sent.
#[derive(Clone, Debug)]
pub(super) enum Keyword {
    Service,
    RemoteHost,
    RemoteIp,
    RemotePort(i64),
    Transport,
    LocalIp,
    LocalIpType,
    LocalPort(i64),
    MediaIp,
    MediaIpType,
    MediaPort(i64),
    Len(i64),
    CallNumber,
    CallId,
    CSeq(i64),
    Branch(i64),
    Pid,
    MsgIndex,
    ClockTick,
    Date,
    Timestamp,
    DynamicId,
    Users,
    UserId,
    PeerTag,
    Routes,
    NextUrl,
    /// The header fields of this name in the last received message, or their value alone.
    Last(String, bool),
    LastMessage,
    LastCSeq(i64),
    LastRequestUri,
    Variable(Variable),
    /// A field of a file of `--inf`, by the numbers of both; the line is the call's, or given.
    Field(usize, usize, Option<Box<Template>>),
    /// User and password, where given.
    Authentication(Option<Box<Template>>, Option<Box<Template>>),
    /// The variable with the length, and the text that is repeated.
    Fill(Variable, Vec<u8>),
}

impl Template {
    /// Parses a text in one line.
    ///
    /// # Errors
    /// [`Fault`] at `place` if a keyword is not known.
    pub(super) fn parse(text: &str, place: Place, names: &mut Names) -> Result<Self, Fault> {
        let mut template = Self::default();
        template.push_line(text, place, names)?;
        Ok(template)
    }

    /// Parses a message: white space at the start of lines, and empty lines around the message, are
    /// not in it.
    ///
    /// # Errors
    /// [`Fault`] if a keyword is not known.
    pub(super) fn message(text: &str, start: Place, names: &mut Names) -> Result<Self, Fault> {
        let lines: Vec<&str> = text.lines().collect();
        let is_filled = |line: &&str| !line.trim().is_empty();
        let first = lines.iter().position(is_filled);
        let last = lines.iter().rposition(is_filled);
        let mut template = Self::default();
        let mut has_body = false;
        let used = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        for (at, whole) in lines.iter().enumerate().take(used.end).skip(used.start) {
            let line = whole.trim_start();
            let indent = whole.chars().count() - line.chars().count();
            let column = if at == 0 { start.column + indent } else { 1 + indent };
            has_body |= line.is_empty();
            template.push_line(line, Place { line: start.line + at, column }, names)?;
            template.pieces.push(Piece::End);
        }
        if !has_body && first.is_some() {
            template.pieces.push(Piece::End);
        }
        Ok(template)
    }

    /// Returns true if the text has a keyword for which `is_it` returns true.
    pub(super) fn has(&self, is_it: impl Fn(&Keyword) -> bool) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Keyword(keyword) if is_it(keyword)))
    }

    fn push_line(&mut self, line: &str, place: Place, names: &mut Names) -> Result<(), Fault> {
        let mut rest = line;
        while let Some(open) = rest.find('[') {
            self.push_text(&rest[..open]);
            let before = line.len() - rest.len() + open;
            let column = place.column + line[..before].chars().count();
            let at = Place { column, ..place };
            let Some(close) = closing(&rest[open..]) else {
                return Err(Fault::new(
                    at,
                    "the keyword is not closed by ]; write \\x5b for a [ in the text",
                ));
            };
            let inner = &rest[open + 1..open + close];
            match keyword(inner, at, names)? {
                Some(piece) => self.pieces.push(piece),
                None => self.push_text(&rest[open..=open + close]),
            }
            rest = &rest[open + close + 1..];
        }
        self.push_text(rest);
        Ok(())
    }

    fn push_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let text = unescape(text);
        match self.pieces.last_mut() {
            Some(Piece::Text(before)) => before.extend_from_slice(&text),
            _ => self.pieces.push(Piece::Text(text)),
        }
    }
}

/// Returns the offset of the bracket that closes the first one.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    text.bytes().position(|octet| {
        match octet {
            b'[' => depth += 1,
            b']' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

/// Replaces `\xHH` by the octet.
fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.strip_prefix(b"x").and_then(|after| after.get(..2));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let octet = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match octet.filter(|_| first == b'\\') {
            Some(octet) => {
                out.push(octet);
                rest = &rest[4..];
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

/// The keywords, for messages.
const KNOWN: &str = "service, remote_ip, remote_host, remote_port, transport, local_ip, \
    local_ip_type, local_port, server_ip, media_ip, media_ip_type, media_port, auto_media_port, \
    rtpstream_audio_port, len, call_number, call_id, cseq, branch, pid, msg_index, clock_tick, \
    date, timestamp, dynamic_id, users, userid, peer_tag_param, routes, next_url, last_*, \
    last_message, last_cseq_number, last_Request_URI, fieldN, $variable, authentication, fill, \
    file, sipp_version";

/// Parses the text between two brackets. Returns `None` if it is no keyword but an IPv6 address.
fn keyword(text: &str, place: Place, names: &mut Names) -> Result<Option<Piece>, Fault> {
    use Keyword as K;
    let text = text.trim();
    if let Some(name) = text.strip_prefix('$') {
        return Ok(Some(Piece::Keyword(K::Variable(names.variable(name)))));
    }
    if let Some((_, value)) = names.keys.iter().find(|(name, _)| name == text) {
        return Ok(Some(Piece::Text(value.clone().into_bytes())));
    }
    let (name, parameters) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let parameters = Parameters::parse(parameters, place)?;
    if let Some(number) = name.strip_prefix("field").and_then(|number| number.parse().ok()) {
        parameters.only(&["file", "line"], name)?;
        let file = match parameters.get("file") {
            None if names.files.is_empty() => {
                let text = format!("[{name}] needs a file: name one with --inf FILE.csv");
                return Err(Fault::new(place, text));
            }
            None => 0,
            Some(file) => {
                names.files.iter().position(|known| known.is_called(file)).ok_or_else(|| {
                    Fault::new(place, format!("no --inf has the file {file} of [{name}]"))
                })?
            }
        };
        let line = parameters.template("line", names)?.map(Box::new);
        return Ok(Some(Piece::Keyword(K::Field(number, file, line))));
    }
    let (base, offset) = offset(name);
    let keyword = match (base, offset) {
        ("remote_port", offset) => K::RemotePort(offset),
        ("local_port", offset) => K::LocalPort(offset),
        (
            "media_port" | "auto_media_port" | "rtpstream_audio_port" | "rtpstream_video_port",
            offset,
        ) => K::MediaPort(offset),
        ("len", offset) => K::Len(offset),
        ("cseq", offset) => K::CSeq(offset),
        ("branch", offset) => K::Branch(offset),
        ("last_cseq_number", offset) => K::LastCSeq(offset),
        _ => match name {
            "service" => K::Service,
            "remote_ip" => K::RemoteIp,
            "remote_host" => K::RemoteHost,
            "transport" => K::Transport,
            "local_ip" | "server_ip" => K::LocalIp,
            "local_ip_type" => K::LocalIpType,
            "media_ip" => K::MediaIp,
            "media_ip_type" => K::MediaIpType,
            "call_number" => K::CallNumber,
            "call_id" => K::CallId,
            "pid" => K::Pid,
            "msg_index" => K::MsgIndex,
            "clock_tick" => K::ClockTick,
            "date" => K::Date,
            "timestamp" => K::Timestamp,
            "dynamic_id" => K::DynamicId,
            "users" => K::Users,
            "userid" => K::UserId,
            "peer_tag_param" => K::PeerTag,
            "routes" => K::Routes,
            "next_url" => K::NextUrl,
            "last_message" => K::LastMessage,
            "last_Request_URI" => K::LastRequestUri,
            "sipp_version" => {
                let version = concat!("barebell-bench ", env!("CARGO_PKG_VERSION"));
                return Ok(Some(Piece::Text(version.into())));
            }
            "file" => {
                parameters.only(&["name"], name)?;
                let path = names.path(parameters.require("name", name)?);
                let text = std::fs::read(&path).map_err(|error| {
                    Fault::new(place, format!("{} cannot be read: {error}", path.display()))
                })?;
                return Ok(Some(Piece::Text(text)));
            }
            "fill" => {
                parameters.only(&["variable", "text"], name)?;
                let text = parameters.get("text").filter(|text| !text.is_empty()).unwrap_or("X");
                let text = text.as_bytes().to_vec();
                K::Fill(names.variable(parameters.require("variable", name)?), text)
            }
            "authentication" => {
                parameters.only(&["username", "password"], name)?;
                let user = parameters.template("username", names)?.map(Box::new);
                K::Authentication(user, parameters.template("password", names)?.map(Box::new))
            }
            _ => match name.strip_prefix("last_") {
                Some(header) => {
                    let (header, is_value) = match header.strip_suffix(".value") {
                        Some(header) => (header, true),
                        None => (header, false),
                    };
                    K::Last(header.trim_end_matches(':').to_owned(), is_value)
                }
                None if text.parse::<std::net::Ipv6Addr>().is_ok() => return Ok(None),
                None => {
                    let text = format!(
                        "the keyword [{name}] is not known; give it a text with --key {name} TEXT, or \
                         write \\x5b for a [ in the text; known are {KNOWN}"
                    );
                    return Err(Fault::new(place, text));
                }
            },
        },
    };
    if !matches!(keyword, K::Authentication(..) | K::Fill(..)) {
        parameters.only(&[], name)?;
    }
    Ok(Some(Piece::Keyword(keyword)))
}

/// Splits a keyword from the number that is added to it.
fn offset(name: &str) -> (&str, i64) {
    let Some(sign) = name.rfind(['+', '-']) else { return (name, 0) };
    match name[sign..].parse() {
        Ok(number) => (&name[..sign], number),
        Err(_) => (name, 0),
    }
}

/// The parameters of a keyword: `name=value`, the value perhaps in quotation marks.
struct Parameters<'a> {
    list: Vec<(&'a str, &'a str)>,
    place: Place,
}

impl<'a> Parameters<'a> {
    fn parse(text: &'a str, place: Place) -> Result<Self, Fault> {
        let mut list = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let wrong = || Fault::new(place, format!("{rest}: expected NAME=VALUE in the keyword"));
            let (name, after) = rest.split_once('=').ok_or_else(wrong)?;
            let (value, after) = match after.strip_prefix('"') {
                Some(after) => after.split_once('"').ok_or_else(wrong)?,
                None => after.split_at(unquoted_length(after)),
            };
            list.push((name.trim(), value));
            rest = after.trim_start();
        }
        Ok(Self { list, place })
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.list.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn require(&self, name: &str, keyword: &str) -> Result<&'a str, Fault> {
        let missing = || Fault::new(self.place, format!("[{keyword}] needs {name}=VALUE"));
        self.get(name).ok_or_else(missing)
    }

    fn template(&self, name: &str, names: &mut Names) -> Result<Option<Template>, Fault> {
        self.get(name).map(|text| Template::parse(text, self.place, names)).transpose()
    }

    fn only(&self, known: &[&str], keyword: &str) -> Result<(), Fault> {
        match self.list.iter().find(|(name, _)| !known.contains(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let known = match known.join(", ") {
                    none if none.is_empty() => "it has none".to_owned(),
                    names => format!("known are {names}"),
                };
                let text = format!("the parameter {name} of [{keyword}] is not known; {known}");
                Err(Fault::new(self.place, text))
            }
        }
    }
}

/// Returns the length of a value that ends at white space outside of brackets.
fn unquoted_length(text: &str) -> usize {
    let mut depth = 0_i32;
    text.find(|character: char| {
        depth += i32::from(character == '[') - i32::from(character == ']');
        depth <= 0 && character.is_whitespace()
    })
    .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Place = Place { line: 10, column: 3 };

    #[test]
    fn keywords_have_offsets_and_parameters() {
        let mut names = Names::default();
        let text =
            "a[local_port+2]b[branch-1][authentication username=[$u] password=\"p q\"]\\x5bx";
        let template = Template::parse(text, START, &mut names).unwrap();
        assert!(template.has(|keyword| matches!(keyword, Keyword::LocalPort(2))));
        assert!(template.has(|keyword| matches!(keyword, Keyword::Branch(-1))));
        let is_complete = |keyword: &Keyword| match keyword {
            Keyword::Authentication(Some(user), Some(_)) => {
                user.has(|keyword| matches!(keyword, Keyword::Variable(Variable(0))))
            }
            _ => false,
        };
        assert!(template.has(is_complete));
        assert!(matches!(template.pieces.last(), Some(Piece::Text(text)) if text == b"[x"));
        let v6 = Template::parse("sip:[2001:db8::1]:5060", START, &mut names).unwrap();
        assert_eq!(v6.pieces.len(), 1);
    }

    #[test]
    fn keys_of_the_command_line_are_texts() {
        let keys = vec![("domain".to_owned(), "example.com".to_owned())];
        let mut names = Names { keys, ..Names::default() };
        let template = Template::parse("@[domain];", START, &mut names).unwrap();
        let Piece::Text(text) = &template.pieces[1] else { panic!("{template:?}") };
        assert_eq!(text, b"example.com;");
    }

    #[test]
    fn unknown_keywords_are_refused_with_their_place() {
        let mut names = Names::default();
        let text = "\n   INVITE\n  To: [unknown]\n";
        let fault = Template::message(text, START, &mut names).unwrap_err();
        assert_eq!(fault.place, Place { line: 12, column: 7 });
        assert!(fault.text.contains("--key unknown TEXT"), "{fault:?}");
        for (text, part) in [
            ("[field0]", "--inf"),
            ("[pid x=1]", "the parameter x of [pid]"),
            ("[fill]", "needs variable"),
            ("[pid", "not closed"),
        ] {
            let fault = Template::parse(text, START, &mut names).unwrap_err();
            assert!(fault.text.contains(part), "{text}: {fault:?}");
        }
    }

    #[test]
    fn messages_have_no_indent_and_end_with_an_empty_line() {
        let mut names = Names::default();
        let text = |source| {
            let template = Template::message(source, START, &mut Names::default()).unwrap();
            let piece = |piece: &Piece| match piece {
                Piece::Text(text) => String::from_utf8(text.clone()).unwrap(),
                Piece::End => "|".to_owned(),
                Piece::Keyword(_) => "?".to_owned(),
            };
            template.pieces.iter().map(piece).collect::<String>()
        };
        assert_eq!(text("\n\n  A\n\tB\n\n"), "A|B||");
        assert_eq!(text("A\n\n  v=0\n  s=-\n   "), "A||v=0|s=-|");
        assert_eq!(names.variable("$x"), names.variable("x"));
    }
}
