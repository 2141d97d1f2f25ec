//! The messages of a call as a ladder: a column for the server and one for each address that it
//! exchanges messages with.

use super::Traffic;
use crate::output::printable;
use sip::header::CSeq;
use sip::{HeaderName, Message, StartLine};
use std::fmt::Write;

/// The characters from one column to the next.
const STEP: usize = 33;

/// The characters before the first column.
const MARGIN: usize = 12;

/// The ladder of `messages`. The letter is that of the Call-ID, and `w0` the worker.
pub(crate) fn ladder(messages: &[Traffic]) -> String {
    let name = |it: &Traffic| format!("{}:{}", it.transport, it.remote);
    let mut columns: Vec<String> = Vec::new();
    for message in messages {
        let name = name(message);
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    // The server stands between the first address and the others.
    let server = columns.len().min(1);
    columns.insert(server, "server".to_owned());
    let mut text = " ".repeat(MARGIN);
    for column in &columns {
        // Writing to a string cannot fail.
        let _ = write!(text, "{:STEP$}", cut(column, STEP - 2));
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    let begun = messages.first().map_or(0, |message| message.at);
    for message in messages {
        let remote = columns.iter().position(|column| *column == name(message)).unwrap_or(0);
        let [from, to] = if message.is_sent { [server, remote] } else { [remote, server] };
        let mut line = vec![' '; (columns.len() - 1) * STEP + 1];
        (0..columns.len()).for_each(|column| line[column * STEP] = '|');
        arrow(&mut line, from * STEP, to * STEP, &label(&message.bytes));
        let seconds = message.at.saturating_sub(begun) as f64 / 1e6;
        let leg = char::from(b'a' + (message.leg.min(25)) as u8);
        let line: String = line.into_iter().collect();
        let worker = message.worker;
        let _ = writeln!(text, "{:>9} {leg} {line}  w{worker}", format!("+{seconds:.3}"));
    }
    text
}

/// Draws an arrow with `label`.
fn arrow(line: &mut [char], from: usize, to: usize, label: &str) {
    let (low, high) = (from.min(to) + 1, from.max(to));
    line[low..high].fill('-');
    let tip = if to > from { (high - 1, '>') } else { (low, '<') };
    line[tip.0] = tip.1;
    // The label stands in the part next to the tip, not across another column.
    let near = if to > from { high - STEP + 1..high } else { low..low + STEP - 1 };
    let label = format!(" {} ", cut(label, near.len() - 6));
    let start = near.start + (near.len() - label.chars().count()) / 2;
    line[start..].iter_mut().zip(label.chars()).for_each(|(place, letter)| *place = letter);
}

/// The method of a request, or the status, the phrase and the method of a response.
fn label(bytes: &[u8]) -> String {
    let Ok(message) = Message::parse(bytes) else { return "?".to_owned() };
    let has_body = if message.body().is_empty() { "" } else { " +" };
    let text = match message.start_line() {
        StartLine::Request { method, .. } => {
            String::from_utf8_lossy(method.as_bytes()).into_owned()
        }
        StartLine::Response { status, reason } => {
            let cseq = message.value(HeaderName::CSeq).and_then(|it| CSeq::parse(it).ok());
            let method = cseq.as_ref().map_or(&b""[..], |cseq| cseq.method.as_bytes());
            let method = String::from_utf8_lossy(method);
            format!("{status} {} ({method})", String::from_utf8_lossy(reason))
        }
    };
    printable(&(text + has_body))
}

/// `text` with at most `width` characters.
fn cut(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(at: u64, remote: u16, is_sent: bool, leg: usize, start: &str) -> Traffic {
        let text = format!(
            "{start}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1\r\nFrom: <sip:a@h>;tag=1\r\n\
             To: <sip:b@h>\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        );
        Traffic {
            at,
            transport: "udp".to_owned(),
            local: ([127, 0, 0, 1], 5060).into(),
            remote: ([127, 0, 0, 1], remote).into(),
            is_sent,
            worker: 0,
            call: 0,
            leg,
            bytes: text.into_bytes(),
            missing: 0,
        }
    }

    #[test]
    fn messages_run_between_the_server_and_the_others() {
        let text = ladder(&[
            traffic(1_000_000, 1111, false, 0, "INVITE sip:b@h SIP/2.0"),
            traffic(1_002_000, 2222, true, 1, "INVITE sip:b@h SIP/2.0"),
            traffic(3_500_000, 3333, false, 1, "SIP/2.0 486 Busy\u{1b}Here"),
            traffic(3_500_000, 1111, true, 0, "SIP/2.0 486 A very long phrase that is cut"),
        ]);
        let lines: Vec<&str> = text.lines().collect();
        let columns = "udp:127.0.0.1:1111               server                           \
                       udp:127.0.0.1:2222               udp:127.0.0.1:3333";
        assert_eq!(lines[0].trim_start(), columns);
        let (invite, gap) = ("------------ INVITE ----------->", " ".repeat(STEP - 1));
        assert_eq!(lines[1], format!("   +0.000 a |{invite}|{gap}|{gap}|  w0"));
        assert_eq!(lines[2], format!("   +0.002 b |{gap}|{invite}|{gap}|  w0"));
        assert!(lines[3].contains("|<- 486 Busy\\u{1b}Here (INVITE "), "{text}");
        assert!(lines[4].starts_with("   +2.500 a |<"), "{text}");
    }

    #[test]
    fn nothing_makes_an_empty_ladder() {
        assert_eq!(ladder(&[]).lines().count(), 1);
    }
}
