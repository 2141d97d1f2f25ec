//! The texts of templates at the time of sending.

use super::counts::Cause;
use super::dialog::Dialog;
use super::digest;
use super::message;
use super::template::{Keyword, Piece, Template};
use super::world::World;
use sip::Instant;
use std::fmt::Display;
use std::io::Write as _;
use std::net::SocketAddr;

/// Returns the text of `template` in a call that is at `step`.
///
/// # Errors
/// [`Cause::Authentication`] if there is no challenge for `[authentication]`.
pub(super) fn expand(
    template: &Template,
    dialog: &mut Dialog,
    world: &mut World,
    step: usize,
    now: Instant,
) -> Result<Vec<u8>, Cause> {
    let mut writing = Writing { out: Vec::with_capacity(1024), ..Writing::default() };
    for piece in &template.pieces {
        match piece {
            Piece::End => writing.end_line(),
            _ if writing.skips => {}
            Piece::Text(text) => writing.out.extend_from_slice(text),
            Piece::Keyword(Keyword::Len(offset)) => {
                writing.later.push((writing.out.len(), Later::Length(*offset)));
            }
            Piece::Keyword(Keyword::Authentication(user, password)) => {
                let user = user.as_ref().map(|user| expand(user, dialog, world, step, now));
                let password = password.as_ref().map(|text| expand(text, dialog, world, step, now));
                let settings = &world.settings;
                let default = settings.user.as_ref().unwrap_or(&settings.service);
                let user = user.transpose()?.unwrap_or_else(|| default.clone().into_bytes());
                let password = password.transpose()?;
                let password = password.unwrap_or_else(|| settings.password.clone().into_bytes());
                writing.later.push((writing.out.len(), Later::Credentials(user, password)));
            }
            Piece::Keyword(keyword) => {
                writing.keyword(keyword, dialog, world, step, now)?;
            }
        }
    }
    writing.finish(dialog, world)
}

/// A part of a message that depends on the rest of it.
enum Later {
    /// The length of the body, and what is added to it.
    Length(i64),
    Credentials(Vec<u8>, Vec<u8>),
}

#[derive(Default)]
struct Writing {
    out: Vec<u8>,
    line: usize,
    /// True if the rest of the line is not written, since its header field is absent.
    skips: bool,
    later: Vec<(usize, Later)>,
}

impl Writing {
    fn show(&mut self, value: impl Display) {
        // A vector takes everything.
        let _ = write!(self.out, "{value}");
    }

    fn end_line(&mut self) {
        // A line without anything else than an absent header field is no line.
        let is_dropped = std::mem::take(&mut self.skips) && self.out.len() == self.line;
        if !is_dropped {
            self.out.extend_from_slice(b"\r\n");
        }
        self.line = self.out.len();
    }

    fn ip(&mut self, address: SocketAddr, is_bracketed: bool) {
        match address {
            SocketAddr::V6(address) if is_bracketed => {
                self.show(format_args!("[{}]", address.ip()));
            }
            _ => self.show(address.ip()),
        }
    }

    fn ip_type(&mut self, address: SocketAddr) {
        self.show(if address.is_ipv6() { 6 } else { 4 });
    }

    fn keyword(
        &mut self,
        keyword: &Keyword,
        dialog: &mut Dialog,
        world: &mut World,
        step: usize,
        now: Instant,
    ) -> Result<(), Cause> {
        let settings = &world.settings;
        match keyword {
            Keyword::Service => self.out.extend_from_slice(settings.service.as_bytes()),
            Keyword::RemoteHost => self.out.extend_from_slice(settings.remote_host.as_bytes()),
            Keyword::RemoteIp => self.ip(dialog.peer.address, true),
            Keyword::RemotePort(offset) => {
                self.show(i64::from(dialog.peer.address.port()) + offset);
            }
            Keyword::Transport => self.out.extend_from_slice(settings.transport.as_bytes()),
            Keyword::LocalIp => self.ip(settings.local, true),
            Keyword::LocalIpType => self.ip_type(settings.local),
            Keyword::LocalPort(offset) => self.show(i64::from(settings.local.port()) + offset),
            Keyword::MediaIp => self.ip(settings.media, false),
            Keyword::MediaIpType => self.ip_type(settings.media),
            Keyword::MediaPort(offset) => self.show(i64::from(settings.media.port()) + offset),
            Keyword::CallNumber => self.show(dialog.number),
            Keyword::CallId => self.out.extend_from_slice(&dialog.id),
            Keyword::CSeq(offset) => self.show(i64::from(dialog.cseq) + offset),
            Keyword::Branch(offset) => {
                let step = usize::try_from(step as i64 + offset).unwrap_or_default();
                let (stamp, number) = (settings.stamp, dialog.number);
                self.show(format_args!("z9hG4bK-{stamp:x}-{number}-{step}"));
                // A step that is repeated begins a new transaction.
                let visits = dialog.visits.get(step).copied().unwrap_or_default();
                if visits > 1 {
                    self.show(format_args!("-{visits}"));
                }
            }
            Keyword::Pid => self.show(std::process::id()),
            Keyword::MsgIndex => self.show(step),
            Keyword::ClockTick => self.show(now.since(world.start).as_millis()),
            Keyword::Date => self.show(date()),
            Keyword::Timestamp => {
                self.show(humantime::format_rfc3339_micros(std::time::SystemTime::now()));
            }
            Keyword::DynamicId => {
                world.dynamic_id += 1;
                self.show(world.dynamic_id);
            }
            Keyword::Users => self.show(settings.users.unwrap_or_default()),
            Keyword::UserId => self.show(dialog.user.unwrap_or_default()),
            Keyword::PeerTag => {
                if let Some(tag) = &dialog.peer_tag {
                    self.out.extend_from_slice(b";tag=");
                    self.out.extend_from_slice(tag);
                }
            }
            Keyword::Routes if dialog.routes.is_empty() => self.skips = true,
            Keyword::Routes => {
                self.out.extend_from_slice(b"Route: ");
                self.out.extend_from_slice(&dialog.routes);
            }
            Keyword::NextUrl => self.out.extend_from_slice(&dialog.next_url),
            Keyword::Last(name, is_value) => self.last(&dialog.last, name, *is_value),
            Keyword::LastMessage => self.out.extend_from_slice(&dialog.last),
            Keyword::LastCSeq(offset) => {
                let number = message::cseq(&dialog.last).map_or(0, |(number, _)| number);
                self.show(i64::from(number) + offset);
            }
            Keyword::LastRequestUri => {
                let to = message::value(&dialog.last, "To").unwrap_or_default();
                self.out.extend_from_slice(message::address(to));
            }
            Keyword::Variable(variable) => dialog.get(*variable, world).write(&mut self.out),
            Keyword::Field(index, file, line) => {
                let line = match line {
                    None => dialog.lines.get(*file).copied(),
                    Some(line) => {
                        let text = expand(line, dialog, world, step, now)?;
                        super::value::Value::Text(text).number().map(|number| number as usize)
                    }
                };
                let file = world.files.get(*file);
                let field = file.zip(line).map(|(file, line)| file.get(line, *index));
                // Fields may have keywords, mostly [authentication].
                let text = String::from_utf8_lossy(field.unwrap_or_default()).into_owned();
                self.field(&text, dialog, world, step, now)?;
            }
            Keyword::Fill(variable, text) => {
                let length = dialog.get(*variable, world).number().unwrap_or_default();
                let length = length.clamp(0.0, LONGEST_FILL) as usize;
                self.out.extend(text.iter().cycle().take(length));
            }
            Keyword::Len(_) | Keyword::Authentication(..) => {}
        }
        Ok(())
    }

    /// Writes a field of a file, with its keywords.
    fn field(
        &mut self,
        text: &str,
        dialog: &mut Dialog,
        world: &mut World,
        step: usize,
        now: Instant,
    ) -> Result<(), Cause> {
        if !text.contains('[') {
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        }
        let place = super::fault::Place::default();
        let Ok(template) = Template::parse(text, place, &mut world.script.names) else {
            self.out.extend_from_slice(text.as_bytes());
            return Ok(());
        };
        for piece in &template.pieces {
            match piece {
                Piece::Text(text) => self.out.extend_from_slice(text),
                Piece::Keyword(Keyword::Authentication(user, password)) => {
                    let mut part = |part: &Option<Box<Template>>| match part {
                        Some(part) => expand(part, dialog, world, step, now),
                        None => Ok(Vec::new()),
                    };
                    let later = Later::Credentials(part(user)?, part(password)?);
                    self.later.push((self.out.len(), later));
                }
                // A field that names a field would have no end.
                Piece::Keyword(Keyword::Field(..)) | Piece::End => {}
                Piece::Keyword(keyword) => self.keyword(keyword, dialog, world, step, now)?,
            }
        }
        Ok(())
    }

    /// Writes the header fields of this name in the last received message.
    fn last(&mut self, last: &[u8], name: &str, is_value: bool) {
        let mut is_first = true;
        for value in message::values(last, name) {
            if !std::mem::take(&mut is_first) {
                self.out.extend_from_slice(if is_value { b", " } else { b"\r\n" });
            }
            if !is_value {
                self.show(format_args!("{name}: "));
            }
            self.out.extend_from_slice(value);
        }
        self.skips = is_first;
    }

    /// Inserts the parts that depend on the rest of the message.
    fn finish(mut self, dialog: &mut Dialog, world: &mut World) -> Result<Vec<u8>, Cause> {
        let later = std::mem::take(&mut self.later);
        // From the end, so that the places before stay.
        for (place, part) in later.into_iter().rev() {
            let text = match part {
                Later::Length(offset) => {
                    let length = message::split(&self.out).1.len() as i64;
                    (length + offset).to_string().into_bytes()
                }
                Later::Credentials(user, password) => {
                    let cnonce = format!("{:016x}", world.rng.u64(..));
                    digest::authorize(dialog, &user, &password, &self.out, cnonce.as_bytes())
                        .ok_or(Cause::Authentication)?
                }
            };
            self.out.splice(place..place, text);
        }
        Ok(self.out)
    }
}

/// The longest text of `[fill]` in octets.
const LONGEST_FILL: f64 = 60_000.0;

/// Returns the time in the form of the header field Date (RFC 3261 section 20.17).
fn date() -> String {
    let now = std::time::SystemTime::now();
    let seconds = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
    date_of(seconds)
}

fn date_of(seconds: u64) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
    let text = humantime::format_rfc3339_seconds(at).to_string();
    let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let day = days[(seconds / 86_400 % 7) as usize];
    let months = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = text[5..7].parse::<usize>().map_or("", |month| &months[month * 3 - 3..month * 3]);
    format!("{day}, {} {month} {} {} GMT", &text[8..10], &text[..4], &text[11..19])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::rig::{expand_in, world};

    const LAST: &str = "INVITE sip:a@b SIP/2.0\r\nVia: one\r\nVia: two\r\nFrom: <sip:f>;tag=1\r\n\
        To: <sip:t@h>\r\nCSeq: 7 INVITE\r\n\r\n";

    #[test]
    fn messages_are_made_of_keywords() {
        let mut world = world("<recv request=\"A\"/>");
        let text = "SIP/2.0 200 OK\n[last_Via:]\nX-Call: [call_number] [call_id]\n[last_Absent:]\n\
                    To: [last_To.value]\nA: b[last_Absent:]c\n[routes]\n\
                    Contact: <sip:[local_ip]:[local_port+1];transport=[transport]>[peer_tag_param]\n\
                    CSeq: [last_cseq_number+1] X\nContent-Length: [len]\n\nv=0\nc=IN IP[media_ip_type] \
                    [media_ip]";
        let text = expand_in(&mut world, text, LAST).unwrap();
        let local = world.settings.local;
        let expected = format!(
            "SIP/2.0 200 OK\r\nVia: one\r\nVia: two\r\nX-Call: 1 id\r\nTo: <sip:t@h>\r\nA: b\r\n\
             Contact: <sip:{}:{};transport=UDP>\r\nCSeq: 8 X\r\nContent-Length: 25\r\n\r\n\
             v=0\r\nc=IN IP4 127.0.0.1\r\n",
            local.ip(),
            local.port() + 1
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn credentials_need_a_challenge() {
        let mut world = world("<recv request=\"A\"/>");
        let text = "REGISTER sip:x SIP/2.0\n[authentication username=joe password=secret]\nA: b";
        assert_eq!(expand_in(&mut world, text, LAST), Err(Cause::Authentication));
        let last = "SIP/2.0 401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\n\r\n";
        let text = expand_in(&mut world, text, last).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[1].starts_with("Authorization: Digest username=\"joe\""), "{text}");
        assert!(lines[1].contains("uri=\"sip:x\""), "{text}");
        assert_eq!(lines[2], "A: b");
        assert!(digest::verify(text.as_bytes(), b"joe", b"secret"));
        assert!(!digest::verify(text.as_bytes(), b"joe", b"wrong"));
    }

    #[test]
    fn dates_have_the_form_of_the_rfc() {
        assert_eq!(date_of(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
