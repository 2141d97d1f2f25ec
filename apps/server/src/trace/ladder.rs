//! The messages of a call as a ladder: a column for the server and one for each address that it
//! exchanges messages with, as far as there is room.

use super::Traffic;
use crate::output::printable;
use sip::header::CSeq;
use sip::{HeaderName, Message, StartLine};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;

/// The characters from one column to the next.
const STEP: usize = 33;

/// The characters before the first column.
const MARGIN: usize = 12;

/// The maximum number of columns besides that of the server. A stranger chooses the number of
/// addresses of a call, and each row is as wide as all columns.
const MAX_ADDRESSES: usize = 16;

/// The ladder of `messages`. The letter is that of the Call-ID, and `w0` the worker. Of too many
/// addresses those with the fewest messages share the last column, and stand behind the worker.
pub(crate) fn ladder(messages: &[Traffic]) -> String {
    let names: Vec<_> =
        messages.iter().map(|it| format!("{}:{}", it.transport, it.remote)).collect();
    let (mut columns, place_of) = columns(&names);
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
    for (message, name) in messages.iter().zip(&names) {
        let own = place_of.get(name.as_str());
        let place = own.map_or(columns.len() - 2, |place| *place);
        let remote = place + usize::from(place >= server);
        let [from, to] = if message.is_sent { [server, remote] } else { [remote, server] };
        let mut line = vec![' '; (columns.len() - 1) * STEP + 1];
        (0..columns.len()).for_each(|column| line[column * STEP] = '|');
        arrow(&mut line, from * STEP, to * STEP, &label(&message.bytes));
        let seconds = message.at.saturating_sub(begun) as f64 / 1e6;
        let leg = char::from(b'a' + (message.leg.min(25)) as u8);
        let line: String = line.into_iter().collect();
        let (worker, of_other) = (message.worker, if own.is_some() { "" } else { name });
        let end = format!("w{worker} {of_other}");
        let end = end.trim_end();
        let _ = writeln!(text, "{:>9} {leg} {line}  {end}", format!("+{seconds:.3}"));
    }
    text
}

/// The titles of the columns without that of the server, and the column of each name that has one
/// of its own.
fn columns(names: &[String]) -> (Vec<String>, HashMap<&str, usize>) {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut found: Vec<&str> = Vec::new();
    for name in names {
        let count = counts.entry(name).or_default();
        if *count == 0 {
            found.push(name);
        }
        *count += 1;
    }
    let all = found.len();
    if all > MAX_ADDRESSES {
        let mut order: Vec<usize> = (0..all).collect();
        // A stable sort: of equal ones the first.
        order.sort_by_key(|place| Reverse(counts[found[*place]]));
        order.truncate(MAX_ADDRESSES - 1);
        order.sort_unstable();
        found = order.into_iter().map(|place| found[place]).collect();
    }
    let place_of = found.iter().enumerate().map(|(place, name)| (*name, place)).collect();
    let mut titles: Vec<_> = found.iter().map(|&name| name.to_owned()).collect();
    if titles.len() < all {
        titles.push(format!("{} others", all - titles.len()));
    }
    (titles, place_of)
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
    fn a_ladder_of_many_addresses_is_narrow() {
        let invite = "INVITE sip:b@h SIP/2.0";
        let mut messages: Vec<_> =
            (0..2000).map(|at| traffic(at, 1000 + at as u16 / 2, at % 2 > 0, 0, invite)).collect();
        messages.extend((0..9).map(|at| traffic(2000 + at, 9999, false, 0, invite)));
        let text = ladder(&messages);
        assert!(text.len() < 2 << 20, "{} bytes", text.len());
        let lines: Vec<&str> = text.lines().collect();
        let titles = lines[0].split("  ").map(str::trim).filter(|title| !title.is_empty());
        let titles: Vec<_> = titles.collect();
        assert_eq!(titles.len(), MAX_ADDRESSES + 1, "{}", lines[0]);
        assert_eq!(titles[0], "udp:127.0.0.1:1000");
        assert_eq!(titles[15..], ["udp:127.0.0.1:9999", "986 others"]);
        assert!(lines[1].ends_with("|  w0") && lines[2009].ends_with("|  w0"), "{}", lines[1]);
        let other = lines[2000];
        assert!(other.contains(" INVITE -"), "{other}");
        assert!(other.ends_with(">|  w0 udp:127.0.0.1:1999"), "{other}");
    }

    #[test]
    fn nothing_makes_an_empty_ladder() {
        assert_eq!(ladder(&[]).lines().count(), 1);
    }
}
