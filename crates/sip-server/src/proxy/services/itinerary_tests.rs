//! The itinerary against a house of users and groups that are made at random.

use super::*;
use crate::core::flow::Flow;
use crate::core::next_hop::NextHop;
use crate::core::settings::Settings;
use crate::proxy::target::Target;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use proptest::prelude::{Strategy as Generator, any, prop_assert, prop_assert_eq, proptest};
use sip::Transport;

/// Users and groups by name. A user has one phone for each number.
#[derive(Clone, Debug, Default)]
struct Town {
    users: BTreeMap<String, (CallServices, usize)>,
    groups: BTreeMap<String, Group>,
    /// The forwarders of calls, in order.
    forwarders: Vec<Option<String>>,
}

impl Directory for Town {
    fn resolve(&mut self, name: &[u8], forwarder: Option<&[u8]>) -> Found {
        let name = core::str::from_utf8(name).unwrap();
        let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
        self.forwarders.push(forwarder.map(text));
        if let Some(group) = self.groups.get(name) {
            return Found::Group(group.clone(), 0);
        }
        let Some((services, phones)) = self.users.get(name) else { return Found::Unknown };
        let services = (!services.is_empty()).then(|| Arc::new(services.clone()));
        Found::User(services, (0..*phones).map(|phone| target(name, phone)).collect())
    }
}

fn target(user: &str, phone: usize) -> Target {
    let flow = Flow {
        transport: Transport::Udp,
        local: "192.0.2.1:5060".parse().unwrap(),
        remote: "192.0.2.2:5060".parse().unwrap(),
        connection: None,
    };
    let uri = format!("sip:{user}-{phone}");
    Target {
        uri: SmallVec::from_slice(uri.as_bytes()),
        path: Vec::new(),
        next_hop: NextHop::Flow(flow),
        q: 500,
        flow_bound: true,
        origin: Settings::new(crate::Config::default()).scope_of(&flow),
        is_registered: true,
        keying: None,
        takes_digits: false,
        detour: None,
        flows: None,
        #[cfg(feature = "office")]
        asleep: None,
        retargeted: None,
        takeover: None,
    }
}

fn forwards(set: impl FnOnce(&mut CallServices)) -> CallServices {
    let mut services = CallServices::default();
    set(&mut services);
    services
}

fn town(users: &[(&str, CallServices, usize)], groups: &[Group]) -> Town {
    let user = |(name, services, phones): &(&str, CallServices, usize)| {
        ((*name).to_string(), (services.clone(), *phones))
    };
    Town {
        users: users.iter().map(user).collect(),
        groups: groups.iter().map(|group| (group.name.clone(), group.clone())).collect(),
        forwarders: Vec::new(),
    }
}

fn group(name: &str, members: &[&str], strategy: Strategy, fallback: Option<&str>) -> Group {
    Group {
        name: name.into(),
        members: members.iter().map(ToString::to_string).collect(),
        strategy,
        timeout: Duration::from_secs(15),
        fallback: fallback.map(Into::into),
        forwards: false,
    }
}

/// The phones that ring, stage by stage, after these outcomes of the stages.
fn rung(town: &mut Town, called: &str, outcomes: &[Outcome]) -> Vec<String> {
    let (mut itinerary, counters) = (Itinerary::new(called.as_bytes()), Counters::default());
    let mut outcomes = outcomes.iter();
    let mut stages = Vec::new();
    loop {
        let stage = itinerary.lead(town, &counters);
        if stage.targets.is_empty() {
            let failures = stage.failures.iter().map(|status| status.code().to_string());
            stages.extend(failures);
            return stages;
        }
        let uris: Vec<_> =
            stage.targets.iter().map(|it| String::from_utf8_lossy(&it.uri)).collect();
        let seconds = stage.timeout.map_or(0, |timeout| timeout.as_secs());
        stages.push(format!("{} {seconds}", uris.join(" ").replace("sip:", "")));
        let Some(outcome) = outcomes.next() else { return stages };
        if !itinerary.decide(outcome.clone(), &counters) {
            stages.push("end".into());
            return stages;
        }
    }
}

#[test]
fn a_forward_replaces_the_user_or_follows_the_phones() {
    let to = |target: &str| Some(target.to_string());
    let mut town = town(
        &[
            ("plain", forwards(|_| ()), 1),
            ("always", forwards(|it| it.always = to("plain")), 1),
            ("busy", forwards(|it| it.busy = to("plain")), 2),
            (
                "silent",
                forwards(|it| {
                    it.no_answer = to("plain");
                    it.no_answer_after = Duration::from_secs(7);
                }),
                1,
            ),
            ("absent", forwards(|it| it.unreachable = to("plain")), 0),
            ("away", forwards(|it| it.no_answer = to("plain")), 0),
            ("quiet", forwards(|it| it.do_not_disturb = true), 1),
            (
                "secretary",
                forwards(|it| {
                    it.do_not_disturb = true;
                    it.busy = to("plain");
                }),
                1,
            ),
        ],
        &[],
    );
    let mut rung = |called: &str, outcomes: &[Outcome]| rung(&mut town, called, outcomes);
    assert_eq!(rung("plain", &[Outcome::Busy]), ["plain-0 0", "end"]);
    assert_eq!(rung("always", &[]), ["plain-0 0"]);
    assert_eq!(rung("busy", &[Outcome::Busy]), ["busy-0 busy-1 0", "plain-0 0"]);
    assert_eq!(rung("busy", &[Outcome::NoAnswer]), ["busy-0 busy-1 0", "end"]);
    assert_eq!(rung("silent", &[Outcome::NoAnswer]), ["silent-0 7", "plain-0 0"]);
    assert_eq!(rung("silent", &[Outcome::Unreachable]), ["silent-0 7", "plain-0 0"]);
    assert_eq!(rung("silent", &[Outcome::Failed]), ["silent-0 7", "end"]);
    assert_eq!(rung("absent", &[]), ["plain-0 0"]);
    assert_eq!(rung("away", &[]), ["plain-0 0"], "without a phone there is no answer");
    assert_eq!(rung("quiet", &[]), ["480"]);
    assert_eq!(rung("secretary", &[]), ["plain-0 0"]);
    assert_eq!(rung("nobody", &[]), ["404"]);
    let deflected = Outcome::Deflected(b"busy"[..].into());
    assert_eq!(rung("plain", &[deflected]), ["plain-0 0", "busy-0 busy-1 0"]);
}

#[test]
fn loops_of_forwards_end() {
    let always = |target: &str| forwards(|it| it.always = Some(target.into()));
    let busy = |target: &str| forwards(|it| it.busy = Some(target.into()));
    let mut town = town(
        &[
            ("a", always("b"), 1),
            ("b", always("a"), 1),
            ("self", always("self"), 1),
            ("c", busy("d"), 1),
            ("d", busy("c"), 1),
        ],
        &[
            group("g", &["c"], Strategy::InTurn, Some("h")),
            group("h", &[], Strategy::InTurn, Some("g")),
        ],
    );
    let mut rung = |called: &str, outcomes: &[Outcome]| rung(&mut town, called, outcomes);
    assert_eq!(rung("a", &[]), ["482"]);
    assert_eq!(rung("self", &[]), ["482"]);
    let busy = [Outcome::Busy, Outcome::Busy, Outcome::Busy];
    assert_eq!(rung("c", &busy), ["c-0 0", "d-0 0", "end"]);
    assert_eq!(rung("g", &busy), ["c-0 15"], "both groups are over");
}

#[test]
fn a_chain_of_forwards_ends() {
    let names: Vec<String> = (0..9).map(|number| format!("u{number}")).collect();
    let users: Vec<_> = (0..8)
        .map(|at| {
            let next = names[at + 1].clone();
            (names[at].as_str(), forwards(|it| it.always = Some(next)), 1)
        })
        .collect();
    assert_eq!(rung(&mut town(&users, &[]), "u0", &[]), ["482"]);
    let users = &users[8 - MAX_FORWARDS..];
    let mut last = town(users, &[]);
    last.users.insert("u8".into(), (forwards(|_| ()), 1));
    assert_eq!(rung(&mut last, users[0].0, &[]), ["u8-0 0"]);
    let expected: Vec<_> =
        core::iter::once(None).chain(users.iter().map(|user| Some(user.0.to_string()))).collect();
    assert_eq!(last.forwarders, expected, "each forward is charged to its user");
}

#[test]
fn the_members_of_a_group_ring_together_or_in_turn() {
    let users = [
        ("a", forwards(|_| ()), 1),
        ("b", forwards(|it| it.busy = Some("x".into())), 2),
        ("off", forwards(|_| ()), 0),
        ("quiet", forwards(|it| it.do_not_disturb = true), 1),
        ("x", forwards(|_| ()), 1),
        ("moved", forwards(|it| it.always = Some("x".into())), 1),
    ];
    let members = ["off", "a", "quiet", "b", "nobody"];
    let mut groups = [
        group("all", &members, Strategy::Together, Some("x")),
        group("turn", &members, Strategy::InTurn, Some("x")),
        group("none", &["off", "quiet"], Strategy::Together, Some("turn")),
        group("last", &["off"], Strategy::InTurn, None),
        group("moved-turn", &["moved", "a"], Strategy::InTurn, None),
        group("moved-all", &["moved", "a", "x"], Strategy::Together, None),
    ];
    let (busy, silent) = (Outcome::Busy, Outcome::NoAnswer);
    let mut town = town(&users, &groups);
    let both = [busy.clone(), silent.clone(), silent.clone()];
    assert_eq!(rung(&mut town, "all", &both[1..2]), ["a-0 b-0 b-1 15", "x-0 0"]);
    let in_turn = ["a-0 15", "b-0 b-1 15", "x-0 0", "end"];
    assert_eq!(rung(&mut town, "turn", &both), in_turn);
    assert_eq!(rung(&mut town, "none", &both), in_turn);
    assert_eq!(rung(&mut town, "last", &[]), ["480"]);
    // Without `forwards` the phones of a member ring, whatever its forwards.
    assert_eq!(rung(&mut town, "moved-turn", &[]), ["moved-0 15"]);
    let deflected = Outcome::Deflected(b"x"[..].into());
    assert_eq!(rung(&mut town, "moved-turn", &[deflected]), ["moved-0 15", "a-0 15"]);
    groups.iter_mut().for_each(|group| group.forwards = true);
    town.groups = groups.iter().map(|group| (group.name.clone(), group.clone())).collect();
    assert_eq!(rung(&mut town, "moved-turn", &both[1..2]), ["x-0 15", "a-0 15"]);
    assert_eq!(rung(&mut town, "moved-all", &[]), ["x-0 a-0 15"]);
    let busy_twice = [silent, busy.clone(), busy];
    assert_eq!(rung(&mut town, "turn", &busy_twice), ["a-0 15", "b-0 b-1 15", "x-0 15", "404"]);
}

const NAMES: [&str; 6] = ["a", "b", "c", "g", "h", "nobody"];

fn name() -> impl Generator<Value = Option<String>> {
    proptest::option::of(proptest::sample::select(&NAMES[..]).prop_map(String::from))
}

fn any_services() -> impl Generator<Value = CallServices> {
    (name(), name(), name(), name(), any::<bool>()).prop_map(
        |(always, busy, no_answer, unreachable, do_not_disturb)| CallServices {
            always,
            busy,
            no_answer,
            unreachable,
            do_not_disturb,
            ..CallServices::default()
        },
    )
}

fn any_group(name: &'static str) -> impl Generator<Value = Group> {
    let members = proptest::collection::vec(proptest::sample::select(&NAMES[..]), 0..5);
    let order = proptest::sample::select(vec![Strategy::Together, Strategy::InTurn]);
    (members, order, self::name(), any::<bool>()).prop_map(
        move |(members, strategy, fallback, forwards)| Group {
            fallback,
            forwards,
            ..group(name, &members, strategy, None)
        },
    )
}

fn any_outcome() -> impl Generator<Value = Outcome> {
    proptest::sample::select(vec![
        Outcome::Busy,
        Outcome::NoAnswer,
        Outcome::Unreachable,
        Outcome::Deflected(b"a"[..].into()),
        Outcome::Failed,
    ])
}

proptest! {
    #[test]
    fn each_call_ends_and_no_phone_rings_twice(
        services in proptest::collection::vec((any_services(), 0_usize..3), 3),
        groups in (any_group("g"), any_group("h")),
        outcomes in proptest::collection::vec(any_outcome(), 16),
        called in proptest::sample::select(&NAMES[..]),
    ) {
        let users: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .zip(services)
            .map(|(name, (services, phones))| (name, services, phones))
            .collect();
        let mut town = town(&users, &[groups.0, groups.1]);
        let stages = rung(&mut town, called, &outcomes);
        prop_assert!(stages.len() <= NAMES.len() + 1, "{stages:?}");
        prop_assert!(town.forwarders.len() <= NAMES.len(), "a name is led to twice");
        let mut phones: Vec<_> = stages
            .iter()
            .flat_map(|stage| stage.split(' '))
            .filter(|phone| phone.contains('-'))
            .collect();
        let count = phones.len();
        phones.sort_unstable();
        phones.dedup();
        prop_assert_eq!(phones.len(), count, "{:?}", stages);
    }
}
