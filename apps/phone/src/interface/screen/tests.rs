//! The views, drawn on a terminal of a given size.

use super::draw::draw;
use super::keys::{Act, bindings, find};
use super::model::{CallShown, Model};
use super::theme::Theme;
use super::ui::{Typing, Ui, View};
use crate::call::Stage;
use crate::config::Dial;
use crate::figures::Media;
use crate::outcome::Outcome;
use crate::report::{Answered, PhoneEvent, Security};
use crate::trace::{Trace, Traced};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;
use sip::{Flow, Transport};
use sip_ua::AccountId;
use std::collections::VecDeque;

/// Control sequences that could take over a terminal.
const HOSTILE: &str = "\x1b[2J\u{9b}31m\r\n\x07日本語 \u{202e}eve";

/// The event of an ended call.
pub(super) fn ended(call: u64, cause: &str, seconds: Option<f64>, outcome: Outcome) -> PhoneEvent {
    PhoneEvent::Ended {
        call,
        cause: cause.into(),
        status: outcome.code(),
        by_peer: false,
        sip_status: None,
        seconds,
        totals: None,
        heard: None,
        pcm: None,
        outcome,
    }
}

fn model(calls: Vec<CallShown>, trace: &VecDeque<Traced>) -> Model<'_> {
    let accounts = vec![(AccountId(0), "sip:alice@example.org".into(), true)];
    Model {
        accounts,
        calls,
        locals: vec!["127.0.0.1:5060".parse().unwrap()],
        seen: Vec::new(),
        trace,
        outside: None,
    }
}

fn ui(view: View) -> Ui {
    let dials = vec![Dial { name: "Bob".into(), uri: "sip:bob@example.org".into() }];
    let mut ui = Ui::new(dials, Some("/home/me/phone.toml".into()));
    ui.view = view;
    ui
}

/// An established call, with a crypto suite or in clear.
fn call(number: u64, srtp: Option<&'static str>, keys_in_clear: bool) -> CallShown {
    let media = Media {
        call: number,
        sent: 500,
        unsent: 0,
        received: 495,
        lost: 5,
        refused: 0,
        unknown: 0,
        strangers: 0,
        jitter_ms: 1.25,
        max_jitter_ms: 2.5,
        mean_delta_ms: 20.0,
        max_delta_ms: 31.5,
        mos: Some(4.2),
        round_trip_ms: None,
        far_loss_percent: None,
        far_jitter_ms: None,
        far_mos: None,
        mouth_to_ear_ms: None,
        flow: "both_ways",
    };
    let codec = "PCMU";
    let remote = String::new();
    let answered = Answered {
        call: number,
        codec,
        security: Security {
            srtp,
            keys: srtp.map(|_| "sdes"),
            keys_in_clear,
            ..Security::default()
        },
        remote,
        pcm_rate: None,
    };
    CallShown {
        number,
        party: format!("sip:bob{number}@example.org"),
        is_incoming: false,
        stage: Stage::Talking,
        seconds: 75,
        held_here: false,
        held_there: false,
        mutes: false,
        is_asked: false,
        local: None,
        remote: None,
        media: Some((answered, media)),
    }
}

fn buffer(ui: &Ui, model: &Model<'_>, (columns, rows): (u16, u16), theme: Theme) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, ui, model, theme)).unwrap();
    terminal.backend().buffer().clone()
}

fn shown(ui: &Ui, model: &Model<'_>, size: (u16, u16)) -> String {
    let buffer = buffer(ui, model, size, Theme::new(true));
    let rows = buffer.content().chunks(size.0.into());
    let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>());
    rows.map(|row| format!("{}\n", row.trim_end())).collect()
}

fn expect(screen: &str, texts: &[&str]) {
    texts.iter().for_each(|text| assert!(screen.contains(text), "no {text:?} in\n{screen}"));
}

const SUITE: Option<&str> = Some("AES_CM_128_HMAC_SHA1_80");

#[test]
fn a_call_says_how_secure_it_is_in_words() {
    let none = VecDeque::new();
    let ui = ui(View::Call);
    for size in [(80, 24), (40, 12)] {
        let screen = shown(&ui, &model(vec![call(1, None, false)], &none), size);
        expect(&screen, &["NOT SECURE: in clear"]);
        let screen = shown(&ui, &model(vec![call(1, SUITE, true)], &none), size);
        expect(&screen, &["partly secure: SRTP", "AES_CM_128_HMAC_SHA1_80", "keys came"]);
        let screen = shown(&ui, &model(vec![call(1, SUITE, false)], &none), size);
        expect(&screen, &["secure: SRTP", "AES_CM_128_HMAC_SHA1_80", "PCMU", "MOS"]);
        assert!(!screen.contains("partly") && !screen.contains("NOT"), "{screen}");
    }
}

#[test]
fn a_call_shows_its_figures_and_its_keys() {
    let none = VecDeque::new();
    let screen = shown(&ui(View::Call), &model(vec![call(1, SUITE, true)], &none), (80, 24));
    expect(
        &screen,
        &[
            "sip:bob1@example.org",
            "talking 01:15",
            "placed here",
            "sent 500, received 495, lost 5 (1.0 %)",
            "1.2 ms, at most 2.5 ms",
            "20.0 ms, at most 31.5 ms",
            "4.20 (good)",
            "SRTP+     none",
            " x  Hang up",
            " h  Hold",
            " m  Mute",
            " t  Transfer",
            " 0-9*#A-D  Tones",
        ],
    );
    assert!(!screen.contains("Swap") && !screen.contains("Answer"), "{screen}");
}

#[test]
fn of_several_calls_the_chosen_one_is_marked() {
    let none = VecDeque::new();
    let mut ui = ui(View::Call);
    let held = CallShown { held_here: true, mutes: true, ..call(1, SUITE, true) };
    let model = model(vec![held, call(2, None, true)], &none);
    let screen = shown(&ui, &model, (80, 24));
    expect(&screen, &["> sip:bob2", "  sip:bob1@example.org  talking 01:15, held here, muted"]);
    expect(&screen, &[" s  Swap", " j  Join others"]);
    ui.chosen = Some(1);
    let screen = shown(&ui, &model, (80, 24));
    expect(&screen, &["> sip:bob1", " h  Resume", " m  Unmute"]);
}

#[test]
fn the_keys_are_those_that_work() {
    let none = VecDeque::new();
    let mut ui = ui(View::Call);
    let act = |ui: &Ui, model: &Model<'_>, code: KeyCode| find(&bindings(ui, model), code.into());
    let ringing = CallShown { stage: Stage::RingingHere, media: None, ..call(1, None, false) };
    let ringing = model(vec![ringing], &none);
    assert_eq!(act(&ui, &ringing, KeyCode::Char('a')), Some(Act::Answer));
    assert_eq!(act(&ui, &ringing, KeyCode::Char('h')), None);
    let talking = model(vec![call(1, None, false)], &none);
    assert_eq!(act(&ui, &talking, KeyCode::Char('a')), None);
    assert_eq!(act(&ui, &talking, KeyCode::Char('5')), Some(Act::Press('5')));
    ui.view = View::Menu;
    assert_eq!(act(&ui, &talking, KeyCode::Char('1')), Some(Act::QuickDial(0)));
    assert_eq!(act(&ui, &talking, KeyCode::Char('2')), None);
    // Typed keys are text without other effects.
    ui.typing = Some(Typing::Dial);
    assert_eq!(act(&ui, &talking, KeyCode::Char('1')), None);
    assert_eq!(act(&ui, &talking, KeyCode::Char('q')), None);
    assert_eq!(act(&ui, &talking, KeyCode::F(2)), Some(Act::Show(View::Call)));
}

#[test]
fn the_menu_says_how_far_accounts_are_and_how_calls_ended() {
    let none = VecDeque::new();
    let mut ui = ui(View::Menu);
    ui.account = Some(AccountId(0));
    let model = model(Vec::new(), &none);
    expect(&shown(&ui, &model, (80, 24)), &["(x) sip:alice@example.org: registering", "1 Bob"]);
    let account = || "sip:alice@example.org".to_owned();
    ui.hear(&PhoneEvent::Registered { account: account(), seconds: 600 }, 0);
    expect(&shown(&ui, &model, (80, 24)), &["registered until", "(600 s)"]);
    let outcome = Outcome::Failed(String::new());
    let (cause, retry_seconds) = ("no answer".to_owned(), Some(30));
    ui.hear(
        &PhoneEvent::RegistrationFailed { account: account(), cause, retry_seconds, outcome },
        0,
    );
    for size in [(80, 24), (40, 12)] {
        expect(&shown(&ui, &model, size), &["not registered: no answer"]);
    }
    ui.hear(&PhoneEvent::Calling { call: 1, to: "sip:bob@example.org".into() }, 1);
    assert_eq!(ui.view, View::Call);
    let ended = ended(1, "486 Busy Here", None, Outcome::Busy("busy".into()));
    ui.hear(&ended, 0);
    assert_eq!(ui.view, View::Menu);
    for size in [(80, 24), (40, 12)] {
        expect(&shown(&ui, &model, size), &["sip:bob@example.org", "no answer  486", "486 Busy"]);
    }
}

#[test]
fn the_view_stays_where_one_types_when_a_call_comes() {
    let none = VecDeque::new();
    let mut ui = ui(View::Menu);
    ui.typing = Some(Typing::Dial);
    let from = "\"Bob\" <sip:bob@192.0.2.1>;tag=1".to_owned();
    ui.hear(&PhoneEvent::Incoming { call: 1, from, account: None }, 1);
    assert_eq!(ui.view, View::Menu);
    let stage = Stage::RingingHere;
    let model = model(vec![CallShown { stage, ..call(1, None, false) }], &none);
    let screen = shown(&ui, &model, (80, 24));
    expect(&screen, &["Bob <sip:bob@192.0.2.1> calls", " F2  Calls", "Call:"]);
}

#[test]
fn control_characters_of_peers_do_not_reach_the_terminal() {
    let address = "127.0.0.1:5060".parse().unwrap();
    let flow =
        Flow { transport: Transport::Udp, local: address, remote: address, connection: None };
    let mut trace = Trace::default();
    trace.note(false, flow, format!("INVITE {HOSTILE}").as_bytes());
    trace.note(false, flow, &[b'a', 0xff, 0x1b, b'[', 0xc2, 0x9b]);
    let mut ui = ui(View::Menu);
    ui.dials[0].name = HOSTILE.into();
    ui.hear(&PhoneEvent::Incoming { call: 1, from: HOSTILE.into(), account: None }, 1);
    ui.hear(&PhoneEvent::Refused { call: 2, from: HOSTILE.into(), cause: HOSTILE.into() }, 1);
    let hostile = CallShown { party: HOSTILE.into(), ..call(1, None, false) };
    let other = CallShown { number: 2, ..hostile.clone() };
    let mut model = model(vec![hostile, other], trace.messages());
    model.accounts[0].1 = HOSTILE.into();
    for view in [View::Login, View::Menu, View::Call, View::Network, View::Trace, View::Message] {
        ui.view = view;
        for size in [(80, 24), (40, 12), (7, 3), (1, 1), (300, 2)] {
            let buffer = buffer(&ui, &model, size, Theme::new(true));
            for cell in buffer.content() {
                let is_bad = |char: char| char.is_control() || char == '\u{202e}';
                assert!(!cell.symbol().contains(is_bad), "{view:?} {:?}", cell.symbol());
            }
        }
    }
}

#[test]
fn the_external_sip_port_is_shown_as_the_registrar_sees_it() {
    let none = VecDeque::new();
    let mut model = model(Vec::new(), &none);
    let text = |model: &Model<'_>| {
        let buffer = buffer(&ui(View::Network), model, (80, 24), Theme::new(false));
        buffer.content().iter().map(|cell| cell.symbol()).collect::<String>()
    };
    let has = |text: String, words: &str| text.contains(words);
    assert!(!has(text(&model), "203.0.113.5"));
    model.seen = vec![("sip:alice@example.org".into(), "203.0.113.5:40001".parse().unwrap())];
    assert!(has(text(&model), "203.0.113.5:40001, by sip:alice@example.org"));
}

#[test]
fn without_colours_words_carry_the_meaning() {
    let none = VecDeque::new();
    let model = model(vec![call(1, None, false)], &none);
    for (has_colours, count) in [(true, 1), (false, 0)] {
        let buffer = buffer(&ui(View::Call), &model, (80, 24), Theme::new(has_colours));
        let coloured = buffer.content().iter().filter(|cell| cell.fg != Color::Reset);
        assert_eq!(coloured.count().min(1), count);
    }
}

#[test]
fn the_trace_follows_new_messages_unless_it_is_scrolled() {
    let address = "192.0.2.7:5060".parse().unwrap();
    let flow =
        Flow { transport: Transport::Tcp, local: address, remote: address, connection: None };
    let mut trace = Trace::default();
    for number in 0..40 {
        let message = format!("OPTIONS sip:n{number} SIP/2.0\r\nTo: <sip:x>\r\n\r\n");
        trace.note(number % 2 == 0, flow, message.as_bytes());
    }
    let mut ui = ui(View::Trace);
    let screen = shown(&ui, &model(Vec::new(), trace.messages()), (80, 24));
    assert!(screen.contains("from tcp:192.0.2.7:5060 OPTIONS sip:n39 SIP/2.0"), "{screen}");
    ui.traced = Some(3);
    trace.note(true, flow, b"OPTIONS sip:new SIP/2.0\r\n\r\n");
    let model = model(Vec::new(), trace.messages());
    let screen = shown(&ui, &model, (80, 24));
    assert!(screen.contains("OPTIONS sip:n2 ") && !screen.contains("sip:new"), "{screen}");
    ui.view = View::Message;
    expect(&shown(&ui, &model, (80, 24)), &["OPTIONS sip:n2 SIP/2.0\nTo: <sip:x>\n"]);
    expect(&shown(&ui, &model, (20, 24)), &["OPTIONS sip:n2 SIP/2\n.0\nTo: <sip:x>\n"]);
}
