//! The pages of the phone.

use super::state::{Page, View, login};
use crate::phone::{Phone, SIP, Stage};
use crate::screen::page::{bars, hint, lines};
use crate::screen::{Grid, Style};
use alloc::string::String;
use core::fmt;
use sip::Instant;

/// First column of values.
const VALUES: usize = 26;

/// Draws the page of `view`.
pub(super) fn draw(view: &View, grid: &mut Grid, phone: &mut Phone, now: Instant) {
    let column = bars(grid) + 3;
    grid.print(0, column, Style::Bar, format_args!("phone"));
    match view.page {
        Page::Login => log_in(view, grid),
        Page::Menu => menu(grid, phone),
        Page::Dial => dial(view, grid, "Address to call"),
        Page::Transfer => dial(view, grid, "Transfer target, called by the other end"),
        Page::Call => call(grid, phone, now),
        Page::Network => network(grid, phone),
        Page::Log => lines(grid, &phone.log, 0),
        Page::Keys => keys(grid),
    }
    if view.is_asking {
        hint(grid, format_args!("Boot the machine again? b or Enter: yes; any other key: no"));
    }
}

fn say(grid: &mut Grid, row: &mut usize, label: &str, style: Style, value: fmt::Arguments<'_>) {
    grid.print(*row, 2, Style::Label, format_args!("{label}"));
    grid.print(*row, VALUES, style, value);
    *row += 1;
}

/// Writes the reason why there is no address.
fn no_address(grid: &mut Grid, row: &mut usize, phone: &Phone) {
    match phone.rival() {
        Some(mac) => say(grid, row, "address", Style::Bad, format_args!("in use by {mac}")),
        None => say(grid, row, "address", Style::Bad, format_args!("none yet")),
    }
}

fn log_in(view: &View, grid: &mut Grid) {
    grid.print(2, 2, Style::Strong, format_args!("Log in to a server, or call a peer directly"));
    view.login.draw(grid, 4, |line| line == 1);
    let other = if view.was_known { "back" } else { "no account, calls are direct" };
    hint(grid, format_args!("Tab, Enter: next line, log in   Page Down: {other}"));
}

fn dial(view: &View, grid: &mut Grid, title: &str) {
    grid.print(2, 2, Style::Strong, format_args!("{title}"));
    view.dial.draw(grid, 4, |_| false);
    hint(grid, format_args!("Enter: done   Page Down: back"));
}

fn menu(grid: &mut Grid, phone: &Phone) {
    let mut row = 2;
    let account = phone.options().account.as_deref().unwrap_or("none");
    say(grid, &mut row, "account", Style::Strong, format_args!("{account}"));
    // A row of its own: the reason of a failure is long.
    say(grid, &mut row, "", Style::Plain, format_args!("{}", login(phone)));
    match phone.address() {
        Some(address) => {
            say(grid, &mut row, "address", Style::Plain, format_args!("{}", address.ours));
        }
        None => no_address(grid, &mut row, phone),
    }
    if let Some(end) = phone.last_end().filter(|_| phone.call().is_none()) {
        say(grid, &mut row, "last call", Style::Plain, format_args!("{end}"));
    }
    row += 1;
    for (number, uri) in (1..).zip(&phone.options().dials) {
        let label = alloc::format!("{number}");
        say(grid, &mut row, &label, Style::Plain, format_args!("call {uri}"));
    }
    for (key, what) in [
        ("c", "call an address"),
        ("n", "network: the lease, and our ports as a NAT maps them"),
        ("a", "log in with another account"),
        ("l", "the log"),
        ("?", "keys"),
    ] {
        say(grid, &mut row, key, Style::Plain, format_args!("{what}"));
    }
    if phone.call().is_some() {
        say(grid, &mut row, "t", Style::Good, format_args!("back to the call"));
    }
}

fn call(grid: &mut Grid, phone: &Phone, now: Instant) {
    let Some(call) = phone.call() else {
        return hint(grid, format_args!("there is no call   q: the menu"));
    };
    let mut row = 2;
    say(grid, &mut row, "with", Style::Strong, format_args!("{}", call.party));
    let stage = match call.stage {
        Stage::Opening => "looks what its port is outside",
        Stage::Calling => "calling",
        Stage::Ringing => "it rings there",
        Stage::RingingHere => "it rings here",
        Stage::Talking => "talking",
    };
    let seconds = now.since(call.since).as_secs();
    let (minutes, rest) = (seconds / 60, seconds % 60);
    say(grid, &mut row, "state", Style::Plain, format_args!("{stage}, {minutes}:{rest:02}"));
    if let Some(stream) = call.stream() {
        say(grid, &mut row, "codec", Style::Plain, format_args!("{}", stream.codec.name()));
        match stream.keying.sdes() {
            Some(agreed) => {
                let policy = &agreed.send.policy;
                let suite = policy.suite.name();
                say(grid, &mut row, "secured by", Style::Good, format_args!("{suite}"));
                let plus = policy.plus.map_or("none", |plus| plus.scheme.name());
                say(grid, &mut row, "SRTP+", Style::Plain, format_args!("{plus}"));
                say(
                    grid,
                    &mut row,
                    "keys",
                    Style::Bad,
                    format_args!("came in clear with the signalling"),
                );
            }
            None => say(grid, &mut row, "secured by", Style::Bad, format_args!("nothing")),
        }
    }
    if let Some(totals) = call.statistics() {
        row += 1;
        let (sent, received) = (totals.sent, totals.received);
        say(
            grid,
            &mut row,
            "packets",
            Style::Plain,
            format_args!("{sent} sent, {received} received"),
        );
        let (lost, refused) = (totals.lost(), totals.refused);
        say(grid, &mut row, "lost, refused", Style::Plain, format_args!("{lost}, {refused}"));
        let jitter = totals.jitter.as_micros();
        let delta = totals.max_delta.as_micros();
        say(
            grid,
            &mut row,
            "jitter, longest delta",
            Style::Plain,
            format_args!("{}.{} ms, {} ms", jitter / 1000, jitter / 100 % 10, delta / 1000),
        );
        say(grid, &mut row, "MOS", Style::Plain, format_args!("{:.1}", totals.mos));
    }
    if let Some((_, line)) = phone.log.lines.back() {
        row += 1;
        say(grid, &mut row, "said last", Style::Plain, format_args!("{line}"));
    }
    let mute = if call.is_muted() { "speak again" } else { "mute" };
    let keys = match call.stage {
        Stage::RingingHere => String::from("Enter: take it   h: refuse"),
        _ => alloc::format!("h: hang up   m: {mute}   x: transfer   0-9 * #: keys   q: the menu"),
    };
    hint(grid, format_args!("{keys}"));
}

fn network(grid: &mut Grid, phone: &Phone) {
    let mut row = 2;
    let Some(address) = phone.address() else {
        return no_address(grid, &mut row, phone);
    };
    say(grid, &mut row, "address", Style::Plain, format_args!("{}", address.ours));
    if let Some((server, seconds)) = phone.lease() {
        let value = format_args!("from {server}, for {seconds} s");
        say(grid, &mut row, "lease", Style::Plain, value);
    }
    match address.gateway {
        Some(gateway) => say(grid, &mut row, "gateway", Style::Plain, format_args!("{gateway}")),
        None => say(grid, &mut row, "gateway", Style::Bad, format_args!("none")),
    }
    for server in phone.options().machine.dns(address) {
        say(grid, &mut row, "DNS", Style::Plain, format_args!("{server}"));
    }
    row += 1;
    say(grid, &mut row, "SIP port, internal", Style::Plain, format_args!("{SIP}"));
    if let Some(seen) = phone.seen() {
        say(grid, &mut row, "SIP, external", Style::Good, format_args!("{seen}"));
    }
    match phone.rtp() {
        Some((port, mapped)) => {
            say(grid, &mut row, "RTP port, internal", Style::Plain, format_args!("{port}"));
            match mapped {
                Some(mapped) => {
                    say(grid, &mut row, "RTP, external", Style::Good, format_args!("{mapped}"));
                }
                None => {
                    let why = "not known: no STUN server, or no answer";
                    say(grid, &mut row, "RTP, external", Style::Plain, format_args!("{why}"));
                }
            }
        }
        None => say(grid, &mut row, "RTP", Style::Plain, format_args!("a port for each call")),
    }
    hint(grid, format_args!("q: the menu"));
}

fn keys(grid: &mut Grid) {
    for (row, (keys, what)) in [
        ("c", "calls an address"),
        ("1 to 9", "calls the address at this place (options dial=...)"),
        ("Enter", "takes a call"),
        ("h, Backspace", "hangs up, or refuses"),
        ("m", "mutes the microphone, or takes that back"),
        ("x", "transfers the call: the other end calls an address"),
        ("0 to 9 * #", "keys, in a call"),
        ("t, q", "back to the call, to the menu"),
        ("n", "the network"),
        ("a", "logs in with another account"),
        ("l", "the log"),
        ("b", "boots the machine again, after a question"),
        ("Control-X", "back to lines of the log (serial line)"),
    ]
    .into_iter()
    .enumerate()
    {
        grid.print(row + 2, 2, Style::Strong, format_args!("{keys}"));
        grid.print(row + 2, VALUES, Style::Plain, format_args!("{what}"));
    }
    hint(grid, format_args!("Enter: back"));
}
