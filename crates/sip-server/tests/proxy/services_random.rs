//! Random calls with call services, and random answers: each call gets one final response, and
//! nothing is left.

use crate::bench::{Bench, config, udp};
use barebell_sip_server::{CallServices, Config, Group, Strategy};
use proptest::prelude::{Strategy as Generator, any, prop_assert, proptest};
use sip::Duration;
use std::collections::BTreeSet;

const USERS: [&str; 4] = ["bob", "carol", "dave", "erin"];
const NAMES: [&str; 6] = ["bob", "carol", "dave", "erin", "sales", "nobody"];

fn target() -> impl Generator<Value = Option<String>> {
    let name = proptest::sample::select(&NAMES[..]).prop_map(|name| format!("{name}@example.com"));
    proptest::option::of(name)
}

fn services() -> impl Generator<Value = CallServices> {
    let flags = (proptest::bool::weighted(0.2), proptest::bool::weighted(0.2));
    ((target(), target(), target(), target()), flags, 1_u64..30).prop_map(
        |((always, busy, no_answer, unreachable), (is_always, do_not_disturb), seconds)| {
            CallServices {
                always: always.filter(|_| is_always),
                busy,
                no_answer,
                no_answer_after: Duration::from_secs(seconds),
                unreachable,
                do_not_disturb,
            }
        },
    )
}

fn group() -> impl Generator<Value = Group> {
    let strategies = vec![Strategy::Together, Strategy::InTurn, Strategy::RoundRobin];
    let members = proptest::collection::vec(proptest::sample::select(&NAMES[..4]), 0..4);
    (members, proptest::sample::select(strategies), target(), any::<bool>()).prop_map(
        |(members, strategy, fallback, forwards)| Group {
            name: "sales@example.com".into(),
            members: members.iter().map(|name| format!("{name}@example.com")).collect(),
            strategy,
            timeout: Duration::from_secs(9),
            fallback,
            forwards,
        },
    )
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The phone at this place of those that ring responds.
    Respond(usize, u16),
    Redirect(usize, &'static str),
    Wait(u64),
    Cancel,
}

fn step() -> impl Generator<Value = Step> {
    let status =
        proptest::sample::select(vec![100, 180, 180, 200, 404, 408, 480, 486, 503, 600, 603]);
    let name = proptest::sample::select(&NAMES[..]);
    proptest::prop_oneof![
        6 => (0_usize..4, status).prop_map(|(place, status)| Step::Respond(place, status)),
        1 => (0_usize..4, name).prop_map(|(place, name)| Step::Redirect(place, name)),
        4 => (1_u64..40_000).prop_map(Step::Wait),
        1 => proptest::strategy::Just(Step::Cancel),
    ]
}

/// The state of a call, from the messages of the server.
#[derive(Default)]
struct Watch {
    ringing: BTreeSet<String>,
    cancelled: BTreeSet<String>,
    /// The statuses of final responses to the INVITE, without repetitions.
    finals: Vec<u16>,
    invites: usize,
}

impl Watch {
    fn note(&mut self, notes: &[String]) {
        for note in notes {
            let mut words = note.split(' ').rev();
            let (what, end) = (words.next().unwrap(), words.next().unwrap());
            match (end, what) {
                ("alice", status) => {
                    let status: u16 = status.parse().unwrap();
                    if status >= 200 && self.finals.last() != Some(&status) {
                        self.finals.push(status);
                    }
                }
                (end, "INVITE") => {
                    self.invites += usize::from(self.ringing.insert(end.into()));
                }
                (end, "CANCEL") => drop(self.cancelled.insert(end.into())),
                _ => {}
            }
        }
    }

    fn respond(&mut self, bench: &mut Bench, end: &str, status: u16, lines: &str) {
        let notes = bench.respond(end, "INVITE", status, lines);
        if status >= 200 {
            // A phone may ring again only for another call.
            self.ringing.remove(end);
        }
        self.note(&notes);
    }
}

proptest! {
    #[test]
    fn each_call_gets_one_final_response(
        all in proptest::collection::vec((services(), any::<bool>()), 4),
        group in group(),
        called in proptest::sample::select(&NAMES[..5]),
        steps in proptest::collection::vec(step(), 1..25),
    ) {
        let mut bench = Bench::new(Config { groups: vec![group], ..config() });
        for (number, (user, (services, is_registered))) in USERS.into_iter().zip(all).enumerate() {
            let name = format!("{user}@example.com");
            let ha1 = sip::digest::Ha1Set::new(user.as_bytes(), b"example.com", b"x");
            bench.server.add_user(name.as_bytes(), ha1);
            bench.server.set_call_services(name.as_bytes(), services);
            let address = format!("192.0.2.{}:5060", 30 + number);
            bench.end(user, udp(&address));
            if is_registered {
                bench.register(user, user, &format!("<sip:{user}@{address}>"));
            }
        }
        let uri = format!("sip:{called}@example.com");
        let invite = bench.request("INVITE", &uri, "alice", "alice", &uri);
        let mut watch = Watch::default();
        let notes = bench.receive("alice", &invite);
        watch.note(&notes);
        let mut is_cancelled = false;
        for step in steps {
            if !watch.finals.is_empty() {
                break;
            }
            let nth = |watch: &Watch, place: usize| watch.ringing.iter().nth(place).cloned();
            match step {
                Step::Respond(place, status) => {
                    if let Some(end) = nth(&watch, place) {
                        watch.respond(&mut bench, &end, status, "");
                    }
                }
                Step::Redirect(place, name) => {
                    if let Some(end) = nth(&watch, place) {
                        let contact = format!("Contact: <sip:{name}@example.com>\r\n");
                        watch.respond(&mut bench, &end, 302, &contact);
                    }
                }
                Step::Wait(millis) => {
                    let notes = bench.wait(millis);
                    watch.note(&notes);
                }
                Step::Cancel if !is_cancelled => {
                    is_cancelled = true;
                    let notes = bench.follow("CANCEL");
                    // The first one is the response to the CANCEL.
                    watch.note(&notes[1..]);
                }
                Step::Cancel => {}
            }
        }
        while watch.finals.is_empty() && let Some(end) = watch.ringing.first().cloned() {
            let status = if watch.cancelled.contains(&end) { 487 } else { 486 };
            watch.respond(&mut bench, &end, status, "");
        }
        let notes = bench.wait(400_000);
        watch.note(&notes);
        prop_assert!(watch.finals.len() == 1, "{:?}", watch.finals);
        prop_assert!(watch.invites <= USERS.len());
        prop_assert!(bench.server.transactions() == 0 && bench.server.transaction_bytes() == 0);
    }
}
