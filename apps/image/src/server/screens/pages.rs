//! The pages: the first row shows their names, the last one the keys.

use super::calls;
use super::clock::Clock;
use super::rates::{NAMES, Rates};
use super::state::{Cover, View};
use super::{Phase, Server};
use crate::options::server::Page;
use crate::screen::page::{bars, hint, lines};
use crate::screen::{Grid, Style};
use crate::server::config;
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use sip::Instant;
use sip::uri::escape_user;
use sip_server::config::{Mode, State};
use sip_server::{Step, Timing};

const PAGES: [(Page, &str); 4] = [
    (Page::Log, "1 log"),
    (Page::State, "2 state"),
    (Page::Users, "3 users"),
    (Page::Calls, "4 calls"),
];

const KEYS: [(&str, &str); 13] = [
    ("1  l", "the log"),
    ("2  s", "the state of the server"),
    ("3  u", "the registered users"),
    ("4  c", "the relayed calls"),
    ("Page Down, Down, space", "the next page of users, calls or counters, newer lines"),
    ("Page Up, Up", "the page before, older lines"),
    ("Home  End", "the first page, the last one"),
    ("w", "switches the update at every change on or off"),
    ("r", "fetches the file of users again"),
    ("b", "boots the machine again, after a question"),
    ("Control-L", "draws the page again (serial line)"),
    ("Control-X", "back to lines of the log (serial line)"),
    ("?  h  F1", "this page"),
];

/// Columns of the left half of the state page, and of a column of counters with its leading blank.
const HALF: usize = 40;
const RIGHT: usize = HALF + 1;
/// Rows above the counters in the right half.
const ABOVE: usize = NAMES.len() + 3;
/// First column of values.
const VALUES: usize = 16;

/// The number of entries of a page on this grid: lines, counters, users or calls.
pub(super) fn rows(page: Page, grid: &Grid) -> usize {
    let body = grid.height().saturating_sub(2);
    let rows = match page {
        Page::Log => body,
        Page::Users => body.saturating_sub(1),
        Page::Calls => body.saturating_sub(1) / calls::ROWS,
        Page::State => {
            let columns = (grid.width() / HALF).saturating_sub(2);
            body.saturating_sub(ABOVE) + columns * body
        }
    };
    rows.max(1)
}

/// The engine's counters that are not zero.
pub(super) fn counters(server: &Server) -> Vec<(&'static str, u64)> {
    let mut counters = server.engine.counters();
    counters.retain(|(_, count)| *count > 0);
    counters
}

/// Draws the page of `view`.
pub(super) fn draw(view: &View, grid: &mut Grid, server: &mut Server, rates: &Rates, now: Instant) {
    let mut column = bars(grid) + 3;
    for (page, name) in PAGES {
        let is_chosen = page == view.page && view.cover != Some(Cover::Keys);
        let style = if is_chosen { Style::Chosen } else { Style::Bar };
        column = grid.print(0, column, style, format_args!(" {name} ")) + 1;
    }
    let style = if view.cover == Some(Cover::Keys) { Style::Chosen } else { Style::Bar };
    grid.print(0, column, style, format_args!(" ? keys "));
    let phase = phase(server);
    grid.print(
        0,
        grid.width().saturating_sub(phase.len() + 1),
        Style::Bar,
        format_args!("{phase}"),
    );
    match (view.cover, view.page) {
        (Some(Cover::Keys), _) => keys(grid),
        (_, Page::Log) => lines(grid, &server.log, view.newer),
        (_, Page::State) => state(grid, server, rates, view.skipped),
        (_, Page::Users) => users(grid, view, now),
        (_, Page::Calls) => calls::draw(grid, server.media.as_ref(), view.skipped, now),
    }
    if view.cover == Some(Cover::Question) {
        let last = grid.height() - 1;
        grid.fill(last, Style::Bad);
        let question = "Boot the machine again? b or Enter: yes; any other key: no";
        grid.print(last, 1, Style::Bad, format_args!("{question}"));
    }
}

fn phase(server: &Server) -> &'static str {
    match server.phase {
        Phase::Link => "no link",
        Phase::Address => "waits for an address",
        Phase::Users => "waits for the users",
        Phase::Ready if server.accounts.is_busy() => "fetches the users",
        Phase::Ready => "ready",
    }
}

fn keys(grid: &mut Grid) {
    for (row, (keys, what)) in KEYS.into_iter().enumerate() {
        grid.print(row + 2, 2, Style::Strong, format_args!("{keys}"));
        grid.print(row + 2, 27, Style::Plain, format_args!("{what}"));
    }
    hint(grid, format_args!("Enter: back"));
}

fn users(grid: &mut Grid, view: &View, now: Instant) {
    let list = &view.list;
    // The remaining columns are for names and contacts.
    let name = 25 + grid.width().saturating_sub(80) / 2;
    let address = name + 2;
    let (port, expires, contact) = (address + 16, address + 22, address + 33);
    grid.print(1, 1, Style::Label, format_args!("name"));
    grid.print(1, address, Style::Label, format_args!("address"));
    grid.print(1, port, Style::Label, format_args!(" port"));
    grid.print(1, expires, Style::Label, format_args!("{:>9}", "expires"));
    grid.print(1, contact, Style::Label, format_args!("contact"));
    for (row, user) in (2..grid.height() - 1).zip(&list.rows) {
        let text = shown_name(&user.key.name);
        grid.print(row, 1, Style::Strong, format_args!("{text:.name$}"));
        grid.print(row, address, Style::Plain, format_args!("{}", user.remote.ip()));
        grid.print(row, port, Style::Plain, format_args!("{:>5}", user.remote.port()));
        let rest = user.expires.since(now);
        grid.print(row, expires, Style::Plain, format_args!("{:>9}", Clock(rest)));
        let uri = String::from_utf8_lossy(&user.key.contact);
        grid.print(row, contact, Style::Label, format_args!("{uri}"));
    }
    let first = list.before + usize::from(!list.rows.is_empty());
    let anew = if view.is_live { "on" } else { "off" };
    hint(
        grid,
        format_args!(
            "{first}-{} of {}   Page Up, Page Down   w: update at every change ({anew})   r: fetch",
            list.before + list.rows.len(),
            list.total,
        ),
    );
}

/// `user@domain` with the escapes of a URI, so that different names look different.
fn shown_name(address_of_record: &[u8]) -> String {
    let at = address_of_record.iter().rposition(|&byte| byte == b'@');
    let (user, domain) = address_of_record.split_at(at.unwrap_or(address_of_record.len()));
    let user: Cow<'_, [u8]> = escape_user(user);
    String::from_utf8_lossy(&[&user, domain].concat()).into()
}

/// A column of labels and values.
struct Facts<'a> {
    grid: &'a mut Grid,
    row: usize,
}

impl Facts<'_> {
    fn say(&mut self, label: &str, style: Style, value: fmt::Arguments<'_>) {
        self.grid.print(self.row, 1, Style::Label, format_args!("{label}"));
        self.grid.print(self.row, VALUES, style, value);
        self.row += 1;
    }

    fn tell(&mut self, label: &str, value: fmt::Arguments<'_>) {
        self.say(label, Style::Plain, value);
    }
}

fn state(grid: &mut Grid, server: &mut Server, rates: &Rates, skipped: usize) {
    let mut facts = Facts { grid, row: 1 };
    about(&mut facts, server, rates);
    let row = facts.row + 1;
    timings(grid, row, server);
    grid.print(1, RIGHT, Style::Label, format_args!("{:<18}{:>9}{:>11}", "", "a second", "in all"));
    for (at, (name, (tenths, all))) in NAMES.iter().zip(rates.read()).enumerate() {
        grid.print(at + 2, RIGHT, Style::Label, format_args!("{name}"));
        let (whole, part) = (tenths / 10, tenths % 10);
        let count = format_args!("{whole:>7}.{part}{all:>11}");
        grid.print(at + 2, RIGHT + 18, Style::Plain, count);
    }
    let (counters, room) = (counters(server), rows(Page::State, grid));
    let body = grid.height() - 2;
    for (at, (name, count)) in counters.iter().skip(skipped).take(room).enumerate() {
        let at = at + ABOVE;
        let (column, row) = (RIGHT + HALF * (at / body), 1 + at % body);
        grid.print(row, column, Style::Label, format_args!("{name}"));
        grid.print(row, column + 27, Style::Plain, format_args!("{count:>11}"));
    }
    let shown = counters.len().saturating_sub(skipped).min(room);
    if shown < counters.len() {
        hint(
            grid,
            format_args!(
                "counters {}-{} of {}: Page Up, Page Down",
                skipped + 1,
                skipped + shown,
                counters.len()
            ),
        );
    }
}

/// Prints the configuration of the server and its counts.
fn about(facts: &mut Facts<'_>, server: &mut Server, rates: &Rates) {
    let options = &server.options;
    let mode = match options.mode {
        Mode::Proxy => "proxy",
        Mode::Redirect => "redirect server",
        Mode::Registrar => "registrar",
    };
    let state = match options.state {
        State::Stateful => "stateful",
        State::Stateless => "stateless",
    };
    facts.tell("mode", format_args!("{mode}, {state}"));
    let auth = if options.auth { "on" } else { "off" };
    facts.tell("authentication", format_args!("{auth}"));
    let domain = config::domain(options, server.ours());
    let names = core::iter::once(&domain.name).chain(&domain.aliases);
    let names: Vec<&str> = names.map(String::as_str).collect();
    facts.tell("domain", format_args!("{:.24}", names.join(", ")));
    match server.network.address() {
        Some(address) => {
            facts.tell("address", format_args!("{}", address.ours));
            match address.gateway {
                Some(gateway) => facts.tell("gateway", format_args!("{gateway}")),
                None => facts.tell("gateway", format_args!("none")),
            }
        }
        None => {
            facts.say("address", Style::Bad, format_args!("none yet"));
            facts.tell("gateway", format_args!("none"));
        }
    }
    let nic = server.network.nic();
    facts.tell("card", format_args!("{} {}", nic.name(), nic.mac()));
    match server.attachment.has_link() {
        true => facts.say("link", Style::Good, format_args!("up")),
        false => facts.say("link", Style::Bad, format_args!("down")),
    }
    facts.tell("users loaded", format_args!("{}", server.accounts.len()));
    let (users, bindings) = (server.engine.registered(), server.engine.bindings());
    facts.tell("registered", format_args!("{users}, {bindings} bindings"));
    facts.tell("transactions", format_args!("{}", server.engine.transactions()));
    match &server.media {
        Some(media) => facts.tell("relayed calls", format_args!("{}", media.count())),
        None => facts.tell("relayed calls", format_args!("off")),
    }
    facts.tell("uptime", format_args!("{}", Clock(rates.uptime())));
    let heap = (server.memory)();
    let tenths = |bytes: usize| (bytes * 10) >> 20;
    let (used, there) = (tenths(heap.used), tenths(heap.claimed));
    let tcp = tenths(server.connections.held());
    facts.tell(
        "memory",
        format_args!(
            "{}.{} of {} MiB, TCP {}.{}",
            used / 10,
            used % 10,
            there / 10,
            tcp / 10,
            tcp % 10
        ),
    );
}

/// Prints the timings of the steps.
fn timings(grid: &mut Grid, row: usize, server: &Server) {
    grid.print(row, 1, Style::Label, format_args!("{:<17}{:>10}{:>11}", "time in", "us", "count"));
    let steps = server.engine.timings().map(|(step, timing)| (step_name(step), timing));
    let total = ("frame to frame", server.total);
    for (at, (name, timing)) in steps.into_iter().chain([total]).enumerate() {
        let row = row + 1 + at;
        grid.print(row, 1, Style::Label, format_args!("{name}"));
        let Timing { count, nanoseconds } = timing;
        if let Some(mean) = nanoseconds.checked_div(count) {
            let (whole, part) = (mean / 1000, mean % 1000 / 10);
            let numbers = format_args!("{whole:>7}.{part:02}{count:>11}");
            grid.print(row, 18, Style::Plain, numbers);
        }
    }
}

/// The display name of a step.
fn step_name(step: Step) -> &'static str {
    match step {
        Step::ParseHeaders => "ParseSIPHeaders",
        Step::FindUser => "FindUser",
        Step::AddUser => "AddUser",
        Step::AuthenticateUser => "AuthenticateUser",
        Step::FormatResponse => "FormatSIPResponse",
        _ => step.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use sip::Duration;

    #[test]
    fn names_and_times_are_formatted() {
        assert_eq!(
            shown_name("m\u{fc}ller x@example.com".as_bytes()),
            "m%C3%BCller%20x@example.com"
        );
        assert_eq!(shown_name(b"a@b@example.com"), "a%40b@example.com");
        let clock = |seconds| Clock(Duration::from_secs(seconds)).to_string();
        assert_eq!([clock(59), clock(3_661)], ["0:00:59", "1:01:01"]);
        assert_eq!(clock(2 * 86_400 + 3_600), "2 d 1:00");
    }
}
