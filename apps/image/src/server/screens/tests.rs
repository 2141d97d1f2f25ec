//! Pages of a server with users that register.

use super::list::{Key as Name, List, Place};
use super::state::View;
use super::view::Action;
use super::*;
use crate::machine::heap::Heap;
use crate::machine::random::Random;
use crate::net::{Address, Network};
use crate::nic::fake;
use crate::options::server::Options;
use crate::options::server::Page;
use crate::screen::Grid;
use crate::screen::console::{Line, View as _};
use crate::screen::keys::Key;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::iter;
use core::net::SocketAddr;
use sip::Duration;
use sip::{Flow, Transport};

const NOW: Instant = Instant::from_micros(1_800_000_000_000_000);

/// The state of the memory.
const MEMORY: Heap = Heap { used: 3 << 20, claimed: 60 << 20, used_reserve: 0 };

/// A server at 192.0.2.1 without authentication.
fn server() -> Server {
    let mut options = Options::default();
    options.read("auth=off domain=example.com address=192.0.2.1/24").expect("options");
    let network = Network::new(fake::card(), 1, true, NOW);
    let random = Random::new([1; 32]);
    let mut server = Server::new(options, network, random, || MEMORY, NOW);
    let ours = "192.0.2.1/24".parse().expect("an address");
    let address =
        Address { ours, gateway: None, dns: Vec::new(), tftp: None, file: None, ntp: None };
    server.attachment.begin(NOW, &mut server.network, &mut server.log);
    server.on_address(Some(address), NOW);
    server
}

/// Registers `user` from `remote`, or removes the binding if `expires` is 0.
fn register(server: &mut Server, user: &str, remote: &str, expires: u32) {
    let number = server.changes + 1;
    let request = format!(
        "REGISTER sip:example.com SIP/2.0\r\nVia: SIP/2.0/UDP {remote};branch=z9hG4bK{number}\r\n\
         Max-Forwards: 70\r\nFrom: <sip:{user}@example.com>;tag=1\r\n\
         To: <sip:{user}@example.com>\r\nCall-ID: x\r\nCSeq: {number} REGISTER\r\n\
         Contact: <sip:{user}@{remote}>;expires={expires}\r\nContent-Length: 0\r\n\r\n"
    );
    let flow = Flow {
        transport: Transport::Udp,
        local: SocketAddr::from(([192, 0, 2, 1], 5060)),
        remote: remote.parse().expect("an address"),
        connection: None,
    };
    let before = server.changes;
    // One second for each, so that no rate limit applies.
    let now = NOW + Duration::from_secs(number);
    server.worker.receive(now, &flow, request.as_bytes(), &mut server.out);
    server.act(now);
    assert_eq!(server.changes, before + 1, "{user} at {remote}");
}

/// A screen of 80 by 24 with a clock.
struct Eye {
    view: View,
    grid: Grid,
    rates: Rates,
    now: Instant,
}

impl Eye {
    fn new(page: Page) -> Self {
        let mut view = View::default();
        view.set_page(page);
        Self { view, grid: Grid::new(80, 24), rates: Rates::default(), now: NOW }
    }

    /// Presses a key, and turns until the screen is stable. Returns the text of each row.
    fn press(&mut self, server: &mut Server, key: Option<Key>) -> Vec<String> {
        assert_eq!(key.and_then(|key| self.view.action(key)), None);
        self.look(server)
    }

    fn look(&mut self, server: &mut Server) -> Vec<String> {
        for _ in 0..400 {
            self.now += Duration::from_millis(10);
            self.rates.turn(server, self.now);
            self.view.turn(server, &self.grid, self.now);
            if self.view.is_due(server, self.now) {
                self.grid = Grid::new(80, 24);
                self.view.draw(&mut self.grid, server, &self.rates, self.now);
            }
        }
        (0..24).map(|row| self.grid.text(row)).collect()
    }
}

#[test]
fn users_are_shown_by_name_a_page_at_a_time() {
    let mut server = server();
    for number in (0..50).rev() {
        let remote = format!("192.0.2.{}:{}", number + 10, 5000 + number);
        register(&mut server, &format!("user{number:02}"), &remote, 300);
    }
    let mut eye = Eye::new(Page::Users);
    let page = eye.press(&mut server, None);
    assert!(page[0].contains("3 users"), "{}", page[0]);
    let row = " user00@example.com        192.0.2.10       5000";
    assert!(page[2].starts_with(row), "{}", page[2]);
    assert!(page[2].ends_with("sip:user00@192.0.2.1"), "{}", page[2]);
    assert!(page[22].starts_with(" user20@"), "{}", page[22]);
    assert!(page[23].starts_with(" 1-21 of 50"), "{}", page[23]);
    let mut names = |key| {
        let page = eye.press(&mut server, Some(key));
        let last = page[23].split("   ").next().unwrap_or("").trim();
        format!("{} {}: {last}", &page[2][1..7], page[22].get(1..7).unwrap_or("nobody"))
    };
    assert_eq!(names(Key::PageDown), "user21 user41: 22-42 of 50");
    assert_eq!(names(Key::Character(' ')), "user42 nobody: 43-50 of 50");
    assert_eq!(names(Key::PageDown), "user42 nobody: 43-50 of 50");
    assert_eq!(names(Key::Up), "user21 user41: 22-42 of 50");
    assert_eq!(names(Key::End), "user29 user49: 30-50 of 50");
    assert_eq!(names(Key::PageUp), "user08 user28: 9-29 of 50");
    // There are too few before: the first page is full.
    assert_eq!(names(Key::PageUp), "user00 user20: 1-21 of 50");
    assert_eq!(names(Key::PageUp), "user00 user20: 1-21 of 50");
}

#[test]
fn every_change_is_shown_unless_that_is_switched_off() {
    let mut server = server();
    let mut eye = Eye::new(Page::Users);
    register(&mut server, "bob", "192.0.2.20:5060", 300);
    assert!(eye.press(&mut server, None)[2].starts_with(" bob@example.com"));
    register(&mut server, "alice", "192.0.2.21:5060", 300);
    let page = eye.look(&mut server);
    assert!(page[2].starts_with(" alice@example.com"), "{}", page[2]);
    assert!(page[3].starts_with(" bob@example.com"), "{}", page[3]);
    let page = eye.press(&mut server, Some(Key::Character('w')));
    assert!(page[23].contains("(off)"), "{}", page[23]);
    register(&mut server, "bob", "192.0.2.20:5060", 0);
    assert_eq!(eye.look(&mut server)[3][..4], *" bob");
    let page = eye.press(&mut server, Some(Key::Character('W')));
    assert!(page[2].starts_with(" alice@example.com"), "{}", page[2]);
    assert_eq!(page[3], "");
    assert!(page[23].starts_with(" 1-1 of 1 "), "{}", page[23]);
}

#[test]
fn the_state_page_shows_the_server() {
    let mut server = server();
    for number in 0..40 {
        register(&mut server, "alice", &format!("192.0.2.20:{}", 5060 + number % 3), 300);
    }
    let mut eye = Eye::new(Page::State);
    let page = eye.press(&mut server, None);
    let text = page.join("\n");
    for line in [
        " mode           proxy, stateful",
        " authentication off",
        " domain         example.com, 192.0.2.1",
        " address        192.0.2.1/24",
        " gateway        none",
        " card           card 02-00-00-00-00-01",
        " link           up",
        " users loaded   0",
        " registered     1, 3 bindings",
        " transactions   0",
        " relayed calls  0",
        " uptime         0:00:0",
        " memory         3.0 of 60 MiB, TCP 0.0",
        " ParseSIPHeaders ",
        " AddUser ",
        " handler ",
        " frame to frame",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}\n{text}");
    }
    let counter = |name: &str| text.lines().filter_map(|line| line.split(name).nth(1)).next();
    assert_eq!(counter(" registers").map(str::trim), Some("40"));
    assert_eq!(counter(" messages received").map(|rest| rest.ends_with(" 40")), Some(true));
    // Nothing is drawn over the last row.
    assert_eq!(page[23], "");
}

#[test]
fn the_log_is_shown_from_its_end_and_wrapped() {
    let mut server = server();
    for number in 0..60 {
        server.log.say(format_args!("line {number}"));
    }
    server.log.say(format_args!("{} end", "x".repeat(100)));
    let mut eye = Eye::new(Page::Log);
    let page = eye.press(&mut server, None);
    assert_eq!((page[1].as_str(), page[20].as_str()), ("line 40", "line 59"));
    assert_eq!((page[21].len(), page[22].as_str()), (80, &*format!("{} end", "x".repeat(20))));
    let older = eye.press(&mut server, Some(Key::PageUp));
    assert_eq!(older[22], "line 38");
    assert!(older[23].starts_with(" 22 newer lines"), "{}", older[23]);
    assert_eq!(eye.press(&mut server, Some(Key::Home))[1][..7], *"address");
    assert_eq!(eye.press(&mut server, Some(Key::End)), page);
    server.log.say(format_args!("last"));
    assert_eq!(eye.look(&mut server)[22], "last");
}

#[test]
fn it_boots_again_only_if_asked_twice() {
    let mut server = server();
    let mut eye = Eye::new(Page::Log);
    let page = eye.press(&mut server, Some(Key::Character('b')));
    assert!(page[23].starts_with(" Boot the machine again?"), "{}", page[23]);
    let page = eye.press(&mut server, Some(Key::Character('2')));
    assert!(!page[23].contains("again"), "{}", page[23]);
    assert_eq!(eye.view.action(Key::Enter), None);
    assert_eq!(eye.view.action(Key::Character('b')), None);
    assert_eq!(eye.view.action(Key::Enter), Some(Action::Reboot));
}

#[test]
fn keys_are_explained_and_users_fetched() {
    let mut server = server();
    let mut eye = Eye::new(Page::State);
    let page = eye.press(&mut server, Some(Key::Character('?')));
    assert!(page.iter().any(|row| row.contains("fetches the file of users again")));
    assert!(page.iter().any(|row| row.contains("Enter: back")), "{page:?}");
    let page = eye.press(&mut server, Some(Key::Enter));
    assert!(page[1].starts_with(" mode"), "{}", page[1]);
    eye.press(&mut server, Some(Key::Character('?')));
    let page = eye.press(&mut server, Some(Key::Help));
    assert!(page[1].starts_with(" mode"), "{}", page[1]);
    assert_eq!(eye.view.action(Key::Character('r')), Some(Action::Fetch));
    server.next_fetch = None;
    server.fetch_users(NOW);
    assert_eq!(server.next_fetch, Some(NOW));
}

#[test]
fn a_page_that_is_gone_makes_room_for_the_last_one() {
    let mut server = server();
    for number in 0..9 {
        register(&mut server, &format!("user{number}"), "192.0.2.20:5060", 300);
    }
    let find = |server: &Server, place| {
        let mut list = List::default();
        list.look(place, 4, 0);
        while !list.turn(&server.engine, NOW) {}
        let names = list.rows.iter().map(|row| row.key.name[4]).collect();
        (String::from_utf8(names).expect("digits"), list.before, list.total)
    };
    let name = |user: &str| Name {
        name: format!("{user}@example.com").into_bytes().into(),
        contact: Box::default(),
    };
    assert_eq!(find(&server, Place::First), ("0123".into(), 0, 9));
    assert_eq!(find(&server, Place::Last), ("5678".into(), 5, 9));
    assert_eq!(find(&server, Place::From(name("user3"))), ("3456".into(), 3, 9));
    assert_eq!(find(&server, Place::Before(name("user6"))), ("2345".into(), 2, 9));
    assert_eq!(find(&server, Place::Before(name("user2"))), ("0123".into(), 0, 9));
    assert_eq!(find(&server, Place::Behind(name("zoe"))), ("5678".into(), 5, 9));
    register(&mut server, "user8", "192.0.2.20:5060", 0);
    assert_eq!(find(&server, Place::From(name("user8"))), ("4567".into(), 4, 8));
}

#[test]
fn the_serial_line_sends_lines_until_a_key_is_pressed_and_after_control_x() {
    let mut server = server();
    let mut line = Line::<View>::default();
    let sent = |line: &mut Line<View>| {
        let bytes: Vec<u8> = iter::from_fn(|| line.console.display.take()).collect();
        String::from_utf8(bytes).expect("text")
    };
    line.go_on(&server.log);
    assert_eq!(sent(&mut line), "address 192.0.2.1/24\r\n");
    line.go_on(&server.log);
    assert_eq!(sent(&mut line), "");
    assert!(!line.on_key(Key::Character('2'), &mut server, NOW));
    assert!(line.has_pages && sent(&mut line).contains("\x1b[2J"));
    (0..300).for_each(|number| server.log.say(format_args!("line {number}")));
    assert!(!line.on_key(Key::Control('x'), &mut server, NOW));
    assert!(sent(&mut line).ends_with("\x1b[?25h"));
    line.go_on(&server.log);
    let text = sent(&mut line);
    assert!(text.contains("(100 lines are left out)\r\nline 100\r\n"), "{text}");
    assert!(text.ends_with("line 299\r\n"), "{text}");
    // A key that only leaves the page triggers no action.
    assert!(!line.on_key(Key::Control('x'), &mut server, NOW));
    assert!(!line.has_pages);
}
